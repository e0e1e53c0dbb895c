"""One Poisson-sampled step of any Gaussian pair has moments in floats by the Mellin–Barnes form.

Let w be the likelihood ratio of the unsampled pair, Q the law without the record, q the rate and ρ = q/(1−q). Write
e = 1 + s in the remove order, e = −s in the add order, and κ(z) = log E_Q w^z, which is closed for every Gaussian pair.
Theorem thm:mellin-moment (docs/theory.md) states for every a that is no real part of a pole

    M = E_Q (1 − q + q w)^e = Σ_{k<a} C(e,k) (1−q)^{e−k} q^k e^{κ(k)} + Σ_{j<Re e−a} C(e,j) (1−q)^j q^{e−j} e^{κ(e−j)}
        + (1/2πi) ∫_{Re z=a} Γ(−z) Γ(z−e)/Γ(−e) (1−q)^e ρ^z e^{κ(z)} dz.

If w is 1, then M is 1. So M − 1 is the same with e^κ − 1 in the place of e^κ, and its digits survive a small rate and a
small difference of the two laws. The kernel computes both forms. The trapezoid rule on the line Re z = a converges like
e^{−2πd/h}, where d is the distance to the nearest pole. A few lines keep their tables. For each s the kernel takes the
line on which the largest term is smallest.

In balls a pair with one variance ratio has a line in the chi-square variable, and any other pair has bounds
(`ndis.accountant.laws.sampled_pair_balls`).
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from ndis._balls import precision
from ndis._compile import compiled
from ndis._search import log_mixture
from ndis._validate import Floats, Order
from ndis.accountant.laws import LEAST_V, BallLaw, Complexes, Law, LossDensity, log_expm1, product
from ndis.accountant.laws.plain import exact_directions, log_ratio_density, log_ratio_range, rough_edge
from ndis.accountant.laws.sampled_pair_balls import OneRatioBalls, SampledPairBalls
from ndis.spectrum.contour import exponent
from ndis.spectrum.invariants import Invariants

_UNIT = 2.0**-53
_BITS = 160  # bits of the end of a loss
_DIGITS = 41.0  # the trapezoid rule errs by e^−41 of its terms
_BEYOND = 34.0  # length of a line beyond 0 and beyond Im e on which the Gammas fall by e^-50
_GROWTH = 12.0  # log|e| up to which a step allows for the growth of Γ(z−e) across its strip
_DEAD = -44.0  # log of all terms beyond an end of a line, relative to the largest term
_NOTHING = -1400.0
_RIGHT = (*range(9), 10, 12, 16, 20, 26, 34, 46, 60, 80, 110, 150)
_ADD = (*(-(2.0**k) for k in range(20, -2, -1)), *(k + 0.5 for k in _RIGHT))
_REMOVE = tuple(k + offset for k in (-16, -8, -4, -2, -1, *_RIGHT) for offset in (0.25, 0.5, 0.75))
_NEAREST = 0.2499  # distance of a line from the poles e − j in the remove order
_NARROWEST = 0.01  # strip between two poles that has a line
_FAR = 6.0  # lines of the remove order lie no farther right of e
_MOST_RESIDUES = 4000
_MOST_NODES = 30_000  # in the table of one line
_STEP = 1e-9  # s times a typical loss, where the slope of M is the mean
_APART = 2.0  # larger log qw are far from the losses of a step without the record
_STIRLING = tuple(
    b / (2 * k * (2 * k - 1))
    for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510), 1)
)


@compiled(error_model="numpy")
def log1p(z):
    """Return log(1+z) on the principal branch; the error is small compared with the modulus."""
    grown = z.real * (2.0 + z.real) + z.imag * z.imag  # |1+z|² − 1
    if -0.5 < grown < 1e300:
        return complex(0.5 * math.log1p(grown), math.atan2(z.imag, 1.0 + z.real))
    return cmath.log(1.0 + z)


@compiled(error_model="numpy")
def _log_excess(z):
    """Return log(1+z) − z, to nearly full relative accuracy, on the principal branch."""
    if z.real * z.real + z.imag * z.imag < 0.04:
        p = 0.0j
        for k in range(22, 1, -1):
            p = p * (-z) + 1.0 / k
        return -z * z * p
    return cmath.log(1.0 + z) - z


@compiled(error_model="numpy")
def _stirling(z):
    """Return log Γ(z) − (z − ½) log z + z − ½ log 2π for |z| ≥ 10, Re z ≥ 0."""
    y = 1.0 / z
    square, total = y * y, 0.0j
    for k in range(len(_STIRLING) - 1, -1, -1):
        total = total * square + _STIRLING[k]
    return total * y


@compiled(error_model="numpy")
def _log_gamma_ratio(b, z):
    """Return log Γ(b+z)/Γ(b) up to multiples of 2πi, for Re b > −½; no large terms cancel."""
    product, under = 1.0 + 0.0j, 1.0 + 0.0j
    while (
        b.real < 0.0
        or b.real + z.real < 0.0
        or b.real * b.real + b.imag * b.imag < 100.0
        or (b.real + z.real) ** 2 + (b.imag + z.imag) ** 2 < 100.0
    ):
        product *= b
        under *= b + z
        b += 1.0
    top = b + z
    out = (b - 0.5) * log1p(z / b) + z * (cmath.log(top) - 1.0)
    return out + _stirling(top) - _stirling(b) + cmath.log(product / under)


@compiled(error_model="numpy")
def _log_sine(z):
    """Return log 2i sin πz up to multiples of πi, for Im z ≥ 0, without the factor e^{−iπz}: log(e^{2πiz} − 1)."""
    size, angle = -2.0 * math.pi * z.imag, 2.0 * math.pi * (z.real - round(z.real))
    turn = math.exp(size)
    return cmath.log(complex(math.expm1(size) - 2.0 * turn * math.sin(0.5 * angle) ** 2, turn * math.sin(angle)))


@compiled(error_model="numpy")
def _log_front(e, z):
    """Return log Γ(z−e)/Γ(−e) up to multiples of 2πi, for Im e ≥ 0."""
    if e.real < 0.25:
        return _log_gamma_ratio(-e, z)
    # Γ(1+e)/Γ(1+e−z) · sin πe/sin π(e−z)
    across = e - z
    out = -_log_gamma_ratio(1.0 + e, -z) + _log_sine(e)
    if across.imag >= 0.0:
        return out - 1j * math.pi * z - _log_sine(across)
    return out - 1j * math.pi * (e + across) - 1j * math.pi - _log_sine(across.conjugate()).conjugate()


@compiled(error_model="numpy")
def _kappa(z, mean, t, ratio, nu, quad):
    """Return κ(z) = K(z−1) of the unsampled pair."""
    s = z - 1.0
    if s.imag >= 0.0:
        return exponent(s, mean, t, ratio, nu, quad, False)
    return exponent(s.conjugate(), mean, t, ratio, nu, quad, False).conjugate()


@compiled(error_model="numpy")
def _fill(a, h, first, log_odds, mean, t, ratio, nu, quad, base, kappa):
    """Write log Γ(−z)ρ^z and κ(z) at z = a + ih(first + k)."""
    for k in range(base.size):
        z = complex(a, h * (first + k))
        base[k] = _log_gamma_ratio(1.0 + 0.0j, -1.0 - z) + z * log_odds  # log Γ(−z)ρ^z
        kappa[k] = _kappa(z, mean, t, ratio, nu, quad)


@compiled(error_model="numpy")
def _grown(base, kappa):
    """Return e^base (e^κ − 1) and e^{base+κ}."""
    plain = cmath.exp(base + kappa)
    size = kappa.real * kappa.real + kappa.imag * kappa.imag
    if size > 0.25:
        return plain - cmath.exp(base), plain
    p = 1.0 + 0.0j
    for k in range(16, 1, -1):
        p = 1.0 + kappa * p / k
    return cmath.exp(base) * kappa * p, plain


@compiled(error_model="numpy")
def _add(base, kappa, burden, sums):
    """Add a term to M − 1, M and the errors of both, and return the log of its size.

    An exponential is as wrong, relatively, as its exponent is absolutely. `burden` is the size of what κ consists of.
    """
    if base.real + max(kappa.real, 0.0) < _NOTHING:  # 1/Γ(−e) is 0 for a whole e ≥ 0
        return -math.inf
    near, plain = _grown(base, kappa)
    doubt = 4.0 * _UNIT * (8.0 + abs(base) + abs(kappa) + burden)
    sums[0] += near
    sums[1] += plain
    sums[2] += abs(near) * doubt
    sums[3] += abs(plain) * doubt
    return _height(base, kappa)


@compiled(error_model="numpy")
def _height(base, kappa):
    """Return the logarithm of the larger of |e^base (e^κ − 1)| and |e^{base+κ}|, less where κ is small."""
    return base.real + max(kappa.real, 0.0) + min(math.log(abs(kappa) + 1e-300), 0.0)


@compiled(error_model="numpy")
def _residues(e, count, right, law, pair, bases, kappas):
    """Write the logarithms of the residues at z = 0, 1, … if `right`, else at z = e, e − 1, …; return their number."""
    log_odds, log_rate, log_stay = law
    mean, t, ratio, nu, quad = pair
    log_c = 0.0j
    for k in range(count):
        if right:
            bases[k] = log_c + e * log_stay + k * log_odds
            kappas[k] = exponent(complex(k - 1.0, 0.0), mean, t, ratio, nu, quad, False) if k > 1 else 0.0j
        else:
            bases[k] = log_c + k * log_stay + (e - k) * log_rate
            kappas[k] = _kappa(e - k, mean, t, ratio, nu, quad)
        if e.imag == 0.0 and k == e.real:  # the binomial series ends
            return k + 1
        log_c += cmath.log((e - k) / (k + 1.0))
    return count


@compiled(error_model="numpy")
def _counts(e, a):
    """Count the residues left of a line at 0, 1, …, and right of it at e, e − 1, …"""
    return max(math.ceil(a), 0), max(math.ceil(e.real - a), 0)


@compiled(error_model="numpy")
def _choose(s, add, lines, law, pair, best):
    """Choose the line for each s on which the largest term is smallest; −1 if there is none.

    `lines` has the place, the step, and the least distance from the poles e − j.
    """
    bases, kappas = np.empty((2, _MOST_RESIDUES), dtype=np.complex128)
    tops, known = np.empty((2, _MOST_RESIDUES)), np.zeros(2, dtype=np.int64)
    log_odds, _, log_stay = law
    mean, t, ratio, nu, quad = pair
    for i in range(s.size):
        e = complex(-s[i].real, s[i].imag) if add else 1.0 + s[i]
        highest = lines[-1, 0] if add else min(lines[-1, 0], e.real + _FAR)
        known[0], known[1] = _counts(e, highest)[0], _counts(e, lines[0, 0] if not add else e.real)[1]
        best[i], least = -1, math.inf
        if known.max() > _MOST_RESIDUES:
            continue
        for side in range(2):  # the largest of the first residues on each side
            known[side] = _residues(e, known[side], side == 0, law, pair, bases, kappas)
            top = -math.inf
            for j in range(known[side]):
                top = max(top, _height(bases[j], kappas[j]))
                tops[side, j] = top
        for k in range(lines.shape[0]):
            a, h, gap = lines[k]
            away = a - e.real
            free = away if add else abs(away - round(away))
            if free < gap or (away > _FAR and not add):
                continue
            top, some = -math.inf, _counts(e, a)
            for side in range(2):
                last = min(some[side], known[side])
                if last > 0:
                    top = max(top, tops[side, last - 1])
            for share in (0.0, 0.5, 1.0):
                z = complex(a, share * e.imag)
                base = _log_gamma_ratio(1.0 + 0.0j, -1.0 - z) + z * log_odds + _log_front(e, z) + e * log_stay
                top = max(top, _height(base, _kappa(z, mean, t, ratio, nu, quad)))
            top -= math.log(h)  # half as many nodes are worth a factor of 2
            if top < least:
                best[i], least = k, top


@compiled(error_model="numpy")
def _fall(e, a, v):
    """Bound the slope of log |Γ(−z)Γ(z−e)| in |v| at z = a + iv and beyond (thm:mellin-moment); 1 if none is known."""
    least = -a if a < 0.0 else math.ceil(a + 1e-9) - a
    down = math.atan2(abs(v), least)
    if v < 0.0 or v >= e.imag:
        return -down
    away = a - e.real - 1.0
    return math.atan2(e.imag - v, away) - down if away > 0.0 else 1.0


@compiled(error_model="numpy")
def _sum(e, a, h, gap, first, base, kappa, law, pair, sums):
    """Add the terms of a line. A side ends where all that follows is certainly small, and joins the errors."""
    scale = math.log(h / (2.0 * math.pi)) + e * law[2]
    top = -math.inf
    for side in (1, -1):
        k, done = (-first if side > 0 else -first - 1), False
        while 0 <= k < base.size and not done:
            z = complex(a, h * (first + k))
            front = base[k] + _log_front(e, z) + scale
            top = max(top, _add(front, kappa[k], pair[0] * abs(z - 1.0), sums))
            height = front.real + max(kappa[k].real, 0.0) + math.log(2.0)
            small = max(top + _DEAD, _NOTHING)
            if height < small:
                fall = _fall(e, a, z.imag)
                if fall < 0.0 and height - math.log(-math.expm1(fall * h)) < small:
                    sums[2:] += math.exp(small)
                    done = True
            k += side
        if not done:
            sums[2:] += math.inf
    sums[2:] += math.exp(top - _DIGITS + gap * max(math.log(abs(e) + 1.0) - _GROWTH, 0.0)) / h


@compiled(error_model="numpy")
def _moments(s, add, a, h, gap, first, base, kappa, law, pair, mean, value, error):
    """Write log M(s) − s·mean and its error, from the table of one line."""
    sums = np.zeros(4, dtype=np.complex128)
    bases, kappas = np.empty((2, _MOST_RESIDUES), dtype=np.complex128)
    for i in range(s.size):
        e = complex(-s[i].real, s[i].imag) if add else 1.0 + s[i]
        shift, count = mean * s[i], _counts(e, a)
        sums[:] = 0.0
        _sum(e, a, h, gap, first, base, kappa, law, pair, sums)
        for k in range(_residues(e, count[0], True, law, pair, bases, kappas)):
            _add(bases[k], kappas[k], pair[0] * k, sums)
        for k in range(_residues(e, count[1], False, law, pair, bases, kappas)):
            _add(bases[k], kappas[k], pair[0] * abs(e - k - 1.0), sums)
        near, plain = sums[0], sums[1]
        if add:
            near, plain = near.conjugate(), plain.conjugate()
        if abs(near) < 0.5:
            value[i] = near - shift + _log_excess(near)
            error[i] = sums[2].real / abs(1.0 + near) + 4.0 * _UNIT * abs(shift)
        else:
            value[i] = cmath.log(plain) - shift if plain != 0.0 else complex(math.nan, math.nan)
            error[i] = sums[3].real / max(abs(plain), 1e-300) + 4.0 * _UNIT * abs(shift)


class SampledPair(Law):
    """Evaluate log M(s) − s·mean of one sampled step; `pair` is that of the order. The object keeps its tables.

    >>> from ndis.pair import GaussianPair
    >>> step = SampledPair(GaussianPair.from_ratios(1.5, copies=2), (0.5,), "remove")
    >>> round(float(step.centred(np.ones(1, dtype=complex))[0][0].real) + step.mean, 12)  # E[(½ + ½w)²], E w² = 4/3
    0.080042707674
    """

    def __init__(self, pair: Invariants, rates: tuple[float, ...], order: Order) -> None:
        self.pair, self.rates = pair, rates
        self.rate, self.add = rate, add = math.prod(rates), order == "add"
        form = (pair.reversed() if add else pair).form  # the law with the record comes first
        low, high = (float(log_mixture(rate, x)) for x in log_ratio_range(form))
        self.ends = (-high, -low) if add else (low, high)
        self.uncertainty, self.size = pair.uncertainty, pair.form.mean
        self._pair = form.mean, *form.groups
        self._domain = form.domain[0] + 1.0, form.domain[1] + 1.0
        self.limit = math.inf if add else form.domain[1]
        self._law = math.log(rate) - math.log1p(-rate), math.log(rate), math.log1p(-rate)
        self._lines = np.array([line for a in self._places() if (line := self._line(a))])
        self._tables: dict[int, tuple[int, Complexes, Complexes]] = {}
        self.mean = 0.0
        typical = 1.0 + form.mean
        self.mean = float(self.centred(np.array([1j * _STEP / typical]))[0][0].imag) * typical / _STEP
        # P(L > x) ≤ e^{K(c) − cx}, and E e^{−L} ≤ 1 on the other side
        c = min(1.0, 0.5 * self.limit)
        log_moment = float(self.centred(np.array([c + 0.0j]))[0][0].real) + c * self.mean
        self.largest = max(40.0, (log_moment + 40.0) / c) if math.isfinite(log_moment) else 1e6 / c

    def _places(self) -> list[float]:
        """Return the places of the lines inside the domain of κ."""
        low, high = self._domain
        inside = [a for a in (_ADD if self.add else _REMOVE) if low < a < high]
        ends = [0.5 * (math.ceil(high) - 1.0 + high)] if high < _RIGHT[-1] else []
        if low > -1.0:
            ends.append(0.5 * low)
        return sorted({*inside, *ends})

    def _line(self, a: float) -> tuple[float, float, float] | None:
        """Return place, step and least distance from the poles e − j of a line; None if its strip is too narrow."""
        low, high = self._domain
        whole = abs(a - round(a)) if a > 0.0 else -a
        gap = min(whole, high - a, a - low, math.inf if self.add else _NEAREST)
        if gap < _NARROWEST:
            return None
        here, odds, step = self._log_ratio_moment(a), self._law[0], 0.0
        for share in np.linspace(0.2, 0.98, 18).tolist():
            g = share * gap
            rises = [self._log_ratio_moment(a + x) - here + x * odds for x in (-g, g)]
            step = max(step, 2.0 * math.pi * g / (_DIGITS + max(*rises, _GROWTH * g) - math.log1p(-share)))
        return a, step, min(gap, _NEAREST) if not self.add else gap

    def _log_ratio_moment(self, z: float) -> float:
        """Return κ(z) for real z."""
        return float(_kappa(complex(z), *self._pair).real)

    def _table(self, k: int, y: float) -> tuple[int, Complexes, Complexes]:
        """Return log Γ(−z)ρ^z and κ(z) on a line up to Im e = y, and the index of the first node."""
        a, h, _ = self._lines[k].tolist()
        beyond = _BEYOND + 10.0 * math.sqrt(abs(a))
        first, count = -math.ceil(beyond / h), min(math.ceil((y + 2.0 * beyond) / h), _MOST_NODES)
        if k not in self._tables or self._tables[k][1].size < count:
            count = min(math.ceil((2.0 * y + 2.0 * beyond) / h), _MOST_NODES)
            base, kappa = np.empty((2, count), dtype=np.complex128)
            _fill(a, h, first, self._law[0], *self._pair, base, kappa)
            self._tables[k] = first, base, kappa
        return self._tables[k]

    def reversed(self) -> SampledPair:
        """Return the law of the other order."""
        return SampledPair(self.pair.reversed(), self.rates, "remove" if self.add else "add")

    def enclosed(self) -> BallLaw:
        """Return the law in balls."""
        pair, rate = exact_directions(self.pair), product(self.rates)
        curved = pair.curved
        one = pair.flat == 0 and all(t is curved[0][0] or t == curved[0][0] for t, _, _ in curved)
        return (OneRatioBalls if one else SampledPairBalls)(pair, rate, remove=not self.add)

    def density(self, order: Order, depth: float) -> LossDensity | None:
        """Return the density of the loss, whose end is that of log(1 − q + qw) for w = 0; none if it has a pole."""
        form = (self.pair.reversed() if self.add else self.pair).form
        smooth, side = bool((form.t == 0.0).any()), form.side
        if not (smooth or (side and float(form.nu.sum()) >= 2.0)):
            return None
        edge, (log_odds, _, log_stay) = rough_edge(form), self._law

        def log_f(lams: Floats) -> tuple[Floats, Floats]:
            v = np.exp(lams + log_odds)
            grown = log_expm1(v) - lams - log_odds  # which log w has in addition to λ
            value, error = log_ratio_density(form, lams + grown - edge)
            # the first law of the order has the density e^ℓ against the law without the record, or is that law
            return value + v - grown + (0.0 if self.add else v + log_stay), error

        gaps = side * np.exp(np.linspace(-38.0, 8.0, 1600))[::side] if side else np.sinh(np.linspace(-8.0, 8.0, 1601))
        log_v = log_odds + edge + form.spread * gaps
        places = np.log(np.logaddexp(0.0, log_v[log_v > LEAST_V])) - log_odds
        with precision(_BITS):
            return LossDensity((-product(self.rates)).log1p(), math.exp(log_odds), places, log_f)

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses under the law tilted by s, if they lie apart; else 0, 0.

        Losses log qw above the others are those of the residue at z = e.
        """
        if self.add or not s < self.limit:
            return 0.0, 0.0
        step = 1e-3 * min(1.0, self.limit - s)
        below, here, above = (self._log_ratio_moment(1.0 + s + x) for x in (-step, 0.0, step))
        log_share = (1.0 + s) * self._law[1] + here
        log_share -= float(self.centred(np.array([s + 0.0j]))[0][0].real) + s * self.mean
        if not (log_share < -1.0 and self._law[1] + (above - below) / (2.0 * step) > _APART):
            return 0.0, 0.0
        return math.exp(log_share), math.sqrt(max(above + below - 2.0 * here, 0.0)) / step

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − s·mean and its error at points of the upper half-plane; NaN where it is not known."""
        value, error = np.full(s.size, complex(math.nan, math.nan)), np.full(s.size, np.inf)
        good = np.flatnonzero((s.real >= 0.0) & (s.real < self.limit) & np.isfinite(s))
        best = np.empty(good.size, dtype=np.int64)
        _choose(s[good], self.add, self._lines, self._law, self._pair, best)
        for k in sorted(set(best.tolist()) - {-1}):
            some = good[best == k]
            v, e = np.empty(some.size, dtype=np.complex128), np.empty(some.size)
            table = self._table(k, float(s.imag[some].max()))
            _moments(s[some], self.add, *self._lines[k], *table, self._law, self._pair, self.mean, v, e)
            known = np.isfinite(v) & np.isfinite(e)
            value[some[known]], error[some[known]] = v[known], e[known]
        return value, error
