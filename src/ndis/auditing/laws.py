"""The output law of an algorithm on one data set, and the pair it makes with a neighbour's.

Neighbours differ by little: where the covariances differ by a matrix of low rank, the pair that floats are screened
with is made from that, O(d²) for each rank, and never from an eigenproblem of size d. What is left of the difference is
measured in standard deviations of the output, and the screen allows for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray, exact_array
from ndis._validate import Floats, as_covariance
from ndis.auditing.accuracy import ROUNDING, Room, exactly, room, rooms
from ndis.errors import NdisError, ParameterError
from ndis.pair import GaussianPair
from ndis.spectrum.origins import DenseOrigin

__all__ = ["Algorithm", "Law", "certified_pair", "law_of", "private_copy", "screening_pair"]

Algorithm = Callable[[Any], tuple[Any, Any]]
_MOST_RANK = 8
_EXHAUSTED = 1e-12  # of the largest correlation that changes: what is left is rounding
_LEFT = 1e-9  # of a variance in any direction, the most that a low-rank pair may leave out


@dataclass(frozen=True, eq=False)
class Law:
    """N(mean, covariance); a covariance that is a vector means independent coordinates."""

    mean: Floats
    covariance: Floats
    exact: tuple[NDArray[Any], NDArray[Any]] | None = None  # the same in fractions, where floats are rounded

    @cached_property
    def cholesky(self) -> Floats | None:
        """Lower factor of the covariance; None where there is none."""
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

    @property
    def variances(self) -> Floats:
        """Of each coordinate."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @cached_property
    def smallest(self) -> float:
        """A lower end of the smallest eigenvalue of the correlations; coordinates without variance are left out."""
        if self.covariance.ndim == 1:
            return 1.0
        free = self.variances > 0
        scale = 1.0 / np.sqrt(self.variances[free])
        count = scale.size
        if count == 0:
            return 1.0
        correlations = scale[:, None] * self.covariance[np.ix_(free, free)] * scale
        return float(np.linalg.eigvalsh(correlations)[0]) - count * count * ROUNDING

    def agrees(self, other: Law, accuracy: float) -> bool:
        """Whether two laws are the same but for an error of relative size `accuracy` of each number."""
        if self.mean.shape != other.mean.shape or self.covariance.shape != other.covariance.shape:
            return False
        if self.exact is not None or other.exact is not None or accuracy == 0.0:
            return all(np.array_equal(a, b) for a, b in zip(self._numbers, other._numbers, strict=True))
        deviation = np.sqrt(np.maximum(self.variances, other.variances))
        size = np.maximum(np.abs(self.mean), np.abs(other.mean)) + deviation
        spread = deviation * deviation if self.covariance.ndim == 1 else np.outer(deviation, deviation)
        return bool(
            (np.abs(self.mean - other.mean) <= 2.0 * accuracy * size).all()
            and (np.abs(self.covariance - other.covariance) <= 2.0 * accuracy * spread).all()
        )

    @property
    def mark(self) -> bytes:
        """All numbers of the law, byte for byte."""
        return b"|".join(
            f"{a.shape} ".encode() + ("/".join(map(str, a.ravel())).encode() if a.dtype == object else a.tobytes())
            for a in self._numbers
        )

    @property
    def _numbers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return (self.mean, self.covariance) if self.exact is None else self.exact


def private_copy(data: Any) -> Any:
    """A copy that an algorithm may write to."""
    return copy.deepcopy(data)


def law_of(algorithm: Algorithm, data: Any) -> Law:
    """Run the algorithm and check what it returns; a message never quotes a number that it returned."""
    found = algorithm(data)
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise ParameterError("algorithm", "return (mean, covariance)", type(found).__name__)
    if any(isinstance(part, ExactArray) for part in found):
        return _exact_law(*(exact_array(part, name="law returned by algorithm") for part in found))
    mean, covariance = (
        _numbers(f"{name} returned by algorithm", part)
        for name, part in zip(("mean", "covariance"), found, strict=True)
    )
    return Law(_as_mean(mean), _as_covariance(covariance, mean.size))


def _numbers(name: str, part: Any) -> Floats:
    """Finite floats."""
    try:
        array = np.asarray(part)
    except ValueError:
        raise ParameterError(name, "be an array of real numbers", "entries of different lengths") from None
    if array.dtype.kind not in "uif":
        raise ParameterError(name, "be an array of real numbers", f"entries of type {array.dtype}")
    array = np.array(array, dtype=np.float64)  # its own memory: an algorithm may write to its result later
    if not np.isfinite(array).all():
        raise ParameterError(name, "be finite", "entries that are not")
    return array


def _as_mean(mean: Floats) -> Floats:
    vector = np.atleast_1d(mean)
    if vector.ndim != 1 or vector.size == 0:
        raise ParameterError("mean returned by algorithm", "be a vector, at least one entry", f"shape {mean.shape}")
    return vector


def _as_covariance(covariance: Floats, size: int) -> Floats:
    name = "covariance returned by algorithm"
    if covariance.shape == (size,):
        if not (covariance >= 0).all():
            raise ParameterError(name, "have non-negative variances", "a negative one")
        return covariance
    if covariance.shape != (size, size) and not (size == 1 and covariance.ndim == 0):
        raise ParameterError(name, f"have shape ({size}, {size}) or ({size},)", f"shape {covariance.shape}")
    try:
        return as_covariance(name, covariance, size)
    except ParameterError:
        raise ParameterError(
            name, "be symmetric, with no negative variance", "another matrix", "average it with its transpose"
        ) from None


def _exact_law(mean: ExactArray, covariance: ExactArray) -> Law:
    floats = (mean.to_float(), covariance.to_float())
    if len(mean.shape) != 1 or covariance.shape != 2 * mean.shape or not np.isfinite(np.append(*floats)).all():
        shapes = f"shapes {mean.shape} and {covariance.shape}"
        raise ParameterError("law returned by algorithm", "be a vector and a square matrix within floats", shapes)
    fractions = tuple(_fractions(part) for part in (mean, covariance))
    return Law(
        floats[0], _as_covariance(floats[1], floats[0].size), (fractions[0], (fractions[1] + fractions[1].T) / 2)
    )


def _fractions(array: ExactArray) -> NDArray[Any]:
    whole = np.empty(array.numerators.size, dtype=object)
    whole[:] = [Fraction(int(x), array.denominator) for x in array.numerators.ravel().tolist()]
    return whole.reshape(array.shape)


def certified_pair(p: Law, q: Law) -> GaussianPair:
    """The pair p from q with its exact inputs: the binary numbers, or the fractions, that the algorithm returned."""
    _same_shape(p, q)
    make = GaussianPair.from_diagonal if p.covariance.ndim == 1 else GaussianPair.from_moments
    try:
        with np.errstate(over="ignore"):  # what leaves the floats is refused
            pair = make(p.mean, p.covariance, q.mean, q.covariance)
    except ParameterError as error:
        rule = str(error).split("; got ")[0]
        raise ParameterError("algorithm", f"return laws that make a pair: {rule}", "others") from None
    if p.exact is None and q.exact is None:
        return pair
    return replace(pair, origins=(DenseOrigin((*_as_fractions(p), *_as_fractions(q))),))


def _as_fractions(law: Law) -> tuple[NDArray[Any], NDArray[Any]]:
    if law.exact is not None:
        return law.exact
    mean, covariance = (_fractions(exact_array(part)) for part in (law.mean, law.covariance))
    return mean, covariance


def screening_pair(other: Law, base: Law) -> tuple[GaussianPair, Room]:
    """The pair `other` from `base` for floats, and the room that covers what was rounded on the way."""
    _same_shape(other, base)
    rounding = (
        exactly if other.exact is None and base.exact is None else rooms(_as_floats(other), _as_floats(base), ROUNDING)
    )
    if base.covariance.ndim == 2 and base.mean.size > 1 and base.cholesky is not None:
        found = _low_rank(other, base)
        if found is not None:
            pair, left = found
            return pair, lambda x: left(x) + rounding(x)
    return certified_pair(other, base), rounding


def _as_floats(law: Law) -> Law:
    return replace(law, exact=None)


def _same_shape(p: Law, q: Law) -> None:
    if p.mean.size != q.mean.size or p.covariance.ndim != q.covariance.ndim:
        raise ParameterError(
            "algorithm", "return laws of one dimension on neighbours", f"{p.mean.size} and {q.mean.size}"
        )


def _low_rank(other: Law, base: Law) -> tuple[GaussianPair, Room] | None:
    """The low-rank pair and the room of what it leaves out; None where too much is left, or the pair is near singular.

    In correlations of the base, R = scaled Σ: what is left of the difference, E, is at most ‖E‖/λ_min(R) of a variance
    of the base in every direction, and 1/τ of that of the other law, τ its smallest variance ratio.
    """
    deviation = np.sqrt(base.variances)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (other.covariance - base.covariance) / deviation[:, None] / deviation
    if not (np.isfinite(scaled).all() and base.smallest > 0.0):
        return None
    found = _factor(scaled)
    if found is None:
        return None
    columns, sign, left = found
    try:
        pair = GaussianPair.from_low_rank(
            other.mean, base.mean, base.covariance, deviation[:, None] * columns, sign=sign, cholesky_q=base.cholesky
        )
    except NdisError:  # near singular: the exact inputs decide
        return None
    spread = left / base.smallest / min(1.0, float(pair.variance_ratio.min()))
    return (pair, room(0.0, spread, base.mean.size)) if spread <= _LEFT else None


def _factor(difference: Floats) -> tuple[Floats, int, float] | None:
    """(F, sign, size of what is left) with F Fᵀ = sign·difference up to rounding, by Cholesky with pivots; None where
    the rank is not low or the signs are mixed."""
    sign = 1 if np.trace(difference) >= 0 else -1
    rest = sign * difference
    largest = float(np.abs(rest).max())
    if largest == 0.0:
        return np.zeros((len(rest), 1)), 1, 0.0
    columns: list[Floats] = []
    rounding = 8.0 * ROUNDING * float(np.linalg.norm(rest))
    for _ in range(min(_MOST_RANK, len(rest) // 2 + 1)):
        pivot = int(np.argmax(np.diagonal(rest)))
        height = float(rest[pivot, pivot])
        if not height > _EXHAUSTED * largest:
            return None
        column = rest[:, pivot] / np.sqrt(height)
        columns.append(column)
        rest = rest - np.outer(column, column)
        if float(np.abs(rest).max()) <= _EXHAUSTED * largest:
            return np.stack(columns, axis=1), sign, float(np.linalg.norm(rest)) + len(columns) * rounding
    return None
