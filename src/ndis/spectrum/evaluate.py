"""Evaluate δ(ε), its complement and its inverses for one pair, in float64.

Each answer comes from the integral that has its digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndis._search import newton_epsilon, refuse
from ndis._validate import Floats
from ndis.errors import PrecisionError
from ndis.spectrum.certified import certify_log
from ndis.spectrum.closed_forms import mean_shift_tail
from ndis.spectrum.contour import CDF, COMPLEMENT, DELTA, PDF, SF, derivatives, evaluate, exponent
from ndis.spectrum.invariants import Invariants
from ndis.spectrum.loss import LogMoment

_LOG_HALF = math.log(0.5)
_TOLERANCE = 1e-11  # relative to 1 + |log I|; no number with a larger error is returned
NEAR_ONE = math.log(0.9)  # above this, 1 − δ has its own integral; below, 1 − δ has lost less than a digit


def evaluate_form(
    form: LogMoment, x: Floats, kind: int, linear: tuple[Floats, NDArray[np.bool_]] | None = None
) -> tuple[Floats, Floats, Floats]:
    """`evaluate` of one variable at many points x; `linear` is `form.linear(x)` if the caller knows it already."""
    lin, edge = form.linear(x) if linear is None else linear
    first, last = np.zeros(x.size, dtype=np.int64), np.full(x.size, form.t.size, dtype=np.int64)
    return evaluate(lin, first, last, form.groups, edge, kind)


def _with_rounding(form: LogMoment, x: Floats, kind: int) -> tuple[Floats, Floats, Floats]:
    """`evaluate_form` with the rounding of the linear term, mean − x or edge − x, in its error."""
    lin, near = form.linear(x)
    if form.distance and kind <= COMPLEMENT:
        value, slope, error = mean_shift_tail(x, form.distance, complement=kind == COMPLEMENT)
    else:
        value, slope, error = evaluate_form(form, x, kind, (lin, near))
    rounded = math.fabs(form.mean) + np.abs(x)
    if form.side:
        rounded = np.where(near, np.abs(lin), rounded)
    with np.errstate(over="ignore"):  # the error is infinite then, and is refused
        return value, slope, error + 2.0**-52 * np.abs(slope) * rounded


def lost(value: Floats, error: Floats) -> NDArray[np.bool_]:
    """The entries that did not reach the promised accuracy, or have no value."""
    return ~(error <= _TOLERANCE * (1.0 + np.abs(value)))


def log_one_minus_exp(a: Floats) -> Floats:
    """log(1 − e^a) for a ≤ 0."""
    with np.errstate(divide="ignore"):
        return np.where(a > _LOG_HALF, np.log(-np.expm1(a)), np.log1p(-np.exp(a)))


class Spectrum(NamedTuple):
    """log δ and log(1 − δ) at some ε, the derivative in ε of the smaller of the two, and its estimated error."""

    log_delta: Floats
    log_complement: Floats
    derivative: Floats
    error: Floats


def spectrum(pair: Invariants, epsilon: Floats, *, complement: bool = True) -> Spectrum:
    """Return δ(ε) at many ε. The smaller of δ and 1 − δ has its own integral. `complement` asks for 1 − δ too."""
    n = epsilon.size
    out = Spectrum(np.zeros(n), np.full(n, -np.inf), np.zeros(n), np.zeros(n))
    if pair.mutually_singular:
        return out
    form = pair.form
    known = np.zeros(n, dtype=np.bool_)
    if form.constant or form.side:
        # if the loss is certain to lie on one side of ε, then δ = 0 or δ = 1 − e^ε exactly
        gap = -epsilon if form.constant else form.gap(epsilon)[0]
        doubt = 0.0 if form.constant else form.edge_error * (math.fabs(form.edge[0]) + np.abs(epsilon))
        none, all_of_it = (gap <= -doubt) & (form.side <= 0), (gap >= doubt) & (form.side >= 0) & (epsilon < 0)
        out.log_delta[none], out.log_complement[none] = -np.inf, 0.0
        out.log_complement[all_of_it] = epsilon[all_of_it]
        out.log_delta[all_of_it] = log_one_minus_exp(epsilon[all_of_it])
        out.derivative[all_of_it] = 1.0
        known = none | all_of_it
    todo = np.flatnonzero(~known)
    if todo.size:
        value, mean_s, error = _with_rounding(form, epsilon[todo], DELTA)
        for i in np.flatnonzero(lost(value, error)):
            value[i], error[i] = _certified(pair, float(epsilon[todo[i]]), value[i], error[i])
        out.log_delta[todo], out.derivative[todo], out.error[todo] = value, -mean_s, error
        if complement:
            out.log_complement[todo] = log_one_minus_exp(np.minimum(value, 0.0))
        large = todo[value > NEAR_ONE]
        if large.size:
            value, mean_s, error = _with_rounding(form, epsilon[large], COMPLEMENT)
            refuse(lost(value, error), epsilon[large], error)
            out.log_complement[large], out.derivative[large], out.error[large] = value, -mean_s, error
            out.log_delta[large] = log_one_minus_exp(value)
    return out


def log_delta_at(pair: Invariants, epsilon: float) -> float:
    """Return log δ(ε) at one ε."""
    return float(spectrum(pair, np.array([epsilon]), complement=False).log_delta[0])


def _certified(pair: Invariants, epsilon: float, value: float, error: float) -> tuple[float, float]:
    """log δ(ε) and its error from a certificate, for points at which the contour in floats has lost digits."""
    if not pair.origins:
        refuse(np.ones(1, dtype=np.bool_), np.array([epsilon]), np.array([error]))
    box = certify_log(pair, epsilon, relative_width=_TOLERANCE / 100)
    return 0.5 * (box.lower + box.upper), box.width + 2.0**-52 * math.fabs(box.lower)


def excess_over(pair: Invariants, epsilon: float, target: float) -> tuple[float, float, float]:
    """Return (h, margin, slope): h = log δ(ε) − log target, or the same of 1 − δ if that has the digits.

    If h + margin ≤ 0, then δ is safely at or below the target. The margin is twice the error estimate, plus the
    rounding of the result and of whitening. slope = −dh/dε.
    """
    log_delta, log_rest, derivative, error = (float(a[0]) for a in spectrum(pair, np.array([epsilon])))
    if log_delta == -math.inf:
        return -math.inf, 0.0, 0.0
    if log_delta <= NEAR_ONE:
        h, size, slope = log_delta - math.log(target), log_delta, -derivative
    else:  # δ ≤ target ⇔ log(1 − δ) ≥ log(1 − target)
        h, size, slope = math.log1p(-target) - log_rest, log_rest, derivative
    margin = 2.0 * error + 2.0**-50 * (1.0 + math.fabs(size) + math.fabs(h - size))
    if pair.uncertainty > 0.0:  # whitening in floats moves the loss by about this much of its own size
        margin += pair.uncertainty * (math.fabs(derivative) * (pair.form.mean + math.fabs(epsilon)) + math.fabs(size))
    return h, margin, slope


def smallest_epsilon(pair: Invariants, target: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ target. The result was checked, with its error."""
    if pair.mutually_singular or pair.form.constant:
        return math.inf if pair.mutually_singular else 0.0
    end = pair.loss_supremum()
    if math.isfinite(end) and not sum(excess_over(pair, end, target)[:2]) <= 0.0:
        raise PrecisionError(f"the loss was found to end at {end!r}, but delta is above {target!r} there")
    # δ(ε) ≤ P[L > ε], so Chernoff's point lies beyond the answer and near it. Past it there may be a cliff.
    beyond = pair.form.mean + _chernoff_point(pair.form, math.log(target), upper=True, about_edge=False)
    return newton_epsilon(lambda e: excess_over(pair, e, target), 0.0, end, beyond=beyond)


def _chernoff_point(form: LogMoment, goal: float, *, upper: bool, about_edge: bool) -> float:
    """The point at which Chernoff's bound on the tail is about e^goal: K′(s) − edge or mean, s K′(s) − K(s) = −goal.

    It lies beyond the quantile and near it. Newton's method in the logarithm of the tail meets no cliff from there.
    """
    if form.distance:  # a closed form needs no compiler
        return math.sqrt(-2.0 * goal) * (form.distance if upper else -form.distance)
    groups = (form.t, form.ratio, form.nu, form.q, about_edge)
    sign, end = (1.0, form.domain[1]) if upper else (-1.0, -form.domain[0])
    s = math.sqrt(-2.0 * goal) / form.spread
    r, low, high = s if math.isinf(end) else s / end, 0.0, math.inf  # s = r, or end·r/(1+r)
    for _ in range(200):
        s = sign * (r if math.isinf(end) else end * (r / (1.0 + r)))
        place = float(derivatives(s, 0.0, *groups, PDF)[0])
        excess = s * place - exponent(complex(s), 0.0, *groups).real + goal
        if math.fabs(excess) <= 0.1 - 0.02 * goal:
            break
        low, high = (low, r) if excess > 0.0 else (r, high)
        r = 8.0 * r if math.isinf(high) else 0.125 * r if low == 0.0 else math.sqrt(low) * math.sqrt(high)
    return place


def _tail_at(form: LogMoment, x: float, gap: float | None, kind: int) -> tuple[float, float, float]:
    """Return log |I|, −d log|I|/dx and the relative error of I at x; a value that is no number is refused.

    The linear term counts as exact. Near the end of the support it uses gap = edge − x, which has digits that x lost.
    """
    about = None if gap is None else (np.array([gap]), np.ones(1, dtype=np.bool_))
    if gap is not None and not math.fabs(gap) <= 0.25 * math.fabs(form.mean - x):
        about = None
    value, slope, error = evaluate_form(form, np.array([x]), kind, about)
    refuse(~np.isfinite(value), np.array([x]), error)
    return float(value[0]), float(slope[0]), float(error[0])


def quantile(form: LogMoment, probability: float, *, upper: bool) -> tuple[float, float | None]:
    """x with CDF(x) = probability, or SF(x) if `upper`, and edge − x if it was solved for from the end of the support.

    It takes safeguarded Newton steps in the logarithm of the smaller tail. For a variable bounded on one side the
    unknown is the logarithm of the distance from that end, unless the end is far off.
    """
    small = probability <= 0.5
    goal = math.log(probability) if small else math.log1p(-probability)
    kind = SF if upper == small else CDF
    bounded = form.from_end
    origin, side = (form.edge[0], form.side) if bounded else (0.0, 1)  # x = origin + side·y
    low, high = 0.0 if bounded else -math.inf, math.inf
    rising = (kind == CDF) == (side > 0)
    y = side * _chernoff_point(form, goal, upper=kind == SF, about_edge=bounded) + (0.0 if bounded else form.mean)
    for _ in range(200):
        x = origin + side * y
        value, slope, error = _tail_at(form, x, -side * y if bounded else None, kind)
        h = value - goal if rising else goal - value  # increasing in y
        if math.fabs(h) <= error + 2.0**-51 * (1.0 + math.fabs(goal)):
            return x, (-side * y if bounded else None)
        low, high = (low, y) if h > 0 else (y, high)
        step = -h / math.fabs(slope)
        move = y * math.exp(min(max(step / y, -20.0), 3.0)) if bounded else y + step
        if not low < move < high and math.isfinite(high - low):
            move = math.sqrt(low) * math.sqrt(high) if bounded and low > 0.0 else 0.5 * (low + high)
            if not low < move < high:
                return x, (-side * y if bounded else None)
        y = move
    raise PrecisionError(f"the quantile at {probability!r} did not settle", reached=math.fabs(h))


def type_two_error(pair: Invariants, alpha: float) -> float:
    """Q[L ≥ ℓ] for the threshold ℓ with P[L < ℓ] = alpha, L = log dP/dQ; by Neyman–Pearson no test does better."""
    if pair.mutually_singular:
        return 0.0
    form, other = pair.form, pair.reversed().form
    if form.constant:
        return 1.0 - alpha
    threshold, gap = quantile(form, alpha, upper=False)
    # under Q the loss −L has the same end as L, and the distance to that end has more digits than the threshold
    value, _, _ = _tail_at(other, -threshold, None if gap is None else -gap, CDF)
    return math.exp(value)
