"""Writing files so that under a name there is all of the content, or nothing.

Content is first written to a part, a file or folder beside the target whose name ends in `.ndis.part`. Its writer holds
a lock on it, which ends with the process, however it ends. So a part without a lock was left by a process that was
killed, and whoever writes next to it removes it. New files are for the user only (mode 0600, folders 0700); a file that
is replaced keeps its mode. A target that is neither a regular file nor a new name is refused.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

from ndis.errors import ParameterError

__all__ = ["check_file", "check_new_folder", "lock", "open_to_append", "write_file", "write_folder"]

_FILE = "be a file that can be written"
_FOLDER = "be a new folder"
_PART = re.compile(r"\.[0-9a-f]{8}\.ndis\.part\Z")
_SHORT = 100  # bytes of the target's name in that of its part: every system has room for both

Name = str | os.PathLike[str]


def write_file(path: Name, content: bytes, *, name: str = "output", new: bool = False) -> None:
    """Put all of the content under its name, or nothing: written beside it, flushed to disk, then renamed.

    With `new` a file that exists is refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "a.txt", b"all")
    ...     [(p.name, p.read_bytes(), oct(p.stat().st_mode & 0o777)) for p in Path(folder).iterdir()]
    [('a.txt', b'all', '0o600')]
    """
    target, found = _existing(path, name, new=new)
    with _beside(path, target, name, folder=False) as part:
        _fill(part, content, found)
        part.replace(target)


def write_folder(path: Name, files: Mapping[str, bytes], *, name: str = "folder") -> None:
    """Make a new folder with these files: all of them under its name, or nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_folder(f"{place}/new", {"a": b"1", "b": b"2"})
    ...     sorted(p.name for p in Path(place, "new").iterdir())
    ['a', 'b']
    """
    target = _new(path, name)
    with _beside(path, target, name, folder=True) as part:
        for each, content in files.items():
            _fill(part / each, content, None)
        part.rename(target)


def check_file(path: Name, *, name: str = "output", append: bool = False, new: bool = False) -> None:
    """Raise what `write_file` (or, to append, `open_to_append`) would raise now, and leave nothing behind.

    A command calls it before it reads data, so that no work and no budget is spent on a result with no place to go.
    """
    target, found = _existing(path, name, new=new)
    if append and found is not None:
        return
    with _beside(path, target, name, folder=False):
        pass


def check_new_folder(path: Name, *, name: str = "output") -> None:
    """Raise what `write_folder` would raise now, and leave nothing behind."""
    with _beside(path, _new(path, name), name, folder=True):
        pass


def open_to_append(path: Name, *, name: str = "output") -> IO[bytes]:
    """Open a regular file to read it and to write at its end; a new one is for the user only."""
    target, _ = _existing(path, name)

    def opener(file: str, flags: int) -> int:
        return os.open(file, flags | getattr(os, "O_NONBLOCK", 0), 0o600)  # a FIFO would wait for a reader

    try:
        file = open(target, "a+b", opener=opener)  # noqa: SIM115 - the caller closes it
    except OSError as error:
        _refuse(name, _FILE, path, error)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # what stood there a moment ago was regular
        file.close()
        raise ParameterError(name, _FILE, f"{str(path)!r}: not a regular file")
    return file


def lock(file: int | IO[bytes], *, release: bool = False) -> None:
    """Keep other processes from a file until it is closed or released, if the system has such locks.

    If another process holds the lock, BlockingIOError is raised.
    """
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_UN if release else fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------------- what is there


def _existing(path: Name, name: str, *, new: bool = False) -> tuple[Path, os.stat_result | None]:
    """The file itself, links followed, and its status if it exists; with `new` it must not."""
    if new and os.path.lexists(path):
        raise ParameterError(name, "be a new file", f"{str(path)!r}, which exists")
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise ParameterError(name, _FILE, f"{str(path)!r}: a link that leads nowhere") from error
        return Path(os.path.realpath(path)), None
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        _refuse(name, _FILE, path, error)
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise ParameterError(name, _FILE, f"{str(path)!r}: {kind}")
    if not (found.st_mode & 0o222 and os.access(path, os.W_OK)):  # root may write it, but it is marked
        raise ParameterError(name, _FILE, f"{str(path)!r}: a read-only file")
    return Path(os.path.realpath(path)), found


def _new(path: Name, name: str) -> Path:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return Path(path).absolute()
    except (OSError, ValueError) as error:
        _refuse(name, _FOLDER, path, error)
    raise ParameterError(name, _FOLDER, f"{str(path)!r}, which exists")


def _refuse(name: str, rule: str, path: Name, error: OSError | ValueError) -> NoReturn:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        raise ParameterError(name, "lie in an existing folder", repr(str(path))) from error
    reason = error.strerror if isinstance(error, OSError) else "a name with null characters"
    raise ParameterError(name, rule, f"{str(path)!r}: {reason}") from error


# ---------------------------------------------------------------------- parts


@contextmanager
def _beside(path: Name, target: Path, name: str, *, folder: bool) -> Iterator[Path]:
    """A part of the target; what stands in its way is refused in words for the user."""
    try:
        with _part(target, folder=folder) as part:
            yield part
    except OSError as error:
        _refuse(name, _FOLDER if folder else _FILE, path, error)


@contextmanager
def _part(target: Path, *, folder: bool) -> Iterator[Path]:
    """A new file or folder beside the target, under a lock; it is gone afterwards unless it was renamed."""
    _remove_left_behind(target.parent)
    short = target.name
    while len(os.fsencode(short)) > _SHORT:
        short = short[:-1]
    while True:
        part = target.with_name(f"{short}.{secrets.token_hex(4)}.ndis.part")
        if folder:
            part.mkdir(mode=0o700)
        else:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        held = None
        with suppress(OSError):  # no locks here: nobody removes what another process writes, nor what it leaves behind
            held = _locked(part)
        if held is not None or part.exists():
            break  # else another process took it for one left behind before it had its lock
    try:
        yield part
    finally:
        _remove(part)
        if held is not None:
            os.close(held)


def _locked(part: Path) -> int | None:
    """A descriptor that holds the lock of a part; OSError if it is not to be had, None if the system has no locks."""
    if not hasattr(os, "O_NOFOLLOW"):
        return None
    descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(part)):
            raise FileNotFoundError(part)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left_behind(folder: Path) -> None:
    """Remove the parts of this user whose writer is no more."""
    with suppress(OSError):  # a folder that cannot be listed
        for part in [Path(entry.path) for entry in os.scandir(folder) if _PART.search(entry.name)]:
            with suppress(OSError):
                held = _locked(part)
                if held is not None:
                    if os.fstat(held).st_uid == os.getuid():
                        _remove(part)
                    os.close(held)


def _remove(part: Path) -> None:
    """Remove a part; where that fails, the error that came before is the one to tell."""
    with suppress(OSError):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _fill(file: Path, content: bytes, like: os.stat_result | None) -> None:
    """Write and flush the content; if the file is to replace another, with the mode of that."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        if like is not None and hasattr(os, "fchmod"):
            mode, mine = stat.S_IMODE(like.st_mode) & 0o777, os.fstat(out.fileno())
            if (like.st_uid, like.st_gid) != (mine.st_uid, mine.st_gid):
                try:
                    os.fchown(out.fileno(), like.st_uid, like.st_gid)
                except PermissionError:  # the mode was meant for another group
                    mode &= 0o707 if like.st_gid != mine.st_gid else 0o777
            os.fchmod(out.fileno(), mode)
        os.fsync(out.fileno())
