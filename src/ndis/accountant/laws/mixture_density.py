"""This module returns the density of the loss of a mixture of Gaussians on a line, which rises with the output x."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from ndis._balls import Ball
from ndis._search import quiet
from ndis._validate import Floats
from ndis.accountant.laws import LEAST_V, LossDensity, log_expm1

_UNIT = 2.0**-53
_ROOT = math.sqrt(2.0 * math.pi)
_MOST_MOVES = 40  # steps of Newton's method


def one_sided(x: Floats, weights: Floats, shifts: Floats, end: Ball, *, add: bool) -> LossDensity:
    """Return the density of log Σ wᵢ e^{mᵢx − mᵢ²/2} above its end, the log of the weight g whose shift is 0.

    e^V − 1 is the sum of the other terms over g. Some places x tell how far the density goes.
    """
    moves = shifts > 0.0
    still, m = float(weights[~moves].sum()), shifts[moves, None]
    logs, scale = np.log(weights[moves, None] / still) - 0.5 * m * m, float(weights[moves].sum()) / still

    @quiet
    def log_f(lams: Floats) -> tuple[Floats, Floats]:
        """Return the log density of λ and its error; Newton's method finds x for the loss."""
        v = scale * np.exp(lams)
        u = log_expm1(v)
        x = ((u - logs) / m).min(axis=0)  # right of the place: a sum of exponentials is above each of them
        for _ in range(_MOST_MOVES):
            terms = logs + m * x
            value = np.logaddexp.reduce(terms)
            slope = (m * np.exp(terms - value)).sum(axis=0)
            x = x - (value - u) / slope  # Newton's method never passes the place, for the function is convex
            size = 1.0 + np.abs(u) + np.abs(logs).max() + np.abs(m * x).max(axis=0)
            settled = np.abs(value - u) <= 8.0 * _UNIT * size
            if settled.all():
                break
        value = -0.5 * x * x + np.log(v) + v - u - np.log(_ROOT * slope) + (0.0 if add else v + math.log(still))
        return value, np.where(settled, 4.0 * _UNIT * (1.0 + x * x), math.inf)

    log_v = np.logaddexp.reduce(logs + m * x)
    return LossDensity(end, scale, np.log(np.logaddexp(0.0, log_v[log_v > LEAST_V])) - math.log(scale), log_f)


def two_sided(x: Floats, at: Callable[[Floats], Any], *, signed: bool) -> LossDensity:
    """Return the density of a loss without an end, counted from its value at the first of some places, or from 0.

    `at` gives the loss, its slope, and the log of the density of x over the standard normal one.
    """
    losses = at(x)[0]
    low = 0.0 if signed else float(losses[0])
    scale = float(at(np.array([float(signed)]))[0][0]) - low

    @quiet
    def log_f(lams: Floats) -> tuple[Floats, Floats]:
        """Return the log density of λ and its error, at the x with this loss."""
        loss = low + scale * np.exp(lams)
        place = np.interp(loss, losses, x)
        for _ in range(_MOST_MOVES):
            y, slope, weight = at(place)
            move = (y - loss) / slope
            place = place - move
        value = weight - 0.5 * place * place + np.log(scale / (_ROOT * slope)) + lams
        rounding = _UNIT * (scale + np.abs(loss)) / slope
        error = 4.0 * _UNIT * (1.0 + place * place) + (1.0 + np.abs(place)) * (4.0 * rounding + np.abs(move))
        return value, np.where(error < 1.0, error, math.inf)  # NaN too is no error

    return LossDensity(arb(low), scale, np.log((losses[1:] - low) / scale), log_f, -math.inf if signed else math.nan)
