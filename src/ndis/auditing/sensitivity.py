"""Look for neighbours that break a declared sensitivity: this tests a model, and proves nothing.

Use it on made-up data only: the report quotes the data sets that it found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import as_count, as_positive
from ndis.errors import ParameterError
from ndis.mechanisms.lifted import noisy_pair
from ndis.pair import GaussianPair
from ndis.worst_case.envelopes import DominatingPairs, Envelope, RankOneEnvelope, as_envelope

Sets = Sequence[Any] | Callable[[np.random.Generator], Any]
_ROUNDING = 1e-7  # the relative error that floats may add to a quantity
_NOISE = 1e-9  # the absolute error, if the quantity should be 0
_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_LEAST_LOG_DELTA = -50.0


class Excess(NamedTuple):
    """A finding compares one quantity of one pair of neighbours with the value that the envelope allows."""

    data: Any
    neighbour: Any
    noise_variance: float
    quantity: str
    value: float
    allowed: float

    @property
    def usage(self) -> float:
        """Return value/allowed. Above 1 the declared sensitivity is wrong; if 0 is allowed, it is 0 or infinity."""
        return _share(self.value, self.allowed)


@dataclass(frozen=True)
class SensitivityReport:
    """The report says if `check_sensitivity` met a violation.

    Attributes
    ----------
    ok : bool
        True if no pair broke the envelope. True proves nothing; False does.
    pairs : int
        Number of pairs of neighbours that were tried, each in both orders.
    closest : Excess
        The finding that used most of what is allowed.
    counterexample : Excess or None
        The worst violation.
    usage : dict
        For each quantity of the envelope, the largest share of what is allowed.
    """

    ok: bool
    pairs: int
    closest: Excess
    counterexample: Excess | None
    usage: dict[str, float]


def check_sensitivity(
    model: Any, data_sets: Sets, *, neighbours: Any, noise_variance: Any, trials: int = 200, random_state: int = 0
) -> SensitivityReport:
    """Look for neighbours beyond what `model.sensitivity` declares, at random.

    Parameters
    ----------
    model : GaussianOutput
        The model in question.
    data_sets : callable or sequence
        Makes a data set from a generator, or data sets to go through. Include the extreme ones: no records, a lone
        record, duplicates, records at the bounds.
    neighbours : callable
        ``neighbours(data, generator)``: the data with one record less (add-remove) or one replaced (replace-one).
    noise_variance : float or sequence of floats
        Where to check; the envelope must hold at each.
    trials : int
        Random pairs at each noise variance.
    random_state : int
        Seed of the search.

    Examples
    --------
    >>> from ndis.worst_case.envelopes import RankOneEnvelope
    >>> class Sum:  # says that records lie in [0, 1], and does not clip them
    ...     def distribution(self, data):
    ...         return [sum(data)], [[0.0]]
    ...     def sensitivity(self, noise_variance):
    ...         return RankOneEnvelope(shift_bound=noise_variance**-0.5, ratio_bound=0.0)
    >>> report = check_sensitivity(
    ...     Sum(), [[0.5, 1.0], [1.0, 3.0]], neighbours=lambda data, generator: data[:-1], noise_variance=4.0
    ... )
    >>> report.ok, report.counterexample.data, report.counterexample.quantity, round(report.counterexample.usage, 6)
    (False, [1.0, 3.0], 'shift', 3.0)
    """
    variances = as_positive("noise_variance", noise_variance).tolist()
    count = as_count("trials", trials)
    rng = np.random.default_rng(random_state)
    worst: dict[str, Excess] = {}
    for v, trial in product(variances, range(count)):
        data = data_sets(rng) if callable(data_sets) else data_sets[trial % len(data_sets)]
        neighbour = neighbours(data, rng)
        (mean_p, cov_p), (mean_q, cov_q) = model.distribution(data), model.distribution(neighbour)
        pair = noisy_pair(mean_p, cov_p, mean_q, cov_q, v)
        for quantity in _quantities(as_envelope(model.sensitivity(v)), pair):
            one = Excess(data, neighbour, v, *quantity)
            if one.quantity not in worst or one.usage > worst[one.quantity].usage:
                worst[one.quantity] = one
    closest = max(worst.values(), key=lambda one: one.usage)
    broken = closest.usage > 1.0 + _ROUNDING
    shares = {name: one.usage for name, one in worst.items()}
    return SensitivityReport(not broken, len(variances) * count, closest, closest if broken else None, shares)


def _quantities(envelope: Envelope, pair: GaussianPair) -> Iterator[tuple[str, float, float]]:
    """Yield (name, value, bound) of each quantity that the envelope bounds, in both orders."""
    if pair.mutually_singular:
        raise ParameterError("distribution", "return finite moments with a positive semidefinite covariance", "others")
    if isinstance(envelope, DominatingPairs):
        pieces = envelope.pieces or (envelope,)
        for name, one in (("remove", pair), ("add", pair.reversed())):
            logs = one.log_delta(_EPSILONS)
            allowed = np.max([getattr(piece, name).log_delta(_EPSILONS) for piece in pieces], axis=0)
            seen = allowed >= _LEAST_LOG_DELTA
            excess = float(np.max(logs[seen] - allowed[seen], initial=-math.inf))
            yield f"delta ({name})", math.exp(excess), 1.0
        return
    t, n = pair.excess, pair.copies
    logs = np.log1p(t)
    shift = max(math.sqrt(math.fsum(one.copies * one.shift**2)) for one in (pair, pair.reversed()))
    if isinstance(envelope, RankOneEnvelope):
        size = np.sort(np.repeat(np.expm1(np.abs(logs)), n.astype(int)))[::-1]  # t of the wider from the narrower
        largest, next_ = float(size[0]), float(size[1]) if size.size > 1 else 0.0
        yield "second ratio", next_ if next_ > _NOISE + _ROUNDING * largest else 0.0, 0.0
        yield "shift", shift, envelope.shift_bound
        yield "ratio", largest if largest > _NOISE else 0.0, envelope.ratio_bound
        if envelope.pieces:
            inside = (max(_share(shift, p.shift_bound), _share(largest, p.ratio_bound)) for p in envelope.pieces)
            yield "piece", min(inside), 1.0
        return
    size = np.abs(logs)
    yield "shift", shift, envelope.shift_bound
    yield "log ratio", float(size.max()) if size.max() > _NOISE else 0.0, envelope.log_ratio_bound
    total = math.fabs(math.fsum(n * logs))
    yield "log determinant", total if total > _NOISE else 0.0, envelope.log_det_bound
    against = min(float(np.max(t, initial=0.0)), float(np.max(-t, initial=0.0)))  # not in Loewner order
    yield "Loewner order", against if against > _NOISE + _ROUNDING * float(size.max()) else 0.0, 0.0


def _share(value: float, allowed: float) -> float:
    return value / allowed if allowed > 0 else 0.0 if value <= _NOISE else math.inf
