"""Which files a folder means, what a progress bar tells, and files that change or lie about their size."""

from __future__ import annotations

import decimal
import io
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ndis._npy import npy_header
from ndis.cli import app
from ndis.cli.source import npz_arrays
from ndis.errors import ParameterError
from ndis.gram import Gram, exact_gram
from ndis.gram.paths import files_of
from ndis.gram.sources import open_source
from ndis.learn._base import private_rows
from ndis.learn._labels import occurring_classes, private_labels

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, values: list[float]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": values}), path)
    return path


def gram(data: object, **how: object) -> Gram:
    return exact_gram(data, row_norm_bound=1.0, progress=False, **how)


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "rows" / "year=1" / "a.parquet", [0.5])
    write(tmp_path / "rows" / "b.parquet", [0.25])
    return tmp_path / "rows"


@pytest.mark.parametrize("place", [".ipynb_checkpoints", "_temporary/0", "x/.hidden/y", "x/_tmp/y"])
def test_hidden_and_temporary_folders_are_left_out(place: str, folder: Path) -> None:
    expected = gram(folder)
    assert expected.to_float() == pytest.approx(0.3125)
    write(folder / place / "a-checkpoint.parquet", [0.5])
    assert gram(folder) == expected
    hidden = folder / place.split("/")[0]
    if place[0] in "._":  # whoever names such a folder means it
        assert gram(hidden).to_float() == pytest.approx(0.25)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_the_same_file_by_two_names_is_refused(link: object, folder: Path) -> None:
    link(folder / "b.parquet", folder / "c.parquet")  # type: ignore[operator]
    with pytest.raises(ParameterError, match="name every file once"):
        gram(folder)


def test_the_same_file_in_two_sources_is_refused(folder: Path) -> None:
    for data in ([folder, folder / "b.parquet"], [folder, folder], [folder / "b.parquet", folder / "." / "b.parquet"]):
        with pytest.raises(ParameterError, match="name every file once"):
            gram(data)


def test_links_to_folders(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "c.parquet", [0.125])
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    assert gram(folder).to_float() == pytest.approx(0.3125 + 0.125**2)
    (folder / "again").symlink_to(folder / "year=1")
    with pytest.raises(ParameterError, match="reach every folder once"):
        gram(folder)
    (folder / "again").unlink()
    (folder / "loop").symlink_to(folder)
    with pytest.raises(ParameterError, match="reach every folder once"):
        gram(folder)


@pytest.mark.parametrize(
    ("log", "kind"),
    [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg"), (".hoodie/hoodie.properties", "Hudi")],
)
@pytest.mark.parametrize("table", ["", "year=1", "deeper/table"])
def test_tables_with_a_log_are_refused(log: str, kind: str, table: str, folder: Path) -> None:
    path = folder / table / log
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(ParameterError, match=f"belongs to a {kind} table; read one version of it with"):
        gram(folder)
    with pytest.raises(ParameterError, match=f"belongs to a {kind} table"):  # a part of the table is no better
        files_of(write(folder / table / "data" / "part.parquet", [0.5]).parent)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for data in (tmp_path / "pipe.csv", tmp_path / "a\0b.csv"):
        with pytest.raises(ParameterError, match="name an existing file or folder"):
            gram(data, columns="a")
    with pytest.raises(ParameterError, match="hold files named"):
        gram(tmp_path, columns="a")


# --- progress -------------------------------------------------------------------------------------


def test_the_bar_is_the_same_whatever_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shown = set()
    for rows in (0, 1, 5, 100_000):
        table = pa.table({"a": np.zeros(rows)})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=max(rows // 7, 1))
        feather.write_feather(table, tmp_path / "a.arrow", chunksize=max(rows // 3, 1))
        (tmp_path / "a.csv").write_text("0\n" * rows)
        np.save(tmp_path / "a.npy", np.zeros((rows, 1)))
        for ending in ("parquet", "arrow", "csv", "npy"):
            how = {"columns": "a"} if ending == "csv" else {}
            exact_gram(tmp_path / f"a.{ending}", row_norm_bound=1.0, progress=True, **how)
            shown.add(capfd.readouterr().err)
    (only,) = shown
    assert only.count("\r") == 20
    assert only.endswith("100 %\n")


# --- files that change, or are not what they say ----------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "npy"])
@pytest.mark.parametrize("change", ["grows", "shrinks", "is replaced"])
def test_a_file_that_changes_while_it_is_read_is_refused(ending: str, change: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(400_000, 1))
    path = tmp_path / f"rows.{ending}"
    table = pa.table({"a": rows[:, 0]})
    if ending == "parquet":
        pq.write_table(table, path, row_group_size=10_000)
    elif ending == "arrow":
        feather.write_feather(table, path, chunksize=10_000, compression="uncompressed")
    elif ending == "npy":
        np.save(path, rows)
    else:
        path.write_text("\n".join(map(repr, rows[:, 0].tolist())))
    source = open_source(path, columns="a" if ending == "csv" else None, progress=False)
    blocks = source.read(((0,),))
    next(blocks)
    if change == "grows":
        with path.open("ab") as file:
            file.write(b"\n1.0\n")
    elif change == "shrinks":
        os.truncate(path, 4096)  # a mapped file would end the process here
    else:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    with pytest.raises(ParameterError, match=r"stay as it is while it is read|be a readable file|cut short"):
        list(blocks)


def test_npy_files_are_read_by_slices_in_either_order(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    expected = exact_gram(rows[:, [2, 0]], row_norm_bound=1.0)
    for i, array in enumerate((rows, np.asfortranarray(rows), rows.astype(">f8"))):
        np.save(tmp_path / f"{i}.npy", array)
        found = gram(tmp_path / f"{i}.npy", columns=[2, 0])
        assert np.array_equal(found.integers, expected.integers)
    content = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-8])
    with pytest.raises(ParameterError, match="cut short"):
        gram(tmp_path / "cut.npy")


def bomb(shape: tuple[int, ...], *, version: bytes = b"\x01\x00") -> bytes:
    """An archive whose header promises far more than it holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cov_p.npy", b"\x93NUMPY" + version + length + header + b"\0" * 64)
    return made.getvalue()


@pytest.mark.parametrize("shape", [(2**40,), (2**20, 2**20), (2**62, 2**62), (-1, 5)])
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00"])
def test_archives_are_refused_by_their_headers(
    shape: tuple[int, ...], version: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("unpacked"))
    with pytest.raises(ParameterError, match=r"arrays of at most 1024 MiB|plain numeric arrays"):
        npz_arrays(bomb(shape, version=version))


def test_a_member_that_unpacks_to_more_than_its_header_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("unpacked"))
    monkeypatch.setattr("ndis.cli.source._MOST_BYTES", 1 << 20)
    made, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mean_p.npy", array.getvalue() + b"\0" * (4 << 20))
    with pytest.raises(ParameterError, match="arrays of at most 1 MiB"):
        npz_arrays(made.getvalue())
    with pytest.raises(ValueError, match="array header"):
        npy_header(io.BytesIO(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100))


# --- decimals, messages, labels ---------------------------------------------------------------------


def test_decimals_have_one_value_in_every_source(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    random.seed(0)
    digits = [(random.randint(-(10**37), 10**37), random.choice([0, 5, 20, 37])) for _ in range(400)]
    for scale in (0, 5, 20, 37):
        exact = [decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=60)) for n, s in digits if s == scale]
        column = pa.array(exact, pa.decimal128(38, scale))
        table = pa.table({"a": column})
        pq.write_table(table, tmp_path / "a.parquet")
        (tmp_path / "a.csv").write_text("\n".join(map(str, exact)))
        floats = [float(x) for x in exact]
        for data in (table, pl.from_arrow(table), tmp_path / "a.parquet"):
            (blocks,) = zip(*open_source(data, progress=False).read(((0,),)), strict=True)
            assert np.concatenate(blocks)[:, 0].tolist() == floats
        found = gram(tmp_path / "a.csv", columns="a")
        assert np.array_equal(found.integers, gram(table).integers)


def test_types_of_text_do_not_tell_the_longest_cell() -> None:
    for words in (["a"], ["a", "secret 1234567"]):
        text = np.array([[w] for w in words])
        for array in (text, text.astype("S"), text.astype([("x", text.dtype)])):
            with pytest.raises(ParameterError) as caught:
                exact_gram(array, row_norm_bound=1.0)
            assert not any(digit in str(caught.value).replace("64 bits", "") for digit in "0123456789")
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x", "secret"])})
    with pytest.raises(ParameterError, match="got dtype Enum") as caught:
        exact_gram(frame, row_norm_bound=1.0)
    assert "secret" not in str(caught.value)


def test_names_with_control_characters_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a\x1b[31m": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a\x1b[31m\n1\n")
    options = ["--epsilon", "1", "--delta", "1e-6", "--sketch-size", "5", "--row-norm-bound", "1"]
    for name, more in (("a.parquet", []), ("a.csv", ["--header"])):
        found = CliRunner().invoke(app, ["sketch", str(tmp_path / name), *options, *more, "-o", str(tmp_path / "out")])
        assert found.exit_code == 2
        assert "printable" in found.stderr
        assert "\x1b" not in found.output


def test_an_empty_list_says_how_to_show_its_columns() -> None:
    from sklearn.base import BaseEstimator

    with pytest.raises(ParameterError, match=r"X must show its columns; .*np.empty\(\(0, columns\)\)"):
        private_rows(BaseEstimator(), [])
    assert private_rows(BaseEstimator(), np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("labels", [[1, 0.0, True], [True, 0, 1.0], [1.0, False, 1], [False, True], [0, 1]])
def test_the_type_of_classes_does_not_follow_the_first_label(labels: list[object]) -> None:
    for order in (labels, labels[::-1]):
        found = occurring_classes(private_labels(None, order))
        assert (found.dtype, found.tolist()) == (np.dtype(np.int64), [0, 1])
    assert occurring_classes(np.array([True, False])).dtype == np.bool_
    assert occurring_classes(np.array([1.0, 0.0])).dtype == np.float64
