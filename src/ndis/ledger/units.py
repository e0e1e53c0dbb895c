"""Sums without rounding: whole numbers of a fixed small unit, rounded to the safe side once per request."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError

__all__ = ["FAILURE_BITS", "UNIT_BITS", "plus", "smallest_upper", "units_down", "units_up"]

UNIT_BITS = 256  # sums of μ² and K are whole multiples of 2⁻²⁵⁶
FAILURE_BITS = 1074  # failure probabilities are floats, and so whole multiples of 2⁻¹⁰⁷⁴
_WIDTHS = (1e-13, 1e-15)  # of enclosures that are tried if the usual one does not reach δ


def plus(a: str, b: str) -> str:
    """The sum of two numbers in hexadecimal digits."""
    return f"{int(a, 16) + int(b, 16):x}"


def units_up(value: Fraction, bits: int) -> int:
    """Units of 2^−bits, rounded up."""
    return math.ceil(value * (1 << bits))


def units_down(value: Fraction, bits: int) -> int:
    """Units of 2^−bits, rounded down."""
    return math.floor(value * (1 << bits))


def smallest_upper(certify: Callable[..., Enclosure], epsilon: float, delta: float) -> float:
    """A certified upper bound of δ(ε), tighter if the first one is above `delta`.

    Enclosures of one number differ a little between machines, and a budget may lie inside that difference.
    """
    found = certify(epsilon).upper
    for width in _WIDTHS:
        if found <= delta:
            break
        try:
            found = min(found, certify(epsilon, relative_width=width).upper)
        except PrecisionError:
            break
    return found
