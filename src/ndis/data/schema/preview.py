"""The effect of a schema on public or synthetic rows, and the rows that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._text import html_table, text_table
from ndis.data.dask import computed, is_dask, tree
from ndis.data.schema.columns import UNKNOWN, Column
from ndis.data.schema.table import checked_columns
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndis.data.schema.cells import Cells, Floats
    from ndis.data.schema.core import Schema

__all__ = ["ColumnPreview", "Preview", "changed_rows", "preview"]

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
_CORNER = 1.0 + 1e-9  # rounding may put a corner of the box beyond the bound
_HEAD = ("column", "clipped", "unlisted", "missing")


@dataclass(frozen=True)
class ColumnPreview:
    """Shares of the cells of one column: clipped to the range, of no listed category, missing."""

    name: str
    clipped: float
    unknown: float
    missing: float


@dataclass(frozen=True, eq=False)
class Preview:
    """The effect of a schema on public or synthetic rows; printing it shows a table.

    Attributes
    ----------
    columns : tuple of ColumnPreview
        The target is the last one, if the rows have it.
    rows : int
    norms : array
        Norms of the encoded rows that are not empty.
    row_norm_bound : float
    emptied : float
        Share of rows that count as zeros, because a cell is missing and its column has no fill.
    beyond : float
        Share of rows beyond the norm bound, which are scaled down to it.

    Examples
    --------
    >>> from ndis.schema import Schema
    >>> Schema({"age": (18, 90), "region": ["N", "S"]}).preview({"age": [17, 54], "region": ["S", "W"]})
    2 rows, norm bound 1.414
    column  clipped  unlisted  missing
    age       50.0%      0.0%     0.0%
    region     0.0%     50.0%     0.0%
    rows beyond the norm bound: 0.0%; rows that count as zeros: 0.0%
    norms: least 0, quarter 0.3536, half 0.7071, three quarters 1.061, 95% 1.344, largest 1.414
    """

    columns: tuple[ColumnPreview, ...]
    rows: int
    norms: NDArray[np.float64]
    row_norm_bound: float
    emptied: float
    beyond: float

    @property
    def quantiles(self) -> dict[float, float]:
        """Quantiles of the norms of encoded rows."""
        found = np.quantile(self.norms, QUANTILES) if len(self.norms) else np.full(len(QUANTILES), np.nan)
        return dict(zip(QUANTILES, found.tolist(), strict=True))

    def cells(self) -> list[list[str]]:
        """The header and the rows of the table, as text."""
        shares = [
            [c.name, *(f"{100 * share:.1f}%" for share in (c.clipped, c.unknown, c.missing))] for c in self.columns
        ]
        return [list(_HEAD), *shares]

    def notes(self) -> list[str]:
        """Sentences about whole rows."""
        words = ("least", "quarter", "half", "three quarters", "95%", "largest")
        norms = ", ".join(f"{word} {value:.4g}" for word, value in zip(words, self.quantiles.values(), strict=True))
        beyond = (
            f"rows beyond the norm bound: {100 * self.beyond:.1f}%; rows that count as zeros: {100 * self.emptied:.1f}%"
        )
        return [beyond, f"norms: {norms}"]

    def __repr__(self) -> str:
        return text_table(self._title(), self.cells(), self.notes())

    def _title(self) -> str:
        return f"{self.rows} rows, norm bound {self.row_norm_bound:.4g}"

    def _repr_html_(self) -> str:
        return html_table(self._title(), self.cells(), self.notes())

    def plot(self, ax: Any = None) -> Any:
        """Draw the norms of encoded rows, with the bound; returns the axes."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.4, 3.6), layout="constrained").subplots()
        ax.hist(self.norms, bins=40, color="#4c78a8")
        ax.axvline(self.row_norm_bound, color="#b22222")
        ax.annotate(
            f"bound: {100 * self.beyond:.1f}% of rows beyond it",
            (self.row_norm_bound, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color="#b22222",
        )
        ax.set_xlabel("norm of an encoded row")
        ax.set_ylabel("rows")
        return ax


def preview(schema: Schema, rows: Any, *, columns: Any, header: bool) -> Preview:
    """See `Schema.preview`."""
    wanted: dict[str, Column] = dict(schema.columns)
    if schema.target_name is not None and schema.target is not None and _has(rows, schema.target_name):
        wanted[schema.target_name] = schema.target
    found, names = checked_columns(schema, rows, wanted, columns, header, False)
    totals = np.zeros((len(wanted), 3))
    norms: list[Floats] = []
    count = emptied = 0
    for cells in found.read(names):
        for total, values, column in zip(totals, _values(wanted, cells), wanted.values(), strict=True):
            total += [column.outside(values).sum(), (values == UNKNOWN).sum() * _listed(column), np.isnan(values).sum()]
        length = np.sqrt((schema.encode_cells(cells[: len(schema.columns)]) ** 2).sum(axis=1))
        norms.append(length[~np.isnan(length)])
        count += len(length)
        emptied += int(np.isnan(length).sum())
    every = np.concatenate([np.empty(0), *norms])
    shares = totals / max(count, 1)
    beyond = int((every > schema.row_norm_bound * _CORNER).sum())
    return Preview(
        tuple(ColumnPreview(name, *share.tolist()) for name, share in zip(wanted, shares, strict=True)),
        count,
        every,
        schema.row_norm_bound,
        emptied / max(count, 1),
        beyond / max(count, 1),
    )


def _values(wanted: dict[str, Column], cells: list[Cells]) -> Iterator[Floats]:
    return (column.read(part) for column, part in zip(wanted.values(), cells, strict=True))


def _listed(column: Column) -> bool:
    return hasattr(column, "texts")


def _has(rows: Any, name: str) -> bool:
    """Whether rows in memory have a target column; rows in files are taken to have it."""
    if hasattr(rows, "columns") or hasattr(rows, "column_names") or isinstance(rows, dict):
        return name in [str(each) for each in getattr(rows, "column_names", getattr(rows, "columns", rows))]
    return isinstance(rows, str) or hasattr(rows, "__fspath__")


def changed_rows(
    schema: Schema,
    data: Any,
    *,
    targets: Cells | None = None,
    row_norm_bound: float | None = None,
    kept: Sequence[int] | None = None,
    columns: Any = None,
    header: bool = False,
    progress: bool | None = None,
) -> int:
    """**Private**: how many rows the schema changes by more than a map of units; release it only with noise.

    A row counts once: if a cell is clipped, unknown or missing, the target included, or if the row is beyond the bound.
    `targets` are the cells of a target that is not among the columns of data in memory. The bound is that of the
    schema unless `row_norm_bound` states another one, for the encoded columns that are `kept`.
    """
    bound = schema.row_norm_bound if row_norm_bound is None else row_norm_bound
    columns_kept = list(range(len(schema.feature_names))) if kept is None else list(kept)
    wanted: dict[str, Column] = dict(schema.columns)
    if targets is None and schema.target_name is not None and schema.target is not None:
        wanted[schema.target_name] = schema.target

    def changed_in(part: Any, *, typed: bool = True) -> list[Any]:
        found, names = checked_columns(schema, part, wanted, columns, header, progress, typed=typed)
        return [_changed(schema, wanted, cells, bound, columns_kept) for cells in found.read(names)]

    if is_dask(data):
        schema.table(data, columns=columns, header=header)  # types that do not fit are refused
        counts = tree(list(data.to_delayed()), lambda part: _total(changed_in(part, typed=False)), sum)
        return int(computed(counts))
    changed = changed_in(data)
    if targets is not None and schema.target is not None:
        whole = np.concatenate([np.zeros(0, dtype=bool), *changed])
        values = schema.target.read(targets)
        if len(whole) != len(values):
            raise ParameterError("y", "have one target per row", "another number")
        return int((whole | _trouble(schema.target, values)).sum())
    return _total(changed)


def _total(parts: list[Any]) -> int:
    return sum(int(part.sum()) for part in parts)


def _changed(
    schema: Schema, wanted: dict[str, Column], cells: list[Cells], bound: float, kept: list[int]
) -> NDArray[np.bool_]:
    length = np.sqrt((schema.encode_cells(cells[: len(schema.columns)])[:, kept] ** 2).sum(axis=1))
    changed: NDArray[np.bool_] = ~(length <= bound * _CORNER)
    for column, values in zip(wanted.values(), _values(wanted, cells), strict=True):
        changed = changed | _trouble(column, values)
    return changed


def _trouble(column: Column, values: Floats) -> Any:
    """Which values are clipped, missing, or of no listed category."""
    return column.outside(values) | np.isnan(values) | ((values == UNKNOWN) & _listed(column))
