"""How far neighbouring data sets can move a Gaussian output: the envelopes a model declares (theory §8).

The output on data D is N(μ, Σ); the mechanism releases N(μ, Σ + vI). For an ordered pair of neighbours, whitened by the
second law (def: m,R tuple), m is the mean shift and τ are the eigenvalues of the first covariance, τ = 1 + t. An
envelope bounds m and τ at one noise variance v, for *every* ordered pair of neighbours: the bound on ‖m‖ holds under
either law, because both orders are pairs.

The numbers are taken as they stand, so a model rounds them up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ndis._validate import as_counts, as_scalar
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

__all__ = [
    "DominatingPairs",
    "Envelope",
    "LoewnerEnvelope",
    "RankOneEnvelope",
    "as_envelope",
    "as_loewner",
    "pieces_of",
]

_UP = 1.0 + 2.0**-48  # past the rounding of a few operations


def _bound(name: str, value: float) -> float:
    x = as_scalar(name, value)
    if not x >= 0:
        raise ParameterError(name, "not be negative", x)
    return x


@dataclass(frozen=True)
class LoewnerEnvelope:
    """The paper's envelope (def:ndis-sensitivity-loewner): R ⪰ I or R ⪯ I, and three numbers.

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
    >>> LoewnerEnvelope(0.3, 0.1, 0.25, 4).extreme  # two coordinates at 0.1, one with the rest
    ((0.1, 2), (0.05..., 1))
    """

    shift_bound: float
    log_ratio_bound: float
    log_det_bound: float
    dimension: int

    def __post_init__(self) -> None:
        for name in ("shift_bound", "log_ratio_bound", "log_det_bound"):
            object.__setattr__(self, name, _bound(name, getattr(self, name)))
        object.__setattr__(self, "dimension", int(as_counts("dimension", as_scalar("dimension", self.dimension))[0]))

    @property
    def extreme(self) -> tuple[tuple[float, int], ...]:
        """(ℓ, copies): ⌊ν/ρ⌋ coordinates at ρ and one with the rest, at most `dimension` in all.

        A sum of one convex function of each |log τᵢ|, zero at zero, is largest there: convexity puts the maximum at a
        vertex of {0 ≤ ℓᵢ ≤ ρ, Σ ℓᵢ ≤ ν}, and all vertices but this kind are smaller. Where ν < ρ, ν is the bound on
        each.
        """
        rho, nu = min(self.log_ratio_bound, self.log_det_bound), self.log_det_bound
        if rho == 0:
            return ()
        if nu / rho >= self.dimension:
            return ((rho, self.dimension),)
        full = math.floor(nu / rho)
        rest = max(nu - full * rho, 0.0) + 2.0**-50 * nu  # not below ν − full·ρ, whatever was rounded
        return ((rho, full), (min(rest, rho), 1)) if full < self.dimension else ((rho, full),)


@dataclass(frozen=True)
class RankOneEnvelope:
    """Neighbours whose covariances differ by rank one: at most one ratio other than 1.

    Parameters
    ----------
    shift_bound : float
        Δ: ‖m‖ ≤ Δ.
    ratio_bound : float
        T: the ratio other than 1 is 1 + t with 0 ≤ t ≤ T where the first law is the wider, and so
        −T/(1+T) ≤ t ≤ 0 where it is the narrower.
    pieces : tuple of RankOneEnvelope
        Where more is known: smaller envelopes, such that every ordered pair of neighbours lies in one of them. The
        worst case is then the worst of the pieces.

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
            object.__setattr__(self, name, _bound(name, getattr(self, name)))
        for piece in self.pieces:
            if not isinstance(piece, RankOneEnvelope) or piece.pieces:
                raise ParameterError("pieces", "be RankOneEnvelope values without pieces", type(piece).__name__)
            if not (piece.shift_bound <= self.shift_bound and piece.ratio_bound <= self.ratio_bound):
                raise ParameterError("pieces", "lie within shift_bound and ratio_bound", repr(piece))


@dataclass(frozen=True, eq=False)
class DominatingPairs:
    """The worst pair is known: one pair that dominates all neighbours at every ε, for each order.

    Parameters
    ----------
    remove : GaussianPair
        Dominates (output with the record, output without it).
    add : GaussianPair, optional
        Dominates (output without the record, output with it); `remove.reversed()` unless given. Under replace-one both
        dominate both orders.
    pieces : tuple of DominatingPairs
        Where more is known: pairs such that every two neighbours are dominated by one of them, at every ε and in both
        orders. The worst case is then the worst of the pieces.

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
        for piece in self.pieces:
            if not isinstance(piece, DominatingPairs) or piece.pieces:
                raise ParameterError("pieces", "be DominatingPairs values without pieces", type(piece).__name__)
        if not isinstance(self.remove, GaussianPair):
            raise ParameterError("remove", "be a GaussianPair", type(self.remove).__name__)
        add: object = self.add
        if add is None:
            object.__setattr__(self, "add", self.remove.reversed())
        elif not isinstance(add, GaussianPair):
            raise ParameterError("add", "be a GaussianPair", type(add).__name__)


Envelope = LoewnerEnvelope | RankOneEnvelope | DominatingPairs


def pieces_of(envelope: Envelope) -> tuple[Envelope, ...]:
    """The pieces of an envelope, one of which holds each pair of neighbours; itself where it has none."""
    return (envelope,) if isinstance(envelope, LoewnerEnvelope) else envelope.pieces or (envelope,)


def as_envelope(value: object) -> Envelope:
    """One of the three envelopes, checked."""
    if not isinstance(value, LoewnerEnvelope | RankOneEnvelope | DominatingPairs):
        rule = "return a LoewnerEnvelope, a RankOneEnvelope or DominatingPairs"
        raise ParameterError("sensitivity", rule, type(value).__name__)
    return value


def as_loewner(envelope: Envelope) -> LoewnerEnvelope:
    """The Loewner envelope around any envelope, for the bounds that take no other.

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
            raise ParameterError(
                "sensitivity", "hold pairs in Loewner order for this bound", "others", "use bound='exact' or 'renyi'"
            )
        logs = np.abs(np.log1p(t)) if (t > -0.5).all() else np.abs(np.log(pair.variance_ratio))
        slack = _UP + pair.uncertainty
        shift = max(shift, *(slack * math.sqrt(math.fsum(n * m2 / w)) for w in (1.0, pair.variance_ratio)))
        ratio = max(ratio, slack * float(logs.max(initial=0.0)))
        det, dimension = max(det, slack * math.fsum(n * logs)), max(dimension, pair.dimension)
    return LoewnerEnvelope(shift, ratio, det, dimension)
