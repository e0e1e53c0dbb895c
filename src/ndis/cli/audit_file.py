"""The files that `ndis audit` reads: a claim with pairs, a claim with data and an algorithm, or a saved report."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ndis
from ndis._json import loads, only_keys
from ndis._validate import as_floats
from ndis.cli.source import content_of, from_toml, is_npz, npz_arrays, pair_from_arrays
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.pair import GaussianPair

__all__ = ["Request", "read_request"]

_TABLES = (".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc")
_CLAIM = ("epsilon", "delta", "adjacency")
_NAMES = ("title", "data_name")
_BOUNDS = ("row_norm_bound", "target_bound", "target_values")
_DATA = ("algorithm", "data", "targets", "candidates", "schema", *_BOUNDS)


@dataclass(frozen=True)
class _Choice:
    """Which columns of a table are read: features and targets by name or number, or those of a schema."""

    targets: list[str] | None = None
    columns: list[str] | None = None
    schema: Path | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """The content of a file; a part that is not there is None."""

    claim: Mapping[str, Any]
    pairs: Any = None
    algorithm: str | None = None
    data: Any = None
    candidates: Any = None
    row_norm_bound: Any = None
    target_bound: Any = None
    target_values: Any = None
    report: Any = None  # a saved AuditReport
    title: str = ""
    data_name: str = ""
    folder: str | None = None  # of the file; modules beside the file are found too


def read_request(
    file: Path,
    *,
    targets: list[str] | None = None,
    columns: list[str] | None = None,
    schema: Path | None = None,
) -> Request:
    """Read a file by its ending and its content: a table of data, NPZ, TOML, else JSON."""
    return replace(_read(file, _Choice(targets, columns, schema)), folder=str(file.parent.absolute()))


def _read(file: Path, choice: _Choice) -> Request:
    ending = file.suffix.lower()
    if ending in (*_TABLES, ".npy"):
        bounds = _schema_bounds(choice.schema)
        return Request({}, data=_read_rows("data", file, choice), data_name=file.name, **bounds)
    if choice.columns is not None:
        raise ParameterError("--columns", "be left out for a file that is no table", ", ".join(choice.columns))
    content = content_of(file)
    if is_npz(content) or ending == ".npz":
        if choice.targets is not None:
            rule = "be left out for an NPZ file, which names them itself"
            raise ParameterError("--targets", rule, ", ".join(choice.targets))
        if choice.schema is not None:
            raise ParameterError("--schema", "be left out for an NPZ file, which holds numbers", str(choice.schema))
        return _from_arrays(npz_arrays(content))
    found = from_toml("file", content) if ending == ".toml" else loads("file", content)
    if not isinstance(found, dict):
        raise ParameterError("file", "hold an object with a claim and pairs or data", f"a {type(found).__name__}")
    return _from_object(found, content, file.parent, choice)


def _from_object(found: dict[str, Any], content: bytes, folder: Path, choice: _Choice) -> Request:
    if choice.schema is not None and not isinstance(found.get("data"), str):
        rule = "come with a table of data, as FILE or under the key data"
        raise ParameterError("--schema", rule, str(choice.schema))
    if found.get("format") == "ndis.AuditReport":
        return Request({}, report=ndis.auditing.AuditReport.from_dict(found))
    if "format" in found:
        return Request({}, pairs=[ndis.PrivacyProfile.from_json(content)])
    if not found.keys() & {"claim", "pairs", *_NAMES, *_DATA}:
        return Request({}, pairs=[pair_from_arrays("the file", found)])
    only_keys("file", found, (), ("claim", "pairs", *_NAMES, *_DATA))
    names: dict[str, Any] = {key: _text(key, found.get(key, "")) for key in _NAMES}
    claim = found.get("claim", {})
    if not isinstance(claim, dict):
        raise ParameterError("claim", "be an object", f"a {type(claim).__name__}")
    only_keys("claim", claim, (), _CLAIM)
    if "pairs" in found:
        extra = [key for key in _DATA if key in found]
        if extra:
            raise ParameterError("file", "hold pairs or data, not both", f"pairs and {', '.join(extra)}")
        return Request(claim, pairs=_pairs(found["pairs"]), **names)
    if "schema" in found and choice.schema is None:
        choice = replace(choice, schema=folder / _text("schema", found["schema"]))
    if choice.targets is None:
        choice = replace(choice, targets=_names(found.get("targets")))
    stated = {key: found[key] for key in _BOUNDS if found.get(key) is not None}
    bounds: dict[str, Any] = _schema_bounds(choice.schema) | stated
    return Request(
        claim,
        algorithm=_algorithm(found),
        data=_rows("data", found.get("data"), folder, choice),
        candidates=_rows("candidates", found.get("candidates"), folder, choice),
        **bounds,
        **names,
    )


def _from_arrays(arrays: dict[str, Any]) -> Request:
    """NPZ: the claim as scalars or vectors, with pairs as the (stacked) arguments of a constructor, or with rows."""
    claim = {key: arrays.pop(key) for key in _CLAIM if key in arrays}
    if "adjacency" in claim:
        claim["adjacency"] = str(claim["adjacency"])
    if "data" in arrays:
        only_keys("NPZ file", arrays, ("data",), ("candidate_targets", *(key for key in _DATA if key != "data")))
        data = _edits().with_targets("data", arrays["data"], arrays.get("targets"))
        more = arrays.get("candidates")
        extra = None if more is None else _edits().with_targets("candidates", more, arrays.get("candidate_targets"))
        bounds: dict[str, Any] = {key: arrays.get(key) for key in _BOUNDS}
        return Request(claim, data=data, candidates=extra, algorithm=_algorithm(arrays), **bounds)
    if "variance_ratio" in arrays and np.ndim(arrays["variance_ratio"]) == 2:
        batch = {key: as_floats(key, array) for key, array in arrays.items()}
        return Request(claim, pairs=ndis.auditing.PairBatch.from_mapping(batch))
    if np.ndim(arrays.get("mean_p", 0.0)) == 2:
        return Request(claim, pairs=_stack(arrays))
    return Request(claim, pairs=[pair_from_arrays("the file", arrays)])


def _algorithm(found: Mapping[str, Any]) -> str | None:
    """The name of the algorithm, if there is one."""
    name = found.get("algorithm")
    if not (name is None or isinstance(name, str)):
        got = f"a {type(name).__name__}" if isinstance(name, list | np.ndarray) else repr(name)
        raise ParameterError("algorithm", "be written module:function", got)
    return name


def _stack(arrays: dict[str, Any]) -> list[GaussianPair]:
    """One pair per entry of the first axis, which all arrays share."""
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


def _rows(name: str, found: Any, folder: Path, choice: _Choice) -> Any:
    """Rows in the file itself, or the name of a file beside it; None stays None."""
    if found is None:
        return None
    if isinstance(found, str):
        return _read_rows(name, folder / found, choice)
    if choice.schema is not None:
        raise ParameterError(name, "be a CSV, Parquet or Arrow file for a schema", "numbers")
    matrix = _edits().matrix_of(name, found)
    if not choice.targets:
        return matrix
    numbers = [_column(name, target, matrix.shape[1]) for target in choice.targets]
    features = [i for i in range(matrix.shape[1]) if i not in numbers]
    if not features:
        raise ParameterError("targets", "leave at least one feature", "none")
    return _edits().with_targets(name, matrix[:, features], matrix[:, numbers])


def _read_rows(name: str, file: Path, choice: _Choice) -> Any:
    ending = file.suffix.lower()
    if ending in (".npy", ".npz"):
        if choice.schema is not None:
            raise ParameterError(name, "be a CSV, Parquet or Arrow file for a schema", str(file))
        content = content_of(file)
        if is_npz(content):
            request = _from_arrays(npz_arrays(content))
            if request.data is None:
                raise ParameterError(name, "be in the array called data of an NPZ file", "an archive without it")
            return request.data
        return _rows(name, _npy(name, content), file.parent, choice)
    if ending not in _TABLES:
        raise ParameterError(name, "be named .npy, .npz, .csv, .parquet or .arrow", str(file))
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ParameterError("pyarrow", "be installed to read tables", "none", "pip install 'ndis[data]'") from error
    if not file.is_file():
        raise ParameterError(name, "name an existing file", str(file))
    columns, targets = _numbers(choice.columns), _numbers(choice.targets)
    if choice.schema is not None and choice.columns is not None:
        remedy = ", ".join(choice.columns)
        raise ParameterError("--columns", "be left out with a schema, which names its columns", remedy)
    schema = None if choice.schema is None else ndis.Schema.from_toml(choice.schema)
    try:
        return ndis.auditing.DataSet(file, columns, targets, header=ending == ".csv", schema=schema).rows()
    except (OSError, pa.ArrowException) as error:
        raise ParameterError(name, "be a readable file of its kind", str(file)) from error


def _schema_bounds(file: Path | None) -> dict[str, Any]:
    """What the worst row within a stated norm may have as its target: the range of the schema, or its classes."""
    schema = None if file is None else ndis.Schema.from_toml(file)
    if schema is None or schema.target is None:
        return {}
    return {"target_values": list(range(len(schema.classes)))} if schema.classes else {"target_bound": 1.0}


def _npy(name: str, content: bytes) -> Any:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError) as error:
        raise ParameterError(name, "be an NPY file of plain numbers", type(error).__name__) from error


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


def _edits() -> Any:
    """The tables of the auditor, which Python imports only when a command reads one."""
    return ndis.auditing.candidates.edits


def _numbers(targets: list[str] | None) -> list[int | str] | None:
    """Column names, and numbers as numbers."""
    return [int(t) if t.isdecimal() else t for t in targets] if targets else None


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError(name, "be text", type(value).__name__)
    return value
