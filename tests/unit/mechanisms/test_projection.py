"""Projections on awkward data, their files, and the parts they are made of."""

from __future__ import annotations

import errno
import json
import math
import os
from fractions import Fraction
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import ndis
from ndis._rounding import up
from ndis.errors import BudgetError, NotPrivateWarning, ParameterError
from ndis.gram import exact_gram
from ndis.gram.poisson import PoissonRows
from ndis.mechanisms import ptr
from ndis.mechanisms.ptr_eigenvalue import least_eigenvalue_floor
from ndis.mechanisms.release import ProjectionRelease
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.profile import PrivacyProfile
from ndis.sampling import ExactSample
from ndis.sampling.bits import SeededBits, SystemBits

mpl.use("agg")

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 12, "row_norm_bound": 1.0}
PLAIN = ndis.RandomProjection.calibrated(**PUBLIC)
SAMPLED = ndis.PoissonProjection.calibrated(**PUBLIC, rate=0.5)
TESTED = ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=10.0)
MECHANISMS = [PLAIN, SAMPLED, TESTED]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
RNG = np.random.default_rng(0)


def seeded(mechanism, data, seed=0, **how):
    with pytest.warns(NotPrivateWarning):
        return mechanism.release(data, random_state=seed, **how)


# --- awkward data ---------------------------------------------------------------------------------

AWKWARD = {
    "no rows": np.zeros((0, 3)),
    "one row": np.full((1, 3), 0.3),
    "more columns than rows": RNG.normal(size=(2, 9)),
    "constant columns": np.ones((50, 3)),
    "zero rows": np.zeros((50, 3)),
    "rows beyond the bound": 1e200 * RNG.normal(size=(20, 3)),
    "NaN rows": np.full((20, 3), np.nan),
    "infinite rows": np.full((20, 3), -np.inf),
    "integers": RNG.integers(-5, 5, size=(20, 3)),
    "booleans": RNG.normal(size=(20, 3)) > 0,
    "single floats": RNG.normal(size=(20, 3)).astype(np.float32),
    "one column": RNG.normal(size=(20, 1)),
    "many large rows in one column": np.ones((3000, 1)),
}


@each
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_data_are_released(mechanism, kind):
    data = AWKWARD[kind]
    release = mechanism.release(data)
    assert release.sketch.shape == (12, data.shape[1])
    assert np.isfinite(release.sketch).all()
    assert 0 < release.ridge <= mechanism.ridge
    assert release.error_bound() > 0


@each
def test_bad_rows_count_as_zero_rows(mechanism):
    good = RNG.normal(size=(10, 3))
    mixed = good.copy()
    mixed[4, 1] = np.nan
    zeroed = good.copy()
    zeroed[4] = 0.0
    assert np.array_equal(seeded(mechanism, mixed).sketch, seeded(mechanism, zeroed).sketch)


def test_nothing_of_the_rows_is_kept():
    rows = RNG.normal(size=(321, 2))
    release = TESTED.release(rows)
    assert vars(release).keys() == {"sketch", "mechanism", "ridge", "receipt", "names", "targets"}
    public = vars(TESTED).keys() - {"epsilon", "delta", "adjacency"}
    assert release.receipt.parameters.keys() == public | {"released_ridge", "noisy_eigenvalue"}
    assert 321 not in release.receipt.parameters.values()
    assert "321" not in repr(release)


def test_wrong_columns_between_files(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n0.1,0.2\n")
    (tmp_path / "b.csv").write_text("x,z\n0.1,0.2\n")
    with pytest.raises(ParameterError, match="same columns"):
        PLAIN.release(tmp_path, header=True)
    with pytest.raises(ParameterError, match="existing file"):
        PLAIN.release(tmp_path / "none.csv", header=True)


def test_text_columns_must_be_left_out():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.1, 0.2], "name": ["x", "y"], "b": [1.0, 0.0]})
    with pytest.raises(ParameterError, match="column 'name' must hold real numbers"):
        PLAIN.release(frame)
    release = PLAIN.release(frame, columns=["a", "b"])
    assert release.names == ("a", "b")


@each
def test_the_same_bits_from_files_and_arrays(mechanism, tmp_path):
    rows = RNG.normal(size=(40, 3)).round(3)
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    from_file, from_array = seeded(mechanism, tmp_path / "rows.csv", header=True), seeded(mechanism, rows)
    assert np.array_equal(from_file.sketch, from_array.sketch)
    assert from_file.names == ("a", "b", "c")
    assert np.array_equal(seeded(mechanism, rows.tolist()).sketch, from_array.sketch)


# --- targets, intercept, estimates ----------------------------------------------------------------


def test_joint_bound_counts_targets_and_intercept():
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC, target_bound=2.0, intercept=2.0)
    assert mechanism.joint_norm_bound == 3.0
    assert mechanism.ridge == pytest.approx(9 * PLAIN.ridge, rel=1e-10)
    assert mechanism.leverage == pytest.approx(PLAIN.leverage, rel=1e-10)
    x = RNG.normal(size=(30, 2))
    release = mechanism.release((x, x[:, 0]))
    assert (release.sketch.shape, release.targets) == ((12, 4), 1)
    with pytest.raises(ParameterError, match="target_bound must come with targets"):
        mechanism.release(x)
    with pytest.raises(ParameterError, match="target_bound must be given"):
        PLAIN.release(x, targets=[1])


def test_count_mean_and_covariance_from_a_constant_column():
    x = RNG.normal(size=(200_000, 2)) @ np.array([[0.1, 0.02], [0.0, 0.05]]) + [0.2, -0.1]
    public = {"epsilon": 5.0, "delta": 1e-6, "sketch_size": 4000, "row_norm_bound": 1.0}
    release = seeded(ndis.RandomProjection.calibrated(**public, intercept=0.3), x)
    assert release.count() == pytest.approx(200_000, rel=0.1)
    assert release.mean() == pytest.approx([0.2, -0.1], abs=0.02)
    assert release.mean(records=200_000) == pytest.approx([0.2, -0.1], abs=0.03)
    assert release.covariance() == pytest.approx(np.cov(x.T), abs=0.004)
    plain = seeded(ndis.RandomProjection.calibrated(**public), x)
    assert plain.covariance(records=200_000) == pytest.approx(x.T @ x / 200_000, abs=0.01)


def test_estimates_need_what_they_need():
    release = PLAIN.release(np.eye(3))
    with pytest.raises(ParameterError, match="records must be given"):
        release.covariance()
    with pytest.raises(ParameterError, match="records must be a positive"):
        release.covariance(records=0)
    for estimate in (release.count, release.mean):
        with pytest.raises(ParameterError, match="intercept"):
            estimate()
    for confidence in (0.0, 1.0, math.nan, 2):
        with pytest.raises(ParameterError):
            release.error_bound(confidence)


def test_the_error_bound_is_infinite_for_small_sketches():
    assert PLAIN.release(np.eye(9)).error_bound() == math.inf
    tall = ndis.RandomProjection.calibrated(**{**PUBLIC, "sketch_size": 400})
    release = seeded(tall, np.eye(2))
    assert release.error_bound(0.5) < release.error_bound(0.99) < math.inf


# --- composition ----------------------------------------------------------------------------------


def test_sketches_and_gaussians_compose_exactly():
    other = ndis.RandomProjection.calibrated(**{**PUBLIC, "sketch_size": 30, "row_norm_bound": 2.0})
    shift = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.2))
    whole = PLAIN.profile().compose(other.profile(), shift)
    direct = ndis.GaussianPair.from_ratios(
        [1 + PLAIN.leverage, 1 + other.leverage, 1.0], shift=[0.0, 0.0, 0.2], copies=[12, 30, 1]
    )
    for epsilon in (0.5, 2.0):
        assert whole.delta(epsilon, order="remove") == pytest.approx(direct.delta(epsilon), rel=1e-9)
        assert whole.delta(epsilon, order="add") == pytest.approx(direct.reversed().delta(epsilon), rel=1e-9)


def test_composition_keeps_the_failure_of_the_test():
    both = TESTED.profile().compose(PLAIN.profile())
    assert both.failure_probability == TESTED.failure_probability
    assert both.certify(50.0).upper >= TESTED.failure_probability
    assert both.epsilon(TESTED.failure_probability) == math.inf


# --- mechanisms -----------------------------------------------------------------------------------


def test_with_ridge_states_what_the_ridge_gives():
    for mechanism in MECHANISMS:
        more = {"rate": 0.5} if mechanism is SAMPLED else {}
        if mechanism is TESTED:
            more = {"test_noise_std": 10.0, "failure_probability": TESTED.failure_probability}
        again = type(mechanism).with_ridge(
            ridge=mechanism.ridge, delta=1e-6, sketch_size=12, row_norm_bound=1.0, **more
        )
        assert again.epsilon == pytest.approx(1.0, rel=1e-9)
        assert again.calibration == "given"
    with pytest.raises(TypeError, match="needs sketch_size"):
        ndis.RandomProjection.with_ridge(ridge=1.0, delta=1e-6, row_norm_bound=1.0)
    with pytest.raises(TypeError, match="has no rate"):
        ndis.RandomProjection.with_ridge(ridge=1.0, delta=1e-6, row_norm_bound=1.0, sketch_size=1, rate=0.5)
    for ridge in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ParameterError, match="ridge"):
            ndis.RandomProjection.with_ridge(ridge=ridge, delta=1e-6, row_norm_bound=1.0, sketch_size=1)


def test_calibrations_that_do_not_apply_are_refused():
    for make in (
        lambda: ndis.PoissonProjection.calibrated(**PUBLIC, rate=0.5, calibration="lsv"),
        lambda: ndis.RandomProjection.calibrated(**PUBLIC, adjacency="replace-one", calibration="lsv"),
        lambda: ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=10.0, calibration="lsv"),
    ):
        with pytest.raises(ParameterError, match="lsv"):
            make()
    with pytest.raises(BudgetError, match="epsilon"):
        ndis.RandomProjection.calibrated(**{**PUBLIC, "epsilon": 0.0}, calibration="lsv")


@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_ptr_refuses_a_test_that_spends_the_budget(calibration):
    with pytest.raises(BudgetError, match="test alone spends"):
        ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=1.0, calibration=calibration)


def test_the_papers_split_refuses_a_test_that_spends_epsilon():
    test = ndis.GaussianPair.from_ratios(1.0, shift=0.1)
    alone, halved = test.epsilon(2e-6 / 3), test.epsilon(1e-6 / 3)
    public = {**PUBLIC, "epsilon": 0.5 * (alone + halved)}  # jointly there is room
    assert ndis.PTRProjection.calibrated(**public, test_noise_std=10.0).ridge > 0
    with pytest.raises(BudgetError, match="spends all of epsilon"):
        ndis.PTRProjection.calibrated(**public, test_noise_std=10.0, calibration="paper")


def test_the_quantile_is_on_the_safe_side():
    mpmath = pytest.importorskip("mpmath")
    for failure in (0.4, 1e-3, 3.3e-7, 1e-12):
        with mpmath.workdps(40):
            exact = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(failure))
            found = ptr._quantile(failure)
            assert exact <= found <= exact * (1 + mpmath.mpf(2) ** -51)


def test_the_ridge_follows_the_test(monkeypatch):
    """ridge = λ − max(λ_lb − l², 0), rounded up, and never below a public least one."""
    seen, levels = [], []

    def fixed(mean, *, noise_std, grid, random_state):
        seen.append(mean)
        return ExactSample(np.array(round(levels[-1] / grid)), grid, private=True)

    monkeypatch.setattr("ndis.mechanisms.ptr.exact_normal", fixed)
    gram = exact_gram(np.eye(2), row_norm_bound=1.0)
    shift = 10.0 * ptr._quantile(TESTED.failure_probability)
    for level, ridge in (
        (-50.0, TESTED.ridge),
        (shift + 1.0, TESTED.ridge),
        (shift + 3.0, TESTED.ridge - 2.0),
        (shift + 1000.0, 2.0**-10),
    ):
        levels.append(level)
        found = TESTED._ridge_after(TESTED._test(gram, SystemBits()))
        assert found == pytest.approx(ridge, abs=2e-3)
        assert found >= min(ridge, TESTED.ridge) - 1e-12
    assert set(seen) == {least_eigenvalue_floor(gram, step=Fraction(1, 4096))}


# --- the least eigenvalue -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "smallest"),
    [
        (np.eye(3), 1.0),
        (np.zeros((2, 3)), 0.0),
        (np.vstack([np.eye(2)] * 7), 7.0),
        (np.array([[1.0, 0.0], [0.5, 0.0]]), 0.0),
        (np.array([[0.75], [0.5]]), 0.8125),
        (np.diag([2.0**-9, 1.0]), 2.0**-18),
    ],
)
@pytest.mark.parametrize("step", [Fraction(1, 4096), Fraction(1, 3), Fraction(9, 7)])
def test_the_floor_is_exact_on_ties(rows, smallest, step):
    floor = least_eigenvalue_floor(exact_gram(rows, row_norm_bound=1.0), step=step)
    assert floor <= smallest < floor + step


def test_the_floor_needs_no_help_from_floats(monkeypatch):
    gram = exact_gram(RNG.normal(size=(60, 4)), row_norm_bound=1.0)
    step = Fraction(1, 4096)
    found = least_eigenvalue_floor(gram, step=step)
    assert found <= np.linalg.eigvalsh(gram.to_float())[0] < found + step
    for wrong in (0, 3, 10**6):
        monkeypatch.setattr("ndis.mechanisms.ptr_eigenvalue._guess", lambda _, value=wrong: Fraction(value))
        assert least_eigenvalue_floor(gram, step=step) == found


def test_the_floor_moves_by_no_more_than_the_squared_bound():
    bound, step = 1.5, Fraction(2.25) / 4096
    rows = 0.5 * RNG.normal(size=(30, 3))
    neighbours = (rows, np.vstack([rows, [[1.5, 0, 0]]]), np.vstack([rows, [[0, 0, 1.5]]]), rows[:-1])
    floors = [least_eigenvalue_floor(exact_gram(data, row_norm_bound=bound), step=step) for data in neighbours]
    assert all(abs(floors[0] - other) <= Fraction(2.25) for other in floors)


def test_round_up():
    third = Fraction(1, 3)
    assert Fraction(math.nextafter(up(third), 0)) < third <= Fraction(up(third))
    assert up(Fraction(5, 4)) == 1.25


# --- sampling rows --------------------------------------------------------------------------------


def test_the_probability_is_never_above_the_rate():
    for rate in (1.0, 0.3, 1e-3, 1e-12, 2.0**-40):
        rows = PoissonRows(rate, SystemBits())
        assert Fraction(rate) - Fraction(1, 2**64) < Fraction(rows._below, 2**64) <= Fraction(rate)
    for rate in (0.0, 1.5, math.nan, -0.1, 2.0**-41):
        with pytest.raises(ParameterError, match="rate"):
            PoissonRows(rate, SystemBits())


def test_sampled_blocks_are_the_rows_of_the_mask():
    x, y = RNG.normal(size=(30_000, 400)), RNG.normal(size=(30_000, 1))
    mask = np.concatenate([PoissonRows(0.25, SeededBits(3)).mask(30_000)])
    blocks = list(PoissonRows(0.25, SeededBits(3)).blocks((x, y)))
    assert len(blocks) > 1
    kept = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    assert np.array_equal(kept[0], x[mask])
    assert np.array_equal(kept[1], y[mask])


def test_a_sample_of_all_rows_is_no_sample():
    rows = RNG.normal(size=(500, 3))
    whole = ndis.PoissonProjection.calibrated(**PUBLIC, rate=1.0)
    assert whole.ridge == PLAIN.ridge
    assert np.array_equal(seeded(whole, rows).sketch, seeded(PLAIN, rows).sketch)


def test_a_sample_of_tensors():
    torch = pytest.importorskip("torch")
    rows = RNG.normal(size=(500, 3))
    assert np.array_equal(seeded(SAMPLED, torch.from_numpy(rows)).sketch, seeded(SAMPLED, rows).sketch)
    assert np.array_equal(seeded(SAMPLED, rows, device="cpu").sketch, seeded(SAMPLED, rows).sketch)


def test_a_sample_on_a_cluster():
    da = pytest.importorskip("dask.array")
    there = da.from_array(np.ones((20_000, 1)), chunks=(1000, 1))
    total = exact_gram(there, row_norm_bound=1.0, sample=PoissonRows(0.5, SystemBits())).to_float().item()
    assert abs(total - 10_000) < 71 * 6  # six standard deviations: a false alarm in 5e8
    assert SAMPLED.release(there).receipt.private
    with pytest.warns(NotPrivateWarning), pytest.raises(ParameterError, match="random_state must be left out"):
        SAMPLED.release(there, random_state=1)


# --- files ----------------------------------------------------------------------------------------


@each
def test_a_release_comes_back_from_its_folder(mechanism, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["width", "höhe"])
    release = mechanism.release(frame)
    release.save(tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["receipt.json", "sketch.npz"]
    again = ProjectionRelease.load(tmp_path / "out")
    assert np.array_equal(again.sketch, release.sketch)
    assert (again.mechanism, again.ridge, again.names, again.targets) == (
        mechanism,
        release.ridge,
        ("width", "höhe"),
        0,
    )
    assert again.receipt == release.receipt
    assert again.error_bound() == release.error_bound()


def test_saving_never_overwrites_or_leaves_half(tmp_path, monkeypatch):
    release = PLAIN.release(np.eye(2))
    release.save(tmp_path / "out")
    before = (tmp_path / "out" / "receipt.json").read_bytes()
    with pytest.raises(ParameterError, match="be a new folder"):
        release.save(tmp_path / "out")
    with pytest.raises(ParameterError, match="lie in an existing folder"):
        release.save(tmp_path / "nowhere" / "out")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ParameterError, match="No space left"):
        release.save(tmp_path / "second")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "receipt.json").read_bytes() == before


def test_what_is_no_release_is_not_loaded(tmp_path):
    release = PLAIN.release(np.eye(2))

    def spoilt(name: str, **changes) -> Path:
        place = tmp_path / name
        release.save(place)
        receipt = json.loads((place / "receipt.json").read_text())
        receipt["parameters"] |= changes.pop("parameters", {})
        (place / "receipt.json").write_text(json.dumps(receipt | changes))
        return place

    assert ProjectionRelease.load(spoilt("fine")).mechanism == PLAIN
    for place in (
        tmp_path / "nowhere",
        spoilt("lie", epsilon=0.5),
        spoilt("less", parameters={"ridge": 1.0}),
        spoilt("other", mechanism="Oracle"),
        spoilt("kind", mechanism="PoissonProjection"),
        spoilt("size", parameters={"sketch_size": 11}),
        spoilt("type", parameters={"ridge": "much"}),
    ):
        with pytest.raises(ParameterError):
            ProjectionRelease.load(place)
    for content in (b"nothing", b"", b"PK\x03\x04 and no more"):
        (tmp_path / "fine" / "sketch.npz").write_bytes(content)
        with pytest.raises(ParameterError, match=r"sketch\.npz must be"):
            ProjectionRelease.load(tmp_path / "fine")


# --- how large a sketch ---------------------------------------------------------------------------


def test_sketch_sizes():
    public = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 2.0, "columns": 4}
    table = ndis.choose_sketch_size(**public, gram_norm_bound=1e3)
    errors = [row.error_bound for row in table.rows]
    ridges = [row.ridge for row in table.rows]
    assert errors == sorted(errors, reverse=True)
    assert ridges == sorted(ridges)
    assert all(0 < row.ridge_ratio < 1 for row in table.rows)
    assert table.recommended in {row.sketch_size for row in table.rows}
    assert "recommended" in repr(table)
    assert table.to_rows()[0]["ridge"] == ridges[0]
    row = next(row for row in table.rows if row.sketch_size == table.recommended)
    assert row.error_bound <= 1.1 * min(errors)
    aimed = ndis.choose_sketch_size(**public, gram_norm_bound=1e3, target_error=errors[3])
    assert aimed.recommended == table.rows[3].sketch_size
    assert len(table.plot().lines) == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"columns": 0},
        {"sketch_sizes": []},
        {"sketch_sizes": [10.5]},
        {"gram_norm_bound": -1.0},
        {"gram_norm_bound": math.nan},
        {"confidence": 1.0},
        {"target_error": 1e-9},
        {"target_error": math.nan},
    ],
)
def test_bad_questions_about_the_size(bad):
    public = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 2.0, "columns": 4, "sketch_sizes": [64]}
    with pytest.raises(ParameterError):
        ndis.choose_sketch_size(**{**public, **bad})


def test_family_is_exact_in_its_binary_inputs():
    ridge = 3.7
    law = ProjectionLaw(7, ridge, 0.3, target_bound=0.1)
    ratio = 1 + law.squared_bound / Fraction(ridge)
    near = [ProjectionLaw(7, ridge, b).profile().delta(0.1) for b in (0.3, 0.4)]
    assert near[0] < law.profile().delta(0.1) < near[1]
    assert law.one_record().variance_ratio[0] == pytest.approx(float(ratio), rel=1e-15)
