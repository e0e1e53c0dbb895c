"""Take pairs from the user: one by one, or many small ones as arrays, of which floats choose those that may matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis._files import only_keys
from ndis._search import reverse_shift
from ndis._validate import Floats, require
from ndis.auditing.claim import Claim
from ndis.auditing.judge import SCREEN_MARGIN, Candidates, Tested, of_profile
from ndis.auditing.witness import AS_GIVEN, WITH_RECORD
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.spectrum.batch import checked_rows, log_delta_batch

_PAIRS_ONLY = "every pair of neighbours that is not among those given"
_TOP = 64  # pairs below the claim that are kept, for the report


@dataclass(frozen=True, eq=False)
class PairBatch:
    """A batch holds many small pairs N(shift, diag variance_ratio) against N(0, I) as arrays: a million take seconds.

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


def from_pairs(pairs: Any, claim: Claim) -> Candidates:
    """Test pairs in any of the forms that `audit` takes."""
    if isinstance(pairs, Mapping):
        pairs = PairBatch(**only_keys("pairs", dict(pairs), ("variance_ratio",), ("shift", "copies")))
    given = [pairs] if isinstance(pairs, GaussianPair | PrivacyProfile) else pairs
    tested = _from_batch(pairs, claim) if isinstance(pairs, PairBatch) else _from_values(given, claim)
    return Candidates(tested, missing=(_PAIRS_ONLY,), given_only=True)


def _from_values(pairs: Iterable[Any], claim: Claim) -> Iterator[Tested]:
    """Yield the candidates of pairs and profiles of any kind; those of a sample must have the claim's neighbours."""
    for number, value in enumerate(pairs):
        if not isinstance(value, GaussianPair | PrivacyProfile):
            raise ParameterError("pairs", "hold GaussianPair or PrivacyProfile values", type(value).__name__)
        profile = value if isinstance(value, PrivacyProfile) else PrivacyProfile(value)
        if profile.sampled and claim.adjacency != profile.adjacency:
            rule = f"be {profile.adjacency!r}, like that of the profile of a sample"
            raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
        known = profile is value and claim.adjacency == "add-remove"
        yield 1, of_profile(f"pair {number} of those given", WITH_RECORD if known else AS_GIVEN, profile, claim)


# ---------------------------------------------------------------------- arrays


def _from_batch(batch: PairBatch, claim: Claim) -> Iterator[Tested]:
    """Yield the candidates of those pairs of a batch that may matter."""
    require(np.size(batch.variance_ratio) != 0, "variance_ratio", "have at least one pair", "none")
    ratio, t, m, n, _ = checked_rows(batch.variance_ratio, batch.shift, batch.copies, 0.0, None)
    orders = ((t, m), reverse_shift(t, m, ratio))
    places = [(epsilon, delta, order) for epsilon, delta in claim.points for order in orders]
    logs = ((log_delta_batch(shift=m, copies=n, epsilon=e, excess=t), delta) for e, delta, (t, m) in places)
    chosen = np.unique(np.concatenate([_worth_testing(*one) for one in logs]))
    _, first = np.unique(np.concatenate([ratio, m, n], axis=1)[chosen], axis=0, return_index=True)  # equal ones once
    kept = np.sort(chosen[first]).tolist()
    profiles = {i: PrivacyProfile(GaussianPair.from_ratios(ratio[i], m[i], n[i])) for i in kept}
    yield len(ratio), (c for i in kept for c in of_profile(f"pair {i} of those given", AS_GIVEN, profiles[i], claim))


def _worth_testing(values: Floats, delta: float) -> NDArray[np.intp]:
    """Choose the pairs with the largest values, and all that floats do not tell from the claim."""
    # NaN must not look private
    require(not np.isnan(values).any(), "pairs", "have a delta that can be computed", "not a number")
    top = np.argpartition(values, -min(_TOP, values.size))[-_TOP:]
    slack = np.where(np.isinf(values), 0.0, SCREEN_MARGIN * (1.0 + np.abs(values)))
    excess = values - (math.log(delta) if delta > 0.0 else -math.inf)
    # if some are clearly above the claim, the worst of them decides
    return top if (excess > slack).any() else np.union1d(top, np.flatnonzero(excess + slack > 0.0))
