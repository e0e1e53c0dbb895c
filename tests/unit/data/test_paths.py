"""Which files a folder means, and which names are no files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ndis.data.paths import files_of
from ndis.errors import ParameterError
from ndis.gram import Gram, exact_gram

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


# --- decimals, messages, labels ---------------------------------------------------------------------


def test_a_folder_named_like_a_file_is_passed_over(tmp_path):
    (tmp_path / "a.csv").write_text("a\n0.5\n")
    (tmp_path / "b.csv").mkdir()
    assert exact_gram(tmp_path, row_norm_bound=1.0, header=True).to_float() == pytest.approx(0.25)
