"""Convert events of dp_accounting to exact profiles, keep them in an accountant, and make loss distributions."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import NeighboringRelation, PrivacyAccountant
from dp_accounting.pld import pld_pmf, privacy_loss_distribution

from ndis._validate import Adjacency, Order, as_one_probability, as_scalar
from ndis.accountant.composition import SAMPLED_WIDTH, WIDTH
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["ExactAccountant", "from_event", "to_pld"]

_MOST_POINTS = 10**7  # a grid of ε has at most this many
_MOST_NOISE = 2.0**23  # a multiplier; ε of a sampled step with so much noise is far below any that matters


class _UnsupportedError(Exception):
    """An event that has no exact profile here, and why."""

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__(reason)
        self.event, self.reason = event, reason


def _singular(adjacency: Adjacency) -> PrivacyProfile:
    """The profile of a release that hides nothing: δ = 1 at every ε."""
    return PrivacyProfile(GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0), adjacency=adjacency)


def _profile(event: Any, adjacency: Adjacency) -> PrivacyProfile | None:
    """The profile of an event; None if it releases nothing."""
    match event:
        case dp_accounting.NoOpDpEvent():
            return None
        case dp_accounting.NonPrivateDpEvent():
            return _singular(adjacency)
        case dp_accounting.GaussianDpEvent():
            noise = float(event.noise_multiplier)
            if noise == 0.0:
                return _singular(adjacency)
            if not 2.0**-400 <= noise <= 2.0**400:
                raise _UnsupportedError(event, "the noise multiplier must be positive and finite")
            # The multiplier is over the norm of one record, and a replaced record moves the sum by two norms.
            return PrivacyProfile.from_noise_multiplier(
                noise if adjacency == "add-remove" else noise / 2.0, adjacency=adjacency
            )
        case dp_accounting.ComposedDpEvent():
            return _together([_profile(one, adjacency) for one in event.events])
        case dp_accounting.SelfComposedDpEvent():
            return _repeated(_profile(event.event, adjacency), event.count)
        case dp_accounting.PoissonSampledDpEvent():
            return _sampled(event, adjacency)
    raise _UnsupportedError(event, f"{type(event).__name__} has no exact Gaussian profile")


def _together(profiles: list[PrivacyProfile | None]) -> PrivacyProfile | None:
    result = [p for p in profiles if p is not None]
    for p in result:
        if p.groups[0].singular:
            return p
    return result[0].compose(*result[1:]) if result else None


def _repeated(profile: PrivacyProfile | None, count: int) -> PrivacyProfile | None:
    return None if profile is None or count == 0 else profile.repeat(count)


def _sampled(event: Any, adjacency: Adjacency) -> PrivacyProfile | None:
    rate = float(event.sampling_probability)
    if not 0.0 <= rate <= 1.0:
        raise _UnsupportedError(event, "the sampling probability must lie between 0 and 1")
    inner = _profile(_with_less_noise(event.event), adjacency)
    if inner is None or rate == 0.0:
        return None
    if rate == 1.0 or inner.groups[0].singular:
        return inner  # without noise a sample is private at no ε: δ = 1 is above its true δ, the rate
    if adjacency != "add-remove":
        raise _UnsupportedError(event, "Poisson samples of replaced records have no single worst pair")
    if inner.composed:
        raise _UnsupportedError(event, "releases that draw their own samples from one sample have no exact profile")
    return inner.subsampled(rate)


def _with_less_noise(event: Any) -> Any:
    """The event, with as much noise as floats can follow in a sample; less noise is on the safe side."""
    if isinstance(event, dp_accounting.GaussianDpEvent) and _MOST_NOISE < event.noise_multiplier < math.inf:
        return dp_accounting.GaussianDpEvent(_MOST_NOISE)
    return event


def from_event(event: dp_accounting.DpEvent, *, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
    """Return the exact profile of an event: Gaussian, PoissonSampled, Composed, SelfComposed, NoOp or NonPrivate.

    The noise multiplier of an event is its noise over the largest norm of one record. Under "replace-one" a record may
    turn into its opposite. So the sum moves by twice that norm, and the profile has half the multiplier.

    Raises
    ------
    ParameterError
        For every other event, and for samples under "replace-one".

    Examples
    --------
    >>> import dp_accounting
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> profile = from_event(dp_accounting.SelfComposedDpEvent(step, 1000))
    >>> round(profile.epsilon(1e-5), 6)
    1.828237
    """
    if not isinstance(event, dp_accounting.DpEvent):
        raise ParameterError("event", "be a DpEvent", type(event).__name__)
    try:
        result = _profile(event, adjacency)
    except _UnsupportedError as error:
        raise ParameterError("event", "have an exact Gaussian profile", repr(error.event), error.reason) from error
    return PrivacyProfile(GaussianPair.from_ratios(1.0), adjacency=adjacency) if result is None else result


class ExactAccountant(PrivacyAccountant):  # type: ignore[misc]  # the package carries no types
    """Account in dp_accounting for Gaussian and Poisson-sampled Gaussian events exactly.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        ADD_OR_REMOVE_ONE unless given. REPLACE_SPECIAL, a record that turns into nothing, is the same. Under
        REPLACE_ONE the sum moves by twice the norm of a record, and only events without sampling are supported.

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
    def _adjacency(self) -> Adjacency:
        return "replace-one" if self.neighboring_relation == NeighboringRelation.REPLACE_ONE else "add-remove"

    @property
    def profile(self) -> PrivacyProfile | None:
        """The profile of everything composed so far; None if that is nothing."""
        return self._profile

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        try:
            result = _profile(event, self._adjacency)
        except _UnsupportedError as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.reason)
        if do_compose:
            self._profile = _together([self._profile, _repeated(result, count)])
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """Return the smallest ε for a δ between 0 and 1, on the safe side."""
        delta = as_scalar("target_delta", target_delta)
        if not 0.0 <= delta <= 1.0:
            raise ParameterError("target_delta", "lie between 0 and 1", delta)
        if self._profile is None:
            return 0.0
        if self._profile.groups[0].singular:
            return math.inf
        if delta == 1.0:
            return 0.0
        return math.inf if delta == 0.0 else float(self._profile.epsilon(delta))

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
    if not h > 0.0:
        raise ParameterError("discretization", "be positive", h)
    if profile.failure_probability >= least:
        least = min(2.0 * profile.failure_probability, 0.5)
    orders: tuple[Order, Order] = ("remove", "add")
    ends = [float(profile.epsilon(least, order=order)) for order in orders]
    if not max(ends) <= _MOST_POINTS * h:
        raise ParameterError("discretization", f"give at most {_MOST_POINTS} points", h, "take a larger one")
    pmfs, width = [], 2.0 * (SAMPLED_WIDTH if profile.composed else WIDTH)
    for order, end, other in zip(orders, ends, reversed(ends), strict=True):
        low, high = math.floor(-other / h) - 1, math.ceil(end / h) + 1
        # A bound of one δ bounds every later one, since δ falls. None lies below the upper end of `certify`.
        deltas = profile._upper_deltas(h * np.arange(low, high + 1, dtype=np.float64), order) * (1.0 + width)
        deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(h, low, high, deltas))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)
