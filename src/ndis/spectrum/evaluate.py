"""δ(ε), its complement and its inverses for one pair: the contour in float64, each answer chosen where it has its
digits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndis._validate import Floats
from ndis.errors import PrecisionError
from ndis.loss import LogMoment
from ndis.spectrum.contour import CDF, COMPLEMENT, DELTA, PDF, SF, _derivatives, evaluate_form, exponent

if TYPE_CHECKING:
    from ndis.pair import GaussianPair

__all__ = ["Spectrum", "excess_over", "log_tail", "quantile", "smallest_epsilon", "spectrum", "type_two_error"]

_LOG_HALF = math.log(0.5)
NEAR_ONE = math.log(0.9)  # above this 1 − δ is integrated on its own; below, 1 − δ has lost less than a digit


def contour_tail(form: LogMoment, x: Floats, kind: int) -> tuple[Floats, Floats, Floats]:
    """log |I|, −d log|I|/dx and relative error of one contour integral at the points x, the linear term taken as exact;
    refuses rather than return a doubtful number."""
    value, slope, error = evaluate_form(form, x, kind)
    bad = ~np.isfinite(value)
    if bad.any():
        i = int(np.argmax(bad))
        raise PrecisionError(
            f"the contour integral at {float(x[i])!r} did not reach the accuracy asked for; "
            f"relative change at the last refinement: {error[i]:.3g}",
            reached=float(error[i]),
        )
    return value, slope, error


def log_tail(form: LogMoment, x: Floats, kind: int) -> tuple[Floats, Floats, Floats]:
    """`contour_tail` with the rounding of the linear term, mean − x or edge − x, in its error."""
    value, slope, error = contour_tail(form, x, kind)
    gap, near = form.linear(x)
    rounded = np.where(near, np.abs(gap), math.fabs(form.mean) + np.abs(x))
    return value, slope, error + 2.0**-52 * np.abs(slope) * rounded


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


def spectrum(pair: GaussianPair, epsilon: Floats) -> Spectrum:
    """δ(ε) at many ε, the smaller of δ and 1 − δ by its own integral."""
    n = epsilon.size
    out = Spectrum(np.zeros(n), np.full(n, -np.inf), np.zeros(n), np.zeros(n))
    if pair.mutually_singular:
        return out
    form = pair.form
    known = np.zeros(n, dtype=np.bool_)
    if form.constant or form.side:
        # where the loss is certain to lie on one side of ε, δ = 0 or δ = 1 − e^ε exactly
        gap = -epsilon if form.constant else form.gap(epsilon)[0]
        none, all_of_it = (gap <= 0) & (form.side <= 0), (gap >= 0) & (form.side >= 0) & (epsilon < 0)
        out.log_delta[none], out.log_complement[none] = -np.inf, 0.0
        out.log_delta[all_of_it], out.log_complement[all_of_it] = (
            log_one_minus_exp(epsilon[all_of_it]),
            epsilon[all_of_it],
        )
        out.derivative[all_of_it] = 1.0
        known = none | all_of_it
    todo = np.flatnonzero(~known)
    if todo.size:
        value, mean_s, error = log_tail(form, epsilon[todo], DELTA)
        near_one = value > NEAR_ONE
        small, large = todo[~near_one], todo[near_one]
        out.log_delta[todo], out.derivative[todo], out.error[todo] = value, -mean_s, error
        out.log_complement[small] = log_one_minus_exp(out.log_delta[small])
        if large.size:
            value, mean_s, error = log_tail(form, epsilon[large], COMPLEMENT)
            out.log_complement[large], out.derivative[large], out.error[large] = value, -mean_s, error
            out.log_delta[large] = log_one_minus_exp(value)
    return out


def excess_over(pair: GaussianPair, epsilon: float, target: float) -> tuple[float, float, float]:
    """(h, margin, slope): h = log δ(ε) − log target, or the same of 1 − δ where that has the digits; h + margin ≤ 0 is
    safely at or below
    the target. The margin holds the error estimate, doubled, and the rounding of the result; slope = −dh/dε."""
    at = spectrum(pair, np.array([epsilon]))
    log_delta, log_rest, derivative, error = (float(a[0]) for a in at)
    if log_delta == -math.inf:
        return -math.inf, 0.0, 0.0
    if log_delta <= NEAR_ONE:
        h, size, slope = log_delta - math.log(target), log_delta, -derivative
    else:  # δ ≤ target ⇔ log(1 − δ) ≥ log(1 − target)
        h, size, slope = math.log1p(-target) - log_rest, log_rest, derivative
    return h, 2.0 * error + 2.0**-50 * (1.0 + math.fabs(size) + math.fabs(h - size)), slope


def smallest_epsilon(pair: GaussianPair, target: float) -> float:
    """Smallest ε ≥ 0 with δ(ε) ≤ target: safeguarded Newton in log δ; the end returned was checked, error included."""
    if pair.mutually_singular:
        return math.inf
    low, high = 0.0, pair.loss_supremum()
    h, margin, slope = excess_over(pair, 0.0, target)
    if h + margin <= 0.0 or high == 0.0:
        return 0.0
    e = 0.0
    for _ in range(300):
        # aim a margin inside the safe side; fall back on the bracket where Newton leaves it
        move = e + (h + 2.0 * margin) / slope if slope > 0.0 else math.nan
        if not low < move < high:
            move = 0.5 * (low + high) if math.isfinite(high) else max(2.0 * low, 1.0)
        if not low < move < high:
            return high
        e = move
        h, margin, slope = excess_over(pair, e, target)
        if h + margin <= 0.0:
            high = e
            if h + 4.0 * margin >= 0.0:
                return high
        else:
            low = e
        if math.isfinite(high) and high - low <= 2.0**-50 * high:
            return high
    raise PrecisionError(
        f"epsilon at delta = {target!r} did not settle; it lies between {low!r} and {high!r}",
        reached=(high - low) / high,
    )


def _variance(form: LogMoment) -> float:
    return float(np.sum(0.5 * form.nu * form.t**2 + form.q))


def _chernoff_point(form: LogMoment, goal: float, *, upper: bool, about_edge: bool) -> float:
    """Where Chernoff's bound on the tail is about e^goal: K′(s), less edge or mean, with s K′(s) − K(s) = −goal.

    It lies beyond the quantile and near it: Newton's method in the logarithm of the tail, started there, meets no
    cliff.
    """
    groups = (form.t, form.ratio, form.nu, form.q, about_edge)
    sign, end = (1.0, form.domain[1]) if upper else (-1.0, -form.domain[0])
    s = math.sqrt(-2.0 * goal / _variance(form))
    r, low, high = s if math.isinf(end) else s / end, 0.0, math.inf  # s = r, or end·r/(1+r)
    for _ in range(200):
        s = sign * (r if math.isinf(end) else end * (r / (1.0 + r)))
        place = float(_derivatives(s, 0.0, *groups, PDF)[0])
        excess = s * place - exponent(complex(s), 0.0, *groups).real + goal
        if math.fabs(excess) <= 0.1 - 0.02 * goal:
            break
        low, high = (low, r) if excess > 0.0 else (r, high)
        r = 8.0 * r if math.isinf(high) else 0.125 * r if low == 0.0 else math.sqrt(low) * math.sqrt(high)
    return place


def quantile(form: LogMoment, probability: float, *, upper: bool = False) -> float:
    """x with CDF(x) = probability, or SF(x) if `upper`: safeguarded Newton in the logarithm of the smaller tail.

    A variable bounded on one side is solved for in the logarithm of its distance from that end, unless that is far off.
    """
    small = probability <= 0.5
    goal = math.log(probability) if small else math.log1p(-probability)
    kind = SF if upper == small else CDF
    bounded = form.side != 0 and math.fabs(form.mean - form.edge[0]) <= 1024.0 * math.sqrt(_variance(form))
    origin, side = (form.edge[0], form.side) if bounded else (0.0, 1)  # x = origin + side·y
    low, high = 0.0 if bounded else -math.inf, math.inf
    rising = (kind == CDF) == (side > 0)
    y = side * _chernoff_point(form, goal, upper=kind == SF, about_edge=bounded) + (0.0 if bounded else form.mean)
    reach = math.sqrt(_variance(form))
    for _ in range(200):
        x = origin + side * y
        value, slope, error = (float(a[0]) for a in contour_tail(form, np.array([x]), kind))
        h = value - goal if rising else goal - value  # increasing in y
        if math.fabs(h) <= error + 2.0**-51 * (1.0 + math.fabs(goal)):
            return x
        low, high = (low, y) if h > 0 else (y, high)
        step = -h / math.fabs(slope)
        move = y * math.exp(min(max(step / y, -20.0), 3.0)) if bounded else y + step
        if not low < move < high:
            if math.isinf(high - low):
                reach *= 2.0
                move = y + math.copysign(reach, step)
            elif bounded and low > 0.0:
                move = math.sqrt(low) * math.sqrt(high)
            else:
                move = 0.5 * (low + high)
        if not low < move < high:
            return x
        y = move
    raise PrecisionError(f"the quantile at {probability!r} did not settle", reached=math.fabs(h))


def type_two_error(pair: GaussianPair, alpha: float) -> float:
    """Q[L ≥ ℓ] for the threshold ℓ with P[L < ℓ] = alpha, L = log dP/dQ; by Neyman–Pearson no test does better."""
    if pair.mutually_singular:
        return 0.0
    form, other = pair.form, pair.reversed().form
    if form.constant:
        return 1.0 - alpha
    threshold = quantile(form, alpha)
    value, _, _ = log_tail(other, np.array([-threshold]), CDF)
    return math.exp(float(value[0]))
