"""Searches: one that ends on a certified safe point, and two that need no proof.

A family of mechanisms depends on one positive number x, such as a ridge or a noise variance. Its δ at the target ε
falls as x grows. `smallest_safe` first walks in floats, which are fast and accurate to about 1e-12. It then tries ever
safer points, and returns the first one that the certificate accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from ndis._validate import Floats, as_probability, as_scalar
from ndis.errors import BudgetError, ParameterError, PrecisionError

__all__ = ["budget", "first_safe_epsilon", "least_point", "least_type_two", "smallest_safe"]

_SETTLED = 2.0**-40  # relative width in x, or in δ, at which the float search stops
_FIRST_STEP = 2.0**-44  # first step to the safe side of the float root, relatively
_LAST_STEP = 2.0**-4
_FARTHEST = 600.0  # of log x
_FIRST, _SECTION = 64, 10  # intervals of the first grid of a search by sections, and of each one that follows
_ROUNDS = 14
_CALM = 1e-14  # two rounds that gain no more than this end the search


def budget(epsilon: float, delta: float) -> tuple[float, float]:
    """The public target (ε, δ): ε ≥ 0 and 0 < δ < 1, checked.

    >>> budget(1, 1e-6)
    (1.0, 1e-06)
    """
    e, d = as_scalar("epsilon", epsilon), as_scalar("delta", delta)
    if not e >= 0:
        raise ParameterError("epsilon", "not be negative", e)
    if d == 0:
        raise ParameterError("delta", "be above 0", d, "no finite Gaussian noise reaches δ = 0")
    return e, float(as_probability("delta", d))


def smallest_safe(
    log_delta: Callable[[float], float],
    certified: Callable[[float], float],
    *,
    delta: float,
    start: float = 1.0,
    least: float | None = None,
) -> float:
    """The smallest x, to about twelve digits, with `certified(x)` ≤ `delta`. δ must fall as x grows.

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
    try:
        u = _edge(lambda u: log_delta(math.exp(-u)), lambda u: certified(math.exp(-u)), delta, -math.log(start))
    except _AllSafeError:
        if least is None or not certified(least) <= delta:
            raise
        return least
    return math.exp(-u)


def first_safe_epsilon(epsilon: float, certified: Callable[[float], float], delta: float) -> float:
    """The first of ever larger ε, from a float on, at which `certified(ε)` ≤ `delta`."""
    while not certified(epsilon) <= delta:
        epsilon = math.nextafter(epsilon * (1.0 + 2.0**-40), math.inf)
    return epsilon


def least_point(f: Callable[[float], float], low: float, high: float, *, width: float = 1e-10) -> tuple[float, float]:
    """(x, f(x)) at about the least value of f between two points, if f falls and then rises.

    Use it only for a parameter at every value of which the result holds: nothing here is certified.

    >>> x, value = least_point(lambda x: (x - 2.0) ** 2 + 1.0, -10.0, 10.0)
    >>> round(x, 6), round(value, 6)
    (2.0, 1.0)
    """
    with np.errstate(all="ignore"):  # f may be infinite at an end
        found = minimize_scalar(f, bounds=(low, high), method="bounded", options={"xatol": width, "maxiter": 100})
    return float(found.x), float(found.fun)


def least_type_two(delta: Callable[[Floats], Floats], alpha: Floats, reach: float) -> Floats:
    """f(α) = sup over real ε of [1 − δ(ε) − e^ε α]₊, from below; δ(`reach`) is negligible.

    With t = e^ε the function 1 − δ(ε) − αt is concave in t, because δ is convex in t. So it rises to one maximum and
    falls after it, in t and in ε (thm:tradeoff). A search by sections closes in on it, for all α at once.

    >>> equal = lambda e: np.maximum(0.0, -np.expm1(e))  # two equal laws
    >>> least_type_two(equal, np.array([0.25, 1.0]), 1.0)
    array([0.75, 0.  ])
    """
    low, high = np.full(alpha.size, -reach), np.full(alpha.size, reach)
    best = np.zeros(alpha.size)
    parts, calm = _FIRST, 0
    for _ in range(_ROUNDS):
        grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, parts + 1)
        places, where = np.unique(grid, return_inverse=True)
        value = 1.0 - delta(places)[where].reshape(grid.shape) - np.exp(grid) * alpha[:, None]
        top, rows = value.argmax(axis=1), np.arange(alpha.size)
        fresh = np.maximum(best, value[rows, top])
        calm = calm + 1 if (fresh - best <= _CALM).all() else 0
        best = fresh
        if calm == 2:
            break
        low, high = grid[rows, np.maximum(top - 1, 0)], grid[rows, np.minimum(top + 1, parts)]
        parts = _SECTION
    return np.minimum(best, 1.0 - alpha)  # a coin does as well as that


class _AllSafeError(BudgetError):
    """Every value of the parameter meets the budget."""


def _edge(log_delta: Callable[[float], float], certified: Callable[[float], float], delta: float, u: float) -> float:
    """The edge in u = −log x. δ increases with u."""
    target = math.log(delta)

    def excess(u: float) -> float:
        value = log_delta(u) - target
        if math.isnan(value):
            raise PrecisionError("log δ is not a number on the way to the target")
        return value

    low, high = _bracket(excess, u)
    u = _root(excess, low, high)
    step = _FIRST_STEP
    while step <= _LAST_STEP:
        if certified(u - step) <= delta:
            return u - step
        step *= 2
    raise PrecisionError("no certified point was found beside the edge of the budget", reached=step)


Point = tuple[float, float]


def _bracket(excess: Callable[[float], float], u: float) -> tuple[Point, Point]:
    """(u, excess) on both sides of the edge, the safe side first."""
    here, step = (u, excess(u)), 0.5
    safe = here[1] <= 0
    while True:
        u = here[0] + (step if safe else -step)
        if not -_FARTHEST <= u <= _FARTHEST:
            if safe:
                raise _AllSafeError(
                    "every value of the parameter meets the budget: the mechanism is private without calibration; "
                    "construct it with any value"
                )
            raise BudgetError("no value of the parameter meets the budget")
        there = (u, excess(u))
        if (there[1] <= 0) != safe:
            return (here, there) if safe else (there, here)
        here, step = there, 2 * step


def _root(excess: Callable[[float], float], low: Point, high: Point) -> float:
    """A point within _SETTLED of the edge, by secant steps (Illinois) and by halving if a step cannot be trusted."""
    (a, fa), (b, fb) = low, high
    side = 0
    while b - a > _SETTLED:
        finite = math.isfinite(fa) and math.isfinite(fb) and fb > fa
        x = a - fa * (b - a) / (fb - fa) if finite else 0.5 * (a + b)
        if not a < x < b:
            x = 0.5 * (a + b)
        if x in (a, b):
            break
        fx = excess(x)
        if abs(fx) <= _SETTLED:
            return x
        if fx < 0:
            a, fa = x, fx
            fb, side = (0.5 * fb if side == -1 else fb), -1
        else:
            b, fb = x, fx
            fa, side = (0.5 * fa if side == 1 else fa), 1
    return a
