"""Outputs: whole or not at all, to regular files only, for the user's eyes, checked before any work is done."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import ndis
from ndis import _files as files
from ndis._files import check_file, check_new_folder, write_file, write_folder
from ndis.cli import app
from ndis.cli.options import Output
from ndis.errors import ParameterError

SOURCE = str(Path(ndis.__file__).parents[1])
PAIRS = {"claim": {"epsilon": 9.0, "delta": 0.5}, "pairs": [{"variance_ratio": 1.001}]}
PUBLIC = ("--epsilon", "1", "--delta", "1e-6", "--row-norm-bound", "1")

WRITERS = [lambda p: write_file(p, b"1"), lambda p: write_folder(p, {"a": b"1"}), check_file, check_new_folder]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "pairs.json").write_text(json.dumps(PAIRS))
    np.save("rows.npy", np.full((4, 1), 0.5))
    np.save("xy.npy", np.full((4, 2), 0.5))
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


# Every command and option that names an output, with a file name that it would take.
OUTPUTS = {
    "curve": ("c.svg", lambda p: ["curve", "--ratio", "2", "--points", "3", "-o", p]),
    "report": ("r.html", lambda p: ["audit", "pairs.json", "--report", p]),
    "json report": ("r.json", lambda p: ["audit", "pairs.json", "-o", p]),
    "regress": ("f.json", lambda p: ["regress", "xy.npy", "--target", "1", *PUBLIC, "--target-bound", "1", "-o", p]),
}  # fmt: skip
each_output = pytest.mark.parametrize("kind", OUTPUTS)


def run(kind: str, path: object):
    return CliRunner().invoke(app, OUTPUTS[kind][1](str(path)), prog_name="ndis")


def refused(result) -> str:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("ndis: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def no_data(monkeypatch):
    """Whoever reads data, or makes a profile, fails."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("data were read before the output was checked")

    for name in ("audit.read_object", "release.table_options", "fits.table_options", "spectrum._profile"):
        monkeypatch.setattr(f"ndis.cli.{name}", read)


@each_output
@pytest.mark.parametrize("target", ["fifo", "device", "folder", "nowhere", "dangling", "read-only", "long", "under"])
def test_what_cannot_be_an_output_is_said_before_data_are_read(here, no_data, kind, target):
    path = here / f"out{Path(OUTPUTS[kind][0]).suffix}"
    if target == "fifo":
        os.mkfifo(path)
    elif target == "device":
        path.symlink_to("/dev/null")
    elif target == "folder":
        path.mkdir()
    elif target == "nowhere":
        path = here / "no" / path.name
    elif target == "dangling":
        path.symlink_to(here / "nothing")
    elif target == "read-only":
        path.write_bytes(b"kept")
        path.chmod(0o444)
    elif target == "under":
        (here / "file").write_text("")
        path = here / "file" / path.name
    else:
        path = here / ("x" * 260 + path.suffix)
    before = sorted((p.name, p.lstat().st_mode) for p in here.iterdir())
    refused(run(kind, path))
    assert sorted((p.name, p.lstat().st_mode) for p in here.iterdir()) == before


def writing(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that writes files."""
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from writing(one, (*words, name))
        elif any(isinstance(param, Output) for param in one.params):
            yield (*words, name)


@pytest.mark.parametrize("words", list(writing(app)), ids=" ".join)
def test_the_ending_of_an_output_is_checked_before_anything_else(here, words):
    """So nothing is read, and no budget is spent on a page that would hold JSON."""
    result = CliRunner().invoke(app, [*words, "-o", "x.wrong"], prog_name="ndis")
    said = "Missing argument" if words == ("ledger", "anchor") else "-o must end in "  # an anchor may have any name
    assert said in refused(result)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logistic", "no.csv"), "Missing option '--schema'"),
        (("regress", "no.csv", *PUBLIC, "--target", "y", "--method", "sketch"), "-o must end in .json; got '.html'"),
    ],
)
def test_a_page_is_refused_where_there_is_none(here, no_data, words, said):
    assert said in refused(CliRunner().invoke(app, [*words, "-o", "fit.html"], prog_name="ndis"))


@each_output
def test_a_new_output_is_for_its_user_and_an_old_one_keeps_its_mode(here, kind):
    name = OUTPUTS[kind][0]
    assert run(kind, name).exit_code == 0
    assert mode(here / name) == 0o600
    (here / name).chmod(0o640)
    assert run(kind, name).exit_code == (2 if kind == "regress" else 0)  # a release is never overwritten
    assert mode(here / name) == 0o640
    assert not list(here.glob("*.part"))


@each_output
def test_a_link_to_a_regular_file_is_followed(here, kind):
    if kind == "regress":
        pytest.skip("a release is written to a new file only")
    name = OUTPUTS[kind][0]
    (here / "there").mkdir()
    real = here / "there" / name
    assert run(kind, real).exit_code == 0
    old = real.stat().st_ino, real.read_bytes()
    (here / name).symlink_to(real)
    assert run(kind, name).exit_code == 0
    assert (here / name).is_symlink()
    assert real.stat().st_ino != old[0]


@pytest.mark.parametrize("target", ["dangling", "exists", "file", "nowhere", "long"])
def test_a_sketch_needs_a_new_folder_before_data_are_read(here, no_data, target):
    path = here / ("out" if target != "long" else "x" * 260)
    if target == "dangling":
        path.symlink_to(here / "nothing")
    elif target == "exists":
        path.mkdir()
    elif target == "file":
        path.write_text("")
    elif target == "nowhere":
        path = here / "no" / "out"
    refused(CliRunner().invoke(app, ["sketch", "rows.npy", *PUBLIC, "--sketch-size", "5", "-o", str(path)]))
    assert not list(here.glob("*.part"))


def test_a_sketch_is_for_its_user(here):
    done = CliRunner().invoke(app, ["sketch", "rows.npy", *PUBLIC, "--sketch-size", "5", "-o", "out"])
    assert done.exit_code == 0, done.output
    assert [mode(here / "out" / name) for name in (".", "sketch.npz", "receipt.json")] == [0o700, 0o600, 0o600]


@pytest.mark.parametrize("length", [200, 245, 250, 255])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_names_up_to_the_longest_of_the_system(tmp_path, length, letter):
    name = letter * (length // len(letter.encode()))
    check_file(tmp_path / name)
    write_file(tmp_path / name, b"1")
    assert (tmp_path / name).read_bytes() == b"1"
    (tmp_path / name).unlink()
    release = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
    check_new_folder(tmp_path / name)
    release.release(np.eye(2)).save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_an_error_is_told_even_if_the_clean_up_fails_too(tmp_path, monkeypatch):
    """A read-only file system refuses to remove even what is not there."""

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "unlink", read_only)
    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(ParameterError, match=r"output must be a file that can be written; got .*Read-only file system"):
        write_file(tmp_path / "a", b"1")


def test_null_characters():
    for use in WRITERS:
        with pytest.raises(ParameterError, match="null characters"):
            use("a\0b")


# --- parts that a killed process leaves behind -----------------------------------------------------

KILLED = """
import os, signal, sys
import ndis._files as files

def fsync(descriptor):
    os.write(descriptor, b"private")
    print("written", flush=True)
    {what}

os.fsync = fsync
files.write_{kind}(sys.argv[1], {content})
"""


def start(kind: str, target: Path, what: str) -> subprocess.Popen[str]:
    content = 'b"whole"' if kind == "file" else '{"a": b"whole", "b": b"whole"}'
    code = textwrap.dedent(KILLED).format(kind=kind, content=content, what=what)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(target)],
        env=os.environ | {"PYTHONPATH": SOURCE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_process_leaves_no_half_of_the_target(tmp_path, kind):
    killed = start(kind, tmp_path / "first", "os.kill(os.getpid(), signal.SIGKILL)")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".ndis.part")
    assert mode(left) == 0o700
    write_file(tmp_path / "second", b"1")
    assert (tmp_path / "second").read_bytes() == b"1"


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_of_two_writers_of_a_new_file_one_is_refused(tmp_path, monkeypatch, new, links):
    """The second file comes between the last look at the name and the moment at which it is taken."""
    target, known = tmp_path / "x", files._fill

    def overtaken(draft: Path, content: bytes) -> None:
        known(draft, content)
        monkeypatch.setattr(files, "_fill", known)
        write_file(target, b"first", new=True)

    monkeypatch.setattr(files, "_fill", overtaken)
    if not links:  # as on file systems on which a file has one name
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "not permitted")))
    if new:
        with pytest.raises(ParameterError, match=r"output must be a new file; got .*, which exists"):
            write_file(target, b"second", new=True)
    else:
        write_file(target, b"second")  # it replaces a file that is there
    assert target.read_bytes() == (b"first" if new else b"second")
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_new_file_is_whole_where_files_have_one_name(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "not permitted")))
    write_file(tmp_path / "x", b"whole", new=True)
    assert [(one.name, one.read_bytes(), mode(one)) for one in tmp_path.iterdir()] == [("x", b"whole", 0o600)]


@pytest.mark.parametrize("link", [False, True])
def test_no_writer_replaces_a_ledger(tmp_path, link):
    held = tmp_path / "budget.json"
    held.write_bytes(b"SQLite format 3\0rest")  # as every ledger starts
    target = tmp_path / "link.json" if link else held
    if link:
        target.symlink_to(held)
    with pytest.raises(ParameterError, match="a database, as ledgers are"):
        write_file(target, b"{}")
    assert held.read_bytes().startswith(b"SQLite")
