"""`ndis audit` runs the module that the user names, and nothing else that lies beside it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import ndis
from ndis.cli import app
from ndis.cli.algorithm import NamedAlgorithm

SOURCE = str(Path(ndis.__file__).parents[1])
TRAP = "open({mark!r}, 'w').close()\nraise SystemExit(9)\n"
LAW = """
import statistics, html, random, helper_beside_it
def law(data):
    from late_beside_it import scale
    assert statistics.mean([1, 3]) == 2 and html.escape("<") == "&lt;"
    return helper_beside_it.total(data), [scale]
"""
CLAIM = {"claim": {"epsilon": 9.0, "delta": 0.5}, "data": [[0.1], [0.2]]}
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
    (tmp_path / "audit.json").write_text(json.dumps(CLAIM | {"algorithm": "law_beside_it:law"}))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if "beside_it" in name or name.startswith("audited_"):
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


@pytest.mark.parametrize("where", ["beside the file", "current folder"])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_standard_library_is_not_shadowed(folder, tmp_path_factory, where, workers):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    file = folder / "audit.json"
    if where == "current folder":
        file = Path(file.rename(elsewhere / "audit.json"))
    report = elsewhere / "report.html"
    here = folder if where == "current folder" else elsewhere
    done = command("audit", file, "--report", report, "--workers", workers, cwd=here)
    assert not (folder / "trapped").exists()
    assert (done.returncode, done.stderr) == (0, "")
    assert "not refuted" in done.stdout
    assert report.exists()


def test_the_search_order_of_everything_else_stays(folder):
    before = list(sys.path), list(sys.meta_path)
    result = CliRunner().invoke(app, ["audit", str(folder / "audit.json")])
    assert result.exit_code == 0, result.output
    assert sys.path == before[0]
    assert sys.meta_path[: len(before[1])] == before[1]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nobody_asked")  # it lies beside, but this is not the user's module
    namespace = {"__name__": "third_party"}
    with pytest.raises(ModuleNotFoundError):
        exec("import nobody_asked", namespace)
    assert not (folder / "trapped").exists()


def test_a_module_may_have_a_name_that_is_taken(folder):
    """The user named this one; all others still get the one they know."""
    import statistics

    (folder / "statistics.py").write_text("def law(data):\n    return data.sum(axis=0), [900.0]\n")
    named = NamedAlgorithm("statistics:law", (str(folder),))
    assert named.func.__module__ == "audited_statistics"
    assert named.func is NamedAlgorithm("statistics:law", (str(folder),)).func  # loaded once
    assert sys.modules["statistics"] is statistics
    assert importlib.import_module("statistics").mean([1, 3]) == 2


def test_a_module_of_another_folder_under_the_same_name(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "law_beside_it.py").write_text("def law(data):\n    return None\n")
    first = NamedAlgorithm("law_beside_it:law", (str(folder),)).func
    second = NamedAlgorithm("law_beside_it:law", (str(other),)).func
    assert (first.__code__.co_filename, second.__code__.co_filename) == (
        str(folder / "law_beside_it.py"),
        str(other / "law_beside_it.py"),
    )


@pytest.mark.parametrize("package", ["kit_beside_it", "wsgiref"])  # the second is the name of a standard package
@pytest.mark.parametrize("plain", [False, True])
def test_packages(folder, package, plain):
    inside = folder / package
    inside.mkdir()
    if not plain:
        (inside / "__init__.py").write_text("")
    (inside / "deep.py").write_text("from . import more\nimport late_beside_it\nlaw = more.law\n")
    (inside / "more.py").write_text("def law(data):\n    return 3\n")
    assert NamedAlgorithm(f"{package}.deep:law", (str(folder),)).func(None) == 3


def test_installed_modules_are_found_and_half_loaded_ones_are_not_kept(folder):
    assert NamedAlgorithm("statistics:mean", (str(folder / "none"),)).func([1.0, 3.0]) == 2.0
    (folder / "half_beside_it.py").write_text("1 / 0\n")
    with pytest.raises(ndis.ParameterError, match="ZeroDivisionError in half_beside_it"):
        NamedAlgorithm("half_beside_it:law", (str(folder),)).func  # noqa: B018
    (folder / "half_beside_it.py").write_text("def law(data): return 1\n")
    assert NamedAlgorithm("half_beside_it:law", (str(folder),)).func(None) == 1


def test_the_help_says_that_the_file_is_trusted():
    shown = " ".join(CliRunner().invoke(app, ["audit", "--help"], env={"COLUMNS": "300"}).stdout.split())
    assert "FILE is trusted as a program is" in shown
