"""The output law of an algorithm on one data set, the pair that two laws make, and how far a law may be off.

**Screening.** Neighbours differ by little. If their covariances differ by a matrix of low rank, the float screen uses
a pair made from that matrix. It costs O(d²) per rank and solves no eigenproblem of size d. The rest of the difference
is measured in standard deviations of the output, and the screen allows for it.

**Accuracy.** Let P = N(μ, Σ) be the law in hand and P* = N(μ*, Σ*) the law that is meant. Measure both
in standard deviations of P. The means lie at most `shift` = e apart. The covariances differ by a matrix of norm at most
`spread` = η ≤ 1/5. Then for every x > 0

    the mean:        L ~ N(e²/2, e²) stays below e²/2 + e√(2x),
    the covariance:  L ≤ ½·1.2ηd + ½·1.25η·χ²_d stays below 2η(d + x), because χ²_d ≤ 2d + 3x,

each except with probability e^−x. `room` is 5/4 of the sum, which also covers the order P* from P. By the triangle
inequality of δ, with rooms r_P and r_Q and κ = 3e^−x,

    δ_{P,Q}(ε + r_P + r_Q) ≤ κ + e^{r_P} (δ_{P*,Q*}(ε) + e^ε κ).

So if δ_{P,Q} at ε + r_P + r_Q is above e^{r_P + r_Q}·δ, and κ is far below it, the laws that are meant break the claim
too (rule:audit).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray, exact_array
from ndis._validate import Floats, as_covariance
from ndis.errors import NdisError, ParameterError
from ndis.pair import GaussianPair
from ndis.spectrum.origins import DenseOrigin

__all__ = [
    "Algorithm",
    "Law",
    "Room",
    "certified_pair",
    "confidence",
    "exactly",
    "harder",
    "law_of",
    "room",
    "rooms",
    "screening_pair",
]

Algorithm = Callable[[Any], tuple[Any, Any]]
Room = Callable[[float], float]  # x → ε

_MOST_RANK = 8
_EXHAUSTED = 1e-12  # of the largest correlation that changes: the rest is rounding
_LEFT = 1e-9  # of a variance in any direction: the most that a low-rank pair may leave out
_ROUNDING = 2.0**-52  # of one rounding to a float, with a margin
_MOST = 0.2  # from this η on nothing is said
_CLEAR = 40.0  # e^−40 of the claimed δ does not count
_NOTHING = 800.0  # e^−800 is below every float
_ENOUGH = 50.0  # a larger room excludes any refutation


@dataclass(frozen=True, eq=False)
class Law:
    """N(mean, covariance). If the covariance is a vector, the coordinates are independent."""

    mean: Floats
    covariance: Floats
    exact: tuple[NDArray[Any], NDArray[Any]] | None = None  # the same in fractions, if the floats are rounded

    @cached_property
    def cholesky(self) -> Floats | None:
        """Lower factor of the covariance; None if there is none."""
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

    @property
    def variances(self) -> Floats:
        """The variance of each coordinate."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @cached_property
    def smallest(self) -> float:
        """A lower end of the smallest eigenvalue of the correlations, without coordinates of variance 0."""
        if self.covariance.ndim == 1:
            return 1.0
        free = self.variances > 0
        scale = 1.0 / np.sqrt(self.variances[free])
        count = scale.size
        if count == 0:
            return 1.0
        correlations = scale[:, None] * self.covariance[np.ix_(free, free)] * scale
        return float(np.linalg.eigvalsh(correlations)[0]) - count * count * _ROUNDING

    def agrees(self, other: Law, accuracy: float) -> bool:
        """Whether two laws are the same up to an error of relative size `accuracy` in each number."""
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
        """All numbers of the law, as bytes."""
        return b"|".join(
            f"{a.shape} ".encode() + ("/".join(map(str, a.ravel())).encode() if a.dtype == object else a.tobytes())
            for a in self._numbers
        )

    @property
    def _numbers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return (self.mean, self.covariance) if self.exact is None else self.exact


def law_of(algorithm: Algorithm, data: Any) -> Law:
    """Run the algorithm and check its result. No message quotes a number that it returned."""
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
    array = np.array(array, dtype=np.float64)  # a copy: an algorithm may write to its result later
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
    spread = covariance.to_fractions()
    exact = mean.to_fractions(), (spread + spread.T) / 2
    return Law(floats[0], _as_covariance(floats[1], floats[0].size), exact)


def certified_pair(p: Law, q: Law) -> GaussianPair:
    """The pair p from q with its exact inputs: the floats or the fractions that the algorithm returned."""
    _same_shape(p, q)
    make = GaussianPair.from_diagonal if p.covariance.ndim == 1 else GaussianPair.from_moments
    try:
        with np.errstate(over="ignore"):  # numbers beyond floats are refused below
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
    return exact_array(law.mean).to_fractions(), exact_array(law.covariance).to_fractions()


def screening_pair(other: Law, base: Law) -> tuple[GaussianPair, Room]:
    """The pair `other` from `base` for the float screen, and the room that covers the rounding on the way."""
    _same_shape(other, base)
    rounding = (
        exactly if other.exact is None and base.exact is None else rooms(_as_floats(other), _as_floats(base), _ROUNDING)
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
    """The low-rank pair and the room of the rest E; None if E is too large or the pair is near singular.

    Let R be the correlations of the base, and τ the smallest variance ratio of the other law. In every direction E is
    at most ‖E‖/λ_min(R) of a variance of the base. For the other law it is at most 1/τ of that.
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
    """(F, sign, size of the rest) with F Fᵀ = sign·difference up to rounding, by Cholesky with pivots.

    None if the rank is not low or the signs are mixed.
    """
    sign = 1 if np.trace(difference) >= 0 else -1
    rest = sign * difference
    largest = float(np.abs(rest).max())
    if largest == 0.0:
        return np.zeros((len(rest), 1)), 1, 0.0
    columns: list[Floats] = []
    rounding = 8.0 * _ROUNDING * float(np.linalg.norm(rest))
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


# ---------------------------------------------------------------------- accuracy


def exactly(x: float) -> float:
    """The room of numbers that are exact."""
    return 0.0


def room(shift: float, spread: float, dimension: int) -> Room:
    """The room of one law, as a function of x.

    >>> room(1e-12, 0.0, 3)(50.0) < 1.3e-11
    True
    """
    if not (spread <= _MOST and math.isfinite(shift)):
        return lambda x: math.inf
    return lambda x: 1.25 * (0.5 * shift * shift + shift * math.sqrt(2.0 * x) + 2.0 * spread * (dimension + x))


def confidence(epsilon: float, delta: float) -> float:
    """An x with e^−x (1 + e^ε) far below δ, or below all floats if δ = 0."""
    return epsilon + (_CLEAR - math.log(delta) if delta > 0.0 else _NOTHING)


def harder(allowed: Room, epsilon: float, delta: float) -> tuple[float, float] | None:
    """(ε', δ') such that δ_{P,Q}(ε') > δ' refutes (ε, δ) for the laws that are meant; None if nothing does."""
    r = allowed(confidence(epsilon, delta))
    if r == 0.0:
        return epsilon, delta
    if not r <= _ENOUGH:
        return None
    raised = math.exp(r) * delta * (1.0 + 2.0**-48) if delta > 0.0 else math.ulp(0.0)
    return math.nextafter(epsilon + r, math.inf), raised


def rooms(p: Law, q: Law, accuracy: float) -> Room:
    """The room of two laws whose numbers have a relative accuracy.

    Each mean is accurate to `accuracy` of itself plus its standard deviation, and each covariance to `accuracy` of the
    product of the two standard deviations. Fractions are exact, and a variance of 0 is 0. If both laws fix a coordinate
    at places no further apart than the accuracy of the numbers, nothing can be said.
    """
    if accuracy == 0.0 or (p.exact is not None and q.exact is not None):
        return exactly
    apart = np.abs(p.mean - q.mean)
    fixed = (p.variances == 0) & (q.variances == 0) & (apart > 0)
    if (apart <= accuracy * (np.abs(p.mean) + np.abs(q.mean)))[fixed].any():
        return lambda x: math.inf
    one, other = _room(p, accuracy), _room(q, accuracy)
    return lambda x: one(x) + other(x)


def _room(law: Law, accuracy: float) -> Room:
    if law.exact is not None:
        return exactly
    free = law.variances > 0
    count = int(free.sum())
    # |error of μᵢ| ≤ a(|μᵢ| + σᵢ); in correlations all errors are at most a, a matrix of norm at most a·d
    far: Floats = np.abs(law.mean[free]) / np.sqrt(law.variances[free]) + 1.0
    least = law.smallest
    if not least > 0.0:
        return lambda x: math.inf
    size = 1 if law.covariance.ndim == 1 else count
    return room(accuracy * float(np.linalg.norm(far)) / math.sqrt(least), accuracy * size / least, count)
