"""Where a command takes its pair from: options, or a JSON or NPZ file."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ndis
from ndis._json import loads
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile

_MOST_BYTES = 1 << 30  # a covariance of 11 585 dimensions; larger ones are beyond what these commands can factor

__all__ = ["content_of", "is_npz", "npz_arrays", "numbers", "pair_from_arrays", "profile_from", "read_profile"]


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


def content_of(file: Path) -> bytes:
    """All bytes of a file."""
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise ParameterError("file", "be readable", f"{str(file)!r}: {getattr(error, 'strerror', error)}") from error


def is_npz(content: bytes) -> bool:
    """Whether these are the bytes of an archive, be it cut short."""
    return content.startswith(b"PK\x03\x04") or zipfile.is_zipfile(io.BytesIO(content))


def npz_arrays(content: bytes) -> dict[str, Any]:
    """The arrays of an NPZ file; pickled objects are refused."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ParameterError(
            "file", "be an NPZ archive of plain numeric arrays", "a file that is cut short, or no archive"
        )
    try:
        _check_size(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except ParameterError:
        raise
    except (
        ValueError,
        KeyError,
        EOFError,
        OSError,
        RuntimeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ParameterError(
            "file", "be an NPZ archive of plain numeric arrays", str(error) or type(error).__name__
        ) from error
    return {key: a.tolist() if np.ndim(a) < 2 else a for key, a in arrays.items() if isinstance(a, np.ndarray)}


def _check_size(content: bytes) -> None:
    """Refuse an archive whose arrays would fill the memory, by their headers, before anything is unpacked."""
    from ndis.gram.npy import npy_header

    total = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for item in archive.infolist():
            with archive.open(item) as file:
                total += max(npy_header(file).size, item.file_size) if item.filename.endswith(".npy") else 0
    if total > _MOST_BYTES:
        raise ParameterError("file", f"hold arrays of at most {_MOST_BYTES >> 20} MiB in all", "larger ones")
