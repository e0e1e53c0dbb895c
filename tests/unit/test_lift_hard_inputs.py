"""Inputs meant to break lifted mechanisms: labels of any type, far points, changed models, extreme numbers."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

import ndis
from ndis.enclosure import Enclosure
from ndis.errors import BudgetError, ParameterError
from ndis.learn import PrivateGaussianProcess, PrivateLogisticRegression
from ndis.learn._labels import label_signs, occurring_classes, private_labels, stated_classes
from ndis.mechanisms.gaussian import _finite
from ndis.models import BohningLogistic, GaussianProcess
from ndis.models.gp import kernel_value
from ndis.models.kernel_errors import derived_tolerance, kernel_error
from ndis.models.newton import _refine, gradient_bound
from ndis.models.records import read_records
from ndis.worst_case.envelopes import LoewnerEnvelope, RankOneEnvelope
from ndis.worst_case.profile import worst_log_delta
from ndis.worst_case.rank_one import certified_rank_one
from ndis.worst_case.split import certified_split

ANYTHING = [
    "x", "1", b"1", None, pd.NA, 1j, math.nan, math.inf, np.array([1, 2]), np.array([]), np.array(1.0), [1, [2, 3]],
    [[1]], (1,), 10**400, -(10**400), True, np.float32(1), np.longdouble(1), np.complex128(1j), Fraction(1), object(),
    np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01"), Decimal("sNaN"), {}, 2, "",
]  # fmt: skip


class TestLabels:
    @pytest.mark.parametrize("label", ANYTHING, ids=lambda label: type(label).__name__)
    @pytest.mark.parametrize("classes", [(0, 1), ("0", "1"), (0.5, "a"), (b"1", True)])
    def test_no_label_changes_another_or_raises(self, label, classes):
        labels, stated = [0, 1, "0", "1", "a", b"1", 0.5, 2], stated_classes(classes)
        plain = label_signs(private_labels(None, labels), stated)
        more = label_signs(private_labels(None, [*labels, label]), stated)
        assert sorted(set(plain)) == [-1.0, 0.0, 1.0]
        assert more[:-1].tolist() == plain.tolist()
        assert more[-1] in (-1.0, 0.0, 1.0)

    @pytest.mark.parametrize("label", ANYTHING, ids=lambda label: type(label).__name__)
    def test_no_label_changes_how_a_model_reads_another(self, label):
        x, y = [[1.0]] * 4, [1, True, "0.5", b"2"]
        plain, more = (
            read_records((x, y), max_records=None)[1],
            read_records(([*x, [1.0]], [*y, label]), max_records=9)[1],
        )
        assert plain.tolist() == more[:-1].tolist() == [1.0, 1.0, 0.5, 2.0]

    def test_estimators_release_with_any_label(self):
        y = [0, 1, *ANYTHING]
        x = np.zeros((len(y), 1))
        logistic = PrivateLogisticRegression(
            row_norm_bound=1.0, classes=(0, 1), method="posterior", l2_penalty=1.0, bound="renyi"
        ).fit(x, y)
        assert logistic.receipt_.private
        process = PrivateGaussianProcess(label_bound=1.0, max_records=40, noise_variance=25.0)
        assert process.fit(x, y).receipt_.private

    def test_occurring_classes_leave_out_what_is_no_label_and_quote_none(self):
        labels = private_labels(None, ["yes", None, "no", math.nan, pd.NA, [1, 2]])
        assert occurring_classes(labels).tolist() == ["no", "yes"]
        for bad in ([0.25, 17.75], [1, 17, 1775], ["secret"]):
            with pytest.raises(ParameterError) as error:
                occurring_classes(private_labels(None, bad))
            assert not any(word in str(error.value) for word in ("17", "0.25", "secret"))

    @pytest.mark.parametrize("classes", ["ab", (0,), (0, 0.0), (None, 1), (math.nan, 1), ([1], 2), 5])
    def test_classes_are_two_different_labels(self, classes):
        with pytest.raises(ParameterError, match="classes must be two different labels"):
            stated_classes(classes)

    def test_classes_of_two_types_stay_as_they_are(self):
        assert stated_classes((0, "0")).tolist() == [0, "0"]
        assert label_signs(np.array([0, "0"], dtype=object), stated_classes((0, "0"))).tolist() == [-1.0, 1.0]

    def test_types_and_shapes_of_arrays_are_refused(self):
        for y in (np.zeros((2, 2)), np.zeros(2, dtype=complex), np.zeros(2, dtype="M8[s]")):
            with pytest.raises(ParameterError, match="y must"):
                private_labels(None, y)


# ---------------------------------------------------------------------- kernels


def process(**changes):
    given = {"kernel": RBF(1.0), "noise_variance": 0.5, "label_bound": 1.0, "prior_variance_bound": 1.0}
    return GaussianProcess(**{**given, "query": [[0.0]], "max_records": 3, **changes})


def exact(kernel, a, b):
    """The kernel that the error bounds refer to, at the working precision of mpmath."""
    kind, number = type(kernel), mpmath.mpf
    if kind is ConstantKernel:
        return number(kernel.constant_value)
    if kind is WhiteKernel:
        return number(0)
    if kind in (Sum, Product):
        one, other = exact(kernel.k1, a, b), exact(kernel.k2, a, b)
        return one + other if kind is Sum else one * other
    if kind is Exponentiation:
        return exact(kernel.kernel, a, b) ** kernel.exponent
    if kind is DotProduct:
        return sum(number(x) * number(y) for x, y in zip(a, b, strict=True)) + number(kernel.sigma_0**2)
    if kind is RationalQuadratic:
        square = sum((number(x) - number(y)) ** 2 for x, y in zip(a, b, strict=True))
        return (1 + square / number(2 * kernel.alpha * kernel.length_scale**2)) ** -number(kernel.alpha)
    square = sum(
        (number(x) - number(y)) ** 2 for x, y in zip(a / kernel.length_scale, b / kernel.length_scale, strict=True)
    )
    nu = getattr(kernel, "nu", math.inf)
    if nu == math.inf:
        return mpmath.exp(-square / 2)
    z = mpmath.sqrt(2 * nu * square)
    return {0.5: 1, 1.5: 1 + z, 2.5: 1 + z + z**2 / 3}[nu] * mpmath.exp(-z)


KERNELS = [
    RBF(1.0), RBF(1e3), RBF([0.3, 50.0]), Matern(2e5, nu=0.5), Matern(0.7, nu=1.5), Matern(1e5, nu=2.5),
    Matern(3.0, nu=math.inf), RationalQuadratic(1.0, 0.01), RationalQuadratic(10.0, 1e6), DotProduct(1.0),
    DotProduct(0.0), ConstantKernel(2.0), (DotProduct(1.0) + RBF(1e3)) ** 3,
    2.0 * RBF(0.5) + DotProduct(0.3) * Matern(1e4, nu=1.5) + WhiteKernel(),
]  # fmt: skip


class TestKernels:
    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_errors_are_within_the_bound_near_and_far(self, kernel):
        rng = np.random.default_rng(0)
        error = kernel_error(kernel, features=2, point_bound=1e6)
        with mpmath.workprec(300):
            for trial in range(60):
                a = rng.uniform(-1, 1, 2) * 10.0 ** rng.uniform(-8, 6)
                b = a + rng.uniform(-1, 1, 2) * 10.0 ** rng.uniform(-9, 6) * (trial % 2)
                b = np.clip(b, -1e6, 1e6) if trial > 1 else -a
                reach = mpmath.sqrt(exact(kernel, a, a) * exact(kernel, b, b))
                off = abs(mpmath.mpf(kernel_value(kernel, a, b)) - exact(kernel, a, b))
                assert off <= error.relative * reach + error.absolute

    def test_tolerance_is_derived_only_where_it_is_proved(self):
        box = {"features": 2, "point_bound": 1e6, "prior_variance_bound": 4.0}
        assert derived_tolerance(2 * RBF(1.0), **box) == 2.0**-38
        assert derived_tolerance(RationalQuadratic(1.0, 1e6), **box) > 2.0**-30
        unknown = [
            PairwiseKernel(metric="rbf"), ExpSineSquared(), Matern(nu=2.0), lambda a, b: a @ b.T, RBF(1e-40),
            RBF(1.0) * ExpSineSquared(), RBF(1.0) ** 0.5, DotProduct() ** 60, ConstantKernel(-1.0),
            type("Mine", (RBF,), {})(1.0),
        ]  # fmt: skip
        for kernel in unknown:
            with pytest.raises(ParameterError, match="kernel_tolerance must be stated"):
                derived_tolerance(kernel, **box)
        assert process(kernel=ExpSineSquared(), kernel_tolerance=1e-9).sensitivity(1.0).add.excess[0] > 1.0

    def test_integer_constants_do_not_overflow(self):
        kernel = ConstantKernel(2**40) * ConstantKernel(2**40) * RBF(1.0)
        model = process(kernel=kernel, prior_variance_bound=2.0**81, noise_variance=2.0**60)
        assert kernel_value(model.kernel, [0.0], [0.0]) == 2.0**80

    def test_far_points_are_no_records_and_no_queries(self):
        model = process(kernel=0.99 + 0.01 * Matern(nu=1.5), point_bound=10.0)
        none = model.distribution((np.empty((0, 1)), []))
        far = model.distribution(([[0.9e154], [10.1], [-11.0]], [1.0, 1.0, 1.0]))
        assert (far[0], far[1]) == none
        assert model.distribution(([[-10.0]], [1.0]))[1] != none[1]
        with pytest.raises(ParameterError, match="query must hold points with coordinates within point_bound"):
            process(query=[[1.1e6]])
        with pytest.raises(ParameterError, match="point_bound"):
            process(point_bound=0.0)

    def test_values_that_are_no_numbers_raise_nothing(self):
        def broken(a, b):
            return np.where(a == b.T, 1.0, math.nan)

        mechanism = ndis.lift(process(kernel=broken, kernel_tolerance=1e-12), epsilon=1.0, delta=1e-5)
        assert mechanism.release(([[1.0], [2.0]], [1.0, -1.0])).values.shape == (1,)

    def test_a_kernel_changed_afterwards_changes_no_model(self):
        kernel = ConstantKernel(1.0) * RBF(1.0)
        model = process(kernel=kernel, prior_variance_bound=4.0)
        data = [[0.0]], [1.0]
        before = model.distribution(data)
        kernel.k1.constant_value = 4.0
        assert model.distribution(data)[1] == before[1]
        fitted = PrivateGaussianProcess(kernel=kernel, label_bound=1.0, max_records=2, prior_variance_bound=4.0).fit(
            *data
        )
        assert fitted.kernel_ is not fitted.mechanism_.model.kernel is not kernel


# ---------------------------------------------------------------------- mechanisms


class Mean:
    bound = 1.0

    def distribution(self, data):
        assert self.bound == 1.0, "the data were touched"
        return [sum(data) / 100], [[0.0]]

    def sensitivity(self, noise_variance):
        return RankOneEnvelope(self.bound / 100 / noise_variance**0.5, 0.0)


def test_a_model_changed_after_lift_is_refused_before_the_data_are_touched():
    model = Mean()
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert mechanism.release([0.5]).values.shape == (1,)
    model.bound = 1000.0
    with pytest.raises(ParameterError, match="noise_variance must keep delta"):
        mechanism.release([0.5])


def test_a_model_that_needs_no_noise():
    model = type("Still", (Mean,), {"sensitivity": lambda self, noise_variance: RankOneEnvelope(0.01, 0.0)})()
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert 0 < mechanism.noise_variance < 1e-50
    assert mechanism.release([0.5]).private
    never = type("Never", (Mean,), {"sensitivity": lambda self, noise_variance: RankOneEnvelope(9.0, 0.0)})()
    with pytest.raises(BudgetError, match="no value of the parameter meets the budget"):
        ndis.lift(never, epsilon=1.0, delta=1e-5)


EXTREME = [1e308, -1e308, Decimal("1e999999"), Decimal("1e-99999999")]


@pytest.mark.parametrize("value", [*ANYTHING, *EXTREME], ids=lambda value: type(value).__name__)
def test_the_gaussian_mechanism_raises_for_no_value(value):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    cell = np.empty(2, dtype=object)
    cell[:] = [value if not isinstance(value, np.ndarray) else None, 0.25]
    values = mechanism.release(cell).values
    assert values.shape == (2,)
    assert np.isfinite(values).all()
    assert _finite(cell).to_float()[1] == 0.25


def test_what_is_no_finite_number_counts_as_zero():
    zeros = [None, math.nan, -math.inf, 10**400, "1", 1j, Decimal("nan"), np.float32("inf"), Fraction(10**400)]
    assert _finite(zeros).to_float().tolist() == [0.0] * len(zeros)
    kept = [3, 0.5, Fraction(1, 4), Decimal("0.125"), True, np.int8(-2), np.longdouble(1.5)]
    assert _finite(kept).to_float().tolist() == [3.0, 0.5, 0.25, 0.125, 1.0, -2.0, 1.5]
    assert _finite(np.array([math.nan, 1.5], dtype=np.float32)).to_float().tolist() == [0.0, 1.5]
    for scalar in (None, 10**400, Decimal("nan")):
        assert _finite(scalar).shape == ()


def test_worst_cases_stay_within_their_ends():
    for envelope in (RankOneEnvelope(20.0, 3.0), RankOneEnvelope(1.0, 2e60), RankOneEnvelope(2e60, 1.0)):
        for epsilon in (0.0, 1.0):
            assert worst_log_delta(envelope, epsilon, "exact") <= 0.0
    for wide in (RankOneEnvelope(0.0, 2.0**53), RankOneEnvelope(0.0, 2.0**50 * 1.01), RankOneEnvelope(2e60, 1.0)):
        assert certified_rank_one(wide, 60.0) == Enclosure(0.0, 1.0)  # nothing was met
    assert certified_rank_one(RankOneEnvelope(0.0, 2.0**49), 1.0).lower > 0.9


@pytest.mark.parametrize("ratio", [0.0, 1e-12, 1e-6])
def test_the_split_bound_where_delta_is_beyond_the_floats(ratio):
    for shift in (1e-140, 1e-8):
        for epsilon in (0.01, 1.0, 100.0):
            assert 0.0 <= certified_split(LoewnerEnvelope(shift, ratio, ratio, 1), epsilon) < 1e-200


# ---------------------------------------------------------------------- the solver


def test_the_gradient_bound_counts_each_row_by_its_own_norm():
    """One long row among short ones: n·max‖z‖ would be 10⁵ times too much, and the ball arithmetic would follow."""
    rows, grid = np.ones((20_000, 3)), np.full(3, 2.0**-18)
    rows[0] = 2.0**17
    w = np.full(3, 0.5)
    margins = rows @ (grid * w)
    gradient = w * 1.0 - grid * ((1 / (1 + np.exp(margins))) @ rows)
    assert 0.0 < gradient_bound(rows, grid, w, 1.0) - np.linalg.norm(gradient) < 1e-12


def test_refinement_by_blocks_meets_the_tolerance():
    rng = np.random.default_rng(0)
    rows, grid = np.trunc(rng.normal(size=(1300, 2)) * 2.0**16), np.full(2, 2.0**-18)  # three blocks
    point = _refine(rows, grid, np.zeros(2), 2.0, 2.0**-58)
    model = BohningLogistic(l2_penalty=2.0, row_norm_bound=1.5, gradient_tolerance=2.0**-58)
    with mpmath.workprec(200):
        w = [mpmath.mpf(int(n)) / point.denominator for n in point.numerators]
        total = [2 * x for x in w]
        for row in (rows * grid).tolist():
            weight = 1 / (1 + mpmath.exp(sum(mpmath.mpf(z) * x for z, x in zip(row, w, strict=True))))
            total = [t - weight * mpmath.mpf(z) for t, z in zip(total, row, strict=True)]
        assert mpmath.sqrt(sum(t * t for t in total)) <= model.gradient_tolerance
