"""No false conviction and no missed one, over thousands of pairs at the edge of their claim."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndis
from ndis._search import smallest_safe
from ndis.auditing import Claim, PairBatch, audit
from ndis.auditing.judge import exceeds
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

DATA = Path(__file__).parents[1] / "oracle" / "data"


def edge(make, epsilon, delta):
    """The largest parameter whose certified δ(ε) is at most δ."""
    return 1 / smallest_safe(
        lambda x: make(1 / x).log_delta(epsilon),
        lambda x: make(1 / x).certify(epsilon, relative_width=1e-13).upper,
        delta=delta,
    )


def shifted(shift):
    return PrivacyProfile(GaussianPair.from_ratios(1.0, shift=shift))


def sketch(copies):
    return lambda h: PrivacyProfile(GaussianPair.from_low_rank(0.0, 0.0, 1.0, [[math.sqrt(h)]]).repeat(copies))


def replaced(copies):
    def make(h):
        pair = GaussianPair.from_low_rank(0.0, 0.0, 1.0, [[math.sqrt(h)]]).repeat(copies)
        return PrivacyProfile(pair.compose(pair.reversed()))

    return make


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    epsilon=st.floats(0.01, 8.0),
    log_delta=st.floats(-40.0, -2.0),
    kind=st.sampled_from(["shift", "sketch", "replaced"]),
    copies=st.sampled_from([1, 7, 50, 400]),
)
def test_the_edge_is_found_from_both_sides(epsilon, log_delta, kind, copies):
    """Calibrated to the edge: not refuted. With the noise 1 % too small: refuted."""
    delta = math.exp(log_delta)
    make = {"shift": shifted, "sketch": sketch(copies), "replaced": replaced(copies)}[kind]
    x = edge(make, epsilon, delta)
    claim = Claim(epsilon, delta, "replace-one" if kind == "replaced" else "add-remove")
    assert not audit(claim, pairs=[make(x)]).refuted
    assert audit(claim, pairs=[make(1.01 * x)]).refuted


def test_random_pairs_at_the_ends_of_their_enclosures():
    """Claimed at the upper end a pair is never refuted, and just below the lower end always."""
    random = np.random.default_rng(11)
    checked = 0
    for number in range(16):
        k = int(random.integers(1, 4))
        ratio, shift = np.exp(random.normal(0, 0.5, k)), random.normal(0, 1.0, k)
        profile = PrivacyProfile(GaussianPair.from_ratios(ratio, shift, random.integers(1, 30, k)))
        width = 1e-12 if number % 8 == 0 else 1e-8  # the first needs more digits than a float to decide
        for epsilon in np.abs(random.normal(0, 2.0, 4)):
            for side in ("remove", "add"):
                box = profile.certify(epsilon, relative_width=width, order=side)
                if 0 < box.upper < 1:
                    assert exceeds(profile, side, epsilon, box.upper) is False
                    assert exceeds(profile, side, epsilon, box.lower * (1 - 1e-13)) is True
                    checked += 1
    assert checked > 90


def test_no_false_conviction_over_thousands_of_mechanisms_at_the_edge():
    """3000 mean shifts and sketches, each calibrated in floats to within 1e-8 of the claimed δ; then any one of them
    with the noise 1 % too small is found."""
    random = np.random.default_rng(14)
    n, claim = 3000, Claim(1.0, 1e-6)
    copies = np.where(np.arange(n) % 3 == 0, 1, random.integers(2, 1000, n))
    moved = np.arange(n) % 3 == 0  # these are mean shifts, the others ratios above and below 1
    low, high = np.full(n, 1e-6), np.where(moved, 1.0, np.where(copies > 30, 0.5, 8.0))

    def pairs(x):
        ratio = np.where(moved, 1.0, 1.0 + x)
        return np.where(np.arange(n) % 3 == 1, ratio, 1.0 / ratio), np.where(moved, x, 0.0)

    def deltas(x):
        ratio = np.where(moved, 1.0, 1.0 + x)
        return ndis.delta_batch(ratio, np.where(moved, x, 0.0), copies, 1.0)

    for _ in range(45):
        middle = 0.5 * (low + high)
        safe = deltas(middle) <= 1e-6 * (1 - 1e-8)
        low, high = np.where(safe, middle, low), np.where(safe, high, middle)
    assert (deltas(low) > 1e-6 * (1 - 2e-8)).all()
    report = audit(claim, pairs=PairBatch(*pairs(low), copies))
    assert not report.refuted
    assert report.pairs_tried == n
    for i in random.integers(0, n, 6).tolist():
        x = low.copy()
        x[i] *= 1.01
        report = audit(claim, pairs=PairBatch(*pairs(x), copies))
        assert report.refuted
        assert report.witness.neighbours == f"pair {i} of those given"


def test_no_false_conviction_in_large_batches():
    """40 000 correct rank-one mechanisms, one at the very edge; then the same with that one 1 % beyond."""
    random = np.random.default_rng(12)
    claim = Claim(1.0, 1e-6)
    h = edge(lambda x: PrivacyProfile(GaussianPair.from_ratios(1 + x, copies=100)), 1.0, 1e-6)
    t = h * random.uniform(0.0, 1.0, 40_000)
    t[17_000] = h
    for reverse in (False, True):
        ratio = 1 / (1 + t) if reverse else 1 + t
        if reverse:  # 1/(1+h) is rounded: step back from the edge by more than that
            ratio[17_000] = 1 / (1 + h * (1 - 1e-12))
        report = audit(claim, pairs=PairBatch(ratio, copies=100))
        assert not report.refuted
        assert report.witness.neighbours == "pair 17000 of those given"
        assert report.delta_possible == pytest.approx(1e-6, rel=1e-6)
        ratio[17_000] = 1 / (1 + 1.01 * h) if reverse else 1 + 1.01 * h
        assert audit(claim, pairs=PairBatch(ratio, copies=100)).refuted


def test_mean_shifts_in_a_large_batch():
    random = np.random.default_rng(13)
    m = edge(shifted, 0.5, 1e-8)
    shift = m * random.uniform(-1.0, 1.0, 20_000)
    shift[123] = -m
    claim = Claim(0.5, 1e-8)
    assert not audit(claim, pairs=PairBatch(np.ones(20_000), shift)).refuted
    shift[123] = -1.01 * m
    report = audit(claim, pairs=PairBatch(np.ones(20_000), shift))
    assert report.refuted
    assert report.witness.neighbours == "pair 123 of those given"


REFERENCE = json.loads((DATA / "given_delta_cases.json").read_text())
# a claim has ε ≥ 0 and a δ that floats hold with room to both sides; large pairs take long to certify
DECIDABLE = [
    case
    for case in REFERENCE
    if 1e-300 < float(case["delta"]) < 1 - 1e-9 and case["epsilon"] >= 0 and len(case["shift"]) <= 40
]


@pytest.mark.parametrize("case", DECIDABLE[::2], ids=lambda case: case["kind"])
def test_reference_cases_are_decided_on_both_sides(case):
    """20 digits of δ: claims 1e-12 below and above are told apart, and the enclosure holds the value."""
    delta, epsilon = float(case["delta"]), case["epsilon"]
    profile = PrivacyProfile(ndis.GaussianPair.from_ratios(case["variance_ratio"], case["shift"], case["copies"]))
    only = PrivacyProfile(profile.remove, profile.remove)  # the table has one order
    below, above = (audit(Claim(epsilon, delta * (1 + x)), pairs=[only]) for x in (-1e-12, 1e-12))
    assert below.refuted
    assert not above.refuted
    assert below.witness.enclosure.lower <= delta * (1 + 1e-15)
    assert below.witness.enclosure.upper >= delta * (1 - 1e-15)


def test_the_worst_point_of_many_is_never_missed_through_precision():
    """Pairs whose float value cannot be had are certified, not skipped."""

    class Stubborn(PrivacyProfile):
        def log_delta(self, epsilon, *, order="worst"):
            raise PrecisionError("no digits")

    profile = Stubborn(GaussianPair.from_ratios(1.0, shift=1.0))
    report = audit(Claim(1.0, 1e-6), pairs=[GaussianPair.from_ratios(1.0, shift=0.01), profile])
    assert report.refuted
    assert report.witness.neighbours == "pair 1 of those given"
