"""Bound Rényi numbers: K(s) of a profile at one order from above, and the budget of that order from below."""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from ndis._balls import exact_ball
from ndis._formulas import chernoff_factor_ball
from ndis.accountant.laws import product
from ndis.accountant.laws.mean_shift_balls import MeanShiftBalls
from ndis.dominance.directions import enclosed, precision, up
from ndis.errors import BudgetError, ParameterError, PrecisionError
from ndis.profile import Group, Order, PrivacyProfile

__all__ = ["certified_log_moment", "log_budget"]

_BITS = 320
_DIGITS = 90.0  # the moment of a sampled step is meant to be known to e^-90


def certified_log_moment(profile: PrivacyProfile, way: Order, order: float) -> Fraction:
    """Return an upper bound of K(s), s = order − 1, of a profile in one direction, as an exact number.

    Parameters
    ----------
    profile : PrivacyProfile
    way : str
        "remove" or "add".
    order : float
        The Rényi order, above 1.

    Raises
    ------
    BudgetError
        If the profile has an infinite Rényi divergence of this order.

    Examples
    --------
    >>> from ndis.pair import GaussianPair
    >>> shift = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5))
    >>> certified_log_moment(shift, "remove", 3.0)  # s(1+s)/2 · μ²
    Fraction(3, 4)
    """
    total = Fraction(0)
    for group in profile.groups:
        total += group.count * (_sampled(group, way, order) if group.sampled else _unsampled(group, way, order))
    return total


def log_budget(order: float, epsilon: float, delta: float) -> Fraction:
    """Return the largest B with e^{B − sε} s^s/(1+s)^{1+s} ≤ δ, s = order − 1, rounded down (thm:renyi-filter).

    >>> float(log_budget(2.0, 1.0, 0.25)) <= 1.0 < float(log_budget(2.0, 1.0, 0.25)) + 1e-12
    True
    """
    with precision(_BITS):
        s = exact_ball(Fraction(order) - 1)
        return -up(chernoff_factor_ball(s) - arb(delta).log() - s * arb(epsilon))


def _unsampled(group: Group, way: Order, order: float) -> Fraction:
    pair = enclosed(group.pair(way))
    with precision(_BITS):
        value = None if pair.mutually_singular else pair.log_moment(exact_ball(Fraction(order) - 1))
        if value is None:
            raise _infinite(way, order)
        return max(up(value), Fraction(0))


def _sampled(group: Group, way: Order, order: float) -> Fraction:
    """Bound K(s) of one sampled mean shift (`laws.mean_shift_balls`); other sampled pairs are refused."""
    pair = enclosed(group.pair(way))
    if pair.mutually_singular:
        raise _infinite(way, order)
    if pair.curved:
        raise ParameterError(
            "request",
            "be a mean shift if it is sampled, for a ledger of kind 'renyi'",
            f"a release with sampling rate {group.rate!r} and unequal variances",
            "declare it in a plan",
        )
    if pair.trivial:
        return Fraction(0)
    with precision(_BITS):
        step = MeanShiftBalls(product(group.rates), pair.flat.sqrt(), remove=way == "remove")
        value = step.moment(order - 1.0, _DIGITS).log()  # order − 1 is exact in floats
        if not value.is_finite():
            raise PrecisionError(f"the Rényi divergence of order {order!r} of a sampled release could not be enclosed")
        return max(up(value), Fraction(0))


def _infinite(way: Order, order: float) -> BudgetError:
    return BudgetError(
        f"the request must have a finite Rényi divergence of order {order!r} to be counted; got a request for which it "
        f"is infinite in the direction {way!r}; make a ledger with a smaller order, or a plan"
    )
