"""A few steps of every way to draw a batch have numbers: the densities of their losses add up where contours cancel."""

import math
from itertools import pairwise

import numpy as np
import pytest

from ndis import PrivacyProfile
from ndis.accountant import few
from ndis.accountant.densities import LossSums
from ndis.accountant.floats import FloatComposition, find_saddle, integrate
from ndis.accountant.laws.fixed_size import FixedSizeStep
from ndis.accountant.laws.labelled import TruncatedStep
from ndis.accountant.laws.mixture_steps import MixtureStep, SampledStep
from ndis.errors import NdisError, PrecisionError


def truncated(noise, rate, size, records):
    return PrivacyProfile.from_truncated_poisson(
        noise_multiplier=noise, sampling_rate=rate, max_batch_size=size, records=records
    )


def fixed(noise, size, records):
    return PrivacyProfile.from_fixed_size(noise_multiplier=noise, batch_size=size, records=records)


def mixture(noise, shifts, chances):
    return PrivacyProfile.from_mixture(noise_multiplier=noise, sensitivities=shifts, probabilities=chances)


def replaced(noise, rate):
    return PrivacyProfile.from_noise_multiplier(noise, adjacency="replace-one").subsampled(rate)


SMALL = [
    (truncated(1.0, 0.1, 12, 100), 3),
    (truncated(0.5, 0.3, 20, 100), 2),
    (fixed(1.0, 16, 1000), 2),
    (fixed(0.5, 1, 100), 3),
    (mixture(0.5, (0.0, 0.5, 3.0), (0.999, 0.0009, 0.0001)), 3),
    (replaced(0.5, 0.1), 3),
]
GRID = [
    step
    for noise in (0.5, 1.0, 3.0)
    for step in (
        *(truncated(noise, *rest) for rest in ((0.1, 12, 100), (0.01, 3, 100), (0.5, 60, 100), (0.001, 5, 1000))),
        *(fixed(noise, *rest) for rest in ((1, 100), (16, 1000), (50, 100), (1, 10_000))),
        *(mixture(noise, *rest) for rest in (((0, 1, 2), (0.2, 0.6, 0.2)), ((1, 2), (0.5, 0.5)))),
        *(PrivacyProfile.from_noise_multiplier(noise).subsampled(q).group(k) for q, k in ((0.01, 3), (0.2, 4))),
        *(replaced(noise, q) for q in (0.001, 0.1, 0.5)),
    )
]


def answered(step, count, delta):
    """ε of δ is safe and tight, and a certificate of the same profile does not contradict it."""
    steps = step.repeat(count)
    epsilon = steps.epsilon(delta)
    assert steps.delta(epsilon) <= delta
    if epsilon > 0.0:
        assert steps.delta(epsilon * (1.0 - 1e-6)) > delta * (1.0 - 1e-12)
    return epsilon


@pytest.mark.parametrize(("step", "count"), SMALL)
def test_few_steps_have_an_epsilon(step, count):
    epsilon = answered(step, count, 1e-5)
    assert step.epsilon(1e-5) < epsilon < count * step.epsilon(1e-5 / count) + 1e-9  # more than one step, less than all


@pytest.mark.sweep
@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("step", GRID)
def test_a_grid_of_few_steps_is_answered(step, count):
    for delta in (1e-2, 1e-5, 1e-10):
        epsilon = answered(step, count, delta)
        assert step.repeat(count).certify(epsilon).upper >= delta * (1.0 - 1e-5)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        assert 0.0 <= step.repeat(count).delta(epsilon) < 1.0


def losses(step, order):
    """The losses of one step and their masses, by Gauss–Legendre panels; nothing of the laws is used."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = np.arange(-9.0, 14.0)
    x = np.concatenate([0.5 * (a + b) + 0.5 * (b - a) * nodes for a, b in pairwise(ends)])
    phi = np.exp(-0.5 * x * x) * np.tile(0.5 * weights, ends.size - 1) / math.sqrt(2.0 * math.pi)

    def sampled(rate, mu):
        loss = np.log1p(rate * np.expm1(mu * x - 0.5 * mu * mu))
        return (loss, phi * np.exp(loss)) if order == "remove" else (-loss, phi)

    if isinstance(step, TruncatedStep):
        q, full, other, fits = (float(ball) for ball in step._chances())
        parts = [(fits, *sampled(q, 1.0 / step.noise_multiplier)), (full, *sampled(other, 2.0 / step.noise_multiplier))]
        return np.concatenate([loss for _, loss, _ in parts]), np.concatenate([p * mass for p, _, mass in parts])
    loss, mass = sampled(step.batch_size / step.records, 2.0 / step.noise_multiplier)
    if order == "add":
        loss, mass = -loss, mass * np.exp(-loss)
    inside = loss > 0.0
    both = np.concatenate([loss[inside], -loss[inside], [0.0]])
    masses = np.concatenate([mass[inside], (mass * np.exp(-loss))[inside], [0.0]])
    masses[-1] = 1.0 - masses.sum()
    return both, masses


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("step", "epsilon"),
    [
        (TruncatedStep(1.0, 0.1, 12, 100), 0.08),
        (FixedSizeStep(1.0, 16, 100), 0.7),
        (FixedSizeStep(1.0, 1, 10**6), 1e-5),
        (FixedSizeStep(1.0, 1, 10**6), 1e-3),
    ],
)
def test_two_steps_are_a_double_sum(step, epsilon, order):
    loss, mass = losses(step, order)
    gain = -np.expm1(np.minimum(epsilon - loss[:, None] - loss, 0.0))
    ((value,), (error,)) = FloatComposition([(step.law(order), 2)], order).log_delta(np.array([epsilon]))
    assert error < 1e-10
    assert math.exp(value) == pytest.approx(float(mass @ gain @ mass), rel=2e-4)


LAWS = [
    MixtureStep(1.0, (0.0, 1.0, 2.0), (0.2, 0.6, 0.2)),
    MixtureStep(1.0, (1.0, 2.0), (0.5, 0.5)),
    SampledStep(0.5, (0.1,), adjacency="replace-one"),
    FixedSizeStep(1.0, 16, 100),
]


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 5.0])
@pytest.mark.parametrize("counts", [(0, 3), (0, 20), (60, 1), (20, 10), (128, 0)])
def test_losses_of_both_signs_agree_with_the_contour(counts, epsilon):
    """Batches of a fixed size and replaced records are their own reverses, and compose."""
    laws = FixedSizeStep(1.0, 16, 100).law("add"), SampledStep(1.0, (0.1,), adjacency="replace-one").law("add")
    parts = [(law, n) for law, n in zip(laws, counts, strict=True) if n]
    floats = FloatComposition(parts, "add")
    saddle = find_saddle(floats, floats.mean - epsilon)
    (want,), (fall,), (estimate,) = integrate(floats, np.array([epsilon]), 0, saddle)
    value, slope, error = LossSums(parts, "add", 40.0).log_delta(epsilon)
    assert abs(value - want) <= error + estimate < 1e-9
    assert slope == pytest.approx(fall, rel=1e-6)


@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-6, 1e-8])
def test_a_tiny_rate_takes_no_more_panels(rate):
    """Places are logarithms of the loss, so a body far narrower than the large losses has few panels."""
    sums = LossSums([(FixedSizeStep(1.0, 1, round(1.0 / rate)).law("add"), 10)], "add", 40.0)
    assert sums.table.edges.size < 100


@pytest.mark.parametrize(("records", "steps"), [(10**4, 3), (10**4, 10), (10**5, 30)])
def test_few_steps_of_one_record_among_many(records, steps):
    run = fixed(1.0, 1, records).repeat(steps)
    epsilon = run.epsilon(1e-8)
    assert run.delta(epsilon) <= 1e-8
    box = run._evaluators["add"].certify(epsilon, 1e-6)
    assert box.lower * (1.0 - 1e-9) <= 1e-8 <= box.upper * (1.0 + 1e-9) <= 1.05e-8


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize("step", LAWS)
def test_densities_agree_with_the_contour(step, order):
    """The two share nothing but the inputs."""
    law = step.law(order)
    n = 60 if law.atom > 0.0 else 6  # the contour asks for steps of which not all have the loss 0
    floats = FloatComposition([(law, n)], order)
    epsilon = floats.mean + 0.3 * math.sqrt(floats.variance)
    if not 0.0 < epsilon < 0.9 * floats.most:
        epsilon = 0.3 * min(floats.most, 1.0)
    (want,), _, (estimate,) = integrate(floats, np.array([epsilon]), 0, find_saddle(floats, floats.mean - epsilon))
    value, _, error = LossSums([(law, n)], order, 40.0).log_delta(epsilon)
    assert abs(value - want) <= error + estimate
    assert error < 1e-10


def test_a_density_that_is_no_number_is_refused(monkeypatch):
    step = MixtureStep(1.0, (0.0, 1.0), (0.9, 0.1)).law("remove")
    one = step.density("remove", 80.0)
    for value, error in ((0.0, math.nan), (math.nan, 0.0)):
        spoiled = one._replace(log_f=lambda lams, v=value, e=error: (one.log_f(lams)[0] + v, one.log_f(lams)[1] + e))
        monkeypatch.setattr(step, "density", lambda *_, s=spoiled: s)
        with pytest.raises(PrecisionError):
            LossSums([(step, 3)], "remove", 40.0)


def test_a_constant_term_below_rounding_has_an_end():
    """1 − Σ of the other terms is 0 in floats; the term itself is not."""
    user = PrivacyProfile.from_noise_multiplier(1.0).subsampled(1.0 - 1e-7).group(3)
    epsilon = user.epsilon(1e-6)
    assert user.certify(epsilon).upper <= 1e-6 * (1.0 + 1e-9)


def test_a_sampled_step_and_a_plain_release():
    """Far below 0 the loss of a plain release was log(1 − 1)."""
    gauss = PrivacyProfile.from_noise_multiplier(1.0)
    both = gauss.subsampled(0.01).compose(gauss)
    for order in ("add", "remove"):
        assert both.delta(1.0, order=order) in both.certify(1.0, order=order)
    assert both.epsilon(1e-6) > gauss.epsilon(1e-6)


def test_a_bound_that_is_no_number_ends_no_search() -> None:
    one = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1).repeat(10)._compositions("add")[0]
    with pytest.raises(NdisError):
        one._smallest(lambda x: float("nan") if x > 0.0 else 1.0, 1e-5, 1e-3)


def test_a_sum_of_which_nothing_counts_is_not_refined(monkeypatch):
    """Beyond the largest loss every panel is empty. Halving them all would go on for seconds."""
    rate, seen = 1e-6, []
    density = few.log_ratio_density
    monkeypatch.setattr(few, "log_ratio_density", lambda form, gap: seen.append(gap.size) or density(form, gap))
    step = few.PairStep.shift(rate, 1.0)
    assert math.isnan(few.two_pairs(step, step, 1e-5, add=True)[0])
    assert sum(seen) < 100_000
    step = PrivacyProfile.from_noise_multiplier(1.0).subsampled(rate)
    assert step.repeat(2).epsilon(0.3) == 0.0
