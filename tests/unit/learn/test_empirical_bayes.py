"""The solver of the rounds, which sees released values only: combination of rounds, shrinkage, clips, inference."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ndis.learn._clips import EDGES, FINE_EDGES, LastClips, last_clips, next_clip, tail
from ndis.learn._coordinates import nearer
from ndis.learn._linear_regression import LastRound, fit_rounds
from ndis.learn._solver import Preconditioner, Round, biased, combined, posterior_mean, unshrunk


@pytest.fixture
def problem():
    rng = np.random.default_rng(1)
    x = np.c_[rng.normal([0.0, 0.5, 0.0], size=(2000, 3)), np.full(2000, 0.5)]
    y = x @ np.array([[0.5], [-0.3], [0.0], [1.0]]) + 0.1 * rng.normal(size=(2000, 1))
    return x, y, x.T @ x, np.linalg.lstsq(x, y, rcond=None)[0]


class TestPrediction:
    def test_weights_add_up_to_one_and_are_inverse_variances_at_one_point(self):
        weights, away = combined(np.zeros((3, 2)), np.array([1.0, 2.0, 4.0]), np.zeros(3), np.zeros(2), scale=5.0)
        np.testing.assert_allclose(weights, np.array([4, 2, 1]) / 7)
        assert away == 0.0

    def test_a_far_round_counts_less_and_the_error_is_right(self):
        rng = np.random.default_rng(0)
        theta, at = rng.normal(size=(3, 4)), rng.normal(size=4)
        variances, bias = np.array([0.5, 1.0, 2.0]), np.array([0.0, 0.8, 1.5])
        weights, away = combined(theta, variances, bias, at, scale=0.7)
        assert weights.sum() == pytest.approx(1.0)
        gap = weights @ theta - at  # the error of the prediction is gap·E + noise
        assert away == pytest.approx(gap @ gap)
        error = 0.7 * away + weights**2 @ variances + (weights @ bias) ** 2
        for _ in range(20):  # no other combination is better
            other = weights + 0.1 * (rng.normal(size=3) @ (np.eye(3) - 1 / 3))
            gap = other @ theta - at
            assert 0.7 * gap @ gap + other**2 @ variances + (other @ bias) ** 2 >= error

    @pytest.mark.parametrize("share", [0.02, 0.32])
    def test_rounds_that_differ_tell_by_how_much_clips_biased_them(self, share):
        """Seven rounds: the first six are biased alike, each by a share of what its clip took."""
        rng, found = np.random.default_rng(1), []
        taken = np.array([90.0, 60, 50, 80, 70, 40, 0])
        for _ in range(40):
            theta = rng.normal(size=(7, 8)) * 0.1
            bias = share * taken[:, None] * rng.normal(size=8)
            measured = 500.0 + bias + rng.normal(0.0, 2.0, (7, 8))
            found.append(biased(theta, measured, np.full(7, 4.0), taken, scale=1e-9))
        assert 0.7 < np.median(found) / share < 1.5


class TestPosterior:
    def test_one_exact_round_gives_least_squares(self, problem):
        x, y, gram, best = problem
        matrix = Preconditioner.of(gram, noise=1e-6, constant=True)
        found = posterior_mean([Round(np.zeros((4, 1)), x.T @ y, noise=1e-6)], matrix)
        np.testing.assert_allclose(found, best, atol=1e-5)

    def test_apply_is_the_matrix(self, problem):
        gram = problem[2]
        theta = np.random.default_rng(0).normal(size=(5, 4, 2))
        for constant in (False, True):
            matrix = Preconditioner.of(gram, noise=1e-9, constant=constant)
            np.testing.assert_allclose(matrix.apply(theta), gram @ theta, rtol=1e-9)

    def test_rounds_correct_an_error_of_the_matrix(self, problem):
        x, y, gram, best = problem
        rng = np.random.default_rng(3)
        noise = 40.0
        error = rng.normal(size=(4, 4)) * noise / np.sqrt(2)
        matrix = Preconditioner.of(gram + (error + error.T) / np.sqrt(2), noise=noise, constant=True)
        theta, rounds, misses = np.zeros((4, 1)), [], []
        for _ in range(6):
            rounds.append(Round(theta, x.T @ (y - x @ theta), noise=0.01))
            theta = posterior_mean(rounds, matrix)
            misses.append(np.abs(theta - best).max())
        assert misses[-1] < 0.01 * misses[0]

    def test_noise_only_is_the_centre(self):
        matrix = Preconditioner.of(np.diag([900.0] * 5 + [250.0]), noise=1.0, constant=True)
        rng = np.random.default_rng(0)
        found = [
            posterior_mean(
                [Round(np.zeros((6, 1)), np.r_[rng.normal(size=5) * 10, 100.0][:, None], noise=10.0)], matrix
            )
            for _ in range(200)
        ]
        away = np.mean([bool(theta[:5].any()) for theta in found])
        assert away < 0.15
        assert all(theta[5] == pytest.approx(0.4, abs=0.15) for theta in found)

    def test_targets_do_not_touch_each_other(self, problem):
        x, y, gram, _ = problem
        matrix = Preconditioner.of(gram, noise=1.0, constant=True)
        two = np.c_[y, 5 - y]
        both = posterior_mean([Round(np.zeros((4, 2)), x.T @ two, noise=3.0)], matrix)
        for j in range(2):
            one = posterior_mean([Round(np.zeros((4, 1)), x.T @ two[:, [j]], noise=3.0)], matrix)
            np.testing.assert_allclose(both[:, [j]], one)


class TestClip:
    def test_tail_is_what_a_clip_takes(self):
        rng = np.random.default_rng(0)
        lengths = rng.uniform(0, 2, 100_000)
        counts = np.diff(np.searchsorted(np.sort(lengths), [0.0, *EDGES, np.inf]))
        assert tail(counts.astype(float), 0.5) == pytest.approx(np.maximum(lengths - 0.5, 0).sum(), rel=0.1)

    def test_more_noise_means_a_smaller_clip(self):
        counts = np.diff(
            np.searchsorted(np.sort(np.random.default_rng(0).exponential(0.3, 5000)), [0.0, *EDGES, np.inf])
        )
        chosen = [next_clip(counts.astype(float), entries=10, shift=s, weight=0.15) for s in (0.01, 0.1, 1.0, 10.0)]
        assert chosen == sorted(chosen)
        assert chosen[0] < 0.4 < 2.0 <= chosen[-1]

    def test_negative_counts_are_none(self):
        assert tail(np.full(len(EDGES) + 1, -5.0), 0.1) == 0.0

    @pytest.mark.parametrize("power", [3.0, 6.0])
    def test_the_last_clip_counts_terms_that_the_noise_hides(self, power):
        """Lengths fall like a power. What the clip takes is estimated within a small factor, though no bin shows it."""
        lengths = 0.05 * np.random.default_rng(0).pareto(power, 5000)
        counts = np.diff(np.searchsorted(np.sort(lengths), [0.0, *FINE_EDGES, np.inf])).astype(float)
        noise = 20.0
        noisy = counts + noise * np.random.default_rng(1).normal(size=len(counts))
        found = last_clips(noisy, noise, entries=5, shift=0.14, square_noise=noise)
        lost = np.maximum(lengths - found.clip, 0.0).sum()
        assert lost / 2 < np.sqrt(found.taken) < 10 * lost + noise
        squares = [(np.minimum(lengths, clip) ** 2).sum() for clip in (found.clip, found.squares)]
        assert found.grown == pytest.approx(squares[0] / squares[1], rel=0.3)

    def test_the_last_clip_lies_on_a_fine_grid(self):
        lengths = np.abs(np.random.default_rng(0).normal(size=20_000)) * 0.2
        chosen = []
        for scale in np.linspace(1.0, 2.0, 9):
            counts = np.diff(np.searchsorted(np.sort(scale * lengths), [0.0, *FINE_EDGES, np.inf])).astype(float)
            chosen.append(last_clips(counts, 5.0, entries=5, shift=0.14, square_noise=5.0).clip / scale)
        assert max(chosen) < 1.4 * min(chosen)
        assert len(set(chosen)) >= 5

    @pytest.mark.parametrize("records", [1500, 5000, 100_000])
    def test_what_the_last_clip_may_take_is_a_small_part_of_the_variance(self, records):
        """Otherwise an interval would be too long where terms point either way, and too short where they do not."""
        lengths = np.abs(np.random.default_rng(0).normal(size=records)) * 0.2
        counts = np.diff(np.searchsorted(np.sort(lengths), [0.0, *FINE_EDGES, np.inf])).astype(float)
        noisy = counts + 20.0 * np.random.default_rng(1).normal(size=len(counts))
        found = last_clips(noisy, 20.0, entries=5, shift=0.14, square_noise=20.0)
        assert found.taken <= 0.25 * (5 * (found.clip / 0.14) ** 2 + (lengths**2).sum())
        assert found.squares <= found.clip

    def test_a_noisy_matrix_is_nearer_by_as_much_as_may_be_noise(self):
        rng, centre = np.random.default_rng(0), 100.0 * np.eye(3)
        far = np.diag([200.0, 50.0, 50.0])
        for truth, better in ((centre, 2.0), (far, 0.99)):
            missed = np.zeros(2)
            for _ in range(200):
                e = rng.normal(size=(3, 3)) * 20.0 / np.sqrt(2)
                noisy = truth + (e + e.T) / np.sqrt(2)
                missed += [((noisy - truth) ** 2).sum(), ((nearer(noisy, centre, 20.0)[0] - truth) ** 2).sum()]
            assert missed[0] > better * missed[1]


class TestInference:
    def test_covariance_is_that_of_the_estimate(self):
        """Over 4000 draws a variance has a relative standard deviation of 2.2 %: 12 % is over five of them."""
        rng = np.random.default_rng(0)
        gram = 500 * np.array([[1.0, 0.3], [0.3, 0.5]])
        truth, theta, noise, s = np.array([0.5, -0.2]), np.array([[0.3], [0.1]]), 4.0, 6.0
        found = []
        for _ in range(4000):
            best = truth + np.linalg.cholesky(0.2**2 * np.linalg.inv(gram)) @ rng.normal(size=2)
            e = rng.normal(size=(2, 2)) * s / np.sqrt(2)
            noisy = gram + np.triu(e) + np.triu(e, 1).T + np.diag(np.diag(e)) * (np.sqrt(2) - 1)
            total = (gram @ (best - theta[:, 0]) + noise * rng.normal(size=2))[:, None]
            released = {"terms": 0.2**2 * gram[None], "term_noise": 0.1, "records": 1000.0}
            found.append(unshrunk(theta, total, noisy, own=noise**2 * np.eye(2), noise=s, **released))
        errors = np.array([f.theta[:, 0] - truth for f in found])
        claimed = np.mean([f.covariance[0] for f in found], axis=0)
        np.testing.assert_allclose(np.diagonal(claimed), errors.var(axis=0), rtol=0.12)
        assert np.mean([f.residual_variance[0] for f in found]) == pytest.approx(0.04, rel=0.12)

    def test_errors_of_equal_variance(self):
        gram, terms = np.diag([400.0, 100.0]), np.diag([400.0, 900.0])[None]
        given = {"own": 1e-4 * np.eye(2), "noise": 0.01, "terms": terms, "term_noise": 1.0, "records": 1e6}
        robust, equal = (
            unshrunk(np.zeros((2, 1)), np.ones((2, 1)), gram, robust=robust, **given).errors()[0]
            for robust in (True, False)
        )
        np.testing.assert_allclose(robust, [0.05, 0.3], rtol=1e-3)
        np.testing.assert_allclose(equal, np.sqrt(1300 / 500 / np.array([400.0, 100.0])), rtol=1e-3)

    def test_own_noise_of_any_shape_is_in_the_interval(self):
        gram = np.diag([400.0, 100.0])
        given = {"noise": 0.01, "terms": gram[None], "term_noise": 1.0, "records": 1e6}
        plain, noisy = (
            unshrunk(np.zeros((2, 1)), np.ones((2, 1)), gram, own=np.diag(own), **given).errors()[0]
            for own in ([0.0, 0.0], [900.0, 100.0])
        )
        np.testing.assert_allclose(noisy**2 - plain**2, [900.0 / 400.0**2, 100.0 / 100.0**2], rtol=1e-2)

    def test_nothing_is_known_where_all_is_hidden(self):
        given = {"own": np.eye(2), "terms": np.eye(2)[None], "term_noise": 1.0}
        for noise, records in ((5.0, 10.0), (0.1, 0.0)):  # noise in the matrix, or no records
            found = unshrunk(
                np.zeros((2, 1)), np.ones((2, 1)), np.diag([2.0, 2.0]), noise=noise, records=records, **given
            )
            assert np.isinf(found.covariance).all()
            assert found.hidden == 2
            assert np.isinf(found.in_units((np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros((2, 1)))).covariance).all()


class Scripted:
    """Rounds of exact sums, without noise."""

    targets, constant, longest, farthest_target = 1, True, 5.0, 3.0
    budget = SimpleNamespace(sum_shares=(0.1,) * 6, matrix_shares=(0.1,) * 4, count_shares=(0.02, 0.0))

    def __init__(self, x, y):
        self.x, self.y, self.clips = x, y, []

    def settle(self):
        return self.x.T @ self.x, 1e-3

    def records(self):
        return float(len(self.x))

    def shift(self, index):
        return 1e6

    def round(self, index, theta, terms):
        clip = terms.clips.clip / self.longest
        residuals = self.y - self.x @ theta
        lengths = np.linalg.norm(self.x, axis=1) * np.abs(residuals[:, 0]) / self.longest
        self.clips.append(clip)
        terms = self.x * residuals * np.minimum(1, clip / np.maximum(lengths, 1e-300))[:, None]
        edges = np.concatenate([[-1.0], np.array(EDGES), [np.inf]])
        counts = np.diff(np.searchsorted(np.sort(lengths), edges, side="right")).astype(float)
        return terms.sum(axis=0)[:, None], clip / 1e6, counts, 1e-6

    def here_clipped(self, predictors, clip):
        return LastRound(None, np.eye(predictors), LastClips(clip, 0.0, 1e9, 1.0))

    def last_round(self, index, theta, shape):
        return LastRound(None, np.linalg.inv(shape), LastClips(1e9, 0.0, 1e9, 1.0))

    def squares(self, index, theta, last):
        terms = self.x @ np.linalg.inv(last.inverse).T * (self.y - self.x @ theta)
        return (terms.T @ terms)[None], 1e-6

    def total(self, index, theta, last):
        return self.x.T @ (self.y - self.x @ theta), 1e-6


class TestRounds:
    def test_find_least_squares_and_its_variances(self, problem):
        x, y, gram, best = problem
        data = Scripted(x, y)
        theta, estimate = fit_rounds(data)
        np.testing.assert_allclose(theta, best, atol=1e-4)
        np.testing.assert_allclose(estimate.theta, best, atol=1e-4)
        assert estimate.records == pytest.approx(2000)
        assert estimate.residual_variance[0] == pytest.approx(0.01, rel=0.1)
        residuals = x * (y - x @ best)
        inverse = np.linalg.inv(gram)
        sandwich = inverse @ residuals.T @ residuals @ inverse * 2000 / 1996
        np.testing.assert_allclose(np.diagonal(estimate.covariance[0]), np.diagonal(sandwich), rtol=0.02)

    def test_the_clip_changes_by_at_most_two(self, problem):
        data = Scripted(*problem[:2])
        fit_rounds(data)
        ratios = np.array(data.clips[1:]) / data.clips[:-1]
        assert (ratios <= 2.0 + 1e-12).all()
        assert (ratios >= 0.5 - 1e-12).all()


def test_terms_of_columns_with_records_far_away_may_be_larger_than_released():
    """By a share of the noise, and along these columns only; no entry of the diagonal becomes less than released."""
    released, noise, gram = np.diag([40.0, 40.0])[None], 10.0, np.diag([40.0, 40.0])
    clips = LastClips(1.0, 0.0, 1.0, 1.0)
    plain, doubted = (
        LastRound(None, np.eye(2), clips, np.array(doubt)).meat(released, noise, gram)["terms"][0]
        for doubt in ([0.0, 0.0], [0.5, 0.0])
    )
    np.testing.assert_allclose(plain, released[0])
    np.testing.assert_allclose(doubted, np.diag([45.0, 40.0]))
    louder = np.diag([90.0, 40.0])[None]
    assert LastRound(None, np.eye(2), clips).meat(louder, noise, gram)["terms"][0][0, 0] == pytest.approx(90.0)
