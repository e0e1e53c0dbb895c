"""A number that is known to lie between two floats."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Enclosure"]


class Enclosure(NamedTuple):
    """lower ≤ true value ≤ upper, with certainty.

    >>> box = Enclosure(0.25, 0.5)
    >>> 0.3 in box, box.width
    (True, 0.25)
    """

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """Return upper − lower."""
        return self.upper - self.lower

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float | int) and self.lower <= value <= self.upper
