"""A step with a public label: a composition is the mean over the numbers of steps with each label."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from ndis.accountant.composition import Composition
from ndis.accountant.floats import FloatComposition, find_saddle, integrate
from ndis.accountant.laws.labelled import TruncatedStep
from ndis.errors import PrecisionError


def composition(size, steps, order="remove", *, noise=1.0, rate=0.005, records=50_000):
    return Composition([(TruncatedStep(noise, rate, size, records).law(order), steps)], order)


@pytest.mark.parametrize(("size", "delta"), [(345, 1e-8), (400, 1e-10)])
def test_a_rare_label_that_counts_has_an_epsilon(size, delta):
    """Six and nine standard deviations above the mean: a batch that is cut is rare, and δ is as small as its chance."""
    run = ndis.DPSGD(
        noise_multiplier=1.0, sampling="truncated", sampling_rate=0.005, max_batch_size=size, records=50_000, steps=200
    )
    epsilon = run.epsilon(delta)
    assert run.delta(epsilon) <= delta < run.delta(epsilon * (1.0 - 1e-6))
    assert run.profile().certify(epsilon).upper == pytest.approx(delta, rel=0.03)
    assert epsilon > ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.005, steps=200).epsilon(delta)


@pytest.mark.parametrize(("size", "epsilon"), [(345, 2.0), (345, 3.0), (400, 1.0), (400, 3.0)])
def test_floats_lie_in_the_certificate(size, epsilon):
    one = composition(size, 200)
    (value,), _ = one.floats.log_delta(np.array([epsilon]))
    assert math.exp(value) in one.certify(epsilon, 1e-6)


def test_many_epsilons_with_epochs_of_allocation_are_those_of_single_ones():
    """A density table of epochs comes first for many ε. It held one label only: a third of δ at ε = 3."""
    step = ndis.PrivacyProfile.from_truncated_poisson(
        noise_multiplier=1.0, sampling_rate=0.5, max_batch_size=1, records=3
    )
    run = step.repeat(5).compose(ndis.PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10))
    epsilon = np.linspace(0.2, 6.0, 12)
    single = step.repeat(5).compose(ndis.PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10))
    assert run.delta(epsilon)[5] == pytest.approx(single.delta(float(epsilon[5])), rel=1e-7)


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(("size", "steps"), [(345, 200), (280, 20), (250, 10), (200, 20)])
def test_the_mean_over_labels_is_the_contour_of_both(size, steps, order):
    floats = composition(size, steps, order).floats
    epsilon = np.array([0.2 * min(floats.most, 1.0)])
    (value,), (slope,), (error,) = floats._by_labels(epsilon, 0)
    saddle = find_saddle(floats, floats.mean - float(epsilon[0]))
    (want,), (fall,), (estimate,) = integrate(floats, epsilon, 0, saddle)
    assert abs(value - want) <= error + estimate < 1e-6
    assert slope == pytest.approx(fall, rel=1e-3)


@pytest.mark.parametrize(("size", "steps"), [(345, 200), (250, 10), (250, 39), (200, 1000)])
def test_the_chances_of_labels_add_up_to_one(size, steps):
    law = composition(size, steps).parts[0][0]
    ways = law.labels(steps)
    assert math.fsum(math.exp(log_p) for log_p, _ in ways) == pytest.approx(1.0, abs=1e-12)
    assert [log_p for log_p, _ in ways] == sorted((log_p for log_p, _ in ways), reverse=True)
    assert all(sum(n for _, n in parts) == steps for _, parts in ways)
    assert law.labels(10**6 if size == 250 else steps) == [] or size != 250


def test_labels_that_are_left_out_count_as_an_error(monkeypatch):
    floats, epsilon = composition(250, 10).floats, np.array([0.5])
    whole = floats._by_labels(epsilon, 0)[0]
    monkeypatch.setattr("ndis.accountant.floats._MOST_LABELS", 3)
    (value,), _, (error,) = floats._by_labels(epsilon, 0)
    assert value < whole[0] <= np.logaddexp(value, value + math.log(error))


@pytest.mark.parametrize("start", [0.5, 0.7])
def test_where_floats_refuse_certificates_give_an_epsilon(monkeypatch, start):
    """An ε exists for every δ > 0, so no sampler ends without one if its certificate knows an upper bound."""

    def refuse(*_, **__):
        raise PrecisionError("floats know nothing")

    one = composition(345, 200)
    want = one.smallest_epsilon(1e-6, start)
    monkeypatch.setattr(FloatComposition, "epsilon", refuse)
    monkeypatch.setattr(FloatComposition, "log_delta", refuse)
    epsilon = one.smallest_epsilon(1e-6, start)
    assert want <= epsilon <= 1.01 * want
    assert one.certify(epsilon, 1e-6).upper <= 1e-6


def test_certificates_that_know_nothing_are_a_lack_of_precision(monkeypatch):
    """With epochs of allocation next to cut batches every certificate was 1, and the error said that δ is no budget."""
    monkeypatch.setattr(Composition, "certify", lambda *_: ndis.Enclosure(0.0, 1.0))
    with pytest.raises(PrecisionError, match=r"no epsilon has a certificate for delta = 1e-06"):
        composition(345, 200).certified_epsilon(1e-6)


@pytest.mark.parametrize(
    ("noise", "rate", "size", "records", "steps", "delta"),
    [(9.5708, 1.17766e-5, 52, 4_945_490, 136, 6.3e-7), (0.55138, 2.999e-4, 25, 21_565, 396, 4.7e-22)],
)
def test_no_table_takes_one_label_for_all(noise, rate, size, records, steps, delta):
    """The law of a labelled step has no density of its own, and that of one label is not its density."""
    one = composition(size, steps, noise=noise, rate=rate, records=records)
    assert one.parts[0][0].density("remove", 40.0) is None
    epsilon = np.array([3.4672e-5 if delta > 1e-10 else 55.468])
    (value,), _ = one.floats.log_delta(epsilon)
    assert math.exp(value) in one.certify(float(epsilon[0]), 1e-6)
    assert math.isinf(one.floats._by_sums(epsilon, 0)[2][0])
