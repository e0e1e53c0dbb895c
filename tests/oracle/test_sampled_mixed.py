"""Densities of the loss for several ratios of variances, on both sides of their ends, and beside plain releases.

The contour integral of the same law is the independent value: it knows only moments, and these come from densities of
one step. A moment is checked against a direct integral. The tables of `test_accounting_oracle` have more cases.
"""

import math

import mpmath
import numpy as np
import pytest

from ndis.accountant.contour import find_saddle, integrate
from ndis.accountant.density import CHEBYSHEV_POINTS, NODES, TO_SERIES
from ndis.accountant.floats import SampledComposition, SampledGroup
from ndis.accountant.mixed import MixedSums
from ndis.accountant.pair import PairMoment
from ndis.accountant.ratio import RatioLaw
from ndis.accountant.shapes import CurvedShape
from ndis.accountant.sums import LossSums
from ndis.errors import PrecisionError


def group(rate, excess, shift, count, copies=None):
    copies = np.ones(len(excess)) if copies is None else np.array(copies, dtype=float)
    return SampledGroup(rate, np.array(excess, dtype=float), np.array(shift, dtype=float), copies, count)


def by_contour(law, epsilon):
    saddle = law._resolved(find_saddle(law, law.mean - epsilon))
    value, _, error = integrate(law, np.array([epsilon]), 0, saddle)
    return float(value[0]), float(error[0])


def by_densities(law, epsilon):
    steps, shift = law._shapes
    add = law.order == "add"
    mixed = shift > 0.0 or len({shape.sign for shape, _ in steps}) > 1
    sums = MixedSums(steps, shift, epsilon, add=add) if mixed else LossSums(steps, epsilon, add=add)
    return sums.log_delta(epsilon)[::2]


def test_the_last_rows_of_a_constant_vanish():
    """A series of noise would hide where a density is smooth."""
    assert np.abs(TO_SERIES[1:] @ np.ones(NODES)).max() < 1e-16
    powers = np.polynomial.chebyshev.chebvander(CHEBYSHEV_POINTS, NODES - 1)
    assert np.abs(TO_SERIES @ powers - np.eye(NODES)).max() < 1e-14


class TestMoments:
    @pytest.mark.parametrize("order", ["remove", "add"])
    @pytest.mark.parametrize(("rate", "t", "m"), [(1e-6, 0.36, 0.2), (1e-3, -0.4, 0.7), (0.2, 1e-3, 0.5)])
    def test_one_direction_by_a_direct_integral(self, rate, t, m, order):
        add = order == "add"
        pair = (-t / (1 + t), m / math.sqrt(1 + t)) if add else (t, m)
        moment = PairMoment(rate, np.array([pair[0]]), np.array([pair[1]]), np.ones(1), add=add)
        base, sign = (0, -1) if add else (1, 1)
        places = [*range(-12, 20)]
        with mpmath.workdps(30):
            q, T, M = mpmath.mpf(rate), mpmath.mpf(t), mpmath.mpf(m)

            def log_mixture(x):
                ratio = mpmath.exp(x * x / 2 - (x - M) ** 2 / (2 * (1 + T))) / mpmath.sqrt(1 + T)
                return mpmath.log1p(q * (ratio - 1))

            def mean(power, factor):
                return mpmath.quad(
                    lambda x: mpmath.npdf(x) * mpmath.exp(power * log_mixture(x)) * factor(log_mixture(x)), places
                )

            kappa = mean(base, lambda loss: sign * loss)
            points = mpmath.mpf("0.7"), mpmath.mpc("0.5", 30)
            wanted = [complex(mpmath.log(mean(base + sign * s, lambda _: 1)) - s * kappa) for s in points]
        for s, want in zip(points, wanted, strict=True):
            (got,), (error,) = moment.centred(np.array([complex(s)]))
            assert abs(got - want) <= error
            assert error <= 1e-12 * abs(want)

    def test_a_point_outside_the_domain_has_no_value(self):
        moment = PairMoment(0.1, np.array([0.5]), np.zeros(1), np.ones(1), add=False)
        value, error = moment.centred(np.array([2.5 + 0j, 1.0 + 0j]))  # the moments end at 1/t = 2
        assert np.isnan(value[0])
        assert error[0] == math.inf
        assert error[1] < 1e-12


class TestRatio:
    def test_a_mean_shift_and_a_curved_direction(self):
        """log w = m x − m²/2 + a + θ y² for independent x, y; E w = 1."""
        law = RatioLaw(np.array([0.0, 0.4]), np.array([0.7, 0.0]), np.ones(2))
        z = np.linspace(-8.0, 12.0, 4001) * law.spread
        density = np.exp(law.log_density_about_mean(z))
        assert density.sum() * (z[1] - z[0]) == pytest.approx(1.0, abs=1e-12)
        assert (density * np.exp(law.mean_log + z)).sum() * (z[1] - z[0]) == pytest.approx(1.0, abs=1e-9)

    def test_a_plain_release_with_both_signs_has_no_end(self):
        with pytest.raises(PrecisionError):
            CurvedShape(1.0, np.array([0.3, -0.2]), np.zeros(2), np.ones(2))


CASES = [
    # several ratios, one or both signs; the density of two unlike signs has a pole
    ("remove", 0.3, [group(0.3, [0.3, 0.2], [0.4, 0.1], 30)]),
    ("add", 0.2, [group(0.1, [0.3, -0.2], [0.4, 0.1], 60)]),
    ("remove", 1.0, [group(0.2, [-0.6, -0.15], [0.0, 0.0], 40)]),
    # log w changes by a hundred: the moment must resolve the bend of log(1 − q + q w)
    ("remove", 362.6, [group(0.1713, [-0.164, -0.0555], [0.946, 0.614], 88, [16, 18])]),
    # a narrower pair beside a wider one and a mean shift
    ("remove", 0.5, [group(0.3, [0.3], [0.1], 20), group(0.2, [-0.3], [0.3], 30), group(0.1, [0.0], [0.8], 25)]),
    ("add", 0.4, [group(0.3, [0.3], [0.1], 20), group(0.2, [-0.3], [0.3], 30)]),
    # plain releases
    ("remove", 1.5, [group(1.0, [0.0], [0.5], 1), group(0.1, [-0.3], [0.3], 30)]),
    ("add", 1.7, [group(1.0, [0.26, 0.15], [0.2, 0.1], 1), group(0.8, [0.37], [0.7], 3), group(0.1, [0.2], [0.1], 9)]),
    ("remove", 44.09, [group(0.76, [-0.579], [0.159], 143)]),  # much mass near the end where the ratio is 0
    ("remove", 2.0, [group(1.0, [0.3, -0.2, 0.0], [0.2, 0.1, 0.6], 1), group(0.02, [0.0], [1.0], 50)]),
]


@pytest.mark.parametrize(("order", "epsilon", "groups"), CASES)
def test_densities_and_contour_agree(order, epsilon, groups):
    """thm:loss-sides"""
    law = SampledComposition(groups, order)
    (a, wrong), (b, off) = by_contour(law, epsilon), by_densities(law, epsilon)
    assert abs(a - b) <= wrong + off + 1e-14 * (1 + abs(a))
    assert wrong <= 5e-11 * (1 + abs(a))
    assert off <= 1e-9 * (1 + abs(a))


def test_a_narrow_product_of_density_and_profile_is_met():
    """Many steps beside a small plain release: both factors change by many e-folds on one panel."""
    law = SampledComposition([group(0.3276, [0.0], [0.28816], 5243), group(1.0, [0.0], [0.016125], 1)], "remove")
    (a, wrong), (b, off) = by_contour(law, 60.39), by_densities(law, 60.39)
    assert abs(a - b) <= wrong + off


def test_panels_beside_a_pole_leave_no_gap():
    """The end of the range is nearer to the pole than the first cut beside it."""
    law = SampledComposition([group(1.7446e-5, [0.08198, -0.4312], [0.0, 0.0], 7)], "add")
    (a, wrong), (b, off) = by_contour(law, 1.0991e-4), by_densities(law, 1.0991e-4)
    assert abs(a - b) <= wrong + off + 1e-14 * abs(a)
    (moment, _), *_ = law.parts
    moment.centred(np.array([7e6 + 0j]))
    edges = moment._panels.edges
    assert (edges[1:, 0] == edges[:-1, 1]).all()


def test_many_steps_of_a_pair_with_a_pole():
    """A third of a million steps at a small rate, of which few losses are large: refused before."""
    law = SampledComposition([group(6.3e-5, [0.271, -0.241], [0.55, 0.62], 328615)], "remove")
    (value,), (error,) = law.log_delta(np.array([5.6]))
    assert error <= 5e-11 * (1 + abs(value))
    (other,), _ = law.log_delta(np.array([5.5]))
    assert other > value
