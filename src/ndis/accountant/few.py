"""One or two sampled steps have δ(ε) in closed form, or as δ₂(ε) = E_P δ₁(ε − L), which has positive terms only.

For one step (see `ndis.accountant.one_release`) δ₁(ε) = a δ₀(ε'), e^ε' − 1 = (e^ε − 1)/a, with a = q in the remove
order and a = q − (1−q)(e^ε − 1) in the add order. δ₀ is the profile of the unsampled pair: a closed form for a mean
shift, and the contour integral of `ndis.spectrum` for any other pair. Gauss–Legendre panels cover the outer step, with
more panels where the inner one passes through its own scale. Halving the panels gives the error.

For a pair that is no mean shift the outer variable is x = log w, whose density is the contour integral of its kind. It
has a pole or an edge where the square form of x vanishes, and δ₁ is not smooth at the ends of its loss. The widths of
the panels halve towards each of these places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import scipy

from ndis._balls import outward, precision
from ndis._formulas import log_mixture
from ndis._validate import Floats, Order
from ndis.accountant.laws import Law
from ndis.accountant.laws.mixture import Mixture
from ndis.accountant.laws.plain import Plain
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.spectrum.contour import DELTA, PDF
from ndis.spectrum.evaluate import evaluate_form, log_one_minus_exp
from ndis.spectrum.loss import LogMoment, half_excess_log

__all__ = ["PairStep", "few_steps", "log_delta_shift", "one_step", "shift_for", "two_pairs", "two_steps"]

_UNIT = 2.0**-53
_BITS = 192
_MAX_HALVINGS = 6
_RULE = np.polynomial.legendre.leggauss(20)
_OCTAVES = 2.0 ** np.arange(-48.0, 13.0)
_BODY = np.arange(-12.0, 12.5, 1.0)
_DEAD = -60.0  # log of a panel that does not count, compared with the sum
_LEAST = -740.0  # log of a density that does not count
_MAX_SPLITS = 14
_SCALES = np.array([-0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 65536.0])


def few_steps(parts: Sequence[tuple[Law, int]], order: Order) -> Callable[[float], tuple[float, float]] | None:
    """Return the function that gives log δ(ε) of one or two steps and its error; None if there is none."""
    laws, add = [law for law, n in parts for _ in range(n)], order == "add"
    shifts = [shift for shift in (_as_shift(law, add) for law in laws) if shift]
    if len(shifts) == len(laws):
        if len(laws) == 1:
            return partial(one_step, shifts[0], add=add)
        return partial(two_steps, shifts[0], shifts[1], add=add)
    if len(laws) == 1 and isinstance(laws[0], Mixture):
        return partial(_enclosed_step, laws[0])
    pairs = [pair for pair in (_as_pair(law, order) for law in laws) if pair]
    return partial(two_pairs, pairs[0], pairs[1], add=add) if len(pairs) == 2 else None  # the contour serves one step


def _enclosed_step(law: Law, e: float) -> tuple[float, float]:
    """Return log δ(ε) of one step from its enclosure, and its error."""
    with precision(_BITS):
        delta = law.enclosed().delta(e)
        if not delta > 0:
            return (-math.inf, 0.0) if delta == 0 else (math.nan, math.inf)
        low, high = outward(delta.log())
    return 0.5 * (low + high), high - low


def _as_shift(law: Law, add: bool) -> tuple[float, float] | None:
    """Return rate and shift of a mean shift, sampled or not; None for any other law, and for one of the other order."""
    if isinstance(law, Mixture):
        return law.poisson if law.add == add else None
    if isinstance(law, Plain) and (law.pair.excess == 0.0).all():
        return 1.0, math.sqrt(math.fsum((law.pair.copies * law.pair.shift**2).tolist()))
    return None


def _as_pair(law: Law, order: Order) -> PairStep | None:
    """Return a step with the pair of the remove order; None for a law that has none."""
    if isinstance(law, Plain | SampledPair):
        pair = law.pair if order == "remove" else law.pair.reversed()
        return PairStep(1.0 if isinstance(law, Plain) else law.rate, pair.excess, pair.shift, pair.copies)
    if isinstance(law, Mixture) and (step := _as_shift(law, order == "add")):
        return PairStep(step[0], np.zeros(1), np.array(step[1:]), np.ones(1))
    return None


def log_delta_shift(e: Floats, mu: float) -> Floats:
    """Return log δ of a mean shift for any real ε; a negative ε through 1 − e^ε + e^ε δ(−ε)."""
    size = np.abs(e)
    a, b = size / mu - 0.5 * mu, size / mu + 0.5 * mu
    far = np.maximum(a, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = scipy.special.erfcx(b / math.sqrt(2.0))
        tail = np.log(0.5 * (scipy.special.erfcx(far / math.sqrt(2.0)) - beyond)) - 0.5 * far * far
        near = np.log(scipy.special.ndtr(-a) - np.exp(np.minimum(size - 0.5 * b * b, 700.0)) * 0.5 * beyond)
        log_delta = np.where(a > 0.0, tail, near)
        negative = np.logaddexp(np.log(-np.expm1(-size)), log_delta - size)
    return np.asarray(np.where(e >= 0.0, log_delta, negative))


def shift_for(epsilon: float, log_delta: float) -> float:
    """Return the mean shift whose log δ(ε) is about this, roughly: a start for searches.

    >>> round(shift_for(1.0, math.log(1e-5)), 6)
    0.268051
    """
    low, high = -60.0, 10.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        safe = log_delta_shift(np.array([epsilon]), math.exp(middle))[0] <= log_delta
        low, high = (middle, high) if safe else (low, middle)
    return math.exp(low)


def _one_step(e: Floats, q: float, mu: float, *, add: bool) -> Floats:
    """Return log δ₁(ε) of one sampled step."""
    grown = np.expm1(e)
    weight = q - (1.0 - q) * grown if add else np.full(e.shape, q)
    some = weight > 0.0 if add else grown > -q
    out = np.full(e.shape, -math.inf)
    if not add:
        out[~some] = np.log(-grown[~some])
    w = weight[some]
    out[some] = np.log(w) + log_delta_shift(np.log1p(grown[some] / w), mu)
    return out


def one_step(step: tuple[float, float], e: float, *, add: bool) -> tuple[float, float]:
    """Return log δ(ε) of one step, which is its rate and its shift, and the rounding of that."""
    value = float(_one_step(np.array([e]), *step, add=add)[0])
    return value, 16.0 * _UNIT * (4.0 + 1.0 / step[1] + (abs(value) if value > -math.inf else 0.0))


def _integral(ends: Floats, e: float, outer: tuple[float, float], inner: tuple[float, float], add: bool) -> float:
    """Return the logarithm of the sum over the panels between `ends`."""
    q, mu = outer
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    x = (middle[:, None] + half[:, None] * _RULE[0]).ravel()
    width = (half[:, None] * _RULE[1]).ravel()
    ratio = log_mixture(q, mu * x - 0.5 * mu * mu)
    terms = _one_step(e + ratio, *inner, add=True) if add else ratio + _one_step(e - ratio, *inner, add=False)
    terms -= 0.5 * x * x
    top = float(terms.max())
    if top == -math.inf:
        return -math.inf
    return top + math.log(float((np.exp(terms - top) * width).sum()) / math.sqrt(2.0 * math.pi))


def two_steps(first: tuple[float, float], second: tuple[float, float], e: float, *, add: bool) -> tuple[float, float]:
    """Return log δ(ε) and its error, by the better of the two orders of integration; a step is rate and shift."""
    best = (math.nan, math.inf)
    for (q, mu), inner in ((first, second), (second, first)):
        near, far = (-36.0 if add else -12.0), 12.0 + 2.0 * mu
        if not add and e > 0.0:
            far = max(far, min((np.logaddexp(0.0, e - math.log(q)) + 0.5 * mu * mu) / mu + 8.0, 60.0 + 2.0 * mu))
        end = -math.log1p(-inner[0]) if inner[0] < 1.0 else 0.0  # the inner loss ends here
        scales = np.concatenate([inner[0] * _SCALES, [-end]])
        at = -scales - e if add else e - scales
        grown = np.expm1(np.minimum(at, 600.0))
        extra = (np.log1p(grown[grown > -q] / q) + 0.5 * mu * mu) / mu
        base = np.arange(near, far, 0.5 if mu > 1.0 else 1.0)
        edges = np.unique(np.concatenate([base, extra[(extra > near) & (extra < far)], [far]]))
        value, change, last = _integral(edges, e, (q, mu), inner, add), math.inf, math.inf
        for level in range(_MAX_HALVINGS):
            edges = np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))
            before, value = value, _integral(edges, e, (q, mu), inner, add)
            last, change = change, abs(value - before) if value > -math.inf else math.inf
            if level and max(change, 1e-2 * last) < 1e-13:
                break
        error = change + 1e-2 * last + 16.0 * _UNIT * (4.0 + 1.0 / inner[1] + abs(value))
        if error < best[1]:
            best = (value, error)
        if best[1] < 1e-12:
            break
    return best


class PairStep:
    """One sampled step of any pair N(m, diag(1 + t)) against N(0, I), whose first law has the record."""

    def __init__(self, rate: float, excess: Floats, shift: Floats, copies: Floats) -> None:
        self.rate = rate
        live = (excess != 0.0) | (shift != 0.0)
        t, m, c = excess[live], shift[live], copies[live]
        self.form, self.reverse = _form(t, m, c), _form(-t / (1.0 + t), m / np.sqrt(1.0 + t), c)
        curved = t != 0.0
        self.edge = -0.5 * math.fsum((c * (np.log1p(t) + m * m / np.where(curved, t, 1.0)))[curved].tolist())
        self.smooth = bool((~curved).any())  # a mean shift leaves no edge and no pole

    def log_density(self, gap: Floats) -> tuple[Floats, Floats]:
        """Return log of the density of x = log w without the record at the edge plus `gap`, and its error."""
        x = self.edge + gap
        near = (np.abs(gap) <= 0.25 * np.abs(self.form.mean - x)) & (self.form.side != 0)
        linear = np.where(near, -gap, self.form.mean - x)
        value, _, error = evaluate_form(self.form, x, PDF, (linear, near))
        outside = gap * self.form.side < 0.0
        return np.where(outside, -math.inf, value - x), np.where(outside, 0.0, error)

    def log_delta(self, e: Floats, *, add: bool) -> tuple[Floats, Floats]:
        """Return log δ₁(ε) and its error."""
        q, grown = self.rate, np.expm1(np.minimum(e, 700.0))
        weight = q - (1.0 - q) * grown if add else np.full(e.shape, q)
        some = weight > 0.0 if add else grown > -q
        out, error = np.full(e.shape, -math.inf), np.zeros(e.shape)
        if not add:
            out[~some] = np.log(-grown[~some])
        w = weight[some]
        inner = np.where(e[some] > 600.0, e[some] - np.log(w), np.log1p(grown[some] / w))
        value, error[some] = _log_profile(self.reverse if add else self.form, inner)
        out[some] = np.log(w) + value
        return out, error

    def kinks(self, losses: list[float]) -> list[float]:
        """Return distances from the edge at which ℓ has one of these values."""
        x = np.log1p(np.expm1(np.array(losses)) / self.rate)
        return [place for place in (x - self.edge).tolist() if math.isfinite(place)]

    def ends(self) -> list[float]:
        """Return the values of ℓ at which δ₁ is not smooth."""
        known = [] if self.rate == 1.0 else [math.log1p(-self.rate)]
        return known if self.smooth else [*known, float(log_mixture(self.rate, self.edge))]


def _form(t: Floats, m: Floats, c: Floats) -> LogMoment:
    ratio = 1.0 + t
    mean = math.fsum((c * (half_excess_log(t, ratio) + 0.5 * m * m)).tolist())
    return LogMoment(mean, t, ratio, np.where(t == 0.0, 0.0, c), c * m * m * ratio)


def _log_profile(form: LogMoment, e: Floats) -> tuple[Floats, Floats]:
    """Return log δ₀(ε) and its error."""
    gap = form.gap(e)[0] if form.side else np.zeros(e.shape)
    none, whole = (gap <= 0.0) & (form.side < 0), (gap >= 0.0) & (form.side > 0) & (e < 0.0)
    value, slope, error = evaluate_form(form, e, DELTA)
    error = error + 2.0 * _UNIT * np.abs(slope) * (form.mean + np.abs(e))
    value = np.where(none, -math.inf, np.where(whole, log_one_minus_exp(np.minimum(e, 0.0)), np.minimum(value, 0.0)))
    return value, np.where(none | whole, 0.0, error)


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
        log_f, error = outer.log_density(gap := (ends[:, :1] + half * (1.0 + _RULE[0])).ravel())
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
    cuts = [side * 2.0 ** np.arange(-110.0, -48.0) for side in (-1.0, 1.0)]
    for place in (0.0, *outer.kinks([(-e if add else e) - x for x in inner.ends()])):
        cuts += [place - _OCTAVES, np.array([place]), place + _OCTAVES]
    for mean, form in ((outer.form.mean, outer.form), (-outer.reverse.mean, outer.reverse)):
        spread = math.sqrt(float((0.5 * form.nu * form.t**2 + form.q).sum()))
        cuts.append(mean - outer.edge + spread * _BODY)
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
        if np.isnan(total):
            break
        change = np.where(both > -math.inf, np.abs(np.expm1(np.minimum(whole - both, 700.0))), 0.0)
        done = (np.log(change) + both < total + math.log(1e-16)) | (both < total + _DEAD)
        value = np.logaddexp(value, np.logaddexp.reduce(both[done], initial=-math.inf))
        share = np.max(np.split(wrong, 2), axis=0) + change
        error = np.logaddexp(error, np.logaddexp.reduce((np.log(share) + both)[done], initial=-math.inf))
        keep = np.concatenate([~done, ~done])
        todo, whole = halves[keep], known[keep]
        if not todo.size:
            return float(value), float(np.exp(error - value)) + 16.0 * _UNIT * (4.0 + abs(float(value)))
    return math.nan, math.inf
