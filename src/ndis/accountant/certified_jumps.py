"""Certified δ(ε) in the remove order where few large losses make it up: a sum over their number.

At a small rate the loss of a step has a narrow body, and a far tail in which its moments explode. On every line on
which the moments stay finite, the sum of `ndis.accountant.certified` then cancels by the size of δ, and the body
dies only far out. So every step j is split by soft windows of its loss (`ndis.accountant.windows`):

    M_j = B_j + J_j + F_j,     losses below T₁, between T₁ and T₂, above T₂.

Theorem thm:jump-split (docs/theory.md) says that then

    δ(ε) = Σ_k Π_j C(n_j, k_j) δ_k(ε) + R.

Here δ_k belongs to the positive measure with the transform Π_j B_j^{n_j − k_j} J_j^{k_j} (and the plain releases), with
k_j jumps in group j. R comes from the outcomes with a loss above T₂, and is enclosed by integrals over one step. All
that `ndis.accountant.certified` proves about its sum holds for a positive measure. So each δ_k that counts is
summed on a line of its own, where little cancels. The others are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeGuard

import numpy as np
from flint import arb, fmpz

from ndis._balls import Ball, outward, precision
from ndis.accountant.certified_parts import Parts, Step
from ndis.accountant.certified_plan import Guess, Plan, Planner
from ndis.accountant.certified_sum import PeriodSum, chernoff
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.curved_windows import CurvedWindow
from ndis.accountant.moment_balls import ShiftStep
from ndis.accountant.windows import WindowStep
from ndis.errors import PrecisionError

__all__ = ["enclose_by_jumps"]

_ATTEMPTS = 3
_SHARES = (0.5, 0.3, 0.7, 0.1, 0.03)  # T₁ as a share of the loss that a jump must reach
_MOST_JUMPS = 16
_MOST_TERMS = 60
_MOST_NODES = 20_000
_BOUND_DIGITS = 30.0


class _Cut(NamedTuple):
    """T₁, T₂ and ω of one step, and a β for the losses above; 0 if their probability is negligible."""

    low: float
    high: float
    width: float
    beta: float


class _Term(NamedTuple):
    """The jumps of every step, b and log of the bound there, and the plan: None if the bound suffices."""

    jumps: tuple[int, ...]
    place: float
    log_bound: float
    plan: Plan | None


class _Layout(NamedTuple):
    cuts: list[_Cut | None]
    terms: list[_Term]
    most: int  # jumps of a term
    rest: tuple[float, float]  # b and z for the terms with more
    log_delta: float

    @property
    def cost(self) -> int:
        return sum(t.plan.last + 200 for t in self.terms if t.plan is not None)


def enclose_by_jumps(make: Callable[[], Parts], epsilon: float, width: float, log_delta: float) -> Ball:
    """δ(ε) as a ball, meant to have the relative width asked for.

    Parameters
    ----------
    make : callable
        The parts of the composition, at the working precision.
    epsilon, width : float
        ε and the relative width.
    log_delta : float
        A first guess of log δ(ε).

    Raises
    ------
    PrecisionError
        If no split into a few jumps is found. If the width is not reached, the ball is wider than asked for.
    """
    best = arb(0).union(arb(1))
    for attempt in range(_ATTEMPTS):
        try:
            with precision(128):
                layout = _lay_out(make(), epsilon, width, log_delta, attempt)
        except PrecisionError:
            if attempt:
                break
            raise
        ball = _evaluate(make, layout, epsilon)
        best = ball if ball.rad() < best.rad() else best
        if ball > 0 and (2 * ball.rad() / ball.lower()) <= width:
            return ball
        top = outward(ball.upper().log()).upper
        log_delta = top if ball > 0 else min(top, layout.log_delta) - 5.0
    return best


# ---------------------------------------------------------------------- floats: proposals only


def _lay_out(parts: Parts, epsilon: float, width: float, log_delta: float, attempt: int) -> _Layout:
    """The cheapest split found."""
    found: list[_Layout] = []
    reason = ""
    for share in _SHARES:
        try:
            found.append(_Split(parts, epsilon, width, share, attempt).layout(log_delta))
        except PrecisionError as error:
            reason = str(error)
            continue
        if found[-1].cost < 5000:
            break
    if not found:
        raise PrecisionError(reason)
    return min(found, key=lambda layout: layout.cost)


class _Split:
    """The search for the terms that count, with T₁ at a share of the loss that a jump must reach."""

    def __init__(self, parts: Parts, epsilon: float, width: float, share: float, attempt: int) -> None:
        self.parts, self.epsilon, self.width, self.share, self.attempt = parts, epsilon, width, share, attempt
        self.spread = float(parts.flat) + sum(n * step.body_variance() for step, n in parts.steps)
        means = (n * step.body_mean(epsilon) for step, n in parts.steps if _splits(step))
        self.reach = epsilon - 0.5 * float(parts.flat) - math.fsum(means)
        self.no_pilot = not any(isinstance(step, ShiftStep) for step, _ in parts.steps)  # their sums need no smoothing
        if not any(_splits(step) for step, _ in parts.steps):
            raise PrecisionError("no step is a sampled mean shift or a sketch")
        if not self.reach > 0.0:
            raise PrecisionError("the losses without jumps reach epsilon")

    def layout(self, guess: float) -> _Layout:
        """A layout for δ of about e^guess. In the first attempt the guess may be far off."""
        for _ in range(4):
            aim = guess - (0.5 if self.attempt else 4.0)
            layout, planners = self._terms(aim)
            if self.attempt or math.fabs(layout.log_delta - guess) < 8.0:
                break
            guess = max(layout.log_delta, self._alone())
        terms: list[_Term] = []
        for term, planner in zip(layout.terms, planners, strict=True):
            plan = planner.plan() if term.log_bound > self._small(aim) - math.log(len(planners) + 1.0) else None
            if plan is not None and plan.last > _MOST_NODES:
                raise PrecisionError(f"a sum over jumps needs {plan.last:.2g} nodes")
            terms.append(term._replace(plan=plan))
        return layout._replace(terms=terms)

    def _alone(self) -> float:
        """log δ roughly, if one jump does it all."""
        steps = self.parts.steps
        return max(math.log(n) + s.log_delta(self.reach) for s, n in steps if _splits(s))

    def _small(self, aim: float) -> float:
        return aim + math.log(self.width / 64.0)

    def _terms(self, aim: float) -> tuple[_Layout, list[Planner]]:
        """The terms that may count, not planned yet."""
        steps = self.parts.steps
        whole = sum(_splits(step) for step, _ in steps)
        need = math.log(16.0 * max(whole, 1) / self.width) - aim
        cuts = [
            _cut(step, self.reach, self.share, need + math.log(n), self.spread) if _splits(step) else None
            for step, n in steps
        ]
        windows = _windows(self.parts, cuts)
        limits = [0 if high is None else n for (_, high), (_, n) in zip(windows, steps, strict=True)]
        terms, planners, sizes = list[_Term](), list[Planner](), list[float]()
        for most in range(_MOST_JUMPS + 1):
            for jumps in _vectors(limits, most):
                log_count = math.fsum(_log_choose(n, k) for (_, n), k in zip(steps, jumps, strict=True))
                guess = Guess(log_delta=aim - log_count, attempt=self.attempt + self.no_pilot)
                planner = Planner(_part(self.parts, windows, jumps), self.epsilon, self.width / 8.0, guess)
                place, size = planner._saddle()
                bound = planner._exponent(place) + _log_kappa(place) + log_count
                terms.append(_Term(jumps, place, bound, None))
                planners.append(planner)
                sizes.append(min(size + log_count, bound))
                if len(terms) > _MOST_TERMS:
                    raise PrecisionError("too many jumps count")
            places = [t.place for t in terms if sum(t.jumps) == most]
            rest = _rest(self.parts, windows, most, places, self.epsilon)
            if rest[2] < self._small(aim):
                return _Layout(cuts, terms, most, rest[:2], float(np.logaddexp.reduce(sizes))), planners
        raise PrecisionError("too many jumps count")


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


def _splits(step: Step) -> TypeGuard[ShiftStep | CurvedStep]:
    """Whether a step has windows."""
    return isinstance(step, ShiftStep) or CurvedWindow.serves(step)


def _cut(step: ShiftStep | CurvedStep, reach: float, share: float, need: float, spread: float) -> _Cut:
    """T₁, T₂ and ω, such that losses above T₂ have a probability of about e^−need."""
    top, slope = step.tail(reach, need)
    start = share * reach if share * reach < 0.9 * top else top
    width = min(2.0 / slope, start / math.sqrt(2.0 * (need + 20.0)))
    far = spread + width**2
    beyond = slope * far + math.sqrt((slope * far) ** 2 + 60.0 * far)
    exact = reach + beyond < top + 2.0 * width
    beta = 1.0 + math.sqrt(slope**2 + 60.0 / far) if exact else 0.0
    return _Cut(start if start < top else -math.inf, min(top + 2.0 * width, reach + beyond), width, beta)


_Windows = list[tuple[Step, WindowStep | None]]


def _windows(parts: Parts, cuts: list[_Cut | None]) -> _Windows:
    """(body, jumps) of every step; no jumps where the step stays whole or is only cut above."""
    found: _Windows = []
    for (step, _), cut in zip(parts.steps, cuts, strict=True):
        if cut is None or not _splits(step):
            found.append((step, None))
        elif cut.low == -math.inf:
            found.append((_window(step, -math.inf, cut.high, cut.width), None))
        else:
            jumps = _window(step, cut.low, cut.high, cut.width)
            found.append((_window(step, -math.inf, cut.low, cut.width), jumps))
    return found


def _window(step: ShiftStep | CurvedStep, low: float, high: float, width: float) -> WindowStep:
    kind = CurvedWindow if isinstance(step, CurvedStep) else WindowStep
    return kind(step, low, high, width)  # type: ignore[arg-type]


def _part(parts: Parts, windows: _Windows, jumps: tuple[int, ...]) -> Parts:
    """The composition with so many jumps in each group."""
    steps: list[tuple[Step, int]] = []
    for (body, high), (_, n), k in zip(windows, parts.steps, jumps, strict=True):
        if n > k:
            steps.append((body, n - k))
        if high is not None and k:
            steps.append((high, k))
    return parts._replace(steps=steps)


def _vectors(limits: list[int], total: int) -> Iterator[tuple[int, ...]]:
    """All vectors of whole numbers up to the limits with this sum."""
    if not limits:
        if total == 0:
            yield ()
        return
    for first in range(min(limits[0], total), -1, -1):
        for others in _vectors(limits[1:], total - first):
            yield first, *others


def _log_kappa(b: float) -> float:
    return b * math.log(b) - (1.0 + b) * math.log1p(b)


def _rest(
    parts: Parts, windows: _Windows, most: int, places: list[float], epsilon: float
) -> tuple[float, float, float]:
    """(b, z, log of the bound) for the terms with more than `most` jumps."""
    best = (1.0, 1.0, math.inf)
    if sum(n for (_, high), (_, n) in zip(windows, parts.steps, strict=True) if high is not None) <= most:
        return 1.0, 1.0, -math.inf
    log_z = np.linspace(0.0, 400.0, 801)
    for place in places:
        for b in (place, 0.7 * place, 0.4 * place):
            alone = Planner(parts._replace(steps=[]), epsilon, 0.5, Guess())._exponent(b) + _log_kappa(b)
            total = alone - (most + 1.0) * log_z
            for (body, high), (_, n) in zip(windows, parts.steps, strict=True):
                value = body.log_moment(b)
                total = total + n * (value if high is None else np.logaddexp(value, high.log_moment(b) + log_z))
            at = int(np.argmin(total))
            if total[at] < best[2]:
                best = (b, math.exp(log_z[at]), float(total[at]))
    return best


# ---------------------------------------------------------------------- balls


def _evaluate(make: Callable[[], Parts], layout: _Layout, epsilon: float) -> Ball:
    lower, upper = arb(0), arb(0)
    spare = 72 + 2 * sum(n for _, n in make().steps).bit_length()
    for term in layout.terms:
        digits = _BOUND_DIGITS if term.plan is None else term.plan.digits
        with precision(round(spare + 1.5 * digits)):
            parts = make()
            part = _part(parts, _windows(parts, layout.cuts), term.jumps)
            count = arb(1)
            for (_, n), k in zip(parts.steps, term.jumps, strict=True):
                count *= arb(fmpz(math.comb(n, k)))
            if term.plan is None:
                upper += count * chernoff(part, epsilon, term.place)
            else:
                ball = count * PeriodSum(part, epsilon, term.plan).value()[0]
                lower, upper = lower + ball.lower().max(arb(0)), upper + ball.upper()
    with precision(192):
        parts = make()
        windows = _windows(parts, layout.cuts)
        least, greatest = _far(parts, windows, layout.cuts, epsilon)
        lower, upper = lower + least, upper + greatest
        b, z = layout.rest
        alone = chernoff(parts._replace(steps=[]), epsilon, b) / arb(z) ** (layout.most + 1)
        for (body, high), (_, n) in zip(windows, parts.steps, strict=True):
            moment = body.moment(b, _BOUND_DIGITS)
            if high is not None:
                moment += arb(z) * high.moment(b, _BOUND_DIGITS)
            alone *= moment**n
        more = sum(n for (_, high), (_, n) in zip(windows, parts.steps, strict=True) if high is not None)
        if more > layout.most:
            upper += alone
        return lower.lower().union(upper.upper())


def _far(parts: Parts, windows: _Windows, cuts: list[_Cut | None], epsilon: float) -> tuple[Ball, Ball]:
    """Bounds of R: exact where T₂ lies above ε, and a probability for the groups where losses above T₂ are too rare."""
    with_record, without, rare = arb(0), arb(0), arb(0)  # logarithms of probabilities of no label F
    correction = arb(0)
    for (body, high), (_, n), cut in zip(windows, parts.steps, cuts, strict=True):
        top = body if high is None else high
        if cut is None or not isinstance(top, WindowStep):
            continue
        there, here = top.above()
        if cut.beta > 1.0:
            with_record, without = with_record + n * (-there).log1p(), without + n * (-here).log1p()
            correction += _correction(parts, top, n, cut.beta, epsilon)
        else:
            rare += n * (-there).log1p()
    chance = (-with_record.expm1()).nonnegative_part()
    difference = chance + arb(epsilon).exp() * without.expm1()
    upper = (difference + correction).upper()
    upper = upper.min(chance.upper()) if upper.is_finite() else chance.upper()
    return difference.lower().max(arb(0)), upper + (-rare.expm1()).upper().max(arb(0))


def _correction(parts: Parts, window: WindowStep, n: int, beta: float, epsilon: float) -> Ball:
    """E[(e^{ε−S} − 1)₊; some of n steps has a loss above the window] at most."""
    b = arb(beta)
    if not all(1 + b * t > 0 for t, _, _ in parts.curved):
        return arb.pos_inf()
    total = b * epsilon + _kappa_low(b) + PeriodSum.closed(parts, -b, b * (b - 1))
    one = arb(1)
    for step, count in parts.steps:
        moment = _moment_low(step, beta).upper()
        total += count * moment.log()
        if getattr(step, "rate", None) is window.rate:
            one = moment
    return n * window.low_above(beta) / one * total.exp()


def _kappa_low(beta: Ball) -> Ball:
    """log of the largest (e^z − 1) e^{−βz}, β > 1."""
    return (beta - 1) * (beta - 1).log() - beta * beta.log()


def _moment_low(step: Step, beta: float) -> Ball:
    """E_P e^{−βℓ} of a whole step."""
    if isinstance(step, ShiftStep):
        return ShiftStep(step.rate, step.shift, remove=False).moment(beta - 1.0, _BOUND_DIGITS)
    return step.moment(-beta, _BOUND_DIGITS)
