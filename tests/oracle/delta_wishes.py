"""The cases of ``make_delta_cases.py``, without their answers. Nothing here needs accuracy."""

import math
import random

import numpy as np
from flint import arb

from pair_law import PairLaw, groups_of


def expand(field, count):
    """A list, or a grid of `count` exact dyadic numbers: (first + step·(i·multiplier mod count))/2^bits."""
    if isinstance(field, dict):
        index = (np.arange(field["count"]) * field["multiplier"]) % field["count"]
        return [float(v) for v in np.ldexp(float(field["first"]) + field["step"] * index, -field["bits"])]
    return [float(v) for v in field] if isinstance(field, list) else [float(field)] * count


def arrays(case):
    ratio = expand(case["variance_ratio"], 1)
    return ratio, expand(case["shift"], len(ratio)), [int(n) for n in expand(case["copies"], len(ratio))]


def moments(case, s):
    ratio, shift, copies = (np.array(a, float) for a in arrays(case))
    t, m2 = ratio - 1, shift**2
    d = 1 - s * t
    k = copies * (-s / 2 * np.log(ratio) - np.log(d) / 2 + s * (1 + s) * m2 / d / 2)
    dk = copies * (-np.log(ratio) / 2 + t / d / 2 + m2 / 2 * ((1 + 2 * s) * d + s * (1 + s) * t) / d**2)
    return k.sum(), dk.sum()


def epsilon_near(case, log_delta=None, log_complement=None):
    """An ε at which δ (or 1-δ) is near the wish, by the exponent of Chernoff's bound; four digits."""
    top = max(max(arrays(case)[0]) - 1, 0.0)
    target = log_complement if log_delta is None else log_delta

    def at(u):
        if log_delta is None:
            return -1 / (1 + math.exp(-u))
        return math.exp(u) if top == 0 else 1 / top / (1 + math.exp(-u))

    a, b = -40.0, 34.0 if top else 60.0
    for _ in range(200):
        u = (a + b) / 2
        s = at(u)
        k, dk = moments(case, s)
        a, b = (u, b) if k - s * dk > target else (a, u)
    return float(f"{moments(case, at(a))[1]:{'.4g' if top else '.17g'}}")


def wishes():
    """Yield every case without its answer."""
    rng = random.Random(20240607)

    def case(kind, ratio, shift=0.0, copies=1, **wish):
        ratio = ratio if isinstance(ratio, (list, dict)) else [ratio]
        count = ratio["count"] if isinstance(ratio, dict) else len(ratio)
        shift = shift if isinstance(shift, (list, dict)) else [shift] * count
        copies = copies if isinstance(copies, list) or count > 3000 else [copies] * count
        out = {"kind": kind, "variance_ratio": ratio, "shift": shift, "copies": copies}
        out["epsilon"] = wish["epsilon"] if "epsilon" in wish else epsilon_near(out, **wish)
        return out

    def ratios(n, low, high):
        return [float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}") for _ in range(n)]

    def shifts(n, size):
        return [float(f"{rng.gauss(0, size):.5g}") for _ in range(n)]

    def edge(ratio, shift, copies, distance):
        law = PairLaw(groups_of(ratio, shift, copies), arb(0))
        return float((law.supremum() * (1 - arb(distance))).mid())

    # One direction.
    for ratio, shift, wish in [
        (1e-5, 0.0, -0.3),
        (1e-5, 3.0, -25.0),
        (0.1, 0.7, -4.0),
        (0.5, 0.0, -12.0),
        (0.5, 25.0, -2.0),
        (0.999, 0.3, -40.0),
        (0.999999, 1e-3, -12.0),
        (1.001, 0.0, -8.0),
        (1.001, 2.0, -100.0),
        (2.0, 0.0, -690.0),
        (2.0, 12.0, -3.0),
        (30.0, 5.0, -60.0),
        (30.0, 0.0, -1.5),
        (1e5, 0.0, -5.0),
        (1e5, 80.0, -650.0),
        (1e5, 0.5, -1e4),
        (1.5, 30.0, -0.05),
        (3.0, 0.25, -1e4),
    ]:
        yield case("one_direction", ratio, shift, log_delta=wish)
    yield case("one_direction", 4.0, 1.0, epsilon=200.0)
    yield case("one_direction", 1.25, 0.5, epsilon=1e-6)

    # Shifts only.
    for shift, eps in [
        (1e-9, 1e-9),
        (1e-9, 3e-8),
        (1e-3, 1e-6),
        (1e-3, 0.037),
        (0.1, 1.0),
        (0.1, 3.7),
        (1.0, 0.0),
        (1.0, 37.0),
        (10.0, 200.0),
        (40.0, 0.0),
        (40.0, 800.0),
        (40.0, 2500.0),
        (60.0, 60.0),
    ]:
        yield case("mean_shift", [1.0, 1.0], [0.6 * shift, 0.8 * shift], epsilon=eps)

    # Equal ratios: sketches.
    for ratio, copies, wish in [
        (1.02, 100, -13.8),
        (1.02, 100, -600.0),
        (1.02, 10000, -25.0),
        (1.002, 100000, -13.8),
        (0.998, 100000, -200.0),
        (0.98, 200, -13.8),
        (5.0, 10, -50.0),
        (0.2, 10, -9.0),
        (1.5, 3, -300.0),
        (1.00001, 100000, -20.0),
        (1.3, 100000, -30.0),
        (0.7, 1000, -1e4),
        (2.5, 2, -20.0),
        (1.1, 7, -0.9),
    ]:
        yield case("equal_ratio", ratio, 0.0, copies, log_delta=wish)
    for ratio, shift, copies, wish in [
        (1.4, 0.3, 6, -18.0),
        (0.6, 0.4, 5, -18.0),
        (2.0, 1.0, 30, -4.0),
        (0.9, 0.05, 400, -80.0),
    ]:
        yield case("equal_ratio_shifted", ratio, shift, copies, log_delta=wish)

    # A few directions of every kind.
    for n, wish in [
        (2, -0.5),
        (3, -5.0),
        (4, -30.0),
        (5, -200.0),
        (6, -690.0),
        (8, -3000.0),
        (3, -1e4),
        (12, -13.8),
        (20, -1.0),
        (50, -25.0),
        (2, -90.0),
        (7, -450.0),
    ]:
        yield case("general", ratios(n, 0.2, 5.0), shifts(n, 0.5), log_delta=wish)
    for n, wish in [(2, -6.0), (3, -40.0), (5, -2.0), (4, -250.0)]:
        yield case("general_wider", ratios(n, 1.2, 3.0), shifts(n, 0.3), log_delta=wish)
    for n, wish in [(2, -6.0), (3, -40.0), (5, -2.0), (4, -12.0)]:
        yield case("general_narrower", ratios(n, 0.4, 0.8), shifts(n, 0.2), log_delta=wish)

    # Ratios from 1e-5 to 1e5 in one pair.
    for n, size, wish in [
        (3, 0.0, -3.0),
        (5, 0.5, -30.0),
        (11, 0.0, -0.2),
        (11, 1.0, -100.0),
        (21, 0.2, -690.0),
        (21, 3.0, -10.0),
        (41, 0.0, -2.0),
        (101, 0.3, -50.0),
    ]:
        spread = [float(f"{10.0 ** (-5 + 10 * i / (n - 1)):.6g}") for i in range(n)]
        yield case("wide_spectrum", spread, shifts(n, size) if size else 0.0, log_delta=wish)
    yield case("wide_spectrum", [1e-5, 1e5], [0.0, 0.0], [50, 50], log_complement=-230.0)

    # Shifts of tens of standard deviations.
    for n, size, wish in [
        (2, 30.0, -1.0),
        (3, 50.0, -50.0),
        (5, 20.0, -600.0),
        (8, 40.0, -0.3),
        (20, 15.0, -5.0),
        (3, 70.0, -1e4),
    ]:
        yield case("large_shift", ratios(n, 0.3, 3.0), shifts(n, size), log_delta=wish)

    # Equal to within 1e-9.
    tiny = [1.000000001, 0.9999999995, 1.0000000003]
    for ratio, shift, copies, wish in [
        ([tiny[0]], 0.0, 1, -9.0),
        ([tiny[1]], 0.0, 1, -6.0),
        (tiny, [1e-9, 2e-9, 0.0], 1, -25.0),
        (tiny, 0.0, 1, -60.0),
        (tiny, [1e-9, 0.0, 1e-9], 100, -40.0),
        ([tiny[0], tiny[1]], [0.0, 1e-5], 1, -30.0),
        ([tiny[0], 1.0], [0.0, 1e-9], 1, -500.0),
        ([tiny[0], 1.5], [1e-9, 0.0], 1, -7.0),
        ([tiny[1], 1.0], [0.0, 0.5], 1, -20.0),
        ([tiny[0], 0.9999999990000000827], 0.0, 10000, -20.0),
    ]:
        yield case("nearly_equal", ratio, shift, copies, log_delta=wish)
    yield case("nearly_equal", tiny, [1e-9, 2e-9, 0.0], 1, epsilon=0.0)
    yield case("nearly_equal", tiny, [1e-9, 2e-9, 0.0], 1, epsilon=-1e-9)

    # The edge of a bounded loss.
    for ratio, shift, copies in [
        ([0.5], [0.0], [1]),
        ([0.3, 0.8], [0.2, 0.1], [1, 1]),
        ([0.9], [0.0], [100]),
        ([1e-5, 0.99], [0.0, 0.01], [1, 3]),
    ]:
        for distance in ("1e-3", "1e-6", "1e-9", "0", "-1e-3") if len(ratio) > 1 else ("1e-3", "1e-9", "-1e-12"):
            if distance != "0":
                yield case("bounded_edge", ratio, shift, copies, epsilon=edge(ratio, shift, copies, distance))
    yield case("bounded_edge", [0.25, 0.5, 0.75, 0.875], 0.0, 1, epsilon=200.0)

    # Negative ε, and ε = 0.
    pairs = [
        ([2.0, 0.5], [0.3, 0.1], 1),
        ([1.5, 3.0], [0.5, 0.2], 1),
        ([0.4, 0.7], [0.0, 1.0], 1),
        ([1.02, 0.98], 0.0, 50),
        ([1.0], 3.0, 1),
        ([50.0, 0.02, 1.0], [1.0, 0.3, 5.0], 2),
    ]
    for ratio, shift, copies in pairs:
        for eps in (-0.3, -3.0):
            yield case("negative_epsilon", ratio, shift, copies, epsilon=eps)
        yield case("zero_epsilon", ratio, shift, copies, epsilon=0.0)
    yield case("negative_epsilon", [1.5, 3.0], 0.0, 1, epsilon=-60.0)
    yield case("negative_epsilon", [0.4, 1.5, 3.0], 0.0, 1, epsilon=-200.0)
    yield case("negative_epsilon", [1.2], 0.0, 1, epsilon=-0.0911607)
    yield case("zero_epsilon", [1.0001, 0.9999], 0.0, 1, epsilon=0.0)
    yield case("zero_epsilon", [1.3] * 1, 0.0, 100000, epsilon=0.0)

    # Small ratios of mixed sign.
    for n, size, copies, wish in [
        (2, 0.0, 1, -3.0),
        (2, 0.01, 1, -30.0),
        (6, 0.0, 1, -14.0),
        (6, 0.3, 1, -40.0),
        (20, 0.02, 1, -600.0),
        (20, 1.0, 1, -0.5),
        (50, 0.0, 10, -25.0),
        (4, 0.001, 1000, -10.0),
        (3, 2.0, 1, -300.0),
        (10, 0.1, 1, -1e4),
    ]:
        signs = [1 + float(f"{(-1) ** i * rng.uniform(0.3, 3) * 1e-4:.4g}") for i in range(n)]
        yield case("tiny_mixed", signs, shifts(n, size) if size else 0.0, copies, log_delta=wish)

    # Large noncentrality on a small weight.
    for ratio, shift, wish in [
        ([1.001, 51.0], [3.0, 0.0], -5.0),
        ([0.999, 0.2], [5.0, 0.1], -8.0),
        ([1.0001, 0.02], [2.0, 0.0], -30.0),
        ([0.9999, 3.0], [1.0, 0.0], -20.0),
        ([1.00001, 1000.0], [10.0, 1.0], -60.0),
        ([0.99999, 1.00001, 7.0], [4.0, -4.0, 0.2], -200.0),
        ([1.0001, 0.9999, 0.001], [20.0, 10.0, 1.0], -2.0),
        ([0.9990, 20.0], [30.0, 0.0], -690.0),
        ([1.000001, 1e5], [1.0, 0.0], -15.0),
        ([0.999999, 1e-5], [3.0, 0.0], -1.0),
    ]:
        yield case("small_weight_large_noncentrality", ratio, shift, log_delta=wish)

    # δ near one.
    for ratio, shift, copies, wish in [
        ([2.0, 0.5], 1.0, 60, -27.6),
        ([2.0, 0.5], 1.0, 200, -69.0),
        ([1.0], 45.0, 1, -230.0),
        ([100.0, 0.01], 0.0, 20, -27.6),
        ([3.0], 0.0, 2000, -230.0),
        ([0.3], 0.0, 100, -27.6),
        ([1.1, 0.9], [20.0, 30.0], 1, -100.0),
        ([5.0, 0.4, 1.0], [9.0, 2.0, 15.0], 1, -45.0),
    ]:
        yield case("delta_near_one", ratio, shift, copies, log_complement=wish)

    # Many distinct directions.
    for wish in (-0.7, -14.0, -500.0):
        yield case("distinct_200", ratios(200, 0.7, 1.4), shifts(200, 0.1), log_delta=wish)
    yield case("distinct_200", ratios(200, 1e-5, 1e5), shifts(200, 0.1), log_delta=-40.0)

    def grid(first, step, bits, count, multiplier):
        return {"first": first, "step": step, "bits": bits, "count": count, "multiplier": multiplier}

    yield case("distinct_2000", grid(2**20 - 20_000, 20, 20, 2000, 1), grid(0, 3, 20, 2000, 777), log_delta=-14.0)
    yield case("distinct_2000", grid(2**10, 1, 10, 2000, 1), grid(0, 1, 12, 2000, 333), log_delta=-600.0)
    yield case(
        "distinct_10000", grid(2**24 - 100_000, 20, 24, 10_000, 1), grid(0, 1, 20, 10_000, 777), 1, log_delta=-14.0
    )
