"""ExactAccountant under every neighbouring relation of dp_accounting, beside the library's own accountant."""

from __future__ import annotations

import math
from typing import Any

import pytest

dpa: Any = pytest.importorskip("dp_accounting")
from dp_accounting.pld import PLDAccountant  # noqa: E402

from ndis.errors import PrecisionError  # noqa: E402
from ndis.interop.dp_accounting import ExactAccountant, from_event  # noqa: E402

RELATION = dpa.NeighboringRelation
NEAR = 1e-6  # the grid of the library's accountant


@pytest.mark.parametrize(("relation", "known"), [("REPLACE_ONE", 4.8866), ("REPLACE_SPECIAL", 2.2541)])
def test_a_replaced_record_moves_the_sum_by_two_norms(relation: str, known: float) -> None:
    """From C·v to −C·v; a record that turns into nothing moves it by C."""
    epsilon = ExactAccountant(RELATION[relation]).compose(dpa.GaussianDpEvent(2.0)).get_epsilon(1e-6)
    assert epsilon == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("relation", list(RELATION))
@pytest.mark.parametrize("count", [1, 7])
def test_as_the_accountant_of_the_library(relation: Any, count: int) -> None:
    event = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(5.0), count)
    ours, theirs = ExactAccountant(relation).compose(event), PLDAccountant(relation).compose(event)
    assert ours.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), abs=NEAR)
    assert ours.get_delta(1.0) == pytest.approx(float(theirs.get_delta(1.0)), rel=1e-4)


def test_a_profile_of_an_event_says_the_same() -> None:
    profile = from_event(dpa.GaussianDpEvent(2.0), adjacency="replace-one")
    assert profile.adjacency == "replace-one"
    assert profile.epsilon(1e-6) == pytest.approx(4.886554117, abs=1e-8)


def test_samples_of_records_that_turn_into_nothing() -> None:
    step = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0))
    found = [ExactAccountant(r).compose(step, 10).get_epsilon(1e-6) for r in (RELATION(1), RELATION.REPLACE_SPECIAL)]
    assert found[0] == found[1]


def test_samples_of_replaced_records() -> None:
    """The pair of the library dominates (thm:replace-poisson)."""
    step = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0))
    ours, theirs = (kind(RELATION.REPLACE_ONE).compose(step, 10) for kind in (ExactAccountant, PLDAccountant))
    assert ours.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), abs=1e-4)


@pytest.mark.parametrize("relation", list(RELATION))
@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_a_sample_without_noise_is_not_private(relation: Any, rate: float) -> None:
    event, bare = (dpa.PoissonSampledDpEvent(rate, e) for e in (dpa.GaussianDpEvent(0.0), dpa.NonPrivateDpEvent()))
    for each in (
        event,
        bare,
        dpa.SelfComposedDpEvent(event, 5),
        dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), event]),
    ):
        accountant = ExactAccountant(relation).compose(each)
        assert (accountant.get_epsilon(1e-5), accountant.get_delta(3.0)) == (math.inf, 1.0)


def test_the_library_calibrates_from_no_noise_on() -> None:
    """Its search starts at a multiplier of 0 unless told otherwise."""

    def training(noise: float) -> Any:
        return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.05, dpa.GaussianDpEvent(noise)), 20)

    found = dpa.calibrate_dp_mechanism(ExactAccountant, training, 2.0, 1e-5, tol=1e-3)
    assert ExactAccountant().compose(training(found)).get_epsilon(1e-5) <= 2.0
    assert ExactAccountant().compose(training(found - 2e-3)).get_epsilon(1e-5) > 2.0


def test_multipliers_that_a_search_may_try() -> None:
    """A search may double the multiplier thirty times; ε never grows with it."""
    step = [dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(s)) for s in (0.07, 0.3, 3.0, 1e3, 2.0**30, 1e60)]
    found = [ExactAccountant().compose(one, 50).get_epsilon(1e-6) for one in step]
    assert found == sorted(found, reverse=True)
    assert found[-1] >= 0.0
    with pytest.raises(PrecisionError, match=r"a noise multiplier below about 0\.07"):
        ExactAccountant().compose(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.02)), 50).get_epsilon(1e-6)
