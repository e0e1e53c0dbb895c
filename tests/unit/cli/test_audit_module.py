"""`ndis audit` on a file that raises, or whose report cannot be written."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from helpers.audit_command import run
from helpers.audits import ROWS

FILE = """
import numpy as np
def fine(d):
    return d.sum(axis=0), np.full(d.shape[1], 200.0)
class Odd:
    def __array__(self, *a, **k):
        raise KeyError("secret 42")
def odd(d):
    return Odd(), np.eye(2)
def gone(d):
    raise GeneratorExit
"""
OPTIONS = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "hard.py").write_text(FILE)
    np.save(tmp_path / "inside" / "rows.npy", ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "inside"


def test_paths_of_options_start_at_the_current_folder(folder):
    result = run("--data", "inside/rows.npy", "--algorithm", "inside/hard.py:fine", *OPTIONS)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["odd", "gone"])
def test_whatever_the_function_raises_is_no_verdict(folder, name):
    result = run("--data", folder / "rows.npy", "--algorithm", f"inside/hard.py:{name}", *OPTIONS)
    assert result.exit_code == 2
    assert "42" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_internal_error_is_no_verdict(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret 42")

    monkeypatch.setattr("ndis.auditing.judge.enclose", fail)
    (folder / "claim.json").write_text('{"pairs": [{"variance_ratio": 2}]}')
    result = run(folder / "claim.json", *OPTIONS)
    assert result.exit_code == 70
    assert result.stderr.startswith("ndis: internal error, RuntimeError in ")
    assert "42" not in result.stderr


def test_bad_target_values_and_options_with_pairs(folder):
    request = {"claim": {"epsilon": 1, "delta": 1e-6}, "algorithm": "hard.py:fine", "data": [[1, 2], [3, 4]]}
    for values in (True, {"a": 1}, "ab"):
        more = {"targets": [1], "row_norm_bound": 1.0, "target_values": values}
        (folder / "bad.json").write_text(json.dumps({**request, **more}))
        result = run(folder / "bad.json")
        assert result.exit_code == 2, result.output
        assert "target_values" in result.stderr
    (folder / "pairs.json").write_text('{"pairs": [{"variance_ratio": 2}]}')
    result = run(folder / "pairs.json", *OPTIONS, "--workers", 2)
    assert result.exit_code == 2
    assert "data and --workers must be left out with pairs" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_seen_first(folder):
    folder.chmod(0o500)
    try:
        options = ("--data", folder / "rows.npy", "--algorithm", "inside/hard.py:fine", *OPTIONS)
        result = run(*options, "--report", folder / "r.html")
    finally:
        folder.chmod(0o700)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_report_name_that_is_too_long_is_seen_first(folder):
    options = ("--data", folder / "rows.npy", "--algorithm", "inside/hard.py:fine", *OPTIONS)
    result = run(*options, "--report", "r" * 251 + ".html")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--report" in result.stderr
