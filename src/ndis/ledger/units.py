"""Sums without rounding: whole numbers of a fixed small unit, rounded to the safe side once per request."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["FAILURE_BITS", "UNIT_BITS", "WIDTHS", "down", "plus", "units_down", "units_up"]

UNIT_BITS = 256  # sums of μ² and K are whole multiples of 2⁻²⁵⁶
FAILURE_BITS = 1074  # failure probabilities are floats, and so whole multiples of 2⁻¹⁰⁷⁴
WIDTHS = (1e-10, 1e-15)  # of enclosures: on another machine the wider one may fall to the other side of δ


def plus(a: str, b: str) -> str:
    """The sum of two numbers in hexadecimal digits."""
    return f"{int(a, 16) + int(b, 16):x}"


def units_up(value: Fraction, bits: int) -> int:
    """Units of 2^−bits, rounded up."""
    return math.ceil(value * (1 << bits))


def units_down(value: Fraction, bits: int) -> int:
    """Units of 2^−bits, rounded down."""
    return math.floor(value * (1 << bits))


def down(value: Fraction, *, root: bool = False) -> float:
    """A float at most the value, or at most its root."""
    found = math.sqrt(value) if root else float(value)
    while Fraction(found) ** (2 if root else 1) > value:
        found = math.nextafter(found, -math.inf)
    return found
