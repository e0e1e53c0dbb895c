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
