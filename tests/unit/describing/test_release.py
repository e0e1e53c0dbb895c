"""One record moves no part of a description further than thm:describe says, and is read alone."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

import ndis
from ndis.data import open_table
from ndis.describing.release import (
    COUNT_WEIGHT,
    SQUARE_WEIGHT,
    Contents,
    Releases,
    long_rows,
    squared_reach,
)
from ndis.describing.statistics import tails
from ndis.errors import ParameterError
from ndis.noise.bits import SystemBits

SCHEMA = ndis.Schema(
    {"age": (0, 100), "cost": (0, 10), "ward": ["A", "B", "C"], "smoker": bool}, target=("life", -1, 1)
)
D = 4  # age, cost, smoker, life
CELLS = {
    "age": [0, 100, 50, None, 1e300, "x"],
    "cost": [0, 10, None, 3.3],
    "ward": ["A", "B", None, "elsewhere"],
    "smoker": [True, False, None],
    "life": [-1, 1, 0.2, None],
}


def records(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Records whose cells lie at the ends of their ranges, inside, or nowhere."""
    rng = np.random.default_rng(seed)
    drawn = {name: rng.integers(len(cells), size=count) for name, cells in CELLS.items()}
    return {name: np.array([CELLS[name][i] for i in places], dtype=object) for name, places in drawn.items()}


def released(data, adjacency="add-remove", **options):
    """The reader of a description of these data, before anything is read."""
    plan = Contents.of(SCHEMA, options.get("groups"), True, True, None)
    budget, parts = plan.budget(1.0, 1e-6, adjacency)
    return Releases(plan, open_table(data), budget, parts, SystemBits())


def sums(data, which, middle=None, half=None):
    """The exact weighted sums of one grouping."""
    reader = released(data)
    middle, half = np.zeros(D) if middle is None else middle, np.ones(D) if half is None else half
    ((total,),) = reader._passed(reader._sums_of([which], middle, half))
    raw = [[Fraction(int(x)) for x in row] for row in total.integers().tolist()]
    weights = [COUNT_WEIGHT] + [Fraction(1)] * D + [Fraction(1, 2**15)] * D + [SQUARE_WEIGHT / 2**30] * D
    return np.array([[x * w for x, w in zip(row, weights, strict=True)] for row in raw], dtype=object)


@pytest.mark.parametrize("which", [0, 1])
def test_no_record_moves_sums_further_than_the_theorem_says(which):
    """thm:describe, both adjacencies, for records at the ends of their ranges and for missing cells."""
    middle, half = np.array([0.2, -0.5, 0.0, 0.1]), np.array([0.3, 0.5, 1.0, 0.9])
    each = [sums({k: v[i : i + 1] for k, v in records(60).items()}, which, middle, half) for i in range(60)]
    alone = max((one**2).sum() for one in each)
    cells = 1 if which == 0 else 5
    assert alone <= squared_reach("sums", D, "add-remove", cells=cells)
    apart = max(((one - other) ** 2).sum() for one in each for other in each)
    assert apart <= squared_reach("sums", D, "replace-one", cells=cells)


def test_the_bounds_are_attained():
    low = {"age": [0], "cost": [0], "ward": ["A"], "smoker": [False], "life": [-1]}
    high = {"age": [100], "cost": [10], "ward": ["A"], "smoker": [True], "life": [1]}
    elsewhere = {**low, "ward": ["B"]}
    assert (sums(low, 0) ** 2).sum() == squared_reach("sums", D, "add-remove")
    assert ((sums(low, 0) - sums(high, 0)) ** 2).sum() == squared_reach("sums", D, "replace-one", cells=1)
    moved = ((sums(low, 1) - sums(elsewhere, 1)) ** 2).sum()
    assert moved == 2 * squared_reach("sums", D, "add-remove") <= squared_reach("sums", D, "replace-one")


def test_sums_of_records_are_the_sums_of_records_read_alone(tmp_path):
    data = records(200)
    alone = sum(sums({k: v[i : i + 1] for k, v in data.items()}, 1) for i in range(200))
    assert (sums(data, 1) == alone).all()
    order = np.random.default_rng(2).permutation(200)
    assert (sums({k: v[order] for k, v in data.items()}, 1) == alone).all()


def test_files_and_frames_give_the_same_sums(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.0, 50.0, None], "cost": [2.0, 3.0, 4.0], "ward": ["A", None, "C"]})
    frame = frame.assign(smoker=[True, False, True], life=[0.1, 0.2, 0.3])
    frame.to_csv(tmp_path / "t.csv", index=False)
    whole = sums(frame, 1)
    table = open_table(tmp_path / "t.csv", header=True)
    assert (sums(table, 1) == whole).all()


def test_all_releases_together_are_one_certified_composition():
    for adjacency in ("add-remove", "replace-one"):
        d = ndis.describe(records(300), schema=SCHEMA, epsilon=1.0, delta=1e-6, adjacency=adjacency)
        plan = d.plan
        budget, parts = plan.budget(1.0, 1e-6, adjacency)
        assert budget.profile().certify(1.0).upper <= 1e-6
        noise = d.receipt.parameters["noise"]
        shift = Fraction(0)
        for name in parts:
            cells = len(plan.labels(plan.groupings[int(name[5:])])) if name.startswith("sums") else 2
            shift += squared_reach(name.partition(" ")[0], D, adjacency, cells=cells) / Fraction(noise[name]) ** 2
        bound, constant, weight = map(Fraction, d.values["matrix"].tolist())
        joint = bound**2 + constant**2 + weight**2 * (1 + Fraction(1, 10**9))
        shift += joint**2 * (1 if adjacency == "add-remove" else 2) / Fraction(noise["gram"]) ** 2
        exact = budget.profile().pair.shift if hasattr(budget.profile(), "pair") else None
        assert exact is None or math.isclose(math.sqrt(shift), abs(float(exact)), rel_tol=1e-6)
        assert math.isclose(math.sqrt(shift), budget.shift, rel_tol=1e-6)


def test_the_tail_of_norms_is_guessed_from_counts_only():
    edges = 2.0 ** (0.5 * np.arange(8))
    light = np.array([10.0, 500.0, 300.0, 2.0, -3.0, 1.0, 0.0, -2.0, 1.0])
    heavy = light + np.array([0, 0, 0, 90.0, 30.0, 10.0, 3.0, 1.0, 0])
    lost = []
    for counts in (light, heavy):
        values = {"norm edges": edges, "norms": counts, "centre": np.zeros(1), "spread": np.full(1, 0.1)}
        squares, rows, chances = long_rows(values, 5.0)
        lost.append(chances @ rows @ np.maximum(squares - 4.0, 0.0))
    assert lost[1] > 5 * lost[0] > 0


def test_no_law_has_a_row_that_ranges_do_not_allow():
    edges = 2.0 ** (0.5 * np.arange(9))
    counts = np.array([10.0, 500.0, 300.0, 60.0, 30.0, 10.0, 5.0, 2.0, 9.0, 5.0])
    values = {"norm edges": edges, "norms": counts, "centre": np.array([0.2, 0.0]), "spread": np.array([0.1, 0.5])}
    squares, rows, chances = long_rows(values, 5.0)
    assert squares.max() <= 12.0**2 + 2.0**2 + 1e-9
    assert np.isclose(chances.sum(), 1.0)
    assert np.allclose(rows.sum(axis=1), rows[0].sum(), rtol=0.2)  # every law has all rows


def test_laws_with_a_few_far_away_hold_what_the_noise_may_hide():
    """Half to two standard deviations of the noise more than a bin shows, in each of the bins of the tail."""
    edges, counts = 2.0 ** (np.arange(10) / 2), np.r_[0.0, 900.0, 80.0, 20.0, 0.0, 0.0, 30.0, 0.0, 0.0, 0.0, 0.0]
    start, count, smooth, _ = tails(edges, counts, 5.0)
    same, also, laws, fits = tails(edges, counts, 5.0, far=True)
    weights = np.exp(fits - logsumexp(fits))
    assert (same, also) == (start, count)
    assert len(laws) == len(smooth) + 4 * (len(counts) - start - 1)
    assert np.all(np.diff(laws, axis=1) <= 1e-12)
    assert weights[len(smooth) :].sum() > 0.95  # no smooth law has 30 there
    at = 4 * (5 - start)
    assert count * float(weights @ (laws[:, at] - laws[:, at + 4])) > 20.0


def test_no_task_holds_the_table(monkeypatch):
    """What travels to the workers of dask has public values only: a marked cell is in none of it."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    cloudpickle, partitions = pytest.importorskip("cloudpickle"), ndis.data.dask.Partitions
    reduced, tasks = partitions.reduced, []

    def noted(self, each, join):
        tasks.extend(cloudpickle.dumps(one) for one in (each, join))
        return reduced(self, each, join)

    monkeypatch.setattr(partitions, "reduced", noted)
    frame = pd.DataFrame({"age": 1.0, "ward": [1] * 9 + [2], "note": ["x"] * 9 + ["a marked cell"]})
    schema = ndis.Schema({"age": (0, 100), "ward": [1, 2]})
    with pytest.importorskip("dask").config.set(scheduler="synchronous"):
        ndis.describe(dd.from_pandas(frame, npartitions=2), schema=schema, epsilon=1.0, delta=1e-6)
    assert len(tasks) == 6
    assert not any(b"a marked cell" in task for task in tasks)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"groups": ["age"]}, "groups"),
        ({"groups": [("ward", "smoker"), ("smoker", "ward")]}, "groups"),
        ({"groups": [()]}, "groups"),
        ({"groups": [("ward", "ward")]}, "groups"),
        ({"shares": {"means": -1.0}}, "shares"),
        ({"shares": {"other": 1.0}}, "shares"),
        ({"shares": {"matrix": 1e-17}}, "shares"),
        ({"shares": {"means": 1e308, "groups": 1e308}}, "shares"),
        ({"shares": {"means": "x"}}, "shares"),
        ({"groups": [("ward", ["smoker"])]}, "groups"),
        ({"adjacency": "both"}, "adjacency"),
    ],
)
def test_bad_options_are_refused_by_name(options, name):
    with pytest.raises(ParameterError) as caught:
        ndis.describe(records(3), schema=SCHEMA, epsilon=1.0, delta=1e-6, **options)
    assert caught.value.name == name


@pytest.mark.parametrize("count", [0, 1])
def test_tables_of_no_and_one_record_are_described_like_others(count):
    d = ndis.describe(records(count), schema=SCHEMA, epsilon=1.0, delta=1e-6)
    assert [len(one.index) > 0 for one in d.tables()] == [True] * 6
    assert "A table in numbers" in d.to_html()
    with pytest.raises(ParameterError, match="noise does not hide"):
        d.compare("age", by="ward")


WRONG = (
    None, True, 1.5, -3, "word", b"bytes", ["word"], [[1]], {}, {"means": "x"}, {1: 2}, {"ward"}, ("ward", 3), 1j,
    object(), np.zeros(3), np.zeros((2, 2)),
)  # fmt: skip
RIGHT = {
    "epsilon": (1.5,), "groups": (None,), "quantiles": (True,), "matrix": (True,), "shares": (None, {}),
    "columns": (None,), "progress": (None, True), "random_state": (None,), "ledger": (None,), "slot": (None,),
}  # fmt: skip


@pytest.fixture(scope="module")
def functions():
    schema = ndis.Schema({"age": (0, 100), "ward": ["A", "B"]}, target=("cost", 0, 9))
    table = {"age": np.arange(200.0) % 90, "ward": np.tile(["A", "B"], 100), "cost": np.arange(200.0) % 9}
    model = ndis.learn.PrivateLinearRegression(epsilon=1.0, schema=schema).fit_data(table)
    asked = {"data": table, "epsilon": 1.0, "delta": 1e-6}
    return {ndis.describe: {**asked, "schema": schema}, ndis.learn.score_privately: {**asked, "model": model}}


@pytest.mark.parametrize("which", [0, 1])
def test_every_argument_of_a_wrong_type_is_refused_by_its_name(functions, which):
    """The rule: whatever argument a function gets, it takes it or says by its name what is allowed."""
    function, asked = list(functions.items())[which]
    for name in inspect.signature(function).parameters:
        for value in WRONG:
            if any(type(value) is type(right) and value == right for right in RIGHT.get(name, ())):
                continue
            if name == "header" and value is True:
                continue  # a table in memory has no header: another rule
            with pytest.raises(ParameterError) as caught:
                function(**{**asked, name: value})
            assert name in caught.value.name, (name, value, caught.value)


def test_the_share_of_a_split_is_a_number():
    for value in (*WRONG[:2], *WRONG[4:], math.nan):
        with pytest.raises(ParameterError, match="share must"):
            ndis.learn.split_records({"age": np.arange(4)}, value)
