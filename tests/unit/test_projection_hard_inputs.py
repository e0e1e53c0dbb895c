"""Inputs on which sketches, their files and their estimators once leaked, broke or spoke unclearly."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import math
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import norm
from sklearn.base import BaseEstimator

import ndis
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.gram import exact_gram
from ndis.learn import PrivateCovariance, PrivateRidge
from ndis.learn._base import private_rows, private_targets
from ndis.mechanisms.release import ProjectionRelease

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 20, "row_norm_bound": 1.0}
PLAIN = ndis.RandomProjection.calibrated(**PUBLIC)
TESTED = ndis.PTRProjection.calibrated(**PUBLIC | {"delta": 1e-3}, test_noise_std=6.0)


# --- what the test of the least eigenvalue gives out ----------------------------------------------


def test_the_noisy_eigenvalue_is_given_out_and_sets_the_ridge(tmp_path):
    for records in (1, 60, 1000):
        release = TESTED.release(np.ones((records, 1)))
        noisy = release.receipt.parameters["noisy_eigenvalue"]
        assert abs(noisy - records) < 8 * TESTED.test_noise_std  # false alarm: 1e-15
        assert release.ridge == TESTED._ridge_after(noisy) == release.receipt.parameters["released_ridge"]
        release.save(tmp_path / str(records))
        again = ProjectionRelease.load(tmp_path / str(records))
        assert (again.receipt, again.ridge) == (release.receipt, release.ridge)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_what_is_attained_is_attained(order):
    """The law of (λ̃, sketch) on no rows and one row, one column: between what `attained` and `profile` say."""
    std, epsilon = TESTED.test_noise_std, 1.0
    centre, other = (1.0, 0.0) if order == "remove" else (0.0, 1.0)

    def integrand(y: float) -> float:
        pair = ndis.GaussianPair.from_ratios(1.0 + 1.0 / TESTED._ridge_after(y), copies=TESTED.sketch_size)
        loss = ((y - other) ** 2 - (y - centre) ** 2) / (2 * std**2)
        given = pair if order == "remove" else pair.reversed()
        return float(norm.pdf(y, centre, std)) * given.delta(epsilon - loss)

    cut = 1.0 + std * float(ndtri(1 - TESTED.failure_probability))  # above it the ridge falls
    parts = [quad(integrand, a, b, epsrel=1e-7)[0] for a, b in ((centre - 9 * std, cut), (cut, centre + 9 * std))]
    (moved,) = [found for found in TESTED.attained() if "one column" in found.neighbours]
    assert moved.profile.delta(epsilon, order=order) * (1 - 1e-5) <= sum(parts) <= TESTED.profile().delta(epsilon)


def test_extremes_are_refused_by_what_was_given():
    for bound in (1e-120, 1e120):
        with pytest.raises(ParameterError, match="row_norm_bound must leave the noise of the test"):
            ndis.PTRProjection.calibrated(**PUBLIC | {"row_norm_bound": bound})
    with pytest.raises(ParameterError, match="test_noise_std must be comparable"):
        ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=1e100)


def test_the_picture_spans_the_profile_without_its_failure_probability():
    from ndis.plotting import epsilon_grid

    assert epsilon_grid(TESTED.profile())[-1] > TESTED.profile().epsilon(TESTED.delta)


# --- one cell, one record -------------------------------------------------------------------------


def test_no_cell_changes_how_another_is_read():
    rows = [[np.timedelta64(1, "s"), 1.0], ["0.5", 0.25], [b"0.5", 0.0]]
    alone = exact_gram(private_rows(BaseEstimator(), rows), row_norm_bound=2.0)
    for cell in ("x", None, 10**400, "1_0", np.datetime64("2020")):
        beside = exact_gram(private_rows(BaseEstimator(), [*rows, [0.0, cell]]), row_norm_bound=2.0)
        assert np.array_equal(alone.integers, beside.integers)
        PLAIN.release([*rows, [0.0, cell]])


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1, 2], 3]])
def test_shapes_alone_are_refused(data):
    with pytest.raises(ParameterError, match="data must be rows with equally many cells"):
        PLAIN.release(data)
    with pytest.raises(ParameterError, match="y must be rows with equally many cells"):
        private_targets(None, data)


def test_a_scalar_among_targets_in_brackets_is_refused():
    assert private_targets(None, [[1.0]] * 3).shape == (3, 1)
    with pytest.raises(ParameterError, match="y must be rows"):
        private_targets(None, [[1.0]] * 3 + [5.0])


def test_data_of_the_wrong_kind():
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0}
    with pytest.raises(ParameterError, match="data must show its columns; got an empty list"):
        PLAIN.release([])
    with pytest.raises(ParameterError, match="X must be rows in memory; got a path"):
        PrivateCovariance(row_norm_bound=1.0).fit("records.csv")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "note": [1, "secret"]})
    with pytest.raises(ParameterError, match="column 'note' must hold real numbers; got dtype object"):
        PrivateRidge(**bounds).fit(frame, [1, 2])
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ParameterError, match="X must be in memory for fit; got a dask collection"):
        PrivateRidge(**bounds).fit(dask.ones((4, 2)), np.ones(4))


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends(tmp_path, end):
    path = tmp_path / "rows.csv"
    for lines, rows in ((["a,b", "0.5,0.25", "0.25,0.5", ""], [[0.5, 0.25], [0.25, 0.5]]), (["a,b", ""], [])):
        path.write_bytes(end.join(lines).encode())
        expected = exact_gram(np.reshape(rows, (-1, 2)), row_norm_bound=1.0)
        assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, expected.integers)


def test_a_record_beyond_one_block_is_no_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"7" * (1 << 25) + b",4\n")
    alone = exact_gram(np.array([[1.0, 2.0]]), row_norm_bound=1.0)
    assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, alone.integers)


def test_damage_inside_a_file_is_told_in_our_words(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({"a": np.random.default_rng(0).integers(0, 50, 100_000).astype(float)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=10_000, compression="snappy")
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow", compression="lz4", chunksize=10_000)
    for name, start in (("a.parquet", 100), ("a.arrow", None)):
        content = bytearray((tmp_path / name).read_bytes())
        start = len(content) // 2 if start is None else start
        content[start : start + 3000] = b"\xff" * 3000
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParameterError, match="be a readable file of its kind") as caught:
            PLAIN.release(tmp_path / name)
        assert caught.value.__suppress_context__


def test_a_folder_named_like_a_file_is_passed_over(tmp_path):
    (tmp_path / "a.csv").write_text("a\n0.5\n")
    (tmp_path / "b.csv").mkdir()
    assert exact_gram(tmp_path, row_norm_bound=1.0, header=True).to_float() == pytest.approx(0.25)


# --- saved releases -------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC, intercept=0.5)
    mechanism.release(np.eye(3)).save(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ridge", value) for value in (1e-3, "x", 1j, math.nan, True, [1.0])),
        *(("targets", value) for value in (-7, 1, 99, [1, 2], "x", 0.5)),
        *(("names", value) for value in (["a", "b"], "abc", [1.0, 2.0, 3.0, 4.0])),
        *(("sketch", value) for value in (np.ones((20, 0)), np.ones((20, 1)), np.ones((19, 4)), np.ones(20))),
        ("more", 1.0),
    ],
)
def test_arrays_that_are_not_of_the_release(saved, name, value):
    arrays = dict(np.load(saved / "sketch.npz"))
    np.savez(saved / "sketch.npz", **arrays | {name: np.array(value)})
    with pytest.raises(ParameterError):
        ProjectionRelease.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"private": "yes"},
        {"private": 1},
        {"version": 3},
        {"arithmetic": "float"},
        {"mechanism": ["RandomProjection"]},
        {"mechanism": "PTRProjection"},
        {"adjacency": ["add-remove"]},
        {"epsilon": True},
        {"epsilon": 10**400},
        {"parameters": {"n": 5}},
        {"parameters": {"noisy_eigenvalue": 5.0}},
        {"parameters": {"released_ridge": 1.0}},
        {"parameters": {"released_ridge": None}},
        {"parameters": {"ridge": 1e-200, "released_ridge": 1e-200}},
    ],
    ids=str,
)
def test_receipts_that_are_not_of_the_release(saved, change):
    receipt = json.loads((saved / "receipt.json").read_text())
    parameters = receipt["parameters"] | change.get("parameters", {})
    (saved / "receipt.json").write_text(json.dumps(receipt | change | {"parameters": parameters}))
    with pytest.raises(ParameterError):
        ProjectionRelease.load(saved)


def test_the_ridge_of_a_tested_release_must_follow_from_its_eigenvalue(tmp_path):
    TESTED.release(np.ones((1, 1))).save(tmp_path / "kept")
    receipt = json.loads((tmp_path / "kept" / "receipt.json").read_text())
    for change in ({"noisy_eigenvalue": 1e6}, {"noisy_eigenvalue": "60"}, {"noisy_eigenvalue": None}):
        changed = receipt | {"parameters": receipt["parameters"] | change}
        (tmp_path / "kept" / "receipt.json").write_text(json.dumps(changed))
        with pytest.raises(ParameterError):
            ProjectionRelease.load(tmp_path / "kept")


def test_bytes_that_are_no_archive(saved):
    content = (saved / "sketch.npz").read_bytes()
    whole, single, packed, huge = (io.BytesIO() for _ in range(4))
    np.save(single, np.eye(2))
    np.savez_compressed(packed, sketch=np.random.default_rng(0).normal(size=(20, 4)))
    with zipfile.ZipFile(huge, "w") as archive:
        np.lib.format.write_array_header_1_0(whole, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
        archive.writestr("sketch.npy", whole.getvalue())
    crushed = bytearray(packed.getvalue())
    crushed[80:120] = b"\xff" * 40
    locked = bytearray(content)
    locked[content.index(b"PK\x03\x04") + 6] |= 1
    locked[content.index(b"PK\x01\x02") + 8] |= 1
    for bad in (b"", content[:-30], single.getvalue(), bytes(crushed), huge.getvalue(), bytes(locked)):
        (saved / "sketch.npz").write_bytes(bad)
        with pytest.raises(ParameterError, match=r"sketch\.npz must be an NPZ archive"):
            ProjectionRelease.load(saved)


def test_names_and_copies():
    release = PLAIN.release(np.eye(2))
    with pytest.raises(ParameterError, match="null characters"):
        release.save("a\0b")
    for again in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release)):
        assert not again.sketch.flags.writeable
        assert np.array_equal(again.sketch, release.sketch)
        assert again.receipt == release.receipt
    pandas = pytest.importorskip("pandas")
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC, intercept=0.5)
    frame = pandas.DataFrame(np.eye(2), columns=["intercept", "b"])
    assert mechanism.release(frame).names == ("intercept", "b", "intercept_")


# --- numbers --------------------------------------------------------------------------------------


def test_far_budgets():
    for kind, more in ((ndis.RandomProjection, {}), (ndis.PoissonProjection, {"rate": 0.1})):
        assert kind.calibrated(**PUBLIC | {"epsilon": 800.0}, calibration="renyi", **more).ridge > 0
        assert kind.calibrated(**PUBLIC | {"delta": 1e-310}, **more).ridge > PLAIN.ridge


def test_arguments_of_the_wrong_kind():
    for name in ("row_norm_bound", "intercept", "target_bound"):
        with pytest.raises(ParameterError, match=name):
            ndis.RandomProjection.calibrated(**PUBLIC | {name: 10**400})
    with pytest.raises(ParameterError, match="records"):
        PrivateCovariance(row_norm_bound=1.0, records=10**400).fit(np.eye(2))
    with pytest.raises(ParameterError, match="adjacency"):
        dataclasses.replace(PLAIN, adjacency=np.array(["add-remove", "x"]))
    with pytest.raises(ParameterError, match="sketch_sizes must be several sizes"):
        ndis.choose_sketch_size(epsilon=1.0, delta=1e-6, row_norm_bound=1.0, columns=3, sketch_sizes=100)
    assert PLAIN.release(np.eye(3), columns=np.int64(1)).sketch.shape == (20, 1)
    with pytest.raises(ParameterError, match="columns"):
        PLAIN.release(np.eye(3), columns=1.5)
    with pytest.raises(ParameterError, match=r"rate must be at least 2\^-40"):
        ndis.PoissonProjection.calibrated(**PUBLIC | {"delta": 1e-25}, rate=1e-22)


def test_a_random_state_of_scikit_learn_is_a_seed():
    with pytest.warns(NotPrivateWarning):
        one, two = (PLAIN.release(np.eye(2), random_state=np.random.RandomState(3)) for _ in range(2))
    assert np.array_equal(one.sketch, two.sketch)
    assert not one.receipt.private


# --- the command line -----------------------------------------------------------------------------


def test_regress_on_awkward_names(tmp_path: Path, monkeypatch):
    from typer.testing import CliRunner

    from ndis.cli import app

    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("(intercept),y\n0.5,0.25\n")
    args = ["regress", "rows.csv", "--header", "--target", "y", "--epsilon", "1", "--delta", "1e-6"]
    args += ["--row-norm-bound", "1", "--target-bound", "1", "--method", "sketch"]
    shown = CliRunner().invoke(app, args).stdout.split()
    assert shown[::2] == ["(intercept)", "((intercept))", "(penalty)"]

    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("drawn before the output was checked")

    monkeypatch.setattr(PrivateRidge, "fit_data", drawn)
    with pytest.raises(ParameterError, match="output must be a new file"):
        CliRunner().invoke(app, [*args, "-o", "."], standalone_mode=False, catch_exceptions=False)
