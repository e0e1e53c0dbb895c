"""Identities that δ(ε) satisfies whatever the pair, on random pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ndis import GaussianPair

ratios = st.floats(1e-3, 1e3)
shifts = st.floats(-6, 6).map(lambda m: m if math.fabs(m) > 1e-9 else 0.0)
epsilons = st.floats(-4, 8)
pairs = st.lists(st.tuples(ratios, shifts, st.integers(1, 40)), min_size=1, max_size=4).map(
    lambda rows: GaussianPair.from_ratios(*(np.array(a) for a in zip(*rows, strict=True)))
)
quick = settings(max_examples=100, deadline=None)


def close(a: float, b: float, tolerance: float = 1e-12) -> bool:
    return a == b or math.fabs(a - b) <= tolerance * (1 + math.fabs(a))


@quick
@given(pairs, epsilons)
def test_reversal(pair: GaussianPair, epsilon: float) -> None:
    # δ_PQ(ε) = 1 − e^ε + e^ε δ_QP(−ε), that is 1 − δ_PQ(ε) = e^ε (1 − δ_QP(−ε))
    assert close(pair.log_complement(epsilon), epsilon + pair.reversed().log_complement(-epsilon))


@quick
@given(pairs, epsilons, st.floats(0.01, 2), st.floats(0.01, 0.99))
def test_convex_in_the_exponential(pair: GaussianPair, epsilon: float, width: float, weight: float) -> None:
    a, b = math.exp(epsilon), math.exp(epsilon + width)
    middle = weight * a + (1 - weight) * b
    left, mid, right = pair.delta(np.log([a, middle, b]))
    assert mid <= (weight * left + (1 - weight) * right) * (1 + 1e-12)
    assert left >= mid * (1 - 1e-12) >= right * (1 - 2e-12)


@quick
@given(pairs, epsilons, st.integers(0, 3), st.floats(1.0001, 3))
# Checks thm:monotone-shift.
def test_monotone_in_every_shift(pair: GaussianPair, epsilon: float, index: int, factor: float) -> None:
    shift = pair.shift.copy()
    shift[index % shift.size] *= factor
    larger = GaussianPair.from_ratios(pair.variance_ratio, shift, pair.copies)
    assert larger.log_delta(epsilon) >= pair.log_delta(epsilon) - 1e-12 * (1 + math.fabs(pair.log_delta(epsilon)))


@quick
@given(st.lists(st.tuples(ratios, st.integers(1, 40)), min_size=1, max_size=4), epsilons, st.floats(0, 1))
# Checks thm:monotone-ratio.
def test_moving_a_ratio_towards_one_helps_without_shift(
    rows: list[tuple[float, int]], epsilon: float, part: float
) -> None:
    ratio, copies = (np.array(a) for a in zip(*rows, strict=True))
    closer = ratio.copy()
    closer[0] = 1 + part * (ratio[0] - 1)
    far, near = GaussianPair.from_ratios(ratio, 0, copies), GaussianPair.from_ratios(closer, 0, copies)
    assert near.delta(epsilon) <= far.delta(epsilon) * (1 + 1e-12)


@quick
@given(pairs, epsilons, st.floats(1e-3, 1))
# Checks cor:ray.
def test_domination_along_rays(pair: GaussianPair, epsilon: float, a: float) -> None:
    # (a·m, a²·t) is (m, t) followed by fresh noise: dominated at every ε, in both orders
    inner = GaussianPair.from_ratios(1 + a * a * pair.excess, a * pair.shift, pair.copies)
    assert inner.delta(epsilon) <= pair.delta(epsilon) * (1 + 1e-12) + 1e-15 * a
    assert inner.reversed().delta(epsilon) <= pair.reversed().delta(epsilon) * (1 + 1e-12) + 1e-15 * a


@quick
@given(pairs, pairs, epsilons)
# Checks thm:composition.
def test_composition_is_concatenation(one: GaussianPair, two: GaussianPair, epsilon: float) -> None:
    both = GaussianPair.from_ratios(
        np.append(one.variance_ratio, two.variance_ratio),
        np.append(one.shift, two.shift),
        np.append(one.copies, two.copies),
    )
    assert close(one.compose(two).log_delta(epsilon), both.log_delta(epsilon))
    assert both.dimension == one.dimension + two.dimension
    assert close(one.repeat(3).log_delta(epsilon), one.compose(one, one).log_delta(epsilon))
    assert one.compose(two).delta(epsilon) >= one.delta(epsilon) * (1 - 1e-12)


@quick
@given(
    st.integers(1, 5),
    st.integers(0, 2**31 - 1),
    st.floats(0.2, 3),
    epsilons,
)
# Checks def:invariants.
def test_invariant_under_a_common_affine_map(d: int, seed: int, size: float, epsilon: float) -> None:
    rng = np.random.default_rng(seed)

    def covariance() -> np.ndarray:
        a = rng.normal(size=(d, 2 * d))
        return a @ a.T / (2 * d) + 0.3 * np.eye(d)

    mean_p, mean_q, cov_p, cov_q = size * rng.normal(size=d), rng.normal(size=d), covariance(), covariance()
    plain = GaussianPair.from_moments(mean_p, cov_p, mean_q, cov_q)
    b = rng.normal(size=(d, d)) + 2 * np.eye(d)
    assume(np.linalg.cond(b) < 100)
    move = rng.normal(size=d)

    def carried(cov: np.ndarray) -> np.ndarray:
        c = b @ cov @ b.T
        return 0.5 * (c + c.T)

    mapped = GaussianPair.from_moments(b @ mean_p + move, carried(cov_p), b @ mean_q + move, carried(cov_q))
    assert close(plain.log_delta(epsilon), mapped.log_delta(epsilon), 1e-9)


@quick
@given(hnp.arrays(float, 3, elements=st.floats(0.1, 10)), hnp.arrays(float, 3, elements=st.floats(0.1, 10)), epsilons)
def test_units_do_not_matter(var_p: np.ndarray, var_q: np.ndarray, epsilon: float) -> None:
    units = np.array([1e-12, 1.0, 1e9])
    plain = GaussianPair.from_diagonal(0, var_p, [0.1, 0.2, 0.3], var_q)
    scaled = GaussianPair.from_moments(
        np.zeros(3), np.diag(var_p * units**2), units * [0.1, 0.2, 0.3], np.diag(var_q * units**2)
    )
    assert close(plain.log_delta(epsilon), scaled.log_delta(epsilon))


@quick
@given(pairs, st.floats(1e-12, 0.99))
def test_epsilon_is_safe_and_tight(pair: GaussianPair, delta: float) -> None:
    epsilon = pair.epsilon(delta)
    assert epsilon >= 0
    assert pair.delta(epsilon) <= delta
    if epsilon > 0:
        assert pair.delta(epsilon * (1 - 1e-9)) >= delta


@settings(max_examples=30, deadline=None)
@given(pairs, st.floats(0.001, 0.999))
def test_tradeoff_meets_its_supporting_lines(pair: GaussianPair, alpha: float) -> None:
    # f(α) = sup_ε 1 − δ_QP(ε) − e^ε α over real ε: no line lies above, and one touches
    beta = pair.tradeoff(alpha)
    grid = np.linspace(-12, 12, 1001)
    lines = 1 - pair.reversed().delta(grid) - np.exp(grid) * alpha
    assert lines.max() <= beta + 1e-9
    if lines.max() > 0:
        assert lines.max() >= beta - 1e-2


@pytest.mark.parametrize("order", [0.3, 0.9, 1.0, 1.1, 2.0, 7.5])
# Checks def:log-moment.
def test_renyi_agrees_with_one_dimensional_integration(order: float) -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    p, q = norm(0.7, math.sqrt(0.8)), norm(0.0, 1.0)
    pair = GaussianPair.from_ratios(0.8, 0.7)
    if order == 1.0:
        truth = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -15, 15, epsabs=1e-13)[0]
    else:
        moment = quad(lambda x: math.exp(order * p.logpdf(x) + (1 - order) * q.logpdf(x)), -15, 15, epsabs=1e-13)[0]
        truth = math.log(moment) / (order - 1)
    assert pair.renyi(order) == pytest.approx(truth, rel=1e-9)
