"""Everything that can be seen of a release, with and without one hostile record: it must be the same.

Seen are the outcome, the exception with its words and its context, standard output and standard error, warnings, log
records, the exit code, and the names and sizes of the files. Not seen are the time and the noise itself.
"""

from __future__ import annotations

import contextlib
import decimal
import io
import logging
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndis
from helpers.cases import quick
from ndis.learn import PrivateCovariance
from ndis.models.records import read_records

pa = pytest.importorskip("pyarrow")
MECHANISM = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
ROWS = [[0.25, 0.5, -0.125], [0.1, 0.2, 0.3], [0.0, 1.0, 0.5]]


class Hostile:
    """A cell whose own code raises, with its secret in the words."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __float__(self) -> float:
        raise self.error("secret 1234")

    def __repr__(self) -> str:
        raise self.error("secret 1234")


class Loud:
    """A cell that warns and logs when it is asked for its value."""

    def __float__(self) -> float:
        warnings.warn("secret 1234", stacklevel=1)
        return 0.5


CELLS: list[Any] = [
    "secret 1234", b"\xff\xfe", "", None, 10**400, -(10**400), float("nan"), float("inf"), 1e308, 5e-324, True, 1j,
    [1.0], (1.0, 2.0), [[3.0]], {}, np.ones(2), np.ones((2, 2)), np.array(0.5), np.array([0.5]), np.float32(0.5),
    np.datetime64("2020"), np.timedelta64(1, "s"), decimal.Decimal("sNaN"), decimal.Decimal("1e999999"), "1_0", "١",
    "x" * 1000, Hostile(RuntimeError), Hostile(SystemExit), Hostile(ValueError), Loud(), object(), range(3), "nan",
    np.ma.masked, slice(1), type, lambda: 1.0, bytearray(b"1"), memoryview(b"1"), float, Ellipsis,
]  # fmt: skip


@contextlib.contextmanager
def recorded(seen: dict[str, Any]) -> Iterator[None]:
    """Keep what is printed, warned and logged; what is raised is kept as well, with what it came from."""
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as caught,
        ):  # fmt: skip
            warnings.simplefilter("always")
            try:
                yield
                seen["outcome"] = "done"
            except BaseException as error:  # noqa: BLE001 -- whatever is raised is seen
                context = None if error.__suppress_context__ else error.__context__
                seen["outcome"] = type(error), str(error), repr(error.__cause__), repr(context)
    finally:
        logging.getLogger().removeHandler(handler)
    seen |= {"out": out.getvalue(), "err": err.getvalue(), "log": log.getvalue()}
    seen["warnings"] = [(w.category, str(w.message)) for w in caught]


def seen_of(release: Callable[[], Any], folder: Path) -> dict[str, Any]:
    """What can be seen of a release that is saved."""
    seen: dict[str, Any] = {}
    with recorded(seen):
        found = release()
        found.save(folder / "saved")
        receipt = found.receipt.to_dict()
        seen["released"] = found.sketch.shape, found.sketch.dtype, found.names, found.targets, receipt["parameters"]
    seen["files"] = sorted((str(p.relative_to(folder)), p.stat().st_size) for p in folder.rglob("*") if p.is_file())
    shutil.rmtree(folder / "saved", ignore_errors=True)
    return seen


@pytest.fixture
def seen(tmp_path: Path) -> Callable[[Any], dict[str, Any]]:
    place = tmp_path / "seen"
    place.mkdir()

    def look(data: Any, **how: Any) -> dict[str, Any]:
        return seen_of(lambda: MECHANISM.release(data, progress=True, **how), place)

    return look


# --- bytes of CSV ---------------------------------------------------------------------------------

BYTES = [
    b"J\xfcrgen,0.3,0.4", b"J\xfcrgen,0.3", b'"', b'"\xff', b'0.1,"0.2,0.3', b"\x00" * 20, b"\xff" * 50, b"," * 500,
    b"", b"\r", b'""",""', b"\x1b]0;secret\x07", b"0.1,0.2,0.3\r0.1,0.2,0.3", b"1e999,1e-999,9", b"7" * (9 << 20),
    b'"' + b"7," * (5 << 20), "١,٢,٣".encode(), b"\xef\xbb\xbf1,2,3", b"\xfe\xff\x00a", b"\x1a", b"0.1;0.2;0.3",
]  # fmt: skip


def lines() -> list[bytes]:
    rng = random.Random(0)
    return BYTES + [bytes(rng.choices([b for b in range(256) if b != 10], k=rng.randint(1, 60))) for _ in range(60)]


@pytest.mark.parametrize("how", [{"columns": ["a", "b", "c"]}, {"header": True}], ids=["columns", "header"])
def test_bytes_of_csv(how: dict[str, Any], tmp_path: Path, seen: Callable[..., dict[str, Any]]) -> None:
    path = tmp_path / "rows.csv"
    plain = [",".join(map(str, row)).encode() for row in ROWS]
    names = [b"a,b,c"] if "header" in how else []
    path.write_bytes(b"\n".join([*names, *plain]))
    expected = seen(path, **how)
    assert expected["outcome"] == "done"
    for i, line in enumerate(lines()):
        place = i % (len(plain) + 1)
        path.write_bytes(b"\n".join([*names, *plain[:place], line, *plain[place:]]))
        assert seen(path, **how) == expected, line[:100]
    path.write_bytes(b"\n".join(names))  # no record at all
    assert seen(path, **how) == expected


def at_the_command_line(folder: Path, *extra: bytes) -> tuple[Any, ...]:
    """Everything that somebody who runs the command sees."""
    (folder / "rows.csv").write_bytes(b"\n".join([b"0.1,0.2,0.3", *extra, b"0.2,0.1,0.5", b""]))
    args = "sketch rows.csv --columns a,b,c --epsilon 1 --delta 1e-6 --sketch-size 5 --row-norm-bound 1 -o out"
    code = "import sys; from ndis.cli import main; sys.exit(main())"
    ran = subprocess.run(
        [sys.executable, "-c", code, *args.split(), "--progress"], cwd=folder, capture_output=True, check=False
    )
    files = sorted((p.name, p.stat().st_size) for p in (folder / "out").rglob("*"))
    return ran.returncode, ran.stdout, ran.stderr, files


@pytest.fixture(scope="module")
def without_a_line(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    return at_the_command_line(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(
    "line", quick([BYTES[0], BYTES[3], BYTES[11], b"\xff\x00\r\x1b[2J,,,,"], [b"\xff\x00\r\x1b[2J,,,,"])
)
def test_bytes_of_csv_at_the_command_line(line: bytes, tmp_path: Path, without_a_line: tuple[Any, ...]) -> None:
    assert without_a_line[0] == 0
    assert at_the_command_line(tmp_path, line) == without_a_line


# --- cells of lists and arrays --------------------------------------------------------------------


def test_cells_of_arrays_of_objects(seen: Callable[..., dict[str, Any]]) -> None:
    expected = seen(as_objects(ROWS))
    assert expected["outcome"] == "done"
    for i, cell in enumerate(CELLS):
        row: list[Any] = [0.5, 0.5, 0.5]
        row[i % 3] = cell
        assert seen(as_objects([*ROWS[:1], row, *ROWS[1:]])) == expected, type(cell)
        assert seen(as_objects([row, *ROWS])) == expected, type(cell)


def test_cells_of_estimators_and_models(tmp_path: Path) -> None:
    def fit(rows: list[list[Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        with recorded(seen):
            model = PrivateCovariance(row_norm_bound=1.0, method="sketch", sketch_size=5).fit(as_objects(rows))
            seen["shape"] = model.covariance_.shape
            read_records((as_objects(rows), [0] * len(rows)), max_records=None)
        return seen

    expected = fit(ROWS)
    assert expected["outcome"] == "done"
    for i, cell in enumerate(CELLS):
        row: list[Any] = [0.5, 0.5, 0.5]
        row[i % 3] = cell
        assert fit([*ROWS, row]) == expected, type(cell)


def as_objects(rows: list[list[Any]]) -> np.ndarray:
    found = np.empty((len(rows), 3), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            found[i, j] = cell
    return found


# --- cells of frames, tables and files ------------------------------------------------------------

FLOATS = [float("nan"), float("inf"), -float("inf"), 1.7976931348623157e308, 5e-324, -0.0, 1e-310, 2.0**1000, None]


def test_cells_of_frames(seen: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow.feather
    import pyarrow.parquet

    def parquet(table: Any) -> Path:
        pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=2)
        return tmp_path / "rows.parquet"

    def arrow(table: Any) -> Path:
        pyarrow.feather.write_feather(table, tmp_path / "rows.arrow", chunksize=2)
        return tmp_path / "rows.arrow"

    forms: list[Callable[[Any], Any]] = [
        lambda t: t,
        lambda t: pl.from_arrow(t),
        lambda t: t.to_pandas(types_mapper={pa.float64(): pd.Float64Dtype()}.get),
        lambda t: t.to_pandas(),
        parquet,
        arrow,
    ]
    for form in forms:
        expected = seen(form(table_of(ROWS)))
        assert expected["outcome"] == "done"
        assert seen(form(table_of([]))) == expected
        for i, cell in enumerate(FLOATS):
            row: list[Any] = [0.5, 0.5, 0.5]
            row[i % 3] = cell
            assert seen(form(table_of([row, *ROWS]))) == expected, cell


def table_of(rows: list[list[Any]]) -> Any:
    return pa.table({name: pa.array([row[i] for row in rows], pa.float64()) for i, name in enumerate("abc")})


@pytest.mark.parametrize("kind", [pa.decimal128(38, 20), pa.int64(), pa.uint64(), pa.float32(), pa.float16()], ids=str)
def test_cells_of_typed_arrow_columns(kind: Any, seen: Callable[..., dict[str, Any]]) -> None:
    large = {"decimal": decimal.Decimal(10**17) + decimal.Decimal("1e-20"), "int64": -(2**63), "uint64": 2**64 - 1}
    cell = next((value for name, value in large.items() if str(kind).startswith(name)), float("inf"))
    expected = seen(pa.table({"a": pa.array([0, 1], kind)}))
    assert expected["outcome"] == "done"
    for value in (None, cell):
        assert seen(pa.table({"a": pa.array([0, value, 1], kind)})) == expected


# --- cells of dask collections --------------------------------------------------------------------


@pytest.mark.parametrize("collection", ["frame", "array"])
def test_cells_of_dask_partitions(collection: str, seen: Callable[..., dict[str, Any]]) -> None:
    pytest.importorskip("dask")
    import dask.array
    import dask.dataframe
    import pandas as pd

    def part(rows: list[list[Any]]) -> Any:
        cells = as_objects(rows)
        return pd.DataFrame(cells, columns=list("abc")) if collection == "frame" else cells

    def data(rows: list[list[Any]]) -> Any:
        clean = np.array(ROWS)
        if collection == "frame":
            declared = pd.DataFrame(clean, columns=list("abc"))
            parts = [dask.delayed(lambda: declared)(), dask.delayed(part, pure=False)(rows)]
            return dask.dataframe.from_delayed(parts, meta=declared[:0], verify_meta=False)
        block = dask.array.from_delayed(dask.delayed(part, pure=False)(rows), (len(rows), 3), dtype=float)
        return dask.array.concatenate([dask.array.from_array(clean, chunks=(2, 3)), block])

    cells = [cell for cell in CELLS if not isinstance(cell, Hostile) or cell.error is not SystemExit]
    with dask.config.set(scheduler="synchronous"):
        expected = seen(data(ROWS))
        assert expected["outcome"] == "done"
        for i, cell in enumerate(cells):
            row: list[Any] = [0.5, 0.5, 0.5]
            row[i % 3] = cell
            assert seen(data([*ROWS, row])) == expected, type(cell)


def test_what_the_tasks_of_others_raise_is_not_passed_on(seen: Callable[..., dict[str, Any]]) -> None:
    pytest.importorskip("dask")
    import dask.array

    def fail(error: type[BaseException]) -> Any:
        logging.getLogger("distributed.worker").error("secret 1234")
        warnings.warn("secret 1234 large graph", stacklevel=1)
        raise error("could not convert string to float: 'secret 1234'")

    found = []
    for error in (ValueError, RuntimeError, SystemExit, ZeroDivisionError):
        block = dask.array.from_delayed(dask.delayed(fail, pure=False)(error), (3, 3), dtype=float)
        with dask.config.set(scheduler="synchronous"):
            found.append(seen(block))
        assert "1234" not in repr(found[-1])
    assert all(each == found[0] for each in found)
    assert "be a collection that dask can compute" in found[0]["outcome"][1]
