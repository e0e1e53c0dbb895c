"""Random allocation: accuracy, and the times of floats and certificates, beside dp_accounting where it has the event.

python -m benchmarks.allocation
python -m benchmarks.allocation --grid epochs

With `--grid` only one grid runs: of one epoch, or of several. It lists each certificate that is refused or wide.

All times are processor times of one call. "first" includes the density of the epoch, which every later δ shares.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

from ndis import PrecisionError, PrivacyProfile
from ndis.accountant.laws import allocation

CASES = Path(__file__).parents[1] / "tests" / "oracle" / "data" / "given_allocation_cases.json"
CORNERS = (  # σ, t, epochs, δ
    (0.3, 2, 1, 1e-12), (0.3, 1000, 1, 1e-12), (1.0, 1000, 1, 1e-30), (10.0, 10**6, 1, 1e-30), (2.0, 10**5, 1, 1e-9),
    (0.5, 1000, 100, 1e-6), (1.0, 10**4, 100, 1e-9), (10.0, 10**6, 100, 1e-30), (3.0, 2, 100, 1e-30),
    (1.0, 10**6, 10, 1e-6), (0.4, 10**5, 1, 1e-6),
)  # fmt: skip
ORDERS: tuple[Literal["remove", "add"], ...] = ("remove", "add")
GRIDS = {  # σ, t, epochs, δ
    "one": ((0.3, 0.5, 1.0, 3.0, 10.0), (2, 10, 10**3, 10**4, 10**5, 10**6), (1,), (1e-6, 1e-12, 1e-30)),
    "epochs": ((0.3, 1.0, 10.0), (2, 10**3, 10**6), (2, 10, 100), (1e-6, 1e-30)),
}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the processor time in seconds."""
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


def reference() -> None:
    """The given cases: error of log δ relative to 1 + |log δ|, and times."""
    firsts, laters, certificates, worst = [], [], [], 0.0
    for case in json.loads(CASES.read_text(encoding="utf-8")):
        epsilon = float(case["epsilon"])
        allocation._epoch.cache_clear()
        for order in (name for name in ("remove", "add") if name in case):
            profile = PrivacyProfile.from_allocation(
                noise_multiplier=case["noise_multiplier"], bins=case["bins"], epochs=case["epochs"]
            )
            value, first = timed(partial(profile.log_delta, epsilon, order=order))
            later = timed(partial(profile.log_delta, 1.01 * epsilon, order=order))[1]
            box, proof = timed(partial(profile.certify, epsilon, order=order))
            truth = float(case[order])
            worst = max(worst, abs(value - truth) / (1.0 + abs(truth)))
            assert box.lower <= math.exp(truth) * (1 + 1e-10)
            assert box.upper >= math.exp(truth) * (1 - 1e-10)
            firsts.append(first)
            laters.append(later)
            certificates.append(proof)
    print(f"{len(firsts)} reference values: largest error of log delta / (1 + |log delta|) {worst:.1e}")
    for name, times in (("first delta", firsts), ("later delta", laters), ("certificate to 1e-6", certificates)):
        print(f"  {name}: median {1e3 * statistics.median(times):.0f} ms, most {1e3 * max(times):.0f} ms")


def corners() -> None:
    """Certificates at the edges of the promised range."""
    print("sigma, bins, epochs, delta, order: epsilon; seconds of epsilon, of a certificate; its relative width")
    for noise, bins, epochs, delta in CORNERS:
        profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=bins, epochs=epochs)
        for order in ("remove", "add"):
            epsilon, search = timed(partial(profile.epsilon, delta, order=order))
            box, proof = timed(partial(profile.certify, epsilon, order=order))
            width = box.width / box.upper if box.upper else 0.0
            print(f"  {noise:g}, {bins}, {epochs}, {delta:g}, {order}: {epsilon:.8g};", end=" ")
            print(f"{search:.2f}, {proof:.2f}; {width:.1e}")


def grid(name: str) -> None:
    """Certificates over the promised range: times, widths, and each that is refused, wide or has one side."""
    noises, bins, epochs, deltas = GRIDS[name]
    cases, rows, two_sided = list(product(noises, bins, epochs, deltas, ORDERS)), [], 0
    for noise, t, number, delta, order in cases:
        profile = PrivacyProfile.from_allocation(noise_multiplier=noise, bins=t, epochs=number)
        case, begun = f"sigma {noise:g}, {t} bins, {number} epochs, delta {delta:g}, {order}", time.process_time()
        try:
            epsilon = profile.epsilon(delta, order=order)
            box, proof = timed(partial(profile.certify, epsilon, order=order))
        except PrecisionError as refusal:
            print(f"  {case}: refused after {time.process_time() - begun:.2f} s: {refusal}", flush=True)
            continue
        width = box.width / box.upper if box.upper else 0.0
        rows.append((proof, width, case))
        two_sided += box.lower > 0.0
        if width > 1e-6:
            print(f"  {case}: width {width:.1e} in {proof:.2f} s", flush=True)
    narrow = sum(width <= 1e-6 for _, width, _ in rows)
    print(f"{name}: {len(cases)} certificates, {len(rows)} answered, {two_sided} with two sides, {narrow} to 1e-6")
    print(f"  seconds: median {statistics.median(row[0] for row in rows):.3f}, most {max(rows)[0]:.2f}: {max(rows)[2]}")


def peer() -> None:
    """The time of dp_accounting for one epoch, where the installed version knows the event."""
    try:
        import dp_accounting

        event = dp_accounting.RandomAllocationDpEvent
    except (ImportError, AttributeError):
        print("the installed dp_accounting has no event for random allocation")
        return
    from dp_accounting.pld import PLDAccountant

    made = event(dp_accounting.GaussianDpEvent(0.5), num_steps=1000)
    epsilon, seconds = timed(lambda: PLDAccountant().compose(made).get_epsilon(1e-6))
    print(f"dp_accounting, sigma 0.5, 1000 bins, delta 1e-6: {epsilon:.6f} in {seconds:.1f} s; exact 4.106016")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="random allocation: accuracy and times")
    parser.add_argument("--grid", choices=GRIDS, help="only this grid of certificates")
    given = parser.parse_args()
    PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=3, epochs=2).epsilon(1e-5)  # compiles
    if given.grid:
        grid(given.grid)
    else:
        reference()
        corners()
        for each in GRIDS:
            grid(each)
        peer()
