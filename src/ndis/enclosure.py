"""A number that is known to lie between two floats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ndis.errors import PrecisionError

__all__ = ["Enclosure", "largest"]


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


def largest(bounds: Iterable[float]) -> float:
    """Return the largest of some bounds. One that is no number is refused, wherever it stands: `max` may drop it.

    >>> largest([0.25, 0.5])
    0.5
    >>> largest([0.25, float("nan")])
    Traceback (most recent call last):
    ...
    ndis.errors.PrecisionError: a bound is not known: it is no number
    """
    values = list(bounds)
    if any(value != value for value in values):
        raise PrecisionError("a bound is not known: it is no number")
    return max(values)
