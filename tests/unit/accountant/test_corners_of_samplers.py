"""Corners of the laws by which batches are drawn: values that are almost 0, orders that differ, inputs far out."""

import math
import warnings

import pytest

import ndis
from ndis import GaussianPair, PrivacyProfile
from ndis.errors import ParameterError, PrecisionError


def _truncated(**options):
    return PrivacyProfile.from_truncated_poisson(noise_multiplier=1.0, **options)


def test_truncation_that_never_happens_is_poisson_sampling():
    truncated = _truncated(sampling_rate=1e-3, max_batch_size=1000, records=2000)  # P(N ≥ B) is below every float
    assert truncated.epsilon(1e-6) == pytest.approx(
        PrivacyProfile.from_noise_multiplier(1.0).subsampled(1e-3).epsilon(1e-6)
    )


def test_truncation_that_always_happens_takes_the_place_of_another_record():
    truncated = _truncated(sampling_rate=1 - 2**-53, max_batch_size=10, records=20)
    assert truncated.epsilon(1e-6) == pytest.approx(
        PrivacyProfile.from_noise_multiplier(0.5).subsampled(0.5).epsilon(1e-6)
    )


def test_small_chances_of_truncation_keep_their_digits():
    """1 − P(N ≥ B) was a difference of two numbers near 1."""
    step = _truncated(sampling_rate=0.8045694845140354, max_batch_size=8, records=155)
    assert step.delta(1.6, order="add") <= step.certify(1.6, order="add").upper * (1 + 1e-8) + 1e-90


def test_an_epoch_beside_much_noise_is_not_free():
    """The size of an epoch was 0, and so the composition counted as nothing."""
    epoch = PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=2)
    both = epoch.compose(PrivacyProfile.from_noise_multiplier(1e12))
    assert both.log_delta(10.0) == pytest.approx(epoch.log_delta(10.0), rel=1e-8)


@pytest.mark.parametrize(
    ("noise", "bins", "epochs"), [(1.0, 2, 1), (1.0, 10, 3), pytest.param(5.0, 1000, 1, marks=pytest.mark.sweep)]
)
def test_epochs_have_certificates_at_negative_epsilon(noise, bins, epochs):
    profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=bins, epochs=epochs)
    for order in ("remove", "worst"):
        box, value = profile.certify(-0.5, order=order), profile.delta(-0.5, order=order)
        assert box.lower * (1 - 1e-8) <= value <= box.upper * (1 + 1e-8)
        assert box.width <= 2e-6 * box.upper


def test_an_epoch_and_a_sketch_have_a_certificate():
    sketch = PrivacyProfile(GaussianPair.from_ratios(1.5, copies=3))
    both = PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10).compose(sketch)
    box = both.certify(1.0)
    assert box.lower * (1 - 1e-8) <= both.delta(1.0) <= box.upper * (1 + 1e-8)


@pytest.mark.parametrize("order", ["remove", "add", pytest.param("worst", marks=pytest.mark.sweep)])
def test_the_attained_end_is_of_the_order_asked_for(order):
    sketch = PrivacyProfile(GaussianPair.from_ratios(1.5, copies=3), adjacency="replace-one")
    steps = PrivacyProfile.from_fixed_size(noise_multiplier=2.0, batch_size=3, records=50).repeat(3)
    box = sketch.compose(steps).certify(1.5, order=order)
    assert 0.9 * box.upper < box.lower <= box.upper


def test_a_second_order_of_ones_own_is_not_dropped():
    """`subsampled` and `group` read the first pair only, and forgot a worse second one."""
    remove, add = PrivacyProfile.from_noise_multiplier(1.0).remove, GaussianPair.from_ratios(1.0, shift=3.0)
    with pytest.raises(ParameterError, match="adjacency"):
        PrivacyProfile(remove, add, adjacency="replace-one").subsampled(0.5)
    with pytest.raises(ParameterError, match="Poisson samples"):
        PrivacyProfile(remove, add).subsampled(0.5).group(2)


def test_a_mixture_that_always_moves_is_silent_and_exact():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = PrivacyProfile.from_mixture(noise_multiplier=1.0, sensitivities=[1.0], probabilities=[1.0])
        assert step.repeat(9).epsilon(1e-6) == pytest.approx(PrivacyProfile.from_noise_multiplier(1 / 3).epsilon(1e-6))


def test_mixtures_out_of_reach_are_refused_by_name():
    far = PrivacyProfile.from_mixture(noise_multiplier=1e-100, sensitivities=[0.0, 1.0], probabilities=[0.5, 0.5])
    many = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.001).group(1000)
    for profile in (far, many.repeat(2)):
        with pytest.raises(PrecisionError, match="out of reach"):
            profile.delta(1.0)


def test_groups_of_a_banded_matrix_that_do_not_divide_the_records():
    """100 records in 8 groups: the smallest has 12, so a mean batch of 6 is a rate of one half."""
    make = ndis.PrivacyProfile.from_banded_matrix
    training = make(noise_multiplier=1.0, bands=8, batch_size=6, records=100, steps=16)
    assert math.isclose(training.groups[0].rate, 0.5)
    with pytest.raises(ParameterError, match="batch_size"):
        make(noise_multiplier=1.0, bands=8, batch_size=13, records=100, steps=16)


@pytest.mark.parametrize(
    "options",
    [{"sampling": "allocation", "bins": 20, "epochs": 2}, {"sampling_rate": 0.05, "steps": 2, "examples_per_user": 3}],
)
def test_a_claim_of_delta_zero_is_refuted_for_every_sampler(options):
    """The audit asked for Gaussian pairs, which these steps do not have."""
    training = ndis.DPSGD(noise_multiplier=1.0, **options)
    report = ndis.audit(ndis.Claim(epsilon=3.0, delta=0.0), mechanism=training)
    assert report.refuted
    assert report.epsilon_refuted == math.inf


@pytest.mark.sweep
def test_upper_bounds_have_a_certified_mu():
    """Their certificates are wide, and the last place of the proof lay above the slack."""
    step = PrivacyProfile.from_truncated_poisson(
        noise_multiplier=1.0, sampling_rate=0.05, max_batch_size=8, records=100
    )
    steps = step.repeat(20)
    mu, slack = steps.gdp(1e-6)
    bound = PrivacyProfile.from_noise_multiplier(1.0 / mu)
    for order in ("remove", "add"):
        for epsilon in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
            assert steps.delta(epsilon, order=order) <= bound.delta(epsilon) + slack * (1 + 1e-9)


@pytest.mark.parametrize("order", [2, 32, 256])
def test_renyi_divergences_of_large_orders_see_the_whole_tail(order):
    """The window that cuts off a tail for δ also cut these down: 64 had far less than its 123.3 here."""
    q, sigma = 0.01, 0.5
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        + (order - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / (2 * sigma**2)
        for k in range(order + 1)
    ]  # fmt: skip
    top = max(terms)
    exact = (top + math.log(math.fsum(math.exp(t - top) for t in terms))) / (order - 1)
    step = PrivacyProfile.from_noise_multiplier(sigma).subsampled(q)
    assert step.repeat(3).renyi(float(order)) == pytest.approx(3 * exact, rel=1e-9)


def test_renyi_divergences_of_fixed_sizes_count_the_loss_zero():
    """They were negative for few steps, because δ(ε) at ε ≥ 0 does not need the loss 0."""
    step = PrivacyProfile.from_fixed_size(noise_multiplier=1.0, batch_size=5, records=100)
    one = step.renyi(2.0)
    assert 0.1381 < one < 0.1382
    assert step.repeat(3).renyi(2.0) == pytest.approx(3 * one)
