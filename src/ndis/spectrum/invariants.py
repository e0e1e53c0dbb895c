"""The invariants of an ordered pair of Gaussians are all that δ(ε) depends on (def:invariants).

Whitening by q turns the pair into N(m, diag τ) against N(0, I). Only the multiset {(t, m²)}, t = τ − 1, matters. The
constructors form t from the difference of the covariances, never as τ − 1 of a computed τ. Neighbours differ little,
and the subtraction would lose the digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flint import arb

from ndis._balls import Ball
from ndis._search import chernoff_factor_ball, reverse

if TYPE_CHECKING:
    from ndis.pair import GaussianPair

Invariants: TypeAlias = "GaussianPair"  # the kernels read its invariants, its origins and its form, nothing else
LEAST_SHIFT = 1e-140  # a smaller shift has no square among the floats

Direction = tuple[Ball, Ball, int]  # t, m² of one copy, copies


@dataclass(frozen=True)
class Directions:
    """A certificate starts from these: the invariants (t, m²) of a pair as balls.

    `curved` lists the directions with t ≠ 0 as (t, m² of one copy, copies); `flat` is the total m² of the others.
    """

    curved: list[Direction]
    flat: Ball
    mutually_singular: bool = False

    @property
    def side(self) -> int:
        """−1 if the loss is bounded above (every t < 0), +1 if it is bounded below (every t > 0), else 0.

        Ask only if the loss is not constant.
        """
        if self.flat != 0:
            return 0
        return -int(all(t < 0 for t, _, _ in self.curved)) + int(all(t > 0 for t, _, _ in self.curved))

    @property
    def trivial(self) -> bool:
        """Say if the two laws are equal."""
        return not self.mutually_singular and not self.curved and bool(self.flat == 0)

    @property
    def bounded(self) -> bool:
        """Say if the loss is bounded above (thm:bounded-loss)."""
        return not self.mutually_singular and bool(self.flat == 0) and all(t < 0 for t, _, _ in self.curved)

    def edge(self) -> Ball:
        """Σ n [ −½ log(1+t) − m²/(2t) ], the end of the support of a loss that is bounded on one side."""
        total = arb(0)
        for t, m2, n in self.curved:
            total -= n * ((1 + t).log() + m2 / t) / 2
        return total

    def log_moment(self, s: Ball) -> Ball | None:
        """K(s) at a real s > 0 (def:log-moment); None if K is infinite there or if the ball touches the pole."""
        return self.exponent(s) if all(1 - s * t > 0 for t, _, _ in self.curved) else None

    def exponent(self, s: Any) -> Any:
        """Return K(s) at a real or complex s, at which no 1 − st lies on the cut of the logarithm."""
        both = s * (1 + s) / 2
        logs = (s * (1 + t).log() + (1 - s * t).log() for t, _, _ in self.curved)
        pairs = zip(self.curved, logs, strict=True)
        return sum((n * (m2 * both / (1 - s * t) - log / 2) for (t, m2, n), log in pairs), self.flat * both)

    def renyi_log_bound(self, s: Ball, epsilon: Ball) -> Ball | None:
        """Return the logarithm of bound:renyi on δ(ε) at a real s > 0; None where `log_moment` is."""
        moment = None if self.mutually_singular else self.log_moment(s)
        return None if moment is None else moment - s * epsilon + chernoff_factor_ball(s)


def reverse_direction(direction: Direction) -> Direction:
    """Return the same direction for the reversed pair."""
    t, m2, n = direction
    return (*reverse(t, m2), n)
