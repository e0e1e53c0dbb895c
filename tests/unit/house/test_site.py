"""A built site has no link to nowhere, sources link to the place of a name, and formulas keep what follows them."""

from __future__ import annotations

import runpy

import pytest

from helpers.places import ROOT

DEAD = runpy.run_path(str(ROOT / ".ci" / "check_site.py"))["dead"]
BREAK_NAMES = runpy.run_path(str(ROOT / "docs" / "_ext" / "names.py"))["break_names"]


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("b.html", 0), ("b.html#place", 0), ("#here", 0), ("https://example.org/x", 0), ("folder/", 0),
        ("c.html", 1), ("b.html#nowhere", 1), ("#nowhere", 1), ("folder/d.html", 1),
    ],
)  # fmt: skip
def test_dead_links_are_found(tmp_path, link, found):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">words</a>')
    (tmp_path / "b.html").write_text('<p id="place">')
    assert len(DEAD(tmp_path)) == found


@pytest.mark.parametrize("name", ["ndis.DPSGD", "ndis.dpsgd.EpochRow", "ndis.mechanisms.gram.GramRelease"])
@pytest.mark.parametrize("member", ["", ".epsilon"])
def test_sources_link_to_the_place_of_a_name(name, member):
    short = name.rpartition(".")[2]
    link = f'<a href="../reference/generated/{name}.html#PLACE{member}">'
    context = {"body": link.replace("PLACE", f"ndis.{short}")}
    BREAK_NAMES(None, "_modules/ndis/x", "", context, None)
    assert context["body"] == link.replace("PLACE", name)


def test_a_comma_moves_to_the_formula_before_it_and_no_other_text_changes():
    """An equal text may stand earlier in the paragraph: its comma was lost, and the formula had two."""
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("latex2mathml")
    formula = nodes.math("", "x")
    words = [nodes.literal("", "a"), nodes.Text(", "), formula, nodes.Text(", "), nodes.literal("", "b")]
    page = nodes.paragraph("", "", *words)
    runpy.run_path(str(ROOT / "docs" / "_ext" / "mathml.py"))["join_tails"](None, page, "")
    assert formula["tail"] == ","
    assert [each.astext() for each in page.children] == ["a", ", ", "x", " ", "b"]
