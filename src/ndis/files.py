"""Writing files so that under a name there is all of the content, or nothing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ndis.errors import ParameterError

__all__ = ["write_file"]


def write_file(path: str | os.PathLike[str], content: bytes, *, name: str = "output") -> None:
    """All of the content under its name, or nothing: written beside it, flushed to disk, then renamed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "a.txt", b"all")
    ...     [(p.name, p.read_bytes()) for p in Path(folder).iterdir()]
    [('a.txt', b'all')]
    """
    target = Path(path)
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise ParameterError(name, "be a file that can be written", f"{str(path)!r}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
