"""The gallery: every false claim is refuted, every repaired version is not, and docs/gallery.md quotes what the scripts
compute.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "audits"
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
HELPERS = {"gallery", "run_all"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)


def script(name):
    """A script of the gallery as a module."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


@functools.cache
def exhibit(name):
    return script(name).exhibit()


def section(name):
    """The part of the page that speaks of a script."""
    (found,) = [part for part in PAGE.split("\n## ")[1:] if f"examples/audits/{name}.py" in part]
    return found


def shift_delta(distance, epsilon):
    """δ of two Gaussians with one covariance, as printed in textbooks."""
    return ndtr(distance / 2 - epsilon / distance) - math.exp(epsilon) * ndtr(-distance / 2 - epsilon / distance)


@pytest.mark.parametrize("name", NAMES)
def test_false_refuted_repaired_not(name):
    false, repaired = exhibit(name).false, exhibit(name).repaired
    assert false.claim == repaired.claim
    assert false.refuted
    assert false.witness.recheck().lower > false.claim.delta
    assert false.epsilon_refuted > false.claim.epsilon
    assert not repaired.refuted
    assert not repaired.undecided
    assert repaired.witness.recheck().upper <= repaired.claim.delta


def test_every_script_is_run_by_run_all():
    assert sorted(script("run_all").EXHIBITS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_table_quotes_the_reports(name):
    cells = script("run_all").row(exhibit(name))
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| [{cells[0]}](")]
    assert [cell.strip() for cell in line.strip("|").split("|")][1:] == list(cells[1:])


@pytest.mark.parametrize("name", NAMES)
def test_the_page_quotes_the_figures(name):
    """Each figure stands in its section, and no number of four digits or more stands there that is not one of them."""
    text, found = section(name), exhibit(name)
    figures = [value for value in found.figures.values() if re.fullmatch(r"[-+.e\d]+", value)]
    assert [value for value in figures if value not in text] == []
    known = {*figures, *script("run_all").row(found)[3:5]}
    numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]\d+)?", re.sub(r"`[^`]*`|\([^)]*\.py\)", "", text))
    long = [number for number in numbers if len(number.split("e")[0].replace(".", "").lstrip("0")) >= 4]
    assert [number for number in long if number not in known] == []


@pytest.mark.parametrize("name", NAMES)
def test_two_pages_are_written(name, tmp_path, capsys):
    script("gallery").show(exhibit(name), tmp_path)
    printed = capsys.readouterr().out
    assert "false: refuted" in printed
    repaired = exhibit(name).repaired
    assert f"repaired: {'proved by thm:' if repaired.proved else 'not refuted by'}" in printed
    assert repaired.proved != ("not a proof of privacy" in printed)
    for version in ("false", "repaired"):
        page = (tmp_path / f"{exhibit(name).name}-{version}.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")


def test_as_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["short_ridge.py"])
    monkeypatch.syspath_prepend(FOLDER)
    runpy.run_path(str(FOLDER / "short_ridge.py"), run_name="__main__")
    assert "refuted up to ε = 1.12034" in capsys.readouterr().out
    pages = [f"short-ridge-{version}.html" for version in ("false", "repaired")]
    assert sorted(page.name for page in (tmp_path / "out" / "audits").iterdir()) == pages


def test_mean_shifts_by_the_textbook_formula():
    """prop:ndis-mean-analytic-form — three exhibits whose witness is a shift."""
    noise = script("inverse_mu").ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0).noise_std
    assert exhibit("inverse_mu").false.delta_possible == pytest.approx(shift_delta(noise, 1.0), rel=1e-9)
    assert exhibit("ptr_budget").false.delta_possible == pytest.approx(shift_delta(1.0, 1.0), rel=1e-9)
    entry = float(exhibit("wrong_norm").figures["noise for one entry"])
    assert exhibit("wrong_norm").false.delta_possible == pytest.approx(shift_delta(3.0 / entry, 1.0), rel=1e-5)


def test_the_wrapper_by_quadrature():
    """alg::ndis wrapper — ∫(p − e^ε q)₊ of the two laws, from the formulas of a posterior with one record."""
    v = float(exhibit("printed_wrapper").figures["noise variance as printed"])
    z = np.linspace(-20.0, 20.0, 2_000_001)

    def density(mean, variance):
        return np.exp(-((z - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    gap = density(0.0, 1.0 + v) - math.e * density(0.001 / 1.01, 1.0 - 1.0 / 1.01 + v)
    delta = np.maximum(gap, 0.0).sum() * (z[1] - z[0])
    assert exhibit("printed_wrapper").false.delta_possible == pytest.approx(delta, rel=1e-4)


def test_sensitivities_of_sufficient_statistics():
    """The norms in the table are the largest: over all corners of the box and many points of the ball."""
    module, figures = script("wrong_norm"), exhibit("wrong_norm").figures
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=module.COLUMNS)))
    units = np.random.default_rng(1).normal(size=(500, module.COLUMNS))
    units = np.vstack([units / np.linalg.norm(units, axis=1, keepdims=True), np.eye(module.COLUMNS)])
    for full, matrix in ((False, "triangle"), (True, "full matrix")):
        box = max(module.change(row, 1.0, full=full) for row in corners)
        ball = max(module.change(row, 1.0, full=full) for row in units)
        assert f"{box:.6g}" == figures[f"change, |x_i| ≤ 1, {matrix}"]
        assert f"{ball:.6g}" == figures[f"change, ‖x‖ ≤ 1, {matrix}"]
    d = module.COLUMNS
    assert module.change(np.ones(d), 1.0) == math.sqrt(d * (d + 3) / 2)
    row, target = np.array([0.3, -0.5, 0.2]), 0.7
    moved = module.statistics((row[None], np.array([target])))
    assert module.change(row, target) == pytest.approx(np.linalg.norm(moved), rel=1e-12)
    assert module.change(row, target) ** 2 == pytest.approx(
        0.5 * ((row @ row) ** 2 + (row**4).sum()) + target**2 * (row @ row), rel=1e-12
    )


def test_the_posterior_draw_is_what_is_audited():
    """sample_y draws from the law that is audited; the coefficients with public precisions are a Gaussian process."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    module = script("sklearn_gaussian_process")
    fitted = GaussianProcessRegressor(RBF(1.0), alpha=module.LABEL_NOISE, optimizer=None).fit(*module.load())
    mean, covariance = fitted.predict(module.QUERY, return_cov=True)
    drawn = fitted.sample_y(module.QUERY, n_samples=1, random_state=3)[:, 0]
    assert np.array_equal(drawn, np.random.RandomState(3).multivariate_normal(mean, covariance, 1)[0])


def test_the_test_beyond_the_budget_is_refused():
    """alg:ptr-rp — the joint account has no room for a test that costs more than ε."""
    assert exhibit("ptr_budget").figures["PTRProjection with the same test"].startswith("refused: the test alone")


def test_digits_tell_a_value_from_the_claim():
    quoted = script("gallery").quoted
    assert (quoted(0.1234567, 1e-6), quoted(1.0000001132e-6, 1e-6)) == ("0.123457", "1.00000011e-06")
    assert quoted(1e-6, 1e-6) == "1e-06"


def test_noise_that_survives_the_removals_is_no_proof():
    figures = exhibit("sklearn_gaussian_process").figures
    assert float(figures["δ there with one person more"]) > 1e-5


def test_a_linear_kernel_gives_the_coefficients():
    """The posterior of the coefficients with public precisions is that of the lifted model."""
    module = script("sklearn_bayesian_ridge")
    rows, targets = module.load()
    rows, targets = rows[:20], targets[:20]
    model = module.public_model(20)
    mean, covariance = (array.to_float() for array in model.distribution((rows, targets)))
    expected = module.public_posterior((rows, targets))
    np.testing.assert_allclose(mean, expected[0], rtol=1e-6)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-6, atol=1e-6)
