"""Round exact rationals to floats, to a chosen side."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["away_from_zero", "down", "up"]


def up(value: Fraction) -> float:
    """The smallest float that is not below a rational.

    >>> up(Fraction(1, 3)) > Fraction(1, 3), up(Fraction(1, 2))
    (True, 0.5)
    """
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def down(value: Fraction) -> float:
    """The largest float that is not above a rational.

    >>> down(Fraction(2, 3)) < Fraction(2, 3), down(Fraction(1, 2))
    (True, 0.5)
    """
    return -up(-value)


def away_from_zero(value: Fraction) -> float:
    """The nearest float that is not closer to 0 than a rational.

    >>> away_from_zero(Fraction(-1, 3)) < Fraction(-1, 3)
    True
    """
    return up(value) if value > 0 else down(value)
