"""Read the private tables of a command. Notes depend on the names of files and on the options only, never on a cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ndis
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema import Schema

__all__ = ["Records", "names_of", "read_schema", "readable_data", "reading", "schema_for"]

_BY_ORDER = "note: without --header every line of a CSV file is a record, and its columns are known by their order"
_NOTES = {
    True: "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns",
    False: "note: without --header every line of a CSV file is a record and --columns names all its columns, in order",
}


def read_schema(file: Path | None) -> Schema | None:
    """The schema of an option, if it is given."""
    if file is None:
        return None
    from ndis.data.schema import Schema

    return Schema.from_toml(file)


def schema_for(
    file: Path | None, data: Path, *, target: str | None, columns: list[str] | None, header: bool
) -> tuple[Schema | None, list[Any] | None]:
    """Return the schema of an option, and the names of all columns of a CSV file without a header.

    If the schema has no target, `target` makes one of its columns the target. The order of a CSV file stays.
    """
    stated, names = read_schema(file), names_of(columns)
    if stated is None:
        return None, names
    paths = ndis.data.paths
    with readable_data(data):
        by_order = not header and paths.kind_of_files(paths.files_of(data)) == "csv"
    if by_order:
        click.echo(_BY_ORDER, err=True)
    if by_order and names is None:
        names = [*stated.columns, *([] if stated.target_name is None else [stated.target_name])]
    return stated if target in (None, stated.target_name) else stated.with_target(str(target)), names


class Records:
    """A file or folder of rows, which the engine streams, and how its options read."""

    def __init__(self, path: Path, *, columns: list[str] | None, header: bool) -> None:
        from ndis.data import open_table

        self.rows = path
        self._given = names_of(columns)
        source = open_table(path, columns=self._given, header=header, progress=False)
        self._named = source.named
        self.names: tuple[str, ...] = source.names
        self.all: list[str | int] = [name or i for i, name in enumerate(source.names)] or list(range(source.width))
        self.note = None if source.quotable or (header and columns) else _NOTES[header]
        self._unread = source.unread

    def all_but(self, column: str | int) -> list[str | int]:
        """All columns that are read, but one."""
        number = self.names.index(column) if isinstance(column, str) and column in self.names else column
        return [each for i, each in enumerate(self.all) if i != number and i not in self._unread]

    def features(self, given: list[str] | None) -> list[Any] | None:
        """Return the engine's `columns`: the names of all columns of a CSV file without a header, otherwise the chosen ones.

        A column without a name is not read.
        """
        return self._given if self._named else self.columns(given)

    def columns(self, given: list[str] | None) -> list[Any] | None:
        """Names, separated by commas or repeated, as the engine takes them; a number where it is no name."""
        if not given:
            return None
        items = given if all(whole in self.names for whole in given) else ",".join(given).split(",")
        stripped = [item if item in self.names else item.strip() for item in items]
        return [int(item) if item not in self.names and item.isdecimal() else item for item in stripped]


def names_of(given: list[str] | None) -> list[Any] | None:
    """The names of all columns of a CSV file without a header; None for a column that is not read.

    >>> names_of(["a,,b", "c"])
    ['a', None, 'b', 'c']
    """
    return [item.strip() or None for item in ",".join(given).split(",")] if given else None


@contextmanager
def reading(path: Path, *, columns: list[str] | None, header: bool) -> Iterator[Records]:
    """Open the records of a file or folder. An error is one line that quotes no record."""
    with readable_data(path):
        records = Records(path, columns=columns, header=header)
        if records.note is not None:
            click.echo(records.note, err=True)
        yield records


@contextmanager
def readable_data(path: Path) -> Iterator[None]:
    """Turn an error of reading into one line that quotes no record."""
    try:
        yield
    except FileNotFoundError:
        raise ParameterError("data", "name an existing file or folder", repr(str(path))) from None
    except OSError:
        raise ParameterError("data", "be readable", repr(str(path))) from None
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:  # what Arrow's own errors derive from
        if not type(error).__module__.startswith("pyarrow"):
            raise
        raise ParameterError("data", "be a readable file of its kind", repr(str(path))) from None  # Arrow quotes cells
    except ModuleNotFoundError as error:
        raise ParameterError(
            str(error.name), "be installed to read files", "none", "pip install 'ndis[data]'"
        ) from None
