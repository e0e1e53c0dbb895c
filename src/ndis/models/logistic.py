"""Bayesian logistic regression has a Gaussian posterior with Böhning's covariance (def:blr-gaussian-output).

    μ = argmin Σ log(1 + exp(−yᵢxᵢᵀw)) + (λ/2)‖w‖²,        Σ⁻¹ = λI + ¼ Σ xᵢxᵢᵀ

One record changes Σ⁻¹ by ¼xxᵀ, of rank one, and μ by at most ‖x‖/λ. Both come from the same x. The covariance changes
most in a direction in which it is wide, and there the same shift counts for less. The model releases a draw from
N(μ, Σ) plus noise, or μ plus noise. The proofs are in docs/theory.md (thm:logistic-record).

**If the number of records is promised**, it is at most n, each of norm at most l. The minimiser μ satisfies
λμ = Σ σ(−mᵢ)zᵢ with mᵢ = zᵢᵀμ. So λ‖μ‖² = Σ mᵢσ(−mᵢ). Here mσ(−m) is at most W(1/e) = 0.27846…, and at most m/2 for
m ≥ 0. Hence

    ‖μ‖ ≤ R = min(√(n W(1/e)/λ), nl/(2λ)),        |margins| ≤ lR,

and two factors follow: a ≤ ā = σ(lR), and Hessian weights of at least σ'(lR) = ρ/4 (thm:logistic-records).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._balls import outward, precision
from ndis._exact import ExactArray, exact_array
from ndis._validate import Floats, as_choice, as_one_positive, as_scalar, as_size
from ndis.errors import ParameterError
from ndis.gram.accumulator import GramAccumulator
from ndis.gram.host import integer_tiles
from ndis.gram.rows import RowLayout
from ndis.mechanisms.lifted import noisy_pair
from ndis.mechanisms.mechanism import Attained
from ndis.models.exact_solve import Release, covariance_before_noise, exact_inverse
from ndis.models.newton import minimise
from ndis.models.records import read_records
from ndis.profile import PrivacyProfile
from ndis.worst_case.envelopes import DominatingPairs, RankOneEnvelope, mean_envelope

_BITS = 128
_EVEN, _TOP = 32, 14  # pieces of the range of t: even ones, and ones that shrink towards its end
_ROUNDED = 2.0**-38  # by how much of itself `_covariance` may round λ up
_DEFAULT_TOLERANCE = 2.0**-20  # times the norm bound: it costs 4·10⁻⁶ of the noise
_PENALTY_BITS = 20
_CROWD = 2000  # records of the worst known neighbours, if max_records allows
_MARGINS = (2.0, 3.0, 4.0, 6.0)  # margins tried for the record among them, once it has pulled
_LARGEST_PULL = (27847, 100000)  # above W(1/e) = 0.278464…, the maximum of m/(1 + e^m)
_SHARES = (*(k / 64 for k in range(1, 65)), *(1 - 2.0**-k for k in range(7, 21)), *(2.0**-k for k in range(7, 14)))


@dataclass(frozen=True, kw_only=True)
class BohningLogistic:
    """Bayesian logistic regression is a Gaussian-output algorithm (def:blr-gaussian-output).

    **Labels are −1 and +1. A record with label 0 silently counts as no record**: write labels 0 and 1 as 2·y − 1.
    `ndis.learn.PrivateLogisticRegression` takes any two classes.

    Parameters
    ----------
    l2_penalty : float
        λ, the precision of the prior.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it.
    max_records : int, optional
        A public promise on the number of records. None promises nothing and holds for every number. If λ is large, a
        promise saves noise, up to all of it. If λ is small, it saves next to nothing. With a promise, records after
        the first `max_records` are not read. docs/models.md says what holds if the promise is broken.
    gradient_tolerance : float, optional
        g: the computed minimiser has a gradient of norm at most g, with certainty. By default 2⁻²⁰ of the norm bound.
    intercept : float, optional
        Value of a constant column to append. Its square counts in the norm bound, and its weight is penalised too.
    dimension : int, optional
        Number of weights; only `ndis.paper.sensitivities` asks for it.
    release : {"draw", "mean"}
        "draw": one draw from the posterior plus the least noise. "mean": μ plus the least noise. **"mean" predicts
        better**: the spread of the posterior is noise that hides less than it costs.

    Notes
    -----
    A record counts as no record if its label is not −1 or +1, or if a value is not finite: an error would reveal it.
    Rows are rounded to the grid of `ndis.gram`, so that all arithmetic on them is exact. The time of a fit may depend
    on the data, and is not protected.

    Examples
    --------
    >>> model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)
    >>> mean, covariance = model.distribution((np.array([[1.5, 0.0]]), [1]))
    >>> mean.to_float().round(6), covariance.to_float().round(6)
    (array([0.210801, 0.      ]), array([[0.280702, 0.      ],
           [0.      , 0.333333]]))
    >>> round(model.sensitivity(4.0).ratio_bound, 6)
    0.012295
    >>> import ndis
    >>> mean_only = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, release="mean")
    >>> [round(ndis.lift(one, epsilon=1.0, delta=1e-5).noise_variance, 4) for one in (model, mean_only)]
    [3.875, 3.4794]
    """

    l2_penalty: float
    row_norm_bound: float
    max_records: int | None = None
    gradient_tolerance: float | None = None
    intercept: float | None = None
    dimension: int | None = None
    release: Release = "draw"

    def __post_init__(self) -> None:
        as_choice("release", self.release, ("draw", "mean"))
        for name in ("l2_penalty", "row_norm_bound", "intercept"):
            if getattr(self, name) is not None or name != "intercept":
                object.__setattr__(self, name, as_one_positive(name, getattr(self, name)))
        for name in ("max_records", "dimension"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_size(name, getattr(self, name)))
        bound = self.norm_bound  # checks the bounds too
        # In this range floats and their refinement always reach the tolerance; see ndis.models.newton.
        if not 2.0**-20 <= self.l2_penalty / bound**2 <= 2.0**60:
            raise ParameterError("l2_penalty", "be between 2^-20 and 2^60 squared norm bounds", self.l2_penalty)
        tolerance = _DEFAULT_TOLERANCE * bound if self.gradient_tolerance is None else self.gradient_tolerance
        object.__setattr__(self, "gradient_tolerance", as_scalar("gradient_tolerance", tolerance))
        if not 2.0**-60 <= self._tolerance / bound <= 1.0:
            raise ParameterError("gradient_tolerance", "be between 2^-60 and 1 norm bounds", self.gradient_tolerance)

    @property
    def adjacency(self) -> Literal["add-remove"]:
        """Neighbours differ by one record."""
        return "add-remove"

    @property
    def norm_bound(self) -> float:
        """Return the norm that no row exceeds, the intercept included."""
        return self._layout(1).joint_norm_bound

    @property
    def _tolerance(self) -> float:
        assert self.gradient_tolerance is not None
        return self.gradient_tolerance

    def _layout(self, features: int) -> RowLayout:
        return RowLayout(features, row_norm_bound=self.row_norm_bound, intercept=self.intercept)

    # ------------------------------------------------------------------ the map

    def distribution(self, data: Any) -> tuple[ExactArray, ExactArray]:
        """Return mean and covariance of the release, exactly, before noise. **Private.**

        With release="mean" the covariance is zero.

        Parameters
        ----------
        data : pair (X, y)
            Rows, and labels −1 or +1. A record with any other label, 0 included, counts as no record.
        """
        rows, layout = self._signed_rows(data)
        mean = minimise(rows, layout.steps, l2_penalty=self.l2_penalty, tolerance=self._tolerance)
        if self.release == "mean":
            return mean, covariance_before_noise(layout.width)
        gram = GramAccumulator(layout)
        gram.update_integers(rows)
        return mean, _covariance(gram.finish().integers.astype(object), layout, Fraction(self.l2_penalty))

    def _signed_rows(self, data: Any) -> tuple[Floats, RowLayout]:
        """Return integer rows times their label; a record that does not count is a zero row."""
        x, y = read_records(data, max_records=self.max_records)
        layout = self._layout(x.shape[1])
        tiles = [tile.copy() for tile in integer_tiles((x,), layout)]
        rows = np.concatenate([np.empty((0, layout.width)), *tiles])
        return rows * np.where(np.abs(y) == 1.0, y, 0.0)[:, None], layout

    # ------------------------------------------------------------------ what one record can do

    def sensitivity(self, noise_variance: float) -> RankOneEnvelope | DominatingPairs:
        """Bound the change by one record, free of the number of weights (prop:blr-ndis-sens, corrected).

        Let l be the norm bound, v the noise variance, and n the promised number of records (∞ without a promise). Let
        ā be 1 without a promise, otherwise that of `margins`. Then

            T = (v + 1/λ)/(v + 1/(λ + l²/4)) − 1,      Δ = (āl + 2g)/λ / √(v + 1/(λ + nl²/4)),

        and if the ratio is 1 + t, with q = t/(1+t) and β = 4q/(1 − q(1+λv)), also

            ‖m‖ ≤ ā√((1+t)·min((l² − λβ)/(λ²v), l²G)) + (2g/λ)/√(v + 1/(λ + nl²/4)),

        with G from `hessian_leverage`. All numbers are rounded up. The range of t is cut into
        pieces, each with the bound on ‖m‖ at its lower end. Some pieces are even, and some shrink towards T, the place
        of the worst case for every small δ. The mean on its own moves by at most (āl + 2g)/λ (thm:logistic-mean).
        """
        with precision(_BITS):
            v, lam, bound, drift, least = self._balls(noise_variance)
            pull, curvature = margins(self.max_records, lam, bound)
            if self.release == "mean":
                return mean_envelope(pull * bound / lam + drift, v)
            shift = outward((pull * bound / lam + drift) / (v + least).sqrt()).upper
            ratio = outward((v + 1 / lam) / (v + 1 / (lam + bound**2 / 4)) - 1).upper
            leverage = None
            if self.max_records is not None:
                leverage = hessian_leverage(lam, curvature, v, 1 / least, lam * arb(_ROUNDED))
            ends = {ratio * (k / _EVEN) for k in range(_EVEN)} | {ratio * (1 - 2.0**-k) for k in range(_TOP)} | {ratio}
            pieces = []
            for low, high in pairwise(sorted(ends)):
                q = arb(low) / (1 + arb(low))
                beta = 4 * q / (1 - q * (1 + lam * v))
                square = (bound**2 - lam * beta) / (lam * lam * v)
                if leverage is not None and bound**2 * leverage < square:
                    square = bound**2 * leverage
                joint = pull * ((1 + arb(high)) * square).sqrt() + drift / (v + least).sqrt()
                pieces.append(RankOneEnvelope(min(shift, outward(joint).upper), high))
        return RankOneEnvelope(max(piece.shift_bound for piece in pieces), ratio, tuple(pieces))

    def _balls(self, noise_variance: float) -> tuple[Any, Any, Any, Any, Any]:
        """Enclose v, λ, l, 2g/λ and the least eigenvalue of Σ, at the working precision."""
        v = arb(as_one_positive("noise_variance", noise_variance))
        lam, bound = arb(self.l2_penalty), arb(self.norm_bound)
        least = arb(0)
        if self.max_records is not None:
            least = 1 / (lam * (1 + arb(_ROUNDED)) + self.max_records * bound**2 / 4)
        return v, lam, bound, 2 * arb(self._tolerance) / lam, least

    def attained(self, noise_variance: float) -> tuple[Attained, ...]:
        """Return the worst known neighbours, along one feature, with their exact profiles.

        A lone record changes the covariance most. But it moves the mean by less than half of l/λ, because its label is
        as likely as not. A crowd of short rows of the other label makes its label unlikely, at little cost to the
        covariance. The record pulls its own margin back by up to l²/λ, so the crowd must push it that much further.
        """
        crowd = min(_CROWD, (self.max_records or _CROWD + 1) - 1)
        one = self.row_norm_bound
        worst = [self._neighbours(noise_variance, "no record; one record of the largest norm", np.empty((0, 1)))]
        pulled = one**2 / self.l2_penalty
        for margin in sorted({*_MARGINS, *(pulled + extra for extra in _MARGINS)}) if crowd else ():
            # λw = −Σ σ c with σ ≈ ½ puts the long row at the margin −l|w|
            share = min(2.0 * margin * self.l2_penalty / (crowd * one**2), 1.0)
            words = f"{crowd} records of label −1 at {share:.3g} of the norm bound; one more of label +1 at the bound"
            worst.append(self._neighbours(noise_variance, words, np.full((crowd, 1), share * one)))
        return tuple(worst)

    def _neighbours(self, noise_variance: float, words: str, crowd: Floats) -> Attained:
        """Return the pair of a crowd of records with one label, with and without a record of the other label."""
        labels = np.full(len(crowd), -1.0)
        one = np.array([[self.row_norm_bound]])
        with_it = self.distribution((np.concatenate([crowd, one]), np.append(labels, 1.0)))
        pair = noisy_pair(*with_it, *self.distribution((crowd, labels)), noise_variance)
        return Attained(words, PrivacyProfile(pair))


def _covariance(gram: NDArray[Any], layout: RowLayout, l2_penalty: Fraction) -> ExactArray:
    """Invert λI + ¼ Σ xxᵀ exactly, with λ rounded up by at most 2⁻³⁸ of itself so that the integers stay short.

    In units of the grid h of each column, ¼h⁻¹(…)h⁻¹ is Σ qqᵀ + 4λ/h², whose diagonal is rounded up to multiples of
    2⁻²⁰; λ ≥ 2⁻²⁰ l² makes 4λ/h² at least 2¹⁸.
    """
    numerators = gram << _PENALTY_BITS
    for j, step in enumerate(layout.steps):
        numerators[j, j] += math.ceil(4 * l2_penalty / step**2 * 2**_PENALTY_BITS)
    inverse = exact_inverse(ExactArray(numerators, 1 << _PENALTY_BITS))
    per_step = exact_array(np.array([1 / step for step in layout.steps], dtype=object))
    scaled = 4 * inverse.numerators * per_step.numerators[:, None] * per_step.numerators
    return ExactArray(scaled, inverse.denominator * per_step.denominator**2)


# ---------------------------------------------------------------------- bounds from a promised number of records


def margins(records: int | None, l2_penalty: Any, norm_bound: Any) -> tuple[Any, Any]:
    """Return two balls for at most `records` records; 1 and 0 without a promise.

    The first is ā, the largest weight of the record's own gradient. The second is ρ, the least 4σ'.

    >>> from flint import arb
    >>> pull, curvature = margins(455, arb(300), arb(1.5))
    >>> 0.726 < float(pull) < 0.727, 0.79 < float(curvature) < 0.8
    (True, True)
    """
    if records is None:
        return arb(1), arb(0)
    numerator, denominator = _LARGEST_PULL
    far = (arb(records) * numerator / (denominator * l2_penalty)).sqrt() * norm_bound
    near = records * norm_bound**2 / (2 * l2_penalty)
    margin = near if near < far else far
    pull = 1 / (1 + (-margin).exp())
    return pull, 4 * pull * (1 - pull)


def hessian_leverage(l2_penalty: Any, curvature: Any, noise_variance: Any, largest: Any, rounding: Any) -> Any:
    """Bound xᵀH⁻¹S⁻¹H⁻¹x over unit vectors x from above, as a ball; None if the curvature gives no bound.

    S⁻¹ = ψ(P) with ψ(p) = p/(1 + vp), H ⪰ λ(1−ρ) + ρP and P ⪯ `largest`. ψ is operator monotone, so for 0 < θ ≤ 1

        S⁻¹ ⪯ ψ(αH + β),    α = θ/ρ,    β = (1−θ)·largest − θλ(1−ρ)/ρ + θ·rounding,

    which commutes with H. So the bound is the maximum over h ≥ λ of y/((1 + vy)h²) with y = αh + β. Its derivative has
    the sign of −(2vy² + y + β): it rises up to the root y* and falls from there. Every θ is
    sound, and the best of some is taken. `rounding` bounds the excess of P over λI + ¼Σxxᵀ.
    """
    if not curvature > arb(2) ** -60:
        return None
    bounds = []
    for share in map(arb, _SHARES):
        alpha = share / curvature
        beta = (1 - share) * largest - share * l2_penalty * (1 - curvature) / curvature + share * rounding
        y = alpha * l2_penalty + beta  # at h = λ
        if beta < 0:
            root = -2 * beta / (1 + (1 - 8 * noise_variance * beta).sqrt())
            y = y if root < y else root  # past the root the maximum over all h is an upper bound too
        if beta < 0 or beta >= 0:
            bounds.append(y / (1 + noise_variance * y) * (alpha / (y - beta)) ** 2)
    return min(bounds, key=lambda bound: float(bound.upper()), default=None)
