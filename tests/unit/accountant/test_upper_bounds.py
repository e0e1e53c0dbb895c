"""Profiles that are upper bounds: nobody is convicted by them, and they dominate nothing that they might not."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.accountant.floats import FloatComposition
from ndis.auditing.judge import exceeds
from ndis.dominance import dominates
from ndis.errors import ParameterError

FIXED = ndis.PrivacyProfile.from_fixed_size(noise_multiplier=1.0, batch_size=16, records=1000)
TRUNCATED = ndis.PrivacyProfile.from_truncated_poisson(
    noise_multiplier=1.0, sampling_rate=0.1, max_batch_size=12, records=100
)


STEPS = FIXED.repeat(128)


@pytest.fixture(scope="module")
def ends():
    return STEPS.bounds(1e-6)


def test_both_ends_of_batches_of_a_fixed_size(ends):
    """thm:fixed-size, with the ends that were computed by another program."""
    assert ends.lower == pytest.approx(10.858, abs=1e-3)
    assert ends.upper == pytest.approx(11.250, abs=1e-3)
    assert STEPS.epsilon(1e-6) == ends.upper


def test_one_step_is_attained():
    box = FIXED.certify(0.5)
    assert box.width <= 1e-9 * box.upper
    assert FIXED.bounds(1e-4).width <= 1e-8
    assert box.lower <= FIXED.delta(0.5) * (1 + 1e-12) <= box.upper * (1 + 2e-12)


@pytest.mark.parametrize("epsilon", [-0.7, 0.0, 0.7])
def test_one_step_in_closed_form(epsilon):
    """W·Q against Q, q = 0.016 at the distance 2, through the sampled mean shift of the same numbers."""
    one_sided = ndis.PrivacyProfile.from_noise_multiplier(0.5).subsampled(0.016)
    value = FIXED.delta(epsilon)
    other = "remove" if epsilon >= 0.0 else "add"
    assert value == pytest.approx(one_sided.delta(epsilon, order=other), rel=1e-9)


def test_the_lower_end_of_a_certificate_is_attained(ends):
    box = STEPS.certify(0.5 * (ends.lower + ends.upper))
    assert box.lower < 1e-6 < box.upper  # nobody is known to need this ε, and the guarantee promises no less
    assert STEPS.certify(ends.lower - 1e-3).lower > 1e-6


def test_truncated_batches_have_no_lower_end():
    assert TRUNCATED.repeat(10).certify(1.0).lower == 0.0
    assert TRUNCATED.repeat(10).bounds(1e-5).lower == 0.0
    assert not TRUNCATED.attained
    assert not FIXED.compose(FIXED).attained


def test_no_auditor_convicts_between_the_ends(ends):
    between, below = 0.5 * (ends.lower + ends.upper), ends.lower - 0.01
    assert exceeds(STEPS, "remove", between, 1e-6) is not True
    assert exceeds(STEPS, "remove", below, 1e-6) is True
    assert exceeds(TRUNCATED.repeat(3), "remove", 0.1, 1e-6) is not True


def test_steps_serve_equal_steps_only():
    assert dominates(FIXED.repeat(3), FIXED.repeat(2)).holds is True
    assert dominates(FIXED.repeat(2), FIXED.repeat(3)).holds is None
    poisson = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1)
    assert dominates(TRUNCATED, poisson).holds is None
    assert dominates(poisson, TRUNCATED).holds is None


def test_a_user_needs_poisson_samples_of_gaussian_noise():
    plain = ndis.PrivacyProfile.from_noise_multiplier(1.0)
    sketch = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.1)).subsampled(0.1)
    for profile in (plain, sketch, FIXED, TRUNCATED):
        with pytest.raises(ParameterError, match="Gaussian noise on Poisson samples"):
            profile.group(2)
    assert plain.group(1) is plain
    step = plain.subsampled(0.1)
    assert step.group(2).group(2).delta(0.3) == step.group(4).delta(0.3)  # two users with two examples each


def test_a_replaced_record_is_sampled_again_with_the_product_of_the_rates():
    """thm:replace-poisson."""
    release = ndis.PrivacyProfile.from_noise_multiplier(0.5, adjacency="replace-one")
    twice = release.subsampled(0.5).subsampled(0.2)
    assert twice.delta(0.3) == pytest.approx(release.subsampled(0.1).delta(0.3), rel=1e-12)
    assert twice.delta(0.3, order="remove") == pytest.approx(twice.delta(0.3, order="add"), rel=1e-12)
    assert release.subsampled(0.1).delta(0.3) < release.delta(0.3)
    with pytest.raises(ParameterError, match="from_noise_multiplier and subsampled"):
        ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.1), adjacency="replace-one").subsampled(0.1)


def test_helpers_by_name():
    """thm:strategy."""
    make = ndis.PrivacyProfile
    tree = make.from_tree_aggregation(noise_multiplier=4.0, steps=8)  # four nodes on each path
    assert tree.epsilon(1e-5) == pytest.approx(make.from_noise_multiplier(2.0).epsilon(1e-5), rel=1e-12)
    matrix = make.from_matrix(noise_multiplier=5.0, strategy=[[3.0, 0.0], [4.0, 1.0]])
    assert matrix.epsilon(1e-5) == pytest.approx(make.from_noise_multiplier(1.0).epsilon(1e-5), rel=1e-12)
    clipping = make.from_adaptive_clipping(noise_multiplier=2.0, count_noise=1.0)
    both = make.from_noise_multiplier(2.0).compose(make.from_noise_multiplier(2.0))
    assert clipping.epsilon(1e-5) == pytest.approx(both.epsilon(1e-5), rel=1e-12)
    assert clipping.certified_epsilon(1e-5) >= both.certified_epsilon(1e-5) * (1 - 1e-12)
    banded = make.from_banded_matrix(noise_multiplier=1.0, bands=3, batch_size=10, records=300, steps=10)
    assert (banded.groups[0].rate, banded.groups[0].count) == (0.1, 4)


def test_several_passes_of_a_strategy():
    """thm:strategy, 4: gradients of several passes that differ move the steps by no more than equal ones."""
    strategy = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
    largest = np.linalg.norm(strategy.sum(axis=1))
    rng = np.random.default_rng(0)
    turned = rng.normal(size=(2_000, 3, 2))
    turned /= np.maximum(1.0, np.linalg.norm(turned, axis=2, keepdims=True))
    assert np.all(np.linalg.norm(strategy @ turned, axis=(1, 2)) <= largest)
    exact = ndis.PrivacyProfile.from_noise_multiplier(2.0 / largest)
    shift = strategy @ np.ones(3) / 2.0  # the same gradient in every pass attains it
    pair = ndis.GaussianPair.from_diagonal(shift, np.ones(3), np.zeros(3), np.ones(3))
    assert pair.delta(1.0) == pytest.approx(exact.delta(1.0), rel=1e-12)


def test_a_pair_that_is_its_own_reverse_is_evaluated_once(monkeypatch):
    """Both orders of batches of a fixed size are one composition, so that no order is computed twice."""
    made = []
    evaluate = FloatComposition._evaluate
    monkeypatch.setattr(FloatComposition, "_evaluate", lambda self, e: made.append(self) or evaluate(self, e))
    steps = FIXED.repeat(3)
    assert steps.delta(0.5) == steps.delta(0.5, order="remove") == steps.delta(0.5, order="add")
    assert steps.epsilon(1e-5) == steps.epsilon(1e-5, order="remove")
    assert len(set(map(id, made))) == 1
    assert len({id(one) for one in TRUNCATED.repeat(3)._evaluators.values()}) == 2


def test_neighbours_that_attain_the_upper_bound_end_the_search(monkeypatch):
    tried = []
    attained = ndis._batches._attained
    monkeypatch.setattr("ndis._batches._attained", lambda *rest: tried.append(rest) or attained(*rest))
    steps = ndis.PrivacyProfile.from_fixed_size(noise_multiplier=1.0, batch_size=1, records=10_000).repeat(5)
    ends = steps.bounds(1e-8)
    assert len(tried) == 1
    assert ends.lower <= ends.upper <= 1.01 * ends.lower
