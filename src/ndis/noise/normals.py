"""Standard normals as real numbers, known to as many digits as the caller asks for.

A normal is z = ±√2·erfc⁻¹(V) for a fair sign and a uniform real V in (0, 1). At any time only a prefix of V's binary
digits has been drawn. If the caller asks for more precision, further digits are drawn behind it. The real number never
changes; only its enclosure shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from flint import arb

from ndis._balls import precision
from ndis.noise.bits import RandomBits

__all__ = ["LazyNormals", "nearest_integer"]

_MORE_BITS = 64
_GUARD_BITS = 12
_UNIT_BALL = arb(0, 1)


class LazyNormals:
    """``count`` independent standard normals.

    Parameters
    ----------
    count : int
    bits : RandomBits

    Examples
    --------
    >>> from ndis.noise.bits import SeededBits
    >>> normals = LazyNormals(2, SeededBits(1))
    >>> coarse, fine = normals.fixed_point([0], 20), normals.fixed_point([0], 300)
    >>> -1 <= coarse[0] - (fine[0] >> 280) <= 1
    True
    """

    def __init__(self, count: int, bits: RandomBits) -> None:
        self._bits = bits
        self._width = [2 * _MORE_BITS] * count
        self._prefix = bits.take(count, width=2 * _MORE_BITS)  # sign bit, then digits of V

    def fixed_point(self, which: Iterable[int], digits: int) -> list[int]:
        """Return integers within one unit of z·2^digits, for the normals numbered ``which``."""
        with precision(digits + _GUARD_BITS):
            scale = arb(2).sqrt() * arb((1, digits))
            return [self._one(i, digits, scale) for i in which]

    def _one(self, i: int, digits: int, scale: arb) -> int:
        magnitude = nearest_integer(self._uniform(i).erfcinv() * scale)
        guard = _GUARD_BITS
        while magnitude is None:  # the ball is wider than a unit: more digits of V, more precision
            guard += _MORE_BITS
            self._extend(i)
            with precision(digits + guard):
                magnitude = nearest_integer(self._uniform(i).erfcinv() * arb(2).sqrt() * arb((1, digits)))
        return -magnitude if self._prefix[i] >> (self._width[i] - 1) else magnitude

    def _uniform(self, i: int) -> arb:
        """Return the enclosure of V: all reals whose digits start with the prefix."""
        w = self._width[i] - 1
        v = self._prefix[i] & ((1 << w) - 1)
        return (arb(2 * v + 1) + _UNIT_BALL) * _power_of_two(-w - 1)

    def _extend(self, i: int) -> None:
        (more,) = self._bits.take(1, width=_MORE_BITS)
        self._prefix[i] = self._prefix[i] << _MORE_BITS | more
        self._width[i] += _MORE_BITS


@cache
def _power_of_two(exponent: int) -> arb:
    return arb((1, exponent))


def nearest_integer(x: arb) -> int | None:
    """An integer within one unit of every point of the ball, or None if the ball is wider than that.

    >>> nearest_integer(arb(7.3, 0.25)), nearest_integer(arb(7.3, 2))
    (7, None)
    """
    if not x.rad() <= 0.5:  # false for NaN too
        return None
    m, e = x.mid().man_exp()
    man, exp = int(m), int(e)
    return man << exp if exp >= 0 else ((man >> (-exp - 1)) + 1) >> 1
