"""How large a sketch: ridge and error against the number of its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ndis._validate import Adjacency, as_not_negative, as_one_probability, as_scalar, as_size
from ndis.errors import ParameterError
from ndis.mechanisms.gaussian import unit_noise
from ndis.mechanisms.projection import RandomProjection

__all__ = ["SketchSizeRow", "SketchSizes", "choose_sketch_size", "default_sketch_size"]

_CLOSE = 1.1  # a bound within 10 % of the best on the table counts as good
_ROWS_PER_COLUMN = 100  # the least: sampling then adds about one per cent to the squared error
_ENTRIES = 1 << 16  # of a sketch by default: a second or two
_MOST_ENTRIES = 1 << 18  # of a sketch, if the number of records is known and is as large: some seconds


@dataclass(frozen=True)
class SketchSizeRow:
    """One choice.

    Attributes
    ----------
    sketch_size : int
    ridge : float
        The smallest one for the budget.
    error_bound : float
        ‖gram() − DᵀD‖ stays below it with the given confidence, if ‖DᵀD‖ ≤ `gram_norm_bound`.
    ridge_ratio : float
        This ridge over the one of the paper, l²/p*.
    """

    sketch_size: int
    ridge: float
    error_bound: float
    ridge_ratio: float


@dataclass(frozen=True)
class SketchSizes:
    """A table of choices, smallest sketch first, and the recommended one.

    Attributes
    ----------
    rows : tuple of SketchSizeRow
    recommended : int
        The smallest sketch that meets the target error. Without a target, the smallest one whose bound is within 10 %
        of the best on the table. The bound falls slowly, so this is mostly the largest size or the one before. A
        release draws d·r numbers at about 15 µs each: pass `target_error`, or the `sketch_sizes` that you can afford.
    """

    rows: tuple[SketchSizeRow, ...]
    recommended: int

    def to_rows(self) -> list[dict[str, float]]:
        """The table as plain values, one dictionary per row."""
        return [vars(row).copy() for row in self.rows]

    def __repr__(self) -> str:
        lines = [f"{'sketch_size':>11} {'ridge':>12} {'error bound':>12} {'of paper':>9}"]
        for row in self.rows:
            mark = "  <- recommended" if row.sketch_size == self.recommended else ""
            lines.append(
                f"{row.sketch_size:>11} {row.ridge:>12.6g} {row.error_bound:>12.6g} {row.ridge_ratio:>9.4f}{mark}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw ridge and error bound against the size of the sketch and return the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        sizes = [row.sketch_size for row in self.rows]
        ax.loglog(sizes, [row.error_bound for row in self.rows], marker="o", label="error bound")
        ax.loglog(sizes, [row.ridge for row in self.rows], marker="s", label="ridge")
        ax.axvline(self.recommended, color="0.6", linestyle="--", label=f"recommended: {self.recommended}")
        ax.set(xlabel="sketch size", ylabel="spectral norm")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        return ax


def choose_sketch_size(
    *,
    epsilon: float,
    delta: float,
    row_norm_bound: float,
    columns: int,
    sketch_sizes: Iterable[int] | None = None,
    gram_norm_bound: float = 0.0,
    confidence: float = 0.95,
    target_error: float | None = None,
    adjacency: Adjacency = "add-remove",
    target_bound: float | None = None,
    intercept: float | None = None,
) -> SketchSizes:
    """Ridge and error bound of a random projection against its size, from public numbers only.

    A larger sketch needs more ridge, about in proportion to √r, and averages more draws. The bound is
    (2η + η²)·(‖DᵀD‖ + ridge) with η = √(d/r) + √(2 ln(2/β)/r) (thm:mech-rp-utility with the constants of Davidson and
    Szarek). It falls with r towards a floor that the budget sets.

    Parameters
    ----------
    columns : int
        d: features and targets, without the constant column.
    sketch_sizes : iterable of int, optional
        The sizes to compare; by default powers of two from about 4·d to 4096·d. A release draws d·r numbers at about
        15 µs each. Without `target_error` nearly the largest size is recommended, so name the sizes you can afford.
    gram_norm_bound : float
        A public guess of ‖DᵀD‖, at most records·l². At the default, 0, the table shows only the cost of the ridge.
    confidence : float
        1 − β.
    target_error : float, optional
        The error to reach.
    epsilon, delta, row_norm_bound, adjacency, target_bound, intercept
        As for `RandomProjection.calibrated`.

    Raises
    ------
    ParameterError
        If no size on the table meets `target_error`.

    Examples
    --------
    >>> table = choose_sketch_size(
    ...     epsilon=1.0, delta=1e-6, row_norm_bound=1.0, columns=5, sketch_sizes=[100, 1000, 10000], gram_norm_bound=1e4
    ... )
    >>> table.recommended, [round(row.ridge, 2) for row in table.rows]
    (10000, [35.54, 99.99, 304.2])
    """
    d = as_size("columns", columns) + (intercept is not None)
    beta = 1.0 - as_one_probability("confidence", confidence)
    norm = as_not_negative("gram_norm_bound", gram_norm_bound)
    start = 4 << max(d - 1, 1).bit_length()
    wanted: Any = [start << k for k in range(11)] if sketch_sizes is None else sketch_sizes
    if not isinstance(wanted, Iterable):
        raise ParameterError("sketch_sizes", "be several sizes", repr(wanted), "one size is [size]")
    sizes = sorted({as_size("sketch_sizes", r) for r in wanted})
    if not sizes:
        raise ParameterError("sketch_sizes", "name at least one size", "none")

    public: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "row_norm_bound": row_norm_bound,
        "adjacency": adjacency,
        "target_bound": target_bound,
        "intercept": intercept,
    }

    def row(r: int) -> SketchSizeRow:
        mechanism = RandomProjection.calibrated(sketch_size=r, **public)
        eta = math.sqrt(d / r) + math.sqrt(2.0 * math.log(2.0 / beta) / r)
        paper = mechanism.ridge * (1.0 + mechanism.leverage)  # l²/p* = λ + l²
        error = (2.0 * eta + eta**2) * (norm + mechanism.ridge)
        return SketchSizeRow(r, mechanism.ridge, error, mechanism.ridge / paper)

    rows = tuple(row(r) for r in sizes)
    best = min(one.error_bound for one in rows)
    goal = _CLOSE * best if target_error is None else as_scalar("target_error", target_error)
    good = [one.sketch_size for one in rows if one.error_bound <= goal]
    if not good:
        remedy = "try larger sketch_sizes" if rows[-1].error_bound == best else "the budget does not allow it"
        raise ParameterError("target_error", f"be at least {best:.6g}, the best on the table", goal, remedy)
    return SketchSizes(rows, good[0])


def default_sketch_size(*, columns: int, epsilon: float, delta: float, records: float | None = None) -> int:
    """How many rows an estimator's sketch has if nobody says, from public numbers only.

    Least squares on a sketch of r rows has at least the noise of least squares on r records. So more rows than records
    serve little. The privacy noise of an entry of the Gram matrix is about l²κ for every large r, with κ = 1/(√2·μ) and
    μ the shift that (ε, δ) allows. The noise of sampling is at most l²·records/√r. It is below the privacy noise if
    r ≥ (records/κ)². So for records that are known, r is the smaller of records and (records/κ)², up to 2¹⁸ entries.
    Otherwise the sketch has 2¹⁶ entries. It always has at least 100 rows per column.

    Parameters
    ----------
    columns : int
        All columns of the sketch, targets and constant included.
    epsilon, delta : float
    records : float, optional
        The number of records, if it is public.

    Examples
    --------
    >>> default_sketch_size(columns=6, epsilon=1.0, delta=1e-6)
    10922
    >>> [default_sketch_size(columns=6, epsilon=1.0, delta=1e-6, records=n) for n in (500, 20_000, 1_000_000)]
    [600, 20000, 43690]
    """
    least = _ROWS_PER_COLUMN * columns
    if records is None:
        return max(least, _ENTRIES // columns)
    noise = unit_noise(epsilon, delta)
    serving = min(records, 2.0 * (records / noise) ** 2)
    return max(least, int(min(serving, _MOST_ENTRIES // columns)))
