"""`ndis.dominance.dominates` against dense grids: python -m benchmarks.dominance --pairs 10000.

Most pairs are random, a quarter are one pair and a smaller or slightly larger relative of it, and some are built to
touch: one pair is scaled until its curve just meets the other one, and then moved away by as little as 1e-9. The share
of decided pairs counts the first two families; what is built to touch may stay undecided.
A wrong answer is a yes with a grid point at which the second curve is the larger one, or a no whose witness is none.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import ndis
from ndis.dominance.compare import compare

Rows = tuple[Any, Any, Any]  # ratios, shifts, copies
_SPREADS = ((0.05, 0.1, 200), (0.2, 0.3, 30), (0.5, 0.7, 6), (1.0, 1.0, 2))  # of log ratio and shift; most copies
_TOLERANCE = 1e-9  # of the floats on the grid


def random_rows(rng: np.random.Generator) -> Rows:
    """One to three directions, of either sign or of one, some without shift, some without change of variance."""
    k = int(rng.integers(1, 4))
    ratio_spread, shift_spread, most = _SPREADS[rng.integers(0, len(_SPREADS))]
    ratio = np.exp(rng.normal(0.0, ratio_spread, k))
    shift = np.where(rng.random(k) < 0.4, 0.0, rng.normal(0.0, shift_spread, k))
    ratio[rng.random(k) < 0.3] = 1.0
    side = rng.random()
    if side < 0.3:
        ratio = np.maximum(ratio, 1.0 / ratio)
    elif side < 0.5:
        ratio = np.minimum(ratio, 1.0 / ratio)
    if ((ratio == 1.0) & (shift == 0.0)).all():
        shift[0] = shift_spread
    return ratio, shift, rng.integers(1, most + 1, k)


def pair(rows: Rows) -> ndis.GaussianPair:
    """The pair of these rows."""
    return ndis.GaussianPair.from_ratios(*rows)


def scaled(rows: Rows, factor: float) -> Rows:
    """All directions moved towards, or away from, equal laws."""
    ratio, shift, copies = rows
    t = ratio - 1.0
    return (
        np.where(t > 0, 1.0 + t * factor, 1.0 / (1.0 + (1.0 / ratio - 1.0) * factor)),
        shift * math.sqrt(factor),
        copies,
    )


def relative(rows: Rows, rng: np.random.Generator) -> Rows:
    """The same directions, each a little smaller or larger."""
    ratio, shift, copies = rows
    k = len(ratio)
    less = rng.integers(0, 2, k)
    return (
        (ratio - 1.0) * rng.uniform(0.7, 1.03, k) + 1.0,
        shift * rng.uniform(0.7, 1.03, k),
        np.maximum(1, copies - less),
    )


def gaps(a: ndis.GaussianPair, b: ndis.GaussianPair, points: int) -> np.ndarray:
    """log δ_A − log δ_B on a grid of both half-lines; the reversed pairs stand for ε < 0."""
    found = []
    for one, other in ((a, b), (a.reversed(), b.reversed())):
        scale = max(float(np.sqrt((p.copies * (0.5 * p.excess**2 + p.shift**2)).sum())) for p in (one, other))
        grid = np.concatenate([np.linspace(0.0, 8.0 * scale, points), scale * np.geomspace(8.0, 200.0, points // 4)])
        mine, theirs = one.log_delta(grid), other.log_delta(grid)
        with np.errstate(invalid="ignore"):
            found.append(np.where(np.isneginf(theirs), np.inf, mine - theirs))
    return np.concatenate(found)


def touching(rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Two pairs of which the second was scaled until it just touches the first, then moved by a small factor."""
    a, b = random_rows(rng), random_rows(rng)
    first = pair(a)
    low, high = 1e-6, 1.0
    while high < 1e6 and gaps(first, pair(scaled(b, high)), 60).min() > 0:
        high *= 4.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaps(first, pair(scaled(b, middle)), 60).min() > 0 else (low, middle)
    return a, scaled(b, low * (1.0 + rng.choice([-1, 1]) * 10.0 ** -rng.integers(2, 10)))


def make(rng: np.random.Generator) -> tuple[str, Rows, Rows]:
    """One case: its family and the rows of both pairs."""
    draw = rng.random()
    if draw < 0.65:
        return "random", random_rows(rng), random_rows(rng)
    if draw < 0.9:
        a = random_rows(rng)
        return "relative", a, relative(a, rng)
    return "touching", *touching(rng)


def is_wrong(a: ndis.GaussianPair, b: ndis.GaussianPair, holds: bool | None, witness: float | None) -> bool:
    """True if a grid, or the witness itself, contradicts the answer."""
    if holds is None:
        return False
    if holds:
        return bool(gaps(a, b, 300).min() < -_TOLERANCE)
    if witness is None:
        return True
    if witness < 0:
        a, b, witness = a.reversed(), b.reversed(), -witness
    return not float(b.log_delta(witness)) > float(a.log_delta(witness)) - _TOLERANCE


def sweep(count: int, seed: int, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Compare `count` pairs and sum up."""
    rng = np.random.default_rng(seed)
    answers: dict[str, Counter[str]] = {}
    times, wrong = [], 0
    for _ in range(count):
        family, rows_a, rows_b = make(rng)
        a, b = pair(rows_a), pair(rows_b)
        start = time.perf_counter()
        holds, witness, _ = compare(a, b)
        times.append(time.perf_counter() - start)
        answers.setdefault(family, Counter())[{True: "yes", False: "no", None: "undecided"}[holds]] += 1
        if is_wrong(a, b, holds, witness):
            wrong += 1
            say(f"WRONG {holds} {witness}: {rows_a} {rows_b}")
    fair = [each for name, each in answers.items() if name != "touching"]
    undecided, fair_pairs = (sum(n) for n in zip(*((each["undecided"], each.total()) for each in fair), strict=True))
    return {
        "pairs": count,
        "wrong": wrong,
        "decided": 1.0 - undecided / fair_pairs,
        "answers": {name: dict(each) for name, each in sorted(answers.items())},
        "median_seconds": float(np.median(times)),
        "mean_seconds": float(np.mean(times)),
        "longest_seconds": float(np.max(times)),
    }


def main() -> None:
    """Run the sweep and print its sums as JSON; status 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = sweep(options.pairs, options.seed)
    print(json.dumps(found, indent=2))
    raise SystemExit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
