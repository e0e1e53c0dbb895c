"""Envelopes: what is a bound, their pieces, their extreme points."""

from __future__ import annotations

import math

import pytest

import ndis
from ndis import GaussianPair
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope, as_loewner


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, [1.0, 2.0], 1j])
def test_envelopes_refuse_what_is_not_a_bound(bad):
    for make in (
        lambda: RankOneEnvelope(bad, 0.1),
        lambda: RankOneEnvelope(0.1, bad),
        lambda: LoewnerEnvelope(bad, 0.1, 0.1, 2),
        lambda: LoewnerEnvelope(0.1, bad, 0.1, 2),
        lambda: LoewnerEnvelope(0.1, 0.1, bad, 2),
        lambda: LoewnerEnvelope(0.1, 0.1, 0.1, bad),
        lambda: DominatingPairs(bad),
        lambda: DominatingPairs(GaussianPair.from_ratios(1.0), bad if bad is not None else 0),
    ):
        with pytest.raises(ndis.ParameterError, match="must"):
            make()


def test_pieces_lie_inside():
    whole = RankOneEnvelope(1.0, 1.0, (RankOneEnvelope(1.0, 0.1), RankOneEnvelope(0.1, 1.0)))
    assert len(whole.pieces) == 2
    for bad in ((RankOneEnvelope(2.0, 0.1),), (RankOneEnvelope(0.1, 2.0),), (whole,), (1.0,)):
        with pytest.raises(ndis.ParameterError, match="pieces"):
            RankOneEnvelope(1.0, 1.0, bad)


@pytest.mark.parametrize(
    ("rho", "nu", "d", "expected"),
    [
        (0.1, 0.25, 4, [(0.1, 2), (0.05, 1)]),
        (0.1, 0.25, 2, [(0.1, 2)]),
        (0.1, 10.0, 3, [(0.1, 3)]),
        (0.3, 0.1, 3, [(0.1, 1)]),
        (0.0, 1.0, 3, []),
        (1.0, 0.0, 3, []),
    ],
)
def test_extreme_point(rho, nu, d, expected):
    found = [(x, n) for x, n in LoewnerEnvelope(0.0, rho, nu, d).extreme if x > 1e-12]
    assert [n for _, n in found] == [n for _, n in expected]
    assert [x for x, _ in found] == pytest.approx([x for x, _ in expected], rel=1e-12)
    assert sum(x * n for x, n in found) >= min(nu, d * rho) * (1 - 1e-15)


def test_loewner_around_others():
    rank_one = as_loewner(RankOneEnvelope(0.3, 0.5))
    assert rank_one.log_ratio_bound >= math.log(1.5)
    assert rank_one.extreme[0][1] == 1
    wide = GaussianPair.from_ratios([1.5, 1.2], [0.3, 0.4])
    pairs = as_loewner(DominatingPairs(wide))
    assert pairs.shift_bound == pytest.approx(0.5, rel=1e-9)
    assert pairs.log_det_bound == pytest.approx(math.log(1.5 * 1.2), rel=1e-9)
    with pytest.raises(ndis.ParameterError, match="Loewner order"):
        as_loewner(DominatingPairs(GaussianPair.from_ratios([1.5, 0.7])))
