"""The largest δ over an envelope: covered, certified, never better than the truth."""

from __future__ import annotations

import math

import pytest

from ndis import GaussianPair
from ndis.enclosure import Enclosure
from ndis.worst_case.bounds import certified_split, extreme_pairs
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope
from ndis.worst_case.profile import certified_worst_delta, worst_log_delta
from ndis.worst_case.rank_one import certified_rank_one, rank_one_search


def test_pieces_are_taken_one_by_one():
    pieces = (RankOneEnvelope(0.3, 0.001), RankOneEnvelope(0.2, 0.05))
    whole = RankOneEnvelope(0.3, 0.05, pieces)
    for bound in ("exact", "renyi"):
        alone = [certified_worst_delta(piece, 1.0, bound)[0] for piece in pieces]
        assert certified_worst_delta(whole, 1.0, bound)[0] == pytest.approx(max(alone), rel=1e-12)
        assert certified_worst_delta(RankOneEnvelope(0.3, 0.05), 1.0, bound)[0] > 1.01 * max(alone)


def test_beyond_reach_is_never_private():
    for envelope in (
        RankOneEnvelope(1e100, 0.1),
        RankOneEnvelope(0.1, 1e100),
        RankOneEnvelope(1e200, 1e200),
        RankOneEnvelope(0.1, 1e59),
        LoewnerEnvelope(1e100, 0.1, 0.1, 1),
        LoewnerEnvelope(0.1, 1e3, 1e3, 1),
    ):
        for bound in ("exact", "renyi", "paper"):
            assert certified_worst_delta(envelope, 1.0, bound)[0] > 0.01
            assert worst_log_delta(envelope, 1.0, bound) > math.log(0.01)


def test_nothing_moves_nothing_leaks():
    assert certified_worst_delta(RankOneEnvelope(0.0, 0.0), 1.0, "exact")[0] == 0.0
    assert certified_worst_delta(LoewnerEnvelope(0.0, 0.0, 0.0, 3), 1.0, "paper")[0] == 0.0
    assert certified_worst_delta(LoewnerEnvelope(0.0, 0.0, 0.0, 3), 1.0, "renyi")[0] < 1e-300


def test_tiny_shift_is_rounded_up():
    box = certified_rank_one(RankOneEnvelope(1e-300, 0.0), 0.0)
    assert 0 < box.upper < 1e-139


def test_search_without_room_still_covers():
    """A search that is stopped early has a wider gap, and its bounds still hold."""
    envelope = RankOneEnvelope(0.4071, 0.3869)
    rough, fine = (rank_one_search(envelope, 0.0, max_cells=cells) for cells in (4, 4000))
    assert fine.lower <= fine.upper <= fine.lower + 1.1e-3
    assert rough.upper > fine.upper
    assert rough.lower <= fine.upper


def test_a_known_pair_needs_no_search():
    pair = GaussianPair.from_ratios([1.3, 1.1], [0.2, 0.1])
    value, used = certified_worst_delta(DominatingPairs(pair), 1.0, "exact")
    assert used == "exact (dominating pair)"
    assert value == max(pair.certify(1.0).upper, pair.reversed().certify(1.0).upper)
    assert extreme_pairs(DominatingPairs(pair))[0] is pair


def test_loewner_says_which_bound():
    mean_only = certified_worst_delta(LoewnerEnvelope(0.25, 0.0, 0.0, 3), 1.0, "exact")
    both = certified_worst_delta(LoewnerEnvelope(0.1, 0.05, 0.2, 8), 1.0, "exact")
    assert mean_only[1].startswith("paper")
    assert both[1].startswith("renyi")


def test_worst_cases_stay_within_their_ends():
    for envelope in (RankOneEnvelope(20.0, 3.0), RankOneEnvelope(1.0, 2e60), RankOneEnvelope(2e60, 1.0)):
        for epsilon in (0.0, 1.0):
            assert worst_log_delta(envelope, epsilon, "exact") <= 0.0
    for wide in (RankOneEnvelope(0.0, 2.0**53), RankOneEnvelope(0.0, 2.0**50 * 1.01), RankOneEnvelope(2e60, 1.0)):
        assert certified_rank_one(wide, 60.0) == Enclosure(0.0, 1.0)  # nothing was met
    assert certified_rank_one(RankOneEnvelope(0.0, 2.0**49), 1.0).lower > 0.9


@pytest.mark.parametrize("ratio", [0.0, 1e-12, 1e-6])
def test_the_split_bound_where_delta_is_beyond_the_floats(ratio):
    for shift in (1e-140, 1e-8):
        for epsilon in (0.01, 1.0, 100.0):
            assert 0.0 <= certified_split(LoewnerEnvelope(shift, ratio, ratio, 1), epsilon) < 1e-200
