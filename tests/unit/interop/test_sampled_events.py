"""Events of samples other than Poisson's: the library's own test values, and what is refused by name."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

dpa: Any = pytest.importorskip("dp_accounting")
from dp_accounting import dp_event  # noqa: E402
from dp_accounting.pld import PLDAccountant  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

from ndis import ParameterError, PrivacyProfile  # noqa: E402
from ndis.interop.dp_accounting import ExactAccountant, from_event  # noqa: E402

RELATION = dpa.NeighboringRelation
MIXTURE = dp_event.MixtureOfGaussiansDpEvent
TRUNCATED = dpa.TruncatedSubsampledGaussianDpEvent
TREE = dpa.SingleEpochTreeAggregationDpEvent


def without_replacement(records: int, size: int, noise: float) -> Any:
    return dpa.SampledWithoutReplacementDpEvent(records, size, dpa.GaussianDpEvent(noise))


class TestTheirTests:
    """`pld_privacy_accountant_test.py` and `rdp_privacy_accountant_test.py` of dp_accounting 0.6.0."""

    def test_mixture_of_gaussians_basic(self) -> None:
        accountant = ExactAccountant()
        accountant.compose(MIXTURE(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]), 3)
        accountant.compose(MIXTURE(2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33]), 2)
        assert accountant.get_epsilon(1e-6) == pytest.approx(17.193115, abs=1e-6)
        assert accountant.get_delta(17.193115) == pytest.approx(1e-6, abs=1e-12)

    @pytest.mark.sweep
    def test_truncated_subsampled_gaussian_basic(self) -> None:
        accountant = ExactAccountant()
        accountant.compose(TRUNCATED(4, 0.5, 2, 1.0), 3)
        accountant.compose(TRUNCATED(3, 0.5, 2, 1.0), 2)
        assert accountant.get_epsilon(1e-6) <= 17.904330 + 1e-6
        theirs = PLDAccountant()
        theirs.compose(TRUNCATED(4, 0.5, 2, 1.0), 3).compose(TRUNCATED(3, 0.5, 2, 1.0), 2)
        assert theirs.get_epsilon(1e-6) == pytest.approx(17.904330, abs=1e-6)

    def test_mixture_and_nothing(self) -> None:
        for event in (MIXTURE(1, [0], [1.0]), MIXTURE(0, [0], [1.0])):
            accountant = ExactAccountant().compose(event)
            assert (accountant.get_epsilon(1e-6), accountant.get_delta(1.0)) == (0.0, 0.0)
        accountant = ExactAccountant().compose(MIXTURE(0, [1, 2], [0.5, 0.5]))
        assert (accountant.get_epsilon(1e-6), accountant.get_delta(1.0)) == (math.inf, 1.0)

    @pytest.mark.parametrize("steps", [1, 3, 4, 7, 8, [5, 10], [1, 2, 3]])
    def test_tree_aggregation(self, steps: Any) -> None:
        """One record is in one leaf and in all nodes above: the exact value of their bound, which is lower."""
        ours, theirs = (
            kind(neighboring_relation=RELATION.REPLACE_SPECIAL) for kind in (ExactAccountant, RdpAccountant)
        )
        for accountant in (ours, theirs):
            accountant.compose(TREE(2.0, steps))
        depth = math.ceil(math.log2(max(steps if isinstance(steps, list) else [steps]) + 1))
        gaussian = PrivacyProfile.from_noise_multiplier(2.0).repeat(depth)
        assert ours.get_epsilon(1e-6) == pytest.approx(gaussian.epsilon(1e-6), rel=1e-12)
        assert ours.get_epsilon(1e-6) < theirs.get_epsilon(1e-6)

    def test_sampled_without_replacement(self) -> None:
        """Theirs forgets the factor 2, so that ours is higher, and ours is the guarantee."""
        event = without_replacement(1000, 16, 1.0)
        ours = ExactAccountant(RELATION.REPLACE_ONE).compose(event, 128)
        theirs = RdpAccountant(neighboring_relation=RELATION.REPLACE_ONE).compose(event, 128)
        assert ours.get_epsilon(1e-6) == pytest.approx(11.250, abs=1e-3)
        assert theirs.get_epsilon(1e-6) == pytest.approx(2.646, abs=1e-3)
        assert ours.profile is not None
        assert ours.profile.bounds(1e-6).lower > 10.85


@pytest.mark.parametrize(
    ("event", "relation", "reason"),
    [
        (
            MIXTURE(1.0, [0.0, 1.0], [0.5, 0.5]),
            RELATION.REPLACE_ONE,
            "MixtureOfGaussiansDpEvent is about records that are",
        ),
        (TRUNCATED(10, 0.5, 2, 1.0), RELATION.REPLACE_ONE, "truncated samples are known for"),
        (TRUNCATED(10, 0.5, 2, 1.0), RELATION.REPLACE_SPECIAL, "truncated samples are known for"),
        (without_replacement(10, 2, 1.0), RELATION.ADD_OR_REMOVE_ONE, "is about records that are replaced"),
        (TREE(1.0, 5), RELATION.ADD_OR_REMOVE_ONE, "a tree has a fixed order"),
        (TREE(1.0, []), RELATION.REPLACE_SPECIAL, "step_counts must be whole numbers"),
        (dp_event.ZCDpEvent(1.0), RELATION.ADD_OR_REMOVE_ONE, "ZCDpEvent bounds Rényi divergences only"),
        (
            dpa.SampledWithReplacementDpEvent(10, 2, dpa.GaussianDpEvent(1.0)),
            RELATION.REPLACE_ONE,
            "SampledWithReplacementDpEvent has no exact Gaussian profile",
        ),
        (
            dpa.SampledWithoutReplacementDpEvent(10, 2, dpa.LaplaceDpEvent(1.0)),
            RELATION.REPLACE_ONE,
            "only one Gaussian release of a sample of fixed size",
        ),
        (MIXTURE(1.0, [0.0, -1.0], [0.5, 0.5]), RELATION.ADD_OR_REMOVE_ONE, "sensitivities must not be negative"),
    ],
)
def test_refused_by_name(event: Any, relation: Any, reason: str) -> None:
    accountant = ExactAccountant(relation)
    assert not accountant.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match=reason):
        accountant.compose(event)
    with pytest.raises(ParameterError, match=reason):
        from_event(event, adjacency=relation)


def test_profiles_of_events() -> None:
    profile = from_event(without_replacement(1000, 20, 3.0), adjacency="replace-one")
    direct = PrivacyProfile.from_fixed_size(noise_multiplier=3.0, batch_size=20, records=1000)
    assert profile.delta(0.5) == direct.delta(0.5)
    assert not profile.repeat(2).attained
    whole = from_event(without_replacement(1000, 1000, 3.0), adjacency="replace-one")
    assert whole.epsilon(1e-6) == PrivacyProfile.from_noise_multiplier(1.5).epsilon(1e-6)
    tree = from_event(dpa.SelfComposedDpEvent(TREE(2.0, 7), 2), adjacency=RELATION.REPLACE_SPECIAL)
    assert tree.epsilon(1e-6) == PrivacyProfile.from_noise_multiplier(2.0).repeat(6).epsilon(1e-6)
    uncut = from_event(TRUNCATED(10, 0.5, 20, 1.0))
    assert uncut.delta(0.5) == PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.5).delta(0.5)


def test_allocation_events_of_newer_versions() -> None:
    """Version 0.6.0 has no such event; a stand-in of the same name and fields shows what will happen."""
    made = type("RandomAllocationDpEvent", (dpa.DpEvent,), {"__init__": lambda self, **own: self.__dict__.update(own)})
    event = made(event=dpa.GaussianDpEvent(0.5), num_selected=1, num_steps=1000)
    assert ExactAccountant().compose(event).get_epsilon(1e-6) == pytest.approx(4.1060159, abs=1e-7)
    with pytest.raises(dpa.UnsupportedEventError, match="records that go to several steps"):
        ExactAccountant().compose(made(event=dpa.GaussianDpEvent(0.5), num_selected=2, num_steps=1000))
    other = SimpleNamespace(noise_multiplier=1.0)
    with pytest.raises(dpa.UnsupportedEventError, match="allocation is known for Gaussians"):
        ExactAccountant().compose(made(event=other, num_selected=1, num_steps=1000))
