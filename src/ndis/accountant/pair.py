"""Log-moments of one step of any Gaussian pair, sampled or not.

At rate 1 the form is closed (`PlainMoment`). At a rate q below 1 the moment is an integral over the density of the
likelihood ratio (`sampled_ratio`). With the loss L, the law P of its order and the mean κ,

    M(s) = 1 + κs + ∫ (e^{sL} − 1 − sL) dP,      κ = E_Q(e^ℓ ℓ − e^ℓ + 1) or E_Q(e^ℓ − 1 − ℓ),

so that nothing of the size of 1 or of q is subtracted where M is near 1. A Gauss rule has 20 nodes for each piece of
phase 16. So the integral costs more for large Im s, and does not lose digits.
"""

from __future__ import annotations

import cmath
import math
from functools import partial

import numpy as np

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.accountant.moment import Complexes, log_excess, second_order_exponential
from ndis.accountant.ratio import RatioLaw, RatioPanels, log_mixture
from ndis.errors import PrecisionError
from ndis.spectrum.contour import exponent
from ndis.spectrum.loss import half_excess_log

__all__ = ["PairMoment", "PlainMoment", "log_ratio_range"]

_UNIT = 2.0**-53
_NO_ROOM = 2.0**-30
_PLACES, _DEPTH = 17, 70.0  # places of Re s at which a rule is made to count, and e-folds
_FAR = 20.0  # ranges between the quartiles, beyond which a loss is far from the others


def log_ratio_range(excess: Floats, shift: Floats, copies: Floats) -> tuple[float, float]:
    """The ends of log dP/dQ: finite on the side on which every direction bounds it."""
    live = (excess != 0.0) | (shift != 0.0)
    t, m, c = excess[live], shift[live], copies[live]
    if not t.size:
        return 0.0, 0.0
    if not ((t > 0.0).all() or (t < 0.0).all()):
        return -math.inf, math.inf
    edge = math.fsum((c * (-0.5 * np.log1p(t) - 0.5 * m * m / t)).tolist())
    return (edge, math.inf) if t[0] > 0.0 else (-math.inf, edge)


@compiled()
def _exponents(s, t, ratio, nu, q, value, error):
    """K(s) − s·mean in closed form, for an array of s, and its rounding."""
    for i in range(s.size):
        value[i] = exponent(s[i], 0.0, t, ratio, nu, q, False)
        burden = 1.0
        for j in range(t.size):
            z = abs(s[i] * t[j])
            burden += 0.5 * nu[j] * min(z, z * z) + 0.5 * q[j] * abs(s[i]) ** 2 / abs(1.0 - s[i] * t[j])
        error[i] = 4.0 * _UNIT * burden


class PlainMoment:
    """K(s) − s·mean of one Gaussian pair that is released every time."""

    def __init__(self, excess: Floats, shift: Floats, copies: Floats) -> None:
        live = (excess != 0.0) | (shift != 0.0)
        self._t, m, copies = excess[live], shift[live], copies[live]
        self._ratio = 1.0 + self._t
        self._nu = np.where(self._t == 0.0, 0.0, copies)
        self._q = copies * m * m * self._ratio
        self.mean = math.fsum((copies * (half_excess_log(self._t, self._ratio) + 0.5 * m * m)).tolist())
        top = float(self._t.max(initial=0.0))
        self.limit = 1.0 / top if top > 0.0 else math.inf
        self.largest = 0.0  # a closed form has no phase to lose

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean and its error."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        _exponents(s, self._t, self._ratio, self._nu, self._q, value, error)
        return value, error

    def far_losses(self, s: float) -> tuple[float, float]:
        """None: the path is that of a closed form."""
        return 0.0, 0.0


@compiled()
def _moments(s, loss, log_mass, doubt, mean, value, error):
    """log M(s) − κs and its error from a rule, whose masses have a relative error `doubt`, for an array of s."""
    wrong = 16.0 * _UNIT  # of a density, and of the rounding that all terms share
    for i in range(s.size):
        c, y = s[i].real, s[i].imag
        second, plain = 0.0j, 0.0j
        size, heavy = 0.0, 0.0
        for k in range(loss.size):
            z = complex(c * loss[k], y * loss[k])
            if z.real * z.real + z.imag * z.imag < 0.16:
                p = math.exp(log_mass[k])
                term = p * second_order_exponential(z)
                second += term
                plain += term + p * (1.0 + z)
                size += abs(term) * (wrong + doubt[k])
                heavy += p * (wrong + doubt[k])
            else:
                rise = math.exp(log_mass[k] + z.real)
                p = math.exp(log_mass[k])
                whole = complex(rise * math.cos(z.imag), rise * math.sin(z.imag))
                less = p * (1.0 + z)
                second += whole - less
                plain += whole
                rounded = rise * (wrong * (1.0 + 0.25 * (abs(log_mass[k]) + abs(z.real) + abs(z.imag))) + doubt[k])
                size += rounded + abs(less) * (wrong + doubt[k])
                heavy += rounded
        near = second + mean * s[i]
        if abs(near) < 0.5:
            value[i] = second + log_excess(near)
            error[i] = (size + 16.0 * _UNIT * (abs(near) + abs(mean * s[i]))) / abs(1.0 + near)
        else:
            value[i] = (cmath.log(plain) if plain != 0.0 else complex(-745.0, 0.0)) - mean * s[i]
            error[i] = heavy / max(abs(plain), 1e-300) + 16.0 * _UNIT * abs(mean * s[i])


def _above_tangent(loss: Floats) -> Floats:
    """e^ℓ ℓ − e^ℓ + 1 ≥ 0, to nearly full relative accuracy."""
    series = np.zeros_like(loss)
    for k in range(14, 1, -1):
        series = loss * series + (k - 1.0) / math.factorial(k)
    capped = np.minimum(loss, 700.0)
    return np.where(np.abs(loss) < 0.2, loss * loss * series, np.exp(capped) * capped - np.expm1(capped))


def _above_line(loss: Floats) -> Floats:
    """e^ℓ − 1 − ℓ ≥ 0, to nearly full relative accuracy."""
    series = np.zeros_like(loss)
    for k in range(14, 1, -1):
        series = loss * series + 1.0 / math.factorial(k)
    return np.where(np.abs(loss) < 0.2, loss * loss * series, np.expm1(np.minimum(loss, 700.0)) - loss)


class PairMoment:
    """log M(s) − s·mean of one step of any Gaussian pair sampled at a rate below 1. It keeps its tables.

    The excess and the shift are those of the pair in the order that is asked about.
    """

    def __init__(self, rate: float, excess: Floats, shift: Floats, copies: Floats, *, add: bool) -> None:
        self.rate, self.add = rate, add
        self.limit = math.inf if add else PlainMoment(excess, shift, copies).limit
        if add:  # the law with the record is the second one
            excess, shift = -excess / (1.0 + excess), shift / np.sqrt(1.0 + excess)
        self.ratio = RatioLaw(excess, shift, copies)
        self._panels = RatioPanels(self.ratio)
        self._covered: set[float] = set()
        self._nodes: dict[tuple[int, float], tuple[Floats, Floats, Floats]] = {}
        self._cover(0.0)
        tau, log_mass, _ = self._panels.nodes(self._loss, 0.0)
        loss = self._mixture(tau)
        self.mean = math.fsum((np.exp(log_mass) * (_above_line(loss) if add else _above_tangent(loss))).tolist())
        self.largest = float(np.abs(loss).max())

    def _mixture(self, tau: Floats) -> Floats:
        """ℓ at τ."""
        return log_mixture(self.rate, self.ratio.log_ratio(tau))

    def _loss(self, tau: Floats) -> Floats:
        """The loss L at τ."""
        return -self._mixture(tau) if self.add else self._mixture(tau)

    def _height(self, c: float, tau: Floats) -> Floats:
        """log of the factor of the density in M(c), and of L², to which the terms of M − 1 − κs rise at first."""
        mixture = self._mixture(tau)
        return (-c if self.add else 1.0 + c) * mixture + 2.0 * np.log(np.abs(mixture) + 1e-3 * self.rate)

    def _place(self, c: float) -> float:
        """The end, from c on, of the range of Re s that shares a rule with c; the range begins at its half or later."""
        if not c > 0.0:
            return 0.0
        whole = 2.0 ** math.ceil(math.log2(c))
        if whole <= 0.5 * self.limit:
            return whole
        room = 1.0 - c / self.limit  # halve the distance to the limit instead
        if not room > _NO_ROOM:
            raise PrecisionError("a moment is too near the end of its domain")
        return self.limit * (1.0 - 2.0 ** math.floor(math.log2(room)))

    def _cover(self, c: float) -> float:
        """Let the panels reach to where the terms of M are negligible, for the range of c; returns its end."""
        c = self._place(c)
        if c not in self._covered:
            if self._panels.cover(partial(self._height, c)):
                self._nodes.clear()
            self._covered.add(c)
        return c

    def _rule(self, bucket: int, c: float) -> tuple[Floats, Floats, Floats]:
        """Losses, log masses and their errors for |s| up to 2^bucket and Re s from c/2 to c.

        Where e^{sL} is negligible, no phase needs to be resolved.
        """
        if (bucket, c) not in self._nodes:
            # what counts at a place between two others need not count at either: they lie close together
            heights = [partial(self._height, x) for x in np.linspace(0.5 * c, c, _PLACES).tolist()]
            tau, log_mass, doubt = self._panels.nodes(self._loss, 2.0**bucket, heights, _DEPTH)
            loss = self._loss(tau)
            self._nodes[bucket, c] = loss, log_mass if self.add else log_mass + loss, doubt
        return self._nodes[bucket, c]

    def far_losses(self, s: float) -> tuple[float, float]:
        """Share and spread of large losses under the law tilted by s, if they are far from the others; else 0, 0."""
        if self.add:
            return 0.0, 0.0
        try:
            loss, log_mass, _ = self._rule(0, self._cover(s))
        except PrecisionError:
            return 0.0, 0.0
        mass = np.exp(log_mass + s * loss - (log_mass + s * loss).max())
        order = np.argsort(loss)
        share = np.cumsum(mass[order]) / mass.sum()
        low, middle, high = (float(loss[order][np.searchsorted(share, p)]) for p in (0.25, 0.5, 0.75))
        far = loss > middle + _FAR * (high - low)
        if not mass[far].sum() > 0.0:
            return 0.0, 0.0
        centre = float((mass[far] * loss[far]).sum() / mass[far].sum())
        spread = float((mass[far] * (loss[far] - centre) ** 2).sum() / mass[far].sum())
        return float(mass[far].sum() / mass.sum()), math.sqrt(spread)

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − s·mean and its error."""
        value, error = np.full(s.size, complex(math.nan, math.nan)), np.full(s.size, np.inf)
        inside = (s.real >= 0.0) & (s.real < self.limit) & np.isfinite(s)
        if not inside.any():
            return value, error
        sizes = np.ceil(np.log2(np.maximum(np.abs(s), 1.0)))
        places = np.ceil(np.log2(np.maximum(s.real, 2.0**-60)))
        if self.limit < math.inf:
            places -= np.ceil(np.log2(np.maximum(1.0 - s.real / self.limit, 2.0**-60)))
        for size, place in {*zip(sizes[inside].tolist(), places[inside].tolist(), strict=True)}:
            some = np.flatnonzero(inside & (sizes == size) & (places == place))
            try:
                rule = self._rule(int(size), self._cover(float(s.real[some].max())))
            except PrecisionError:
                continue
            v, e = np.empty(some.size, dtype=np.complex128), np.empty(some.size)
            _moments(s[some], *rule, self.mean, v, e)
            known = np.isfinite(v) & np.isfinite(e)
            value[some[known]], error[some[known]] = v[known], e[known]
        return value, error
