"""Convert events of dp_accounting to exact profiles, keep them in an accountant, and make loss distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import NeighboringRelation, PrivacyAccountant
from dp_accounting.pld import pld_pmf, privacy_loss_distribution

from ndis._validate import ORDERS, Adjacency, as_adjacency, as_one_probability, as_scalar, require
from ndis.accountant.composition import SAMPLED_WIDTH, WIDTH
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["ExactAccountant", "from_event", "to_pld"]

_MOST_POINTS = 10**7  # a grid of ε has at most this many
_RELATIONS = {"add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace-one": NeighboringRelation.REPLACE_ONE}
_MOST_NOISE = 2.0**23  # a multiplier; ε of a sampled step with so much noise is far below any that matters


class _UnsupportedError(Exception):
    """An event that has no exact profile here, and why."""

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__(reason)
        self.event, self.reason = event, reason


def _singular(adjacency: Adjacency) -> PrivacyProfile:
    """The profile of a release that hides nothing: δ = 1 at every ε."""
    return PrivacyProfile(GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0), adjacency=adjacency)


def _profile(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """The profile of an event; None if it releases nothing."""
    name = type(event).__name__  # not every version has every class
    if name not in _KINDS:
        raise _UnsupportedError(event, _REASONS.get(name, f"{name} has no exact Gaussian profile"))
    return _KINDS[name](event, relation)


def _adjacency(relation: NeighboringRelation) -> Adjacency:
    return "replace-one" if relation == NeighboringRelation.REPLACE_ONE else "add-remove"


def _gaussian(event: Any, relation: NeighboringRelation) -> PrivacyProfile:
    """Return the profile of one Gaussian release."""
    noise, adjacency = float(event.noise_multiplier), _adjacency(relation)
    if noise == 0.0:
        return _singular(adjacency)
    if not 2.0**-400 <= noise <= 2.0**400:
        raise _UnsupportedError(event, "the noise multiplier must be positive and finite")
    # The multiplier is over the norm of one record, and a replaced record moves the sum by two norms.
    norms = 1.0 if adjacency == "add-remove" else 2.0
    return PrivacyProfile.from_noise_multiplier(noise / norms, adjacency=adjacency)


def _mixture(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """Return the profile of a mixture of Gaussians; None if no record moves it."""
    pairs = [(float(c), float(p)) for c, p in zip(event.sensitivities, event.sampling_probs, strict=True) if p > 0]
    if relation == NeighboringRelation.REPLACE_ONE:
        raise _UnsupportedError(event, "MixtureOfGaussiansDpEvent is about records that are added or removed")
    if not all(c >= 0.0 for c, _ in pairs):
        raise _UnsupportedError(event, "sensitivities must not be negative")
    if all(c == 0.0 for c, _ in pairs):
        return None
    moves, chances = zip(*pairs, strict=True)
    made = partial(PrivacyProfile.from_mixture, sensitivities=moves, probabilities=chances)
    return _made(event, made, event.standard_deviation, most=_MOST_NOISE * max(moves))


def _truncated(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """Return the profile of a truncated Poisson sample; None if no record can enter."""
    rate, most, records = float(event.sampling_probability), event.truncated_batch_size, event.dataset_size
    if 0 in (rate, most, records):
        return None
    if relation != NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise _UnsupportedError(event, "truncated samples are known for records that are added or removed only")
    if most >= records and event.noise_multiplier > 0:  # no sample is cut
        return _gaussian(event, relation).subsampled(rate)
    sizes = {"max_batch_size": int(most), "records": int(records)}
    made = partial(PrivacyProfile.from_truncated_poisson, sampling_rate=rate, **sizes)
    return _made(event, made, event.noise_multiplier)


def _fixed_size(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """Return the profile of a sample of fixed size; None if it is empty."""
    if relation != NeighboringRelation.REPLACE_ONE:
        raise _UnsupportedError(event, "SampledWithoutReplacementDpEvent is about records that are replaced")
    if not isinstance(event.event, dp_accounting.GaussianDpEvent):
        raise _UnsupportedError(event, "only one Gaussian release of a sample of fixed size has a known worst pair")
    if event.sample_size in (0, event.source_dataset_size) or event.event.noise_multiplier == 0:
        return _profile(event.event, relation) if event.sample_size else None
    sizes = {"batch_size": int(event.sample_size), "records": int(event.source_dataset_size)}
    return _made(event, partial(PrivacyProfile.from_fixed_size, **sizes), event.event.noise_multiplier)


def _tree(event: Any, relation: NeighboringRelation) -> PrivacyProfile:
    """One record is in one leaf of one tree, and its value is in each node above: a Gaussian (arXiv 2103.00039, D)."""
    if relation != NeighboringRelation.REPLACE_SPECIAL:
        raise _UnsupportedError(event, "a tree has a fixed order, so a record must turn into nothing: REPLACE_SPECIAL")
    steps = event.step_counts if isinstance(event.step_counts, list | tuple) else [event.step_counts]
    if not steps or not min(steps) >= 0 or not max(steps) >= 1:
        raise _UnsupportedError(event, "step_counts must be whole numbers, one of them above 0")
    return _gaussian(event, relation).repeat(int(max(steps)).bit_length())


def _allocation(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """Return the profile of records that go to one step of an epoch each."""
    inner = event.event
    if relation == NeighboringRelation.REPLACE_ONE or not isinstance(inner, dp_accounting.GaussianDpEvent):
        raise _UnsupportedError(event, "allocation is known for Gaussians, and records that are added or removed")
    if event.num_selected != 1:
        raise _UnsupportedError(event, "records that go to several steps of an epoch have no exact profile")
    return _made(event, partial(PrivacyProfile.from_allocation, bins=int(event.num_steps)), inner.noise_multiplier)


def _made(event: Any, make: Callable[..., PrivacyProfile], noise: Any, most: float = _MOST_NOISE) -> PrivacyProfile:
    """Call a constructor with the noise, or with less; what it refuses is an event that is not supported."""
    if noise == 0:
        return _singular("add-remove")
    try:
        return make(noise_multiplier=min(float(noise), most))
    except ParameterError as error:
        raise _UnsupportedError(event, str(error)) from error


def _together(profiles: list[PrivacyProfile | None]) -> PrivacyProfile | None:
    result = [p for p in profiles if p is not None]
    for p in result:
        if p.groups[0].singular:
            return p
    return result[0].compose(*result[1:]) if result else None


def _repeated(profile: PrivacyProfile | None, count: int) -> PrivacyProfile | None:
    return None if profile is None or count == 0 else profile.repeat(count)


def _sampled(event: Any, relation: NeighboringRelation) -> PrivacyProfile | None:
    """Return the profile of a Poisson sample; None if the rate is 0."""
    rate = float(event.sampling_probability)
    if not 0.0 <= rate <= 1.0:
        raise _UnsupportedError(event, "the sampling probability must lie between 0 and 1")
    inner = _profile(_with_less_noise(event.event), relation)
    if inner is None or rate == 0.0:
        return None
    if rate == 1.0 or inner.groups[0].singular:
        return inner  # without noise a sample is private at no ε: δ = 1 is above its true δ, the rate
    if relation == NeighboringRelation.REPLACE_ONE and not isinstance(event.event, dp_accounting.GaussianDpEvent):
        raise _UnsupportedError(event, "replaced records in a sample have a known worst pair for one Gaussian only")
    if inner.composed:
        raise _UnsupportedError(event, "releases that draw their own samples from one sample have no exact profile")
    return inner.subsampled(rate)


def _with_less_noise(event: Any) -> Any:
    """The event, with as much noise as floats can follow in a sample; less noise is on the safe side."""
    if isinstance(event, dp_accounting.GaussianDpEvent) and _MOST_NOISE < event.noise_multiplier < math.inf:
        return dp_accounting.GaussianDpEvent(_MOST_NOISE)
    return event


_KINDS: dict[str, Callable[[Any, NeighboringRelation], PrivacyProfile | None]] = {
    "NoOpDpEvent": lambda event, relation: None,
    "NonPrivateDpEvent": lambda event, relation: _singular(_adjacency(relation)),
    "GaussianDpEvent": _gaussian,
    "ComposedDpEvent": lambda event, relation: _together([_profile(e, relation) for e in event.events]),
    "SelfComposedDpEvent": lambda event, relation: _repeated(_profile(event.event, relation), event.count),
    "PoissonSampledDpEvent": _sampled,
    "MixtureOfGaussiansDpEvent": _mixture,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RandomAllocationDpEvent": _allocation,
}
_REASONS = {"ZCDpEvent": "ZCDpEvent bounds Rényi divergences only; convert it with RdpAccountant"}


def from_event(
    event: dp_accounting.DpEvent, *, adjacency: Adjacency | NeighboringRelation = "add-remove"
) -> PrivacyProfile:
    """Return the profile of an event of Gaussian releases, on samples or not; docs/interop.md lists the events.

    The noise multiplier of an event is its noise over the largest norm of one record. Under "replace-one" a record may
    turn into its opposite. So the sum moves by twice that norm, and the profile has half the multiplier. A relation of
    dp_accounting may stand in place of the adjacency; trees need REPLACE_SPECIAL.

    Raises
    ------
    ParameterError
        For every other event, and for one that its neighbours do not go with.

    Examples
    --------
    >>> import dp_accounting
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> profile = from_event(dp_accounting.SelfComposedDpEvent(step, 1000))
    >>> round(profile.epsilon(1e-5), 6)
    1.828237
    """
    require(isinstance(event, dp_accounting.DpEvent), "event", "be a DpEvent", type(event).__name__)
    relation = adjacency if isinstance(adjacency, NeighboringRelation) else _RELATIONS[as_adjacency(adjacency)]
    try:
        result = _profile(event, relation)
    except _UnsupportedError as error:
        raise ParameterError("event", "have an exact Gaussian profile", repr(error.event), error.reason) from error
    return PrivacyProfile(GaussianPair.from_ratios(1.0), adjacency=_adjacency(relation)) if result is None else result


class ExactAccountant(PrivacyAccountant):  # type: ignore[misc]  # the package carries no types
    """Account in dp_accounting for Gaussian events, alone or on samples, by their exact profiles.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        ADD_OR_REMOVE_ONE unless given. REPLACE_SPECIAL, a record that turns into nothing, is the same for Gaussian and
        Poisson-sampled events. Under REPLACE_ONE the sum moves by twice the norm of a record.

    Examples
    --------
    >>> import dp_accounting
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> round(ExactAccountant().compose(step, 1000).get_epsilon(1e-5), 6)
    1.828237
    """

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._profile: PrivacyProfile | None = None

    @property
    def profile(self) -> PrivacyProfile | None:
        """The profile of everything composed so far; None if that is nothing."""
        return self._profile

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Compose an event, or return why it has no exact profile."""
        try:
            result = _profile(event, self.neighboring_relation)
        except _UnsupportedError as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.reason)
        if do_compose:
            self._profile = _together([self._profile, _repeated(result, count)])
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """Return the smallest ε for a δ between 0 and 1, on the safe side."""
        delta = as_scalar("target_delta", target_delta)
        require(0.0 <= delta <= 1.0, "target_delta", "lie between 0 and 1", delta)
        if self._profile is None or (delta == 1.0 and not self._profile.groups[0].singular):
            return 0.0
        hopeless = delta == 0.0 or self._profile.groups[0].singular
        return math.inf if hopeless else float(self._profile.epsilon(delta))

    def get_delta(self, target_epsilon: float) -> float:
        """δ at an ε; infinity is allowed."""
        if self._profile is None:
            return 0.0 if target_epsilon >= 0 else -math.expm1(as_scalar("target_epsilon", target_epsilon))
        if self._profile.groups[0].singular:
            return 1.0
        return 0.0 if target_epsilon == math.inf else float(self._profile.delta(target_epsilon))


def to_pld(profile: PrivacyProfile, *, discretization: float = 1e-3, tail: float = 1e-15) -> Any:
    """Return a pessimistic `PrivacyLossDistribution` of dp_accounting. No δ of it lies below that of the profile.

    The method is "connect the dots": the δ on a grid of ε are rounded up, and δ is interpolated from above between
    them. Rounding covers the `uncertainty` of the pairs and the usual width of `certify`. So no ε of the distribution
    lies below `profile.epsilon`. Everything that reads these distributions can go on from there. A failure probability
    is part of δ, so it counts.

    Parameters
    ----------
    profile : PrivacyProfile
    discretization : float
        Distance of two ε of the grid.
    tail : float
        The grid ends where δ is about this. So much probability counts as an infinite loss.

    Examples
    --------
    >>> import ndis
    >>> profile = ndis.PrivacyProfile.from_noise_multiplier(2.0)
    >>> bool(to_pld(profile).get_delta_for_epsilon(1.0) >= profile.certify(1.0).upper)
    True
    """
    h, least = as_scalar("discretization", discretization), as_one_probability("tail", tail)
    require(h > 0.0, "discretization", "be positive", h)
    if profile.failure_probability >= least:
        least = min(2.0 * profile.failure_probability, 0.5)
    ends = [float(profile.epsilon(least, order=order)) for order in ORDERS]
    if not max(ends) <= _MOST_POINTS * h:
        raise ParameterError("discretization", f"give at most {_MOST_POINTS} points", h, "take a larger one")
    pmfs, width = [], 2.0 * (SAMPLED_WIDTH if profile.composed else WIDTH)
    for order, end, other in zip(ORDERS, ends, reversed(ends), strict=True):
        low, high = math.floor(-other / h) - 1, math.ceil(end / h) + 1
        # A bound of one δ bounds every later one, since δ falls. None lies below the upper end of `certify`.
        deltas = profile._upper_deltas(h * np.arange(low, high + 1, dtype=np.float64), order) * (1.0 + width)
        deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(h, low, high, deltas))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)
