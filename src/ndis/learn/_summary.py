"""A table of coefficients with standard errors and intervals, as statisticians print it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_probability, as_scalar

__all__ = ["CoefficientTable", "normal_quantile"]

Floats = NDArray[np.float64]


def normal_quantile(level: float) -> float:
    """z with P(|N(0, 1)| ≤ z) = level.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    from scipy.special import ndtri

    inside = float(as_probability("level", as_scalar("level", level)))
    return float(ndtri((1.0 + inside) / 2.0))


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """Coefficients of one or several targets; printing it shows the table.

    Attributes
    ----------
    title : str
    names : tuple of str
        One for every row.
    estimate, standard_error : (rows,) arrays
        Without shrinkage. The error counts the noise of privacy and of sampling.
    shrunk : (rows,) array
        What `predict` uses.
    level : float
    notes : tuple of str

    Examples
    --------
    >>> CoefficientTable("Trees", ("age",), np.array([2.0]), np.array([0.5]), np.array([1.9]), 0.95, ("in metres",))
    Trees
          estimate  std. error      z  P>|z|   95% interval    shrunk
    age          2         0.5   4.00  0.000  [1.02, 2.98]        1.9
    in metres
    """

    title: str
    names: tuple[str, ...]
    estimate: Floats
    standard_error: Floats
    shrunk: Floats
    level: float
    notes: tuple[str, ...] = ()

    @property
    def interval(self) -> Floats:
        """(rows, 2) array: lower and upper ends."""
        half = normal_quantile(self.level) * self.standard_error
        return np.stack([self.estimate - half, self.estimate + half], axis=1)

    def cells(self) -> list[list[str]]:
        """The header and the rows, as text."""
        rows = [["", "estimate", "std. error", "z", "P>|z|", f"{100 * self.level:g}% interval", "shrunk"]]
        for i, name in enumerate(self.names):
            value, error = float(self.estimate[i]), float(self.standard_error[i])
            low, high = self.interval[i]
            known = math.isfinite(error) and error > 0
            z = value / error if known else 0.0
            rows.append(
                [
                    name,
                    f"{value:.4g}" if known else "unknown",
                    f"{error:.3g}",
                    f"{z:.2f}" if known else "",
                    f"{math.erfc(abs(z) / math.sqrt(2.0)):.3f}" if known else "",
                    f"[{low:.4g}, {high:.4g}]" if known else "[-inf, inf]",
                    f"{float(self.shrunk[i]):.4g}",
                ]
            )
        return rows

    def __repr__(self) -> str:
        cells = self.cells()
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        lines = []
        for row in cells:
            first = row[0].ljust(widths[0])
            lines.append("  ".join([first, *(text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True))]))
        return "\n".join([self.title, *(line.rstrip() for line in lines), *self.notes])

    def _repr_html_(self) -> str:
        cells = self.cells()
        head = "".join(f"<th>{escape(text)}</th>" for text in cells[0])
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in cells[1:])
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{escape(self.title)}</caption><tr>{head}</tr>{body}</table>{notes}"
