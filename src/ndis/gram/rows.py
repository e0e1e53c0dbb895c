"""Describe a row publicly, and turn rows into integer rows: clip to the bound, round onto the grid (thm:integer-rows).

A row has up to three groups of columns, each with its own norm bound b and its own grid b·2⁻ᵏ:

    features (``row_norm_bound``) · targets (``target_bound``) · intercept (a constant)

In integers every group has norm at most 2ᵏ, so in real units a whole row has norm at most √(Σ b²).

For a row x, bound b, k fractional bits and d columns, the integer row q is

    q = rint(x·c),  c = fl(2ᵏ/b),                        if Σq² ≤ 2²ᵏ   (it fits: nearest grid point)
    q = rint(y·f),  f = R·2^(B−1) / (√Σp² + √d/2),        otherwise      (it is pulled in)
        y = x / 2^⌊log₂ max|x|⌋,   p = rint(y·2^(B−1)),   R = 2ᵏ − ⌈√d/2⌉ − 1

and q = 0 if any entry of the row is NaN or infinite.

*The norm is at most 2ᵏ.* In the first case the test says so. Its sum of squares is right in any order of summation,
with or without fused operations. Partial sums of integers are exact up to 2⁵³, rounding is monotone, and 2²ᵏ < 2⁵³. So
a sum beyond 2⁵³ still compares as larger. In the second case |p| ≤ 2^B with d·2^(2B) ≤ 2⁵³ makes Σp² exact. Now
‖y·2^(B−1)‖ ≤ ‖p‖ + √d/2, so ‖y·f‖ ≤ R. The few roundings add less than 2⁻²⁰ in all, and rounding to the grid adds at
most √d/2. So ‖q‖ ≤ R + √d/2 + 2⁻²⁰ < 2ᵏ.

*The same bits everywhere.* Beyond these exact sums the map uses only single IEEE operations: product, quotient, square
root, round to nearest even. NumPy, compiled code and a CUDA device round each of them correctly; torch on a host does
not, so NumPy takes its roots (`square_root`).

*Bias.* Rounding is to nearest. So a row within the bound moves by at most half a grid step per column, upwards as
often as downwards. Clipping moves a row beyond the bound anyway. It ends within √d + 2 + 2^(k−B)·√d steps of its point
on the sphere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled
from ndis._exact import root_up
from ndis._validate import as_within, require
from ndis.data.table import Rows
from ndis.errors import ParameterError

# At k = 18 an exact float64 block holds 2¹⁷ rows, more than any cache tile, so exactness costs no extra flush,
# and the grid is 4·10⁻⁶ of the bound: a thousand times finer than the sampling error of any practical sketch.
DEFAULT_FRACTIONAL_BITS = 18
_LARGEST = 400  # binary exponent of a bound, at most: x·2ᵏ/b and the square of b are floats


@dataclass(frozen=True)
class ColumnGroup:
    """Columns ``start:stop``, clipped together to norm ``bound``."""

    start: int
    stop: int
    bound: float

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.stop - self.start


@dataclass(frozen=True)
class RowLayout:
    """A layout is the public description of a row.

    Parameters
    ----------
    features : int
        Number of feature columns, clipped together to ``row_norm_bound``.
    row_norm_bound : float
        Euclidean bound of the feature part of a row.
    targets : int
        Number of target columns, which follow the features and are clipped together to ``target_bound``.
    target_bound : float, optional
        Euclidean bound of the target part; for one target, a bound on its absolute value.
    intercept : float, optional
        Value of a constant last column. Its square counts in the joint bound.
    fractional_bits : int
        k: each group lies on the grid bound·2⁻ᵏ.
    names : tuple of str
        Names of the columns, empty if the source has none.

    Examples
    --------
    >>> layout = RowLayout(features=3, row_norm_bound=3.0, targets=1, target_bound=4.0)
    >>> layout.width, layout.joint_norm_bound
    (4, 5.0)
    """

    features: int
    row_norm_bound: float
    targets: int = 0
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.features, int) and self.features >= 1):
            raise ParameterError("features", "be at least one column", self.features)
        require(isinstance(self.targets, int) and self.targets >= 0, "targets", "be a number of columns", self.targets)
        bits: Any = self.fractional_bits
        if not (isinstance(bits, Integral) and 8 <= int(bits) <= 24):
            raise ParameterError("fractional_bits", "be an integer from 8 to 24", bits)
        k = int(bits)
        object.__setattr__(self, "fractional_bits", k)
        object.__setattr__(self, "row_norm_bound", as_within("row_norm_bound", self.row_norm_bound, _LARGEST))
        if self.targets:
            if self.target_bound is None:
                raise ParameterError("target_bound", "be given with targets", None, "state the largest target publicly")
            object.__setattr__(self, "target_bound", as_within("target_bound", self.target_bound, _LARGEST))
        elif self.target_bound is not None:
            raise ParameterError("target_bound", "come with targets", self.target_bound, "name the target columns")
        if self.intercept is not None:
            object.__setattr__(self, "intercept", as_within("intercept", self.intercept, _LARGEST))
        # The quantiser pulls clipped rows in by ⌈√d/2⌉ + 1 grid steps; half the ball must be left.
        widest = max(self.features, self.targets)
        if not math.ceil(math.sqrt(widest) / 2) + 1 <= 2 ** (k - 1):
            raise ParameterError("fractional_bits", f"be larger for {widest} columns", k)

    @property
    def groups(self) -> tuple[ColumnGroup, ...]:
        """Return the clipped groups in column order, the constant intercept last."""
        f, t = self.features, self.targets
        groups = [ColumnGroup(0, f, self.row_norm_bound)]
        if self.target_bound is not None:
            groups.append(ColumnGroup(f, f + t, self.target_bound))
        if self.intercept is not None:
            groups.append(ColumnGroup(f + t, f + t + 1, self.intercept))
        return tuple(groups)

    @property
    def width(self) -> int:
        """Return the number of columns of the Gram matrix."""
        return self.groups[-1].stop

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Return the grid step of every column, exactly."""
        scale = 1 << self.fractional_bits
        return tuple(Fraction(g.bound) / scale for g in self.groups for _ in range(g.width))

    @property
    def joint_norm_bound_squared(self) -> Fraction:
        """Return Σ b² over the groups, exactly: the squared norm that no row exceeds."""
        return sum((Fraction(g.bound) ** 2 for g in self.groups), Fraction(0))

    @property
    def joint_norm_bound(self) -> float:
        """Return the smallest float not below √(Σ b²)."""
        return root_up(self.joint_norm_bound_squared)

    @property
    def block_rows(self) -> int:
        """Rows whose product is exact in float64.

        Every group has integer norm ≤ 2ᵏ, so by Cauchy–Schwarz no partial sum of any entry exceeds rows·2²ᵏ ≤ 2⁵³.
        """
        return 1 << (53 - 2 * self.fractional_bits)


def layout_for(rows: Rows, *, intercept: float | None, **public: Any) -> RowLayout:
    """Return the layout of the chosen columns of a table."""
    names = rows.names
    if names and intercept is not None:
        constant = "intercept"
        while constant in names:
            constant += "_"
        names += (constant,)
    targets = rows.widths[1] if len(rows.widths) > 1 else 0
    return RowLayout(rows.widths[0], targets=targets, intercept=intercept, names=names, **public)


# ---------------------------------------------------------------------- integer rows

_EXPONENT = 0x7FF0000000000000  # the exponent field of a float64: |x| & _EXPONENT = 2^⌊log₂|x|⌋


@dataclass(frozen=True)
class GroupRule:
    """The constants of the map for one group of columns; all of them public."""

    scale: float  # c
    limit: float  # 2²ᵏ
    probe: float  # 2^(B−1)
    radius: float  # R·2^(B−1)
    slack: float  # √d/2

    @classmethod
    def of(cls, group: ColumnGroup, fractional_bits: int) -> GroupRule:
        """Return the constants for ``group``.

        >>> GroupRule.of(ColumnGroup(0, 4, bound=2.0), 10)
        GroupRule(scale=512.0, limit=1048576.0, probe=16777216.0, radius=17146314752.0, slack=1.0)
        """
        k, d = fractional_bits, group.width
        B = _probe_bits(d)
        R = 2**k - math.ceil(math.sqrt(d) / 2) - 1
        return cls(2.0**k / group.bound, 4.0**k, 2.0 ** (B - 1), R * 2.0 ** (B - 1), math.sqrt(d) / 2)


def quantise_group(xp: Any, x: Any, rule: GroupRule) -> tuple[Any, Any]:
    """Round the float64 rows ``x`` onto the grid with the array module ``xp`` (``numpy`` or ``torch``).

    Returns the integer rows, as float64, and the mask of rows that hold a NaN or an infinity; those rows are zero.

    >>> import numpy as np
    >>> rule = GroupRule.of(ColumnGroup(0, 2, bound=1.0), 8)
    >>> with np.errstate(all="ignore"):
    ...     q, broken = quantise_group(np, np.array([[0.25, 0.5], [3e300, 4e300], [np.nan, 0.0]]), rule)
    >>> q.tolist(), broken.tolist()
    ([[64.0, 128.0], [152.0, 203.0], [0.0, 0.0]], [False, False, True])
    """
    q = xp.round(x * rule.scale)
    fits = _squares(xp, q) <= rule.limit  # false for NaN
    broken = ~fits
    (outside,) = xp.where(broken)
    if len(outside):
        rows = x[outside]
        finite = xp.all(xp.isfinite(rows), 1)
        q[outside] = pull_in(xp, xp.where(finite[:, None], rows, xp.ones_like(rows)), rule) * finite[:, None]
        broken[outside] = ~finite
    return q, broken


def pull_in(xp: Any, x: Any, rule: GroupRule) -> Any:
    """Move finite rows from beyond the bound onto the sphere of radius R, and round."""
    _, y, norm = _probed(xp, x, rule.probe)
    norm = norm + rule.slack
    # A tensor numerator: a Python scalar over a tensor may be computed as a reciprocal and a product.
    f = xp.full_like(norm, rule.radius) / norm
    return xp.round(y * f[:, None])


def shortening(xp: Any, x: Any, bound: float) -> Any:
    """Return by how much finite rows are scaled to be at most `bound` long: (n, 1) factors of their own rows, or 1.

    A sum of squares in float64 depends on its order, so it only finds the rows that may be longer, and a few more.
    Their lengths come from exact sums of squares of rounded entries.

    >>> shortening(np, np.array([[0.6, 0.8], [6.0, 8.0], [0.0, 0.0]]), 5.0).ravel().round(6).tolist()
    [1.0, 0.5, 1.0]
    """
    factor, probe = xp.ones_like(x[:, :1]), 2.0 ** (_probe_bits(x.shape[1]) - 1)
    (long,) = xp.where(_squares(xp, x) > (bound * (1.0 - 2.0 * math.sqrt(x.shape[1]) / probe)) ** 2)
    if not len(long):
        return 1.0
    power, _, norm = _probed(xp, x[long], probe)
    factor[long, 0] = xp.clip(xp.full_like(norm, bound) / (norm * (power / probe)), 0.0, 1.0)
    return factor


def _squares(xp: Any, x: Any) -> Any:
    """Return the sums of squares of rows, in any order."""
    return np.einsum("ij,ij->i", x, x) if xp is np else xp.sum(x * x, 1)


def _probed(xp: Any, x: Any, probe: float) -> tuple[Any, Any, Any]:
    """Return the power of two below the largest entry of each row, the row over it, and the norm of rounded entries."""
    power = (xp.amax(xp.abs(x), 1).view(xp.int64) & _EXPONENT).view(xp.float64)
    y = x / power[:, None]
    p = xp.round(y * probe)
    return power, y, square_root(xp, xp.sum(p * p, 1))


def square_root(xp: Any, values: Any) -> Any:
    """Return square roots as IEEE rounds them; those of torch on a host may be one bit off."""
    if isinstance(values, np.ndarray) or values.is_cuda:
        return xp.sqrt(values)
    return xp.from_numpy(np.sqrt(values.numpy()))


def _probe_bits(width: int) -> int:
    """Return B: the squares of this many integers of at most B bits add up exactly."""
    return (53 - (width - 1).bit_length()) // 2


# ---------------------------------------------------------------------- compiled

_SMALL_TABLE = 1 << 15  # entries

# One pass over a row while it is in cache. The bits are those of `quantise_group`, the definition, and a test compares
# the two. The compiler may reorder only sums of squares, because these are exact in any order.


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})  # exact sums
def _round_row(x: Any, c: float, q: Any) -> float:
    s = 0.0
    for j in range(x.size):
        v = np.rint(x[j] * c)
        q[j] = v
        s += v * v
    return s


@compiled(error_model="numpy", fastmath={"nnan", "nsz"})  # called without NaN, on magnitudes
def _largest(x: Any) -> float:
    largest = 0.0
    for j in range(x.size):
        largest = max(largest, np.abs(x[j]))
    return largest


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})  # exact sums
def _probe_squares(y: Any, probe: float) -> float:
    s = 0.0
    for j in range(y.size):
        p = np.rint(y[j] * probe)
        s += p * p
    return s


@compiled(error_model="numpy")
def _pull_row_in(x: Any, shrink: float, probe: float, radius: float, slack: float, q: Any) -> None:
    for j in range(x.size):
        q[j] = x[j] * shrink
    norm = np.sqrt(_probe_squares(q, probe)) + slack
    f = radius / norm
    for j in range(x.size):
        q[j] = np.rint(q[j] * f)


@compiled(error_model="numpy")
def _quantise(x: Any, c: float, limit: float, probe: float, radius: float, slack: float, q: Any, broken: Any) -> None:
    """Round rows to integers, and pull those beyond the bound into the ball; broken rows become zeros."""
    for i in range(x.shape[0]):
        squares = _round_row(x[i], c, q[i])
        if squares <= limit:
            continue
        largest = np.inf if np.isnan(squares) else _largest(x[i])  # the sum is NaN only if an entry is
        if largest < np.inf:
            shrink = math.ldexp(1.0, 1 - math.frexp(largest)[1])  # one over a power of two: exact
            _pull_row_in(x[i], shrink, probe, radius, slack, q[i])
        else:
            q[i] = 0.0
            broken[i] = True


def quantise_group_into(
    x: NDArray[np.float64], rule: GroupRule, q: NDArray[np.float64], broken: NDArray[np.bool_]
) -> None:
    """Write the integer rows of ``x`` into ``q`` and mark the rows that hold a NaN or an infinity in ``broken``."""
    if x.size <= _SMALL_TABLE:  # the definition, with equal bits: a compiler would take longer than the table
        with np.errstate(all="ignore"):
            q[:], bad = quantise_group(np, np.asarray(x, dtype=np.float64), rule)
        broken |= bad
        return
    _quantise(x, rule.scale, rule.limit, rule.probe, rule.radius, rule.slack, q, broken)
