"""thm:sampled-chernoff: the closed bound is above δ, and stands in where no enclosure is within reach."""

import math

import numpy as np
import pytest
from flint import arb

import ndis
from ndis.accountant.certify import Certifier
from ndis.accountant.laws.mixture_balls import MixtureBalls, Sides

PLACES = np.geomspace(0.25, 32.0, 15).tolist()


def law(groups, order):
    return ndis.PrivacyProfile(groups=groups)._evaluators[order]


def group(rate, ratios, shift, count):
    return ndis.profile.Group(ndis.GaussianPair.from_ratios(ratios, shift=shift), rates=(rate,), count=count)


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("groups", "epsilon"),
    [
        ([group(0.01, [1.0], [1.0], 1000)], 3.0),
        ([group(0.1, [1.3, 0.8], [0.4, 0.1], 50)], 2.0),
        ([group(1.0, [1.0], [0.5], 1), group(0.05, [1.2, 1.1], [0.3, 0.3], 20)], 2.5),
        ([group(0.3, [0.7], [0.2], 10), group(0.2, [1.4], [0.2], 10)], 1.5),
    ],
)
def test_it_is_above_delta(groups, epsilon, order):
    one = law(groups, order)
    (value,) = one.log_delta(np.array([epsilon]))
    bound = math.log(min(one.certifier.upper(epsilon, c) for c in PLACES))
    several = any(len(set(g.remove.excess.tolist())) > 1 for g in groups)  # its moments are only bounded
    assert value <= bound <= (0.0 if several else value + 12.0)


@pytest.mark.parametrize("c", [1, 2, 5])
def test_whole_moments_of_a_mean_shift(c):
    """At c = 1, M = 1 + q²(e^{μ²} − 1)."""
    law = Certifier(lambda: [(MixtureBalls(Sides.poisson(arb(0.5), arb(1), remove=True)), 1)])
    moment = sum(math.comb(c + 1, j) * 0.5 ** (c + 1) * math.exp(j * (j - 1) / 2) for j in range(c + 2))
    want = c * math.log(c) - (c + 1) * math.log(c + 1) + math.log(moment) - 20.0 * c
    assert math.log(law.upper(20.0, float(c))) == pytest.approx(want, abs=1e-3)


def test_a_place_beyond_the_domain_says_nothing():
    """E w^j is infinite from j = 1 + 1/t on."""
    one = law([group(0.5, [1.9], [0.0], 3)], "remove")
    assert 0.0 < one.certifier.upper(5.0, 1.0) < 1.0
    assert one.certifier.upper(5.0, 1.5) == 1.0


def test_a_certificate_no_longer_refuses():
    """A mixture with a pair of two ratios for which no stand-in is within reach."""
    one = law([group(1.0, np.ones(60), np.full(60, 0.41), 1), group(0.01, [0.968, 0.874], [0.08, 0.9], 100)], "add")
    box = one.certify(20.0, 1e-6)
    (value,) = one.log_delta(np.array([20.0]))
    assert box.lower <= math.exp(value) <= box.upper < 1.0
