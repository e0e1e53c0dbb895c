"""Tails and densities of generalized chi-square variables against two tables of 20 and more digits.

``data/genchi2_cases.json`` is made by ``make_genchi2_cases.py``; ``data/given_genchi2_cases.json`` came with the
project.
"""

import json
import math
from pathlib import Path

import pytest
from mpmath import mp, mpf

import ndis

DATA = Path(__file__).parent / "data"
INPUTS = ("weights", "dof", "noncentrality", "sigma", "shift", "x")
TINIEST = mpf("1e-300")  # below this a float64 no longer carries full precision; the logarithm must


def table():
    made = json.loads((DATA / "genchi2_cases.json").read_text())["cases"]
    given = json.loads((DATA / "given_genchi2_cases.json").read_text())["cases"]
    renamed = {"lambda": "weights", "nu": "dof", "ncp": "noncentrality", "kappa": "shift"}
    for case in given:
        case |= {new: case.pop(old) for old, new in renamed.items()}
        case["id"] = f"given-{case['id']}"
        small, large = ("sf", "cdf") if case["small_tail"] == "sf" else ("cdf", "sf")
        with mp.workdps(40):
            case["log" + small] = case["log_small_tail"]
            case["log" + large] = mp.nstr(mp.log1p(-mpf(case[small])), 30)
    return made + given


CASES = table()
NAMES = ("cdf", "sf", "logcdf", "logsf", "pdf", "logpdf")


VALUES = [(case, name) for case in CASES for name in NAMES if name in case]  # the given table has no densities


@pytest.mark.parametrize(("case", "name"), VALUES, ids=[f"{case['id']}-{name}" for case, name in VALUES])
# Checks thm:genchi2-contour.
def test_value(case, name):
    law = ndis.GeneralizedChiSquare(
        case["weights"], case["dof"], case["noncentrality"], sigma=case["sigma"], shift=case["shift"]
    )
    got = float(getattr(law, name)(case["x"]))
    with mp.workdps(40):
        want = mpf(case[name])
        log_value = mpf(case["log" + name.removeprefix("log")])
        relative = 1e-12 * (1 + abs(log_value))
        if mp.isinf(want):
            allowed, error = mpf(0), mpf(0) if got == -math.inf else mp.inf
        else:
            error = abs(mpf(got) - want) if math.isfinite(got) else mp.inf
            if name.startswith("log"):
                allowed = relative
            elif want > TINIEST or want == 0:
                allowed = relative * want if want else mpf(0)
            else:
                allowed = mpf("1e-308")
        inputs = json.dumps({key: case[key] for key in INPUTS})
        assert error <= allowed, (
            f"{case['id']}: {name} is {got!r}, should be {mp.nstr(want, 25)}; error {mp.nstr(error, 3)}, "
            f"allowed {mp.nstr(allowed, 3)}\n    inputs: {inputs}"
        )
