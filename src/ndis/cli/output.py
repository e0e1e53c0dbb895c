"""Print what a command answers: a table for people, JSON for programs; floats in the shortest form that reads back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ndis import __version__
from ndis._files import write_file
from ndis.pages.text import printable


def as_json_text(values: Mapping[str, Any], *, ensure_ascii: bool = True) -> str:
    """Return one JSON object that starts with the version of the package."""
    whole = _known({"ndis_version": __version__, **values})
    return json.dumps(whole, allow_nan=False, ensure_ascii=ensure_ascii, indent=2)


def _known(value: Any) -> Any:
    """Put null where a number does not exist: JSON has no infinity, and an answer that was paid must come out."""
    if isinstance(value, Mapping):
        return {key: _known(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_known, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_answer(path: Path | None, values: Mapping[str, Any], page: Callable[[], str]) -> None:
    """Write values as JSON to a new file, or the page if its name ends in .html. Without a path nothing is written."""
    if path is not None:
        text = page() if path.suffix.lower() == ".html" else as_json_text(values)
        write_file(path, text.encode() + b"\n", new=True)


def write_or_print(path: Path | None, text: str) -> None:
    """Write a text to a new file; without a path it is printed."""
    if path is None:
        click.echo(text, nl=False)
    else:
        write_file(path, text.encode(), new=True)


def print_rows(rows: Sequence[Mapping[str, float | str]], *, as_json: bool, **about: object) -> None:
    """Print rows of equal keys, as a table or as one JSON object; JSON has no infinity, so null stands for it there."""
    if as_json:
        click.echo(as_json_text({**about, "values": rows}))
        return
    cells = [list(rows[0]), *([x if isinstance(x, str) else repr(float(x)) for x in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_values(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print names with their values, one per line or as one JSON object."""
    if as_json:
        click.echo(as_json_text(values))
        return
    width = max(map(len, values))
    for key, value in values.items():
        shown = "none" if value is None else repr(value) if isinstance(value, float) else str(value)
        click.echo(f"{printable(key).ljust(width)}  {printable(shown)}")


def write_picture(path: Path, draw: Callable[[Any], object]) -> None:
    """Write what `draw` draws on axes, in the format of the path's ending."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    draw(figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=200)
    write_file(path, buffer.getvalue())


def place_of(error: BaseException) -> str:
    """Name the type of an error and the line that raised it. Its message may quote data, so it is left out."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError in {Path(error.filename).name}, line {error.lineno}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
    return f"{type(error).__name__}{where}"
