"""`ndis schema init` and `ndis schema check`: a schema to fill in, and whether it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ndis._files import check_file, write_file
from ndis.cli.options import Header, Json, SchemaOption
from ndis.cli.output import as_json_text
from ndis.cli.source import names_of, readable_data, schema_for
from ndis.errors import ParameterError

__all__ = ["register"]

Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="NAMES", help="Names of all columns of a CSV file without --header, in order."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        no_args_is_help=True, help="What is public about a table: ranges and categories, in a TOML file."
    )
    for command in (init, check):
        group.command()(command)
    app.add_typer(group, name="schema")


def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet or Arrow file, or a folder of them.")],
    columns: Columns = None,
    header: Header = False,
    target: Annotated[str | None, typer.Option("--target", metavar="NAME", help="The target column.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new file for the template (printed unless given).")
    ] = None,
) -> None:
    """Write a schema to fill in, from column names and storage types only. No cell is read.

    Example: ndis schema init records.parquet --target spend -o schema.toml
    """
    from ndis.data.schema.template import template

    if output is not None:
        check_file(output, new=True)
    with readable_data(data):
        text = template(data, columns=names_of(columns), header=header, target=target)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_file(output, text.encode(), new=True)


def check(
    first: Annotated[
        Path | None, typer.Argument(metavar="SCHEMA", help="The TOML file; left out if --schema names it.")
    ] = None,
    second: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A file or folder that must fit it, by names and types.")
    ] = None,
    schema: SchemaOption = None,
    columns: Columns = None,
    header: Header = False,
    as_json: Json = False,
) -> None:
    """Check a schema, and whether the columns of a file have its names and types. No cell is read.

    Example: ndis schema check schema.toml records.parquet

    The same: ndis schema check records.parquet --schema schema.toml
    """
    from ndis.data.opening import open_source
    from ndis.data.schema import Schema

    if schema is not None and second is not None:
        raise ParameterError("--schema", "be left out if SCHEMA comes before DATA", str(schema))
    file, data = (first, second) if schema is None else (schema, first)
    if file is None:
        raise ParameterError("SCHEMA", "be given", "none")
    found = Schema.from_toml(file)
    if data is not None:
        _, names = schema_for(file, data, target=None, columns=columns, header=header)
        with readable_data(data):
            open_source(found.table(data, columns=names, header=header), progress=False)
    values: dict[str, Any] = {
        "encoded_columns": list(found.feature_names),
        "target": found.target_name,
        "row_norm_bound": found.row_norm_bound,
    }
    if as_json:
        typer.echo(as_json_text(values, ensure_ascii=False))
        return
    typer.echo(f"{len(found.feature_names)} encoded columns: {', '.join(found.feature_names)}")
    typer.echo(f"target: {found.target_name or 'none'}")
    typer.echo(f"norm bound of a row: {found.row_norm_bound!r}")
