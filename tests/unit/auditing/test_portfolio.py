"""Several audits on one page."""

from __future__ import annotations

import pytest

from helpers.audits import CLAIM, sketch
from helpers.pages import text_of
from ndis.auditing import audit, portfolio
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)


def test_a_portfolio_lists_all_audits():
    reports = [
        audit(CLAIM, pairs=[SHIFT], title="Alpha", data_name="a.csv"),
        audit(CLAIM, pairs=[GaussianPair.from_ratios(1.01)], title="Beta"),
        audit(CLAIM, mechanism=sketch(), title="<b>Gamma</b>"),
    ]
    found = portfolio(reports, title="Autumn")
    page = found.to_html()
    text = text_of(page)
    assert "3 audits: 1 claim refuted, 1 proved, 1 not refuted." in text
    headings = {"refuted": "The claim is false", "proved": "The claim is proved", "open": "Not refuted"}
    for kind, heading in headings.items():
        assert page.count(f'<span class="badge {kind}">{heading}</span>') == 1
    assert "<b>Gamma" not in page
    assert page.count("<svg") >= 3
    assert page.index("Confidential.") < page.index("<h1>Autumn</h1>")
    assert "<iframe" in found._repr_html_()
    for bad in ([], [3]):
        with pytest.raises(ParameterError, match="at least one AuditReport"):
            portfolio(bad)


def test_a_portfolio_is_saved_as_a_page(tmp_path):
    found = portfolio([audit(CLAIM, pairs=[SHIFT])])
    found.save(tmp_path / "all.html")
    assert (tmp_path / "all.html").read_text(encoding="utf-8") == found.to_html()
    with pytest.raises(ParameterError, match=r"end in \.html"):
        found.save(tmp_path / "all.json")
