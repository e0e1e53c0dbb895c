"""Gaussian process regression at public points (def:gpr-gaussian-output) changes with one record within bounds.

With s, r, γ from the Schur complement of a new record, Σ = Σ' − γγᵀ/s and μ − μ' = γr/s. The change has rank one, and
shift and change of covariance lie along the same line: m² = (r²/s)·t. So one pair dominates all neighbours. The model
releases a draw from N(μ, Σ) plus noise, or μ plus noise. The proofs are in docs/models.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from ndis._balls import exact_ball, outward, precision
from ndis._exact import ExactArray
from ndis._validate import Floats, as_choice, as_floats, as_not_negative, as_one_positive, as_size, as_within, require
from ndis.errors import ParameterError
from ndis.mechanisms.lifted import noisy_pair
from ndis.mechanisms.mechanism import Attained
from ndis.models.exact_solve import Release, posterior
from ndis.models.gp_bounds import derived_tolerance, largest_eigenvalue, mean_leverage, ratios_and_leverages
from ndis.models.records import read_records
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.worst_case.envelopes import LARGEST, DominatingPairs, mean_envelope

_BITS = 128
_GRID_BITS = 44  # kernel values lie on a grid of 2⁻⁴⁴ of the bound, labels on one of 2⁻⁴⁰ of theirs
_LABEL_BITS = 40
_HOPELESS = 2.0**20  # a shift that no ε of interest hides
Analysis = Literal["prior", "posterior"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """Gaussian process regression is a Gaussian-output algorithm (def:gpr-gaussian-output).

    Parameters
    ----------
    kernel : callable
        A scikit-learn kernel, or any function of two matrices of points. The model calls it on one pair of points at a
        time, in an order that the two points decide. So a value depends on nothing else: k(A, B) of whole matrices may
        round differently by the place of a row. The kernel must return a number for all points within `point_bound`. A
        `WhiteKernel` counts as zero. The model keeps a copy.
    noise_variance : float
        σ², the variance of the labels' noise (not of the noise added for privacy).
    label_bound : float
        Public bound B of the labels; larger ones are clipped.
    prior_variance_bound : float
        Public bound of k(x, x). A record beyond it counts as no record; a query point beyond it is refused.
    query : (q, features) array
        The public points at which the posterior is released.
    max_records : int
        A public promise on the number of records. Records after the first `max_records` are silently not read.
        docs/models.md says what holds if the promise is broken.
    point_bound : float
        Public bound of the absolute coordinates of points. A record beyond it counts as no record; a query point beyond
        it is refused.
    kernel_tolerance : float, optional
        A public promise: a computed kernel value is at most this far from that of a positive semidefinite kernel, for
        all points within `point_bound`. **The guarantee hangs on it**, and the sensitivity pays for it. With None the
        model derives it for the scikit-learn kernels whose rounding is proved (`ndis.models.gp_bounds`): 2⁻⁴⁰ of
        `prior_variance_bound`, or more if that is too little. State it for any other kernel.
    analysis : {"prior", "posterior"}
        What bounds the change by one record. "prior": the variance before is at most that of the prior, and the
        variance after is at least zero. It is the default, because it gives the numbers of the paper. "posterior" also
        uses that one label with noise σ² leaves at least σ²/(σ² + prior_variance_bound) of the variance. **Use
        "posterior" in practice**: it is never worse, and needs far less noise if labels are noisy. It concerns only
        the draw.
    release : {"draw", "mean"}
        "draw": one draw from the posterior plus the least noise. "mean": μ plus the least noise. **At its best label
        noise "mean" predicts better**: a draw adds the spread of the posterior.

    Notes
    -----
    A record with a value that is not finite counts as no record: an error would reveal it. The time of the computation
    may depend on the data, and is not protected.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> model = GaussianProcess(
    ...     kernel=RBF(1.0), noise_variance=0.5, label_bound=1.0, prior_variance_bound=1.0,
    ...     query=[[0.0]], max_records=10,
    ... )
    >>> mean, covariance = model.distribution((np.array([[0.0]]), [0.75]))
    >>> mean.to_float().round(9), covariance.to_float().round(9)
    (array([0.5]), array([[0.33333333]]))
    >>> model.sensitivity(4.0).add.variance_ratio.round(9)
    array([1.25])
    >>> from dataclasses import replace
    >>> replace(model, release="mean").sensitivity(4.0).add.shift.round(4)  # the mean moves by 1.72 at most
    array([0.8588])
    """

    kernel: Callable[[Any, Any], Any]
    noise_variance: float
    label_bound: float
    prior_variance_bound: float
    query: Any
    max_records: int
    kernel_tolerance: float | None = None
    analysis: Analysis = "prior"
    point_bound: float = 1e6
    release: Release = "draw"

    def __post_init__(self) -> None:
        as_choice("release", self.release, ("draw", "mean"))
        as_choice("analysis", self.analysis, ("prior", "posterior"))
        for name in ("noise_variance", "label_bound", "prior_variance_bound", "point_bound"):
            object.__setattr__(self, name, as_within(name, getattr(self, name), 400))
        rule = "be a scikit-learn kernel or a function of two matrices"
        require(callable(self.kernel), "kernel", rule, repr(self.kernel))
        object.__setattr__(self, "max_records", as_size("max_records", self.max_records))
        object.__setattr__(self, "kernel", copy.deepcopy(self.kernel))  # a change to the original must not reach it
        points = as_floats("query", self.query) + 0.0  # −0 becomes 0
        require(points.ndim == 2 and points.size, "query", "be a matrix of at least one point", f"shape {points.shape}")
        within, rule = np.abs(points).max() <= self.point_bound, "hold points with coordinates within point_bound"
        require(within, "query", rule, "another", "state a larger bound")
        points.setflags(write=False)
        object.__setattr__(self, "query", points)
        rule = f"exceed the allowance for kernel errors, {float(min(self._allowance, Fraction(2**1000)))!r}"
        require(self._allowance < Fraction(self.noise_variance), "noise_variance", rule, self.noise_variance)
        for point, variance in zip(points, np.diag(self._prior).tolist(), strict=True):
            if not 0 <= variance <= self._largest:
                rule = f"hold points of prior variance at most {self.prior_variance_bound!r}"
                remedy = "state a prior_variance_bound a little above it (variances are rounded to a grid)"
                raise ParameterError("query", rule, kernel_value(self.kernel, point, point), remedy)

    @property
    def adjacency(self) -> Literal["add-remove"]:
        """Neighbours differ by one record."""
        return "add-remove"

    @cached_property
    def _kernel_error(self) -> float:
        """Return the promise on the kernel's errors, stated or derived. To derive it may change constants to floats."""
        if self.kernel_tolerance is None:
            bounds = {"point_bound": self.point_bound, "prior_variance_bound": self.prior_variance_bound}
            return derived_tolerance(self.kernel, features=self.query.shape[1], **bounds)
        return as_not_negative("kernel_tolerance", self.kernel_tolerance)

    @cached_property
    def _prior(self) -> NDArray[Any]:
        """Return prior covariances of the query points, in units of the grid."""
        return self._kernel_matrix(self.query, self.query)

    @cached_property
    def _prior_eigenvalue(self) -> Fraction:
        """Bound the largest eigenvalue of the prior covariance from above."""
        return largest_eigenvalue(self._prior) * self._grid

    @property
    def _grid(self) -> Fraction:
        """Return the grid of kernel values: a power of two."""
        return Fraction(2) ** (math.frexp(self.prior_variance_bound)[1] - _GRID_BITS)

    @property
    def _largest(self) -> int:
        return math.floor(Fraction(self.prior_variance_bound) / self._grid)

    @property
    def _allowance(self) -> Fraction:
        """Return e ≥ ‖K̂ − K‖ over all points: (max_records + q)·(tolerance + grid), for all signs of the errors."""
        return (self.max_records + len(self.query)) * (Fraction(self._kernel_error) + self._grid)

    # ------------------------------------------------------------------ the map

    def distribution(self, data: Any) -> tuple[ExactArray, ExactArray]:
        """Return mean and covariance of the release at the query points, exactly, before noise. **Private.**

        With release="mean" the covariance is zero.

        Parameters
        ----------
        data : pair (X, y)
            Points and labels.
        """
        x, y = read_records(data, max_records=self.max_records)
        if x.shape[1] != self.query.shape[1]:
            raise ParameterError("X", f"have {self.query.shape[1]} column(s), like query", f"{x.shape[1]}")
        with np.errstate(all="ignore"):
            keep = (np.abs(x) <= self.point_bound).all(axis=1) & np.isfinite(y)
            x, y = x[keep] + 0.0, y[keep]
            variance = np.array([self._units(point, point) for point in x], dtype=object)
            keep = np.array([0 <= value <= self._largest for value in variance.tolist()], dtype=bool)
            x, y = x[keep], y[keep]
            # towards zero, so that no label passes the bound
            shares = np.trunc(np.clip(y / self.label_bound, -1.0, 1.0) * 2.0**_LABEL_BITS)
            labels = shares.astype(np.int64).astype(object)
            among, across = self._kernel_matrix(x, x), self._kernel_matrix(x, self.query)
        noise = Fraction(self.noise_variance) / self._grid
        per_label = Fraction(self.label_bound) / 2**_LABEL_BITS
        mean, covariance = posterior(among, across, None if self.release == "mean" else self._prior, labels, noise)
        return _times(mean, per_label), _times(covariance, self._grid)

    def _kernel_matrix(self, left: Floats, right: Floats) -> NDArray[Any]:
        """Return the kernel matrix in units of the grid, each value once."""
        same = left is right
        matrix = np.zeros((len(left), len(right)), dtype=int).astype(object)
        for i, a in enumerate(left):
            for j, b in enumerate(right[: i + 1] if same else right):
                matrix[i, j] = self._units(a, b)
                if same:
                    matrix[j, i] = matrix[i, j]
        return matrix

    def _units(self, a: Floats, b: Floats) -> int:
        """Return k(a, b) in units of the grid, cut just beyond the bound. NaN becomes −1 for a variance, otherwise 0.

        NaN breaks the promise of `kernel_tolerance`, but an error would reveal it.
        """
        limit = self._largest + 1
        value = kernel_value(self.kernel, a, b) / float(self._grid)
        if not math.isfinite(value):
            return -1 if np.array_equal(a, b) else 0
        return max(-limit, min(limit, round(value)))

    # ------------------------------------------------------------------ what one record can do

    def sensitivity(self, noise_variance: float) -> DominatingPairs:
        """Return the pairs that dominate all neighbours (prop:gpr-ndis-sens, made exact).

        Let e be the allowance for kernel errors, and replace v by v − e, σ² by σ² − e, Λ by Λ + e and L by L + e. A
        dominating pair of (without, with) is one direction with

            "prior"      t = Λ/v,                                  m² = t·nB²/σ²
            "posterior"  t = ωΛw/(σ²Λw + v(ω + σ²)),               m² = t·r²/s

        Λ is the largest eigenvalue of the prior covariance at the query points, and L the bound on prior variances.
        For "posterior" there is one pair for each cell of (ω, w) (see `ndis.models.gp_bounds`), and one pair for all.
        All numbers are rounded up. If v is below 2e, the pair claims nothing.

        The mean on its own moves by at most √(Λ·`mean_leverage`), with the same e but with v itself.
        """
        with precision(_BITS):
            v, noise, prior, largest = self._balls(noise_variance)
            if self.release == "mean":
                return mean_envelope(self._mean_sensitivity, arb(noise_variance))
            if not v > exact_ball(self._allowance):
                return DominatingPairs(GaussianPair.from_ratios(1.0, shift=_HOPELESS))
            if self.analysis == "prior":
                return _aligned(prior / v, self.max_records * arb(self.label_bound) ** 2 / noise)
            upper = {"variance": outward(largest).upper, "prior": outward(prior).upper}
            lower = {"noise": outward(noise).lower, "noise_variance": outward(v).lower}
            t, leverage = ratios_and_leverages(self.max_records, self.label_bound, **upper, **lower)
            pieces = tuple(_aligned(arb(x), arb(y)) for x, y in zip(t.tolist(), leverage.tolist(), strict=True))
            whole = _aligned(arb(float(t[0])), arb(float(leverage[-1])))
        return DominatingPairs(whole.remove, whole.add, pieces)

    @property
    def _mean_sensitivity(self) -> Any:
        """Bound how far one record moves the mean, as a ball."""
        e = self._allowance
        largest, noise = Fraction(self.prior_variance_bound) + e, Fraction(self.noise_variance) - e
        leverage = mean_leverage(self.max_records, self.label_bound, largest, noise)
        return (exact_ball(self._prior_eigenvalue + e) * arb(leverage)).sqrt()

    def _balls(self, noise_variance: float) -> tuple[Any, Any, Any, Any]:
        """Enclose v − e, σ² − e, Λ + e and L + e at the working precision."""
        e, v = self._allowance, Fraction(as_one_positive("noise_variance", noise_variance))
        noise, largest = Fraction(self.noise_variance) - e, Fraction(self.prior_variance_bound) + e
        return tuple(exact_ball(x) for x in (v - e, noise, self._prior_eigenvalue + e, largest))

    def attained(self, noise_variance: float) -> tuple[Attained, ...]:
        """Return the worst known neighbours, with their exact profiles: records at the first query point or towards it.

        For a linear kernel, records at a fraction of the query point are short. Their mean at the point is then far
        beyond the labels.
        """
        worst = []
        for count, share in _crowds(self.max_records - 1, self.noise_variance / self.prior_variance_bound):
            x = np.repeat(self.query[:1], count + 1, axis=0)
            x[:-1] *= share
            y = np.append(np.full(count, -self.label_bound), self.label_bound)
            with_it, without = self.distribution((x, y)), self.distribution((x[:-1], y[:-1]))
            words = f"{count} records at {share:.3g} of the first query point, label −B; one more there, label +B"
            worst.append(Attained(words, PrivacyProfile(noisy_pair(*with_it, *without, noise_variance))))
        return tuple(worst)


def _crowds(others: int, noise: float) -> list[tuple[int, float]]:
    """List (number of other records, their share of the query point); near σ/√(NL) a linear mean moves far."""
    shares = [1.0] if others == 0 else sorted({1.0, *(min(c * math.sqrt(noise / others), 1.0) for c in (0.6, 0.85))})
    return [(0, 1.0), *((others, share) for share in shares if others)]


def kernel_value(kernel: Callable[[Any, Any], Any], a: ArrayLike, b: ArrayLike) -> float:
    """Evaluate k(a, b) of two points, in an order that the points decide. It is symmetric and depends on nothing else.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> kernel_value(RBF(1.0), [0.0], [1.0]) == kernel_value(RBF(1.0), [1.0], [0.0])
    True
    """
    first, second = sorted((np.asarray(a, dtype=np.float64).tolist(), np.asarray(b, dtype=np.float64).tolist()))
    with np.errstate(all="ignore"):
        return float(np.asarray(kernel(np.array([first]), np.array([second]))).item())


def _aligned(t: Any, leverage: Any) -> DominatingPairs:
    """Return a direction with the ratio 1 + t and m² = leverage·t, both rounded up, and the same in the other order.

    One record moves mean and covariance along the same line, so one direction has both. If they are too large to be of
    use, the pairs claim nothing.
    """
    ratio = outward(1 + t).upper
    shift = outward((leverage * (arb(ratio) - 1)).sqrt()).upper
    if not (ratio <= LARGEST and shift <= LARGEST):
        return DominatingPairs(GaussianPair.from_ratios(1.0, shift=_HOPELESS))
    hard = GaussianPair.from_ratios(ratio, shift=shift)
    return DominatingPairs(hard.reversed(), hard)


def _times(array: ExactArray, factor: Fraction) -> ExactArray:
    return ExactArray(array.numerators * factor.numerator, array.denominator * factor.denominator)
