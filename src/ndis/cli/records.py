"""Where a command takes its records from: a file or a folder, opened by its schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ndis.errors import ParameterError

__all__ = ["Records", "csv_note", "reading"]

_CSV_NOTE = "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns"


class Records:
    """A source of rows: the path, which the engine streams, or a mapped NPY file."""

    def __init__(self, path: Path) -> None:
        from ndis.gram.sources import open_source

        self.rows: Any = path
        if path.suffix.lower() == ".npy" and not path.is_dir():
            import numpy as np

            try:
                self.rows = np.load(path, mmap_mode="r", allow_pickle=False)
            except (ValueError, EOFError):  # NumPy's message may quote the content
                raise ParameterError("data", "be an NPY file of numbers", repr(str(path))) from None
        source = open_source(self.rows, progress=False)
        self.names: tuple[str, ...] = source.names
        self.all: list[str | int] = list(source.names or range(source.width))

    def all_but(self, column: str | int) -> list[str | int]:
        """All columns but one."""
        number = self.names.index(column) if isinstance(column, str) and column in self.names else column
        return [each for i, each in enumerate(self.all) if i != number]

    def columns(self, given: list[str] | None) -> list[str | int] | None:
        """Names, separated by commas or repeated, as the engine takes them; a number where it is no name."""
        if not given:
            return None
        items = given if all(whole in self.names for whole in given) else ",".join(given).split(",")
        stripped = [item if item in self.names else item.strip() for item in items]
        return [int(item) if item not in self.names and item.isdecimal() else item for item in stripped]


def csv_note(path: Path, columns: list[str] | None) -> str | None:
    """What to say of CSV read without named columns: by the names of files and the options alone, never by a cell.

    >>> csv_note(Path("records.csv"), ["age"]) is None
    True
    """
    files = path.rglob("*") if path.is_dir() else [path]
    return _CSV_NOTE if not columns and any(file.suffix.lower() == ".csv" for file in files) else None


@contextmanager
def reading(path: Path) -> Iterator[Records]:
    """What goes wrong while reading, as one line that quotes no record."""
    try:
        yield Records(path)
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
