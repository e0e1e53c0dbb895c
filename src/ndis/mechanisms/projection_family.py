"""The exact privacy of a random projection as a function of its ridge, and the searches over the ridge (theory §7).

One record v, ‖v‖ ≤ l, changes the covariance DᵀD + λI of each of the r columns by vvᵀ: one direction, r copies, with
variance ratio 1 + h, h = vᵀ(D'ᵀD' + λI)⁻¹v ≤ l²/λ. The bound is attained where D' is empty, so the pair {t = l²/λ, r
copies} is the worst case itself (lemma: rp inherent, prop:grp-monotone). In the paper's terms p = h/(1+h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ndis.calibrate import smallest_safe
from ndis.errors import BudgetError, ParameterError
from ndis.mechanisms.base import Adjacency
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = [
    "CALIBRATIONS",
    "SketchFamily",
    "as_calibration",
    "as_size",
    "calibrated_ridge",
    "certified_delta",
    "round_up",
]

CALIBRATIONS = ("exact", "paper", "lsv", "renyi")
_WIDTH = 1e-12  # relative width of the certificates: far below the 1e-6 in leverage that calibration promises


@dataclass(frozen=True)
class SketchFamily:
    """Everything about a projection but its ridge.

    Parameters
    ----------
    bounds : tuple of float
        Norm bounds of the groups of columns of a row; l² = Σ b².
    sketch_size : int
        r, the number of columns drawn.
    adjacency : str
    rate : float
        Probability with which a record enters; 1 without sampling.
    test_shift : float
        By how many standard deviations of its noise one record may move a test released along with the sketch.
    failure_probability : float
        What the test may fail with, to be added to δ.

    Examples
    --------
    >>> family = SketchFamily((1.0,), 100, "add-remove")
    >>> round(family.profile(35.540172107).delta(1.0), 12)
    1e-06
    """

    bounds: tuple[float, ...]
    sketch_size: int
    adjacency: Adjacency
    rate: float = 1.0
    test_shift: float = 0.0
    failure_probability: float = 0.0

    @property
    def squared_bound(self) -> Fraction:
        """l², exactly."""
        return sum((Fraction(b) ** 2 for b in self.bounds), Fraction(0))

    def one_record(self, ridge: float) -> GaussianPair:
        """The sketch with a record of norm l from the sketch of nothing: t = l²/ridge exactly, r copies."""
        return GaussianPair.from_excess(self.squared_bound / Fraction(ridge), copies=self.sketch_size)

    def profile(self, ridge: float) -> PrivacyProfile:
        """The guarantee at this ridge.

        Replacing v by w leaves a covariance between 1/(1+h) and 1+h times the other one, and their difference has rank
        two, one direction of each sign. Ratios moved towards 1 are post-processing, so {h, r copies} with its own
        reverse dominates (theory §2); orthogonal rows attain it.
        """
        pair = self.one_record(ridge)
        if self.adjacency == "replace-one":
            pair = pair.compose(pair.reversed())
        if self.test_shift:
            pair = pair.compose(GaussianPair.from_ratios(1.0, shift=self.test_shift))
        whole = PrivacyProfile(pair, failure_probability=self.failure_probability, adjacency=self.adjacency)
        return whole.subsampled(self.rate)


@lru_cache(maxsize=256)
def certified_delta(family: SketchFamily, ridge: float, epsilon: float) -> float:
    """The upper end of an enclosure of δ(ε), the worse order."""
    return family.profile(ridge).certify(epsilon, relative_width=_WIDTH).upper


def calibrated_ridge(family: SketchFamily, calibration: str, *, epsilon: float, delta: float) -> float:
    """The ridge that one of the `CALIBRATIONS` gives for a budget. Only "exact" is the smallest one.

    >>> family = SketchFamily((1.0,), 100, "add-remove")
    >>> exact = calibrated_ridge(family, "exact", epsilon=1.0, delta=1e-6)
    >>> paper = calibrated_ridge(family, "paper", epsilon=1.0, delta=1e-6)
    >>> round(exact, 6), round(paper - exact, 12)
    (35.540172, 1.0)
    """
    if calibration == "lsv":
        return _least_singular_value(family, epsilon, delta)
    if calibration == "renyi":
        return _smallest(family, _renyi(family, epsilon), epsilon, delta)
    if calibration == "paper":
        family, epsilon, delta = _split(family, epsilon, delta)
    ridge = _smallest(family, _exact(family, epsilon), epsilon, delta)
    if calibration == "exact":
        return ridge
    return round_up(Fraction(ridge) + family.squared_bound)  # l²/p* = l²/h* + l²


def round_up(value: Fraction) -> float:
    """The smallest float not below a rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


Curve = Callable[[float], float]


def _smallest(family: SketchFamily, curves: tuple[Curve, Curve], epsilon: float, delta: float) -> float:
    """The smallest ridge, from a guess by the loss's standard deviation h√(r/2), about ε over a normal quantile."""
    log_delta, upper = curves
    spread = math.sqrt(0.5 * family.sketch_size) * math.sqrt(-2.0 * math.log(delta)) / max(epsilon, 1e-3)
    return smallest_safe(log_delta, upper, delta=delta, start=float(family.squared_bound) * max(1.0, spread))


def _split(family: SketchFamily, epsilon: float, delta: float) -> tuple[SketchFamily, float, float]:
    """The sketch alone with what the test leaves: ε_R = ε − ε_T, and half of δ − δ_ptr each (alg:ptr-rp)."""
    if not family.test_shift:
        return family, epsilon, delta
    half = 0.5 * (delta - family.failure_probability)
    rest = epsilon - GaussianPair.from_ratios(1.0, shift=family.test_shift).epsilon(half)
    if not rest > 0:
        raise BudgetError("the test alone spends all of epsilon in the paper's split; take a larger test_noise_std")
    return replace(family, test_shift=0.0, failure_probability=0.0), rest, half


def _exact(family: SketchFamily, epsilon: float) -> tuple[Curve, Curve]:
    return (
        lambda ridge: float(family.profile(ridge).log_delta(epsilon)),
        lambda ridge: certified_delta(family, ridge, epsilon),
    )


def _renyi(family: SketchFamily, epsilon: float) -> tuple[Curve, Curve]:
    """The Rényi bound of the pair, each order, in place of δ; sampling by `alg:subsampled-wrapper-rp`."""
    from ndis.spectrum.bounds import renyi_bound

    q = family.rate
    # log(1 + (e^ε − 1)/q), the second form where e^ε may overflow and e^−ε is below rounding
    inner = math.log1p(math.expm1(epsilon) / q) if epsilon < 50.0 else epsilon - math.log(q)
    whole = replace(family, rate=1.0, failure_probability=0.0)

    def upper(ridge: float) -> float:
        profile = whole.profile(ridge)
        worse = max(float(renyi_bound(pair, inner)) for pair in (profile.remove, profile.add))
        return math.nextafter(q * worse + family.failure_probability, math.inf)

    return lambda ridge: math.log(upper(ridge)), upper


def _least_singular_value(family: SketchFamily, epsilon: float, delta: float) -> float:
    """Sheffet's threshold p = ε / (4(√(2r ln(4/δ)) + ln(4/δ))) and ridge l²/p, both stated for add and remove
    (the baseline of fig:leverage-ratio)."""
    plain = family.rate == 1.0 and not family.test_shift and family.adjacency == "add-remove"
    if not plain:
        raise ParameterError("calibration", "be another for this mechanism", "'lsv'", "it knows plain add-remove only")
    if not epsilon > 0:
        raise BudgetError("the least-singular-value calibration has no ridge for epsilon = 0")
    log_term = math.log(4.0) - math.log(delta)
    p = epsilon / (4.0 * (math.sqrt(2.0 * family.sketch_size * log_term) + log_term))
    return float(family.squared_bound) / p


def as_calibration(value: Any) -> str:
    """The name of a way to calibrate, checked."""
    if not isinstance(value, str) or value not in (*CALIBRATIONS, "given"):
        raise ParameterError("calibration", f"be one of {', '.join(CALIBRATIONS)}", repr(value))
    return str(value)


def as_size(name: str, value: Any) -> int:
    """A number of rows or columns, checked."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= 2**40:
        raise ParameterError(name, "be a whole number of at least 1", value)
    return int(value)
