"""Read and write the public files of the package: plans, claims, receipts, reports.

JSON is read by the letter of the standard, and objects must have a known format and known keys.

A file is written so that a name holds all of the content, or nothing. Content is first written to a file or folder next
to the target, whose name ends in `.ndis.part`, and then gets its name. Of two writers of one new file, one gets the
name and the other is refused. New files are for the user only (mode 0600, folders 0700); a file that is replaced keeps
its mode. A target that is neither a regular file nor a new name is refused. A process that is killed may leave a part
behind, which no program reads.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from ndis.errors import ParameterError, require

_FILE = "be a file that can be written"
_FOLDER = "be a new folder"
_DATABASE = b"SQLite format 3\0"  # how a ledger starts
_SPARE = 1 << 20  # bytes that a disk must have free on top of what is written

Name = str | os.PathLike[str]


# ---------------------------------------------------------------------- what is read


def loads(name: str, text: str | bytes) -> Any:
    """Read JSON by the letter of the standard: no NaN or Infinity, no key twice."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"the constant {constant}")

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            raise ValueError("a key that appears twice")
        return result

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (TypeError, ValueError, RecursionError) as error:  # json raises these for text that is not JSON, or not text
        raise ParameterError(name, "be valid JSON", str(error)) from error


def only_keys(name: str, result: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `result` if it is a JSON object with all required keys and none beyond the optional ones."""
    if not isinstance(result, dict):
        raise ParameterError(name, "be a JSON object", f"a {type(result).__name__}")
    missing = [key for key in required if key not in result]
    unknown = [key for key in result if key not in required + optional]
    require(not missing, name, f"have the keys {', '.join(required)}", f"none called {', '.join(missing)}")
    require(not unknown, name, f"have only the keys {', '.join(required + optional)}", ", ".join(unknown))
    return result


def check_format(name: str, result: Any, tag: str, *versions: int) -> int:
    """Return the version of a format that a JSON object says; another format or version is refused.

    >>> check_format("profile", {"format": "a", "format_version": 2}, "a", 1, 2)
    2
    """
    said, version = (result.get(k) if isinstance(result, dict) else None for k in ("format", "format_version"))
    require(said == tag, f"format of the {name}", f"be {tag!r}", repr(said))
    if type(version) is not int or version not in versions:
        raise ParameterError(f"format_version of the {name}", f"be {' or '.join(map(str, versions))}", repr(version))
    return version


def read_object(name: str, file: Path) -> dict[str, Any]:
    """Return the object in a TOML file (.toml) or in a JSON file."""
    content = read_bytes(name, file)
    if file.suffix.lower() == ".toml":
        try:
            return tomllib.loads(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # both errors of the two calls are ValueErrors
            raise ParameterError(name, "be valid TOML", str(error) or type(error).__name__) from error
    value = loads(name, content)
    if not isinstance(value, dict):
        raise ParameterError(name, "hold a JSON object", f"a {type(value).__name__}")
    return value


def read_bytes(name: str, file: Path) -> bytes:
    """Return the content of a file."""
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise ParameterError(name, "be readable", f"{str(file)!r}: {getattr(error, 'strerror', error)}") from error


# ---------------------------------------------------------------------- what is written


def write_file(path: Name, content: bytes, *, name: str = "output", new: bool = False) -> None:
    """Put all of the content under its name, or nothing. With `new` no file is replaced, even by a race.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "a.txt", b"all")
    ...     [(p.name, p.read_bytes(), oct(p.stat().st_mode & 0o777)) for p in Path(folder).iterdir()]
    [('a.txt', b'all', '0o600')]
    """
    with _part(path, name, _FILE, new=new) as (piece, target):
        draft = piece / "content"
        _fill(draft, content)
        if not new and target.exists():
            draft.chmod(stat.S_IMODE(target.stat().st_mode) & 0o777)
        elif _linked(draft, target):
            return
        draft.replace(target)


def write_folder(path: Name, files: Mapping[str, bytes], *, name: str = "folder") -> None:
    """Make a new folder with these files: all of them under its name, or nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_folder(f"{place}/new", {"a": b"1", "b": b"2"})
    ...     sorted(p.name for p in Path(place, "new").iterdir())
    ['a', 'b']
    """
    with _part(path, name, _FOLDER, new=True) as (piece, target):
        for each, content in files.items():
            _fill(piece / each, content)
        piece.rename(target)


def check_room(folder: Name, size: int = 0) -> str:
    """Say what is wrong if a folder has no room for this many bytes and a little more; nothing if it has.

    >>> check_room(".")
    ''
    """
    disk = shutil.disk_usage(folder)
    if disk.total and disk.free < size + _SPARE:  # some file systems state no sizes
        return f"a disk with {disk.free / 2**20:.4g} MiB free, of {(size + _SPARE) / 2**20:.4g} MiB needed"
    return ""


def check_file(path: Name, *, name: str = "output", new: bool = False) -> None:
    """Raise what `write_file` would raise now, and leave nothing behind.

    A command calls it before it reads data, so that no work and no budget is spent on a result with no place to go.
    """
    with _part(path, name, _FILE, new=new):
        pass


def check_new_folder(path: Name, *, name: str = "output", size: int = 0) -> None:
    """Raise what `write_folder` would raise now for files of this size in bytes, and leave nothing behind."""
    with _part(path, name, _FOLDER, new=True, size=size):
        pass


@contextmanager
def _part(path: Name, name: str, rule: str, *, new: bool, size: int = 0) -> Iterator[tuple[Path, Path]]:
    """Make a new folder next to the target and remove it in the end; errors become words for the user.

    A link to a regular file is followed. The target itself is only looked at.
    """
    kept = f"{str(path)!r}"
    try:
        if os.path.lexists(path or os.curdir):  # no name means this folder
            if new:
                raise FileExistsError
            require(os.path.exists(path), name, rule, f"{kept}: a link that leads nowhere")
            mode = os.stat(path).st_mode
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            require(stat.S_ISREG(mode), name, rule, f"{kept}: {kind}")
            writable = mode & 0o222 and os.access(path, os.W_OK)  # root may write it, but it is marked
            require(writable, name, rule, f"{kept}: a read-only file")
            with open(path, "rb") as held:
                require(held.read(len(_DATABASE)) != _DATABASE, name, rule, f"{kept}: a database, as ledgers are")
        os.lstat(os.path.dirname(os.path.abspath(path)))
        target = Path(os.path.realpath(path))
        with suppress(FileNotFoundError):
            os.lstat(target)  # a name that is too long is refused here
        if problem := check_room(target.parent, size):
            raise ParameterError(name, rule, f"{kept}: {problem}")
        piece = Path(tempfile.mkdtemp(".ndis.part", "", target.parent))
        try:
            yield piece, target
        finally:
            shutil.rmtree(piece, ignore_errors=True)
    except (OSError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        if isinstance(error, FileExistsError):  # another writer was faster
            raise ParameterError(name, "be a new file" if rule == _FILE else rule, f"{kept}, which exists") from error
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise ParameterError(name, "lie in an existing folder", kept) from error
        reason = error.strerror if isinstance(error, OSError) else "a name with null characters"
        raise ParameterError(name, rule, f"{kept}: {reason}") from error


def _linked(draft: Path, target: Path) -> bool:
    """Give a draft a new name. If the file system knows no links, take the name for an empty file."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        _fill(target, b"")
        return False
    return True


def _fill(file: Path, content: bytes) -> None:
    """Write the content to a new file for the user only, and flush it to disk."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
