"""Exactness of the sampler: enclosures, refinement, and the truth computed at 1000 bits by other means."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis._exact import exact_array
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.gram import exact_gram
from ndis.noise import exact_gaussian, exact_normal, grid_for
from ndis.noise.bits import LazyNormals, SeededBits, SystemBits
from ndis.noise.gaussian import CovarianceRoot, draw_rounded


class GivenBits:
    """Hands out prepared digits, and counts how often it was asked for more."""

    private = False

    def __init__(self, digits: list[str]) -> None:
        self.digits = digits  # one endless string of binary digits for each normal
        self.taken = [0] * len(digits)
        self.asked_again: list[int] = []

    def take(self, count: int, *, width: int) -> list[int]:
        first = not any(self.taken)
        which = range(count) if first else [self.asked_again.pop(0)]
        result = []
        for i in which:
            result.append(int(self.digits[i][self.taken[i] : self.taken[i] + width], 2))
            self.taken[i] += width
        return result


def true_normal(digits: str) -> mpmath.mpf:
    """z for a long string of digits: the sign, then V; z = ±√2·erfc⁻¹(V), by bisection-free Newton on erfc."""
    v = mpmath.mpf(int(digits[1:], 2)) / mpmath.mpf(2) ** (len(digits) - 1)
    z = mpmath.findroot(lambda t: mpmath.erfc(t) - v, mpmath.erfinv(1 - v) if v > 1e-10 else 5)
    return mpmath.sqrt(2) * z * (-1 if digits[0] == "1" else 1)


def binary_digits(seed: int, count: int) -> str:
    (number,) = SeededBits(seed).take(1, width=count)
    return format(number, f"0{count}b")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("side", [-1, 1])
def test_a_straddling_entry_resolves_to_the_truth_at_1000_bits(seed: int, side: int) -> None:
    """The mean puts the draw 2⁻¹⁷⁰ of a grid step beside a rounding boundary."""
    with mpmath.workprec(1100):
        digits = binary_digits(seed, 1024)
        z = true_normal(digits)
        boundary = Fraction(2 * seed + 1, 2)  # grid 1, standard deviation 1
        nearly = Fraction(int(mpmath.floor(z * mpmath.mpf(2) ** 180)), 2**180)
        mean = boundary - nearly + Fraction(side, 2**170)
        truth = int(mpmath.floor(mpmath.mpf(mean.numerator) / mean.denominator + z + mpmath.mpf("0.5")))
    bits = GivenBits([digits])
    bits.asked_again = [0] * 20
    one = exact_array(np.array([[mean]], dtype=object))
    drawn = draw_rounded(one, CovarianceRoot(exact_array([[1]])), 1, 0, bits)
    assert int(drawn.item()) == truth == seed + (1 if side > 0 else 0)
    assert bits.taken[0] > 128  # it did need more digits


# Checks thm:exact-draw.
def test_a_whole_vector_matches_the_truth_at_1000_bits() -> None:
    """Three columns from N(μ, Σ) with a grid so fine that every digit of the first enclosure counts."""
    d, count, exponent = 4, 3, -70
    A = np.random.default_rng(0).integers(-9, 9, size=(d, d))
    covariance = exact_array(A @ A.T + np.eye(d, dtype=int))
    mean = exact_array(np.array([[Fraction(1, 3)], [0.1], [-5], [2]], dtype=object))
    digits = [binary_digits(100 + i, 1024) for i in range(d * count)]
    bits = GivenBits(digits)
    drawn = draw_rounded(mean, CovarianceRoot(covariance), count, exponent, bits)
    with mpmath.workprec(1100):
        S = mpmath.matrix([[int(v) for v in row] for row in covariance.numerators.tolist()])
        L = mpmath.cholesky(S)
        z = mpmath.matrix(d, count)
        for i in range(d):
            for c in range(count):
                z[i, c] = true_normal(digits[i * count + c])
        y = L * z
        for i in range(d):
            mu = mpmath.mpf(mean.numerators[i, 0]) / mean.denominator
            for c in range(count):
                truth = mpmath.floor((y[i, c] + mu) * mpmath.mpf(2) ** -exponent + mpmath.mpf("0.5"))
                assert int(drawn[i, c]) == int(truth)


def test_refining_never_moves_the_number() -> None:
    normals = LazyNormals(50, SeededBits(3))
    last = normals.fixed_point(range(50), 30)
    for digits in (90, 200, 500):
        now = normals.fixed_point(range(50), digits)
        shift = digits - 30
        assert all(abs((a << shift) - b) <= 2 << shift for a, b in zip(last, now, strict=True))
        assert normals.fixed_point(range(50), 30) is not last


def test_the_far_tail_gets_as_many_digits_as_it_needs() -> None:
    """V starting with 300 zeros: |z| > 20, far beyond what the first 128 digits can tell."""
    digits = "0" + "0" * 300 + binary_digits(7, 800)
    bits = GivenBits([digits])
    bits.asked_again = [0] * 20
    with mpmath.workprec(1500):
        v = mpmath.mpf(int(digits[1:], 2)) / mpmath.mpf(2) ** (len(digits) - 1)
        z = mpmath.sqrt(2) * mpmath.findroot(lambda t: mpmath.log(mpmath.erfc(t)) - mpmath.log(v), 14)
        assert abs(LazyNormals(1, bits).fixed_point([0], 60)[0] - int(z * 2**60)) <= 1


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 60), digits=st.sampled_from([0, 40, 130]))
def test_the_root_is_within_one_unit(seed: int, d: int, digits: int) -> None:
    A = np.random.default_rng(seed).integers(-50, 50, size=(d, d + 3))
    covariance = exact_array((A @ A.T + np.eye(d, dtype=int)) / 64.0)
    coarse = CovarianceRoot(covariance).fixed_point(digits)
    fine = CovarianceRoot(covariance).fixed_point(digits + 300)
    assert np.all(abs((coarse * 2**300) - fine) <= 2**300 + 1)
    scaled = covariance.fixed_point(2 * digits + 600)
    error = abs(fine).sum(axis=1)
    assert np.all(abs(fine @ fine.T - scaled) <= error[:, None] + error + d + 1)


def test_ill_conditioned_covariances_only_need_precision() -> None:
    tiny = Fraction(1, 10**80)
    covariance = exact_array(np.array([[1, 1], [1, 1 + tiny]], dtype=object))
    L = CovarianceRoot(covariance).fixed_point(200)
    assert abs(L[1, 1] - math.isqrt(2**400 // 10**80)) <= 2


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], "positive definite"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[0.0]], "positive definite"),
        ([[-1.0]], "positive definite"),
        ([[1.0, 0.5], [0.25, 1.0]], "symmetric"),
        ([1.0], "square matrix"),
        ([[1.0, 0.0]], "square matrix"),
        ([[math.nan]], "covariance must be finite"),
        ([["a"]], "covariance must hold integers"),
        (np.zeros((0, 0)), "square matrix"),
    ],
)
def test_covariances_are_checked(covariance: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        exact_gaussian(0, covariance, size=1, grid=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": 0.3}, "grid must be a positive power of two"),
        ({"grid": 0.0}, "grid must be a positive power of two"),
        ({"grid": math.nan}, "grid must be a positive power of two"),
        ({"size": -1}, "size must be a number of vectors"),
        ({"size": 2.5}, "size must be a number of vectors"),
        ({"mean": [1, 2, 3]}, "mean must have 2 entries"),
        ({"mean": math.inf}, "mean must be finite"),
        ({"random_state": "seed"}, "random_state must be None"),
        ({"random_state": -1}, "random_state must not be negative"),
    ],
)
def test_public_arguments_are_checked(arguments: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"mean": 0, "covariance": np.eye(2), "size": 2, "grid": 1.0}
    with pytest.raises(ParameterError, match=message):
        exact_gaussian(**{**good, **arguments})


def test_noise_is_given_once() -> None:
    for arguments in ({}, {"noise_std": 1, "noise_variance": 1}):
        with pytest.raises(ParameterError, match="exactly one"):
            exact_normal(0, **arguments)
    for bad in (0, -1.0, math.nan, math.inf, [1.0, 2.0]):
        with pytest.raises(ParameterError, match="noise_std must"):
            exact_normal(0, noise_std=bad)


def test_a_seed_repeats_warns_and_marks() -> None:
    arguments = {"covariance": [[2, 1], [1, 2]], "size": 5, "grid": grid_for(1.0)}
    with pytest.warns(NotPrivateWarning, match="not private"):
        one = exact_gaussian(0, random_state=7, **arguments)
    with pytest.warns(NotPrivateWarning):
        two = exact_gaussian(0, random_state=np.random.default_rng(7), **arguments)
    assert np.array_equal(one.integers, two.integers)
    assert not one.private
    with pytest.warns(NotPrivateWarning):
        assert not exact_normal(0, noise_std=1, random_state=np.random.SeedSequence(1)).private


def test_without_a_seed_nothing_repeats() -> None:
    arguments = {"covariance": np.eye(3), "size": 4, "grid": grid_for(1.0)}
    one, two = exact_gaussian(0, **arguments), exact_gaussian(0, **arguments)
    assert one.private
    assert not np.any(one.integers == two.integers)  # 12 coincidences of chance 2⁻²⁰ each
    assert SystemBits().take(2, width=128) != SystemBits().take(2, width=128)


def test_shapes_and_grids() -> None:
    assert exact_gaussian([1, 2], np.eye(2), size=0, grid=1.0).values.shape == (0, 2)
    assert exact_normal(np.zeros((2, 3, 4)), noise_std=1).values.shape == (2, 3, 4)
    assert exact_normal(5, noise_variance=Fraction(1, 3)).values.shape == ()
    assert exact_normal([], noise_std=1.0).values.shape == (0,)
    coarse = exact_gaussian(2.0**70, [[1]], size=3, grid=1.0)
    assert coarse.integers.dtype == object
    assert np.all(coarse.values == 2.0**70)
    assert exact_normal(Fraction(1, 3), noise_std=Fraction(1, 7), grid=2.0**30).integers.item() == 0
    for std in (1e-100, 1.0, 3.0, 1e100):
        assert 2.0**-21 < grid_for(std) / std <= 2.0**-20


def test_large_draws_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of 10, 20, … with noise of 1: every piece gets its own means."""
    monkeypatch.setattr("ndis.noise.gaussian._NORMALS_AT_ONCE", 6)
    means = 10 * np.arange(20)
    assert np.all(np.abs(exact_normal(means, noise_std=0.5).values - means) < 5)
    sample = exact_gaussian([0, 100], np.eye(2) / 4, size=10, grid=grid_for(0.5)).values
    assert sample.shape == (10, 2)
    assert np.all(np.abs(sample - [0, 100]) < 5)  # ten standard deviations
    assert len(np.unique(sample)) == 20


def test_a_private_gram_goes_straight_in() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 3))
    gram = exact_gram(rows, row_norm_bound=1.0)
    ridge = 40.72
    sample = exact_gaussian(0, gram.exact(ridge=ridge), size=50, grid=grid_for(math.sqrt(ridge)))
    assert sample.values.shape == (50, 3)
    assert np.all(sample.values == sample.integers * sample.grid)


def test_values_beyond_the_range_of_integers_as_floats() -> None:
    sample = exact_normal([1.0], noise_std=2.0**200, grid=2.0**-900)
    assert np.isfinite(sample.values).all()


def test_threads_do_not_disturb_the_precision() -> None:
    before = flint.ctx.prec

    def run() -> None:
        for i in range(4):
            exact_normal(np.zeros(5), noise_std=1.0, grid=2.0 ** -(50 + 100 * i))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert flint.ctx.prec == before
