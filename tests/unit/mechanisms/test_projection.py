"""Projections: awkward data, estimates from a release, composition, calibration, arguments."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.sketches import MECHANISMS, PLAIN, PUBLIC, SAMPLED, TESTED, each, seeded
from ndis.errors import BudgetError, NotPrivateWarning, ParameterError
from ndis.learn import PrivateCovariance
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.paper import calibrated_projection
from ndis.profile import PrivacyProfile

RNG = np.random.default_rng(0)


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
    public = TESTED.arguments().keys() - {"epsilon", "delta", "adjacency"}
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
    assert np.array_equal(seeded(mechanism, rows.astype(object)).sketch, from_array.sketch)


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


def test_with_ridge_states_what_the_ridge_gives():
    for mechanism in MECHANISMS:
        more = {"rate": 0.5} if mechanism is SAMPLED else {}
        if mechanism is TESTED:
            more = {"test_noise_std": 10.0, "failure_probability": TESTED.failure_probability}
        again = type(mechanism).with_ridge(
            ridge=mechanism.ridge, delta=1e-6, sketch_size=12, row_norm_bound=1.0, **more
        )
        assert again.target_epsilon == pytest.approx(1.0, rel=1e-9)
        assert again.calibration == "given"
    with pytest.raises(TypeError, match=r"missing .*sketch_size"):
        ndis.RandomProjection.with_ridge(ridge=1.0, delta=1e-6, row_norm_bound=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rate'"):
        ndis.RandomProjection.with_ridge(ridge=1.0, delta=1e-6, row_norm_bound=1.0, sketch_size=1, rate=0.5)
    for ridge in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ParameterError, match="ridge"):
            ndis.RandomProjection.with_ridge(ridge=ridge, delta=1e-6, row_norm_bound=1.0, sketch_size=1)


def test_calibrations_that_do_not_apply_are_refused():
    for make in (
        lambda: calibrated_projection("lsv", ndis.PoissonProjection, **PUBLIC, rate=0.5),
        lambda: calibrated_projection("lsv", **PUBLIC, adjacency="replace-one"),
        lambda: calibrated_projection("lsv", ndis.PTRProjection, **PUBLIC, test_noise_std=10.0),
    ):
        with pytest.raises(ParameterError, match="lsv"):
            make()
    with pytest.raises(BudgetError, match="epsilon"):
        calibrated_projection("lsv", **PUBLIC | {"epsilon": 0.0})


def test_family_is_exact_in_its_binary_inputs():
    ridge = 3.7
    law = ProjectionLaw(7, ridge, 0.3, target_bound=0.1)
    ratio = 1 + law.squared_bound / Fraction(ridge)
    near = [ProjectionLaw(7, ridge, b).profile().delta(0.1) for b in (0.3, 0.4)]
    assert near[0] < law.profile().delta(0.1) < near[1]
    assert law.one_record().variance_ratio[0] == pytest.approx(float(ratio), rel=1e-15)


def test_far_budgets():
    for kind, more in ((ndis.RandomProjection, {}), (ndis.PoissonProjection, {"rate": 0.1})):
        assert calibrated_projection("renyi", kind, **PUBLIC | {"epsilon": 800.0}, **more).ridge > 0
        assert kind.calibrated(**PUBLIC | {"delta": 1e-310}, **more).ridge > PLAIN.ridge


def test_arguments_of_the_wrong_kind():
    for name in ("row_norm_bound", "intercept", "target_bound"):
        with pytest.raises(ParameterError, match=name):
            ndis.RandomProjection.calibrated(**PUBLIC | {name: 10**400})
    with pytest.raises(ParameterError, match="records"):
        PrivateCovariance(row_norm_bound=1.0, records=10**400).fit(np.eye(2))
    with pytest.raises(ParameterError, match="adjacency"):
        ndis.RandomProjection(**PLAIN.arguments() | {"adjacency": np.array(["add-remove", "x"])})
    with pytest.raises(ParameterError, match="sketch_sizes must be several sizes"):
        ndis.RandomProjection.sizes(epsilon=1.0, delta=1e-6, row_norm_bound=1.0, columns=3, sketch_sizes=100)
    assert PLAIN.release(np.eye(3), columns=np.int64(1)).sketch.shape == (12, 1)
    with pytest.raises(ParameterError, match="columns"):
        PLAIN.release(np.eye(3), columns=1.5)
    with pytest.raises(ParameterError, match=r"rate must be at least 2\^-40"):
        ndis.PoissonProjection.calibrated(**PUBLIC | {"delta": 1e-25}, rate=1e-22)


def test_a_random_state_of_scikit_learn_is_a_seed():
    with pytest.warns(NotPrivateWarning):
        one, two = (PLAIN.release(np.eye(2), random_state=np.random.RandomState(3)) for _ in range(2))
    assert np.array_equal(one.sketch, two.sketch)
    assert not one.receipt.private
