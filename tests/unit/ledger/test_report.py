"""The report of a ledger."""

from __future__ import annotations

import json
import re

import pytest

import ndis


def test_the_report_has_no_private_value_and_escapes_names(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(
        tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"<b>a</b>": (mechanism, 2)}, data_name="<script>x</script>"
    )
    secret = 123456.789
    release = ledger.release("<b>a</b>", mechanism, secret)
    report = ledger.report()
    page, text = report.to_html(), report.to_json()
    for private in (str(secret), repr(float(release.values)), str(float(release.values))[:8]):
        assert private not in page
        assert private not in text
    assert "<script" not in page
    assert "<b>a</b>" not in page
    found = json.loads(text)
    assert found["remaining"] == {"<b>a</b>": 1}
    assert found["entries"][0]["state"] == "released"
    whole = mechanism.profile().repeat(2)
    row = found["curve"][40]
    assert row["remove"] == pytest.approx(whole.delta(row["epsilon"], order="remove"), rel=1e-9)


def test_the_page_is_for_people(tmp_path):
    """Times to the minute, names at the axes, and a label at every cell for narrow screens."""
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)})
    ledger.release("a", mechanism, 1.0)
    page = ledger.report().to_html()
    assert re.search(r"Made [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} \(UTC\)\.", page)
    assert not re.search(r"[0-9]{2}:[0-9]{2}:[0-9]{2}", page)
    assert [f">{name}</text>" in page for name in "εδ"] == [True, True]
    head = re.findall(r'<th scope="col">([^<]*)</th>', page.split("<h2>Releases</h2>")[1])
    assert re.findall(r'data-label="([^"]*)"', page) == head


def test_a_closed_ledger_allows_nothing_and_says_so(tmp_path):
    """Slots that were not used are no release that may still come."""
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    for kind, budget in (("plan", {"plan": {"a": (mechanism, 2)}}), ("shifts", {"kind": "shifts"})):
        ledger = ndis.Ledger.create(tmp_path / f"{kind}.db", epsilon=3.0, delta=1e-6, **budget)
        assert "More may be released" in ledger.report().to_html()
        assert ledger.report().to_dict()["renewed"] is False
        ledger.renew(tmp_path / f"{kind}-2.db", epsilon=3.0, delta=1e-6, **budget)
        page = ledger.report().to_html()
        assert "Nothing more may be released" in page
        assert "More may be released" not in page
        assert ("2 planned releases of 2 were not used" in page) == (kind == "plan")
        assert ledger.report().to_dict()["renewed"] is True


def test_stated_numbers_are_short_and_never_smaller(tmp_path):
    mechanism = ndis.GaussianMechanism.with_noise(noise_std=20.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)})
    ledger.release("a", mechanism, 1.0)
    page = ledger.report().to_html()
    shown = re.findall(r'data-label="stated ε"><span[^>]*>([0-9.]+)</span>', page)
    assert shown == ["0.1893"]
    assert float(shown[0]) >= mechanism.target_epsilon
    assert not re.search(r">[^<]*[0-9]{9}", page.split("<h2>Releases</h2>")[1].split("</table>")[0])


def test_a_release_that_never_came_is_explained(tmp_path):
    """A steward reads that its process was stopped, or still runs, and that it counts."""
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)})
    ledger.release("a", mechanism, 1.0)
    words = "not released: counts as spent; its process runs or was stopped"
    assert words not in ledger.report().to_html()
    ledger.reserve("a", mechanism)
    assert f"reserved, {words}" in ledger.report().to_html()


def test_a_report_is_saved_and_shown_like_every_page(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=3.0, delta=1e-6, kind="shifts")
    report = ledger.report()
    report.save(tmp_path / "budget.html")
    report.save(tmp_path / "budget.json")
    assert (tmp_path / "budget.html").read_text(encoding="utf-8") == report.to_html()
    assert json.loads((tmp_path / "budget.json").read_text(encoding="utf-8")) == report.to_dict()
    assert report._repr_html_().startswith("<iframe")
    with pytest.raises(ndis.errors.NdisError, match="exist"):
        report.save(tmp_path / "budget.html", new=True)
