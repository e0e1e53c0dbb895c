"""Read the files of a command.

Public are pairs and profiles (JSON or NPZ), claims and plans (TOML or JSON) and schemas. Tables are private: notes on
them depend on kinds of files and on options only, never on a cell.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ndis._files import read_bytes, read_object
from ndis.errors import ParameterError, require

if TYPE_CHECKING:
    from ndis.data.schema import Schema
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile

_MOST_BYTES = 1 << 30  # a covariance of 11 585 dimensions; these commands cannot factor larger ones
_NOTES = {
    True: "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns",
    False: "note: without --header every line of a CSV file is a record and --columns names all its columns, in order",
}


def numbers(name: str, given: Iterable[str]) -> list[float]:
    """Return the numbers of an option that may be repeated, hold several separated by commas, or both.

    >>> numbers("epsilon", ["0.5,1", "2"])
    [0.5, 1.0, 2.0]
    """
    values = []
    for word in ",".join(given).split(","):
        try:
            values.append(float(word))
        except ValueError:
            raise ParameterError(name, "be a number, or several separated by commas", repr(word)) from None
    return values


def read_profile(file: Path) -> PrivacyProfile:
    """Return a saved profile, or that of the saved schedule or pair in a file."""
    from ndis.profile import PrivacyProfile

    value = read_pair(file)
    return value if isinstance(value, PrivacyProfile) else PrivacyProfile(value)


def read_pair(file: Path) -> GaussianPair | PrivacyProfile:
    """Return the pair whose constructor takes the values of a JSON or NPZ file, or a saved profile or schedule."""
    from ndis._groups import pair_from_arrays
    from ndis.dpsgd import DPSGD
    from ndis.profile import PrivacyProfile

    content = read_bytes("file", file)
    if content.startswith(b"PK\x03\x04") or zipfile.is_zipfile(io.BytesIO(content)):
        return pair_from_arrays("the file", npz_arrays(content))
    values = read_object("file", file)
    if values.get("format") == "ndis.DPSGD":
        return DPSGD.from_json(content).profile()
    if "format" in values:
        return PrivacyProfile.from_json(content)
    return pair_from_arrays("the file", values)


def npz_arrays(content: bytes) -> dict[str, Any]:
    """Return the arrays of an NPZ file, numbers and vectors as plain values."""
    from ndis.data import npy

    arrays = npy.npz_arrays("file", content, most=_MOST_BYTES)
    return {key: array.tolist() if array.ndim < 2 else array for key, array in arrays.items()}


# ---------------------------------------------------------------------- private tables


def table_options(data: Any, given: Mapping[str, Any], *, targets: Any = (), note: bool = True) -> dict[str, Any]:
    """Return `columns`, `targets`, `header` and `schema` of a command as the library takes them for these data.

    A CSV file needs a header or the names of all its columns: a forgotten --header must not spend. If the schema has
    no target, `targets` makes one of its columns the target. A word that is no name of a column may be its number.
    """
    columns, header = given.get("columns", ()), given.get("header", False)
    if given.get("schema") is not None:
        return {"header": header, **_with_schema(data, columns, targets, header, given["schema"])}
    from ndis.data import open_table

    names = names_of(columns)
    table = open_table(data, columns=names, header=header, progress=False)
    if note and not table.quotable and not (header and columns):  # a CSV file
        click.echo(_NOTES[header], err=True)
    return {
        "columns": names if table.named else _chosen("columns", columns, table.names),
        "targets": _chosen("targets", targets, table.names),
        "header": header,
    }


def _with_schema(data: Any, columns: Any, targets: Any, header: bool, file: Path) -> dict[str, Any]:
    """Return the arguments for data with a schema; a CSV file has a header, or the names of its columns are given."""
    from ndis.data.paths import files_of, kind_of_files

    schema, names = read_schema(file), names_of(columns)
    if isinstance(data, Path) and not header and kind_of_files(files_of(data)) == "csv":
        every = ",".join([*schema.columns, *([] if schema.target_name is None else [schema.target_name])])
        remedy = f"for lines in the order of the schema: --columns '{every}'"
        if names is None:
            raise ParameterError("a CSV file", "have --header, or --columns that names its columns", "neither", remedy)
    target, *more = (targets if isinstance(targets, list | tuple) else [targets]) or [None]
    if more:
        raise ParameterError("targets", "be one column with a schema", ", ".join(map(str, targets)))
    stated = schema if target in (None, schema.target_name) else schema.with_target(str(target))
    return {"columns": names, "schema": stated}


def read_schema(file: Path) -> Schema:
    """Return the schema of an option."""
    from ndis.data.schema import Schema

    return Schema.from_toml(file)


def names_of(given: Any) -> list[str | None] | None:
    """Return the names of all columns of a CSV file without a header; none for a column that is not read.

    >>> names_of(["a,,b", "c"])
    ['a', None, 'b', 'c']
    """
    return [word.strip() or None for word in _joined(given).split(",")] if given else None


def _chosen(name: str, given: Any, names: tuple[str, ...]) -> list[str | int] | None:
    """Return names of columns, separated by commas or repeated, and numbers where a word is no name."""
    if given in (None, (), []):
        return None
    items = list(given) if isinstance(given, list | tuple) else [given]
    require(all(type(item) in (str, int) for item in items), name, "be names or numbers of columns", "other values")
    words = items if all(item in names for item in items) else _joined(items).split(",")
    stripped = [word if word in names else word.strip() for word in words]
    return [int(word) if word not in names and word.isdecimal() else word for word in stripped]


def _joined(given: Any) -> str:
    return given if isinstance(given, str) else ",".join(map(str, given))
