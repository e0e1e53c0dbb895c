"""Run `ndis describe`: one release of a file or folder, and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ndis._files import write_file
from ndis.cli.files import table_options
from ndis.cli.options import DATA, GUARANTEE, READING, command, option, written
from ndis.cli.output import as_json_text

__all__ = ["describe"]


@command(
    DATA,
    option("--schema", "TOML file with public ranges and categories; see 'ndis schema'.", Path, required=True),
    GUARANTEE,
    option("--groups", "Columns to group by, crossed by a colon: ward,ward:sex. By default each category.", str),
    click.Option(["--quantiles/--no-quantiles"], default=True, help="Release histograms of the numbers."),
    click.Option(["--matrix/--no-matrix"], default=True, help="Release what correlations and regressions need."),
    written("A new file for the report (.html).", ".html", new=True),
    option("--title", "The title of the report.", str, default="A table in numbers"),
    READING,
)
def describe(data: Path, groups: str | None, output: Path | None, title: str, as_json: bool, **given: Any) -> None:
    """Describe a file or folder with one release, as a report.

    It has counts, means, groups, correlations and quantiles, with intervals.

    DATA is a CSV, Parquet, Arrow or NPY file, or a folder of CSV, Parquet or Arrow. Everything comes from one release
    with one guarantee.

    Example: ndis describe visits.csv --header --schema visits.toml --epsilon 1 --delta 1e-6 -o report.html
    """
    from ndis.describing import describe as make

    how = table_options(data, given)
    crossed = None if groups is None else [tuple(one.split(":")) for one in groups.split(",") if one]
    made = make(data, **{**given, **how}, groups=crossed)
    if output is not None:
        write_file(output, made.to_html(title=title).encode(), new=True)
    if as_json:
        keys = ("name", "estimate", "standard_error", "low", "high")
        rows = {one.title: zip(one.index, one.rows(), strict=True) for one in made.tables()}
        tables = {title: [dict(zip(keys, (list(n), *r), strict=True)) for n, r in each] for title, each in rows.items()}
        click.echo(as_json_text({"tables": tables, "receipt": made.receipt.to_dict()}))
    else:
        click.echo("\n\n".join(map(repr, made.tables())))
