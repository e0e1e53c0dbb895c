"""δ(ε) of pairs given by dense moments against two tables of 18 and more digits.

``data/dense_cases.json`` is made by ``make_dense_cases.py``; ``data/given_dense_cases.json`` came with the project.
"""

import json
import math
from pathlib import Path

import pytest
from mpmath import mp, mpf

import ndis

DATA = Path(__file__).parent / "data"
TINIEST = mpf("1e-300")  # below this a float64 no longer carries full precision; the logarithm must


def table():
    made = json.loads((DATA / "dense_cases.json").read_text())["cases"]
    given = json.loads((DATA / "given_dense_cases.json").read_text())
    for i, case in enumerate(given):
        case["id"] = f"given-{i:02d}-{case['kind']}"
        with mp.workdps(40):
            case["log_delta"] = mp.nstr(mp.log(mpf(case["delta"])), 25)
            case["log_complement"] = mp.nstr(mp.log1p(-mpf(case["delta"])), 25)
    return made + given


CASES = table()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


def pair_of(case):
    return ndis.GaussianPair.from_moments(case["mean_p"], case["cov_p"], case["mean_q"], case["cov_q"])


def story(case, name, got, want):
    inputs = {key: case[key] for key in ("mean_p", "cov_p", "mean_q", "cov_q", "epsilon", "condition")}
    return f"{case['id']}: {name} is {got!r}, should be {want}\n    inputs: {json.dumps(inputs)[:4000]}"


@each_case
def test_values(case):
    pair, epsilon, wrong = pair_of(case), case["epsilon"], []
    with mp.workdps(40):
        for name in ("delta", "log_delta", "log_complement"):
            got, want = float(getattr(pair, name)(epsilon)), mpf(case[name])
            log_value = mpf(case["log_complement" if name == "log_complement" else "log_delta"])
            if mp.isinf(want):
                good, error, allowed = got == -math.inf, mp.inf, mpf(0)
            else:
                spread = 2e-15 * case["condition"]
                allowed = 1e-12 * (1 + abs(log_value)) + spread
                if name == "delta":
                    allowed = allowed * want if want > TINIEST else mpf("1e-308")
                error = abs(mpf(got) - want) if math.isfinite(got) else mp.inf
                good = error <= allowed
            if not good:
                wrong.append(
                    f"{story(case, name, got, want)}\n    error {mp.nstr(error, 3)}, allowed {mp.nstr(allowed, 3)}"
                )
    assert not wrong, "\n".join(wrong)


@each_case
def test_certificate_encloses_the_reference(case):
    enclosure = pair_of(case).certify(case["epsilon"])
    with mp.workdps(40):
        delta = mpf(case["delta"])
        # The last digit printed may be rounded either way: 25 digits in our table, 18 in the given one.
        slack = delta * mpf("1e-16" if case["id"].startswith("given") else "1e-23")
        lower, upper = mpf(enclosure.lower), mpf(enclosure.upper)
        assert lower <= delta + slack, story(case, "certify", (enclosure.lower, enclosure.upper), delta)
        assert delta - slack <= upper, story(case, "certify", (enclosure.lower, enclosure.upper), delta)
        if delta > TINIEST:
            width = (upper - lower) / delta
            assert width <= 1e-10, (
                story(case, "certify", (enclosure.lower, enclosure.upper), delta)
                + f"\n    relative width {mp.nstr(width, 3)}"
            )
        else:
            assert upper <= 1e-299, story(case, "certify", (enclosure.lower, enclosure.upper), delta)
