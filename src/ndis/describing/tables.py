"""Show estimates with standard errors and intervals as a table, and write it in other forms."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ndis._files import write_file
from ndis._validate import Floats
from ndis._version import __version__
from ndis.describing.statistics import quantile_of
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import Receipt
from ndis.pages.html import html_table, render
from ndis.pages.text import text_table

FREE = "computed from the release: costs no further budget"
_COLUMNS = ("estimate", "standard_error", "low", "high")


@dataclass(frozen=True, eq=False)
class StatisticTable:
    """Hold estimates with standard errors and intervals, one row per statistic. Printing it shows the table.

    Attributes
    ----------
    title : str
    levels : tuple of str
        The names of the parts of a row's name.
    index : tuple of tuples of str
        The name of every row, in as many parts.
    estimate, standard_error, low, high : arrays
        NaN, infinity and the whole range if the noise hides a statistic.
    level : float
        The probability with which an interval covers.
    notes : tuple of str
    symmetric : bool
        The two parts of a name may be exchanged.
    receipt : Receipt, optional
        If the table is a release of its own.
    dates : tuple of str
        Rows with such a part in their name are dates. They count in days from 1970-01-01, and are shown as dates.

    Examples
    --------
    >>> table = StatisticTable("Trees", ("name",), (("oak",),), *np.array([[20.0], [1.0], [18.04], [21.96]]))
    >>> table
    Trees
    name  estimate  std. error    95% interval
    oak         20           1  [18.04, 21.96]
    computed from the release: costs no further budget
    """

    title: str
    levels: tuple[str, ...]
    index: tuple[tuple[str, ...], ...]
    estimate: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    level: float = 0.95
    notes: tuple[str, ...] = ()
    symmetric: bool = False
    receipt: Receipt | None = None
    dates: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, title: str, levels: tuple[str, ...], index: Any, rows: Any, level: float, notes: Any = (), **how: Any
    ) -> Self:
        """Make a table of rows of estimate, standard error and ends."""
        value, error, low, high = np.array([[float(x) for x in row] for row in rows]).reshape(-1, 4).T
        return cls(title, levels, tuple(index), value, error, low, high, level, tuple(notes), **how)

    @classmethod
    def normal(
        cls, title: str, levels: tuple[str, ...], index: Any, estimates: Any, level: float, notes: Any = (),
        ends: tuple[Any, Any] = (-math.inf, math.inf), **how: Any,
    ) -> Self:  # fmt: skip
        """Make a table of values and standard errors with symmetric intervals within two ends.

        An infinite error makes the interval all that lies between the ends.
        """
        values, errors = (np.asarray(each, dtype=np.float64) for each in estimates)
        half, known = quantile_of(level) * errors, np.isfinite(errors)
        low = np.where(known, np.clip(values - half, *ends), ends[0])
        high = np.where(known, np.clip(values + half, *ends), ends[1])
        return cls.of(title, levels, index, np.stack([values, errors, low, high], axis=1), level, notes, **how)

    def rows(self) -> list[tuple[float, float, float, float]]:
        """Return estimate, standard error and ends of every row."""
        return list(zip(*(np.asarray(getattr(self, name)).tolist() for name in _COLUMNS), strict=True))

    def cells(self) -> list[list[str]]:
        """Return the header and the rows, as text."""
        head = [*self.levels, "estimate", "std. error", f"{100 * self.level:g}% interval"]
        lines = []
        for name, (value, error, low, high) in zip(self.index, self.rows(), strict=True):
            shown = [self._shown(name, value, error), f"{error:.3g}"] if math.isfinite(error) else ["unknown", ""]
            lines.append([*name, *shown, f"[{self._shown(name, low, error)}, {self._shown(name, high, error)}]"])
        return [head, *lines]

    def _shown(self, name: tuple[str, ...], value: float, error: float) -> str:
        """Write a number with the digits that its error leaves, or a date."""
        if math.isfinite(value) and not set(self.dates).isdisjoint(name):
            return str(np.datetime64(math.floor(value), "D"))
        return _digits(value, error)

    def wide(self) -> tuple[list[str], list[tuple[str, list[tuple[str, float, float]]]]]:
        """Return a table by the first and the last part of names, for a page.

        A cell has a text, and the left end and the width of its interval in per cent of all intervals of its column.
        """
        names = [(name[0], name[-1]) if len(name) > 1 else (name[0], "estimate") for name in self.index]
        cells = dict(zip(names, self.rows(), strict=True))
        if self.symmetric:
            cells |= {(b, a): row for (a, b), row in cells.items()}
        lines: dict[str, list[tuple[str, float, float]]] = {row: [] for row, _ in cells}
        columns = list(lines) if self.symmetric else list(dict.fromkeys(column for _, column in cells))
        for column in columns:
            known = [r[2:] for (_, c), r in cells.items() if c == column and math.isfinite(r[1])] or [(0.0, 1.0)]
            start = min(low for low, _ in known)
            width = max(high for _, high in known) - start or 1.0
            for row, line in lines.items():
                value, error, low, high = cells.get((row, column), (math.nan, math.inf, 0.0, 0.0))
                ends = [self._shown((row, column), end, 10 * error) for end in (value, low, high)]
                shown = f"{ends[0]} ± {_digits((high - low) / 2, 10 * error)}"
                if abs(2 * value - low - high) > 0.02 * (high - low) or not {row, column}.isdisjoint(self.dates):
                    shown = f"{ends[1]} to {ends[2]}"
                place = (100 * (low - start) / width, 100 * (high - low) / width)
                line.append((shown, *place) if math.isfinite(error) else ("", 0.0, 0.0))
        return columns, list(lines.items())

    @property
    def pictured(self) -> bool:
        """Say if a page shows intervals as bars: if those of one column have one unit."""
        return self.levels[0] in ("category", "row")

    def _after(self) -> tuple[str, ...]:
        return self.notes if self.receipt is not None else (*self.notes, FREE)

    def __repr__(self) -> str:
        return text_table(self.title, self.cells(), self._after())

    def _repr_html_(self) -> str:
        return html_table(self.title, self.cells(), self._after())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with the columns estimate, standard_error, low and high."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ParameterError("pandas", "be installed for a frame", "none", "pip install 'ndis[data]'") from error
        named = list(zip(self.index, self.rows(), strict=True))
        if self.symmetric:
            named += [(name[::-1], row) for name, row in named if name != name[::-1]]
        index = pd.MultiIndex.from_tuples([name for name, _ in named], names=self.levels)
        single = index if len(self.levels) > 1 else index.get_level_values(0)
        return pd.DataFrame([row for _, row in named], index=single, columns=list(_COLUMNS))

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as CSV, and write it to `path` if one is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.levels, *_COLUMNS])
        writer.writerows([*name, *row] for name, row in zip(self.index, self.rows(), strict=True))
        if path is not None:
            write_file(path, text.getvalue().encode(), name="path")
        return text.getvalue()

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in self.cells()]
        columns = "l" * len(self.levels) + "r" * (len(self.cells()[0]) - len(self.levels))
        return "\n".join([rf"\begin{{tabular}}{{{columns}}}", lines[0], r"\hline", *lines[1:], r"\end{tabular}"])

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimates with their intervals, and return the matplotlib axes."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.4, 1.2 + 0.28 * len(self.index)), layout="constrained").subplots()
        places = np.arange(len(self.index))[::-1]
        ax.hlines(places, self.low, self.high, color="#0072B2", linewidth=2.0)
        ax.plot(self.estimate, places, "o", color="#D55E00", markersize=4.0)
        ax.set_yticks(places, [" · ".join(name) for name in self.index])
        ax.set_title(self.title)
        return ax


def report(template: str, path: Any, tables: Sequence[StatisticTable], receipt: Receipt, *, title: str) -> str:
    """Return a page with tables for readers, and write it to `path` if one is given."""
    page = render(template, title=title, version=__version__, receipt=receipt, tables=tables)
    if path is not None:
        write_file(path, page.encode(), name="path")
    return page


def _digits(value: float, error: float) -> str:
    """Write a number with two digits beyond its error's first.

    >>> _digits(1234.5678, 2.3), _digits(0.123456, 0.01), _digits(5.0, math.inf), _digits(-0.0, 700.0)
    ('1234.57', '0.1235', '5', '0')
    """
    if not (math.isfinite(error) and error > 0 and math.isfinite(value)):
        return f"{value:z.6g}"
    places = max(2 - math.floor(math.log10(error)), 0)
    text = f"{value:z.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _latex(text: str) -> str:
    return text.translate({ord(letter): f"\\{letter}" for letter in "&%$#_{}"} | {ord("\\"): "/"})
