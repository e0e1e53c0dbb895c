"""The examples on private sketches run, and give what the documents say of them."""

from __future__ import annotations

import csv
import math
import runpy
import sys

import numpy as np
import pytest

from helpers.places import ROOT

pytest.importorskip("matplotlib")
EXAMPLES = ROOT / "examples"


@pytest.fixture
def example(monkeypatch):
    """Names of an example by the name of its file; its functions see changes to them."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["example"])
    return lambda name: runpy.run_path(str(EXAMPLES / name))


def globals_of(names: dict) -> dict:
    """The names as functions of the example see them."""
    return names["main"].__globals__


def test_paper_figure(example, tmp_path, monkeypatch, capsys):
    names = globals_of(example("paper_figure.py"))
    names["EPSILONS"] = np.array([0.5, 1.0])
    monkeypatch.setattr(sys, "argv", ["example", "--folder", str(tmp_path)])
    names["main"]()
    assert "8 numbers" in capsys.readouterr().out
    with (tmp_path / "paper_figure.csv").open() as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    assert [(row["sketch_size"], row["epsilon"]) for row in rows] == [
        (r, e) for r in (50, 100, 200, 500) for e in (0.5, 1.0)
    ]
    for row in rows:
        log = math.log(4 / row["delta"])
        formula = row["epsilon"] / (4 * (math.sqrt(2 * row["sketch_size"] * log) + log))
        assert row["p_lsv"] == pytest.approx(formula, rel=1e-12)
        assert row["ratio"] == pytest.approx(row["p_ndis"] / row["p_lsv"])
        assert 7 < row["ratio"] < 9
    assert (tmp_path / "paper_figure.png").stat().st_size > 10_000


def test_private_regression(example, tmp_path, capsys):
    names = globals_of(example("private_regression.py"))
    names["EPSILONS"] = (8.0,)
    names["run"](tmp_path, repeats=1)
    said = capsys.readouterr().out
    assert "442 patients" in said
    assert '"private": true' in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["private_coefficients.png", "private_error.png"]


def test_gaussian_noise_of_the_comparison(example):
    """The rival is treated fairly: its noise is the least one for the budget, the same in every direction."""
    names = globals_of(example("when_sketches_help.py"))
    assert names["gaussian_noise_std"](1.0, 1.0) == pytest.approx(4.2247, abs=1e-3)
    draws = np.array([names["noisy_gram"](np.zeros((3, 3)), 2.0, seed)[0] for seed in range(2000)])
    std = names["gaussian_noise_std"](2.0, 1.0)
    assert draws[:, 0, 0].std() == pytest.approx(std, rel=0.1)  # six standard errors
    assert draws[:, 0, 1].std() == pytest.approx(std / math.sqrt(2), rel=0.1)
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
