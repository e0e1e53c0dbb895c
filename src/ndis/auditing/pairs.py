"""Pairs that the user gives: one by one, or many small ones as arrays.

For arrays, bounds cover all pairs, floats those that may be the worst, and certificates decide. Chernoff's bound
log δ ≤ K(s) − sε + s log s − (1+s) log(1+s) holds at every s > 0 with all 1 − st > 0 (bound:renyi), so one s serves
all pairs. A pair whose bound lies below a δ already found is not the worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis._validate import Floats
from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.judge import (
    AS_GIVEN,
    KEPT,
    SCREEN_MARGIN,
    SIDES,
    WITH_RECORD,
    Candidate,
    Tested,
    as_profile,
    candidates_of,
)
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.spectrum.batch import checked_rows, log_delta_batch
from ndis.spectrum.bounds import best_exponent

__all__ = ["PairBatch", "pairs_to_test"]

_SMALL = 4096  # pairs evaluated at once before the bounds are asked again
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Many small pairs N(shift, diag variance_ratio) against N(0, I) as arrays: a million take seconds.

    Parameters
    ----------
    variance_ratio : array of shape (n,) or (n, k)
        Each row is one pair.
    shift, copies : arrays that broadcast against it

    Examples
    --------
    >>> from ndis.auditing import Claim, audit
    >>> report = audit(Claim(epsilon=1.0, delta=1e-6), pairs=PairBatch([1.01, 1.02, 1.2], copies=100))
    >>> report.refuted, report.witness.neighbours
    (True, 'pair 2 of those given')
    """

    variance_ratio: ArrayLike
    shift: ArrayLike = 0.0
    copies: ArrayLike = 1

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> PairBatch:
        """The batch made of a mapping with the names of its fields."""
        unknown = [key for key in arrays if key not in cls.__dataclass_fields__]
        if unknown or "variance_ratio" not in arrays:
            names = ", ".join(map(str, arrays)) or "none"
            raise ParameterError("keys of pairs", "be variance_ratio [shift] [copies]", names)
        return cls(**arrays)


def pairs_to_test(pairs: Any, claim: Claim | ClaimedCurve) -> Iterator[Tested]:
    """Test pairs in any of the forms that `audit` takes."""
    if isinstance(pairs, Mapping):
        pairs = PairBatch.from_mapping(pairs)
    if isinstance(pairs, PairBatch):
        return _from_batch(pairs, claim)
    return _one_by_one([pairs] if isinstance(pairs, GaussianPair | PrivacyProfile) else pairs, claim)


def _one_by_one(pairs: Iterable[Any], claim: Claim | ClaimedCurve) -> Iterator[Tested]:
    for number, value in enumerate(pairs):
        profile = as_profile(value)
        if profile.sampled and claim.adjacency != "add-remove":
            rule = "be 'add-remove' for profiles of Poisson samples, which exist only for it"
            raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
        known = isinstance(value, PrivacyProfile) and claim.adjacency == "add-remove"
        words = WITH_RECORD if known else AS_GIVEN
        yield Tested(1, tuple(candidates_of(f"pair {number} of those given", words, profile, claim)))


def _from_batch(batch: PairBatch, claim: Claim | ClaimedCurve) -> Iterator[Tested]:
    """All pairs of a batch, both orders."""
    if np.ndim(batch.variance_ratio) not in (1, 2) or np.size(batch.variance_ratio) == 0:
        shape = np.shape(batch.variance_ratio)
        raise ParameterError("variance_ratio", "have shape (n,) or (n, k), at least one pair", f"shape {shape}")
    _check_rows(batch)
    ratio, t, m, n, _ = checked_rows(batch.variance_ratio, batch.shift, batch.copies, 0.0, None)  # checks every entry
    orders = ((t, m), (-t / ratio, -m / np.sqrt(ratio)))  # t' = −t/(1+t), m' = −m/√(1+t)
    found: list[Candidate] = []
    for epsilon, delta in claim.points:
        for side, order, (excess, shift) in zip(SIDES, AS_GIVEN, orders, strict=True):
            values = _largest(excess, shift, n, epsilon)
            for i in _worth_keeping(values, delta, ratio, m, n):
                slack = 0.0 if math.isinf(values[i]) else SCREEN_MARGIN * (1.0 + math.fabs(values[i]))
                label = f"pair {i} of those given"
                make = _profile_of(ratio[i], m[i], n[i])
                found.append(Candidate(label, order, make, side, epsilon, delta, float(values[i]), slack))
    yield Tested(len(ratio), tuple(found))


def _check_rows(batch: PairBatch) -> None:
    """Name the first pair with a number out of range."""
    for name, rule, good in (
        ("variance_ratio", "be positive and finite", lambda a: np.isfinite(a) & (a > 0)),
        ("shift", "be finite", np.isfinite),
        ("copies", "be a whole number of at least 1", lambda a: np.isfinite(a) & (a >= 1) & (a == np.floor(a))),
    ):
        array = np.asarray(getattr(batch, name))
        if array.dtype.kind not in "uif" or array.ndim == 0:
            continue  # `checked_rows` refuses it
        bad = np.argwhere(~good(array))
        if bad.size:
            found = array[tuple(bad[0])]
            raise ParameterError(f"{name} of pair {bad[0][0]}", rule, found)


def _profile_of(ratio: Floats, shift: Floats, copies: Floats) -> Callable[[], PrivacyProfile]:
    return lambda: PrivacyProfile(GaussianPair.from_ratios(ratio, shift, copies))


def _largest(t: Floats, m: Floats, n: Floats, epsilon: float) -> Floats:
    """log δ of each pair; −∞ if a bound shows that the pair is below the worst by more than the margin.

    A pair that is left out lies below one that was evaluated. It cannot be the witness, and it cannot be refuted if
    that one is not.
    """
    values = np.full(len(t), np.nan)

    def evaluate(rows: NDArray[np.intp]) -> None:
        values[rows] = log_delta_batch(shift=m[rows], copies=n[rows], epsilon=epsilon, excess=t[rows])

    left = np.arange(len(t))
    first = left[:: max(1, len(t) // _SMALL)]
    evaluate(first)
    for _ in range(_ROUNDS):
        worst = int(np.nanargmax(values))
        left = np.flatnonzero(np.isnan(values))
        if left.size <= _SMALL or values[worst] == -np.inf:
            break
        s, _ = best_exponent(GaussianPair.from_excess(t[worst].tolist(), m[worst].tolist(), n[worst]), epsilon)
        bound = _bound(t[left], m[left], n[left], epsilon, s)
        margin = SCREEN_MARGIN * (1.0 + math.fabs(values[worst]))
        out = bound < values[worst] - 2.0 * margin
        values[left[out]] = -np.inf
        left, bound = left[~out], bound[~out]
        if left.size > _SMALL:
            evaluate(left[np.argpartition(bound, -_SMALL)[-_SMALL:]])
    left = np.flatnonzero(np.isnan(values))
    if left.size:
        evaluate(left)
    return values


def _bound(t: Floats, m: Floats, n: Floats, epsilon: float, s: float) -> Floats:
    """Chernoff's bound of log δ for every pair at one s, rounded up; +∞ if s is outside the domain."""
    v = 1.0 - s * t
    inside = (v > 0.0).all(axis=1)
    v = np.where(v > 0.0, v, 1.0)
    # K(s) = Σ n [ −(s/2) log(1+t) − ½ log(1−st) + ½ s(1+s) m²/(1−st) ]
    terms = n * (
        -0.5 * s * np.log1p(t) - 0.5 * np.log1p(-s * np.where(v == 1.0, 0.0, t)) + 0.5 * s * (1 + s) * m * m / v
    )
    size = np.abs(terms).sum(axis=1) + s * (epsilon + 1.0)
    found = terms.sum(axis=1) - s * epsilon + s * math.log(s) - (1.0 + s) * math.log1p(s)
    return np.where(inside, found + 1e-12 * size, np.inf)


def _worth_keeping(values: Floats, delta: float, ratio: Floats, m: Floats, n: Floats) -> list[int]:
    """Numbers of the pairs with the largest values, and of all that floats do not tell from the claim.

    Equal pairs count once.
    """
    if np.isnan(values).any():  # NaN must not look private
        raise ParameterError("pairs", "have a delta that can be computed", "not a number")
    with np.errstate(invalid="ignore"):
        slack = np.where(np.isinf(values), 0.0, SCREEN_MARGIN * (1.0 + np.abs(values)))
    limit = math.log(delta) if delta > 0.0 else -math.inf
    close = np.flatnonzero(values + slack > limit)
    few = min(KEPT, values.size)
    top = np.argpartition(values, -few)[-few:]
    near = close[np.abs(values[close] - limit) <= slack[close]] if math.isfinite(limit) else close[:0]
    # if some are clearly above the claim, the worst of them decides
    chosen = np.union1d(near, top) if close.size == near.size else top
    _, first = np.unique(np.concatenate([a[chosen] for a in (ratio, m, n)], axis=1), axis=0, return_index=True)
    return sorted(int(chosen[i]) for i in first)
