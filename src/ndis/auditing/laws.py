"""The output law of an algorithm on one data set, and the pair it makes with a neighbour's.

Neighbours differ by little: where the covariances differ by a matrix of low rank, the pair that floats are screened
with is made from that, O(d²) for each rank, and never from an eigenproblem of size d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats, as_covariance, as_floats, as_vector
from ndis.errors import NdisError, ParameterError
from ndis.exact import ExactArray, exact_array
from ndis.pair import GaussianPair, Origin
from ndis.profile import PrivacyProfile

__all__ = ["Algorithm", "Law", "certified_pair", "law_of", "screening_pair", "storable"]

Algorithm = Callable[[Any], tuple[Any, Any]]
_MOST_RANK = 8
_EXHAUSTED = 1e-12  # of the largest variance of the difference: what is left is rounding
LOW_RANK_SLACK = 1e-8  # of log δ, for what was left


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
    def summary(self) -> tuple[float, ...]:
        """A few numbers by which a journal knows the law again."""
        total = self.covariance.sum()
        return tuple(float(x) for x in (np.abs(self.mean).sum(), np.abs(self.covariance).sum(), self.mean.sum(), total))


def law_of(algorithm: Algorithm, data: Any) -> Law:
    """Run the algorithm and check what it returns."""
    found = algorithm(data)
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise ParameterError("algorithm", "return (mean, covariance)", type(found).__name__)
    if any(isinstance(part, ExactArray) for part in found):
        return _exact_law(*(exact_array(part, name="law returned by algorithm") for part in found))
    mean = as_vector("mean returned by algorithm", found[0])
    covariance = as_floats("covariance returned by algorithm", found[1])
    if covariance.ndim == 1 and covariance.size == mean.size:
        if not (covariance >= 0).all():
            raise ParameterError("covariance returned by algorithm", "have non-negative variances", "a negative one")
        return Law(mean, covariance)
    return Law(mean, as_covariance("covariance returned by algorithm", covariance, mean.size))


def _exact_law(mean: ExactArray, covariance: ExactArray) -> Law:
    floats = (mean.to_float(), covariance.to_float())
    law = Law(as_vector("mean", floats[0]), as_covariance("covariance", floats[1], floats[0].size))
    fractions = tuple(_fractions(part) for part in (mean, covariance))
    return replace(law, exact=(fractions[0], (fractions[1] + fractions[1].T) / 2))


def _fractions(array: ExactArray) -> NDArray[Any]:
    whole = np.empty(array.numerators.size, dtype=object)
    whole[:] = [Fraction(int(x), array.denominator) for x in array.numerators.ravel().tolist()]
    return whole.reshape(array.shape)


def certified_pair(p: Law, q: Law) -> GaussianPair:
    """The pair p from q with its exact inputs: the binary numbers, or the fractions, that the algorithm returned."""
    _same_shape(p, q)
    make = GaussianPair.from_diagonal if p.covariance.ndim == 1 else GaussianPair.from_moments
    pair = make(p.mean, p.covariance, q.mean, q.covariance)
    if p.exact is None or q.exact is None:
        return pair
    return replace(pair, origins=(Origin("dense", (*p.exact, *q.exact)),))


def storable(profile: PrivacyProfile) -> PrivacyProfile:
    """The profile with fractions rounded to floats, as a file can hold them."""

    def plain(pair: GaussianPair) -> GaussianPair:
        if not any(a.dtype == object for o in pair.origins for a in o.arrays):
            return pair
        origins = tuple(replace(o, arrays=tuple(a.astype(np.float64) for a in o.arrays)) for o in pair.origins)
        return replace(pair, origins=origins)

    return replace(profile, remove=plain(profile.remove), add=plain(profile.add))


def screening_pair(other: Law, base: Law) -> tuple[GaussianPair, bool]:
    """The pair `other` from `base` for floats, and whether a covariance was rounded on the way."""
    _same_shape(other, base)
    if base.covariance.ndim == 2 and base.mean.size > 1 and base.cholesky is not None:
        difference = other.covariance - base.covariance
        found = _low_rank(difference)
        if found is not None:
            factor, sign = found
            try:
                pair = GaussianPair.from_low_rank(
                    other.mean, base.mean, base.covariance, factor, sign=sign, cholesky_q=base.cholesky
                )
            except NdisError:  # near singular: the exact inputs decide
                return certified_pair(other, base), False
            return pair, True
    return certified_pair(other, base), base.exact is not None


def _same_shape(p: Law, q: Law) -> None:
    if p.mean.size != q.mean.size or p.covariance.ndim != q.covariance.ndim:
        raise ParameterError(
            "algorithm", "return laws of one dimension on neighbours", f"{p.mean.size} and {q.mean.size}"
        )


def _low_rank(difference: Floats) -> tuple[Floats, int] | None:
    """(F, sign) with F Fᵀ = sign·difference up to rounding, by Cholesky with pivots; None where the rank is not low or
    the signs are mixed."""
    diagonal = np.diagonal(difference)
    sign = 1 if diagonal.sum() >= 0 else -1
    rest = sign * difference
    largest = float(np.abs(rest).max())
    columns: list[Floats] = []
    if largest == 0.0:
        return np.zeros((len(rest), 1)), 1
    for _ in range(min(_MOST_RANK, len(rest) // 2 + 1)):
        pivot = int(np.argmax(np.diagonal(rest)))
        height = float(rest[pivot, pivot])
        if not height > _EXHAUSTED * largest:
            return None
        column = rest[:, pivot] / np.sqrt(height)
        columns.append(column)
        rest = rest - np.outer(column, column)
        if float(np.abs(rest).max()) <= _EXHAUSTED * largest:
            return np.stack(columns, axis=1), sign
    return None
