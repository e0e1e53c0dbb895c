"""Every certificate starts from the invariants (t, m²) of a pair as balls."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from ndis._balls import Ball
from ndis._formulas import reverse

__all__ = ["Direction", "Directions", "reverse_direction"]

Direction = tuple[Ball, Ball, int]  # t, m² of one copy, copies


@dataclass(frozen=True)
class Directions:
    """`curved` lists the directions with t ≠ 0 as (t, m² of one copy, copies); `flat` is the total m² of the others."""

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

    def edge(self) -> Ball:
        """Σ n [ −½ log(1+t) − m²/(2t) ], the end of the support of a loss that is bounded on one side."""
        total = arb(0)
        for t, m2, n in self.curved:
            total -= n * ((1 + t).log() + m2 / t) / 2
        return total

    def log_moment(self, s: Ball) -> Ball | None:
        """K(s) at a real s > 0 (def:log-moment); None if K is infinite there or if the ball touches the pole."""
        both = s * (1 + s) / 2
        total = self.flat * both
        for t, m2, n in self.curved:
            slack = 1 - s * t
            if not slack > 0:
                return None
            total += n * (m2 * both / slack - (s * (1 + t).log() + slack.log()) / 2)
        return total


def reverse_direction(direction: Direction) -> Direction:
    """Return the same direction for the reversed pair."""
    t, m2, n = direction
    return (*reverse(t, m2), n)
