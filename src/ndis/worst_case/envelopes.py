"""Envelopes bound how far neighbouring data sets can move a Gaussian output; a model declares one.

The output on data D is N(μ, Σ), and the mechanism releases N(μ, Σ + vI). Take an ordered pair of neighbours and whiten
it by the second law (def: m,R tuple). Then m is the mean shift, and τ = 1 + t are the eigenvalues of the first
covariance. An envelope bounds m and τ at one noise variance v, for *every* ordered pair of neighbours. Both orders are
pairs, so the bound on ‖m‖ holds under either law.

The code takes the numbers as they stand. So a model must round them up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._balls import outward
from ndis._groups import other_order
from ndis._validate import as_count, as_not_negative
from ndis.errors import ParameterError
from ndis.pair import LEAST_SHIFT, GaussianPair

_UP = 1.0 + 2.0**-48  # past the rounding of a few operations
LARGEST = 1e60  # if a shift or a ratio is beyond it, δ counts as 1


@dataclass(frozen=True)
class LoewnerEnvelope:
    """The paper's envelope (def:ndis-sensitivity-loewner) holds R ⪰ I or R ⪯ I, and three numbers.

    It must contain the pairs (m, R) of all neighbours (def: m,R tuple set).

    Parameters
    ----------
    shift_bound : float
        Δ: ‖m‖ ≤ Δ.
    log_ratio_bound : float
        ρ: every |log τ| ≤ ρ.
    log_det_bound : float
        ν: |Σ log τ| ≤ ν.
    dimension : int
        Number of coordinates of the output.

    Examples
    --------
    >>> LoewnerEnvelope(0.3, 0.1, 0.25, 4).extreme  # two coordinates at 0.1, one with the remainder
    ((0.1, 2), (0.05..., 1))
    """

    shift_bound: float
    log_ratio_bound: float
    log_det_bound: float
    dimension: int

    def __post_init__(self) -> None:
        for name in ("shift_bound", "log_ratio_bound", "log_det_bound"):
            object.__setattr__(self, name, as_not_negative(name, getattr(self, name)))
        object.__setattr__(self, "dimension", as_count("dimension", self.dimension))

    @property
    def extreme(self) -> tuple[tuple[float, int], ...]:
        """Return (ℓ, copies): ⌊ν/ρ⌋ coordinates at ρ and one with the remainder, at most `dimension` in all.

        A sum of one convex function of each |log τᵢ| that is zero at zero is largest here (thm:envelope-renyi). If
        ν < ρ, then ν is the bound on each.
        """
        rho, nu = min(self.log_ratio_bound, self.log_det_bound), self.log_det_bound
        if rho == 0:
            return ()
        if nu / rho >= self.dimension:
            return ((rho, self.dimension),)
        full = math.floor(nu / rho)
        remainder = max(nu - full * rho, 0.0) + 2.0**-50 * nu  # not below ν − full·ρ, whatever was rounded
        return ((rho, full), (min(remainder, rho), 1)) if full < self.dimension else ((rho, full),)


@dataclass(frozen=True)
class RankOneEnvelope:
    """Neighbours whose covariances differ by a matrix of rank one: at most one ratio is not 1.

    Parameters
    ----------
    shift_bound : float
        Δ: ‖m‖ ≤ Δ.
    ratio_bound : float
        T: the ratio other than 1 is 1 + t. If the first law is the wider one, 0 ≤ t ≤ T. If it is the narrower one,
        −T/(1+T) ≤ t ≤ 0.
    pieces : tuple of RankOneEnvelope
        Smaller envelopes, if more is known: every ordered pair of neighbours lies in one of them. The worst case is
        then the worst of the pieces.

    Examples
    --------
    >>> RankOneEnvelope(shift_bound=0.25, ratio_bound=0.01).ratio_bound
    0.01
    """

    shift_bound: float
    ratio_bound: float
    pieces: tuple[RankOneEnvelope, ...] = ()

    def __post_init__(self) -> None:
        for name in ("shift_bound", "ratio_bound"):
            object.__setattr__(self, name, as_not_negative(name, getattr(self, name)))
        _check_pieces(self)
        for piece in self.pieces:
            if not (piece.shift_bound <= self.shift_bound and piece.ratio_bound <= self.ratio_bound):
                raise ParameterError("pieces", "lie within shift_bound and ratio_bound", repr(piece))


@dataclass(frozen=True, eq=False)
class DominatingPairs:
    """The worst pair is known: for each order, one pair dominates all neighbours at every ε.

    Parameters
    ----------
    remove : GaussianPair
        Dominates (output with the record, output without it).
    add : GaussianPair, optional
        Dominates (output without the record, output with it). The default is `remove.reversed()`. Under replace-one
        both pairs must dominate both orders.
    pieces : tuple of DominatingPairs
        Smaller pairs, if more is known: one of them dominates every two neighbours, at every ε and in both orders.
        The worst case is then the worst of the pieces.

    Examples
    --------
    >>> import ndis
    >>> DominatingPairs(ndis.GaussianPair.from_ratios(0.5)).add.variance_ratio
    array([2.])
    """

    remove: GaussianPair
    add: GaussianPair = None  # type: ignore[assignment]  # filled in below
    pieces: tuple[DominatingPairs, ...] = ()

    def __post_init__(self) -> None:
        _check_pieces(self)
        object.__setattr__(self, "add", other_order(self.remove, self.add))


def _check_pieces(envelope: RankOneEnvelope | DominatingPairs) -> None:
    kind = type(envelope)
    for piece in envelope.pieces:
        if not isinstance(piece, kind) or piece.pieces:
            raise ParameterError("pieces", f"be {kind.__name__} values without pieces", type(piece).__name__)


def mean_envelope(sensitivity: Any, noise_variance: Any) -> DominatingPairs:
    """Return the pair that dominates all neighbours whose means are at most `sensitivity` apart; both are balls.

    The release is the mean plus noise of variance v. Its covariance is vI whatever the data are, so one pair dominates:
    a shift of sensitivity/√v (thm:mean-shift).

    >>> from flint import arb
    >>> mean_envelope(arb(1), arb(4)).add.shift
    array([0.5])
    """
    pair = GaussianPair.from_ratios(1.0, shift=mean_shift(sensitivity, noise_variance))
    return DominatingPairs(pair, pair)


def mean_shift(sensitivity: Any, noise_variance: Any) -> float:
    """Return the whitened shift sensitivity/√v, rounded up; both arguments are balls."""
    shift = outward(sensitivity / noise_variance.sqrt()).upper
    return max(shift, LEAST_SHIFT) if shift <= LARGEST else LARGEST


Envelope = LoewnerEnvelope | RankOneEnvelope | DominatingPairs


def pieces_of(envelope: Envelope) -> tuple[Envelope, ...]:
    """Return the pieces of an envelope, or the envelope itself if it has none. Each pair of neighbours lies in one."""
    return (envelope,) if isinstance(envelope, LoewnerEnvelope) else envelope.pieces or (envelope,)


def as_envelope(value: object) -> Envelope:
    """Check that a value is one of the three envelopes, and return it."""
    if not isinstance(value, LoewnerEnvelope | RankOneEnvelope | DominatingPairs):
        rule = "return a LoewnerEnvelope, a RankOneEnvelope or DominatingPairs"
        raise ParameterError("sensitivity", rule, type(value).__name__)
    return value


def as_loewner(envelope: Envelope) -> LoewnerEnvelope:
    """Return the Loewner envelope around any envelope, for a bound that takes no other.

    >>> as_loewner(RankOneEnvelope(0.25, 0.0)).extreme
    ()
    """
    if isinstance(envelope, LoewnerEnvelope):
        return envelope
    if isinstance(envelope, RankOneEnvelope):
        ratio = math.log1p(envelope.ratio_bound) * _UP
        return LoewnerEnvelope(envelope.shift_bound, ratio, ratio, 1)
    shift = ratio = det = 0.0
    dimension = 1
    for pair in (envelope.remove, envelope.add):
        t, n, m2 = pair.excess, pair.copies, pair.shift**2
        if pair.mutually_singular or not ((t >= 0).all() or (t <= 0).all()):
            rule = "hold pairs in Loewner order for this bound"
            raise ParameterError("sensitivity", rule, "others", "use bound='exact' or 'renyi'")
        logs = np.abs(np.log1p(t)) if (t > -0.5).all() else np.abs(np.log(pair.variance_ratio))
        slack = _UP + pair.uncertainty
        shift = max(shift, *(slack * math.sqrt(math.fsum(n * m2 / w)) for w in (1.0, pair.variance_ratio)))
        ratio = max(ratio, slack * float(logs.max(initial=0.0)))
        det, dimension = max(det, slack * math.fsum(n * logs)), max(dimension, pair.dimension)
    return LoewnerEnvelope(shift, ratio, det, dimension)
