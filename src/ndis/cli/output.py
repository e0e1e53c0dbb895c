"""What the commands print: a table for people, JSON for programs; floats in the shortest form that reads back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import typer

from ndis import __version__

__all__ = ["print_rows"]

Row = Mapping[str, float]


def print_rows(rows: Sequence[Row], *, as_json: bool, **about: object) -> None:
    """Rows of equal keys, as a table or as one JSON object; JSON has no infinity, so null stands for it there."""
    if as_json:
        values = [{key: x if math.isfinite(x) else None for key, x in row.items()} for row in rows]
        typer.echo(json.dumps({"ndis_version": __version__, **about, "values": values}, allow_nan=False, indent=2))
        return
    cells = [list(rows[0]), *([repr(float(x)) for x in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
