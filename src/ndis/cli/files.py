"""Read the public files of a command: pairs and profiles as JSON or NPZ, claims and plans as TOML or JSON."""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._json import loads
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile

__all__ = ["numbers", "read_object", "read_pair", "read_profile"]

_MOST_BYTES = 1 << 30  # a covariance of 11 585 dimensions; these commands cannot factor larger ones


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


def read_object(name: str, file: Path) -> dict[str, Any]:
    """Return the object in a TOML file (.toml) or in a JSON file."""
    content = _content(name, file)
    if file.suffix.lower() == ".toml":
        try:
            return tomllib.loads(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # both errors of the two calls are ValueErrors
            raise ParameterError(name, "be valid TOML", str(error) or type(error).__name__) from error
    value = loads(name, content)
    if not isinstance(value, dict):
        raise ParameterError(name, "hold a JSON object", f"a {type(value).__name__}")
    return value


def read_profile(file: Path) -> PrivacyProfile:
    """Return a saved profile, or that of the pair in a file."""
    from ndis.profile import PrivacyProfile

    value = read_pair(file)
    return value if isinstance(value, PrivacyProfile) else PrivacyProfile(value)


def read_pair(file: Path) -> GaussianPair | PrivacyProfile:
    """Return the pair whose constructor takes the values of a JSON or NPZ file, or a saved profile."""
    from ndis._pair_json import pair_from_arrays
    from ndis.profile import PrivacyProfile

    content = _content("file", file)
    if content.startswith(b"PK\x03\x04") or zipfile.is_zipfile(io.BytesIO(content)):
        return pair_from_arrays("the file", npz_arrays(content))
    values = read_object("file", file)
    if "format" in values:
        return PrivacyProfile.from_json(content)
    return pair_from_arrays("the file", values)


def npz_arrays(content: bytes) -> dict[str, Any]:
    """Return the arrays of an NPZ file, numbers and vectors as plain values."""
    from ndis import _npy

    arrays = _npy.npz_arrays("file", content, most=_MOST_BYTES)
    return {key: array.tolist() if array.ndim < 2 else array for key, array in arrays.items()}


def _content(name: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise ParameterError(name, "be readable", f"{str(file)!r}: {getattr(error, 'strerror', error)}") from error
