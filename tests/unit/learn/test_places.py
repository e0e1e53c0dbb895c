"""The place of a column: most records may share one value, and the others lie far from it."""

import math

import numpy as np
import pytest

import ndis
from ndis.learn._releases import _seen, shortened


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
