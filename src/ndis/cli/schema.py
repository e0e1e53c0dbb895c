"""Run `ndis schema init` and `ndis schema check`: a schema to fill in, and if it fits a table."""

from __future__ import annotations

from pathlib import Path

import click

from ndis.cli.files import names_of, table_options
from ndis.cli.options import HEADER, JSON, SCHEMA, Commands, argument, command, listed, option, written
from ndis.cli.output import as_json_text, write_or_print
from ndis.errors import ParameterError, require
from ndis.pages.text import printable

_COLUMNS = listed("--columns", "Names of all columns of a CSV file without --header, in order.")


@command(
    argument("data", "DATA"),
    _COLUMNS,
    HEADER,
    option("--target", "The target column.", str, metavar="NAME"),
    written("A new file for the template (.toml); it is printed unless given.", ".toml", new=True),
)
def init(data: Path, columns: list[str], header: bool, target: str | None, output: Path | None) -> None:
    """Write a schema to fill in, from names and types of columns. No cell is read.

    DATA is a CSV, Parquet or Arrow file, or a folder of them.

    Example: ndis schema init records.parquet --target spend -o schema.toml
    """
    from ndis.data.schema.template import template

    write_or_print(output, template(data, columns=names_of(columns), header=header, target=target))


@command(
    argument("first", "SCHEMA", required=False),
    argument("second", "DATA", required=False),
    SCHEMA,
    _COLUMNS,
    HEADER,
    JSON,
)
def check(
    first: Path | None, second: Path | None, schema: Path | None, columns: list[str], header: bool, as_json: bool
) -> None:
    """Check a schema against names and types of columns. No cell is read.

    SCHEMA is the TOML file; it is left out if --schema names it. DATA is a file or folder that must fit it.

    Example: ndis schema check schema.toml records.parquet

    The same: ndis schema check records.parquet --schema schema.toml
    """
    from ndis.data.schema import Schema

    require(schema is None or second is None, "--schema", "be left out if SCHEMA comes before DATA", str(schema))
    file, data = (first, second) if schema is None else (schema, first)
    if file is None:
        raise ParameterError("SCHEMA", "be given", "none")
    stated = Schema.from_toml(file)
    if data is not None:
        names = table_options(data, {"columns": columns, "header": header, "schema": file})["columns"]
        stated.table(data, columns=names, header=header)
    if as_json:
        about = {"encoded_columns": list(stated.feature_names), "target": stated.target_name}
        click.echo(as_json_text({**about, "row_norm_bound": stated.row_norm_bound}, ensure_ascii=False))
        return
    click.echo(f"{len(stated.feature_names)} encoded columns: {', '.join(map(printable, stated.feature_names))}")
    click.echo(f"target: {printable(stated.target_name or 'none')}")
    click.echo(f"norm bound of a row: {stated.row_norm_bound!r}")


schema = Commands("schema", commands=[init, check], help="State what is public about a table, in a TOML file.")
