"""The law of a random projection, its exact privacy, and the searches over its ridge.

A sketch of D has r rows, each drawn from N(0, DᵀD + λI). One record v with ‖v‖ ≤ l changes this covariance by vvᵀ.
That is one direction in r copies, with variance ratio 1 + h, h = vᵀ(D'ᵀD' + λI)⁻¹v ≤ l²/λ. An empty D' attains the
bound. So the pair {t = l²/λ, r copies} is the worst case itself (thm:sketch-pair). The paper writes p = h/(1+h)
(lemma: rp inherent, prop:grp-monotone).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

from ndis._rounding import up
from ndis._search import smallest_safe
from ndis._validate import Adjacency, as_adjacency, as_scalar, as_size
from ndis.errors import BudgetError, ParameterError
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS, RowLayout
from ndis.mechanisms.mechanism import Attained
from ndis.mechanisms.rows import bounds_of, row_bounds
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.spectrum.bounds import renyi_bound

if TYPE_CHECKING:
    from ndis.mechanisms.projection import SketchMechanism

__all__ = [
    "CALIBRATIONS",
    "ProjectionLaw",
    "as_calibration",
    "calibrated_ridge",
    "certified_delta",
    "mean_shift",
]

CALIBRATIONS = ("exact", "paper", "lsv", "renyi")
_WIDTH = 1e-12  # relative width of the certificates: far below the 1e-6 in leverage that calibration promises


@dataclass(frozen=True)
class ProjectionLaw:
    """The law of a sketch: what decides its privacy, without any promise. Mechanisms and the auditor share it.

    Parameters
    ----------
    sketch_size : int
        r, the number of rows drawn.
    ridge : float
        λ, which is added to the diagonal of the Gram matrix.
    row_norm_bound, target_bound, intercept, fractional_bits
        The public description of a row; see `ndis.gram.exact_gram`.
    adjacency : str
        "add-remove" or "replace-one".
    rate : float
        Probability with which a record enters; 1 without sampling.
    test_shift : float
        The most by which one record moves a test that is released with the sketch, in standard deviations of its noise.
    failure_probability : float
        Probability with which the test may fail. Every δ includes it.

    Examples
    --------
    >>> from ndis.auditing import Claim, audit
    >>> law = ProjectionLaw(sketch_size=100, ridge=32.0, row_norm_bound=1.0)  # 35.54 would do
    >>> audit(Claim(epsilon=1.0, delta=1e-6), mechanism=law).refuted
    True
    >>> round(law.at(35.540172107).profile().delta(1.0), 12)
    1e-06
    """

    sketch_size: int
    ridge: float
    row_norm_bound: float
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    adjacency: Adjacency = "add-remove"
    rate: float = field(default=1.0, kw_only=True)
    test_shift: float = field(default=0.0, kw_only=True)
    failure_probability: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        as_adjacency(self.adjacency)
        object.__setattr__(self, "sketch_size", as_size("sketch_size", self.sketch_size))
        ridge = as_scalar("ridge", self.ridge)
        if not 2.0**-900 <= ridge <= 2.0**900:
            raise ParameterError("ridge", "be positive and between 2^-900 and 2^900", ridge)
        object.__setattr__(self, "ridge", ridge)
        for name, value in self.layout.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, mechanism: SketchMechanism) -> ProjectionLaw:
        """The law of a mechanism of the package."""
        return mechanism.law

    def at(self, ridge: float) -> Self:
        """The same law with another ridge."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, ridge=ridge)  # every other value is checked already
        return other

    @cached_property
    def row_layout(self) -> RowLayout:
        """A row of one feature, and of one target if there are targets: enough to add up the bounds."""
        return row_bounds(self.row_norm_bound, self.target_bound, self.intercept, self.fractional_bits)

    @property
    def layout(self) -> dict[str, Any]:
        """The public description of a row, as arguments of `exact_gram`."""
        return bounds_of(self.row_layout)

    @cached_property
    def squared_bound(self) -> Fraction:
        """l², exactly: the squared norm that no row exceeds."""
        return self.row_layout.joint_norm_bound_squared

    @property
    def is_gaussian(self) -> bool:
        """True if the output on given data is one Gaussian. A sample is a mixture, and a test is a second output."""
        return self.rate == 1.0 and not self.test_shift

    # ------------------------------------------------------------------ the guarantee

    def one_record(self, squared_norm: Fraction | None = None) -> GaussianPair:
        """The sketch of one record of norm l from the sketch of no record: t = l²/λ exactly, r copies."""
        square = self.squared_bound if squared_norm is None else squared_norm
        return GaussianPair.from_excess(square / Fraction(self.ridge), copies=self.sketch_size)

    def profile(self) -> PrivacyProfile:
        """The exact guarantee over all neighbours (thm:sketch-pair, thm:sketch-replace-one, thm:ptr-joint)."""
        pair = self.one_record()
        if self.adjacency == "replace-one":
            pair = pair.compose(pair.reversed())
        if self.test_shift:
            pair = pair.compose(mean_shift(self.test_shift))
        whole = PrivacyProfile(pair, failure_probability=self.failure_probability, adjacency=self.adjacency)
        return whole.subsampled(self.rate)

    def attained(self) -> tuple[Attained, ...]:
        """Neighbours on which the output has these exact profiles, from public parameters only.

        Under "replace-one" two orthogonal rows at the bound attain the guarantee. One column has no orthogonal rows.
        There the worst neighbours are a row at the bound and a zero row, with the profile of "add-remove". Beside a
        constant column, rows are not orthogonal in general, so only the zero row is listed. (A row that cannot be read
        becomes a zero row.)
        """
        pair = self.one_record()
        if self.adjacency == "add-remove":
            return (self.found("no rows, and one row at the bound", pair),)
        zero = self.found("one row at the bound, and one zero row", pair)
        if self.intercept is not None:
            return (zero,)
        other = self.one_record(Fraction(self.row_norm_bound) ** 2)
        both = "one row at the bound, and one row orthogonal to it with its features at the bound (two or more columns)"
        return zero, self.found(both, pair.compose(other.reversed()))

    def found(self, words: str, pair: GaussianPair) -> Attained:
        """Neighbours in words, with the profile of their pair under this law's sampling."""
        return Attained(words, PrivacyProfile(pair, adjacency=self.adjacency).subsampled(self.rate))


def mean_shift(standard_deviations: float) -> GaussianPair:
    """The pair of two equal covariances whose means are so many standard deviations apart."""
    return GaussianPair.from_ratios(1.0, shift=standard_deviations)


# ---------------------------------------------------------------------- calibration


@lru_cache(maxsize=256)
def certified_delta(law: ProjectionLaw, epsilon: float) -> float:
    """The upper end of an enclosure of δ(ε), for the worse order."""
    return law.profile().certify(epsilon, relative_width=_WIDTH).upper


def calibrated_ridge(law: ProjectionLaw, calibration: str, *, epsilon: float, delta: float) -> float:
    """The ridge that one of the `CALIBRATIONS` gives for a budget (fig:leverage-ratio). Only "exact" is the smallest.

    The ridge of `law` does not matter.

    >>> law = ProjectionLaw(sketch_size=100, ridge=1.0, row_norm_bound=1.0)
    >>> exact = calibrated_ridge(law, "exact", epsilon=1.0, delta=1e-6)
    >>> paper = calibrated_ridge(law, "paper", epsilon=1.0, delta=1e-6)
    >>> round(exact, 6), round(paper - exact, 12)
    (35.540172, 1.0)
    """
    if calibration == "lsv":
        return _least_singular_value(law, epsilon, delta)
    if calibration == "renyi":
        return _smallest(law, _renyi(law, epsilon), epsilon, delta)
    if calibration == "paper":
        law, epsilon, delta = _split(law, epsilon, delta)
    ridge = _smallest(law, _exact(law, epsilon), epsilon, delta)
    if calibration == "exact":
        return ridge
    return up(Fraction(ridge) + law.squared_bound)  # l²/p* = l²/h* + l²


Curve = Callable[[float], float]


def _smallest(law: ProjectionLaw, curves: tuple[Curve, Curve], epsilon: float, delta: float) -> float:
    """The smallest ridge. The guess: h√(r/2), the deviation of the loss, is about ε over a normal quantile."""
    log_delta, upper = curves
    spread = math.sqrt(0.5 * law.sketch_size) * math.sqrt(-2.0 * math.log(delta)) / max(epsilon, 1e-3)
    return smallest_safe(log_delta, upper, delta=delta, start=float(law.squared_bound) * max(1.0, spread))


def _split(law: ProjectionLaw, epsilon: float, delta: float) -> tuple[ProjectionLaw, float, float]:
    """The budget that the test leaves for the sketch: ε_R = ε − ε_T, and half of δ − δ_ptr (alg:ptr-rp)."""
    if not law.test_shift:
        return law, epsilon, delta
    half = 0.5 * (delta - law.failure_probability)
    rest = epsilon - mean_shift(law.test_shift).epsilon(half)
    if not rest > 0:
        raise BudgetError("the test alone spends all of epsilon in the paper's split; take a larger test_noise_std")
    return replace(law, test_shift=0.0, failure_probability=0.0), rest, half


def _exact(law: ProjectionLaw, epsilon: float) -> tuple[Curve, Curve]:
    return (
        lambda ridge: float(law.at(ridge).profile().log_delta(epsilon)),
        lambda ridge: certified_delta(law.at(ridge), epsilon),
    )


def _renyi(law: ProjectionLaw, epsilon: float) -> tuple[Curve, Curve]:
    """The Rényi bound of the pair in each order, in place of δ. Sampling follows `alg:subsampled-wrapper-rp`."""
    q = law.rate
    # log(1 + (e^ε − 1)/q); the second form if e^ε may overflow and e^−ε is below rounding
    inner = math.log1p(math.expm1(epsilon) / q) if epsilon < 50.0 else epsilon - math.log(q)
    whole = replace(law, rate=1.0, failure_probability=0.0)

    def upper(ridge: float) -> float:
        profile = whole.at(ridge).profile()
        worse = max(float(renyi_bound(pair, inner)) for pair in (profile.remove, profile.add))
        return math.nextafter(q * worse + law.failure_probability, math.inf)

    return lambda ridge: math.log(upper(ridge)), upper


def _least_singular_value(law: ProjectionLaw, epsilon: float, delta: float) -> float:
    """Sheffet's threshold p = ε / (4(√(2r ln(4/δ)) + ln(4/δ))) and ridge l²/p, both for add and remove.

    They are the baseline of fig:leverage-ratio.
    """
    if not (law.is_gaussian and law.adjacency == "add-remove"):
        raise ParameterError("calibration", "be another for this mechanism", "'lsv'", "it knows plain add-remove only")
    if not epsilon > 0:
        raise BudgetError("the least-singular-value calibration has no ridge for epsilon = 0")
    log_term = math.log(4.0) - math.log(delta)
    p = epsilon / (4.0 * (math.sqrt(2.0 * law.sketch_size * log_term) + log_term))
    return float(law.squared_bound) / p


def as_calibration(value: Any) -> str:
    """The name of a way to calibrate, checked."""
    if not isinstance(value, str) or value not in (*CALIBRATIONS, "given"):
        raise ParameterError("calibration", f"be one of {', '.join(CALIBRATIONS)}", repr(value))
    return str(value)
