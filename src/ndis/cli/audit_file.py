"""What `ndis audit` reads: a claim with pairs, or with data and the algorithm that runs on them."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ndis._json import loads, only_keys, pair_from_arrays
from ndis._validate import as_floats
from ndis.cli.source import content_of, is_npz, npz_arrays
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["Request", "read_request"]

_TABLES = (".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc")
_CLAIM = ("epsilon", "delta", "adjacency")
_DATA = ("algorithm", "data", "targets", "candidates", "row_norm_bound", "target_bound", "target_values")


@dataclass(frozen=True, eq=False)
class Request:
    """What a file asks for; what it leaves open is None."""

    claim: Mapping[str, Any]
    pairs: Any = None
    algorithm: str | None = None
    data: Any = None
    candidates: Any = None
    row_norm_bound: Any = None
    target_bound: Any = None
    target_values: Any = None
    folder: str | None = None  # of the file: modules are looked for there too


def read_request(file: Path, *, targets: list[str] | None = None) -> Request:
    """Read a file by its ending and its content: a table of data, NPZ, TOML, else JSON."""
    return replace(_read(file, targets), folder=str(file.parent.absolute()))


def _read(file: Path, targets: list[str] | None) -> Request:
    ending = file.suffix.lower()
    if ending in (*_TABLES, ".npy"):
        return Request({}, data=_read_rows("data", file, targets))
    content = content_of(file)
    if is_npz(content) or ending == ".npz":
        if targets is not None:
            raise ParameterError(
                "--targets", "be left out for an NPZ file, which names them itself", ", ".join(targets)
            )
        return _from_arrays(npz_arrays(content))
    found = _toml(content) if ending == ".toml" else loads("file", content)
    if not isinstance(found, dict):
        raise ParameterError("file", "hold an object with a claim and pairs or data", f"a {type(found).__name__}")
    return _from_object(found, content, file.parent, targets)


def _from_object(found: dict[str, Any], content: bytes, folder: Path, targets: list[str] | None) -> Request:
    if "format" in found:
        return Request({}, pairs=[PrivacyProfile.from_json(content)])
    if not found.keys() & {"claim", "pairs", *_DATA}:
        return Request({}, pairs=[pair_from_arrays("the file", found)])
    only_keys("file", found, (), ("claim", "pairs", *_DATA))
    claim = found.get("claim", {})
    if not isinstance(claim, dict):
        raise ParameterError("claim", "be an object", f"a {type(claim).__name__}")
    only_keys("claim", claim, (), _CLAIM)
    if "pairs" in found:
        extra = [key for key in _DATA if key in found]
        if extra:
            raise ParameterError("file", "hold pairs or data, not both", f"pairs and {', '.join(extra)}")
        return Request(claim, pairs=_pairs(found["pairs"]))
    algorithm = found.get("algorithm")
    if not (algorithm is None or isinstance(algorithm, str)):
        raise ParameterError("algorithm", "be written module:function", repr(algorithm))
    named = targets if targets is not None else _names(found.get("targets"))
    return Request(
        claim,
        algorithm=algorithm,
        data=_rows("data", found.get("data"), folder, named),
        candidates=_rows("candidates", found.get("candidates"), folder, named),
        **{key: found.get(key) for key in ("row_norm_bound", "target_bound", "target_values")},
    )


def _from_arrays(arrays: dict[str, Any]) -> Request:
    """NPZ: the claim as scalars or vectors; pairs as the arguments of a constructor, perhaps stacked; or rows."""
    claim = {key: arrays.pop(key) for key in _CLAIM if key in arrays}
    if "adjacency" in claim:
        claim["adjacency"] = str(claim["adjacency"])
    if "data" in arrays:
        only_keys("NPZ file", arrays, ("data",), ("candidate_targets", *(key for key in _DATA if key != "data")))
        data = _with_targets("data", arrays["data"], arrays.get("targets"))
        more = arrays.get("candidates")
        extra = None if more is None else _with_targets("candidates", more, arrays.get("candidate_targets"))
        name = arrays.get("algorithm")
        if not (name is None or isinstance(name, str)):
            raise ParameterError("algorithm", "be written module:function", f"a {type(name).__name__}")
        bounds = {key: arrays.get(key) for key in ("row_norm_bound", "target_bound", "target_values")}
        return Request(claim, data=data, candidates=extra, algorithm=name, **bounds)
    if "variance_ratio" in arrays and np.ndim(arrays["variance_ratio"]) == 2:
        from ndis.auditing import PairBatch

        return Request(claim, pairs=PairBatch.from_mapping({key: as_floats(key, a) for key, a in arrays.items()}))
    if np.ndim(arrays.get("mean_p", 0.0)) == 2:
        return Request(claim, pairs=_stack(arrays))
    return Request(claim, pairs=[pair_from_arrays("the file", arrays)])


def _stack(arrays: dict[str, Any]) -> list[GaussianPair]:
    """One pair for each entry of the first axis, which all arrays share."""
    counts = {key: len(a) if np.ndim(a) else 0 for key, a in arrays.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        told = ", ".join(f"{key}: {count}" for key, count in counts.items())
        raise ParameterError("arrays of stacked pairs", "have the same first length, at least 1", told)
    return [
        pair_from_arrays(f"pair {i}", {key: a[i] for key, a in arrays.items()})
        for i in range(next(iter(counts.values())))
    ]


def _pairs(found: Any) -> list[GaussianPair]:
    if not isinstance(found, list) or not found:
        kind = "an empty list" if found == [] else f"a {type(found).__name__}"
        raise ParameterError("pairs", "be a list of at least one pair", kind)
    pairs = []
    for number, item in enumerate(found):
        if not isinstance(item, dict):
            raise ParameterError(f"pair {number}", "be an object", f"a {type(item).__name__}")
        pairs.append(pair_from_arrays(f"pair {number}", item))
    return pairs


# ---------------------------------------------------------------------- rows


def _rows(name: str, found: Any, folder: Path, targets: list[str] | None) -> Any:
    """Rows written out, or the name of a file beside this one; None stays None."""
    if found is None:
        return None
    if isinstance(found, str):
        return _read_rows(name, folder / found, targets)
    matrix = _matrix(name, found)
    if not targets:
        return matrix
    numbers = [_column(name, target, matrix.shape[1]) for target in targets]
    return _split(matrix, [i for i in range(matrix.shape[1]) if i not in numbers], numbers)


def _read_rows(name: str, file: Path, targets: list[str] | None) -> Any:
    ending = file.suffix.lower()
    if ending in (".npy", ".npz"):
        content = content_of(file)
        if is_npz(content):
            request = _from_arrays(npz_arrays(content))
            if request.data is None:
                raise ParameterError(name, "be in the array called data of an NPZ file", "an archive without it")
            return request.data
        return _rows(name, _npy(name, content), file.parent, targets)
    if ending not in _TABLES:
        raise ParameterError(name, "be named .npy, .npz, .csv, .parquet or .arrow", str(file))
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ParameterError("pyarrow", "be installed to read tables", "none", "pip install 'ndis[data]'") from error
    from ndis.gram.sources import choose_columns, open_source

    if not file.is_file():
        raise ParameterError(name, "name an existing file", str(file))
    try:
        source = open_source(file, progress=False)
        chosen = None if not targets else [_column(name, t, source.width) if t.isdecimal() else t for t in targets]
        groups = choose_columns(source, None, chosen)
        blocks = list(source.read(groups))
    except (OSError, pa.ArrowException) as error:
        raise ParameterError(name, "be a readable file of its kind", str(file)) from error
    if not blocks:
        raise ParameterError(name, "hold at least one row", "none")
    features, *others = (np.concatenate(list(part)) for part in zip(*blocks, strict=True))
    return _with_targets(name, features, others[0] if others else None)


def _npy(name: str, content: bytes) -> Any:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError) as error:
        raise ParameterError(name, "be an NPY file of plain numbers", type(error).__name__) from error


def _matrix(name: str, found: Any) -> Any:
    """A finite matrix; a message about it never quotes an entry."""
    try:
        array = np.asarray(found)
    except ValueError:
        raise ParameterError(name, "be rows of equal length", "rows of different lengths") from None
    if array.dtype.kind not in "uifb":
        raise ParameterError(name, "be rows of numbers", f"entries of type {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ParameterError(name, "be rows and columns, at least one of each", f"shape {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ParameterError(name, "be finite", "entries that are not")
    return array


def _with_targets(name: str, features: Any, targets: Any) -> Any:
    matrix = _matrix(name, features)
    if targets is None:
        return matrix
    column = np.asarray(targets)
    return matrix, _vector(name, _matrix(f"targets of {name}", column.reshape(len(column), -1) if column.ndim else []))


def _split(matrix: Any, features: list[int], targets: list[int]) -> Any:
    if not features:
        raise ParameterError("targets", "leave at least one feature", "none")
    return matrix[:, features], _vector("targets", matrix[:, targets])


def _vector(name: str, matrix: Any) -> Any:
    """One column as a vector, several as they are."""
    return matrix[:, 0] if matrix.shape[1] == 1 else matrix


def _names(found: Any) -> list[str] | None:
    if found is None:
        return None
    items = found if isinstance(found, list) else [found]
    if not items or not all(isinstance(i, str) or type(i) is int for i in items):
        raise ParameterError("targets", "be names or numbers of columns", repr(found))
    return [str(i) for i in items]


def _column(name: str, target: str, width: int) -> int:
    if not (target.isdecimal() and int(target) < width):
        raise ParameterError("targets", f"be column numbers of {name}, from 0 to {width - 1}", repr(target))
    return int(target)


# ---------------------------------------------------------------------- small parts


def _toml(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParameterError("file", "be valid TOML", str(error) or type(error).__name__) from error
