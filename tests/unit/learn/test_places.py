"""The place of a column: most records may share one value, and the others lie far from it."""

import math

import numpy as np
import pytest

import ndis
from ndis.learn._releases import PublicRanges, _seen, located, shortened


def shared_value(records: float) -> np.ndarray:
    """Return the histogram of a column with four fifths of the records in one bin, and the others everywhere."""
    return np.full(64, 0.2 * records / 64) + np.eye(64)[24] * 0.8 * records


@pytest.mark.parametrize(("noise", "counts"), [(100.0, True), (500.0, False)])
def test_bins_below_the_noise_count_in_a_spread_with_many_records(noise, counts):
    middles = (np.arange(64) + 0.5) / 32 - 1.0
    _, spread = _seen(shared_value(10_000.0), noise, 10_000.0)
    truth = math.sqrt(0.2 * np.mean((middles - middles[24]) ** 2))
    assert (spread == pytest.approx(truth, rel=0.1)) == counts
    assert counts or spread < truth / 4  # the noise of the sum is as large as the spread: it stays that of the value


def rare_in_an_array() -> tuple[np.ndarray, np.ndarray, float]:
    """Rows with one rare value among four normal columns, within a bound, and targets."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(16_000, 5))
    x[:, 4] = ((rng.random(16_000) < 0.015) - 0.015) / 0.12
    x *= np.minimum(1.0, math.sqrt(5) / np.linalg.norm(x, axis=1))[:, None]
    return x, x @ [0.3, -0.2, 0.1, 0.0, 0.05] + rng.normal(size=16_000), math.sqrt(5)


@pytest.mark.parametrize("noise", [30.0, 100.0, 300.0])
def test_a_column_whose_rare_value_the_noise_hides_makes_no_row_many_spreads_long(noise):
    """Rows were more than a hundred spreads long: the matrix clipped them, the sums did not, and estimates overshot."""
    x, _, bound = rare_in_an_array()
    counts = [np.histogram(column, 64, (-bound, bound))[0].astype(float) for column in x.T]
    bounds = {
        "farthest": bound,
        "row_bound": bound,
        "target_bound": 1.0,
        "values": (None,) * 5,
        "centred": True,
        "even": 0.5,
    }
    public = PublicRanges(**bounds, origin=np.zeros(5), target_origin=np.zeros(0))
    for seed in range(20):
        released = np.array(counts) + np.random.default_rng(seed).normal(0.0, noise, (5, 64))
        found = located(released, noise, public)
        assert np.abs((x - found.centre) @ found.matrix).max() < 16.0


@pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
def test_a_rare_value_in_an_array_spoils_no_fit():
    x, y, bound = rare_in_an_array()
    best = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0]
    for seed in range(12):
        bounds = {"delta": 1e-6, "row_norm_bound": bound, "target_bound": 6.0}
        model = ndis.learn.PrivateLinearRegression(epsilon=1.0, **bounds, random_state=seed).fit(x, y)
        assert np.var(x @ (model.coef_ - best[:-1])) < np.var(x @ best[:-1])


@pytest.mark.parametrize("seed", [0, 1, 14])
@pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
def test_a_bound_far_beyond_the_rows_loses_no_fit(seed):
    """Every fourth fit was refused after its first releases: a row was too long next to the constant."""
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(size=400), "b": rng.choice(["N", "S"], 400), "t": rng.uniform(size=400)}
    schema = ndis.Schema({"a": (0, 1), "b": ["N", "S"]}, target=("t", 0, 1))
    wide = ndis.learn.PrivateLinearRegression(schema=schema, row_norm_bound=1e9, random_state=seed).fit(table)
    assert wide.receipt_.parameters["row_norm_bound"] == schema.row_norm_bound


@pytest.mark.parametrize("seed", range(20))
def test_a_rare_value_makes_no_row_much_longer_and_short_rows_stay(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 8))
    rare = rng.random(p) < 0.5
    steps = rng.normal(size=(p, p)) * np.where(rare, 10.0 ** rng.uniform(0.0, 4.0, p), 0.1 / p)
    typical, most = 10.0 ** rng.uniform(-1.0, 1.0), rng.choice([0.0, 50.0])
    limit = max(typical * (2.0 * math.sqrt(p) + 1.0), most)
    root = shortened(steps, typical, most)
    assert ((root @ steps) ** 2).sum(axis=0).max() <= limit * (1 + 1e-6)
    assert np.linalg.norm(root, 2) <= 1 + 1e-6  # no row gets longer
    np.testing.assert_array_equal(shortened(steps[:, ~rare], typical, most), np.eye(p))


def test_a_row_is_shortened_at_any_scale():
    """A released matrix may be next to nothing in the coordinates of the last round."""
    steps = np.array([[1e9, 1.0, 1.0], [1e9, 0.0, 1.0]])
    for typical in (1e-20, 1e-300, 0.0):
        assert np.isfinite(shortened(steps, typical)).all()
