"""δ(ε), its complement and its inverses for one pair: the contour in float64, each answer chosen where it has its digits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ndis._validate import Floats
from ndis.errors import PrecisionError
from ndis.loss import LogMoment
from ndis.spectrum.contour import CDF, COMPLEMENT, DELTA, SF, evaluate_form

if TYPE_CHECKING:
    from ndis.pair import GaussianPair

__all__ = ["log_delta_complement", "log_tail", "smallest_epsilon", "type_two_error"]

_LOG_HALF = math.log(0.5)


def log_tail(form: LogMoment, x: Floats, kind: int) -> tuple[Floats, Floats, Floats]:
    """log |I|, −d log|I|/dx and relative error of one contour integral at the points x; refuses rather than return a doubtful number."""
    value, slope, error = evaluate_form(form, x, kind)
    bad = ~np.isfinite(value)
    if bad.any():
        i = int(np.argmax(bad))
        raise PrecisionError(
            f"the contour integral at {x[i]!r} did not reach the accuracy asked for; relative change at the last refinement: {error[i]:.3g}",
            reached=float(error[i]),
        )
    return value, slope, error


def log_one_minus_exp(a: Floats) -> Floats:
    """log(1 − e^a) for a ≤ 0."""
    with np.errstate(divide="ignore"):
        return np.where(a > _LOG_HALF, np.log(-np.expm1(a)), np.log1p(-np.exp(a)))


def log_delta_complement(pair: GaussianPair, epsilon: Floats) -> tuple[Floats, Floats, Floats]:
    """log δ(ε), log(1 − δ(ε)) and the estimated error of the smaller of the two as a relative one."""
    log_delta, log_rest, error = np.zeros(epsilon.size), np.full(epsilon.size, -np.inf), np.zeros(epsilon.size)
    if pair.mutually_singular:
        return log_delta, log_rest, error
    form = pair.form
    known = np.zeros(epsilon.size, dtype=np.bool_)
    if form.constant or form.side:
        # where the loss is certain to lie on one side of ε, δ = 0 or δ = 1 − e^ε exactly
        lin, _ = form.linear(epsilon)
        high, low = (0.0, 0.0) if form.constant else form.edge
        gap = (high - epsilon) + low
        none, all_of_it = (gap <= 0) & (form.side <= 0), (gap >= 0) & (form.side >= 0) & (epsilon < 0)
        log_delta[none], log_rest[none] = -np.inf, 0.0
        log_delta[all_of_it], log_rest[all_of_it] = log_one_minus_exp(epsilon[all_of_it]), epsilon[all_of_it]
        known = none | all_of_it
    todo = np.flatnonzero(~known)
    if todo.size:
        log_delta[todo], _, error[todo] = log_tail(form, epsilon[todo], DELTA)
        near_one = log_delta[todo] > _LOG_HALF
        small, large = todo[~near_one], todo[near_one]
        log_rest[small] = log_one_minus_exp(log_delta[small])
        if large.size:
            log_rest[large], _, error[large] = log_tail(form, epsilon[large], COMPLEMENT)
            log_delta[large] = log_one_minus_exp(log_rest[large])
    return log_delta, log_rest, error


def _margin(log_value: float, error: float) -> float:
    """How far the true logarithm may lie from the computed one: the error estimate, doubled, and the rounding of the result."""
    return 2.0 * error + 2.0**-50 * (1.0 + math.fabs(log_value))


def excess_over(pair: GaussianPair, epsilon: float, target: float) -> tuple[float, float]:
    """(h, margin): h compares δ(ε) with the target in the logarithm that has its digits; h + margin ≤ 0 means safely at or below."""
    log_delta, log_rest, error = (float(a[0]) for a in log_delta_complement(pair, np.array([epsilon])))
    if target <= 0.5:
        return log_delta - math.log(target), _margin(log_delta, error) if log_delta > -math.inf else 0.0
    return math.log1p(-target) - log_rest, _margin(log_rest, error)


def smallest_epsilon(pair: GaussianPair, target: float) -> float:
    """Smallest ε ≥ 0 with δ(ε) ≤ target: bisection and secant in log δ, ending on a point that was checked with its error."""
    if pair.mutually_singular:
        return math.inf

    def over(e: float) -> float:
        h, margin = excess_over(pair, e, target)
        return h + margin

    low, h_low = 0.0, over(0.0)
    if h_low <= 0.0:
        return 0.0
    high = min(pair.loss_supremum(), max(1.0, 2.0 * pair.form.mean))
    while (h_high := over(high)) > 0.0:
        low, h_low, high = high, h_high, min(2.0 * high, pair.loss_supremum())
    previous = math.inf
    while True:
        width = high - low
        middle = low + 0.5 * width
        if h_high > -math.inf and width <= 0.5 * previous:  # secant while the bracket halves, aimed a little to the safe side
            secant = low + width * (h_low / (h_low - h_high))
            middle = min(max(secant + 2.0**-51 * high, low + 1e-3 * width), high - 1e-3 * width)
        previous = width
        if not low < middle < high or width <= 2.0**-48 * high:
            return high
        h = over(middle)
        if h > 0.0:
            low, h_low = middle, h
        else:
            high, h_high = middle, h


def quantile(form: LogMoment, probability: float) -> float:
    """x with CDF(x) = probability, by safeguarded Newton in the logarithm of the smaller tail."""
    kind, goal = (CDF, math.log(probability)) if probability <= 0.5 else (SF, math.log1p(-probability))
    spread = math.sqrt(float(np.sum(0.5 * form.nu * form.t**2 + form.q)))
    low = form.edge[0] if form.side == 1 else -math.inf
    high = form.edge[0] if form.side == -1 else math.inf
    sign = 1.0 if kind == CDF else -1.0
    x, step = form.mean, spread
    if not low < x < high:
        x = 0.5 * (low + high)
    for _ in range(400):
        value, slope, _ = (float(a[0]) for a in log_tail(form, np.array([x]), kind))
        h = sign * (value - goal)  # increasing in x
        if h > 0:
            high = x
        else:
            low = x
        if math.fabs(h) <= 2.0**-50 * (1.0 + math.fabs(goal)):
            return x
        move = x - h / math.fabs(slope)
        if not low < move < high:
            if math.isinf(low) or math.isinf(high):
                step *= 2.0
                move = x - math.copysign(step, h)
            else:
                move = 0.5 * (low + high)
        if move == x or not low <= move <= high:
            return x
        x = move
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
