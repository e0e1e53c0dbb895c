"""Known faults: each is refuted with a certificate from its domain alone, and its repaired twin is not."""

from __future__ import annotations

import re
import runpy

import pytest

from helpers.cases import quick
from helpers.places import ROOT

BATTERY = runpy.run_path(str(ROOT / "examples" / "known_faults.py"))["FAULTS"]
FAULTS = {fault.name: fault for fault in BATTERY}
# audits of these take 2 s and more each
LONG = ("norm", "intercept", "hidden-ridge", "posterior", "target", "replace-one", "least-squares")
# Nobody is convicted wrongly: each way to choose noise once, and each adjacency
TWINS = ("count", "mean-for-sum", "triangle", "standardised", "large-tables", "replace-one")
PAGE = (ROOT / "docs" / "known-faults.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", quick(FAULTS, set(FAULTS) - set(LONG)))
def test_the_fault_is_refuted_with_a_certificate(name):
    fault = FAULTS[name]
    report = fault.audit(fault.faulty)
    assert report.refuted
    assert report.witness.recheck().lower > report.claim.delta


@pytest.mark.parametrize("name", quick(FAULTS, TWINS))
def test_the_repaired_twin_is_not(name):
    fault = FAULTS[name]
    report = fault.audit(fault.repaired)
    assert not report.refuted
    assert not report.undecided


def test_the_page_lists_every_fault():
    assert re.findall(r"^\| `([\w-]+)` \| (.*?) \|", PAGE, re.MULTILINE) == [(f.name, f.words) for f in FAULTS.values()]
