"""The report of a ledger."""

from __future__ import annotations

import json

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
