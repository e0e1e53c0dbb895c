"""Gaussian process regression: exact posteriors, kernels pair by pair, dominating pairs that dominate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

import ndis
from ndis.errors import ParameterError
from ndis.models import GaussianProcess
from ndis.models.gp import kernel_value
from ndis.models.gp_bounds import largest_eigenvalue, mean_leverage, ratios_and_leverages
from ndis.paper.sensitivities import paper_sensitivity


def process(**changes):
    given = {
        "kernel": RBF(1.0),
        "noise_variance": 0.5,
        "label_bound": 1.0,
        "prior_variance_bound": 1.0,
        "query": [[0.0], [0.7]],
        "max_records": 30,
    }
    return GaussianProcess(**{**given, **changes})


SETTING = {"noise_variance": 250.0, "label_bound": 0.5, "query": [[0.0]], "max_records": 16}


@pytest.mark.parametrize("kernel", [RBF(0.8), Matern(1.2, nu=1.5), 0.5 * RBF(0.3) + ConstantKernel(0.25)])
def test_agrees_with_scikit_learn(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(25, 1)), rng.uniform(-1, 1, 25)
    model = process(kernel=kernel)
    reference = GaussianProcessRegressor(kernel=kernel, alpha=0.5, optimizer=None).fit(x, y)
    expected_mean, expected_cov = reference.predict(model.query, return_cov=True)
    mean, covariance = model.distribution((x, y))
    np.testing.assert_allclose(mean.to_float(), expected_mean, atol=1e-9)
    np.testing.assert_allclose(covariance.to_float(), expected_cov, atol=1e-9)


def test_no_records_leave_the_prior():
    model = process()
    mean, covariance = model.distribution((np.empty((0, 1)), []))
    assert mean.to_float().tolist() == [0.0, 0.0]
    np.testing.assert_allclose(covariance.to_float(), RBF(1.0)(model.query), atol=1e-12)


def test_bad_records_count_as_none_and_labels_are_clipped():
    model = process(kernel=DotProduct(sigma_0=0.0), query=[[1.0]])
    x, y = np.array([[0.5], [-0.25]]), [0.3, 5.0]
    plain = model.distribution((x, [0.3, 1.0]))
    cells = np.array([[0.5], [math.nan], [-0.25], [0.1], [2.0], [math.inf], ["a"]], dtype=object)
    bad = (cells, [0.3, 1.0, 5.0, math.nan, 1.0, 0.0, 0.0])
    # k(2, 2) = 4 is beyond the bound on prior variances
    for data in ((x, y), bad):
        found = model.distribution(data)
        assert found[0] == plain[0]
        assert found[1] == plain[1]


def test_records_beyond_the_promise_are_not_read():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1)), rng.uniform(-1, 1, 12)
    model = process(max_records=8)
    assert model.distribution((x, y))[0] == model.distribution((x[:8], y[:8]))[0]


def test_order_of_records_changes_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1)), rng.uniform(-1, 1, 12)
    model = process()
    one, other = model.distribution((x, y)), model.distribution((x[::-1], y[::-1]))
    assert one[0] == other[0]
    assert one[1] == other[1]


def test_kernel_value_is_symmetric_to_the_bit():
    lopsided = lambda a, b: (a + 2.0**-50 * b).sum(axis=1)[:, None] @ np.ones((1, len(b)))  # noqa: E731
    a, b = [0.1, 3.0], [0.1, 2.0]
    assert kernel_value(lopsided, a, b) == kernel_value(lopsided, b, a)


def exact_change(model, x, y):
    """(Σ' − Σ, Σ, μ − μ') of one query point, as fractions; the last record is the one that differs."""
    (m1, s1), (m0, s0) = model.distribution((x, y)), model.distribution((x[:-1], y[:-1]))
    one = [Fraction(int(a.numerators.ravel()[0]), a.denominator) for a in (m1, s1, m0, s0)]
    return one[3] - one[1], one[1], one[0] - one[2]


def largest_leverage(records, label_bound, noise):
    """The largest r²/s, whatever the ratio."""
    given = {"variance": 1.0, "noise": noise, "prior": 1.0, "noise_variance": 1.0}
    return float(ratios_and_leverages(records, label_bound, **given)[1][-1])


@pytest.mark.parametrize("noise", [0.5, *(pytest.param(v, marks=pytest.mark.sweep) for v in (0.02, 5.0, 250.0))])
def test_no_instance_leaves_the_bounds(noise):
    """Random and worst-sign instances of a kernel with any spectrum: x is the feature vector itself."""
    rng = np.random.default_rng(int(noise * 100))
    closest = 0.0
    for trial in range(60):
        n = int(rng.integers(1, 9))
        features = int(rng.integers(1, 4))
        x = rng.normal(size=(n, features)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1))
        if trial % 3 == 0:
            x = np.repeat(x[-1:], n, axis=0)
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0) * (1 + 1e-9)
        query = x[-1:] if trial % 2 else rng.normal(size=(1, features)) / 4
        query = query / max(np.linalg.norm(query) * (1 + 1e-9), 1.0)
        model = process(
            kernel=DotProduct(sigma_0=0.0), noise_variance=noise, query=query, max_records=8, analysis="posterior"
        )
        A = x[:-1] @ x[:-1].T + noise * np.eye(n - 1)
        y = np.append(-np.sign(np.linalg.solve(A, x[:-1] @ x[-1])), 1.0)
        y[y == 0] = 1.0
        reduction, left, shift = exact_change(model, x, y)
        assert reduction >= 0
        leverage = largest_leverage(8, 1.0, noise)
        assert shift**2 <= reduction * Fraction(leverage)  # r²/s ≤ leverage
        assert leverage <= 8 / noise * (1 + 1e-9)
        mean = Fraction(process(noise_variance=noise, query=query, max_records=8, kernel=DotProduct(sigma_0=0.0),
                                release="mean").sensitivity(1.0).add.shift[0])  # fmt: skip
        assert shift**2 <= mean**2
        closest = max(closest, float(shift**2) / (float(reduction) * leverage) if reduction else 0.0)
        for analysis in ("prior", "posterior"):
            model = process(
                kernel=DotProduct(sigma_0=0.0), noise_variance=noise, query=query, max_records=8, analysis=analysis
            )
            for v in (0.001, 1.0):
                pair = model.sensitivity(v).add
                t = reduction / (left + Fraction(v))
                assert t <= Fraction(float(pair.variance_ratio[0])) - 1
                assert shift**2 / (left + Fraction(v)) <= t * Fraction(float(pair.shift[0])) ** 2 / Fraction(
                    float(pair.excess[0])
                )
    assert closest > 0.5  # the bound on r²/s is not idle


def test_the_variance_bound_is_attained_by_a_lone_record_at_the_query():
    model = process(analysis="posterior", query=[[0.0]], kernel_tolerance=0.0)
    reduction, left, _ = exact_change(model, np.array([[0.0]]), np.array([1.0]))
    t = float(reduction / (left + 2))
    assert model.sensitivity(2.0).add.excess[0] == pytest.approx(t, rel=1e-9)


def test_the_leverage_bound_is_attained_by_copies():
    model = process(**SETTING)
    x, y = np.zeros((16, 1)), np.append(np.full(15, -0.5), 0.5)
    reduction, _, shift = exact_change(model, x, y)
    bound = largest_leverage(16, 0.5, 250.0)
    assert bound * (1 - 2e-3) < float(shift**2 / reduction) <= bound
    assert bound < 0.07 * (16 * 0.25 / 250)  # against nB²/σ²


@pytest.mark.parametrize("noise", [0.01, 0.3, 3.0, 14.9, 15.1, 300.0])
@pytest.mark.parametrize("records", [1, 2, 16, 400])
def test_the_bounds_are_the_maxima_of_their_formulas(noise, records):
    """Against a dense grid of (ω, w) in floats, all that the theorem allows."""
    N = records - 1
    omega = np.linspace(0, 1, 2001)[1:, None]
    least = np.maximum(omega, noise / (N + noise))
    w = least + (1 - least) * np.linspace(0, 1, 801)[None]
    residual = (1 + np.sqrt(N * omega * (1 - w) / noise)) ** 2
    best = float((residual * omega * w / (omega + noise) ** 2).max())
    found = mean_leverage(records, 1.0, Fraction(1), Fraction(noise))
    assert best * (1 - 1e-9) <= found <= best * (1 + 1e-3)

    v = 3.0
    t, leverage = ratios_and_leverages(records, 1.0, variance=1.0, noise=noise, prior=2.0, noise_variance=v)
    g = omega / (omega + noise) * 2 * w / (2 * w + v)
    ratio, level = g / (1 - g), residual / (omega + noise)
    held = leverage[np.searchsorted(-t, -ratio * (1 + 1e-12), side="left").clip(1) - 1] * (1 + 1e-12)
    inside = ratio <= t[0] * (1 + 1e-12)
    assert inside.all()
    assert (level <= held).all()  # the last pair with a ratio that large has the leverage too
    assert float((t * leverage).max()) <= 1.12 * float((ratio * level).max())


@pytest.mark.parametrize("noise", [0.05, 1.0, 30.0])
def test_what_one_record_does_over_arbitrary_spectra(noise):
    """thm:process-record for arbitrary feature vectors of norm at most 1, not only those of a kernel."""
    rng = np.random.default_rng(int(noise * 100))
    closest = {"residual": 0.0, "covariance": 0.0, "ratio": 0.0}
    for trial in range(3000):
        n, d, q = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        others = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 0)
        if trial % 3 == 0:
            others = np.outer(rng.choice([-1.0, 1.0], n), rng.normal(size=d)) * rng.uniform() ** 2
        others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1.0)
        phi = others[-1] / np.linalg.norm(others[-1]) if trial % 2 else rng.normal(size=d)
        phi = phi / np.linalg.norm(phi) * rng.uniform() ** rng.choice([0.0, 0.3])
        query = rng.normal(size=(q, d)) if trial % 4 else phi[None]
        q, largest = len(query), float(np.linalg.eigvalsh(query @ query.T)[-1])
        left = np.linalg.inv(np.eye(d) + others.T @ others / noise)
        omega, gamma, sigma = float(phi @ left @ phi), query @ left @ phi, query @ left @ query.T
        w = float(phi @ left @ left @ phi) / omega
        assert w >= max(omega, noise / (n + noise)) * (1 - 1e-12)
        solved = np.linalg.solve(others @ others.T + noise * np.eye(n), others @ phi)
        residual, allowed = 1 + np.abs(solved).sum(), 1 + math.sqrt(n * omega * max(1 - w, 0.0) / noise)
        v = 10.0 ** rng.uniform(-2, 2)
        g, g_allowed = float(gamma @ np.linalg.solve(sigma + v * np.eye(q), gamma)), omega * largest * w
        for name, found, limit in (
            ("residual", residual, allowed),
            ("covariance", float(gamma @ gamma), largest * omega * w),
            ("ratio", g, g_allowed / (largest * w + v)),
        ):
            assert found <= limit * (1 + 1e-7), name
            closest[name] = max(closest[name], found / limit if limit > 1e-9 else 0.0)
    assert min(closest.values()) > 0.99


def test_the_mean_is_released_with_the_noise_of_its_sensitivity():
    model = process(release="mean")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1)), rng.uniform(-1, 1, 12)
    mean, covariance = model.distribution((x, y))
    assert mean == process().distribution((x, y))[0]
    assert not covariance.numerators.any()
    assert model.distribution((np.empty((0, 1)), []))[0].to_float().tolist() == [0.0, 0.0]
    noise = ndis.lift(model, epsilon=1.0, delta=1e-5).noise_variance
    distance = math.sqrt(mean_leverage(30, 1.0, Fraction(1), Fraction(0.5)) * (1 + math.exp(-0.245)))
    expected = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=distance).noise_std
    assert math.sqrt(noise) == pytest.approx(expected, rel=1e-6)
    paper = ndis.lift(model, epsilon=1.0, delta=1e-5, bound="paper")
    assert paper.noise_variance >= noise * (1 - 1e-9)


# Checks thm:process-mean.
def test_the_mean_of_optimised_records_stays_within_its_sensitivity():
    """Climbs on the records of two kernels; the linear one comes close."""
    rng = np.random.default_rng(0)
    for kernel, closeness in ((RBF(1.0), 0.1), (DotProduct(sigma_0=0.0), 0.99)):
        model = process(kernel=kernel, noise_variance=0.1, query=[[1.0]], max_records=8, release="mean")
        limit = float(model.sensitivity(1.0).add.shift[0])

        def moved(x, model=model):
            y = np.append(np.full(len(x) - 1, -1.0), 1.0)
            first, second = model.distribution((x, y))[0], model.distribution((x[:-1], y[:-1]))[0]
            return abs(float(first.to_float()[0] - second.to_float()[0]))

        x = np.append(np.full(7, 0.15), 0.99)[:, None]
        best = moved(x)
        for step in range(120):
            trial = np.clip(x * (1 + 0.3 * (1 - step / 120) * rng.normal(size=x.shape)), -1, 1)
            best, x = max((best, x), (moved(trial), trial), key=lambda pair: pair[0])
        assert closeness * limit < best <= limit


def test_pieces_need_less_noise_and_hold_the_linear_kernel():
    """Where labels are nearly noiseless the residual is largest where ω is not: 380 falls to 141."""
    given = {**SETTING, "noise_variance": 0.1, "analysis": "posterior"}
    model = process(**{**given, "kernel": DotProduct(sigma_0=0.0), "query": [[1.0]]})
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert mechanism.noise_variance == pytest.approx(141.16, abs=0.05)
    whole = model.sensitivity(mechanism.noise_variance)
    assert whole.add.delta(1.0) > 1e-5  # the bounds apart need more
    profile = mechanism.profile()
    assert profile.epsilon(1e-5) <= 1.0 + 1e-9
    assert profile.repeat(2).epsilon(1e-5) > 1.0
    needed = max(float(found.profile.log_delta(1.0)) for found in model.attained(130.0))
    assert needed > math.log(1e-5)  # short records of a linear kernel need more than 130
    for found in model.attained(mechanism.noise_variance):
        assert float(found.profile.log_delta(1.0)) <= float(profile.log_delta(1.0))


def test_sensitivity_of_the_setting():
    model = process(**SETTING)
    assert model.sensitivity(8.0363).add.delta(1.0) < 1e-5 < model.sensitivity(8.0362).add.delta(1.0)
    assert model.sensitivity(8.0363).remove.delta(1.0) < 1e-5
    # the label noise hides a record by itself: nothing has to be added
    assert process(**SETTING, analysis="posterior").sensitivity(1e-6).add.log_delta(1.0) < -200


def test_posterior_analysis_is_never_worse():
    for noise in (0.01, 1.0, 100.0):
        for v in (0.01, 1.0, 100.0):
            pairs = [process(noise_variance=noise, analysis=a).sensitivity(v).add for a in ("prior", "posterior")]
            assert pairs[1].excess[0] <= pairs[0].excess[0]
            assert pairs[1].shift[0] <= pairs[0].shift[0] * (1 + 1e-9)


@pytest.mark.parametrize("release", ["draw", "mean"])
def test_extreme_parameters_claim_nothing_rather_than_fail(release):
    tiny = 2.0**-400
    model = process(
        kernel=RBF(1.0) * tiny, prior_variance_bound=tiny * (1 + 2.0**-40), noise_variance=tiny, label_bound=2.0**400,
        analysis="posterior", release=release,
    )  # fmt: skip
    assert model.sensitivity(1e-3).add.delta(1.0) == pytest.approx(1.0)


def test_nothing_is_claimed_below_the_allowance():
    model = process()
    assert model.sensitivity(1e-13).add.delta(1.0) == pytest.approx(1.0)
    assert paper_sensitivity(model, 1e-13).shift_bound > 1e5


def test_kernel_errors_are_paid_for():
    rough, fine = process(kernel_tolerance=1e-3), process(kernel_tolerance=0.0)
    assert rough.sensitivity(1.0).add.excess[0] > fine.sensitivity(1.0).add.excess[0] * 1.03
    with pytest.raises(ParameterError, match="noise_variance must exceed the allowance"):
        process(kernel_tolerance=0.1)


def test_many_query_points_use_the_largest_eigenvalue():
    matrix = np.array([[3, 2, 1], [2, 3, 2], [1, 2, 3]], dtype=object) * 10**9
    bound, true = largest_eigenvalue(matrix), float(np.linalg.eigvalsh(matrix.astype(float))[-1])
    assert true <= bound <= true * (1 + 1e-8)
    several, one = process(), process(query=[[0.0]])
    assert several.sensitivity(1.0).add.excess[0] == pytest.approx(1 + math.exp(-0.245), rel=1e-9)
    assert one.sensitivity(1.0).add.excess[0] == pytest.approx(1.0, rel=1e-9)


def test_paper_sensitivity():
    found = paper_sensitivity(process(**SETTING), 4.0)
    assert found.shift_bound == pytest.approx(0.5 * 4 / math.sqrt(250 * 4), rel=1e-9)
    assert found.log_ratio_bound == found.log_det_bound == pytest.approx(math.log(1.25), rel=1e-9)


def test_attained_lies_below_the_dominating_pair():
    model = process(**SETTING, analysis="posterior")
    worst = model.sensitivity(0.5)
    for found in model.attained(0.5):
        for epsilon in (0.0, 0.01, 0.1):
            assert found.profile.log_delta(epsilon, order="add") <= worst.add.log_delta(epsilon)
            assert found.profile.log_delta(epsilon, order="remove") <= worst.remove.log_delta(epsilon) + 1e-12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "rbf"),
        ("noise_variance", 0.0),
        ("noise_variance", math.nan),
        ("label_bound", -1.0),
        ("prior_variance_bound", 0.5),  # the query has variance 1
        ("prior_variance_bound", math.inf),
        ("query", [0.0]),
        ("query", [[math.nan]]),
        ("query", np.empty((0, 1))),
        ("max_records", None),
        ("max_records", 0),
        ("kernel_tolerance", -1.0),
        ("analysis", "none"),
        ("release", "posterior"),
        ("release", None),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(ParameterError, match="query" if name == "prior_variance_bound" and value == 0.5 else name):
        process(**{name: value})


def test_points_must_have_the_columns_of_the_query():
    with pytest.raises(ParameterError, match="X must have 1 column"):
        process().distribution((np.zeros((2, 2)), np.zeros(2)))
