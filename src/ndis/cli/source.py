"""Where a command takes its input from: a pair, a file of arrays, records, or a schema.

Notes on CSV depend on the names of files and on the options only, never on a cell.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ndis
from ndis import _npy
from ndis._json import loads
from ndis.cli.output import say
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema import Schema
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile

__all__ = [
    "Records",
    "content_of",
    "from_toml",
    "is_npz",
    "names_of",
    "npz_arrays",
    "numbers",
    "pair_from_arrays",
    "profile_from",
    "read_profile",
    "read_schema",
    "readable_data",
    "reading",
    "schema_for",
]

_MOST_BYTES = 1 << 30  # a covariance of 11 585 dimensions; larger ones are beyond what these commands can factor
_BY_ORDER = "note: without --header every line of a CSV file is a record, and its columns are known by their order"
_NOTES = {
    True: "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns",
    False: "note: without --header every line of a CSV file is a record and --columns names all its columns, in order",
}


# ---------------------------------------------------------------------- pairs


def numbers(name: str, given: list[str]) -> list[float]:
    """The numbers of an option that may be repeated, hold several separated by commas, or both.

    >>> numbers("epsilon", ["0.5,1", "2"])
    [0.5, 1.0, 2.0]
    """
    found = []
    for part in ",".join(given).split(","):
        try:
            found.append(float(part))
        except ValueError:
            raise ParameterError(name, "be a number, or several separated by commas", repr(part)) from None
    return found


def profile_from(
    file: Path | None,
    *,
    ratio: list[str] | None,
    shift: list[str] | None,
    copies: list[str] | None,
    sampling_rate: float | None,
) -> PrivacyProfile:
    """The profile a command is asked about."""
    options = {
        key: numbers("--" + key.removeprefix("variance_"), value)
        for key, value in (("variance_ratio", ratio), ("shift", shift), ("copies", copies))
        if value
    }
    if (file is None) == (not options):
        got = "neither" if file is None else "both"
        raise ParameterError("input", "be either a file or --ratio, --shift, --copies", got)
    if file is None:
        pair = ndis.GaussianPair.from_ratios(options.pop("variance_ratio", [1.0]), **options)
        profile = ndis.PrivacyProfile(pair)
    else:
        profile = read_profile(file)
    return profile if sampling_rate is None else profile.subsampled(sampling_rate)


def read_profile(file: Path) -> PrivacyProfile:
    """A saved profile, or the arguments of a constructor of `GaussianPair` as JSON or NPZ."""
    content = content_of(file)
    if is_npz(content):
        return ndis.PrivacyProfile(pair_from_arrays("the file", npz_arrays(content)))
    found = loads("file", content)
    if not isinstance(found, dict):
        raise ParameterError("file", "hold a JSON object", f"a {type(found).__name__}")
    if "format" in found:
        return ndis.PrivacyProfile.from_json(content)
    return ndis.PrivacyProfile(pair_from_arrays("the file", found))


def pair_from_arrays(name: str, arrays: dict[str, Any]) -> GaussianPair:
    """The pair made by the constructor whose arguments these are."""
    from ndis._pair_json import pair_from_arrays as make  # loads the kernels, which `ndis --help` does without

    return make(name, arrays)


# ---------------------------------------------------------------------- files


def content_of(file: Path) -> bytes:
    """All bytes of a file."""
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise ParameterError("file", "be readable", f"{str(file)!r}: {getattr(error, 'strerror', error)}") from error


def from_toml(name: str, content: bytes) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # both errors of the two calls are ValueErrors
        raise ParameterError(name, "be valid TOML", str(error) or type(error).__name__) from error


def read_schema(file: Path | None) -> Schema | None:
    """The schema of an option, if it is given."""
    if file is None:
        return None
    from ndis.data.schema import Schema

    return Schema.from_toml(file)


def schema_for(
    file: Path | None, data: Path, *, target: str | None, columns: list[str] | None, header: bool
) -> tuple[Schema | None, list[Any] | None]:
    """The schema of an option, and the names of all columns of a CSV file without a header.

    If the schema has no target, `target` makes one of its columns the target. The order of a CSV file stays.
    """
    stated, names = read_schema(file), names_of(columns)
    if stated is None:
        return None, names
    paths = ndis.data.paths
    with readable_data(data):
        by_order = not header and paths.kind_of_files(paths.files_of(data)) == "csv"
    if by_order:
        say(_BY_ORDER)
    if by_order and names is None:
        names = [*stated.columns, *([] if stated.target_name is None else [stated.target_name])]
    return stated if target in (None, stated.target_name) else stated.with_target(str(target)), names


def is_npz(content: bytes) -> bool:
    """Whether these are the bytes of an archive. It may be cut short."""
    return content.startswith(b"PK\x03\x04") or zipfile.is_zipfile(io.BytesIO(content))


def npz_arrays(content: bytes) -> dict[str, Any]:
    """The arrays of an NPZ file, numbers and vectors as plain values."""
    arrays = _npy.npz_arrays("file", content, most=_MOST_BYTES)
    return {key: a.tolist() if np.ndim(a) < 2 else a for key, a in arrays.items()}


# ---------------------------------------------------------------------- records


class Records:
    """A file or folder of rows, which the engine streams, and how its options read."""

    def __init__(self, path: Path, *, columns: list[str] | None, header: bool) -> None:
        from ndis.data.opening import open_source

        self.rows = path
        self._given = names_of(columns)
        source = open_source(path, columns=self._given, header=header, progress=False)
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
        """The engine's `columns`: the names of all columns of a CSV file without a header, otherwise the chosen ones.

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
        yield Records(path, columns=columns, header=header)


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
