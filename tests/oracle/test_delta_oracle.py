"""δ(ε), its logarithms, its certificate and its inverse against two tables of 20 and more digits.

``data/delta_cases.json`` is made by ``make_delta_cases.py``; ``data/given_delta_cases.json`` came with the project.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import ndis

DATA = Path(__file__).parent / "data"
TINIEST = mpf("1e-300")  # below this a float64 no longer carries full precision; the logarithm must


def expand(field):
    """A list, or a grid of exact dyadic numbers: (first + step·(i·multiplier mod count))/2^bits."""
    if not isinstance(field, dict):
        return np.asarray(field, float)
    index = (np.arange(field["count"]) * field["multiplier"]) % field["count"]
    return np.ldexp(float(field["first"]) + field["step"] * index, -field["bits"])


def table():
    made = json.loads((DATA / "delta_cases.json").read_text())["cases"]
    given = json.loads((DATA / "given_delta_cases.json").read_text())
    for i, case in enumerate(given):
        case["id"] = f"given-{i:02d}-{case['kind']}"
    return made + given


CASES = table()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


def pair_of(case):
    ratio = expand(case["variance_ratio"])
    copies = np.broadcast_to(expand(case["copies"]).astype(int), ratio.shape)
    return ndis.GaussianPair.from_ratios(ratio, shift=expand(case["shift"]), copies=copies)


def reference(case, name):
    with mp.workdps(40):
        if name in case:
            return mpf(case[name])
        # The given table has no log_complement, and a δ of 1 - 1e-23 says nothing in 20 digits: its logarithm does.
        delta = mpf(case["delta"])
        return mp.log1p(-delta) if delta < 0.5 else mp.log(-mp.expm1(mpf(case["log_delta"])))


def tolerance(log_value):
    """Relative accuracy promised of a probability with this logarithm."""
    return 1e-12 * (1 + abs(float(log_value)))


def story(case, name, got, want):
    inputs = {key: case[key] for key in ("variance_ratio", "shift", "copies", "epsilon")}
    return f"{case['id']}: {name} is {got!r}, should be {want}\n    inputs: {json.dumps(inputs)[:2000]}"


def misses(case, name, got, want, allowed):
    """The complaint about one number, or nothing. `allowed` is absolute."""
    with mp.workdps(40):
        if got == -math.inf if mp.isinf(want) else math.isfinite(got) and abs(mpf(got) - want) <= allowed:
            return []
        error = mp.nstr(abs(mpf(got) - want), 3)
    return [f"{story(case, name, got, want)}\n    error {error}, allowed {mp.nstr(allowed, 3)}"]


@each_case
# Checks thm:contour.
def test_values(case):
    pair, epsilon = pair_of(case), case["epsilon"]
    delta, log_delta, log_rest = (reference(case, name) for name in ("delta", "log_delta", "log_complement"))
    wrong = misses(case, "log_delta", float(pair.log_delta(epsilon)), log_delta, tolerance(log_delta))
    wrong += misses(case, "log_complement", float(pair.log_complement(epsilon)), log_rest, tolerance(log_rest))
    if delta == 0 or delta > TINIEST:
        allowed = 0 if delta == 0 else delta * tolerance(log_delta)
        wrong += misses(case, "delta", float(pair.delta(epsilon)), delta, allowed)
    else:
        wrong += misses(case, "delta", float(pair.delta(epsilon)), delta, mpf("1e-308"))
    assert not wrong, "\n".join(wrong)


@each_case
def test_log_complement_of_a_small_delta_keeps_its_digits(case):
    """Where δ is small, log(1 − δ) ≈ −δ: an absolute test of it would see nothing."""
    delta, log_rest = reference(case, "delta"), reference(case, "log_complement")
    got = float(pair_of(case).log_complement(case["epsilon"]))
    if delta > TINIEST:
        allowed = abs(log_rest) * 2 * tolerance(min(reference(case, "log_delta"), log_rest, key=float))
    else:
        allowed = mpf("1e-308")
    wrong = misses(case, "log_complement", got, log_rest, allowed)
    assert not wrong, "\n".join(wrong)


def distinct(case):
    return len(set(zip(expand(case["variance_ratio"]).tolist(), expand(case["shift"]).tolist(), strict=True)))


@pytest.mark.parametrize("case", [case for case in CASES if distinct(case) <= 300], ids=lambda case: case["id"])
def test_certificate_encloses_the_reference(case):
    enclosure = pair_of(case).certify(case["epsilon"])
    delta = reference(case, "delta")
    with mp.workdps(40):
        # The last digit printed may be rounded either way: 25 digits in our table, 20 in the given one.
        slack = delta * mpf("1e-18" if case["id"].startswith("given") else "1e-23")
        encloses = mpf(enclosure.lower) <= delta + slack and delta - slack <= mpf(enclosure.upper)
        assert encloses, story(case, "certify", (enclosure.lower, enclosure.upper), delta)
        if delta > TINIEST:
            width = (mpf(enclosure.upper) - mpf(enclosure.lower)) / delta
            assert width <= 1e-10, (
                story(case, "certify", (enclosure.lower, enclosure.upper), delta)
                + f"\n    relative width {mp.nstr(width, 3)}"
            )
        else:
            assert enclosure.upper <= 1e-299, story(case, "certify", (enclosure.lower, enclosure.upper), delta)


def test_certificate_with_thousands_of_directions():
    case = next(case for case in CASES if case["kind"] == "distinct_2000")
    enclosure, delta = pair_of(case).certify(case["epsilon"]), reference(case, "delta")
    with mp.workdps(40):
        assert mpf(enclosure.lower) <= delta <= mpf(enclosure.upper), story(
            case, "certify", (enclosure.lower, enclosure.upper), delta
        )
        assert mpf(enclosure.upper) - mpf(enclosure.lower) <= 1e-10 * delta


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if "slope" in case and case["epsilon"] > 0 and 1e-290 < float(case["delta"]) < 0.999 and distinct(case) <= 300
    ],
    ids=lambda case: case["id"],
)
def test_epsilon_inverts_delta(case):
    """ε(δ) for the double next to the reference δ: the tolerance on log δ, divided by the slope of log δ."""
    target = float(case["delta"])
    got = float(pair_of(case).epsilon(target))
    with mp.workdps(40):
        move = (mp.log(mpf(target)) - reference(case, "log_delta")) / mpf(case["slope"])
        want = mpf(case["epsilon"]) + move
        allowed = (1e-10 + tolerance(case["log_delta"])) / abs(mpf(case["slope"])) + 8 * math.ulp(case["epsilon"])
        # Never below the exact answer: that would promise more privacy than there is.
        assert mpf(got) >= want - mpf("1e-20") * abs(want), story(case, f"epsilon({target!r})", got, want)
    wrong = misses(case, f"epsilon({target!r})", got, want, allowed)
    assert not wrong, "\n".join(wrong)


@each_case
def test_reversed_pair(case):
    """1 − δ_PQ(ε) = e^ε (1 − δ_QP(−ε)): the same reference, reached from the other side."""
    log_rest = reference(case, "log_complement")
    with mp.workdps(40):
        want = log_rest - mpf(case["epsilon"])
    got = float(pair_of(case).reversed().log_complement(-case["epsilon"]))
    # ε enters the identity undiminished, and the reversed ratios 1/τ are rounded to doubles.
    wrong = misses(case, "reversed().log_complement(-epsilon)", got, want, tolerance(want) + tolerance(log_rest))
    assert not wrong, "\n".join(wrong)
