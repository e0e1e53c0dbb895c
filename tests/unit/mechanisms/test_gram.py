"""The Gram mechanism and the rounds: sensitivities, certificates, draws and receipts."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import ndis
from ndis._exact import root_down, root_up
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.gram import RowLayout, exact_gram
from ndis.gram.sums import RecordSums
from ndis.mechanisms.gram import GramRelease, two_rows
from ndis.mechanisms.mechanism import Mechanism
from ndis.mechanisms.rounds import GaussianRounds
from ndis.noise.bits import SeededBits
from ndis.noise.gaussian import exact_symmetric

# A torch device that every machine has; None, the host, if torch is not installed.
DEVICE = "cpu" if importlib.util.find_spec("torch") else None

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
CASES = [
    {},
    {"adjacency": "replace-one"},
    {"target_bound": 2.0, "intercept": 0.5},
    {"target_bound": 2.0, "intercept": 0.5, "adjacency": "replace-one"},
]


def made(**more):
    return ndis.GramMechanism.calibrated(**{**BUDGET, "row_norm_bound": 1.5, **more})


# ---------------------------------------------------------------------- the sensitivity


def difference(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.linalg.norm(np.outer(x, x) - np.outer(y, y)))


# Checks thm:gram-mechanism.
def test_no_two_rows_are_further_apart_than_the_sensitivity():
    rng = np.random.default_rng(0)
    mechanism, replaced = made(), made(adjacency="replace-one")
    farthest = 0.0
    for _ in range(5000):
        x, y = rng.normal(size=(2, 3))
        x, y = (v / np.linalg.norm(v) * 1.5 * min(1, 2 * rng.uniform()) for v in (x, y))
        assert np.linalg.norm(np.outer(x, x)) <= mechanism.sensitivity * (1 + 1e-12)
        farthest = max(farthest, difference(x, y))
    assert 0.98 * replaced.sensitivity < farthest <= replaced.sensitivity
    assert replaced.sensitivity == pytest.approx(math.sqrt(2) * mechanism.sensitivity)


@pytest.mark.parametrize("target", [None, 0.5, 4.0])
@pytest.mark.parametrize("intercept", [None, 0.75, 3.0])
def test_the_two_rows_are_legal_and_as_far_apart_as_they_say(target, intercept):
    layout = RowLayout(
        1, 1.5, targets=int(target is not None), target_bound=target, intercept=intercept, fractional_bits=18
    )
    found, bound = two_rows(layout), 2 * layout.joint_norm_bound_squared**2
    assert found <= bound
    b, t, c = 1.5**2, (target or 0) ** 2, (intercept or 0) ** 2
    if abs(t - c) <= b:  # orthogonal rows exist
        assert found >= bound * (1 - Fraction(1, 10**8))
    else:
        assert found < bound


def test_roots_of_rationals_are_rounded_to_their_side():
    for square in (Fraction(2), Fraction(1, 3), Fraction(10) ** 90, Fraction(7, 2**1500), Fraction(9, 4)):
        up, down = root_up(square), root_down(square)
        assert Fraction(down) ** 2 <= square <= Fraction(up) ** 2
        assert up in (down, math.nextafter(down, math.inf))
    assert root_up(Fraction(9, 4)) == root_down(Fraction(9, 4)) == 1.5


# ---------------------------------------------------------------------- the guarantee


@pytest.mark.parametrize("more", CASES)
def test_the_guarantee_is_certified_and_wastes_little(more):
    mechanism = made(**more)
    assert isinstance(mechanism, Mechanism)
    reached = mechanism.profile().certify(1.0).upper
    assert 0.99e-6 <= reached <= 1e-6
    with pytest.raises(ParameterError, match="noise_std must keep delta"):
        type(mechanism)(**mechanism.arguments() | {"noise_std": 0.999 * mechanism.noise_std})
    public = {name: x for name, x in mechanism.arguments().items() if name not in ("epsilon", "noise_std")}
    weaker = ndis.GramMechanism.with_noise(noise_std=0.9 * mechanism.noise_std, **public)
    assert weaker.target_epsilon > 1.0
    assert weaker.profile().certify(weaker.target_epsilon).upper <= 1e-6
    assert max(one.profile.certify(1.0).lower for one in weaker.attained()) > 1e-6
    assert pickle.loads(pickle.dumps(mechanism)) == copy.deepcopy(mechanism) == mechanism


def test_the_noise_is_that_of_the_gaussian_mechanism():
    for adjacency, factor in (("add-remove", 1.0), ("replace-one", math.sqrt(2.0))):
        plain = ndis.GaussianMechanism.calibrated(**BUDGET, sensitivity=factor * (1.5**2 + 4.0 + 0.25))
        mechanism = made(adjacency=adjacency, target_bound=2.0, intercept=0.5)
        assert mechanism.noise_std == pytest.approx(plain.noise_std, rel=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 0.0}, {"delta": math.nan}, {"row_norm_bound": None},
        {"row_norm_bound": 0.0}, {"row_norm_bound": math.nan}, {"target_bound": -1.0}, {"intercept": math.inf},
        {"fractional_bits": 60}, {"adjacency": "both"}, {"row_norm_bound": 2.0**150},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ParameterError):
        made(**bad)


# ---------------------------------------------------------------------- the release


def test_a_release_says_what_it_is(tmp_path):
    import pandas as pd

    x = np.random.default_rng(3).normal(size=(30, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "y"])
    mechanism = made(target_bound=2.0, intercept=0.5)
    release = mechanism.release(frame, targets="y")
    assert release.names == ("a", "b", "y", "intercept")
    assert (release.targets, release.private, release.mechanism) == (1, True, mechanism)
    assert release.receipt.mechanism == "GramMechanism"
    assert (release.gram() == release.values).all()
    assert release.noise_variance == mechanism.noise_std**2
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(release)).values[0, 0] = 1.0
    release.save(tmp_path / "gram.json")
    again = GramRelease.load(tmp_path / "gram.json")
    assert (again.values == release.values).all()
    assert (again.mechanism, again.receipt) == (mechanism, release.receipt)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("receipt", "parameters", "noise_std"), 0.1),
        (("receipt", "parameters", "grid"), 0.25),
        (("receipt", "parameters", "targets"), 1),
        (("receipt", "parameters", "targets"), True),
        (("receipt", "parameters", "names"), ["a"]),
        (("receipt", "parameters", "names"), "ab"),
        (("receipt", "parameters", "extra"), 1),
        (("receipt", "mechanism"), "RandomProjection"),
        (("receipt", "epsilon"), 0.5),
        (("values",), [[1.0, 2.0], [3.0, 1.0]]),
        (("values",), [1.0, 2.0]),
        (("values",), [[1.0]]),
    ],
)
def test_a_changed_file_is_refused(path, value, tmp_path):
    file = tmp_path / "gram.json"
    made(intercept=1.0).release(np.eye(1)).save(file)
    content = json.loads(file.read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(ParameterError):
        GramRelease.load(file)


def test_moments_of_a_release():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20_000, 3)) * [0.5, 0.3, 0.2] + [0.2, 0.0, -0.1]
    release = ndis.GramMechanism.calibrated(epsilon=5.0, delta=1e-6, row_norm_bound=3.0, intercept=1.5).release(x)
    assert release.count() == pytest.approx(20_000, rel=0.01)
    np.testing.assert_allclose(release.mean(), x.mean(0), atol=0.02)
    np.testing.assert_allclose(release.covariance(records=20_000), np.cov(x.T), atol=0.02)
    with pytest.raises(ParameterError, match="intercept must"):
        made().release(np.eye(3)).count()
    with pytest.raises(ParameterError, match="records must"):
        made().release(np.eye(3)).covariance()


def test_seeds_sources_and_engines():
    x = np.random.default_rng(2).normal(size=(500, 3))
    mechanism = made()
    with pytest.warns(NotPrivateWarning):
        one, two, device = (mechanism.release(x, random_state=5, device=where) for where in (None, None, DEVICE))
    assert (one.values == two.values).all()
    assert (one.values == device.values).all()
    assert not one.private
    assert not (mechanism.release(x).values == one.values).all()
    assert mechanism.release(np.array([[1.0, 2.0], [None, "x"]], dtype=object)).values.shape == (2, 2)


def test_the_draw_adds_exact_noise_to_exact_integers():
    """Same bits, other data: the integers of the draw differ by the Gram matrices to half a grid step each."""
    x, y = np.random.default_rng(3).normal(size=(2, 50, 4))
    grams = [exact_gram(rows, row_norm_bound=1.0) for rows in (x, y)]
    drawn = [exact_symmetric(gram.exact(ridge=0), noise_std=3.0, random_state=SeededBits(1)) for gram in grams]
    assert drawn[0].grid == drawn[1].grid == 2.0**-19
    moved = (drawn[0].values - drawn[1].values) - (grams[0].to_float() - grams[1].to_float())
    assert np.abs(moved).max() <= 2.0**-19
    assert (drawn[0].integers == drawn[0].integers.T).all()


# ---------------------------------------------------------------------- rounds

SHARES = {"matrix_shares": [0.25], "sum_shares": [0.2] * 3, "count_shares": [0.05] * 3}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
# Checks thm:rounds.
def test_rounds_are_certified_and_waste_little(adjacency):
    rounds = GaussianRounds.calibrated(**BUDGET, **SHARES, adjacency=adjacency)
    assert isinstance(rounds, Mechanism)
    assert 0.99e-6 <= rounds.profile().certify(1.0).upper <= 1e-6
    with pytest.raises(ParameterError, match="shift must keep delta"):
        GaussianRounds(**rounds.arguments() | {"shift": rounds.shift * 1.001})
    assert json.loads(json.dumps(rounds.to_dict()))["sum_shares"] == [0.2] * 3


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_noise_is_the_sensitivity_over_the_share_rounded_up(adjacency):
    rounds = GaussianRounds.calibrated(**BUDGET, **SHARES, adjacency=adjacency)
    times = 1 if adjacency == "add-remove" else 2
    squared = Fraction(rounds.shift) ** 2
    for noise, share, reach in (
        (rounds.matrix_noise(0, Fraction(3)), 0.25, Fraction(9) * times),
        (rounds.sum_noise(1, clip=0.3), 0.2, Fraction(0.3) ** 2 * times**2),
        (rounds.count_noise(2), 0.05, Fraction(1)),
        (rounds.count_noise(0, squared_reach=2), 0.05, Fraction(2)),
    ):
        assert reach <= Fraction(noise) ** 2 * Fraction(share) * squared < reach * (1 + Fraction(1, 10**15))


def test_releases_of_rounds():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 3)) / 3, rng.normal(size=2000) / 3
    sums = RecordSums((x, y), row_norm_bound=1.0, target_bound=1.0)
    rounds = GaussianRounds.calibrated(epsilon=50.0, delta=1e-3, **SHARES)
    gram = rounds.release_matrix(0, sums.gram())
    found = sums.residual_products(np.zeros(3), clip=0.2)
    product = rounds.release_sum(0, found)
    count = rounds.release_count(1, found.histogram)
    assert gram.private
    assert product.private
    assert count.private
    np.testing.assert_allclose(gram.values, sums.gram().to_float(), atol=10 * rounds.matrix_noise(0, Fraction(1)))
    assert abs(product.values - found.total.to_float()).max() < 10 * rounds.sum_noise(0, clip=0.2)
    assert abs(count.values - found.histogram).max() < 10 * rounds.count_noise(1)
    assert product.values.shape == (3,)


@pytest.mark.parametrize(
    "bad",
    [
        {"matrix_shares": [-0.1]}, {"matrix_shares": [math.nan]}, {"matrix_shares": [0.5]}, {"sum_shares": [0.9]},
        {"matrix_shares": [0.0], "sum_shares": [], "count_shares": []}, {"adjacency": "x"}, {"epsilon": math.nan},
    ],
)  # fmt: skip
def test_bad_rounds_are_refused(bad):
    with pytest.raises(ParameterError):
        GaussianRounds.calibrated(**{**BUDGET, **SHARES, **bad})


def test_a_release_without_a_share_is_refused():
    rounds = GaussianRounds.calibrated(**BUDGET, sum_shares=[1.0], matrix_shares=[0.0])
    with pytest.raises(ParameterError, match="share must"):
        rounds.matrix_noise(0, Fraction(1))
