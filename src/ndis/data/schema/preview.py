"""Show the effect of a schema on public or synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.data.cells import Floats
from ndis.data.opening import open_for
from ndis.data.schema.changed import CORNER, row_norms
from ndis.pages.html import html_table
from ndis.pages.text import text_table

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
_HEAD = ("column", "clipped", "unlisted", "missing")


@dataclass(frozen=True)
class ColumnPreview:
    """These shares of the cells of one column are clipped to the range, of no listed category, missing.

    >>> from ndis.schema import Schema
    >>> (age,) = Schema({"age": (18, 90)}).preview({"age": [17, 54, 60, 61]}, public=True).columns
    >>> age.clipped, age.missing
    (0.25, 0.0)
    """

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
    >>> Schema({"age": (18, 90), "region": ["N", "S"]}).preview({"age": [17, 54], "region": ["S", "W"]}, public=True)
    2 rows, norm bound 1.414
    column  clipped  unlisted  missing
    age       50.0%      0.0%     0.0%
    region     0.0%     50.0%     0.0%
    rows beyond the norm bound: 0.0%; rows that count as zeros: 0.0%
    norms: least 0, quarter 0.3536, half 0.7071, three quarters 1.061, 95% 1.344, largest 1.414
    """

    columns: tuple[ColumnPreview, ...]
    rows: int
    norms: Floats
    row_norm_bound: float
    emptied: float
    beyond: float

    @property
    def quantiles(self) -> dict[float, float]:
        """Return quantiles of the norms of encoded rows."""
        values = np.quantile(self.norms, QUANTILES) if len(self.norms) else np.full(len(QUANTILES), np.nan)
        return dict(zip(QUANTILES, values.tolist(), strict=True))

    def cells(self) -> list[list[str]]:
        """Return the header and the rows of the table, as text."""
        shares = [(c.name, c.clipped, c.unknown, c.missing) for c in self.columns]
        return [list(_HEAD), *([name, *(f"{100 * share:.1f}%" for share in each)] for name, *each in shares)]

    def notes(self) -> list[str]:
        """Return sentences about whole rows."""
        words = ("least", "quarter", "half", "three quarters", "95%", "largest")
        norms = ", ".join(f"{word} {value:.4g}" for word, value in zip(words, self.quantiles.values(), strict=True))
        zeros = f"rows that count as zeros: {100 * self.emptied:.1f}%"
        return [f"rows beyond the norm bound: {100 * self.beyond:.1f}%; {zeros}", f"norms: {norms}"]

    def __repr__(self) -> str:
        return text_table(self._title(), self.cells(), self.notes())

    def _title(self) -> str:
        return f"{self.rows} rows, norm bound {self.row_norm_bound:.4g}"

    def _repr_html_(self) -> str:
        return html_table(self._title(), self.cells(), self.notes())


def preview(schema: Schema, rows: Any, *, columns: Any, header: bool) -> Preview:
    """See `Schema.preview`."""
    table = open_for(schema, rows, columns=columns, header=header, progress=False)
    target = schema.target is not None and (schema.target_name in table.names or table.width > len(schema.columns))
    wanted: dict[str, Any] = dict(schema.columns) | ({schema.needed_target(): schema.target} if target else {})
    totals = np.zeros((len(wanted), 3))
    lengths = [np.empty(0)]
    for cells in table.cells(table.columns_of(schema, target=target)):
        for total, column, each in zip(totals, wanted.values(), cells, strict=True):
            total += [mask.sum() for mask in column.faults(column.read(each))]
        lengths.append(row_norms(schema.encode_cells(cells[: len(schema.columns)])))
    every = np.concatenate(lengths)
    norms, count = every[~np.isnan(every)], max(len(every), 1)
    beyond = int((norms > schema.row_norm_bound * CORNER).sum())
    columns = tuple(ColumnPreview(name, *share.tolist()) for name, share in zip(wanted, totals / count, strict=True))
    emptied = len(every) - len(norms)
    return Preview(columns, len(every), norms, schema.row_norm_bound, emptied / count, beyond / count)
