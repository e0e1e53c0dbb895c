"""The law of one epoch of random allocation: floats against exact moments and balls, and how it joins a profile."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, arb_series, ctx

import ndis
from ndis import ParameterError, PrecisionError, PrivacyProfile
from ndis._balls import precision
from ndis.accountant import floats
from ndis.accountant.laws.allocation import AllocationStep
from ndis.accountant.laws.allocation_balls import AllocationBalls
from ndis.accountant.laws.lognormal import Laplace
from ndis.accountant.plan import Guess, Planner
from ndis.errors import NotPrivateWarning


def exact_moments(shift: float, bins: int, most: int) -> list[float]:
    """log E W^m for m up to `most`: the exponential generating function of one X, to the power of the bins."""
    with precision(300):
        ctx.cap = max(ctx.cap, most + 1)
        one = [(arb(shift) ** 2 * k * (k - 1) / 2).exp() / arb(math.factorial(k)) for k in range(most + 1)]
        whole = (arb_series(one, most + 1).log() * bins).exp()
        return [float((whole[m] * math.factorial(m) / arb(bins) ** m).log()) for m in range(most + 1)]


@pytest.mark.parametrize(("noise", "bins"), [(0.5, 2), (1.0, 30), (2.0, 1000), (10.0, 100_000)])
def test_moments_of_whole_orders_are_exact(noise: float, bins: int) -> None:
    law = AllocationStep(noise, bins).law("remove")
    exact = exact_moments(law.shift, bins, 4)
    s = np.array([1.0, 2.0, 3.0], dtype=np.complex128)
    value, error = law.centred(s)
    for k in range(3):
        assert abs(value[k].real + law.mean * (k + 1) - exact[k + 2]) <= error[k] + 1e-13
        assert error[k] < 1e-10


@pytest.mark.parametrize(("noise", "bins"), [(0.4, 3), (1.0, 50), (3.0, 2000)])
def test_balls_hold_the_moments_of_floats(noise: float, bins: int) -> None:
    """Balls and floats share no method: a turned ray of a Laplace transform, and a density by doubling."""
    law = AllocationStep(noise, bins).law("add")
    c = 3.0 + 2.0 / math.sqrt(math.expm1(law.shift**2) / bins)
    top = 6.0 * math.sqrt(bins) / law.shift  # where e^{−μ²y²/2t} is e^−18
    count = 40
    with precision(200):
        line = law.enclosed().line(c, arb(top / count), count, 50.0)
        whole = law.enclosed().moment(c, 50.0)
        assert float(whole.rad() / whole.mid()) < 1e-18
        assert line[0].real.overlaps(whole)
    s = c + 1j * top / count * np.arange(count)
    value, error = law.centred(s)
    floats = np.exp(value + law.mean * s - float(whole.log()))
    for k in range(count):
        ball = complex(line[k] / acb(whole))
        assert float((line[k] / acb(whole)).rad()) < 1e-15
        assert abs(ball - floats[k]) <= 2.0 * error[k] * abs(floats[k]) + 1e-13
        # thm:allocation-factor (1)
        assert abs(ball) <= math.exp(-((law.shift * s[k].imag) ** 2) / (2 * bins)) * (1.0 + 1e-12)


def test_moments_beyond_rounding_are_bounds() -> None:
    law = AllocationStep(1.0, 10).law("remove")
    value, error = law.centred(np.array([2.0 + 500.0j]))
    assert value[0].real < -1e4
    assert error[0] >= 1.0


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.5])
def test_one_epoch_of_two_bins_is_a_double_integral(epsilon: float) -> None:
    """δ of two bins by plain quadrature over both normal numbers, which shares nothing with the law."""
    noise, (nodes, weights) = 1.3, np.polynomial.legendre.leggauss(600)
    x = 9.0 * nodes
    chance = np.exp(-0.5 * x * x) * 9.0 * weights / math.sqrt(2.0 * math.pi)
    factor = np.exp(x / noise - 0.5 / noise**2)
    ratio = 0.5 * (factor[:, None] + factor)
    both = np.outer(chance, chance)
    profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=2)
    remove = float((both * np.maximum(ratio - math.exp(epsilon), 0.0)).sum())
    add = float((both * np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0)).sum())
    assert profile.delta(epsilon, order="remove") == pytest.approx(remove, rel=2e-3)
    assert profile.delta(epsilon, order="add") == pytest.approx(add, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_the_orders_are_one_pair(epsilon: float) -> None:
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=20, epochs=3)
    other = 1.0 - math.exp(epsilon) + math.exp(epsilon) * profile.delta(-epsilon, order="add")
    assert profile.delta(epsilon, order="remove") == pytest.approx(other, abs=1e-12)


def test_an_assignment_that_stays_is_one_epoch_with_less_noise() -> None:
    once = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=50, epochs=4, assignment="once")
    one = PrivacyProfile.from_allocation(noise_multiplier=0.4, bins=50)
    assert once.delta(3.0) == pytest.approx(one.delta(3.0), rel=1e-12)
    fresh = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=50, epochs=4)
    assert fresh.epsilon(1e-6) < once.epsilon(1e-6)
    box, other = once.certify(3.0), one.certify(3.0)
    assert max(box.lower, other.lower) <= min(box.upper, other.upper)


def test_one_bin_is_plain_noise() -> None:
    plain = PrivacyProfile.from_noise_multiplier(2.0).repeat(3)
    for assignment in ("fresh", "once"):
        profile = PrivacyProfile.from_allocation(noise_multiplier=2.0, bins=1, epochs=3, assignment=assignment)
        assert profile.delta(1.0) == plain.delta(1.0)


def test_epochs_mix_with_every_other_step() -> None:
    epochs = PrivacyProfile.from_allocation(noise_multiplier=1.5, bins=40, epochs=2)
    poisson = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.02).repeat(50)
    plain = PrivacyProfile.from_noise_multiplier(4.0)
    mixed = epochs.compose(poisson, plain)
    for order in ("remove", "add"):
        box = mixed.certify(1.0, order=order)
        assert box.width <= 1e-6 * box.upper
        assert box.lower * (1 - 1e-9) <= mixed.delta(1.0, order=order) <= box.upper * (1 + 1e-9)
    again = PrivacyProfile.from_json(mixed.to_json())
    assert again.certify(1.0) == mixed.certify(1.0)
    assert mixed.repeat(2).epsilon(1e-6) > mixed.epsilon(1e-6)


def test_certified_epsilon_is_safe() -> None:
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.7, bins=100)
    epsilon = profile.certified_epsilon(1e-5)
    assert profile.certify(epsilon).upper <= 1e-5
    assert epsilon == pytest.approx(profile.epsilon(1e-5), rel=1e-5)


def test_more_bins_hide_more_and_poisson_is_not_always_worse() -> None:
    few = PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=10)
    many = PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=100)
    assert many.epsilon(1e-6) < few.epsilon(1e-6)
    poisson = PrivacyProfile.from_noise_multiplier(0.5).subsampled(0.1).repeat(10)
    assert few.delta(0.3) > poisson.delta(0.3)
    assert few.epsilon(1e-6) < poisson.epsilon(1e-6)


@pytest.mark.parametrize(
    "wrong", [{"bins": 0}, {"bins": 2.5}, {"noise_multiplier": 0.0}, {"epochs": 0}, {"assignment": "sometimes"}]
)
def test_what_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        PrivacyProfile.from_allocation(**{"noise_multiplier": 1.0, "bins": 10, **wrong})


def test_a_delta_beyond_the_table_is_not_taken_for_zero() -> None:
    """δ(30) is about 1e-245. The table of the density ends long before, and no bound may rest on its end."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=20)
    with pytest.raises(PrecisionError):
        profile.delta(30.0)
    assert profile.delta(1000.0) == 0.0
    box = profile.certify(-1.0, order="remove")
    assert box.lower <= profile.delta(-1.0, order="remove") <= box.upper


@pytest.mark.parametrize("order", ["remove", "add"])
def test_little_noise_and_two_bins_have_a_certificate_at_a_tiny_delta(order: Any) -> None:
    """Moments of large orders were asked for to digits that count from 1, and not from their own size."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.3, bins=2)
    epsilon = profile.epsilon(1e-30, order=order)
    box = profile.certify(epsilon, order=order)
    assert box.width <= 1e-6 * box.upper
    assert box.lower <= 1e-30 <= box.upper * (1 + 1e-6)


@pytest.mark.parametrize(("noise", "bins"), [(0.3, 10**5), (1.0, 3), (0.3, 10**6)])
def test_moments_of_the_remove_order_are_enclosed(noise: float, bins: int) -> None:
    """thm:allocation-factor (3) with powers of W from 2 to 4: whole orders exactly, others against floats."""
    law = AllocationStep(noise, bins).law("remove")
    exact, balls = exact_moments(law.shift, bins, 3), law.enclosed()
    with precision(160):
        for order in (1, 2) if bins < 10**6 else (1,):
            assert float(balls.moment(float(order), 30.0).log()) == pytest.approx(exact[order + 1], rel=1e-13)
        for c in (0.2, 0.7, 1.2):
            for k, value in enumerate(balls.line(c, arb(0.25), 9, 30.0)):
                s = np.array([complex(c, 0.25 * k)])
                plain = complex(np.exp(law.centred(s)[0] + s * law.mean)[0])
                assert complex(value) == pytest.approx(plain, rel=1e-12)
                assert value.rel_accuracy_bits() > 30


@pytest.mark.parametrize("noise", [0.5, 4.0])
@pytest.mark.parametrize("order", ["remove", "add"])
def test_moments_of_two_bins_are_an_integral(noise: float, order: Any) -> None:
    """log W is a normal number and log cosh of another one. The powers go from 1 to 9."""
    law = AllocationStep(noise, 2).law(order).enclosed()
    mu, places = 1.0 / noise, np.linspace(-30.0, 30.0, 60_001)
    for c, digits in product((0.01, 2.0, 6.9), (3.0, 30.0)):
        with precision(200):
            line, whole = law.line(c, arb(0.75), 4, digits), law.moment(c, digits)
        for k, ball in enumerate(line):
            s = complex(1.0 + c, 0.75 * k) if order == "remove" else -complex(c, 0.75 * k)
            log_cosh = np.logaddexp(mu * places, -mu * places) - math.log(2.0)
            exponent = s * log_cosh - places**2
            top = exponent.real.max()
            integral = np.exp(exponent - top).sum() * 1e-3 / math.sqrt(math.pi)
            exact = integral * np.exp(top + 0.25 * mu**2 * s * s - 0.5 * mu**2 * s - float(whole.log()))
            value, radius = complex(ball / whole), float((ball / whole).rad())
            assert abs(value - exact) <= 2.0 * radius + 1e-12
            assert radius < math.exp(5.0 - digits)


@pytest.mark.parametrize(("noise", "bins"), [(1.0, 3), (1.0, 30)])
def test_high_powers_of_the_mean_are_exact(noise: float, bins: int) -> None:
    """thm:allocation-factor (5): E Wʲ(1 − zW) ≤ ψ(z) ≤ E Wʲ for the powers j up to 9, and the bound of E Wʲ."""
    law = AllocationStep(noise, bins).law("remove")
    exact, balls = exact_moments(1.0 / noise, bins, 10), law.enclosed()
    assert isinstance(balls, AllocationBalls)
    z = math.exp(-30.0 - exact[10] + exact[9])
    table = Laplace(balls, math.log(z / bins) - 1.0, 0.0, 600.0, 9)
    with precision(table.bits):
        for j in (1, 5, 9):
            psi = table.on_ray(0.0, [arb(z).log(), arb(z).log() + 1], j)[0].real
            assert float(psi.log()) == pytest.approx(exact[j], rel=1e-11, abs=1e-11)
            assert (j - 1) * float(balls._log_power(j)) == pytest.approx(exact[j], rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(("noise", "epochs", "epsilon"), [(0.4, 3, 24.0988025), (0.5, 2, 13.2761015)])
def test_few_epochs_of_many_bins_have_narrow_certificates(noise: float, epochs: int, epsilon: float) -> None:
    """Their moments ended before the saddle, or their rays had too many nodes. ε of the first was 29.007."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=10**5, epochs=epochs)
    answer = profile.epsilon(1e-30, order="remove")
    assert answer == pytest.approx(epsilon, rel=1e-8)
    box = profile.certify(answer, order="remove")
    assert box.width <= 1e-6 * box.upper
    assert box.lower * (1 - 1e-6) <= 1e-30 <= box.upper * (1 + 1e-6)


def test_a_saddle_beyond_the_moments_is_refused() -> None:
    """A sum on a line far left of its saddle would take minutes. It is not tried."""
    law = PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10**5, epochs=2)._compositions("remove")[0]
    with precision(128):
        planner = Planner([(one.enclosed(), n) for one, n in law.parts], 2.0, 1e-6, Guess())
        assert planner.saddle()[0] > 0.9 * planner.highest
        with pytest.raises(PrecisionError, match="before the saddle"):
            planner.plan()
    with pytest.raises(PrecisionError, match="before the saddle"):
        law.certifier.enclose(2.0, 1e-6)


@pytest.mark.parametrize(("bins", "delta"), [(1000, 1e-30), (10**5, 1e-30), (2, 1e-6)])
def test_many_epochs_with_little_noise_have_narrow_certificates(bins: int, delta: float) -> None:
    """The remove order had no moments: the first was 20 % wide, and the second took minutes."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.3, bins=bins, epochs=100)
    epsilon = profile.epsilon(delta, order="remove")
    box = profile.certify(epsilon, order="remove")
    assert box.width <= 1e-6 * box.upper
    assert box.lower * (1 - 1e-6) <= delta <= box.upper * (1 + 1e-6)


@pytest.mark.parametrize(("noise", "bins", "delta", "order"), [
    (0.3, 10**6, 1e-30, "remove"), (10.0, 10**6, 1e-30, "add"), (1.0, 10**5, 1e-12, "remove"),
    (0.3, 1000, 1e-12, "add"), (0.3, 10**5, 1e-30, "add"),
])  # fmt: skip
def test_the_corners_of_one_epoch_have_narrow_certificates(noise: float, bins: int, delta: float, order: Any) -> None:
    """thm:allocation-epoch: the first was refused, the fourth took ε = 13.5 for 2.59, and the last had one side."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=bins)
    epsilon = profile.epsilon(delta, order=order)
    box = profile.certify(epsilon, order=order)
    assert box.width <= 1e-12 * box.upper
    assert box.lower * (1 - 1e-6) <= delta <= box.upper * (1 + 1e-6)


@pytest.mark.parametrize(("noise", "bins", "size"), [(0.3, 10**5, 600.0), (10.0, 10**4, 1e4), (0.5, 2, 1e6)])
def test_the_integrand_of_one_epoch_is_bounded(noise: float, bins: int, size: float) -> None:
    """thm:allocation-epoch (4), at places and on intervals around them, against plain quadrature."""
    law, g = AllocationBalls(lambda: 1 / arb(noise), bins, abs, remove=True), np.linspace(-14.0, 14.0, 20_001)
    table = Laplace(law, math.log(0.01 * size / bins), 1.6, 60.0)
    for angle, turn, wide in product((0.0, 0.7, 1.5), (0.01, 0.1, 0.5), (0.0, 1e-3)):
        z = size / bins * np.exp(1j * angle)
        x = np.exp((g - 1j * max(angle - 1.3, 0.0) * noise) / noise - 0.5 / noise**2)
        weights = np.exp(-0.5 * (g - 1j * max(angle - 1.3, 0.0) * noise) ** 2) * 1.4e-3 / math.sqrt(2.0 * math.pi)
        true = bins * np.log1p(-(weights * -np.expm1(-z * x)).sum()).real
        with precision(80):
            re, im = (arb(bins * part, wide * size) for part in (z.real, z.imag))
            bound = law._log_turned(arb(0), re, im, arb(turn), table) + bins * (arb(turn) * noise) ** 2 / 2
        assert true <= float(bound.upper()) + 1e-9 * (1.0 + abs(true))
        if turn == 0.01 and wide == angle == 0.0:
            assert float(bound.upper()) == pytest.approx(true, rel=1e-2, abs=0.1)


@pytest.mark.parametrize(("noise", "low", "angle"), [(10.0, -2.0, 1.7), (0.3, -30.0, 2.2), (1.0, -5.0, 1.0)])
def test_the_transform_of_a_lognormal_number_is_enclosed(noise: float, low: float, angle: float) -> None:
    """thm:lognormal-laplace, against plain quadrature on a shifted line."""
    law = AllocationBalls(lambda: 1 / arb(noise), 7, abs, remove=True)
    turns = (0.0, 0.7 * angle, 0.999 * angle)
    exact = [np.exp(complex(low + more, turn)) for more in (0.1, 3.0, 0.9 * abs(low)) for turn in turns]
    z = [acb(place.real, place.imag) for place in exact]
    table = Laplace(law, low, angle, 40.0)
    with precision(table.bits):
        values = table.at([place.log() for place in z])
    mu, nodes = law.mu, np.linspace(-14.0, 14.0, 20_001)  # the trapezoid rule converges at once
    for place, value in zip(exact, values, strict=True):
        turn = np.angle(place) / mu
        g = nodes - 1j * turn
        plain = np.exp(-0.5 * g * g - place * np.exp(mu * g - 0.5 * mu**2)).sum() * 1.4e-3
        assert float(value.rad()) < 1e-16
        size = math.exp(0.5 * turn**2)
        assert abs(complex(value) - plain / math.sqrt(2.0 * math.pi)) < 1e-13 * size


def test_the_transform_is_enclosed_where_z_is_large() -> None:
    """thm:lognormal-laplace (3): φ₁ is about 1e-215 there, and its ball did not reach so far."""
    table = Laplace(AllocationBalls(lambda: arb(0.1), 1, abs, remove=True), 0.0, 1.4, 30.0)
    with precision(table.bits):
        for value in table.on_ray(1.4, [arb(8.0) + arb(n) / 32 for n in range(8)], 1):
            assert value.contains(acb(0))


@pytest.mark.parametrize(
    ("noise", "bins", "remove", "epsilon"), [(0.4, 41, True, -544.0), (51.0, 158_363, True, 410.0)]
)
def test_an_epoch_far_out_is_refused(noise: float, bins: int, remove: Any, epsilon: float) -> None:
    """Its plan overflowed, and that was a ValueError."""
    with pytest.raises(PrecisionError):
        AllocationBalls(lambda: 1 / arb(noise), bins, abs, remove=remove).delta(epsilon)


def test_sums_of_losses_agree_with_the_contour_in_the_add_order() -> None:
    """The density of an epoch counted from the wrong end, and a later δ(1) was a half of what it is."""
    floats = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=20, epochs=2)._compositions("add")[0].floats
    epsilon = np.array([1.0])
    assert floats._by_sums(epsilon, 0)[0][0] == pytest.approx(floats.log_delta(epsilon)[0][0], rel=1e-9)


def test_a_plan_does_without_the_delta_of_one_epoch() -> None:
    """δ of one epoch was out of reach at this ε, and the plan of the sum was refused with it."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=200, epochs=3)
    box = profile.certify(4.0, order="add")
    assert box.width <= 1e-6 * box.upper < 1e-90
    assert profile.log_delta(4.0, order="add") == pytest.approx(math.log(box.upper), rel=1e-8)


def test_many_values_of_epochs_come_from_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of ten epochs took 20 s: each value had a path, and a depth out of reach took the tables away."""
    law = PrivacyProfile.from_allocation(noise_multiplier=0.8, bins=20, epochs=2)._compositions("remove")[0].floats
    epsilon = np.linspace(0.2, 2.0, 10)
    one = [float(law._by_contour(e, 0, floats.find_saddle(law, law.mean - e[0]))[0][0]) for e in epsilon[:, None]]
    monkeypatch.setattr(floats, "integrate", None)
    assert law.log_delta(epsilon)[0] == pytest.approx(one, rel=1e-8)
    monkeypatch.undo()
    with pytest.raises(PrecisionError):
        law.log_delta(np.array([20.0]))
    assert law._sums is not None


def test_one_epoch_beyond_its_table_is_certified_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its moments come from the same table, and the contour tried every path over them."""
    profile = PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=1000)
    epsilon = 2.0  # δ of the add order is far below the mass that the table leaves out
    box = profile.certify(epsilon, order="add")
    assert 0.0 < box.lower <= box.upper < math.exp(-105.0)
    monkeypatch.setattr(floats, "integrate", None)
    assert profile.log_delta(epsilon, order="add") == pytest.approx(math.log(box.upper), rel=1e-9)


def test_an_error_that_may_be_large_leaves_a_rule_its_nodes() -> None:
    """A rule that may err by a lot had no node, and an IndexError went out."""
    epoch = PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=100_000)
    assert epoch.certified_epsilon(1e-30) == pytest.approx(epoch.epsilon(1e-30), rel=1e-5)
    many = PrivacyProfile.from_allocation(noise_multiplier=0.4, bins=50_401).repeat(30)
    assert many.certify(10.291394, order="add").upper < 1e-10


def test_noise_out_of_reach_has_no_number() -> None:
    with pytest.raises(PrecisionError):
        PrivacyProfile.from_allocation(noise_multiplier=1e-3, bins=10).delta(1.0)


# ---------------------------------------------------------------------- the sampler


def test_batches_are_a_partition_with_sizes_as_they_fall() -> None:
    batches = list(ndis.allocation_batches(1000, 7))
    assert len(batches) == 7
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert len({batch.size for batch in batches}) > 1  # seven equal sizes cannot be: 7 does not divide 1000


def test_batches_may_be_empty_and_are_fresh() -> None:
    assert sum(batch.size == 0 for batch in ndis.allocation_batches(3, 50)) >= 47
    one, two = (np.concatenate(list(ndis.allocation_batches(1000, 7))) for _ in range(2))
    assert (one != two).any()


def test_seeded_batches_warn_and_are_even() -> None:
    with pytest.warns(NotPrivateWarning):
        sizes = [batch.size for batch in ndis.allocation_batches(60_000, 6, random_state=1)]
    assert max(abs(size - 10_000) for size in sizes) < 500  # more than five standard deviations


@pytest.mark.parametrize("wrong", [(0, 3), (3, 0), (2.5, 3)])
def test_batches_refuse_at_once(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        ndis.allocation_batches(*wrong)
