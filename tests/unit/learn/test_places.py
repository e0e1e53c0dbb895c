"""The place of a column: most records may share one value, and the others lie far from it."""

import math

import numpy as np
import pytest

import ndis
from ndis.learn._coordinates import NORM_EDGES, Coordinates, PublicRanges, _seen, with_far


def shared_value(records: float) -> np.ndarray:
    """Return the histogram of a column with four fifths of the records in one bin, and the others everywhere."""
    return np.full(64, 0.2 * records / 64) + np.eye(64)[24] * 0.8 * records


@pytest.mark.parametrize(("noise", "sure"), [(10.0, True), (20.0, True), (500.0, False)])
def test_records_that_no_bin_shows_count_in_a_spread_if_they_surely_are_there(noise, sure):
    middles = (np.arange(64) + 0.5) / 32 - 1.0
    _, spread = _seen(shared_value(10_000.0), noise, 10_000.0)
    truth = math.sqrt(0.2 * np.mean((middles - middles[24]) ** 2))
    assert (spread == pytest.approx(truth, rel=0.1)) == sure
    assert sure or spread < truth / 4  # the noise hides them: the spread stays that of the value


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_puts_no_records_far_away(seed):
    counts = np.eye(64)[24] * 10_000.0 + np.random.default_rng(seed).normal(0.0, 100.0, 64)
    assert _seen(counts, 100.0, 10_000.0)[1] < 0.05


@pytest.mark.parametrize("seed", range(20))
def test_a_column_with_records_far_away_has_them_within_the_reach(seed):
    """Its scale follows from the norms of rows; those of other columns hardly change."""
    rng = np.random.default_rng(seed)
    p, most = int(rng.integers(2, 9)), 4.0
    far, share = 10.0 ** rng.uniform(1.5, 2.5), rng.uniform(0.02, 0.1)
    rows = rng.normal(size=(20_000, p))
    rows[:, 0] = np.where(rng.random(20_000) < share, far, rng.normal(size=20_000))
    reach = np.append(2.0 * far, np.full(p - 1, 6.0))  # how far ranges go, in spreads
    here = Coordinates(np.diag(reach), np.zeros(p), np.zeros(1), 1.0)
    public = PublicRanges(1.0, 9.0, 1.0, np.zeros(p), np.zeros(1), (None,) * p, centred=True)
    edges = np.array([0.0, *NORM_EDGES, np.inf]) * math.sqrt(p)
    norms = np.histogram(np.linalg.norm(rows, axis=1), edges)[0] + rng.normal(0.0, 20.0, len(edges) - 1)
    found, away = with_far(here, norms, 20.0, public, most)
    factors = np.diagonal(found.matrix) / reach
    assert 0.5 * most < far * factors[0] < 1.5 * most
    assert away[0] == pytest.approx(1.0 / math.sqrt(share), rel=0.5)
    assert (factors[1:] > 0.7).all()
    assert not away[1:].any()


def test_a_rare_one_of_two_values_is_within_the_reach():
    """How far it is away follows from released counts, and no other column is scaled for it."""
    share = 0.005
    public = PublicRanges(1.0, 9.0, 1.0, np.zeros(2), np.zeros(1), ((-1.0, 1.0), None), centred=True)
    spread = 2.0 * math.sqrt(share * (1.0 - share))
    here = Coordinates(np.diag([1.0 / spread, 3.0]), np.array([2.0 * share - 1.0, 0.0]), np.zeros(1), 1.0)
    norms = np.zeros(len(NORM_EDGES) + 1)
    norms[[3, 4, 7]] = 12_000.0, 8000.0, 100.0
    found, away = with_far(here, norms, 10.0, public, 2.5)
    assert away.tolist() == [pytest.approx(1.0 / math.sqrt(share), rel=0.01), 0.0]
    assert (1.0 - here.centre[0]) * found.matrix[0, 0] == pytest.approx(2.5)
    assert found.matrix[1, 1] == pytest.approx(3.0, rel=0.01)


def rare_in_an_array() -> tuple[np.ndarray, np.ndarray, float]:
    """Rows with one rare value among four normal columns, within a bound, and targets."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(16_000, 5))
    x[:, 4] = ((rng.random(16_000) < 0.015) - 0.015) / 0.12
    x *= np.minimum(1.0, math.sqrt(5) / np.linalg.norm(x, axis=1))[:, None]
    return x, x @ [0.3, -0.2, 0.1, 0.0, 0.05] + rng.normal(size=16_000), math.sqrt(5)


@pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
def test_a_rare_value_in_an_array_spoils_no_fit_and_its_interval_holds():
    x, y, bound = rare_in_an_array()
    best, missed = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0], 0
    for seed in range(12):
        bounds = {"delta": 1e-6, "row_norm_bound": bound, "target_bound": 6.0}
        model = ndis.learn.PrivateLinearRegression(epsilon=1.0, **bounds, random_state=seed).fit(x, y)
        assert np.var(x @ (model.coef_ - best[:-1])) < np.var(x @ best[:-1])
        low, high = model.coef_interval(0.95)[4]
        missed += not low < 0.05 < high
    assert missed <= 2


@pytest.mark.parametrize("seed", [0, 1, 14])
@pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
def test_a_bound_far_beyond_the_rows_loses_no_fit(seed):
    """Every fourth fit was refused after its first releases: a row was too long next to the constant."""
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(size=400), "b": rng.choice(["N", "S"], 400), "t": rng.uniform(size=400)}
    schema = ndis.Schema({"a": (0, 1), "b": ["N", "S"]}, target=("t", 0, 1))
    wide = ndis.learn.PrivateLinearRegression(schema=schema, row_norm_bound=1e9, random_state=seed).fit(table)
    assert wide.receipt_.parameters["row_norm_bound"] == schema.row_norm_bound
