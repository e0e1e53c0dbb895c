"""Bayesian logistic regression: the map is exact, its gradient certified, bad records count as none."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb

import ndis
from ndis.errors import ParameterError, PrecisionError
from ndis.gram.rows import RowLayout
from ndis.mechanisms.lifted import noisy_pair
from ndis.models import BohningLogistic, newton
from ndis.models.exact_solve import exact_inverse
from ndis.models.logistic import hessian_leverage, margins
from ndis.paper.sensitivities import paper_sensitivity

MODEL = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)


def cloud(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) / math.sqrt(d), rng.choice([-1.0, 1.0], n)


def exact_gradient_norm(model, data, mean):
    """‖∇L‖ at the exact mean, in mpmath, from the integer rows."""
    rows, layout = model._signed_rows(data)
    with mpmath.workprec(200):
        step = [mpmath.mpf(s.numerator) / s.denominator for s in layout.steps]
        w = [mpmath.mpf(int(a)) / mean.denominator for a in mean.numerators]
        total = [model.l2_penalty * a for a in w]
        for row in rows.tolist():
            z = [mpmath.mpf(q) * s for q, s in zip(row, step, strict=True)]
            a = 1 / (1 + mpmath.exp(mpmath.fdot(z, w)))
            total = [g - a * b for g, b in zip(total, z, strict=True)]
        return float(mpmath.sqrt(mpmath.fdot(total, total)))


@pytest.mark.parametrize("tolerance", [None, 1.5 * 2.0**-46, 1.5 * 2.0**-59])
@pytest.mark.parametrize("intercept", [None, 0.7])
def test_the_gradient_is_within_its_tolerance(tolerance, intercept):
    model = BohningLogistic(l2_penalty=0.3, row_norm_bound=1.5, gradient_tolerance=tolerance, intercept=intercept)
    data = cloud(60, 3)
    mean, _ = model.distribution(data)
    assert exact_gradient_norm(model, data, mean) <= model.gradient_tolerance


def test_the_float_certificate_bounds_the_gradient_anywhere():
    data = cloud(60, 3)
    rows, layout = MODEL._signed_rows(data)
    grid = np.array([float(s) for s in layout.steps])
    for seed in range(5):
        w = np.random.default_rng(seed).normal(size=3) * 10.0**seed
        true = exact_gradient_norm(MODEL, data, ndis.exact_array(w))
        bound = newton.gradient_bound(rows, grid, w, 3.0)
        assert true <= bound <= true * (1 + 1e-9) + 1e-9


def test_the_sigmoid_of_the_certificate():
    x = np.r_[np.random.default_rng(0).uniform(0, 700, 500), np.linspace(0, 1, 300), np.arange(1, 50) * math.log(2) / 2]
    margins_ = np.r_[x, -x]
    with mpmath.workprec(120):
        true = [1 / (1 + mpmath.exp(mpmath.mpf(v))) for v in margins_]
        errors = [abs(mpmath.mpf(a) - b) for a, b in zip(newton._weights(margins_), true, strict=True)]
    assert max(errors) <= newton._SIGMOID_ERROR


def test_a_certificate_that_cannot_be_met_refuses_before_anything_is_released(monkeypatch):
    monkeypatch.setattr(newton, "_REFINEMENTS", 0)
    model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, gradient_tolerance=1.5 * 2.0**-50)
    with pytest.raises(PrecisionError) as one:
        model.distribution(cloud(50, 3))
    with pytest.raises(PrecisionError) as other:
        model.distribution(cloud(70, 2, seed=1))
    assert str(one.value) == str(other.value)  # it says nothing of the data


def test_neighbours_differ_by_exactly_rank_one():
    x, y = cloud(20, 4)
    _, with_it = MODEL.distribution((x, y))
    _, without = MODEL.distribution((x[:-1], y[:-1]))
    a, b = exact_inverse(with_it), exact_inverse(without)
    change = [
        [Fraction(int(p), a.denominator) - Fraction(int(q), b.denominator) for p, q in zip(r, s, strict=True)]
        for r, s in zip(a.numerators, b.numerators, strict=True)
    ]
    assert change[0][0] > 0
    assert all(change[0][0] * change[i][j] == change[i][0] * change[0][j] for i in range(4) for j in range(4))
    trace = sum(change[i][i] for i in range(4))
    assert 4 * trace <= Fraction(1.5) ** 2  # ¼xxᵀ of a clipped row


def test_covariance_is_the_inverse_of_the_penalised_gram():
    x, y = cloud(50, 3)
    layout = RowLayout(3, row_norm_bound=1.5)
    rows, _ = MODEL._signed_rows((x, y))
    expected = np.linalg.inv(
        3.0 * np.eye(3) + 0.25 * (rows * float(layout.steps[0])).T @ (rows * float(layout.steps[0]))
    )
    np.testing.assert_allclose(MODEL.distribution((x, y))[1].to_float(), expected, rtol=1e-12)


def test_covariance_with_an_intercept_and_awkward_numbers():
    model = BohningLogistic(l2_penalty=0.1, row_norm_bound=0.7, intercept=0.3)
    data = cloud(50, 3)
    rows, layout = model._signed_rows(data)
    x = rows * [float(s) for s in layout.steps]
    _, covariance = model.distribution(data)
    np.testing.assert_allclose(covariance.to_float(), np.linalg.inv(0.1 * np.eye(4) + 0.25 * x.T @ x), rtol=1e-10)
    # the penalty is rounded up, never down, and by next to nothing
    empty = model.distribution((np.empty((0, 3)), []))[1]
    for j in range(4):
        penalty = Fraction(empty.denominator, int(empty.numerators[j, j]))
        assert Fraction(0.1) <= penalty <= Fraction(0.1) * (1 + Fraction(1, 2**38))


def test_order_and_bad_records_change_nothing():
    x, y = cloud(30, 3)
    mean, covariance = MODEL.distribution((x, y))
    x2 = np.concatenate([x, [[np.nan, 0, 0], [np.inf, 0, 0], [1.0, 0, 0], [0.5, 0, 0]]])
    y2 = np.concatenate([y, [1.0, -1.0, 0.0, np.nan]])
    again, covariance2 = MODEL.distribution((x2[::-1], y2[::-1]))
    assert covariance == covariance2
    np.testing.assert_allclose(again.to_float(), mean.to_float(), atol=2 * MODEL.gradient_tolerance / 3.0)


@pytest.mark.parametrize(
    "data", [(np.array([["a", 1.0]], dtype=object), ["b"]), (np.array([[1.0, 2.0]], dtype=object), [None])]
)
def test_cells_that_are_no_numbers_count_as_no_record(data):
    mean, covariance = MODEL.distribution(data)
    assert mean.to_float().tolist() == [0.0, 0.0]
    assert covariance == MODEL.distribution((np.empty((0, 2)), []))[1]


def test_records_beyond_the_promise_are_not_read():
    x, y = cloud(30, 3)
    model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, max_records=20)
    mean, covariance = model.distribution((x, y))
    short = MODEL.distribution((x[:20], y[:20]))
    assert mean == short[0]
    assert covariance == short[1]


def test_sensitivity_is_rounded_outwards_and_falls_with_the_noise():
    previous = None
    for v in (0.01, 1.0, 4.0, 100.0):
        found = MODEL.sensitivity(v)
        ratio = (Fraction(v) + Fraction(1, 3)) / (Fraction(v) + 1 / (3 + Fraction(1.5) ** 2 / 4)) - 1
        assert ratio <= Fraction(found.ratio_bound) <= ratio * (1 + Fraction(1, 2**50))
        shift2 = ((Fraction(1.5) + 2 * Fraction(MODEL.gradient_tolerance)) / 3) ** 2 / Fraction(v)
        assert shift2 <= Fraction(found.shift_bound) ** 2 <= shift2 * (1 + Fraction(1, 2**50))
        assert found.pieces[-1].ratio_bound == found.ratio_bound
        shifts = [piece.shift_bound for piece in found.pieces]
        assert shifts == sorted(shifts, reverse=True)
        assert previous is None or (
            found.shift_bound < previous.shift_bound and found.ratio_bound < previous.ratio_bound
        )
        previous = found


def test_the_last_piece_is_the_lone_direction():
    """At T the record is alone in its direction: ‖m‖² = (l/λ)²/(v + 1/(λ + l²/4)) under the narrower law."""
    v = 4.0
    last = MODEL.sensitivity(v).pieces[-1].shift_bound
    assert last == pytest.approx(0.5 / math.sqrt(v + 1 / (3 + 1.5**2 / 4)), rel=2e-5)


def test_paper_sensitivity():
    model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, max_records=455, dimension=30)
    found = paper_sensitivity(model, 17.0)
    least = 1 / (3 + 455 * 1.5**2 / 4)
    assert found.shift_bound == pytest.approx(0.5 / math.sqrt(17 + least), rel=1e-5)
    assert found.log_ratio_bound == pytest.approx(math.log((17 + 1 / 3) / (17 + least)), rel=1e-12)
    assert found.log_det_bound == pytest.approx(30 * found.log_ratio_bound, rel=1e-12)
    with pytest.raises(ParameterError, match="dimension must be given"):
        paper_sensitivity(MODEL, 17.0)


def test_attained_is_inside_the_envelope_and_gets_close():
    v = 3.875
    envelope = MODEL.sensitivity(v)
    deltas = []
    for found in MODEL.attained(v):
        assert found.profile.add.excess.max() <= envelope.ratio_bound
        deltas.append(found.profile.delta(1.0))
    assert 5e-6 < max(deltas) <= 1e-5


@pytest.mark.parametrize("penalty", [0.05, 0.2, 1.0])
def test_attained_is_close_for_small_penalties_too(penalty):
    """The record pulls its own margin back by up to l²/λ; a crowd that does not allow for it is far from the bound."""
    model = BohningLogistic(l2_penalty=penalty, row_norm_bound=1.5)
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    deltas = [found.profile.delta(1.0) for found in mechanism.attained()]
    assert 3e-6 < max(deltas) <= 1e-5


@pytest.mark.parametrize(
    ("epsilon", "delta", "before", "noise"),
    [(2, 1e-5, 1.1456, 1.0856), (4, 1e-8, 0.6106, 0.5527), (8, 1e-6, 0.1293, 0.1079)],
)
def test_even_pieces_need_less_noise(epsilon, delta, before, noise):
    found = ndis.lift(MODEL, epsilon=epsilon, delta=delta).noise_variance
    assert found == pytest.approx(noise, abs=1e-4)
    assert found < 0.95 * before


# ---------------------------------------------------------------------- the mean


# Checks thm:logistic-mean.
def test_the_mean_needs_the_noise_of_the_gaussian_mechanism():
    model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, release="mean")
    x, y = cloud(20, 4)
    mean, covariance = model.distribution((x, y))
    assert mean == MODEL.distribution((x, y))[0]
    assert not covariance.numerators.any()
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    reach = (1.5 + 2 * 1.5 * 2.0**-20) / 3.0
    gaussian = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=reach)
    assert math.sqrt(mechanism.noise_variance) == pytest.approx(gaussian.noise_std, rel=1e-9)
    assert mechanism.noise_variance == pytest.approx(3.4794, abs=1e-4)
    release = mechanism.release((x, y))
    assert release.values.shape == (4,)
    assert release.receipt.parameters["model"]["release"] == "mean"
    assert 5e-6 < max(found.profile.delta(1.0) for found in mechanism.attained()) <= 1e-5


def test_the_mean_under_the_paper_bound_is_that_of_the_mean():
    """The paper's Δ counts the least variance of the posterior, which a released mean does not have."""
    given = {"l2_penalty": 3.0, "row_norm_bound": 1.5, "max_records": 5, "dimension": 2}
    draw, mean = (paper_sensitivity(BohningLogistic(**given, release=release), 0.01) for release in ("draw", "mean"))
    assert mean.shift_bound > 1.5 * draw.shift_bound
    assert mean.log_ratio_bound == 0


# ---------------------------------------------------------------------- a promise on the number of records


@pytest.mark.parametrize("penalty", [50.0, 100.0, 300.0])
def test_many_penalties_need_no_noise_where_the_number_of_records_is_promised(penalty):
    model = BohningLogistic(l2_penalty=penalty, row_norm_bound=1.5, max_records=455)
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert 0 < mechanism.noise_variance < 1e-50
    assert max(found.profile.delta(1.0) for found in mechanism.attained()) <= 1e-5
    x, y = cloud(30, 3)
    release = mechanism.release((x, y))
    assert release.private
    mean, covariance = (part.to_float() for part in model.distribution((x, y)))
    assert np.all(np.abs(release.values - mean) < 9 * np.sqrt(np.diag(covariance)))


def test_a_promise_never_costs_noise():
    for penalty in (0.3, 3.0, 30.0):
        for release in ("draw", "mean"):
            given = {"l2_penalty": penalty, "row_norm_bound": 1.5, "release": release}
            free, promised = (
                ndis.lift(BohningLogistic(**given, max_records=n), epsilon=1.0, delta=1e-5).noise_variance
                for n in (None, 100)
            )
            assert promised <= free * (1 + 1e-9)
    assert promised < 0.8 * free


def test_the_hessian_leverage_holds_for_arbitrary_matrices():
    """xᵀH⁻¹(P⁻¹ + vI)⁻¹H⁻¹x over H between λ(1−ρ) + ρP and P, not only those of data; and it is not idle."""
    rng = np.random.default_rng(0)
    closest = 0.0
    for trial in range(3000):
        d = int(rng.integers(1, 5))
        lam, rho = 10.0 ** rng.uniform(-1, 2), rng.uniform(0.01, 0.99)
        top = lam * (1 + 10.0 ** rng.uniform(-1, 2))
        v = 10.0 ** rng.uniform(-4, 1) / lam if trial % 3 else 1e-60
        p = lam + (top - lam) * rng.uniform(size=d) ** rng.choice([0.0, 1.0, 5.0])
        root = np.sqrt((1 - rho) * (p - lam))  # P − H₀
        basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
        share = rng.uniform(size=d) ** rng.choice([0.0, 1.0]) * (trial % 2)
        hessian = np.diag(lam * (1 - rho) + rho * p) + root[:, None] * ((basis * share) @ basis.T) * root
        inverse = np.linalg.inv(hessian)
        found = float(np.linalg.eigvalsh(inverse @ np.diag(p / (1 + v * p)) @ inverse)[-1])
        bound = hessian_leverage(arb(lam), arb(rho), arb(v), arb(top), arb(0))
        assert found <= float(bound) * (1 + 1e-9)
        closest = max(closest, found / float(bound))
    assert closest > 0.99


@pytest.mark.parametrize(("penalty", "records"), [(30.0, 40), (5.0, 12), (0.5, 3)])
# Checks thm:logistic-records.
def test_minimisers_and_margins_stay_within_the_promise(penalty, records):
    rng = np.random.default_rng(records)
    model = BohningLogistic(l2_penalty=penalty, row_norm_bound=1.5, max_records=records)
    pull, curvature = (float(part) for part in margins(records, arb(penalty), arb(1.5)))
    margin = math.log(pull / (1 - pull))
    assert curvature == pytest.approx(4 * pull * (1 - pull))
    closest = 0.0
    for trial in range(40):
        x = rng.normal(size=(records, 2)) * (1.0 if trial % 2 else [1.0, 1e-3])
        x *= 1.5 / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0.2, 1.0) ** (trial % 3)
        weights = model.distribution((x, np.sign(x[:, 0]) + (x[:, 0] == 0)))[0].to_float()
        closest = max(closest, 1.5 * float(np.linalg.norm(weights)) / margin)
    assert 0.3 < closest <= 1


def test_noisy_pair_of_a_vector():
    pair = noisy_pair([0.5, 0.0], np.eye(2), [0.0, 0.0], 3 * np.eye(2), 1.0)
    np.testing.assert_allclose(pair.variance_ratio, 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("l2_penalty", 0.0),
        ("l2_penalty", math.nan),
        ("l2_penalty", 1e-9),
        ("row_norm_bound", -1.0),
        ("row_norm_bound", math.inf),
        ("max_records", 0),
        ("max_records", 2.5),
        ("gradient_tolerance", 0.0),
        ("gradient_tolerance", math.nan),
        ("gradient_tolerance", 10.0),
        ("intercept", 0.0),
        ("dimension", 0),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(ParameterError, match=name):
        BohningLogistic(**{"l2_penalty": 3.0, "row_norm_bound": 1.5, name: value})


@pytest.mark.parametrize("v", [0.0, -1.0, math.nan, math.inf])
def test_bad_noise(v):
    with pytest.raises(ParameterError, match="noise_variance"):
        MODEL.sensitivity(v)


@pytest.mark.parametrize(
    "data", [np.zeros((2, 2)), (np.zeros((2, 2)), np.zeros(3)), (np.zeros((2, 2)), np.zeros((2, 2)))]
)
def test_bad_shapes(data):
    with pytest.raises(ParameterError):
        MODEL.distribution(data)
