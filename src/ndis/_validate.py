"""Checks that the public entry points share. Each states the good case, so that NaN never passes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis.errors import ParameterError, PrecisionError
from ndis.errors import require as require

Floats = NDArray[np.float64]
Vector = Sequence[Any] | NDArray[Any]  # what gives an array back; a float gives a float back
P = ParamSpec("P")
T = TypeVar("T")
Adjacency = Literal["add-remove", "replace-one"]
Order = Literal["remove", "add"]  # p has the record and q has not, or the reverse
ORDERS: tuple[Order, Order] = ("remove", "add")
ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")

# The remedy for a bound that was not stated.
STATE_A_BOUND = "state what is known without looking at the data (a bound taken from the data would leak it)"

# A matrix computed in floats is symmetric up to rounding: d·2⁻⁴⁶ of the size of its entries (for a covariance, of the
# two standard deviations). Only (A+Aᵀ)/2 is used, and a larger asymmetry is refused.
_ASYMMETRY = 2.0**-46


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point to the line that called into the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


_INSIDE = ("ndis", "sklearn", "opacus", "contextlib")  # what stands between a user's line and a warning


WIDEST = 120  # binary exponent of public ranges and bounds: eighth powers, as errors of ratios have them, are floats


def _brief(value: Any) -> str:
    text = np.array2string(np.asarray(value), threshold=6, precision=6, separator=", ").replace("\n", "")
    return text if len(text) <= 80 else text[:77] + "..."


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written to."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def assign(item: object, /, **values: Any) -> None:
    """Give an object that cannot be changed its checked values."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


def _checked(name: str, value: T, good: Any, rule: str) -> T:
    """Return a number or an array of which something holds everywhere."""
    if not np.all(good):
        raise ParameterError(name, rule, _brief(value) if isinstance(value, np.ndarray) else value)
    return value


def as_reals(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a float64 array; numbers only, infinities allowed, NaN not."""
    try:
        array = np.asarray(value)
        kind = array.dtype.kind
        array = array.astype(np.float64) if kind in "uif" else array
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(name, "be an array of real numbers", type(value).__name__) from error
    if kind not in "uif":
        raise ParameterError(name, "be real numbers", _brief(value) if kind != "O" else type(value).__name__)
    return _checked(name, array, ~np.isnan(array), "be finite")


def as_floats(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a float64 array; numbers only, all finite."""
    array = as_reals(name, value)
    return _checked(name, array, np.isfinite(array), "be finite")


def as_scalar(name: str, value: ArrayLike) -> float:
    """Return one finite number."""
    if value is None or isinstance(value, str | bytes | bool | complex):
        raise ParameterError(name, "be a real number", f"{value!r:.80}")
    return single(name, as_floats(name, value))


def single(name: str, array: Floats) -> float:
    """Return the number in an array without axes."""
    require(not array.ndim, name, "be a single number", f"shape {array.shape}")
    return float(array)


def as_vector(name: str, value: ArrayLike, length: int | None = None) -> Floats:
    """Return a finite vector, of a length if one is given; a scalar is a vector of length one, or is repeated."""
    array = np.atleast_1d(as_floats(name, value))
    require(array.ndim == 1, name, "be one-dimensional", f"shape {array.shape}")
    require(length is None or array.size in (1, length), name, f"have length {length}", f"length {array.size}")
    return array if length is None else np.broadcast_to(array, length)


def as_positive(name: str, value: ArrayLike) -> Floats:
    """Return a finite vector with every entry above zero."""
    array = as_vector(name, value)
    return _checked(name, array, array > 0, "be positive")


def as_one_positive(name: str, value: ArrayLike) -> float:
    """Return one finite number above zero."""
    x = as_scalar(name, value)
    return _checked(name, x, x > 0, "be positive")


def as_not_negative(name: str, value: ArrayLike) -> float:
    """Return one finite number of at least zero."""
    x = as_scalar(name, value)
    return _checked(name, x, x >= 0, "not be negative")


def as_within(name: str, value: Any, exponent: int) -> float:
    """Return one positive number between 2^−exponent and 2^exponent, so that its powers and quotients stay floats."""
    x, rule = as_scalar(name, value), f"be positive and between 2^-{exponent} and 2^{exponent}"
    return _checked(name, x, 2.0**-exponent <= x <= 2.0**exponent, rule)


def as_counts(name: str, value: ArrayLike) -> Floats:
    """Return a vector of whole numbers of at least one, as exact floats."""
    array = as_vector(name, value)
    good = (array >= 1) & (array == np.floor(array)) & (array <= 2.0**53)
    return _checked(name, array, good, "be whole numbers of at least 1")


def as_count(name: str, value: Any) -> int:
    """Return one whole number of at least one."""
    return int(as_counts(name, as_scalar(name, value))[0])


def as_size(name: str, value: Any) -> int:
    """Return one whole number of at least one, given as an integer: a number of rows, columns or records."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= 2**53:
        raise ParameterError(name, "be a whole number of at least 1", repr(value))
    return int(value)


def as_symmetric(name: str, value: ArrayLike, size: Floats | None = None) -> Floats:
    """(A+Aᵀ)/2 of a finite square matrix that is symmetric up to rounding, definite or not; a scalar counts as 1×1.

    Rounding is relative to the size of the entries, and their largest modulus is the size unless it is given.
    """
    array = as_floats(name, value)
    array = array.reshape(1, 1) if array.ndim == 0 else array
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ParameterError(name, "be a square matrix", f"shape {array.shape}")
    excess = np.abs(array - array.T)
    good = (excess <= len(array) * _ASYMMETRY * (np.abs(array).max() if size is None else size)).all()
    remedy = "average it with its transpose if that is what you mean"
    require(good, name, "be symmetric", f"a largest asymmetry of {excess.max():.3g}", remedy)
    return array if not excess.any() else 0.5 * (array + array.T)


def as_covariance(name: str, value: ArrayLike, dimension: int) -> Floats:
    """A finite symmetric d×d matrix; a scalar is accepted in one dimension. Its factorisation judges definiteness."""
    array = as_floats(name, value)
    if array.ndim == 0 and dimension == 1:
        array = array.reshape(1, 1)
    if array.shape != (dimension, dimension):
        raise ParameterError(name, f"have shape ({dimension}, {dimension})", f"shape {array.shape}")
    diagonal = np.diagonal(array)
    deviation = np.sqrt(_checked(name, diagonal, diagonal >= 0, "have non-negative variances on its diagonal"))
    return as_symmetric(name, array, np.outer(deviation, deviation))


def as_probability(name: str, value: ArrayLike) -> Floats:
    """Return finite values strictly between 0 and 1, of any shape."""
    array = as_floats(name, value)
    return _checked(name, array, (array > 0) & (array < 1), "lie strictly between 0 and 1")


def as_share(name: str, value: ArrayLike) -> Floats:
    """Return finite values from 0 to 1, of any shape."""
    array = as_floats(name, value)
    return _checked(name, array, (array >= 0) & (array <= 1), "lie between 0 and 1")


def as_one_probability(name: str, value: ArrayLike) -> float:
    """Return one number strictly between 0 and 1."""
    return single(name, as_probability(name, value))


def as_fractions(name: str, value: Any) -> list[Fraction]:
    """Return exact rationals, from one number or a sequence; floats and `Fraction` values are taken exactly."""
    given = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    result = []
    for x in given if isinstance(given, list | tuple) else [given]:
        if isinstance(x, bool) or not isinstance(x, int | float | Fraction | np.integer | np.floating):
            raise ParameterError(name, "be real numbers", type(x).__name__)
        try:
            finite = bool(np.isfinite(float(x)))
        except OverflowError:
            raise ParameterError(name, "lie within the range of floats", "a larger number") from None
        require(finite, name, "be finite", x)
        result.append(Fraction(int(x)) if isinstance(x, np.integer) else Fraction(*x.as_integer_ratio()))
    return result


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


def shaped(values: Floats, shape: tuple[int, ...]) -> float | Floats:
    """Return a flat array in the shape of the caller's argument; a float for a single number."""
    return float(values[0]) if shape == () else values.reshape(shape)


def exponential(log_values: float | Floats) -> float | Floats:
    """Return e to each entry, in the same shape; a float for a single number."""
    values = np.exp(log_values)
    return float(values) if np.ndim(values) == 0 else values


class Broadcast(Protocol[P]):
    """This is a method that broadcasts: a float gives a float, an array or a sequence gives an array."""

    @overload
    def __call__(self, value: float, /, *args: P.args, **options: P.kwargs) -> float: ...
    @overload
    def __call__(self, value: Vector, /, *args: P.args, **options: P.kwargs) -> Floats: ...
    @overload
    def __call__(self, **named: Any) -> Any: ...


class _Method(Protocol[P]):
    def __get__(self, instance: object, owner: Any = None, /) -> Broadcast[P]: ...


def broadcasts(method: Callable[Concatenate[Any, Any, P], float | Floats]) -> _Method[P]:
    """Tell type checkers that a method is a `Broadcast` over its first argument. Python gets the method unchanged."""
    return method


def as_choice(name: str, value: Any, choices: Sequence[str]) -> Any:
    """Return one of at least two words.

    >>> as_choice("release", "mean", ("draw", "mean"))
    'mean'
    """
    if not isinstance(value, str) or value not in choices:
        *first, last = map(repr, choices)
        raise ParameterError(name, f"be {', '.join(first)} or {last}", repr(value))
    return value


def as_adjacency(value: Any) -> Adjacency:
    """Return one of the two relations between data sets."""
    return as_choice("adjacency", value, ADJACENCIES)  # type: ignore[no-any-return]


def broadcast_vectors(**named: Floats) -> tuple[Floats, ...]:
    """Vectors of one common length; those of length one are repeated."""
    try:
        return tuple(np.array(a) for a in np.broadcast_arrays(*named.values()))
    except ValueError:
        shapes = ", ".join(f"{k}: {v.size}" for k, v in named.items())
        raise ParameterError(" and ".join(named), "have the same length (or length 1)", shapes) from None
