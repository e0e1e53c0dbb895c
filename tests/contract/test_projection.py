"""What every mechanism must do. A new mechanism joins by one more `Case` in `CASES`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ndis
from ndis.errors import BudgetError, NotPrivateWarning, ParameterError
from ndis.mechanisms.mechanism import Mechanism, Receipt

SECRET = 731546.25  # a value no message may show
PUBLIC = {"sketch_size": 40, "row_norm_bound": 1.5}


@dataclass(frozen=True)
class Case:
    """A mechanism as the battery sees it.

    `make(epsilon, delta)` calibrates it, `weaker(mechanism)` is a copy with 10 % less noise that states what it
    really guarantees at the same δ, and `bad` are arguments of `make` that must be refused.
    """

    name: str
    make: Callable[..., Any]
    weaker: Callable[[Any], Any]
    bad: tuple[dict[str, Any], ...] = ()


def projection(kind: Any, **more: Any) -> Callable[..., Any]:
    def make(epsilon: float, delta: float, **changes: Any) -> Any:
        return kind.calibrated(**{"epsilon": epsilon, "delta": delta, **PUBLIC, **more, **changes})

    return make


def less_ridge(mechanism: Any) -> Any:
    derived = ("epsilon", "ridge", "calibration")
    public = {name: value for name, value in mechanism.arguments().items() if name not in derived}
    return type(mechanism).with_ridge(ridge=0.9 * mechanism.ridge, **public)


NAN = float("nan")
BAD = (
    {"epsilon": -1.0},
    {"epsilon": NAN},
    {"epsilon": "1"},
    {"delta": 0.0},
    {"delta": 1.0},
    {"delta": NAN},
    {"sketch_size": 0},
    {"sketch_size": 2.5},
    {"sketch_size": True},
    {"row_norm_bound": 0.0},
    {"row_norm_bound": NAN},
    {"row_norm_bound": -1.0},
    {"target_bound": 0.0},
    {"intercept": float("inf")},
    {"fractional_bits": 60},
    {"adjacency": "both"},
    {"calibration": "guess"},
)
CASES = [
    Case("RandomProjection", projection(ndis.RandomProjection), less_ridge, BAD),
    Case("RandomProjection, replace-one", projection(ndis.RandomProjection, adjacency="replace-one"), less_ridge),
    Case(
        "RandomProjection, targets and intercept",
        projection(ndis.RandomProjection, target_bound=2.0, intercept=0.5),
        less_ridge,
    ),
    Case(
        "PoissonProjection",
        projection(ndis.PoissonProjection, rate=0.2),
        less_ridge,
        (
            *BAD,
            {"rate": 0.0},
            {"rate": 1.5},
            {"rate": NAN},
            {"adjacency": "replace-one"},
            {"rate": 1e-9, "delta": 1e-6},
        ),
    ),
    Case(
        "PTRProjection",
        projection(ndis.PTRProjection, test_noise_std=80.0),
        less_ridge,
        (
            *BAD,
            {"test_noise_std": 0.0},
            {"test_noise_std": NAN},
            {"failure_probability": 0.5, "delta": 1e-6},
            {"failure_probability": 0.0},
            {"failure_probability": NAN},
            {"test_noise_std": 0.1},
        ),
    ),
    Case(
        "PTRProjection, replace-one",
        projection(ndis.PTRProjection, test_noise_std=80.0, adjacency="replace-one"),
        less_ridge,
    ),
]
BUDGETS = [(1.0, 1e-6), (0.2, 1e-4), (4.0, 1e-10)]
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@each_case
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_certified_guarantee_meets_the_budget_and_wastes_little(case, epsilon, delta):
    mechanism = case.make(epsilon, delta)
    assert isinstance(mechanism, Mechanism)
    reached = mechanism.profile().certify(epsilon).upper
    assert 0.99 * delta <= reached <= delta
    assert mechanism.profile().certified_epsilon(delta) <= epsilon * (1 + 1e-9)


@each_case
def test_neighbours_stay_within_the_guarantee(case):
    mechanism = case.make(1.0, 1e-6)
    promised = mechanism.profile()
    assert mechanism.attained()
    for attained in mechanism.attained():
        assert attained.neighbours
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            assert attained.profile.certify(epsilon).lower <= promised.certify(epsilon).upper


@each_case
def test_a_copy_with_less_noise_is_convicted(case):
    mechanism = case.make(1.0, 1e-6)
    weaker = case.weaker(mechanism)
    assert max(one.profile.certify(1.0).lower for one in weaker.attained()) > 1e-6
    assert weaker.target_epsilon > 1.0
    assert weaker.profile().certify(weaker.target_epsilon).upper <= 1e-6


@each_case
def test_a_mechanism_that_overstates_its_guarantee_cannot_be_made(case):
    mechanism = case.make(1.0, 1e-6)
    values = mechanism.arguments()
    assert type(mechanism)(**values) == mechanism
    with pytest.raises(ParameterError, match="ridge must keep delta"):
        type(mechanism)(**{**values, "ridge": 0.999 * mechanism.ridge})
    with pytest.raises(FrozenInstanceError):
        mechanism.target_epsilon = 0.1
    assert pickle.loads(pickle.dumps(mechanism)) == copy.deepcopy(mechanism) == mechanism


@pytest.mark.parametrize(
    ("case", "bad"),
    [
        pytest.param(case, bad, id=f"{case.name}, {', '.join(f'{k}={v}' for k, v in bad.items())}")
        for case in CASES
        for bad in case.bad
    ],
)
def test_bad_parameters_are_refused(case, bad):
    values = {"epsilon": 1.0, "delta": 1e-6, **bad}
    with pytest.raises((ParameterError, BudgetError)):
        case.make(**values)


def data_for(mechanism: Any, rows: int = 30) -> Any:
    x = np.random.default_rng(3).normal(size=(rows, 3))
    return (x, x[:, 0]) if mechanism.target_bound is not None else x


@each_case
def test_a_release_says_what_it_is(case):
    mechanism = case.make(1.0, 1e-6)
    release = mechanism.release(data_for(mechanism))
    receipt = release.receipt
    assert receipt.private
    assert receipt.arithmetic == "exact"
    assert (receipt.epsilon, receipt.delta, receipt.adjacency) == (1.0, 1e-6, mechanism.adjacency)
    assert receipt.mechanism == type(mechanism).__name__
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert release.sketch.shape[0] == 40
    assert np.isfinite(release.sketch).all()
    with pytest.raises(ValueError, match="read-only"):
        release.sketch[0, 0] = 0.0


@each_case
def test_a_seed_makes_it_reproducible_and_not_private(case):
    mechanism = case.make(1.0, 1e-6)
    with pytest.warns(NotPrivateWarning) as caught:
        one, two = (mechanism.release(data_for(mechanism), random_state=5) for _ in range(2))
    assert len(caught) == 2
    assert np.array_equal(one.sketch, two.sketch)
    assert not one.receipt.private
    fresh = mechanism.release(data_for(mechanism))
    assert not np.array_equal(one.sketch, fresh.sketch)


BROKEN_DATA = [
    pytest.param(np.full((4, 3), "731546.25"), id="text"),
    pytest.param(pd.DataFrame(np.full((4, 3), SECRET), columns=list("abc"), dtype=object), id="objects"),
    pytest.param(np.full((4, 3), SECRET + 1j), id="complex"),
    pytest.param(np.full(4, SECRET), id="one dimension"),
    pytest.param([SECRET, [SECRET, 1.0]], id="no rows"),
    pytest.param({"a": SECRET}, id="dictionary"),
    pytest.param(SECRET, id="number"),
    pytest.param("no-such-file.csv", id="missing file"),
    pytest.param((np.full((4, 2), SECRET), np.full(3, SECRET)), id="unequal pair"),
]


@each_case
@pytest.mark.parametrize("data", BROKEN_DATA)
def test_errors_carry_nothing_of_the_data(case, data, monkeypatch):
    from ndis.gram.accumulator import GramAccumulator

    def touched(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were summed before the schema was checked")

    mechanism = case.make(1.0, 1e-6)
    monkeypatch.setattr(GramAccumulator, "update", touched)
    with pytest.raises(ParameterError) as caught:
        mechanism.release(data)
    assert "731546" not in str(caught.value)
    assert caught.value.__cause__ is None


@each_case
def test_bad_random_states_are_refused_before_the_data(case):
    mechanism = case.make(1.0, 1e-6)
    for state in (-1, "seed", True, 1.5):
        with pytest.raises(ParameterError, match="random_state"):
            mechanism.release(object(), random_state=state)
