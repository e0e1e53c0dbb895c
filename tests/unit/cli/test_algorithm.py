"""`ndis audit` runs the file that the user names, and nothing else that lies in its folder."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ndis
from helpers.cases import crossed
from helpers.command import run
from ndis.cli.audit import NamedAlgorithm, load
from ndis.errors import ParameterError

SOURCE = str(Path(ndis.__file__).parents[1])
TRAP = "open({mark!r}, 'w').close()\nraise SystemExit(9)\n"
LAW = """
import statistics, html, random, helper_beside_it
def law(data):
    from late_beside_it import scale
    assert statistics.mean([1, 3]) == 2 and html.escape("<") == "&lt;"
    return helper_beside_it.total(data), [scale]
"""
CLAIM = {"claim": {"epsilon": 9.0, "delta": 0.5}, "data": [[0.1], [0.2]], "algorithm": "law_beside_it.py:law"}
# Modules of the standard library that this package, or what it imports, comes to need while an audit runs.
SHADOWS = ("statistics", "html", "random", "json", "cProfile", "wave", "colorsys", "fractions", "string", "zipfile")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(TRAP.format(mark=str(tmp_path / "trapped")))
    (tmp_path / "law_beside_it.py").write_text(LAW)
    (tmp_path / "helper_beside_it.py").write_text("import second_beside_it\ntotal = second_beside_it.total\n")
    (tmp_path / "second_beside_it.py").write_text("def total(data):\n    return data.sum(axis=0)\n")
    (tmp_path / "late_beside_it.py").write_text("scale = 900.0\n")
    (tmp_path / "nobody_asked.py").write_text("")
    (tmp_path / "claim.json").write_text(json.dumps(CLAIM))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if "beside_it" in name:
            del sys.modules[name]


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-m", "ndis", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": SOURCE},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("where", "workers"),
    crossed(["next to the file", "current folder"], [1, 2], keep=[("next to the file", 2), ("current folder", 1)]),
)
def test_the_standard_library_is_not_shadowed(folder, tmp_path_factory, where, workers):
    here = folder if where == "current folder" else tmp_path_factory.mktemp("elsewhere")
    report = here / "report.html"
    done = command("audit", folder / "claim.json", "--report", report, "--workers", workers, "--seconds", 0, cwd=here)
    assert not (folder / "trapped").exists()
    assert (done.returncode, done.stderr) == (0, "")
    assert "not refuted" in done.stdout
    assert report.exists()


def test_the_search_order_of_everything_else_stays(folder):
    before = list(sys.path), list(sys.meta_path)
    result = run("audit", folder / "claim.json")
    assert result.exit_code == 0, result.output
    assert (sys.path, sys.meta_path) == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nobody_asked")
    assert not (folder / "trapped").exists()


def test_a_file_may_have_the_name_of_a_module(folder):
    import statistics

    (folder / "statistics.py").write_text("def law(data):\n    return data.sum(axis=0), [900.0]\n")
    named = NamedAlgorithm("statistics.py:law", folder)
    assert named.func is NamedAlgorithm("statistics.py:law", folder).func  # loaded once
    assert sys.modules["statistics"] is statistics


def test_files_of_one_name_in_two_folders(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "law_beside_it.py").write_text("def law(data):\n    return None\n")
    first, second = (load("algorithm", "law_beside_it.py:law", place) for place in (folder, other))
    assert (first.__code__.co_filename, second.__code__.co_filename) == (
        str(folder / "law_beside_it.py"),
        str(other / "law_beside_it.py"),
    )


def test_a_file_that_failed_is_run_again(folder):
    (folder / "half_beside_it.py").write_text("1 / 0\n")
    with pytest.raises(ParameterError, match="ZeroDivisionError in half_beside_it"):
        load("algorithm", "half_beside_it.py:law", folder)
    (folder / "half_beside_it.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Law:\n    x: int\ndef law(data): return Law(1).x\n"
    )
    assert load("algorithm", "half_beside_it.py:law", folder)(None) == 1


def test_the_help_says_that_the_file_is_trusted():
    shown = " ".join(run("audit", "--help").stdout.split())
    assert "FILE is trusted as a program is" in shown
