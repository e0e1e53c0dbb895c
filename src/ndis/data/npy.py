"""NPY files, read in slices, and NPZ archives in memory.

The header is checked before a number is read, and nothing is mapped into memory.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ndis._validate import require
from ndis.errors import ParameterError

_LONGEST_HEADER = 1 << 16

# The errors of NumPy and zipfile on bytes that are no archive of arrays.
_DAMAGED = (tokenize.TokenError, zipfile.BadZipFile, zlib.error)
_UNREADABLE = (ValueError, TypeError, KeyError, EOFError, OSError, RuntimeError, MemoryError, SyntaxError, *_DAMAGED)


@dataclass(frozen=True)
class NpyHeader:
    """The header says the shape, the type, the order, and where the numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    @property
    def size(self) -> int:
        """Return the bytes of the numbers, as an exact integer."""
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(file: IO[bytes]) -> NpyHeader:
    """Read the header. It is a ValueError if there is none, or if the file holds objects. No array is made.

    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((3, 2)))
    >>> _ = file.seek(0)
    >>> npy_header(file).shape
    (3, 2)
    """
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError("another version")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
    except (tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError("no array header") from error
    if dtype.hasobject or any(length < 0 for length in shape):
        raise ValueError("no plain numbers")
    return NpyHeader(shape, dtype, fortran, file.tell())


def npy_blocks(path: Path, header: NpyHeader, wanted: tuple[int, ...], step: int) -> Iterator[list[NDArray[Any]]]:
    """Yield the wanted columns of a matrix in slices of `step` rows."""
    (rows, width), item = header.shape, header.dtype.itemsize

    def read(first: int, count: int) -> NDArray[Any]:
        content = np.fromfile(path, header.dtype, count, offset=header.start + first * item)
        require(len(content) == count, "data", "be an NPY file of numbers", "a file that is cut short")
        return content

    for first in range(0, rows, step):
        count = min(step, rows - first)
        if header.fortran:
            yield [read(c * rows + first, count) for c in wanted]
        else:
            block = read(first * width, count * width).reshape(count, width)
            yield [block[:, i] for i in wanted]


def npz_arrays(name: str, content: bytes, *, most: int) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive; pickled objects are refused.

    An archive with more than `most` bytes of arrays is refused by its headers, before anything is unpacked.

    >>> file = io.BytesIO()
    >>> np.savez(file, a=np.zeros(2))
    >>> npz_arrays("file", file.getvalue(), most=1000)
    {'a': array([0., 0.])}
    """
    try:
        _check_size(name, content, most)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            result = {key: archive[key] for key in archive.files}
    except ParameterError:
        raise
    except _UNREADABLE as error:
        got = str(error) or type(error).__name__
        raise ParameterError(name, "be an NPZ archive of plain numeric arrays", got) from error
    return {key: array for key, array in result.items() if isinstance(array, np.ndarray)}


def _check_size(name: str, content: bytes, most: int) -> None:
    """Refuse an archive whose arrays would fill the memory, by their headers and by its directory."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        items = archive.infolist()
        arrays = sum(npy_header(archive.open(item)).size for item in items if item.filename.endswith(".npy"))
    if max(arrays, sum(item.file_size for item in items)) > most:
        raise ParameterError(name, f"hold arrays of at most {most / 2**20:.12g} MiB in all", "larger ones")
