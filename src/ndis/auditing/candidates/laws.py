"""The law of an algorithm's output on one data set, and the pair that two laws make.

**Rounding.** The numbers of a law are taken as exact, as the algorithm returned them. It computed them in floats, so
each has a relative error of some 2⁻⁵² per operation, and three rules keep these errors from convicting a sound
algorithm (rule:audit):

1. Numbers that agree to `AGREE` = 2⁻⁴⁰ are equal: means compared with |mean| + deviation, covariances with the product
   of the deviations. Two computations of 4,096 roundings each, all in the worst direction, stay within that. A law that
   agrees in all its numbers with the law on the data is replaced by it, and so is an independent or fixed coordinate.
   δ = 0 is right for equal laws. To replace a coordinate that both laws share and that is independent of the others
   leaves it out, which is post-processing: δ does not grow.
2. If a covariance is singular up to rounding (the smallest eigenvalue of the correlations is at most d·`AGREE`), errors
   decide how the laws differ in that direction. Such a pair convicts no algorithm.
3. Otherwise errors move the loss by some r. By the triangle inequality δ moves by a factor of about e^{(1+s)r}, where
   s is the slope −d log δ/dε: 10 to 100 for common claims. A conviction needs δ above (1 + 2⁻²⁰) times the claim. This
   covers (1+s)·r up to 2⁻²⁰. A mean of size M standard deviations has r ≈ 10·2⁻⁵²·M per operation, so sums of
   millions of standard deviations are covered.

Pairs that a user gives are exact, and none of these rules applies to them.

**Screening.** Neighbours differ by little. If their covariances differ by a matrix of low rank, the float screen uses
a pair made from that matrix. It costs O(d²) per rank and solves no eigenproblem of size d. The remainder of the
difference is measured in standard deviations of the output, and the screen allows for it by `_blur`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from ndis._exact import ExactArray
from ndis._validate import Floats, as_count, as_covariance, require
from ndis.auditing.candidates.edits import as_numbers
from ndis.errors import NdisError, ParameterError
from ndis.pair import GaussianPair

Algorithm = Callable[[Any], Any]

AGREE = 2.0**-40  # numbers of an algorithm that are closer than this, relative to their scale, are equal
_CLEAR = 1.0 + 2.0**-20  # δ of laws in floats must be above this multiple of the claim
_ROUNDING = 2.0**-52  # the relative error of one rounding to a float, with a margin
_MOST_RANK = 8  # columns of a low-rank change
_EXHAUSTED = 1e-12  # a correlation below this multiple of the largest one that changes is rounding
_LEFT = 1e-9  # the largest part of a variance, in any direction, that a low-rank pair may leave out


@dataclass(frozen=True, eq=False)
class Gaussian:
    """An algorithm may return this law of its output: `copies` independent draws of N(mean, covariance).

    Parameters
    ----------
    mean : array
        The mean of one draw.
    covariance : array
        The covariance of one draw; a vector holds the variances of independent coordinates.
    copies : int
        The number of draws, such as the columns of a sketch.

    Examples
    --------
    >>> import numpy as np
    >>> import ndis
    >>> sketch = lambda rows: ndis.Gaussian(np.zeros(2), rows.T @ rows + 40.0 * np.eye(2), copies=300)
    >>> rows = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), algorithm=sketch, data=rows).refuted
    True
    """

    mean: Any
    covariance: Any
    copies: int = 1

    def __post_init__(self) -> None:
        as_count("copies", self.copies)


@dataclass(frozen=True, eq=False)
class OutputLaw:
    """The law is N(mean, covariance), drawn `copies` times. A covariance that is a vector has independent entries."""

    mean: Floats
    covariance: Floats
    copies: int = 1

    @cached_property
    def cholesky(self) -> Floats | None:
        """Return the lower factor of the covariance; None if there is none."""
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

    @property
    def variances(self) -> Floats:
        """Return the variance of each coordinate."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @cached_property
    def smallest(self) -> float:
        """Return a lower end of the smallest eigenvalue of the correlations, without coordinates of variance 0."""
        free = self.variances > 0
        if self.covariance.ndim == 1 or not free.any():
            return 1.0
        scale = 1.0 / np.sqrt(self.variances[free])
        correlations = scale[:, None] * self.covariance[np.ix_(free, free)] * scale
        return float(np.linalg.eigvalsh(correlations)[0]) - scale.size**2 * _ROUNDING


def law_of(algorithm: Algorithm, data: Any) -> OutputLaw:
    """Run the algorithm and check its result. No message quotes a number that it returned."""
    result = algorithm(data)
    if isinstance(result, Gaussian):
        return replace(law_of(lambda _: (result.mean, result.covariance), data), copies=int(result.copies))
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise ParameterError("algorithm", "return (mean, covariance) or a Gaussian", type(result).__name__)
    arrays = (array.to_float() if isinstance(array, ExactArray) else array for array in result)
    mean, covariance = (_finite(name, array) for name, array in zip(("mean", "covariance"), arrays, strict=True))
    vector = np.atleast_1d(mean)
    if vector.ndim != 1 or vector.size == 0:
        raise ParameterError("mean returned by algorithm", "be a vector, at least one entry", f"shape {mean.shape}")
    return OutputLaw(vector, _as_covariance(covariance, vector.size))


def _finite(name: str, numbers: Any) -> Floats:
    """Return finite floats, in an array of their own: an algorithm may write to its result later."""
    name = f"{name} returned by algorithm"
    array = np.array(as_numbers(name, numbers), dtype=np.float64)
    require(np.isfinite(array).all(), name, "be finite", "entries that are not")
    return array


def _as_covariance(covariance: Floats, size: int) -> Floats:
    """Check a covariance that the algorithm returned; no message has a number of it."""
    name = "covariance returned by algorithm"
    if covariance.shape == (size,):
        require((covariance >= 0).all(), name, "have non-negative variances", "a negative one")
        return covariance
    if covariance.shape != (size, size) and not (size == 1 and covariance.ndim == 0):
        raise ParameterError(name, f"have shape ({size}, {size}) or ({size},)", f"shape {covariance.shape}")
    try:
        return as_covariance(name, covariance, size)
    except ParameterError:
        rule, remedy = "be symmetric, with no negative variance", "average it with its transpose"
        raise ParameterError(name, rule, "another matrix", remedy) from None


# ---------------------------------------------------------------------- rounding


def same(one: OutputLaw, other: OutputLaw) -> bool:
    """Say if two laws are equal up to rounding.

    >>> same(OutputLaw(np.array([0.1 + 0.2]), np.zeros(1)), OutputLaw(np.array([0.3]), np.zeros(1)))
    True
    """
    if one.copies != other.copies or one.covariance.shape != other.covariance.shape:
        return False
    return bool(_agreeing(one, other).all())


def same_noise(one: OutputLaw, other: OutputLaw) -> bool:
    """Say if two laws have the same covariance, up to rounding.

    >>> same_noise(OutputLaw(np.zeros(1), np.ones(1)), OutputLaw(np.ones(1), np.full(1, 1.5)))
    False
    """
    return same(replace(one, mean=other.mean), other)


def _agreeing(one: OutputLaw, other: OutputLaw) -> NDArray[np.bool_]:
    """Say for each coordinate if the mean and all covariances agree up to rounding."""
    deviation = np.sqrt(np.maximum(one.variances, other.variances))
    means = np.abs(one.mean - other.mean) <= AGREE * (np.maximum(np.abs(one.mean), np.abs(other.mean)) + deviation)
    scale = deviation * (deviation if one.covariance.ndim == 1 else deviation[:, None])
    spread = np.abs(one.covariance - other.covariance) <= AGREE * scale
    return np.asarray(means & spread.reshape(means.size, -1).all(axis=1))


def like(law: OutputLaw, base: OutputLaw) -> OutputLaw:
    """Return the law with the numbers of the base where rounding explains the difference (rule 1)."""
    _check_shapes(law, base)
    equal = _agreeing(law, base)
    if equal.all():
        return base
    if law.covariance.ndim == 1:
        spread = np.where(equal, base.covariance, law.covariance)
        return replace(law, mean=np.where(equal, base.mean, law.mean), covariance=spread)
    fixed = equal & (law.variances == 0) & (base.variances == 0)
    return replace(law, mean=np.where(fixed, base.mean, law.mean)) if fixed.any() else law


def bar(one: OutputLaw, other: OutputLaw) -> Callable[[float], float]:
    """Return the map from the claimed δ to the δ that the pair must exceed for a conviction (rules 2 and 3).

    >>> bar(OutputLaw(np.zeros(2), np.eye(2)), OutputLaw(np.zeros(2), np.ones((2, 2))))(1e-6)
    1.0
    """
    singular = min(one.smallest, other.smallest) <= one.mean.size * AGREE
    return lambda delta: 1.0 if singular else min(1.0, _CLEAR * delta)


# ---------------------------------------------------------------------- pairs


def certified_pair(p: OutputLaw, q: OutputLaw) -> GaussianPair:
    """Make the pair p from q with its exact inputs, the floats that the algorithm returned."""
    _check_shapes(p, q)
    make = GaussianPair.from_diagonal if p.covariance.ndim == 1 else GaussianPair.from_moments
    try:
        with np.errstate(over="ignore"):  # numbers beyond floats are refused below
            pair = make(p.mean, p.covariance, q.mean, q.covariance)
    except ParameterError as error:
        rule = str(error).split("; got ")[0]
        raise ParameterError("algorithm", f"return laws that make a pair: {rule}", "others") from None
    return pair if p.copies == 1 else pair.repeat(p.copies)


def _check_shapes(p: OutputLaw, q: OutputLaw) -> None:
    if p.mean.size != q.mean.size or p.covariance.ndim != q.covariance.ndim or p.copies != q.copies:
        shapes = " and ".join(f"{law.mean.size} × {law.copies}" for law in (p, q))
        raise ParameterError("algorithm", "return laws of one dimension on neighbours", shapes)


def screening_pair(other: OutputLaw, base: OutputLaw) -> tuple[GaussianPair, float]:
    """Make the pair `other` from `base` for the float screen, and bound how far its loss is off."""
    _check_shapes(other, base)
    quick = _low_rank(other, base) if base.covariance.ndim == 2 and base.mean.size > 1 else None
    return (certified_pair(other, base), 0.0) if quick is None else quick


def _blur(spread: float, dimension: int) -> float:
    """Bound how far a loss moves if covariances move by `spread`, a part of the variance in any direction.

    Let P* have the mean of P and a covariance within η ≤ 1/5 of it. The loss of P* from P stays below 2η(d + x)
    (χ²_d ≤ 2d + 3x), except with probability e^−x. At x = 800 that is below every float. A factor 5/4 covers the other
    order.
    """
    return 2.5 * spread * (dimension + 800) if spread < 0.2 else math.inf


def _low_rank(other: OutputLaw, base: OutputLaw) -> tuple[GaussianPair, float] | None:
    """Return a low-rank pair and the blur of the remainder E; None if E is too large or the pair is near singular.

    Let R be the correlations of the base, and τ the smallest variance ratio of the other law. In every direction E is
    at most ‖E‖/λ_min(R) of a variance of the base. For the other law it is at most 1/τ of that.
    """
    deviation = np.sqrt(base.variances)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scaled = (other.covariance - base.covariance) / deviation[:, None] / deviation
    if not (np.isfinite(scaled).all() and base.smallest > 0.0) or base.cholesky is None:
        return None
    sign = 1 if np.trace(scaled) >= 0 else -1
    size, tolerance = len(scaled), _EXHAUSTED * float(np.abs(scaled).max())
    # Cholesky with pivots, cut at the tolerance
    factor, pivots, rank, _ = dpstrf(sign * scaled, tol=tolerance, lower=1)
    if rank > min(_MOST_RANK, size // 2 + 1):
        return None
    columns = np.zeros((size, max(rank, 1)))
    columns[pivots - 1] = np.tril(factor)[:, : columns.shape[1]]
    left = float(np.linalg.norm(sign * scaled - columns @ columns.T))
    left += 8.0 * _ROUNDING * (1 + rank) * float(np.linalg.norm(scaled))
    try:
        pair = GaussianPair.from_low_rank(
            other.mean, base.mean, base.covariance, deviation[:, None] * columns, sign=sign, cholesky_q=base.cholesky
        )
    except NdisError:  # near singular: the exact inputs decide
        return None
    spread = left / base.smallest / min(1.0, float(pair.variance_ratio.min()))
    pair = pair if base.copies == 1 else pair.repeat(base.copies)
    return (pair, _blur(spread, base.mean.size * base.copies)) if spread <= _LEFT else None
