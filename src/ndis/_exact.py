"""This module has arrays of exact rationals over one common denominator, and rationals rounded to a side.

A float64 is a rational too, so this form holds everything that enters the package, without rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import require
from ndis.errors import ParameterError


@dataclass(frozen=True, eq=False)
class ExactArray:
    """The array holds the rationals ``numerators / denominator``.

    Parameters
    ----------
    numerators : object array of Python integers
    denominator : positive Python integer, common to all entries

    Examples
    --------
    >>> half = exact_array([0.5, 3])
    >>> half.numerators.tolist(), half.denominator
    ([1, 6], 2)
    >>> half.to_float()
    array([0.5, 3. ])
    """

    numerators: NDArray[Any]
    denominator: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array."""
        return self.numerators.shape

    def to_float(self) -> NDArray[np.float64]:
        """Return the correctly rounded float64 values."""
        # Python rounds integer division correctly, for integers of any size.
        flat = [p / self.denominator for p in self.numerators.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(self.shape)

    def to_fractions(self) -> NDArray[Any]:
        """Return the values as an object array of `Fraction`."""
        flat = [Fraction(int(x), self.denominator) for x in self.numerators.ravel().tolist()]
        return np.array(flat, dtype=object).reshape(self.shape)

    def fixed_point(self, bits: int) -> NDArray[Any]:
        """Return ⌊value · 2^bits⌋: integers within one unit of the value, and equal to it if it is an integer."""
        scaled = self.numerators * (1 << max(bits, 0))
        return np.asarray(scaled // (self.denominator << max(-bits, 0)), dtype=object)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactArray):
            return NotImplemented
        own, others = self.numerators * other.denominator, other.numerators * self.denominator
        return self.shape == other.shape and bool(np.all(own == others))

    __hash__ = None  # type: ignore[assignment]


def exact_array(values: Any, *, name: str = "values") -> ExactArray:
    """Write integers, fractions or finite floats down exactly.

    Parameters
    ----------
    values : array_like of int, float or fractions.Fraction, or ExactArray
    name : the argument's name in the error message

    Examples
    --------
    >>> from fractions import Fraction
    >>> exact_array([Fraction(1, 3), 0.25]).numerators.tolist()
    [4, 3]
    """
    if isinstance(values, ExactArray):
        return values
    if not isinstance(values, np.ndarray | np.generic):
        # NumPy would give a list one common type, and round large integers
        array = np.array(values, dtype=object)
        if all(type(v) is float for v in array.ravel().tolist()):
            array = array.astype(np.float64)
    else:
        array = np.asarray(values)
    if array.dtype.kind in "iub":
        return ExactArray(np.asarray(array.astype(object) * 1, dtype=object))
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return _from_floats(array.astype(np.float64), name)
    if array.dtype.kind == "O":
        return _from_objects(array, name)
    raise ParameterError(name, "hold integers, fractions or float64 numbers", array.dtype)


def _from_floats(x: NDArray[np.float64], name: str) -> ExactArray:
    """Write finite floats down exactly, over the largest power of two that one of them needs."""
    require(np.all(np.isfinite(x)), name, "be finite", "a NaN or an infinity")
    mantissa, exponent = np.frexp(x)
    m = np.ldexp(mantissa, 53).astype(np.int64)
    low = (m & -m).astype(np.float64)  # the lowest set bit, so that whole numbers keep the denominator 1
    shift = np.where(m == 0, 0, np.frexp(low)[1] - 1)
    m, e = m >> shift, np.where(m == 0, 0, exponent - 53 + shift)
    lowest = int(e.min(initial=0))
    powers = np.array([1 << (k - lowest) for k in e.ravel().tolist()], dtype=object).reshape(x.shape)
    return ExactArray(np.asarray(m.astype(object) * powers, dtype=object), 1 << -lowest)


def _from_objects(array: NDArray[Any], name: str) -> ExactArray:
    """Write Python numbers down exactly, over their least common denominator."""
    flat: list[Fraction] = []
    for value in array.ravel().tolist():
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, int | float | Fraction):
            raise ParameterError(name, "hold integers, fractions or floats", type(value).__name__)
        require(not isinstance(number, float) or math.isfinite(number), name, "be finite", "a NaN or an infinity")
        flat.append(Fraction(number))
    denominator = math.lcm(*(q.denominator for q in flat))
    numerators = [q.numerator * (denominator // q.denominator) for q in flat]
    return ExactArray(np.array(numerators, dtype=object).reshape(array.shape), denominator)


def plus_diagonal(matrix: ExactArray, value: Any) -> ExactArray:
    """Return ½(A + Aᵀ) + value·I, without rounding.

    >>> plus_diagonal(exact_array([[1, 2], [2, 3]]), 0.5).to_float().tolist()
    [[1.5, 2.0], [2.0, 3.5]]
    """
    extra, N = Fraction(value), matrix.numerators
    numerators = (N + N.T) * extra.denominator
    numerators[np.diag_indices(len(N))] += 2 * matrix.denominator * extra.numerator
    return ExactArray(numerators, 2 * matrix.denominator * extra.denominator)


# ---------------------------------------------------------------------- rounded to a chosen side


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


def root_up(square: Fraction) -> float:
    """Return the smallest float not below the square root of a positive rational.

    >>> root_up(Fraction(2)), root_up(Fraction(1, 4))
    (1.4142135623730951, 0.5)
    """
    shift = 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = (square.numerator << max(2 * shift, 0)) // (square.denominator << max(-2 * shift, 0))
    root = float(Fraction(math.isqrt(scaled)) / Fraction(2) ** shift)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root


def root_down(square: Fraction) -> float:
    """Return the largest float not above the square root of a positive rational.

    >>> root_down(Fraction(2)), root_down(Fraction(1, 4))
    (1.414213562373095, 0.5)
    """
    above = root_up(square)
    return above if Fraction(above) ** 2 == square else math.nextafter(above, 0.0)
