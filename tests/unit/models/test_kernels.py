"""Kernels: proved bounds of their errors, far points, constants that do not overflow."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateGaussianProcess
from ndis.models import GaussianProcess
from ndis.models.gp import kernel_value
from ndis.models.gp_bounds import derived_tolerance, kernel_error


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
    if kind is DotProduct:
        return sum(number(x) * number(y) for x, y in zip(a, b, strict=True)) + number(kernel.sigma_0**2)
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
    Matern(3.0, nu=math.inf), DotProduct(1.0), DotProduct(0.0), ConstantKernel(2.0),
    (DotProduct(1.0) + RBF(1e3)) * DotProduct(1.0),
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
        assert derived_tolerance(RBF(1.0), **{**box, "features": 2**20}) > 2.0**-33
        unknown = [
            PairwiseKernel(metric="rbf"), ExpSineSquared(), Matern(nu=2.0), lambda a, b: a @ b.T, RBF(1e-40),
            RBF(1.0) * ExpSineSquared(), RBF(1.0) ** 2, RationalQuadratic(), ConstantKernel(-1.0),
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
        far = model.distribution((np.array([[0.9e154], [10.1], [-11.0]]), [1.0, 1.0, 1.0]))
        assert (far[0], far[1]) == none
        assert model.distribution((np.array([[-10.0]]), [1.0]))[1] != none[1]
        with pytest.raises(ParameterError, match="query must hold points with coordinates within point_bound"):
            process(query=[[1.1e6]])
        with pytest.raises(ParameterError, match="point_bound"):
            process(point_bound=0.0)

    def test_values_that_are_no_numbers_raise_nothing(self):
        def broken(a, b):
            return np.where(a == b.T, 1.0, math.nan)

        mechanism = ndis.lift(process(kernel=broken, kernel_tolerance=1e-12), epsilon=1.0, delta=1e-5)
        assert mechanism.release((np.array([[1.0], [2.0]]), [1.0, -1.0])).values.shape == (1,)

    def test_a_kernel_changed_afterwards_changes_no_model(self):
        kernel = ConstantKernel(1.0) * RBF(1.0)
        model = process(kernel=kernel, prior_variance_bound=4.0)
        data = np.array([[0.0]]), [1.0]
        before = model.distribution(data)
        kernel.k1.constant_value = 4.0
        assert model.distribution(data)[1] == before[1]
        fitted = PrivateGaussianProcess(kernel=kernel, label_bound=1.0, max_records=2, prior_variance_bound=4.0).fit(
            *data
        )
        assert fitted.kernel_ is not fitted.mechanism_.model.kernel is not kernel
