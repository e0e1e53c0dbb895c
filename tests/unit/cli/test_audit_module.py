"""`ndis audit` on a module that lies beside the data, raises, or cannot write its report."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from helpers.audit_command import run
from helpers.audits import ROWS

MODULE = """
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "hardmodule.py").write_text(MODULE)
    np.save(tmp_path / "beside" / "rows.npy", ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "beside"
    sys.modules.pop("hardmodule", None)


OPTIONS = ("--epsilon", 1, "--delta", 1e-6)


def test_the_module_may_lie_beside_the_file(folder):
    result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["odd", "gone"])
def test_whatever_the_function_raises_is_no_verdict(folder, name):
    result = run(folder / "rows.npy", "--algorithm", f"hardmodule:{name}", *OPTIONS)
    assert result.exit_code == 2
    assert "42" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_internal_error_is_no_verdict(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret 42")

    monkeypatch.setattr("ndis.auditing.judge.enclose", fail)
    (folder / "pair.json").write_text('{"variance_ratio": 2}')
    result = run(folder / "pair.json", *OPTIONS)
    assert result.exit_code == 70
    assert result.stderr.startswith("ndis: internal error, RuntimeError in ")
    assert "42" not in result.stderr


def test_bad_target_values_and_options_with_pairs(folder):
    request = {"claim": {"epsilon": 1, "delta": 1e-6}, "algorithm": "hardmodule:fine", "data": [[1, 2], [3, 4]]}
    for values in (True, {"a": 1}, "ab"):
        more = {"targets": [1], "row_norm_bound": 1.0, "target_values": values}
        (folder / "bad.json").write_text(json.dumps({**request, **more}))
        result = run(folder / "bad.json")
        assert result.exit_code == 2, result.output
        assert "target_values" in result.stderr
    (folder / "pair.json").write_text('{"variance_ratio": 2}')
    for option in (("--journal", "j"), ("--workers", 2), ("--law-accuracy", 0)):
        result = run(folder / "pair.json", *OPTIONS, *option)
        assert result.exit_code == 2
        assert f"{option[0]} must be left out" in result.stderr


def test_npz_files(folder):
    keys = {"epsilon": 1.0, "delta": 1e-6, "algorithm": "hardmodule:fine", "row_norm_bound": 1.0}
    np.savez(folder / "all.npz", data=ROWS, **keys)
    assert run(folder / "all.npz").exit_code == 0
    whole = (folder / "all.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    result = run(folder / "cut.npz", *OPTIONS)
    assert result.exit_code == 2
    assert "cut short" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_seen_first(folder):
    folder.chmod(0o500)
    try:
        result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS, "--report", folder / "r.html")
    finally:
        folder.chmod(0o700)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_report_name_that_is_too_long_is_seen_first(folder):
    result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS, "--report", "r" * 251 + ".html")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--report" in result.stderr
