"""Densities of the loss of sampled mean shifts that are composed with plain releases; moments of other pairs.

The contour integral of the same law is the independent value, because it knows only moments. A moment is checked
against a direct integral. The tables of `test_accounting_oracle` have more cases.
"""

import math

import mpmath
import numpy as np
import pytest

from ndis.accountant.contour import find_saddle, integrate
from ndis.accountant.density import CHEBYSHEV_POINTS, NODES, TO_SERIES
from ndis.accountant.floats import SampledComposition, SampledGroup
from ndis.accountant.laws.mellin import MellinMoment
from ndis.accountant.mixed import MixedSums
from ndis.accountant.sums import LossSums


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
    sums = MixedSums(steps, shift, epsilon, add=add) if shift > 0.0 else LossSums(steps, epsilon, add=add)
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
        moment = MellinMoment(rate, np.array([pair[0]]), np.array([pair[1]]), np.ones(1), add=add)
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
        moment = MellinMoment(0.1, np.array([0.5]), np.zeros(1), np.ones(1), add=False)
        value, error = moment.centred(np.array([2.5 + 0j, 1.0 + 0j]))  # the moments end at 1/t = 2
        assert np.isnan(value[0])
        assert error[0] == math.inf
        assert error[1] < 1e-12


CASES = [
    ("remove", 2.0, [group(1.0, [0.0], [0.6], 1), group(0.02, [0.0], [1.0], 50)]),
    ("add", 0.7, [group(1.0, [0.0], [0.3], 2), group(0.1, [0.0], [0.8], 25)]),
]


@pytest.mark.parametrize(("order", "epsilon", "groups"), CASES)
def test_densities_and_contour_agree(order, epsilon, groups):
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


def test_many_steps_of_a_pair_with_a_pole():
    """A third of a million steps at a small rate, of which few losses are large: refused before."""
    law = SampledComposition([group(6.3e-5, [0.271, -0.241], [0.55, 0.62], 328615)], "remove")
    (value,), (error,) = law.log_delta(np.array([5.6]))
    assert error <= 5e-11 * (1 + abs(value))
    (other,), _ = law.log_delta(np.array([5.5]))
    assert other > value
