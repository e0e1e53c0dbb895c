"""Moments of sampled pairs that are no mean shifts: the claimed error covers the true one (thm:mellin-moment)."""

import math

import mpmath
import numpy as np
import pytest

import ndis
from helpers.cases import crossed
from helpers.compositions import in_floats, releases
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.errors import PrecisionError


def law_of(rate, excess, shift, order):
    pair = ndis.GaussianPair.from_excess(excess, shift)
    return SampledPair(pair if order == "remove" else pair.reversed(), (rate,), order)


class TestMoments:
    @pytest.mark.parametrize(
        ("rate", "t", "m", "order"),
        crossed(
            [(1e-6, 0.36, 0.2), (1e-3, -0.4, 0.7), (0.2, 1e-3, 0.5)],
            ["remove", "add"],
            keep=[(1e-6, 0.36, 0.2, "remove"), (1e-3, -0.4, 0.7, "add")],
        ),
    )
    def test_one_direction_by_a_direct_integral(self, rate, t, m, order):
        add = order == "add"
        moment = law_of(rate, t, m, order)
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
        moment = law_of(0.1, 0.5, 0.0, "remove")
        value, error = moment.centred(np.array([2.5 + 0j, 1.0 + 0j]))  # the moments end at 1/t = 2
        assert np.isnan(value[0])
        assert error[0] == math.inf
        assert error[1] < 1e-12


def test_many_steps_of_a_pair_with_a_pole():
    """A third of a million steps at a small rate, few losses are large: no path settles, and no value is guessed."""
    law = in_floats([releases(6.3e-5, [0.271, -0.241], [0.55, 0.62], 328615)], "remove")
    with pytest.raises(PrecisionError):
        law.log_delta(np.array([5.6]))
