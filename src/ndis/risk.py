"""Read plain risks off a privacy profile: the power of attacks, Rényi divergences, a Gaussian pair that bounds it.

All follow from δ(ε), the worse of both orders, which is convex and never rises in z = e^ε. A test between neighbours
has errors α and β with 1 − β ≤ δ(ε) + e^ε α at every real ε (thm:tradeoff). So each ε gives a bound on the power of
every test, and a search that errs still returns a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike

from ndis._balls import precision
from ndis._batches import BatchedProfile
from ndis._exact import down, root_up
from ndis._groups import Group, StepGroup
from ndis._validate import ORDERS, Floats, as_probability, as_reals, as_scalar, as_share, broadcasts, require, shaped
from ndis.accountant.composition import SAMPLED_WIDTH, WIDTH, Composition
from ndis.accountant.curve import UpperCurve
from ndis.accountant.laws import kept
from ndis.errors import PrecisionError
from ndis.pages.card import RiskCard, risk_card
from ndis.pair import GaussianPair

_UP = 1.0 + 2.0**-49  # covers the rounding of a few operations
_LEAST_DELTA = 2.0**-1022  # stands in for every smaller δ, also for 0; floats lose digits below it
_LEAST_LEVEL = 1e-30  # stands in for every smaller α, also for 0
_MAX_EPSILON = 690.0  # e^ε is a float up to this ε
_LOG_LEAST = -1e4  # stands in for the log of δ = 0
_WINDOW = np.arange(-3.0, 4.0)  # places of ε around a guess, in gaps
_FIRST_GAP = 0.15  # between two places, over the shift of a Gaussian with the same δ(0)
_NEXT_GAP = 1.0 / 16.0  # over the last one
_THROUGH_ALL = np.linalg.inv(np.vander(_WINDOW, increasing=True))  # coefficients of a polynomial from its values there
_PARABOLA = np.linalg.pinv(np.vander(_WINDOW, 3, increasing=True))  # likewise, nearest to the values
_NEAR = np.linspace(-1.0, 1.0, 4097)  # where the lowest place of a polynomial is looked for, over the farthest
_FARTHEST_MOVE = 30.0  # in gaps, if it lies beyond the window
_WINDOWS = 60
_CALM = 1e-11  # a step that changes the power by less, relatively, ends the search
_CALM_ENOUGH = 1e-7  # likewise, for a bound of which six digits are asked
_NARROW = 1e-9  # a gap of this size, over the same shift, is the last
_DIGITS = 1e-6  # relative distance of a certified μ from the smallest one
_MOST_RAISE = 1e3  # a μ that is raised by more, relatively, proves nothing
_FIRST_PLACES, _ROUNDS = 17, 40
_BITS = 128
_LEAST_MU = 1e-9  # where the search starts
_FARTHER = 1.1  # factor between ends that are tried
_INSIDE = Fraction(7, 8)  # the places of a proof end where δ is this share of the slack


Curve = tuple[float, Callable[[Floats], Floats]]  # an ε, and a bound of the larger δ from 0 on, small there


class CertifiedMu(NamedTuple):
    """A μ and a slack say: δ(ε) ≤ δ_μ(ε) + slack at every real ε, in both orders (thm:certified-mu)."""

    mu: float
    slack: float


def largest_power(delta: Callable[..., Any], alpha: Floats, advantage: float, calm: float = _CALM) -> Floats:
    """Return the least δ(ε) + e^ε α over real ε, for each α: no test of level α has more power (thm:tradeoff).

    `advantage` is about δ(0), for a guess, and `calm` the relative change that ends a search. One order is searched
    first, which is quicker. Where the other one has no more at the lowest place, that is the answer.

    >>> equal = lambda e, order: np.maximum(0.0, -np.expm1(e))  # two equal laws
    >>> largest_power(equal, np.array([0.25, 1.0]), 0.0).round(12)
    array([0.25, 1.  ])
    """
    level = np.log(np.maximum(alpha, _LEAST_LEVEL))
    shift = min(max(2.0 * float(scipy.special.ndtri(0.5 + 0.5 * advantage)), 1e-6), 30.0)
    guess = shift * (-scipy.special.ndtri(np.clip(alpha, _LEAST_LEVEL, 0.999)) - 0.5 * shift)
    less, place = _lowest_powers(lambda e: delta(e, order="remove"), level, guess, shift, calm)
    with np.errstate(divide="ignore"):
        power = np.maximum(less, np.logaddexp(np.log(delta(place, order="add")), place + level))
    more = ~(power <= less + calm)
    if more.any():
        both = _lowest_powers(lambda e: delta(e, order="worst"), level[more], guess[more], shift, calm)[0]
        power[more] = np.minimum(power[more], both)
    return np.asarray(np.exp(np.minimum(power, 0.0)))


def _lowest_powers(
    delta: Callable[[Floats], Any], level: Any, guess: Any, shift: float, calm: float
) -> tuple[Floats, Floats]:
    """Return the least log(δ(ε) + e^(ε + level)) that was found, at most 0, and its ε, for each level.

    The sum is convex in e^ε, so it falls and then rises. Windows of seven places close in on the lowest one: around the
    lowest place of a polynomial through log δ, or over the whole of what is left if that failed once, as it does where
    the orders cross.
    """
    best, place, last = np.zeros(level.size), guess.copy(), _WINDOW.size - 1
    todo: Any = np.arange(level.size)
    gap: Any = np.full(level.size, _FIRST_GAP * shift)
    centre, aim, smooth, left, right = guess, best.copy(), gap == gap, best - math.inf, best + math.inf
    for _ in range(_WINDOWS):
        grid = np.clip(centre[:, None] + gap[:, None] * _WINDOW, -_MAX_EPSILON, _MAX_EPSILON)
        places, where = np.unique(grid, return_inverse=True)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(delta(places)), _LOG_LEAST)[where].reshape(grid.shape)
        power = np.logaddexp(logs, grid + level[todo, None])
        low, rows = power.argmin(axis=1), np.arange(todo.size)
        place[todo] = np.where(power[rows, low] < best[todo], grid[rows, low], place[todo])
        best[todo] = np.minimum(best[todo], power[rows, low])
        settled = np.abs(best[todo] - aim) <= calm  # as the last window foretold
        left = np.maximum(left, np.where(low > 0, grid[rows, np.maximum(low - 1, 0)], -math.inf))
        right = np.minimum(right, np.where(low < last, grid[rows, np.minimum(low + 1, last)], math.inf))
        inside, between = (low > 0) & (low < last), right - left < math.inf
        move, aim = _lowest(logs, centre + level[todo], gap, inside)
        smooth &= inside | ~between
        with np.errstate(invalid="ignore"):
            centre = np.where(smooth, centre + move, 0.5 * (left + right))
            gap = np.where(smooth, np.where(inside, gap * _NEXT_GAP, gap), (right - left) / (last - 1))
        going = ~settled & (np.abs(centre) < _MAX_EPSILON) & (gap > _NARROW * shift)
        todo, centre, gap, left, right, smooth, aim = (a[going] for a in (todo, centre, gap, left, right, smooth, aim))
        if not todo.size:
            break
    return best, place


def _lowest(logs: Floats, line: Floats, gap: Floats, inside: Any) -> tuple[Floats, Floats]:
    """Return how far the lowest power lies from the middle of a window, and its log, by a polynomial through log δ.

    The polynomial goes through all places. If the lowest power lies beyond them, it is a parabola.
    """
    t = np.where(inside, _WINDOW[-1], _FARTHEST_MOVE)[:, None] * _NEAR  # in gaps
    series = np.where(inside[:, None], logs @ _THROUGH_ALL.T, np.pad(logs @ _PARABOLA.T, ((0, 0), (0, 4))))
    curve = np.zeros(t.shape)
    for k in range(_WINDOW.size - 1, -1, -1):
        curve = curve * t + series[:, k, None]
    power = np.logaddexp(np.minimum(curve, 0.0), line[:, None] + gap[:, None] * t)
    least, rows = power.argmin(axis=1), np.arange(len(logs))
    return gap * t[rows, least], power[rows, least]


# ---------------------------------------------------------------------- the smallest μ, with a proof


def certified_mu(upper: Callable[[Floats], Floats], end: float, slack: float) -> float:
    """Return a μ with δ(ε) ≤ δ_μ(ε) + slack at every real ε in both orders, the smallest to six digits.

    Cells between two places are halved until their chords prove a μ that the places need (thm:certified-mu).

    Parameters
    ----------
    upper : callable
        A certified upper bound of the larger δ of both orders at each entry of a vector ε ≥ 0.
    end : float
        An ε at which this bound is at most the slack.
    slack : float
        A positive number.
    """
    x, mu = np.linspace(0.0, end, _FIRST_PLACES), 0.0
    y = upper(x)
    for _ in range(_ROUNDS):
        y = np.minimum.accumulate(y)  # δ never rises
        beyond = np.flatnonzero(y <= slack)[1:]  # one place with so small a δ is enough
        x, y = np.delete(x, beyond), np.delete(y, beyond)
        mu = _least_mu(x, y, slack, mu)
        wide = ~(_largest_gap(mu * (1.0 + 0.9 * _DIGITS), x[:-1], x[1:], y[:-1], y[1:])[0] <= slack)
        if not wide.any():
            break
        middle, at = (0.5 * (x[:-1] + x[1:]))[wide], np.flatnonzero(wide) + 1
        x, y = np.insert(x, at, middle), np.insert(y, at, upper(middle))
    more = _DIGITS
    while not _proved(mu * (1.0 + more), x, y, slack):
        more *= 2.0
        if not more < _MOST_RAISE:
            raise PrecisionError("no μ was proved; take a larger slack")
    return mu * (1.0 + more)


def _shift_delta(epsilon: Any, mu: float) -> Any:
    """Return δ_μ(ε) as a difference of two tails, quickly: to choose places, and for no proof."""
    tail = scipy.special.log_ndtr(-epsilon / mu - 0.5 * mu)
    return scipy.special.ndtr(0.5 * mu - epsilon / mu) - np.exp(epsilon + tail)


def _largest_gap(mu: float, a: Floats, b: Floats, at_a: Floats, at_b: Floats) -> tuple[Floats, Floats]:
    """Return the largest excess of a chord in e^ε over δ_μ between two places, and the ε at which it is reached.

    The excess is concave in e^ε, so it is largest where δ_μ has the slope of the chord, or at an end.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = (at_a - at_b) / (np.exp(a) * np.expm1(b - a))
        place = -mu * (scipy.special.ndtri(slope) + 0.5 * mu)
        place = np.clip(np.where(np.isnan(place), a, place), a, b)
        share = np.expm1(place - a) / np.expm1(b - a)
    chord = at_a + (at_b - at_a) * np.where(a < b, share, 0.0)
    return chord - _shift_delta(place, mu), place


def _least_mu(x: Floats, y: Floats, slack: float, mu: float) -> float:
    """Return the smallest μ, from a given one on, with δ ≤ δ_μ + slack at some places."""

    def excess(m: float) -> float:
        return float(np.max(y - slack - _shift_delta(x, m)))

    low = max(mu, _LEAST_MU)
    if not excess(low) > 0.0:
        return low
    high = 2.0 * low
    while not excess(high) <= 0.0:
        high *= 2.0
        if not high < math.inf:
            raise PrecisionError("no μ is large enough; take a larger slack")
    return (1.0 + 2.0**-40) * float(scipy.optimize.brentq(excess, low, high, rtol=2.0**-40))


def _proved(mu: float, x: Floats, y: Floats, slack: float) -> bool:
    """Say if upper bounds y of δ at places x prove δ ≤ δ_μ + slack at every ε ≥ 0 (thm:certified-mu)."""
    if not y[-1] <= slack:
        return False
    touch = _largest_gap(mu, x[:-1], x[1:], y[:-1], y[1:])[1]
    with precision(_BITS):
        half, root = arb(mu) ** 2 / 2, arb(2).sqrt() * arb(mu)
        z, bounds = [arb(e).exp() for e in x.tolist()], [arb(bound) - slack for bound in y.tolist()]
        for i, e in enumerate(touch.tolist()):
            p, q = ((arb(e) - half) / root).erfc() / 2, ((arb(e) + half) / root).erfc() / 2
            if not (p - z[i] * q >= bounds[i] and p - z[i + 1] * q >= bounds[i + 1]):
                return False
    return True


class Risks(BatchedProfile):
    """Methods of a privacy profile that say its risks in plain numbers."""

    delta: Any
    epsilon: Any
    certified_epsilon: Any
    _certify: Any
    _compositions: Any

    def _upper_deltas(self, epsilon: Floats, order: Any = "worst") -> Floats:
        """Return an upper bound of δ at each ε of a vector, in floats.

        Rounding moved a loss x by at most u(mean + |x|), and four times the `uncertainty` is such a u. Let L be the
        loss in floats and L* the exact one, and let L = x where L* = ε. Then L* − ε ≤ (1+u)(L − x). Since 1 − e^−y is
        concave in y and 0 at 0, E[1 − e^(ε−L*)]₊ ≤ (1+u) E[1 − e^(x−L)]₊, which is (1+u) δ(x). Here x lies above ε − r
        for the r below. `PrivacyProfile.epsilon` takes e^r δ(ε−r), and an r for up to four times its answer. This bound
        has both factors. The digits of floats, relative to δ, come on top.
        """
        blurs = [(group.blur(one), group.count) for group in self.groups for one in ORDERS]
        u = 4.0 * max(uncertainty for (uncertainty, _), _ in blurs)
        r = u * (math.fsum(n * size for (_, size), n in blurs) + 4.0 * np.abs(epsilon)) if u > 0.0 else 0.0
        deltas = np.maximum(self.delta(epsilon - r, order=order), _LEAST_DELTA)
        digits = max([WIDTH, *(one.floats.accepted for one in self._compositions(order))])
        return np.asarray(np.minimum(deltas * np.exp(r + (2.0 * digits + u) * (1.0 - np.log(deltas))), 1.0))

    @kept
    def total_variation(self) -> float:
        """Return the largest total variation distance of two neighbours, δ(0), rounded up.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_noise_multiplier(0.5).total_variation(), 9)
        0.682689492
        """
        return float(self._upper_deltas(np.zeros(1))[0])

    def advantage(self) -> float:
        """Return the largest advantage of a membership attack, true less false positive rate: the total variation."""
        return self.total_variation()

    @broadcasts
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """Return the least type II error of a test between neighbours with type I error `alpha`. It broadcasts.

        This is f(α) = sup over real ε of [1 − δ(ε) − e^ε α]₊ with the worse order at each ε (thm:tradeoff). So it is
        exact for compositions too. Every ε gives a lower bound, and the search returns the largest.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile.from_noise_multiplier(1.0)
        >>> round(profile.tradeoff(0.05), 9)  # Φ(Φ⁻¹(0.95) − 1)
        0.740488977
        """
        level = as_share("alpha", alpha)
        power = largest_power(self.delta, level.ravel(), self.total_variation())
        return shaped(np.minimum(1.0 - power, 1.0 - level.ravel()), level.shape)

    @broadcasts
    def true_positive_rate(self, at_false_positive_rate: ArrayLike) -> float | Floats:
        """Return the largest true positive rate of an attack with this false positive rate, rounded up. It broadcasts.

        The attack may be on membership: it says who is in the data. If it guesses a secret, such as an attribute, take
        the chance of a guess without the release. Then the answer bounds the chance with it.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062).profile()
        >>> training.true_positive_rate([1e-12, 1e-3, 0.01]).round(15)
        array([...])
        """
        level = as_share("at_false_positive_rate", at_false_positive_rate)
        power = largest_power(self._upper_deltas, level.ravel(), self.total_variation(), _CALM_ENOUGH)
        return shaped(np.minimum(power * _UP, 1.0), level.shape)

    @broadcasts
    def bayes_risk(self, prior: ArrayLike) -> float | Floats:
        """Return the least chance that a guess of membership is wrong, rounded down, if it was `prior` before.

        A guess without the release is wrong with chance min(prior, 1 − prior). With m for that it is wrong with chance
        m(1 − δ(log((1−m)/m))) at least, because P(S) ≤ δ + e^ε Q(S) for the event S of one answer. It broadcasts.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_noise_multiplier(1.0).bayes_risk(0.5), 9)  # Φ(−½)
        0.308537539
        """
        chance = as_probability("prior", prior)
        less = np.minimum(chance, 1.0 - chance).ravel()
        # at an ε that is a little too large the bound is (1−m) e^−ε (1 − δ(ε))
        epsilon = np.log((1.0 - less) / less) * _UP + 2.0**-50
        risk = (1.0 - less) * np.exp(-epsilon) * (1.0 - self._upper_deltas(epsilon)) / _UP
        return shaped(risk, chance.shape)

    @broadcasts
    def renyi(self, order: ArrayLike) -> float | Floats:
        """Return the larger Rényi divergence of neighbours in both orders, rounded up. It broadcasts.

        The order is at least 1. Order 1 is the mean loss, and order ∞ the largest one. A positive failure probability
        leaves nothing finite.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_noise_multiplier(1.0).renyi(8.0), 9)
        4.0
        """
        orders = as_reals("order", order)
        require((orders >= 1).all(), "order", "be at least 1", order)
        values = np.full(orders.size, math.inf)
        if not self.failure_probability and not any(group.singular for group in self.groups):
            both = [Composition([(g.law(one), g.count) for g in self.groups], one) for one in ORDERS]
            values = np.maximum(*(one.renyi(orders.ravel()) for one in both))
        return shaped(values, orders.shape)

    def report(self, delta: float = 1e-6, *, groups: tuple[int, ...] = (2, 5, 10), title: str = "") -> RiskCard:
        """Return the risk card: what the guarantee at δ means for one person, for groups, and compared with others.

        >>> import ndis
        >>> card = ndis.PrivacyProfile.from_noise_multiplier(2.0).report(1e-6)
        >>> round(card.epsilon, 6), round(card.guesses, 6), card.groups[0][0]
        (2.254085, 0.598706, 2)
        """
        return risk_card(self, delta, groups=groups, title=title)

    def gdp(self, slack: float = 1e-10) -> CertifiedMu:
        """Return the smallest μ, to six digits, with a proof of δ(ε) ≤ δ_μ(ε) + slack at every real ε in both orders.

        δ_μ belongs to two Gaussians at distance μ. Whatever is known of them holds for the profile, up to the slack.
        Without slack the tails decide: a run of DP-SGD has μ = √steps/σ at every rate. A μ of infinity means that no
        other is large enough. The proof is thm:certified-mu.

        >>> import ndis
        >>> ndis.PrivacyProfile.from_noise_multiplier(2.0).repeat(4).gdp()
        CertifiedMu(mu=1.0, slack=1e-10)
        """
        given = as_scalar("slack", slack)
        require(0 <= given < 1, "slack", "be at least 0 and below 1", given)
        failure = Fraction(self.failure_probability)
        if given < failure or any(group.singular for group in self.groups):
            return CertifiedMu(math.inf, given)
        tails, left = _dominating_shift(self.groups), down(Fraction(given) - failure)
        if left == 0.0 or (tails < math.inf and not any(group.sampled for group in self.groups)):
            return CertifiedMu(tails, given)
        end, upper = self._upper_curve(left)
        return CertifiedMu(min(certified_mu(upper, end, left), tails) if end < math.inf else tails, given)

    def _upper_curve(self, size: float) -> Curve:
        """Return an ε and a function that bounds the larger δ up to there, where it is below a size.

        The failure probability does not count. A curve serves every larger size too, and is kept.
        """
        if known := [curve for least, curve in self._curves.items() if least <= size]:
            return known[0]
        both = self._compositions("worst")
        shared = all(isinstance(g, StepGroup) or g.add.same_origins(g.remove.reversed()) for g in self.groups)
        for exact in (True, False):
            with suppress(PrecisionError):
                return self._curves.setdefault(size, _line_of_moments(both, size, shared=shared, exact=exact))
        aim = down(Fraction(self.failure_probability) + Fraction(size) * _INSIDE)
        end = float((self.epsilon if self.attained else self.certified_epsilon)(aim))  # other certificates are wide

        def upper(epsilon: Floats) -> Floats:
            bounds = [[self._certify(one, e, SAMPLED_WIDTH).upper for e in epsilon.tolist()] for one in ORDERS]
            return np.asarray(np.max(bounds, axis=0))

        return end, upper

    @cached_property
    def _curves(self) -> dict[float, Curve]:
        """Curves that are known, by the size for which they were made."""
        return {}


def _line_of_moments(both: list[Composition], size: float, *, shared: bool, exact: bool) -> Curve:
    """Return a curve whose places cost next to nothing, from one line of moments for both orders, or one for each.

    One line serves both orders only if they are `shared`: every pair of one order is that of the other, reversed.
    Without `exact` discrete laws stand in for all sampled steps.
    """
    if not both:
        raise PrecisionError("one release has a closed form")
    goal = math.log(size)
    end = max(one.floats.guess(goal) for one in both)
    while not all(one.below(end, goal) for one in both):
        end *= _FARTHER
    if exact and shared:
        with suppress(PrecisionError):
            return end, UpperCurve(both[-1], end, size, both=True)
    lines = [UpperCurve(one, end, size, both=False, exact=exact) for one in both]
    return end, lambda epsilon: np.maximum.reduce([line(epsilon) for line in lines])


def _dominating_shift(groups: tuple[Group | StepGroup, ...]) -> float:
    """Return the distance of two Gaussians that dominate all releases without their sampling; infinite if none do.

    The unsampled release dominates (thm:sampled-dominance). A pair with different variances has a loss whose tail no
    Gaussian loss covers.
    """
    square = Fraction(0)
    for group in groups:
        if isinstance(group, StepGroup) or any((group.pair(one).excess != 0.0).any() for one in ORDERS):
            return math.inf
        square += group.count * max(_square(group.pair(one)) for one in ORDERS)
    return root_up(square) if square else 0.0


def _square(pair: GaussianPair) -> Fraction:
    directions = zip(pair.shift.tolist(), pair.copies.tolist(), strict=True)
    return sum((int(n) * Fraction(m) ** 2 for m, n in directions), Fraction(0)) * (1 + 8 * Fraction(pair.uncertainty))
