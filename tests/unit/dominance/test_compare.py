"""dominates: never a wrong answer; yes by proof, no by witness."""

from __future__ import annotations

import importlib.util
from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.places import ROOT
from ndis.dominance.compare import compare, reachable
from ndis.dominance.curves import PairCurve, Values, cell_holds, prove
from ndis.errors import ParameterError

_place = ROOT / "benchmarks" / "dominance.py"
_spec = importlib.util.spec_from_file_location("dominance_sweep", _place)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
gaps, is_wrong, sweep = _module.gaps, _module.is_wrong, _module.sweep


def pair(ratio, shift=0.0, copies=1) -> ndis.GaussianPair:
    return ndis.GaussianPair.from_ratios(ratio, shift=shift, copies=copies)


def profile(*rows, **options) -> ndis.PrivacyProfile:
    return ndis.PrivacyProfile(pair(*rows), **options)


# ---------------------------------------------------------------------- post-processing


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pair(1.0, 0.5), pair(1.0, 0.5)),
        (pair(1.0, 0.5), pair([1.0, 1.0], [0.3, 0.39])),  # shifts merge
        (pair(2.0, 1.0), pair(1.5, 0.7)),  # cor:ray
        (pair(0.5, 1.0), pair(0.75, 0.7)),
        (pair(1.02, copies=100), pair(1.02, copies=99)),
        (pair(2.0, 1.0, 3), pair([2.0, 2.0], [3.0**0.5 * 0.999999, 0.0])),  # a shift turned into one copy
        (pair([3.0, 0.4, 1.0], [0.2, 0.1, 0.6]), pair([0.7, 2.0, 1.0], [0.05, 0.1, 0.5])),
        (ndis.GaussianPair.from_low_rank(0.0, 0.0, 35.0, [[1.0]]).repeat(9), pair(1.02, copies=8)),
        (ndis.GaussianPair.from_diagonal([1.0], [4.0], [0.0], [2.0]), pair(1.5, 0.4)),
    ],
)
# Checks thm:post-processing.
def test_post_processing_is_seen_over_the_rationals(a, b):
    for one, other in ((a, b), (a.reversed(), b.reversed())):
        holds, _, reason = compare(one, other)
        assert holds is True
        assert reason in ("equal", "post-processing")
        assert gaps(one, other, 200).min() > -1e-9


def test_the_last_bit_of_a_shift_counts():
    up = float(np.nextafter(0.5, 1.0))
    assert compare(pair(1.0, up), pair(1.0, 0.5))[0] is True
    assert compare(pair(1.0, 0.5), pair(1.0, up))[0] is not True


def test_reachable_never_grows_a_shift_with_its_ratio():
    """(t, m) → (t', m') keeps the part t'/t of m²: one bit more is not served."""
    t, m2 = Fraction(1), Fraction(1)
    a = {t: (1, m2)}
    assert reachable(a, {t / 2: (1, m2 / 2)})
    assert not reachable(a, {t / 2: (1, m2 / 2 + Fraction(1, 10**30))})
    assert not reachable(a, {t / 2: (2, Fraction(0))})
    assert not reachable(a, {-t / 2: (1, Fraction(0))})


# Checks thm:matched-directions.
def test_a_shift_inside_a_group_serves_one_group_only():
    one = Fraction(1)
    a = {one: (2, one)}
    b = {one: (1, one), one / 2: (1, one / 4)}
    assert not reachable(a, b)
    assert reachable({one: (2, 2 * one)}, b)


# ---------------------------------------------------------------------- curves


# Checks lem:slow-decay.
def test_curves_decide_what_post_processing_does_not():
    a, b = pair([1.5, 1.4], [0.6, 0.3], [4, 5]), pair([1.45, 1.42], [0.5, 0.3], [4, 4])
    holds, witness, reason = compare(a, b)
    assert (holds, witness, reason) == (True, None, "curves")
    assert gaps(a, b, 400).min() > 0


def test_a_sketch_and_a_shift_cross():
    sketch, shift = profile(1 + 1 / 35.54, 0.0, 100), profile(1.0, 0.2367)
    for a, b in ((sketch, shift), (shift, sketch)):
        for order in ("remove", "add"):
            found = ndis.dominance.dominates(a, b, order=order)
            assert found.holds is False
            x, one, other = found.witness, a, b
            way = order
            if x < 0:  # certified through the reversed pairs
                x, way = -x, {"remove": "add", "add": "remove"}[order]
            one, other = (p.certify(x, order=way) for p in (one, other))
            assert other.lower > one.upper


# Checks thm:bounded-loss.
def test_bounded_losses_are_compared_by_their_edges():
    narrow, wide = pair(0.5, copies=2), pair(0.4)
    assert compare(narrow, wide)[0] is False  # the edges are log 2 and ½ log 2.5, and the other order decides
    assert compare(pair(0.5), pair(1.0, 1e-3))[0] is False  # beyond the edge one curve is 0 and the other is not


def test_a_pair_without_exact_inputs_is_refused():
    one = np.ones(1)
    bare = ndis.GaussianPair(one, one, one, 1, 0 * one)
    for a, b in ((bare, pair(1.0, 0.1)), (pair(1.0, 2.0), bare)):
        with pytest.raises(ParameterError, match="exact inputs"):
            compare(a, b)


def test_mutually_singular_and_equal_laws():
    apart = ndis.GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0)
    same = pair(1.0)
    assert compare(apart, pair(1.0, 5.0))[0] is True
    assert compare(pair(1.0, 5.0), apart)[0] is not True
    assert compare(pair(1.0, 0.1), same)[0] is True
    assert compare(same, pair(1.0, 0.1))[0] is not True


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-10, -1e-10, -1e-5, -1e-2])
def test_pairs_that_almost_touch_are_never_told_wrongly(gap):
    """Ratios (1.3, 1.3) against (1.3, 1.3·(1+gap)): the truth is known, and undecided is allowed."""
    a, b = pair([1.3, 1.3]), pair([1.3, 1.3 * (1 + gap)])
    holds = compare(a, b)[0]
    assert holds in ((True, None) if gap < 0 else (False, None))


def test_dense_pairs_are_compared_by_their_curves():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    q = root @ root.T + np.eye(3)
    vector = rng.normal(size=3)
    a = ndis.GaussianPair.from_moments(np.ones(3), q + np.outer(vector, vector), np.zeros(3), q)
    b = ndis.GaussianPair.from_moments(0.8 * np.ones(3), q + 0.7 * np.outer(vector, vector), np.zeros(3), q)
    assert compare(a, a)[0] is True
    holds, witness, _ = compare(a, b)
    assert not is_wrong(a, b, holds, witness)
    assert compare(b, a)[0] is False


# Checks lem:cells.
def test_a_cell_is_not_passed_on_its_ends_only():
    """B is above A between two points at which A is above B: a straight line against a bent one."""
    from flint import arb

    def values(*numbers):
        return [Values(arb(x), arb(x)) for x in numbers]

    points = [0.0, 1.0, 2.0, 3.0]
    z = np.exp(points)
    bent = 1.0 / z
    b = values(*(0.999 * bent[1:3]))
    assert not cell_holds(points, values(*bent), b)
    narrow = [1.0, 1.01, 1.02, 1.03]
    curve = np.exp(-np.array(narrow))
    assert cell_holds(narrow, values(*curve), values(*(0.999 * curve[1:3])))
    assert not cell_holds(narrow, values(*curve), values(*(1.001 * curve[1:3])))


def test_prove_says_yes_only_if_the_curve_is_above():
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows = np.exp(rng.normal(0, 0.3, 2)), rng.normal(0, 0.5, 2), rng.integers(1, 5, 2)
        a, b = pair(*rows), pair(rows[0], rows[1] * 1.01, rows[2])
        assert not prove(PairCurve(a), PairCurve(b))


# Checks lem:shift-tail.
def test_no_wrong_answer_on_random_and_touching_pairs():
    """A short form of `make dominance`, which takes 10,000 pairs."""
    found = sweep(120, seed=11)
    assert found["wrong"] == 0
    assert found["decided"] >= 0.93


# ---------------------------------------------------------------------- profiles


def test_both_orders_are_asked_one_by_one():
    a, b = profile(1.5, 0.0, 3), ndis.PrivacyProfile(pair(1.5, 0.0, 3).reversed())
    found = ndis.dominance.dominates(a, b)
    assert found.holds is False
    assert found.order in ("remove", "add")
    assert ndis.dominance.dominates(a, a).holds is True
    assert ndis.dominance.dominates(a, a).order == "both"


# Checks thm:sampled-dominance.
def test_sampled_releases_compare_rate_pair_and_steps():
    base = profile(1.0, 1.0)
    slot = base.subsampled(0.1).repeat(100)
    for request in (
        slot,
        base.subsampled(0.1).repeat(99),
        base.subsampled(0.05).repeat(100),
        profile(1.0, 0.9).subsampled(0.1).repeat(100),
        base.subsampled(0.1).repeat(50).compose(profile(1.0, 0.5).subsampled(0.07).repeat(50)),
    ):
        assert ndis.dominance.dominates(slot, request).holds is True
    for request in (
        base.subsampled(0.1).repeat(101),
        base.subsampled(0.11).repeat(100),
        profile(1.0, 1.1).subsampled(0.1).repeat(100),
        base,
    ):
        assert ndis.dominance.dominates(slot, request).holds is not True


def test_sampling_a_declared_release_is_dominated_by_it():
    slot = profile(1.0, 0.5)
    assert ndis.dominance.dominates(slot, slot.subsampled(0.3)).holds is True
    assert ndis.dominance.dominates(slot.subsampled(0.3), slot).holds is not True
    whole = slot.subsampled(0.3)
    grid = np.linspace(0.0, 3.0, 13)
    for order in ("remove", "add"):
        assert (slot.log_delta(grid, order=order) >= whole.log_delta(grid, order=order)).all()


def test_a_smaller_rate_is_dominated_on_a_grid():
    base = profile(1.2, 0.4, 2)
    grid = np.linspace(-2.0, 3.0, 41)
    for order in ("remove", "add"):
        large, small = (base.subsampled(q).delta(grid, order=order) for q in (0.3, 0.2))
        assert (large >= small - 1e-12).all()
    assert ndis.dominance.dominates(base.subsampled(0.3), base.subsampled(0.2)).holds is True


def test_what_cannot_be_compared_is_said():
    a = profile(1.0, 0.5)
    with pytest.raises(ParameterError, match="adjacency of b"):
        ndis.dominance.dominates(a, profile(1.0, 0.4, adjacency="replace-one"))
    with pytest.raises(ParameterError, match="order must be 'both'"):
        ndis.dominance.dominates(a, a, order="worst")
    with pytest.raises(ParameterError, match="a must be a PrivacyProfile"):
        ndis.dominance.dominates(pair(1.0, 0.5), a)
    assert ndis.dominance.dominates(a, profile(1.0, 0.4, failure_probability=1e-9)).holds is None


def test_an_envelope_is_compared_by_its_curve_and_not_by_the_pair_above_it():
    """The curve of a lifted profile lies below its pair: what the pair covers, the curve need not cover."""
    low = ndis.lift(ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5), epsilon=1.0, delta=1e-5).profile()
    high = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1.8e-5, sensitivity=1.0).profile()
    assert low.certify(1.0).upper < high.certify(1.0).lower
    assert ndis.dominance.dominates(low, high).holds is not True
    pair = ndis.PrivacyProfile(low.remove, low.add, adjacency=low.adjacency)
    assert ndis.dominance.dominates(pair, high).holds is True
    assert ndis.dominance.dominates(low, low).holds is True
    assert ndis.dominance.dominates(pair, low).holds is True  # the pair covers the curve
    between = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1.5e-5, sensitivity=1.0).profile()
    assert ndis.dominance.dominates(between, low).holds is not False  # its pair alone is above
    small = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-12, sensitivity=1.0).profile()
    assert ndis.dominance.dominates(small, pair).holds is False
    large = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-2, sensitivity=1.0).profile()
    assert ndis.dominance.dominates(low, large).holds is False  # its pair does not reach that far
