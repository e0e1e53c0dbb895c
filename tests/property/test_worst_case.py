"""The worst case over an envelope is one: nothing inside exceeds it, and it is reached."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndis
from ndis.spectrum.batch import log_delta_batch
from ndis.worst_case.envelopes import LoewnerEnvelope, RankOneEnvelope
from ndis.worst_case.profile import dominating_pair
from ndis.worst_case.rank_one import _bound, _Cells, certified_rank_one, rank_one_search

logs = st.floats
shifts = logs(math.log(1e-3), math.log(4.0)).map(math.exp)
ratios = logs(math.log(1e-4), math.log(5.0)).map(math.exp)
epsilons = st.one_of(st.just(0.0), st.floats(-1.0, 6.0))
some = settings(max_examples=30, deadline=None, derandomize=True)


def inside(envelope: RankOneEnvelope, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(excess, shift) of pairs of the envelope, its corners and edges among them."""
    share, c = rng.uniform(size=(2, count)) ** rng.choice([0.2, 1.0, 5.0], size=(2, count))
    share[: count // 4], c[count // 8 : count // 2] = 1.0, rng.integers(0, 2, count // 2 - count // 8)
    sign = rng.choice([1.0, -1.0], count)
    T = envelope.ratio_bound
    t = np.where(sign > 0, T, -T / (1 + T)) * share
    return np.stack([t, 0 * t], axis=1), envelope.shift_bound * np.sqrt(np.stack([c, 1 - c], axis=1))


@some
@given(shifts, ratios, epsilons, st.integers(0, 2**32))
def test_nothing_inside_is_worse(shift, ratio, epsilon, seed):
    """300 pairs of each envelope in all regimes of ε; the search is within 0.1 % of a pair of it, or 2 % at ε ≈ 0 where
    it runs out of cells."""
    envelope = RankOneEnvelope(shift, ratio)
    search = rank_one_search(envelope, epsilon)
    t, m = inside(envelope, np.random.default_rng(seed), 300)
    found = log_delta_batch(excess=t, shift=np.where(m > 1e-100, m, 0.0), epsilon=epsilon)
    assert found.max() <= search.upper + 1e-9
    assert search.lower <= search.upper + 1e-12
    assert search.upper <= search.lower + (1.001e-3 if len(search.leaves) < 1000 else 0.02)


@pytest.mark.parametrize(
    ("shift", "ratio", "epsilon"),
    [(0.25, 0.012, 1.0), (0.1465, 0.2141, 0.1), (2.0965, 0.1114, 2.0), (0.4071, 0.3869, 0.0), (0.05, 0.75, 0.5)],
)
def test_thousands_inside(shift, ratio, epsilon):
    """5000 pairs: all below the bound, the best of them and of the search within 1e-4 of it."""
    envelope = RankOneEnvelope(shift, ratio)
    search = rank_one_search(envelope, epsilon, tolerance=1e-4)
    t, m = inside(envelope, np.random.default_rng(1), 5000)
    best = log_delta_batch(excess=t, shift=m, epsilon=epsilon).max()
    assert best <= search.upper + 1e-10
    assert search.upper <= max(best, search.lower) + 1e-4


def test_certificate_holds_the_search():
    for envelope, epsilon in ((RankOneEnvelope(0.25, 0.012), 1.0), (RankOneEnvelope(0.0503, 0.749), 0.5)):
        search, box = rank_one_search(envelope, epsilon), certified_rank_one(envelope, epsilon)
        assert box.lower == pytest.approx(math.exp(search.lower), rel=1e-9)
        assert box.upper == pytest.approx(math.exp(search.upper), rel=1e-9)


@some
@given(shifts, ratios, st.floats(0.0, 4.0))
def test_corners_beyond_the_modes(shift, ratio, further):
    """Where ε is beyond the modes the two corners are the worst case, and the search knows it."""
    p = ratio / (1 + ratio)
    wide = 0.5 * (ratio - math.log1p(ratio)) + 2 * ratio
    narrow = 0.5 * (math.log1p(ratio) - p) + math.sqrt(3 * (1.5 * p * p + shift**2))
    epsilon = 0.5 * shift**2 + max(wide, narrow) + 1e-9 + further
    search = rank_one_search(RankOneEnvelope(shift, ratio), epsilon)
    assert len(search.leaves) == 2
    corners = log_delta_batch([[1 + ratio, 1.0], [1 - p, 1.0]], [[shift, 0.0], [0.0, shift]], epsilon=epsilon)
    assert search.upper == search.lower == pytest.approx(corners.max(), rel=1e-9, abs=1e-9)


@some
@given(st.sampled_from([1.0, -1.0]), shifts, ratios, epsilons, st.integers(0, 2**32))
# Checks thm:rank-one.
def test_cells_are_covered(sign, reach, ratio, epsilon, seed):
    """The bound of a cell holds at random points of it, whichever of the three bounds it is."""
    rng = np.random.default_rng(seed)
    most = ratio if sign > 0 else ratio / (1 + ratio)
    q = most * np.sort(rng.uniform(size=(12, 2)) ** 2, axis=1)
    q[:3, 0] = 0.0
    q[3:6, 0] = 0.98 * q[3:6, 1]
    c = np.sort(rng.uniform(size=(12, 2)), axis=1)
    c[6:, 1] = c[6:, 0] + 0.02 * (c[6:, 1] - c[6:, 0])
    q = sign * ((1.0 + sign * q) - 1.0)  # read off ratios
    one = np.ones(12)
    limits = _bound(_Cells(reach * one, sign * one, q[:, 0], q[:, 1], c[:, 0], c[:, 1]), epsilon)[3]
    for _ in range(12):
        at, turn = (a[:, 0] + rng.uniform(size=12) ** 0.5 * (a[:, 1] - a[:, 0]) for a in (q, c))
        t = np.stack([sign * at, 0 * at], axis=1)
        found = log_delta_batch(excess=t, shift=reach * np.sqrt(np.stack([turn, 1 - turn], axis=1)), epsilon=epsilon)
        assert (found <= limits + 1e-9).all()


@some
@given(shifts, ratios, epsilons, st.integers(0, 2**32))
# Checks thm:envelope-pair.
def test_one_pair_dominates_all(shift, ratio, epsilon, seed):
    """The pair that composition goes through, in both orders and at other ε than the one it was made for."""
    envelope = RankOneEnvelope(shift, ratio)
    pair = dominating_pair(envelope, epsilon=1.0)
    t, m = inside(envelope, np.random.default_rng(seed), 100)
    found = log_delta_batch(excess=t, shift=np.where(m > 1e-100, m, 0.0), epsilon=epsilon).max()
    assert found <= min(pair.log_delta(epsilon), pair.reversed().log_delta(epsilon)) + 1e-9


def test_one_pair_dominates_a_loewner_envelope():
    rng = np.random.default_rng(2)
    for _ in range(20):
        d = int(rng.integers(1, 5))
        envelope = LoewnerEnvelope(rng.uniform(0, 1), *rng.uniform(0.01, 0.5, 2), d)
        pair = dominating_pair(envelope, epsilon=1.0)
        lengths = rng.dirichlet(np.ones(d), 40) * envelope.log_det_bound
        lengths = np.minimum(lengths, envelope.log_ratio_bound)
        m = rng.normal(size=(40, d))
        m *= envelope.shift_bound / np.linalg.norm(m, axis=1, keepdims=True)
        for epsilon in (-0.5, 0.0, 1.0, 3.0):
            limit = min(pair.log_delta(epsilon), pair.reversed().log_delta(epsilon))
            for sign in (1, -1):
                assert log_delta_batch(np.exp(sign * lengths), m, epsilon=epsilon).max() <= limit + 1e-9


def test_beyond_reach_everything_is_told_apart():
    for envelope in (RankOneEnvelope(1.0, 1e9), RankOneEnvelope(1e9, 1.0), LoewnerEnvelope(1.0, 1e4, 1e4, 2)):
        assert dominating_pair(envelope, epsilon=1.0).mutually_singular


def test_monotone_in_every_argument():
    rng = np.random.default_rng(3)
    for _ in range(15):
        shift, ratio, epsilon = rng.uniform(0.05, 0.6), rng.uniform(0.005, 0.2), rng.uniform(0, 2)
        here = rank_one_search(RankOneEnvelope(shift, ratio), epsilon).upper
        assert rank_one_search(RankOneEnvelope(shift, ratio), epsilon + 0.2).upper < here
        assert rank_one_search(RankOneEnvelope(1.05 * shift, ratio), epsilon).upper > here
        assert rank_one_search(RankOneEnvelope(shift, 1.5 * ratio), epsilon).upper > here - 1.1e-3


@pytest.mark.parametrize("ratio_bound", [1e-3, 1e-17, 1e-60])
def test_small_ratios_keep_their_digits(ratio_bound):
    """1 + T as a float has lost T; the worst case is that of T itself."""
    exact = ndis.GaussianPair.from_excess(ratio_bound).delta(0.0)
    assert certified_rank_one(RankOneEnvelope(0.0, ratio_bound), 0.0).upper == pytest.approx(exact, rel=1e-6, abs=0.0)
