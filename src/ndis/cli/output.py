"""What the commands print: a table for people, JSON for programs; floats in the shortest form that reads back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ndis import __version__
from ndis._files import check_file
from ndis.errors import ParameterError

__all__ = ["as_json_text", "check_picture", "picture", "print_rows", "print_table", "print_values", "say"]

_PICTURES = (".png", ".svg", ".pdf")


def as_json_text(values: Mapping[str, Any], *, ensure_ascii: bool = True) -> str:
    """One JSON object that starts with the version of the package."""
    whole = {"ndis_version": __version__, **values}
    return json.dumps(whole, allow_nan=False, ensure_ascii=ensure_ascii, indent=2)


def print_rows(rows: Sequence[Mapping[str, float]], *, as_json: bool, **about: object) -> None:
    """Rows of equal keys, as a table or as one JSON object; JSON has no infinity, so null stands for it there."""
    if as_json:
        values = [{key: x if math.isfinite(x) else None for key, x in row.items()} for row in rows]
        typer.echo(as_json_text({**about, "values": values}))
        return
    cells = [list(rows[0]), *([repr(float(x)) for x in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_values(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Names with their values, as a table or as one JSON object."""
    if as_json:
        typer.echo(as_json_text(values))
    else:
        print_table(values)


def print_table(values: Mapping[str, Any]) -> None:
    """Print each name and its value on one line."""
    width = max(map(len, values))
    for key, value in values.items():
        shown = "none" if value is None else value
        typer.echo(f"{key.ljust(width)}  {repr(shown) if isinstance(shown, float) else shown}")


def say(note: str | None) -> None:
    """Print a note on stderr, if there is one."""
    if note is not None:
        typer.echo(note, err=True)


def check_picture(output: Path) -> None:
    """Refuse a path for a picture that cannot be written, before anything is computed."""
    if output.suffix.lower() not in _PICTURES:
        raise ParameterError("output", "end in .png, .svg or .pdf", repr(output.suffix))
    check_file(output)


def picture(draw: Callable[[Any], object], suffix: str) -> bytes:
    """What `draw` draws on axes, as an image file in memory, in the format of the suffix."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError("matplotlib", "be installed to draw", "none", "pip install 'ndis[plot]'") from error
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    draw(figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix[1:].lower(), dpi=200)
    return buffer.getvalue()
