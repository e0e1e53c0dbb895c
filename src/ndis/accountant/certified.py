"""Certified enclosures of δ(ε) for compositions of Poisson-sampled and plain Gaussian releases.

Write K(s) for the sum of the log-moments of all releases in one order. Theorem thm:period-sum (docs/theory.md) encloses
δ(ε) by a sum of e^{K(s) − sε}/(s(s+1)) over s_k = c + 2πik/p, and by moments at three real places. The moments of
sampled steps come from `ndis.accountant.moment_balls` (mean shifts) and `ndis.accountant.curved_balls`
(pairs with one variance ratio), those of plain releases from their closed form. If the sum would be long,
`ndis.accountant.certified_jumps` splits mean shifts and sketches first, in the remove order. Sampled pairs with
different variance ratios have stand-ins (`ndis.accountant.upper`).

**The rest beyond y_N.** Let C bound |e^{K(c+iy) − sε}| for all y ≥ y_N. Then the nodes beyond y_N add up to at most
C/(π y_N). For sampled steps C comes from the ceiling of that module. For plain directions |1−st| grows with y, and the
mean terms fall (the tail bound of `ndis.spectrum.certified`, where 1 − ct > 0).

**If the moments fall too slowly** (few steps), one small Gaussian release of shift τ joins the composition. It adds
½τ² s(s+1) to K and makes everything fall like e^{−τ²y²/2}. Let δ_τ be the profile with it and p_τ the density of its
loss.

  - δ ≤ δ_τ, because dropping a release is post-processing.
  - δ_τ − δ ≤ τ² e^{τ²/8} p_τ(ε). Proof: the derivative of δ_v with respect to v = τ² is ½p_v(ε) by the formula above,
    and p_v(ε) = E n_v(ε − L − v/2) with n_v the density of N(0, v). The value n_v(x − v/2), which is
    (2πv)^{−½} e^{−x²/2v + x/2 − v/8}, is at most (2πv)^{−½} e^{−x²/2τ² + x/2} for v ≤ τ². Integrate ½ dv over (0, τ²):
    this gives (τ/√(2π)) e^{−x²/2τ² + x/2} = τ² e^{τ²/8} n_{τ²}(x − τ²/2).
  - The same sum without 1/(s(s+1)) is p_τ(ε) plus terms that are not negative, so it bounds p_τ(ε) from above.

The float plan only proposes c, p, b₁, b₂, τ and N. Nothing rests on its being right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from flint import arb

from ndis._balls import Ball, outward, precision
from ndis._validate import as_scalar
from ndis.accountant.certified_jumps import enclose_by_jumps
from ndis.accountant.certified_parts import Order, Parts, SampledGroup, product
from ndis.accountant.certified_plan import Guess, Planner
from ndis.accountant.certified_sum import PeriodSum, chernoff
from ndis.accountant.moment_balls import ShiftStep
from ndis.accountant.upper import DiscreteStep, dominated, dominating, profile
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError

__all__ = ["SampledGroup", "StandIns", "bound_sampled", "bounds_sampled", "certify_sampled", "certify_sampled_log"]

_ATTEMPTS = 6
_BOUND_BITS = 320
_MOST_NODES = 200_000  # about five seconds for one kind of step
_MANY = 3000  # nodes: with more, a sum over the number of jumps is tried first
_SUM_WIDTH = 1e-4  # of the sums for discrete stand-ins, which are a percent apart
_STAND_IN_WIDTH = 0.01  # relative; no stand-in does better


def certify_sampled(
    groups: Sequence[SampledGroup], epsilon: float, *, order: Order, relative_width: float = 1e-6
) -> Enclosure:
    """lower ≤ δ(ε) ≤ upper with certainty, upper − lower ≤ relative_width · δ (and the spacing of floats).

    Raises
    ------
    PrecisionError
        If the width asked for is not reached.

    Examples
    --------
    >>> from ndis.spectrum.directions import Directions
    >>> group = SampledGroup((0.01,), Directions([], arb(1)), 1000)  # 1000 steps of DP-SGD with noise multiplier 1
    >>> box = certify_sampled([group], 1.0, order="remove")
    >>> box.width <= 1e-6 * box.upper
    True
    """
    low, high = outward(_enclose(groups, epsilon, order, relative_width))
    return Enclosure(max(low, 0.0), min(high, 1.0))


def certify_sampled_log(
    groups: Sequence[SampledGroup], epsilon: float, *, order: Order, relative_width: float = 1e-6, short: bool = False
) -> Enclosure:
    """Certified enclosure of log δ(ε); −inf where δ is exactly zero. Only a `short` sum is tried if that is asked."""
    ball = _enclose(groups, epsilon, order, relative_width, short)
    if ball == 0:
        return Enclosure(-math.inf, -math.inf)
    with precision(128):
        low, high = outward(ball.log())
    return Enclosure(low, min(high, 0.0))


def bound_sampled(groups: Sequence[SampledGroup], epsilon: float, *, order: Order, place: float) -> float:
    """A certified upper bound of δ(ε), Chernoff's from the moments of one order; quick, and good only for a tiny δ.

    Examples
    --------
    >>> from ndis.spectrum.directions import Directions
    >>> group = SampledGroup((0.01,), Directions([], arb(1)), 1000)
    >>> bound_sampled([group], 500.0, order="remove", place=2.0) < 1e-300
    True
    """
    with precision(_BOUND_BITS):
        return outward(chernoff(Parts.of(groups, order), epsilon, place)).upper


StandIns = tuple[dict[int, DiscreteStep], dict[int, DiscreteStep] | None, Ball]


def bounds_sampled(
    groups: Sequence[SampledGroup],
    epsilon: float,
    *,
    order: Order,
    places: int = 400,
    relative_width: float = 1e-4,
    made: dict[float, StandIns] | None = None,
) -> Enclosure:
    """lower ≤ δ(ε) ≤ upper with certainty, for groups of any pairs; the width is what it is.

    For sampled pairs with different variance ratios discrete pairs with so many places stand in: one that dominates,
    one that is dominated (`ndis.accountant.upper`). More places bring the two closer and take more time. The
    lower end is 0 if the places do not resolve a dominated pair. Stand-ins do not depend on ε: one dictionary `made`,
    empty at first, keeps them for further ε of the same groups, order and places. If every pair has one ratio, and the
    sum with the exact moments is out of reach, stand-ins are tried too.

    The sums aim at `relative_width`, or at 1e-4 with stand-ins. Where they do not reach it, the narrowest enclosure
    found is returned. If no sum is within reach, that is 0 and Chernoff's bound.

    Examples
    --------
    >>> from ndis.spectrum.directions import Directions
    >>> group = SampledGroup((0.1,), Directions([], arb(1)), 2)
    >>> bounds_sampled([group], 0.5, order="remove").width > 0
    True
    """
    curved = {i: g for i, g in enumerate(groups) if g.invariants.curved and g.sampled}
    known = {} if made is None else made
    low, high = 0.0, 1.0
    if all(g.single for g in curved.values()):
        ball, reached, _ = _search(groups, epsilon, order, relative_width)
        low, high = outward(ball)
        low, high = max(low, 0.0), min(high, 1.0)
        if reached <= _STAND_IN_WIDTH or not curved:
            return Enclosure(low, high)
    curved = {i: g for i, g in curved.items() if not g.single} or curved
    below, above = _by_stand_ins(groups, curved, epsilon, order, places, max(relative_width, _SUM_WIDTH), known)
    return Enclosure(max(low, below), min(high, above))


def _by_stand_ins(
    groups: Sequence[SampledGroup],
    curved: dict[int, SampledGroup],
    epsilon: float,
    order: Order,
    places: int,
    width: float,
    known: dict[float, StandIns],
) -> Enclosure:
    """Bounds of δ(ε) with discrete pairs in the place of some groups."""
    steps = sum(g.count for g in curved.values())
    mass = 1e-12 / steps
    while True:
        if mass not in known:
            known[mass] = _stand_ins(curved, order == "remove", places, mass)
        above, below, lost = known[mass]
        top, _, _ = _search(groups, epsilon, order, width, above)
        if lost <= width * top or mass < 1e-200:
            bottom = arb(0) if below is None else _search(groups, epsilon, order, width, below)[0]
            with precision(_BOUND_BITS):
                return Enclosure(max(outward(bottom).lower, 0.0), min(outward(top + lost).upper, 1.0))
        goal = max(0.1 * width * float(top.lower()) / steps, 1e-290)
        mass = min(10.0 ** (8 * math.floor(math.log10(goal) / 8)), 1e-8 * mass)  # few different ones


def _stand_ins(whole: dict[int, SampledGroup], remove: bool, places: int, mass: float) -> StandIns:
    """Discrete pairs above and below every group (None if not resolved), and p_∞ of all those above together."""
    above: dict[int, DiscreteStep] = {}
    below: dict[int, DiscreteStep] | None = {}
    with precision(_BOUND_BITS):
        stay = arb(1)
        for i, g in whole.items():
            curve = profile(g.invariants, product(g.rates), remove=remove, places=places, mass=mass)
            above[i], infinite = dominating(curve, remove=remove)
            try:
                below = below if below is None else below | {i: dominated(curve, remove=remove)}
            except PrecisionError:
                below = None
            stay *= (1 - infinite) ** g.count
        return above, below, (1 - stay).nonnegative_part()


def _enclose(
    groups: Sequence[SampledGroup], epsilon: float, order: Order, relative_width: float, short: bool = False
) -> Ball:
    """δ(ε) as a ball of this relative width."""
    ball, reached, reason = _search(groups, epsilon, order, relative_width, short=short)
    if not reached <= relative_width:
        raise PrecisionError(
            f"the enclosure of delta at epsilon = {epsilon!r} did not shrink to relative width {relative_width:g}; "
            f"reached {reached:.3g}{reason}",
            reached=reached,
        )
    return ball


def _search(
    groups: Sequence[SampledGroup],
    epsilon: float,
    order: Order,
    relative_width: float,
    discrete: dict[int, DiscreteStep] | None = None,
    *,
    short: bool = False,
) -> tuple[Ball, float, str]:
    """δ(ε) as a ball of this relative width, or the narrowest found; its relative width, and why it is no less."""
    e, width = as_scalar("epsilon", epsilon), as_scalar("relative_width", relative_width)
    if not 0 < width < 1:
        raise ParameterError("relative_width", "lie strictly between 0 and 1", width)
    if order not in ("remove", "add"):
        raise ParameterError("order", "be 'remove' or 'add'", order)
    total = sum(g.count for g in groups)
    best, reached, reason = arb(0).union(arb(1)), math.inf, ""
    guess, few = Guess(), order == "remove"
    for _ in range(_ATTEMPTS):
        with precision(128):
            parts = Parts.of(groups, order, discrete)
            exact = parts.exact(e, order)
            if exact is not None:
                return exact, 0.0, ""
        plan = Planner(parts, e, width, guess).plan()
        if short and (plan.tau > 0.0 or plan.last > _MANY):
            reason = f" (the sum needs {plan.last:.2g} nodes)"
            break
        shifts = any(isinstance(step, ShiftStep) for step, _ in parts.steps)
        many = plan.tau > 0.0 or plan.last > _MANY if shifts else plan.last * len(parts.steps) > _MOST_NODES
        jumps, few = few and many, few and not many
        if not jumps and plan.last * max(len(parts.steps), 1) > _MOST_NODES:
            reason = f" (the sum needs {plan.last:.2g} nodes)"
            break
        try:
            if jumps:
                ball = enclose_by_jumps(lambda: Parts.of(groups, order, discrete), e, width, plan.log_delta)
            else:
                with precision(round(72 + 2 * total.bit_length() + 1.5 * plan.digits)):
                    ball, ratio, smooth = PeriodSum(Parts.of(groups, order, discrete), e, plan).value()
                guess = guess.after(plan, outward(ball.log()).upper if ball > 0 else math.nan, ratio, smooth)
        except PrecisionError as error:
            reason = f" ({error})"
            if jumps:
                continue
            break
        if ball > 0 and (found := float((2 * ball.rad() / ball.lower()).upper())) < reached:
            best, reached = ball, found
            if reached <= width:
                break
    if not reached < math.inf:
        with precision(_BOUND_BITS), suppress(PrecisionError):
            top = chernoff(parts, e, Planner(parts, e, width, Guess())._saddle()[0])
            best = arb(0).union(top) if top < 1 else best
    return best, reached, reason
