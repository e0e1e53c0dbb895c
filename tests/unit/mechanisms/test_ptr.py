"""Propose, test, release: the test of the least eigenvalue, its noise, and the ridge that follows from it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import norm

import ndis
from helpers.sketches import PUBLIC, TESTED
from ndis.errors import BudgetError, ParameterError, PrecisionError
from ndis.gram import exact_gram
from ndis.mechanisms import ptr
from ndis.mechanisms.ptr import least_eigenvalue_floor
from ndis.mechanisms.releases import ProjectionRelease
from ndis.noise import ExactSample
from ndis.noise.bits import SystemBits
from ndis.paper import calibrated_projection

RNG = np.random.default_rng(0)
OTHER = PUBLIC | {"sketch_size": 20}
LOOSE = ndis.PTRProjection.calibrated(**OTHER | {"delta": 1e-3}, test_noise_std=6.0)


def test_ptr_refuses_a_test_that_spends_the_budget():
    with pytest.raises(BudgetError, match="test alone spends"):
        ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=1.0)


def test_the_papers_split_refuses_a_test_that_spends_epsilon():
    test = ndis.GaussianPair.from_ratios(1.0, shift=0.1)
    alone, halved = test.epsilon(2e-6 / 3), test.epsilon(1e-6 / 3)
    public = {**PUBLIC, "epsilon": 0.5 * (alone + halved)}  # jointly there is room
    assert ndis.PTRProjection.calibrated(**public, test_noise_std=10.0).ridge > 0
    with pytest.raises(BudgetError, match="spends all of epsilon"):
        calibrated_projection("paper", ndis.PTRProjection, **public, test_noise_std=10.0)


def test_the_quantile_is_on_the_safe_side():
    mpmath = pytest.importorskip("mpmath")
    for failure in (0.4, 1e-3, 3.3e-7, 1e-12):
        with mpmath.workdps(40):
            exact = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(failure))
            found = ptr._quantile(failure)
            assert exact <= found <= exact * (1 + mpmath.mpf(2) ** -51)


def test_the_ridge_follows_the_test(monkeypatch):
    """ridge = λ − max(λ_lb − l², 0), rounded up, and never below a public least one."""
    seen, levels = [], []

    def fixed(mean, *, noise_std, grid, random_state):
        seen.append(mean)
        return ExactSample(np.array(round(levels[-1] / grid)), grid, private=True)

    monkeypatch.setattr("ndis.mechanisms.ptr.exact_normal", fixed)
    gram = exact_gram(np.eye(2), row_norm_bound=1.0)
    shift = 10.0 * ptr._quantile(TESTED.failure_probability)
    for level, ridge in (
        (-50.0, TESTED.ridge),
        (shift + 1.0, TESTED.ridge),
        (shift + 3.0, TESTED.ridge - 2.0),
        (shift + 1000.0, 2.0**-10),
    ):
        levels.append(level)
        found = TESTED.ridge_in(TESTED._test(gram, SystemBits()))
        assert found == pytest.approx(ridge, abs=2e-3)
        assert found >= min(ridge, TESTED.ridge) - 1e-12
    assert set(seen) == {least_eigenvalue_floor(gram, step=Fraction(1, 4096))}


@pytest.mark.parametrize(
    ("rows", "smallest"),
    [
        (np.eye(3), 1.0),
        (np.zeros((2, 3)), 0.0),
        (np.vstack([np.eye(2)] * 7), 7.0),
        (np.array([[1.0, 0.0], [0.5, 0.0]]), 0.0),
        (np.array([[0.75], [0.5]]), 0.8125),
        (np.diag([2.0**-9, 1.0]), 2.0**-18),
    ],
)
@pytest.mark.parametrize("step", [Fraction(1, 4096), Fraction(1, 3), Fraction(9, 7)])
def test_the_floor_is_exact_on_ties(rows, smallest, step):
    floor = least_eigenvalue_floor(exact_gram(rows, row_norm_bound=1.0), step=step)
    assert floor <= smallest < floor + step


def test_the_floor_needs_no_help_from_floats(monkeypatch):
    gram = exact_gram(RNG.normal(size=(60, 4)), row_norm_bound=1.0)
    step = Fraction(1, 4096)
    found = least_eigenvalue_floor(gram, step=step)
    assert found <= np.linalg.eigvalsh(gram.to_float())[0] < found + step
    for wrong in (0, 3, 10**6):
        monkeypatch.setattr("ndis.mechanisms.ptr._guess", lambda _, value=wrong: Fraction(value))
        assert least_eigenvalue_floor(gram, step=step) == found


def test_the_floor_moves_by_no_more_than_the_squared_bound():
    bound, step = 1.5, Fraction(2.25) / 4096
    rows = 0.5 * RNG.normal(size=(30, 3))
    neighbours = (rows, np.vstack([rows, [[1.5, 0, 0]]]), np.vstack([rows, [[0, 0, 1.5]]]), rows[:-1])
    floors = [least_eigenvalue_floor(exact_gram(data, row_norm_bound=bound), step=step) for data in neighbours]
    assert all(abs(floors[0] - other) <= Fraction(2.25) for other in floors)


def test_the_noisy_eigenvalue_is_given_out_and_sets_the_ridge(tmp_path):
    for records in (1, 60, 1000):
        release = LOOSE.release(np.ones((records, 1)))
        noisy = release.receipt.parameters["noisy_eigenvalue"]
        assert abs(noisy - records) < 8 * LOOSE.test_noise_std  # false alarm: 1e-15
        assert release.ridge == LOOSE.ridge_in({"noisy_eigenvalue": noisy})
        assert release.ridge == release.receipt.parameters["released_ridge"]
        release.save(tmp_path / str(records))
        again = ProjectionRelease.load(tmp_path / str(records))
        assert (again.receipt, again.ridge) == (release.receipt, release.ridge)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_what_is_attained_is_attained(order):
    """The law of (λ̃, sketch) on no rows and one row, one column: between what `attained` and `profile` say."""
    std, epsilon = LOOSE.test_noise_std, 1.0
    centre, other = (1.0, 0.0) if order == "remove" else (0.0, 1.0)

    def integrand(y: float) -> float:
        ridge = LOOSE.ridge_in({"noisy_eigenvalue": y})
        pair = ndis.GaussianPair.from_ratios(1.0 + 1.0 / ridge, copies=LOOSE.sketch_size)
        loss = ((y - other) ** 2 - (y - centre) ** 2) / (2 * std**2)
        given = pair if order == "remove" else pair.reversed()
        return float(norm.pdf(y, centre, std)) * given.delta(epsilon - loss)

    cut = 1.0 + std * float(ndtri(1 - LOOSE.failure_probability))  # above it the ridge falls
    parts = [quad(integrand, a, b, epsrel=1e-7)[0] for a, b in ((centre - 9 * std, cut), (cut, centre + 9 * std))]
    (moved,) = [found for found in LOOSE.attained() if "one column" in found.neighbours]
    assert moved.profile.delta(epsilon, order=order) * (1 - 1e-5) <= sum(parts) <= LOOSE.profile().delta(epsilon)


def test_extremes_are_refused():
    for bound in (1e-120, 1e120):
        with pytest.raises(ParameterError, match="test_noise_std must be"):
            ndis.PTRProjection.calibrated(**OTHER | {"row_norm_bound": bound})
    with pytest.raises(PrecisionError):
        ndis.PTRProjection.calibrated(**OTHER, test_noise_std=1e100)
    for missing in ({"test_noise_std": None}, {"failure_probability": None}, {"failure_probability": 0.0}):
        with pytest.raises(ParameterError, match=f"{next(iter(missing))} must"):
            ndis.PTRProjection(**TESTED.arguments() | missing)
