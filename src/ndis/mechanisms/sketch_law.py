"""Describe the law of a random projection, compute its exact privacy, and search for its smallest ridge.

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
from typing import Any, Self

from ndis._exact import up
from ndis._search import smallest_safe
from ndis._validate import Adjacency, as_adjacency, as_one_probability, as_scalar, as_size, as_within, require
from ndis.gram.accumulator import LEAST_RATE
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS, RowLayout
from ndis.mechanisms.mechanism import Attained
from ndis.mechanisms.rows import bounds_of, row_bounds
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

_WIDTH = 1e-12  # relative width of the certificates: far below the 1e-6 in leverage that calibration promises


@dataclass(frozen=True)
class ProjectionLaw:
    """The law of a sketch decides its privacy, without any promise. Mechanisms and the auditor share it.

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
    test_noise_std : float, optional
        Standard deviation of the noise of a test that is released with the sketch. One record moves it by at most l².
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
    test_noise_std: float | None = field(default=None, kw_only=True)
    failure_probability: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        as_adjacency(self.adjacency)
        checked: dict[str, Any] = {
            "sketch_size": as_size("sketch_size", self.sketch_size),
            "ridge": as_within("ridge", self.ridge, 900),
            "rate": as_scalar("rate", self.rate),
            **self.layout,
        }
        if self.test_noise_std is not None:
            checked["test_noise_std"] = as_within("test_noise_std", self.test_noise_std, 400)
            checked["failure_probability"] = as_one_probability("failure_probability", self.failure_probability)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        require(LEAST_RATE <= self.rate <= 1, "rate", "be at least 2^-40 and at most 1", self.rate)
        good = self.rate == 1 or self.adjacency == "add-remove"
        remedy = "a replaced record leaves a mixture on both sides, which is no pair of Gaussians"
        require(good, "adjacency", "be 'add-remove' with Poisson sampling", repr(self.adjacency), remedy)

    def at(self, ridge: float) -> Self:
        """Return this law with another ridge."""
        return replace(self, ridge=ridge)

    @cached_property
    def row_layout(self) -> RowLayout:
        """Lay out a row of one feature, and of one target if there are targets: enough to add up the bounds."""
        return row_bounds(self.row_norm_bound, self.target_bound, self.intercept, self.fractional_bits)

    @property
    def layout(self) -> dict[str, Any]:
        """Return the public description of a row, as arguments of `exact_gram`."""
        return bounds_of(self.row_layout)

    @cached_property
    def squared_bound(self) -> Fraction:
        """Return l², exactly: the squared norm that no row exceeds."""
        return self.row_layout.joint_norm_bound_squared

    @property
    def test_shift(self) -> float:
        """Return the most by which one record moves the test, in standard deviations of its noise; 0 without a test."""
        return 0.0 if self.test_noise_std is None else up(self.squared_bound / Fraction(self.test_noise_std))

    @property
    def is_gaussian(self) -> bool:
        """Say if the output on given data is one Gaussian. A sample is a mixture, and a test is a second output."""
        return self.rate == 1.0 and not self.test_shift

    # ------------------------------------------------------------------ the guarantee

    def one_record(self, squared_norm: Fraction | None = None) -> GaussianPair:
        """Compare the sketch of one record of norm l with the sketch of no record: t = l²/λ exactly, r copies."""
        square = self.squared_bound if squared_norm is None else squared_norm
        return GaussianPair.from_excess(square / Fraction(self.ridge), copies=self.sketch_size)

    def profile(self) -> PrivacyProfile:
        """Return the exact guarantee over all neighbours (thm:sketch-pair, thm:sketch-replace-one, thm:ptr-joint)."""
        pair = self.one_record()
        if self.adjacency == "replace-one":
            pair = pair.compose(pair.reversed())
        if self.test_shift:
            pair = pair.compose(mean_shift(self.test_shift))
        whole = PrivacyProfile(pair, failure_probability=self.failure_probability, adjacency=self.adjacency)
        return whole.subsampled(self.rate)

    def attained(self) -> tuple[Attained, ...]:
        """List neighbours on which the output has these exact profiles, from public parameters only.

        Under "replace-one" two orthogonal rows at the bound attain the guarantee. One column has no orthogonal rows.
        There the worst neighbours are a row at the bound and a zero row, with the profile of "add-remove". With a
        constant column, rows are not orthogonal in general, so only the zero row is listed. (A row that cannot be read
        becomes a zero row.)
        """
        pair = self.one_record()
        if self.adjacency == "add-remove":
            return (self.described("no rows, and one row at the bound", pair),)
        zero = self.described("one row at the bound, and one zero row", pair)
        if self.intercept is not None:
            return (zero,)
        other = self.one_record(Fraction(self.row_norm_bound) ** 2)
        both = "one row at the bound, and one row orthogonal to it with its features at the bound (two or more columns)"
        return zero, self.described(both, pair.compose(other.reversed()))

    def described(self, words: str, pair: GaussianPair) -> Attained:
        """Describe neighbours in words, with the profile of their pair under this law's sampling."""
        return Attained(words, PrivacyProfile(pair, adjacency=self.adjacency).subsampled(self.rate))


def mean_shift(standard_deviations: float) -> GaussianPair:
    """Return the pair of two equal covariances whose means are this many standard deviations apart."""
    return GaussianPair.from_ratios(1.0, shift=standard_deviations)


# ---------------------------------------------------------------------- calibration


@lru_cache(maxsize=256)
def certified_delta(law: ProjectionLaw, epsilon: float) -> float:
    """Return the upper end of an enclosure of δ(ε), for the worse order."""
    return law.profile().certify(epsilon, relative_width=_WIDTH).upper


Curves = tuple[Callable[[float], float], Callable[[float], float]]  # log δ in floats, and a certified upper end of δ


def smallest_ridge(law: ProjectionLaw, epsilon: float, delta: float, *, curves: Curves | None = None) -> float:
    """Find the smallest ridge whose certified δ at ε is within δ (fig:leverage-ratio); that of `law` plays no part.

    The search starts from a guess: h√(r/2), the deviation of the loss, is about ε over a normal quantile.

    >>> law = ProjectionLaw(sketch_size=100, ridge=1.0, row_norm_bound=1.0)
    >>> round(smallest_ridge(law, 1.0, 1e-6), 6)
    35.540172
    """
    log_delta, upper = curves or (
        lambda ridge: float(law.at(ridge).profile().log_delta(epsilon)),
        lambda ridge: certified_delta(law.at(ridge), epsilon),
    )
    spread = math.sqrt(0.5 * law.sketch_size) * math.sqrt(-2.0 * math.log(delta)) / max(epsilon, 1e-3)
    return smallest_safe(log_delta, upper, delta=delta, start=float(law.squared_bound) * max(1.0, spread))
