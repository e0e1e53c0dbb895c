"""This module holds searches and formulas that several methods share: each stands here once.

A family of mechanisms depends on one positive number x, such as a ridge or a noise variance. Its δ at the target ε
falls as x grows. `smallest_safe` first walks in floats, which are fast and accurate to about 1e-12. It then tries ever
safer points, and returns the first one that the certificate accepts. The other searches need no proof.

A formula without a suffix takes floats and arrays. Its neighbour that ends in `_ball` takes balls (`flint.arb`), whose
operations carry their error. `reverse` needs only arithmetic, so it takes floats, arrays, rationals and balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy

from ndis._validate import Floats, as_not_negative, as_probability, as_scalar, require
from ndis.errors import BudgetError, PrecisionError

P = ParamSpec("P")
R = TypeVar("R")

_SETTLED = 2.0**-40  # relative width in x, or in δ, at which the float search stops
_FIRST_STEP = 2.0**-44  # first step to the safe side of the float root, relatively
_LAST_STEP = 2.0**-4
_ASIDE, _ENOUGH = 2.0**-10, 1.1  # width of a difference in log x, and the factor on the step that it suggests
_FARTHEST = 600.0  # largest |log x| of a search
_TINY = 1e-300
_LARGE = 30.0  # a log-ratio above this is taken out of the logarithm, so that its exponential cannot overflow

Excess = tuple[float, float, float]  # log δ less its goal, a margin for its error, and −d/dε of it


def budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the public target (ε, δ): ε ≥ 0 and 0 < δ < 1, checked.

    >>> budget(1, 1e-6)
    (1.0, 1e-06)
    """
    e, d = as_not_negative("epsilon", epsilon), as_scalar("delta", delta)
    require(d != 0, "delta", "be above 0", d, "no finite Gaussian noise reaches δ = 0")
    return e, float(as_probability("delta", d))


def smallest_safe(
    log_delta: Callable[[float], float],
    certified: Callable[[float], float],
    *,
    delta: float,
    start: float = 1.0,
    least: float | None = None,
    settled: float = _SETTLED,
    step: float = 0.5,
) -> float:
    """Return the smallest x, to about twelve digits, with `certified(x)` ≤ `delta`. δ must fall as x grows.

    Parameters
    ----------
    log_delta : callable
        log δ as a function of x, in floats.
    certified : callable
        A certified upper bound of δ at x. It must be tight to far more digits than the search.
    delta : float
        The target.
    start : float
        A guess.
    least : float, optional
        What to return if every x above e^-600 is safe and the certificate accepts this one.
    settled : float
        The float search ends at a log δ that is so near to its goal, or at so narrow a bracket of log x.
    step : float
        The first step of the search in log x: about the error of `start`.

    Raises
    ------
    BudgetError
        If no x below e^600 is safe, or if every x above e^-600 is safe and there is no accepted `least`.

    Examples
    --------
    >>> import ndis
    >>> pair = lambda std: ndis.GaussianPair.from_ratios(1.0, shift=1 / std)
    >>> std = smallest_safe(lambda x: pair(x).log_delta(1.0), lambda x: pair(x).certify(1.0).upper, delta=1e-5)
    >>> round(std, 9)
    3.730631635
    """
    target, seen = math.log(delta), dict[float, float]()

    def excess(u: float) -> float:
        """log(log δ* / log δ) at u = −log x: nearly linear, with the sign of δ − δ*; 0 if δ is near the target δ*."""
        if u not in seen:
            value = log_delta(math.exp(-u))
            if math.isnan(value):
                raise PrecisionError("log δ is not a number on the way to the target")
            near = math.fabs(value - target) <= settled
            seen[u] = 0.0 if near else math.log(-target) - math.log(min(max(-value, _TINY), 1.0 / _TINY))
        return seen[u]

    try:
        ends = _bracket(excess, -math.log(start), step)
    except _AllSafeError:
        if least is None or not certified(least) <= delta:
            raise
        return least
    edge = scipy.optimize.brentq(excess, *ends, xtol=settled)
    move, slope = _FIRST_STEP, 0.0
    while move <= _LAST_STEP:
        x = math.exp(-(edge - move))
        upper = certified(x)
        if upper <= delta:
            return x
        if move == _FIRST_STEP and upper < math.sqrt(delta):
            slope = (log_delta(math.exp(-edge)) - log_delta(math.exp(-(edge - _ASIDE)))) / _ASIDE
        # a wide certificate asks for a step that the slope of log δ tells
        move = max(2 * move, _ENOUGH * math.log(upper / delta) / slope if slope > 0.0 and upper < math.inf else 0.0)
    raise PrecisionError("no certified point was found beside the edge of the budget", reached=move)


class _AllSafeError(BudgetError):
    """The error means that every value of the parameter meets the budget."""


def _bracket(excess: Callable[[float], float], u: float, step: float) -> tuple[float, float]:
    """Return two points, one on either side of the edge."""
    safe = excess(u) <= 0
    while True:
        there = u + (step if safe else -step)
        if not -_FARTHEST <= there <= _FARTHEST:
            if safe:
                raise _AllSafeError(
                    "every value of the parameter meets the budget: the mechanism is private without calibration; "
                    "construct it with any value"
                )
            raise BudgetError("no value of the parameter meets the budget")
        if (excess(there) <= 0) != safe:
            return u, there
        u, step = there, 2 * step


def first_safe_epsilon(epsilon: float, certified: Callable[[float], float], delta: float) -> float:
    """Return the first of ever larger ε, from a float on, at which `certified(ε)` ≤ `delta`. The steps double."""
    start, step = epsilon, 2.0**-48 * max(epsilon, 2.0**-1000)
    while epsilon < math.inf and not certified(epsilon) <= delta:
        epsilon, step = start + step, 2.0 * step
    return epsilon


def newton_epsilon(excess: Callable[[float], Excess], e: float, high: float, *, beyond: float = math.inf) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ target, by safeguarded Newton steps. It was checked, with its error.

    Parameters
    ----------
    excess : callable
        (h, margin, slope) at ε: h falls with ε, slope = −dh/dε, and h + margin ≤ 0 tells that ε is safe.
    e : float
        A guess.
    high : float
        Safe, or infinite.
    beyond : float
        A point above the answer that no step from below may pass.

    Examples
    --------
    >>> round(newton_epsilon(lambda e: (-2.0 * e - math.log(0.01), 1e-14, 2.0), 0.0, math.inf), 9)
    2.302585093
    """
    h, margin, slope = excess(e)
    if e > 0.0 and h + margin <= 0.0:
        if h + 4.0 * margin >= 0.0:  # no step would come nearer
            return e
        high = e
        if not e * slope + h > 0.0:  # the tangent, or nothing, asks for a positive ε
            e = 0.0
            h, margin, slope = excess(e)
    if e == 0.0 and h + margin <= 0.0:
        return 0.0
    low, at_zero = (0.0, e == 0.0) if h + margin <= 0.0 else (e, True)  # whether ε = 0 is known to be unsafe
    for _ in range(300):
        # aim a margin inside the safe side; fall back on the bracket if Newton leaves it
        move = e + (h + 2.0 * margin) / slope if slope > 0.0 else math.nan
        if move > beyond > low:
            move = beyond
        if not low < move < high:
            if not at_zero:  # without this, halving would creep to 0 for ever
                zero, wrong, _ = excess(0.0)
                if zero + wrong <= 0.0:
                    return 0.0
                at_zero = True
            move = 0.5 * (low + high) if math.isfinite(high) else max(2.0 * low, 1.0)
        if not low < move < high:
            break
        e = move
        h, margin, slope = excess(e)
        if h + margin <= 0.0:
            high = e
            if h + 4.0 * margin >= 0.0:
                return high
        else:
            low = e
        if math.isfinite(high) and high - low <= 2.0**-50 * high:
            break
    if math.isfinite(high) and high - low <= 2.0**-40 * high:
        return high
    raise PrecisionError(
        f"epsilon did not settle; it lies between {low!r} and {high!r}", reached=(high - low) / max(high, low)
    )


def least_point(f: Callable[[float], float], low: float, high: float, *, width: float = 1e-10) -> tuple[float, float]:
    """(x, f(x)) at about the least value of f between two points, if f falls and then rises.

    Use it only for a parameter at every value of which the result holds: nothing here is certified.

    >>> x, value = least_point(lambda x: (x - 2.0) ** 2 + 1.0, -10.0, 10.0)
    >>> round(x, 6), round(value, 6)
    (2.0, 1.0)
    """
    with np.errstate(all="ignore"):  # f may be infinite at an end
        options = {"xatol": width, "maxiter": 100}
        least = scipy.optimize.minimize_scalar(f, bounds=(low, high), method="bounded", options=options)
    return float(least.x), float(least.fun)


def refuse(bad: Any, x: Floats, error: Floats, what: str = "the contour integral at") -> None:
    """Refuse the first of the points that are marked as bad."""
    if bad.any():
        i = int(np.argmax(bad))
        words = f"{what} {float(x[i])!r} did not reach full accuracy; relative tolerance reached: {error[i]:.3g}"
        raise PrecisionError(words, reached=float(error[i]))


# ---------------------------------------------------------------------- formulas


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose numbers may overflow: a value that is not finite is refused later."""

    @wraps(function)
    def without_warnings(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return function(*args, **kwargs)

    return without_warnings


def chernoff_factor(c: Any) -> Any:
    """Return log(c^c/(1+c)^{1+c}) for c > 0, the constant of Chernoff's bound for δ (thm:sampled-chernoff).

    It is the largest value of (1 − e^{−x})₊ e^{−cx} over x, taken at e^x = (1+c)/c. So for every c > 0

        δ(ε) = E(1 − e^{ε−L})₊ ≤ c^c/(1+c)^{1+c} E e^{c(L−ε)}.

    >>> round(float(chernoff_factor(1.0)), 9)  # log ¼
    -1.386294361
    """
    return -np.log1p(c) - c * np.log1p(1.0 / c)


def chernoff_factor_ball(c: Any) -> Any:
    """Return `chernoff_factor` as a ball, for a ball c > 0.

    >>> from flint import arb
    >>> chernoff_factor_ball(arb(1)).overlaps(-arb(4).log())
    True
    """
    return c * c.log() - (1 + c) * (1 + c).log()


def reverse(excess: Any, square: Any, ratio: Any = None) -> tuple[Any, Any]:
    """Return the invariants (t', m'²) of the reversed pair: t' = −t/(1+t), m'² = m²/(1+t) (def:invariants).

    Give the variance ratio τ = 1 + t if it is known to more digits than 1 + t keeps.

    >>> reverse(3.0, 4.0)
    (-0.75, 1.0)
    """
    ratio = 1 + excess if ratio is None else ratio
    return -excess / ratio, square / ratio


def reverse_shift(excess: Floats, shift: Floats, ratio: Floats | None = None) -> tuple[Floats, Floats]:
    """Return (t', |m'|-signed like m) of the reversed pair: `reverse` for a shift m in place of its square.

    >>> [float(x) for x in reverse_shift(np.float64(3.0), np.float64(4.0))]
    [-0.75, 2.0]
    """
    return reverse(excess, 0.0, ratio)[0], shift / np.sqrt(1.0 + excess if ratio is None else ratio)


def log_mixture(rate: float, log_ratio: Any) -> Any:
    """Return log(1 − q + q w) from q and log w: the loss of a release that a record enters with probability q.

    It has nearly full relative accuracy, also if q or log w is tiny; w may be 0 or beyond the range of floats.

    >>> round(float(log_mixture(0.5, np.log(3.0))), 12), log_mixture(1.0, 5.0)  # log 2, and log w without sampling
    (0.69314718056, 5.0)
    """
    if rate == 1.0:
        return log_ratio
    large, small = np.maximum(log_ratio, _LARGE), np.minimum(log_ratio, _LARGE)
    lower = rate * np.expm1(small)
    return np.where(
        log_ratio > _LARGE,
        np.log(rate) + large + np.log1p((1.0 - rate) / rate * np.exp(-large)),
        # a rate near 1 and a small w: 1 − q is exact, and 1 + q(w − 1) would cancel
        np.where(lower < -0.5, np.log((1.0 - rate) + rate * np.exp(small)), np.log1p(lower)),
    )


def log_mixture_ball(rate: Any, log_ratio: Any) -> Any:
    """Return `log_mixture` as a ball, for balls q and log w.

    >>> from flint import arb
    >>> log_mixture_ball(arb(0.5), arb(3).log()).overlaps(arb(2).log())
    True
    """
    return (rate * log_ratio.expm1()).log1p()
