"""What every mechanism promises, held against the lift and the Gaussian mechanism."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import ndis
from helpers.cases import Made
from ndis import GaussianMechanism, GaussianPair, PrivacyProfile
from ndis.mechanisms.mechanism import Attained, Mechanism, Receipt
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope

EPSILON, DELTA = 1.0, 1e-5


class Base:
    def distribution(self, data):
        # the rule of this model, not a repair: an entry that is not finite is no entry, so that nothing raises
        rows = np.nan_to_num(np.asarray(data, dtype=float), nan=0.0, posinf=0.0, neginf=0.0).clip(-1, 1)
        return [float(rows.sum()) / 10], [[1.0 / (1.0 + rows.size)]]


class RankOne(Base):
    def sensitivity(self, v):
        return RankOneEnvelope(0.2 / math.sqrt(v), 0.5 / (v + 0.5))

    def attained(self, v):
        corner = GaussianPair.from_ratios(1.0 + 0.5 / (v + 0.5), shift=0.2 / math.sqrt(v))
        return (Attained("a corner of the envelope", PrivacyProfile(corner.reversed())),)


class Pairs(Base):
    def sensitivity(self, v):
        return DominatingPairs(
            GaussianPair.from_ratios(1 / (1 + 0.5 / v), 0.1), GaussianPair.from_ratios(1 + 0.5 / v, 0.1)
        )

    def attained(self, v):
        return (Attained("the pair itself", PrivacyProfile(*vars(self.sensitivity(v)).values())),)


class Loewner(Base):
    def sensitivity(self, v):
        return LoewnerEnvelope(0.2 / math.sqrt(v), math.log1p(0.5 / v), math.log1p(1.0 / v), 4)


MECHANISMS = Made(
    **{
        "rank one": lambda: ndis.lift(RankOne(), epsilon=EPSILON, delta=DELTA),
        "rank one, renyi": lambda: ndis.lift(RankOne(), epsilon=EPSILON, delta=DELTA, bound="renyi"),
        "rank one, paper": lambda: ndis.lift(RankOne(), epsilon=EPSILON, delta=DELTA, bound="paper"),
        "pairs": lambda: ndis.lift(Pairs(), epsilon=EPSILON, delta=DELTA),
        "loewner": lambda: ndis.lift(Loewner(), epsilon=EPSILON, delta=DELTA),
        "gaussian": lambda: GaussianMechanism.calibrated(epsilon=EPSILON, delta=DELTA, sensitivity=1.0),
    }
)
EXACT = ("rank one", "pairs", "gaussian")


@pytest.fixture(params=MECHANISMS, ids=str)
def mechanism(request):
    return MECHANISMS[request.param]


def data(mechanism):
    return [0.5] if isinstance(mechanism, GaussianMechanism) else [0.5, -0.25, 1.0]


def test_keeps_the_protocol(mechanism):
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism.profile(), PrivacyProfile)


def test_certified_within_the_budget(mechanism):
    assert mechanism.profile().certify(EPSILON).upper <= DELTA


@pytest.mark.parametrize("name", EXACT)
def test_slack_below_one_percent(name):
    assert MECHANISMS[name].profile().certify(EPSILON).upper > 0.99 * DELTA


def test_less_noise_cannot_be_made(mechanism):
    field = "noise_std" if isinstance(mechanism, GaussianMechanism) else "noise_variance"
    with pytest.raises(ndis.ParameterError, match=f"{field} must keep delta"):
        type(mechanism)(**mechanism.arguments() | {field: 0.9 * getattr(mechanism, field)})


@pytest.mark.parametrize("name", EXACT)
def test_attained_neighbours_stay_within_and_convict_a_tighter_claim(name):
    """The worst neighbours known never exceed the guarantee, and with 10 % less noise they do."""
    mechanism = MECHANISMS[name]
    profile = mechanism.profile()
    for one in mechanism.attained():
        for epsilon in (0.5, 1.0, 2.0):
            assert one.profile.certify(epsilon).lower <= profile.certify(epsilon).upper
    if isinstance(mechanism, GaussianMechanism):
        less = GaussianPair.from_ratios(1.0, shift=1.0 / (0.9 * mechanism.noise_std))
    else:
        less = mechanism.model.attained(0.9 * mechanism.noise_variance)[0].profile.add
    assert less.certify(EPSILON).lower > DELTA


def test_receipt_is_public_and_complete(mechanism):
    release = mechanism.release(data(mechanism))
    receipt = release.receipt
    assert (receipt.epsilon, receipt.delta, receipt.private) == (EPSILON, DELTA, True)
    assert receipt.adjacency == mechanism.adjacency
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert json.loads(receipt.to_json())["parameters"]["grid"] > 0


def test_receipt_does_not_depend_on_the_data(mechanism):
    receipts = [mechanism.release(values).receipt for values in ([0.0], [1.0], [1e-30])]
    receipts = {replace(receipt, digest="").to_json() for receipt in receipts}  # the digest is that of the draw
    assert len(receipts) == 1


def test_bad_values_are_no_errors(mechanism):
    """Nothing raised, nothing warned: warnings are errors here."""
    for value in (math.nan, math.inf, -math.inf, 1e300, 5e-324):
        assert np.isfinite(mechanism.release([value]).values).all()


def test_fresh_randomness_each_time(mechanism):
    draws = {float(mechanism.release([0.5]).values[0]) for _ in range(4)}
    assert len(draws) > 1
