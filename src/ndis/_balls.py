"""Set the working precision of ball arithmetic, and take floats around a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from threading import RLock
from typing import Any, TypeVar

from flint import arb, ctx, fmpq

from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError

Ball = Any  # flint.arb carries no type information
T = TypeVar("T")

_LOCK = RLock()  # python-flint keeps the precision in one place for the whole process


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the working precision in bits within the block. Other threads wait for theirs.

    >>> from flint import ctx
    >>> with precision(200):
    ...     ctx.prec
    200
    """
    with _LOCK:
        previous, ctx.prec = ctx.prec, bits
        try:
            yield
        finally:
            ctx.prec = previous


def climb(attempt: Callable[[int], T | None], ladder: Iterable[int], failure: str) -> T:
    """Return the first result that is not None, at ever higher precision. `failure` says that no precision sufficed.

    >>> climb(lambda bits: bits if bits > 100 else None, (64, 128, 256), "the number was not enclosed")
    128
    """
    for bits in ladder:
        with precision(bits):
            result = attempt(bits)
            if result is not None:
                return result
    raise PrecisionError(failure)


def exact_ball(value: float | Fraction) -> Ball:
    """Return a number as a ball: exact for a float, to the working precision for a rational."""
    return arb(value) if isinstance(value, float) else arb(fmpq(value.numerator, value.denominator))


def middle_of(ball: Ball) -> Fraction:
    """Return the middle of a ball as an exact number.

    >>> middle_of(arb(0.75))
    Fraction(3, 4)
    """
    mantissa, exponent = ball.mid().man_exp()
    return int(mantissa) * Fraction(2) ** int(exponent)


def cholesky(matrix: list[list[Ball]], refuse: Callable[[], Exception]) -> list[list[Ball]] | None:
    """Return the rows of the lower Cholesky factor of a symmetric ball matrix, zeros above the diagonal.

    None if the working precision leaves the sign of a pivot open. If a pivot is certainly not positive, the exception
    that `refuse` makes is raised.

    >>> [[float(x) for x in row] for row in cholesky([[arb(4), arb(2)], [arb(2), arb(10)]], ValueError)]
    [[2.0, 0.0], [1.0, 3.0]]
    """
    n = len(matrix)
    rows = [[arb(0)] * n for _ in range(n)]
    for j in range(n):
        pivot = matrix[j][j] - sum((x * x for x in rows[j][:j]), arb(0))
        if not pivot > 0:
            if pivot <= 0:
                raise refuse()
            return None
        rows[j][j] = pivot.sqrt()
        for i in range(j + 1, n):
            inner = sum((x * y for x, y in zip(rows[i][:j], rows[j][:j], strict=True)), arb(0))
            rows[i][j] = (matrix[i][j] - inner) / rows[j][j]
    return rows


def outward(ball: Ball) -> Enclosure:
    """Return the nearest floats below and above a ball."""

    def beyond(end: Ball, side: float) -> float:
        value = float(end)
        return value if arb(value) == end else math.nextafter(value, side)

    return Enclosure(beyond(ball.lower(), -math.inf), beyond(ball.upper(), math.inf))
