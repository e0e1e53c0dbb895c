"""One or two steps have δ(ε) in closed form, or as δ₂(ε) = E_P δ₁(ε − L), which has positive terms only.

For one step (see `ndis.accountant.one_release`) δ₁(ε) = a δ₀(ε'), e^ε' − 1 = (e^ε − 1)/a, with a = q in the remove
order and a = q − (1−q)(e^ε − 1) in the add order. δ₀ is the profile of the unsampled pair: a closed form for a mean
shift, and the contour integral of `ndis.spectrum` for any other pair. Gauss–Legendre panels cover the outer step, over
x = log w. The density of x is normal for a mean shift, and the contour integral of its kind for any other pair. It
may have a pole or an edge where the square form of x vanishes, and δ₁ is not smooth at the ends of its loss. The widths
of the panels halve towards each of these places. Halving the panels gives the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ndis._search import log_mixture
from ndis._validate import Floats, Order
from ndis.accountant.laws import Law
from ndis.accountant.laws.mixture import Mixture
from ndis.accountant.laws.plain import Plain, log_ratio_density, rough_edge
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.spectrum.closed_forms import mean_shift_tail
from ndis.spectrum.contour import DELTA
from ndis.spectrum.evaluate import evaluate_form, log_one_minus_exp
from ndis.spectrum.loss import LogMoment

_UNIT = 2.0**-53
_RULE = np.polynomial.legendre.leggauss(20)
_OCTAVES = 2.0 ** np.arange(-48.0, 13.0)
_SMOOTH = 40  # octaves that are left out if nothing has an edge
_NEAREST = 2.0 ** np.arange(-110.0, -48.0)
_BODY = np.arange(-12.0, 12.5, 1.0)
_DEAD = -60.0  # log of a panel that does not count, compared with the sum
_LEAST = -740.0  # log of a density that does not count
_MAX_SPLITS = 14


def few_steps(parts: Sequence[tuple[Law, int]], order: Order) -> Callable[[float], tuple[float, float]] | None:
    """Return the function that gives log δ(ε) of one or two steps and its error; None if there is none."""
    laws = [law for law, n in parts for _ in range(n)]
    if len(laws) == 1:
        return laws[0].log_delta
    steps = [step for law in laws if (step := PairStep.of(law, order))]
    return partial(two_pairs, steps[0], steps[1], add=order == "add") if len(steps) == 2 else None


class PairStep:
    """Describe one step of any pair: `form` belongs to the loss with the record, `reverse` to that without it."""

    def __init__(self, rate: float, form: LogMoment, reverse: LogMoment) -> None:
        self.rate, self.form, self.reverse = rate, form, reverse
        self.edge = rough_edge(form)
        self.smooth = bool((form.t == 0.0).any())  # a mean shift leaves no edge and no pole

    @classmethod
    def of(cls, law: Law, order: Order) -> PairStep | None:
        """Return the step of a law; None for a law that is no pair, or a mixture of the other order."""
        if isinstance(law, Plain | SampledPair):
            forms = law.pair.form, law.pair.reversed().form
            rate = law.rate if isinstance(law, SampledPair) else 1.0
            return cls(rate, *(forms if order == "remove" else forms[::-1]))
        if type(law) is Mixture:
            weights, shifts, _, others = law.sides if order == "remove" else law.sides.swapped()
            if shifts.size == 2 and shifts[0] == 0.0 and not others.any():
                return cls.shift(float(weights[1]), float(shifts[1]))
        return None

    @classmethod
    def shift(cls, rate: float, distance: float) -> PairStep:
        """Return the step of a mean shift."""
        one, square = np.ones(1), distance**2
        form = LogMoment(0.5 * square, 0.0 * one, one, 0.0 * one, square * one)
        return cls(rate, form, form)

    def log_delta(self, e: Floats, *, add: bool) -> tuple[Floats, Floats]:
        """Return log δ₁(ε) and its error."""
        q, grown = self.rate, np.expm1(np.minimum(e, 700.0))
        weight = q - (1.0 - q) * grown if add else np.full(e.shape, q)
        some = weight > 0.0 if add else grown > -q
        out, error = np.full(e.shape, -math.inf), np.zeros(e.shape)
        if not add:
            out[~some] = np.log(-grown[~some])
        w = weight[some]
        if add:  # e^ε q / w, whose terms have one sign
            inner = e[some] - np.log1p(-(1.0 - q) * grown[some] / q)
        else:
            inner = np.where(e[some] > 600.0, e[some] - np.log(w), np.log1p(grown[some] / w))
        value, slope, wrong = _log_profile(self.reverse if add else self.form, inner)
        out[some] = np.log(w) + value
        error[some] = wrong + 2.0 * _UNIT * (1.0 + np.abs(slope)) * (1.0 + q / w)  # the rounding of w moves ε'
        return out, error

    def kinks(self, losses: list[float]) -> list[float]:
        """Return distances from the edge at which ℓ has one of these values."""
        x = np.log1p(np.expm1(np.array(losses)) / self.rate)
        return [place for place in (x - self.edge).tolist() if math.isfinite(place)]

    def ends(self) -> list[float]:
        """Return the values of ℓ at which δ₁ is not smooth."""
        known = [] if self.rate == 1.0 else [math.log1p(-self.rate)]
        return known if self.smooth else [*known, float(log_mixture(self.rate, self.edge))]


def _log_profile(form: LogMoment, e: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log δ₀(ε), its slope and its error."""
    if form.distance:
        return mean_shift_tail(e, form.distance, complement=False)
    gap = form.gap(e)[0] if form.side else np.zeros(e.shape)
    none, whole = (gap <= 0.0) & (form.side < 0), (gap >= 0.0) & (form.side > 0) & (e < 0.0)
    value, slope, error = evaluate_form(form, e, DELTA)
    error = error + 2.0 * _UNIT * np.abs(slope) * (form.mean + np.abs(e))
    value = np.where(none, -math.inf, np.where(whole, log_one_minus_exp(np.minimum(e, 0.0)), np.minimum(value, 0.0)))
    known = none | whole
    return value, np.where(known, 0.0, slope), np.where(known, 0.0, error)


def two_pairs(first: PairStep, second: PairStep, e: float, *, add: bool) -> tuple[float, float]:
    """Return log δ(ε) of two steps of any pairs and its estimated error, by the better order of integration."""
    best = (math.nan, math.inf)
    # a density on one side of its edge takes fewer panels
    for outer, inner in sorted([(first, second), (second, first)], key=lambda both: both[0].form.side == 0):
        with np.errstate(all="ignore"):  # what is not finite has no value
            known = _over_pair(outer, inner, e, add)
        if known[1] < best[1]:
            best = known
        if best[1] < 1e-12 * (1.0 + abs(best[0])):
            break
    return best


def _over_pair(outer: PairStep, inner: PairStep, e: float, add: bool) -> tuple[float, float]:
    """Return log δ(ε) and its error with one step outside; panels are halved until each has settled."""

    def panels(ends: Floats) -> tuple[Floats, Floats]:
        """Return the logs of the integrals over panels, and their errors."""
        half = 0.5 * np.diff(ends)
        log_f, error = log_ratio_density(outer.form, gap := (ends[:, :1] + half * (1.0 + _RULE[0])).ravel())
        loss, live = log_mixture(outer.rate, outer.edge + gap), ~(log_f <= _LEAST)  # what is NaN stays, and has no sum
        inside, doubt = np.full(gap.size, -math.inf), np.zeros(gap.size)
        inside[live], doubt[live] = inner.log_delta(e + (loss if add else -loss)[live], add=add)
        terms = log_f + inside + (0.0 if add else loss) + np.log((half * _RULE[1]).ravel())
        terms = np.where(live, terms, -math.inf).reshape(-1, _RULE[0].size)
        wrong = (np.where(live, error, 0.0) + doubt).reshape(terms.shape)
        total = np.logaddexp.reduce(terms, axis=1)
        shares = np.exp(terms - np.where(total == -math.inf, 0.0, total)[:, None])
        return total, (shares * wrong).sum(axis=1)

    # at the edge a density may rise like a root, and distances are exact
    cuts, octaves = ([], _OCTAVES[_SMOOTH:]) if outer.smooth and inner.smooth else ([-_NEAREST, _NEAREST], _OCTAVES)
    for place in (0.0, *outer.kinks([(-e if add else e) - x for x in inner.ends()])):
        cuts += [place - octaves, np.array([place]), place + octaves]
    for mean, form in ((outer.form.mean, outer.form), (-outer.reverse.mean, outer.reverse)):
        cuts.append(mean - outer.edge + form.spread * _BODY)
    edges = np.unique(np.concatenate(cuts))
    edges = edges[edges * outer.form.side >= 0.0]
    todo = np.stack([edges[:-1], edges[1:]], axis=1)
    whole = panels(todo)[0]
    value, error = -math.inf, -math.inf
    for _ in range(_MAX_SPLITS):
        middle = 0.5 * todo.sum(1)
        halves = np.concatenate([np.stack([todo[:, 0], middle], axis=1), np.stack([middle, todo[:, 1]], axis=1)])
        known, wrong = panels(halves)
        both = np.logaddexp(*np.split(known, 2))
        total = np.logaddexp(value, np.logaddexp.reduce(both))
        if not total > -math.inf:  # nothing counts, or it is NaN
            break
        change = np.where(both > -math.inf, np.abs(np.expm1(np.minimum(whole - both, 700.0))), 0.0)
        noise = np.max(np.split(wrong, 2), axis=0)
        done = (np.log(change) + both < total + math.log(1e-16)) | (both < total + _DEAD) | (change < noise)
        value = np.logaddexp(value, np.logaddexp.reduce(both[done], initial=-math.inf))
        share = noise + change
        error = np.logaddexp(error, np.logaddexp.reduce((np.log(share) + both)[done], initial=-math.inf))
        keep = np.concatenate([~done, ~done])
        todo, whole = halves[keep], known[keep]
        if not todo.size:
            return float(value), float(np.exp(error - value)) + 16.0 * _UNIT * (4.0 + abs(float(value)))
    return math.nan, math.inf
