"""The invariants of an ordered pair of Gaussians are all that δ(ε) depends on (def:invariants).

Whitening by q turns the pair into N(m, diag τ) against N(0, I). Only the multiset {(t, m²)}, t = τ − 1, matters. The
constructors form t from the difference of the covariances, never as τ − 1 of a computed τ. Neighbours differ little,
and the subtraction would lose the digits.
"""

from __future__ import annotations

from typing import Protocol, Self

from ndis._validate import Floats
from ndis.spectrum.loss import LogMoment
from ndis.spectrum.origins import Origin

__all__ = ["LEAST_SHIFT", "Invariants"]

LEAST_SHIFT = 1e-140  # a smaller shift has no square among the floats


class Invariants(Protocol):
    """The kernels read this much of a pair; `ndis.pair.GaussianPair` has it and describes it."""

    @property
    def variance_ratio(self) -> Floats: ...
    @property
    def shift(self) -> Floats: ...
    @property
    def copies(self) -> Floats: ...
    @property
    def excess(self) -> Floats: ...
    @property
    def mutually_singular(self) -> bool: ...
    @property
    def uncertainty(self) -> float: ...
    @property
    def origins(self) -> tuple[Origin, ...]: ...
    @property
    def form(self) -> LogMoment: ...

    def reversed(self) -> Self:
        """Return the pair in the other order."""

    def loss_supremum(self) -> float:
        """Return the least upper bound of the loss."""
