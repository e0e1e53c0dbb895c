"""log δ from the density of the loss: few steps, small rates, and ε near the end of the loss.

Independent values: δ₃(ε) = E_P δ₂(ε − L) by quadrature over one step, with the integral over two steps inside it; the
contour integral where it converges; and certificates, which contain the truth.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.sampled_sweep import composition as random_composition
from helpers.compositions import certify_log, in_balls, in_floats, releases, shifts
from ndis.accountant.densities import LossSums
from ndis.accountant.density import CHEBYSHEV_POINTS, NODES, TO_SERIES
from ndis.accountant.few import PairStep, two_pairs
from ndis.accountant.floats import find_saddle, integrate
from ndis.errors import PrecisionError


def composition(steps, order):
    return in_floats([shifts(*step) for step in steps], order)


def sums(steps, order, depth=260.0):
    return LossSums(composition(steps, order).parts, order, depth)


def three_steps(q, mu, epsilon, order):
    """log E_P δ₂(ε − L), by Gauss–Legendre panels over the output x of one step."""
    add, step = order == "add", PairStep.shift(q, mu)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    ends = np.linspace(-12.0, 9.0 + mu, 25)
    # the inner δ is flat but not analytic where the rest passes the end of the two other losses
    end = -epsilon - 2.0 * math.log1p(-q) if add else epsilon - 2.0 * math.log1p(-q)
    if math.expm1(end) > -q:
        edge = math.log1p(math.expm1(end) / q) / mu + 0.5 * mu
        ends = np.unique(np.concatenate([ends, edge + np.array([-0.4, -0.1, 0.0, 0.1, 0.4])]))
    total = 0.0
    for low, high in pairwise(ends):
        for z, w in zip(nodes, weights, strict=True):
            x = 0.5 * (low + high) + 0.5 * (high - low) * z
            ratio = math.log1p(q * math.expm1(mu * x - 0.5 * mu * mu))
            rest = epsilon + ratio if add else epsilon - ratio
            if rest < 0.0:  # δ₂(−e) = 1 − e^−e + e^−e δ₂(e) of the other order
                inner = -math.expm1(rest)
                if add or -rest < -2.0 * math.log1p(-q):
                    inner += math.exp(rest + two_pairs(step, step, -rest, add=not add)[0])
            elif add and rest >= -2.0 * math.log1p(-q):
                inner = 0.0
            else:
                inner = math.exp(two_pairs(step, step, rest, add=add)[0])
            total += 0.5 * (high - low) * w * math.exp(-0.5 * x * x + (0.0 if add else ratio)) * inner
    return math.log(total / math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize(
    ("q", "mu", "epsilon", "order"),
    [(0.1, 0.8, 0.3, "remove"), (0.3, 0.5, 0.4, "add")],
)
def test_three_steps_by_two_and_one(q, mu, epsilon, order):
    want = three_steps(q, mu, epsilon, order)
    value, _, error = sums([(q, mu, 3)], order, 40.0).log_delta(epsilon)
    assert error <= 5e-11 * (1 + abs(value))
    assert value == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("steps", "epsilon"),
    [([(0.05, 1.0, 100)], 1.0), ([(0.3, 0.4, 20), (0.02, 1.5, 7)], 0.9), ([(0.25, 0.1, 300)], 0.2)],
)
def test_the_contour_agrees(steps, epsilon, order):
    """Two computations that share nothing but the steps; the slope is that of differences."""
    (want,), (estimate,) = composition(steps, order).log_delta(np.array([epsilon]))
    tables = sums(steps, order)
    value, slope, error = tables.log_delta(epsilon)
    assert abs(value - want) <= error + estimate
    assert error <= 5e-11 * (1 + abs(value))
    near, _, _ = tables.log_delta(epsilon * (1 + 1e-6))
    assert slope == pytest.approx((value - near) / (1e-6 * epsilon), rel=1e-4)


# each of these was refused by the contour and by the sum over jumps
REFUSED = [
    ([(0.504, 1 / 0.693, 4)], 2.795, "add"),
    ([(1.6e-6, 1 / 0.888, 5)], 7.979e-6, "add"),
    ([(0.429, 1 / 0.342, 8)], 4.48, "add"),
    ([(1.66e-5, 1 / 1.38, 3)], 0.02128, "remove"),
    ([(7.96e-6, 1 / 3.23, 40)], 3.797e-4, "remove"),
    ([(1e-6, 1 / 0.3, 12)], 5.0, "remove"),
]


@pytest.mark.parametrize(("steps", "epsilon", "order"), REFUSED)
def test_no_longer_refused(steps, epsilon, order):
    """Splitting a group changes nothing, one step more is worse, and ε comes back from δ."""
    law = composition(steps, order)
    (value,), (error,) = law.log_delta(np.array([epsilon]))
    assert error <= 5e-11 * (1 + abs(value))
    ((q, mu, n),) = steps
    split = [(q, mu, n // 3), (q, mu, n - n // 3)]
    (other,), (also,) = composition(split, order).log_delta(np.array([epsilon]))
    assert abs(value - other) <= error + also
    (more,), _ = composition([(q, mu, n + 1)], order).log_delta(np.array([epsilon]))
    assert more > value
    assert law.epsilon(math.exp(value)) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("steps", "epsilon", "order"), REFUSED[:1] + REFUSED[2:3])
def test_certificates_contain_it(steps, epsilon, order):
    (value,), _ = composition(steps, order).log_delta(np.array([epsilon]))
    box = certify_log(in_balls([shifts(*step) for step in steps], order), epsilon, 1e-6)
    assert box.lower <= value <= box.upper


def test_the_last_rows_of_a_constant_vanish():
    """A series of noise would hide where a density is smooth."""
    assert np.abs(TO_SERIES[1:] @ np.ones(NODES)).max() < 1e-16
    powers = np.polynomial.chebyshev.chebvander(CHEBYSHEV_POINTS, NODES - 1)
    assert np.abs(TO_SERIES @ powers - np.eye(NODES)).max() < 1e-14


POLES = [releases(0.1, 0.2, 0.1, 5), releases(0.1, [0.2, -0.1], 0.0, 5), releases(1.0, 0.0, 0.3, 1)]


@pytest.mark.parametrize("other", POLES)
def test_only_sampled_steps_without_a_pole_have_densities(other):
    value, _, error = in_floats([other, shifts(0.1, 1.0, 5)], "remove")._by_sums(np.array([0.5]), 0)
    assert np.isnan(value).all()
    assert (error == math.inf).all()


@pytest.mark.parametrize(
    ("seed", "box"), [(122, (6.33021845612e-11, 6.33021846325e-11)), (398, (1.2707859144e-20, 1.2707859382e-20))]
)
def test_densities_of_sketches_lie_in_certificates(seed, box):
    """Records that are almost never sampled: these certificates once took a theorem of their own."""
    profile, order, _ = random_composition(seed)
    epsilon = {122: 0.018965210357548324, 398: 0.0030146625074873425}[seed]
    (value,), (error,) = profile._evaluators[order].floats.log_delta(np.array([epsilon]))
    assert math.log(box[0]) <= value <= math.log(box[1])
    assert error <= 5e-11 * (1 + abs(value))


# a sketch that narrows, two ratios with shifts, and the add order
CURVED = [
    ([releases(0.02, -0.05, 0.0, 40, 30)], 0.1, "remove"),
    ([releases(0.02, 0.3, 0.2, 30, 8), releases(0.1, 0.0, 0.5, 10)], 0.5, "add"),
    ([releases(0.04, [0.33, 0.29], [0.4, 0.5], 30)], 0.7, "remove"),
]


@pytest.mark.parametrize(("steps", "epsilon", "order"), CURVED)
def test_the_contour_agrees_on_curved_steps(steps, epsilon, order):
    law = in_floats(steps, order)
    value, _, error = (float(x[0]) for x in law._by_sums(np.array([epsilon]), 0))
    contour = in_floats(steps, order)
    contour.__dict__["_easy"] = False
    (want,), (estimate,) = contour.log_delta(np.array([epsilon]))
    assert abs(value - want) <= error + estimate
    assert error <= 5e-11 * (1 + abs(value))


# ---------------------------------------------------------------------- faults of the search for a saddle


def test_a_phase_that_turns_does_not_mislead_the_search():
    """A step of 14 has far losses at a large s: the phase of its moment turned by more than π beside the real line."""
    law = composition([(0.0316, 0.103, 14), (0.00105, 0.01, 800_116)], "remove")
    (value,), (error,) = law.log_delta(np.array([0.2560686]))
    assert error <= 5e-11 * (1 + abs(value))
    groups = [shifts(0.0316, 0.103, 14), shifts(0.00105, 0.01, 800_116)]
    box = certify_log(in_balls(groups, "remove"), 0.2560686, 1e-6)
    assert box.lower - error <= value <= box.upper + error


def test_a_search_for_epsilon_passes_values_that_are_too_small():
    """On its way the search asks for a δ far below e^-700, near the end of the support."""
    law = composition([(4.84e-05, 0.012, 2418), (0.00289, 1.637, 76), (0.278, 0.014, 1)], "add")
    epsilon = law.epsilon(1.5e-74)
    (value,), _ = law.log_delta(np.array([epsilon]))
    assert value == pytest.approx(math.log(1.5e-74), rel=1e-9)
    assert value <= math.log(1.5e-74)


@pytest.mark.parametrize(("q", "mu", "n", "epsilon"), [(0.625, 1.24, 1530, 479.0), (0.0232, 2.369, 45, 3.67)])
def test_densities_agree_with_the_contour_where_both_work(q, mu, n, epsilon):
    """Large losses: the factor 1 − e^−|V−v| rises within a small part of a panel. Rare ones: the tilted mass is cut."""
    law = composition([(q, mu, n)], "remove")
    (want,), _, (estimate,) = integrate(law, np.array([epsilon]), 0, find_saddle(law, law.mean - epsilon))
    assert estimate <= 1e-12
    value, _, error = sums([(q, mu, n)], "remove").log_delta(epsilon)
    assert abs(value - want) <= error + estimate


@pytest.mark.parametrize(("q", "mu", "epsilon"), [(2.797e-6, 1.4253, 17.728), (2.316e-6, 2.8217, 27.831)])
def test_two_steps_with_a_large_loss_at_a_small_rate(q, mu, epsilon):
    """log(1 − q + q w) is not log(q w) at w = e^30 if q is small."""
    (value,), (error,) = composition([(q, mu, 2)], "remove").log_delta(np.array([epsilon]))
    other, _, also = sums([(q, mu, 2)], "remove").log_delta(epsilon)
    assert abs(value - other) <= error + also
    assert error + also <= 1e-10 * (1 + abs(value))


@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
def test_a_narrow_bump_at_the_saddle_is_seen(epsilon):
    """At the saddle few large losses add a bump of 1e-6, five hundred times narrower than the rest."""
    q, mu, n = 0.0023619541061888653, 0.13495684593130663, 32
    (value,), (error,) = composition([(q, mu, n)], "remove").log_delta(np.array([epsilon]))
    other, _, also = sums([(q, mu, n)], "remove").log_delta(epsilon)
    assert abs(value - other) <= error + also
    assert error + also <= 1e-11


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "epsilon"), [(6.5, 1e-4, 4, 0.4), (6.0, 3e-5, 100, 1 / 3), (4.0, 1e-3, 10, 3.0)]
)
def test_a_tiny_delta_is_a_number_or_refused(sigma, rate, steps, epsilon):
    law = composition([(rate, 1 / sigma, steps)], "remove")
    try:
        (value,), _ = law.log_delta(np.array([epsilon]))
    except PrecisionError:
        return
    assert value < -250


def test_delta_is_at_most_one():
    value, _ = composition([(0.5, 1.0, 3000)], "remove").log_delta(np.array([0.0, 1.0]))
    assert (value <= 0.0).all()
