"""Random compositions of sampled releases: the float, its error estimate and the certificate must agree.

python -m benchmarks.sampled_sweep --first 0 --count 2000 --jobs 16
python -m benchmarks.sampled_sweep --first 0 --count 2000 --jobs 16 --kind curved

A seed fixes a composition: one to three groups with 1 to 10⁶ steps each, rates from 1e-6 to 1, noise multipliers from
0.3 to 100 or other Gaussian pairs (sketches, pairs with unequal variances), an order, and δ from 0.9 to 1e-100. The ε
of that δ is solved for. There log δ, its error estimate and the certificate must not contradict each other. Nothing is
excused: a refusal is listed as a failure too.

With `--kind batches` a seed fixes steps that are no pairs: mixtures, users with several examples, truncated Poisson
batches, batches of a fixed size and replaced records, alone or together. The lower end of a certificate is then only
what neighbours attain, so the float may lie above it.

With `--kind epochs` a seed fixes 1 to 100 epochs of random allocation, alone or with Poisson steps: noise multipliers
from 0.3 to 10, 2 to 10⁶ bins, and δ from 0.9 to 1e-30. Their floats promise 1e-8.

With `--kind curved` a seed fixes one to three groups of pairs that are mostly no mean shifts: variance ratios from
1/300 to 300, one to three of them in a pair, some with a shift, sampled or plain. ε is 0, or that of δ = 1e-3 or 1e-8.
Floats were once wrong for such compositions, without a word.

The last lines of the output are the failures as a JSON list, and one line that sums up with the times. Several machines
share the work by different values of `--first`. The program ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

import numpy as np

import ndis
from ndis.accountant.composition import Composition
from ndis.accountant.one_release import OneRelease
from ndis.errors import PrecisionError

ACCURACY = 1e-10  # of log δ, relative to 1 + |log δ|; or twice what the laws accept
AGREED = ("agree", "agree within bounds", "zero")


def composition(seed: int) -> tuple[ndis.PrivacyProfile, ndis.profile.Choice, float]:
    """A composition, an order and a δ, all of them random."""
    rng = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    def pair() -> ndis.GaussianPair:
        kind = rng.random()
        if kind < 0.9:
            return ndis.PrivacyProfile.from_noise_multiplier(between(0.3, 100.0)).remove
        if kind < 0.96:  # a sketch of so many columns, wider or narrower with the record
            ratio = 1.0 + between(0.001, 0.2)
            return ndis.GaussianPair.from_ratios(
                ratio if rng.random() < 0.7 else 1.0 / ratio, copies=int(rng.integers(1, 200))
            )
        return ndis.GaussianPair.from_ratios(rng.uniform(0.7, 1.4, 2), shift=rng.uniform(0.0, 1.0, 2))

    groups = []
    for _ in range(int(rng.integers(1, 4))):
        rate = 1.0 if rng.random() < 0.1 else between(1e-6, 0.999)
        groups.append(ndis.profile.Group(pair(), rates=(rate,), count=int(between(1.0, 1e6))))
    if all(not group.sampled for group in groups) or (len(groups) == 1 and groups[0].count == 1):
        groups.append(ndis.profile.Group(pair(), rates=(0.01,), count=100))
    order: ndis.profile.Choice = "remove" if rng.integers(2) else "add"
    return ndis.PrivacyProfile(groups=groups), order, 10.0 ** -rng.uniform(0.05, 100.0)


def curved(seed: int) -> tuple[ndis.PrivacyProfile, ndis.profile.Choice, float]:
    """Return a random composition of curved pairs, an order and a δ; δ = 1 stands for ε = 0."""
    rng = np.random.default_rng([seed, 300])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    def pair() -> ndis.GaussianPair:
        if rng.random() < 0.15:
            return ndis.PrivacyProfile.from_noise_multiplier(between(0.5, 10.0)).remove
        widest = between(1.01, 300.0)
        if rng.random() < 0.7:
            ratio = widest if rng.random() < 0.5 else 1.0 / widest
            return ndis.GaussianPair.from_ratios(ratio, copies=int(between(1.0, 200.0)))
        count = int(rng.integers(1, 4))
        ratios = np.exp(rng.uniform(-1.0, 1.0, count) * math.log(widest))
        return ndis.GaussianPair.from_ratios(ratios, shift=rng.uniform(0.0, 1.0, count) * (rng.random() < 0.5))

    groups = [ndis.profile.Group(pair(), rates=(between(1e-6, 0.9),), count=int(between(2.0, 1000.0)))]
    for _ in range(int(rng.integers(0, 3))):
        rates = () if rng.random() < 0.5 else (between(1e-6, 0.9),)
        groups.append(ndis.profile.Group(pair(), rates=rates, count=int(between(1.0, 300.0))))
    order: ndis.profile.Choice = "remove" if rng.integers(2) else "add"
    return ndis.PrivacyProfile(groups=groups), order, float(rng.choice([1.0, 1e-3, 1e-8]))


def batches(seed: int) -> tuple[ndis.PrivacyProfile, ndis.profile.Choice, float]:
    """Return a random composition of steps that are no pairs, some with plain releases, an order and a δ."""
    rng = np.random.default_rng([seed, 22])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    def add_remove() -> ndis.PrivacyProfile:
        kind, noise = rng.integers(4), between(0.5, 10.0)
        if kind == 0:
            count = int(rng.integers(1, 5))
            chances = rng.dirichlet(np.ones(count + 1))
            sizes = [0.0 if rng.random() < 0.7 else 0.3, *np.sort(rng.uniform(0.3, 3.0, count)).tolist()]
            return ndis.PrivacyProfile.from_mixture(
                noise_multiplier=2.0 * noise, sensitivities=sizes, probabilities=(chances / chances.sum()).tolist()
            )
        sampled = ndis.PrivacyProfile.from_noise_multiplier(noise).subsampled(between(1e-4, 0.9))
        if kind == 1:
            return sampled.group(int(rng.integers(2, 9)))
        if kind == 2:
            size, rate = int(rng.integers(2, 200)), between(1e-3, 0.5)
            records = max(int(size / rate * rng.uniform(0.6, 1.2)), size + 1)
            return ndis.PrivacyProfile.from_truncated_poisson(
                noise_multiplier=noise, sampling_rate=rate, max_batch_size=size, records=records
            )
        return sampled

    def replaced() -> ndis.PrivacyProfile:
        noise = between(0.7, 10.0)
        if rng.random() < 0.5:
            release = ndis.PrivacyProfile.from_noise_multiplier(noise, adjacency="replace-one")
            return release.subsampled(between(1e-3, 0.9))
        records = int(between(20.0, 1e5))
        return ndis.PrivacyProfile.from_fixed_size(
            noise_multiplier=noise, batch_size=max(int(records * between(1e-3, 0.5)), 1), records=records
        )

    make = add_remove if rng.random() < 0.6 else replaced
    first, *others = (make().repeat(int(between(1.0, 1000.0))) for _ in range(int(rng.integers(1, 4))))
    order: ndis.profile.Choice = "remove" if rng.integers(2) else "add"
    return first.compose(*others), order, 10.0 ** -rng.uniform(0.05, 20.0)


def epochs(seed: int) -> tuple[ndis.PrivacyProfile, ndis.profile.Choice, float]:
    """Return epochs of random allocation, alone or with Poisson steps, an order and a δ."""
    rng = np.random.default_rng([seed, 16])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    profile = ndis.PrivacyProfile.from_allocation(
        noise_multiplier=between(0.3, 10.0),
        bins=int(between(2.0, 1e6)),
        epochs=1 if rng.random() < 0.3 else int(between(2.0, 101.0)),
    )
    if rng.random() < 0.3:
        step = ndis.PrivacyProfile.from_noise_multiplier(between(0.4, 10.0)).subsampled(between(1e-4, 0.5))
        profile = profile.compose(step.repeat(int(between(1.0, 1e4))))
    order: ndis.profile.Choice = "remove" if rng.integers(2) else "add"
    return profile, order, 10.0 ** -rng.uniform(0.05, 30.0)


KINDS = {"any": composition, "curved": curved, "batches": batches, "epochs": epochs}


@dataclass
class Finding:
    """What came out for one seed."""

    seed: int
    outcome: str = ""
    told: str = ""  # of a failure
    order: str = ""
    target: float = math.nan
    epsilon: float = math.nan
    value: float = math.nan  # log δ
    error: float = math.nan
    by_floats: bool = False  # False if the float kernel refused and a certificate stood in for it
    lower: float = math.nan  # the certificate
    upper: float = math.nan
    seconds: dict[str, float] = field(default_factory=dict)  # of ε, of log δ, and of the certificate
    groups: list[dict[str, Any]] = field(default_factory=list)


class _Stopwatch:
    def __init__(self, finding: Finding) -> None:
        self.finding, self.begun = finding, time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.finding.seconds[name], self.begun = now - self.begun, now


def check(seed: int, kind: str = "any") -> Finding:
    """Compare the float, its error estimate and the certificate at the ε of one seed; no failure raises."""
    profile, order, target = KINDS[kind](seed)
    found = Finding(seed, order=order, target=target)
    for group in profile.groups:
        if isinstance(group, ndis.profile.StepGroup):
            found.groups.append({"kind": group.step.kind, "count": group.count, **asdict(group.step)})  # type: ignore[call-overload]
            continue
        pair = group.remove
        about = {"ratios": (1.0 + pair.excess).tolist(), "shift": pair.shift.tolist(), "copies": pair.copies.tolist()}
        found.groups.append({"rate": group.rate, "count": group.count, **about})
    try:
        found.outcome = compare(profile, order, target, found)
    except (AssertionError, PrecisionError, TimeoutError, ArithmeticError, ValueError) as failure:
        kinds = {AssertionError: "CONTRADICTION", TimeoutError: "too slow"}
        stage = ("epsilon", "log_delta", "certificate", "comparison")[len(found.seconds)]
        refused = "refused" if isinstance(failure, PrecisionError) else "ERROR"
        found.outcome = f"{kinds.get(type(failure), refused)} ({stage})"
        found.told = f"{type(failure).__name__}: {failure}"
    return found


def compare(profile: ndis.PrivacyProfile, order: ndis.profile.Choice, target: float, found: Finding) -> str:
    """The outcome; raises AssertionError if two numbers contradict each other."""
    assert order != "worst"
    watch = _Stopwatch(found)
    found.epsilon = epsilon = profile.epsilon(target, order=order) if target < 1.0 else 0.0
    watch.lap("epsilon")
    law = profile._evaluators[order]
    if isinstance(law, OneRelease):  # one step alone, which the laws answer too
        law = Composition([(group.law(order), group.count) for group in profile.groups], order)
    x = np.array([epsilon])
    try:
        found.value, found.error = (float(a[0]) for a in law.floats.log_delta(x))
        found.by_floats = True
    except PrecisionError:
        found.value, found.error = (float(a[0]) for a in law.log_delta_and_error(x))
    watch.lap("log_delta")
    value, slack = found.value, max(ACCURACY, 2.0 * law.floats.accepted) * (1.0 + abs(found.value))
    if value > -math.inf:
        assert value <= math.log(target), "epsilon(delta) is not on the safe side"
        assert found.error <= slack, "the error estimate is above the accuracy promised"
    box = profile.certify(epsilon, order=order)
    found.lower, found.upper = box.lower, box.upper
    watch.lap("certificate")
    if value == -math.inf:
        assert box.upper <= target, "log δ = −∞, and the certificate is above the target"
        return "zero"
    assert box.lower == 0.0 or math.log(box.lower) <= value + slack, "the float is below the certificate"
    assert value - slack <= math.log(box.upper), "the float is above the certificate"
    return "agree" if box.width <= 1.01e-6 * box.upper else "agree within bounds"


def _check_within(job: tuple[int, float, str]) -> Finding:
    seed, limit, kind = job

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {limit:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    begun = time.perf_counter()
    try:
        return check(seed, kind)
    except TimeoutError as late:  # it came between two statements of `check`
        return Finding(seed, outcome="too slow", told=str(late), seconds={"all": time.perf_counter() - begun})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def summary(found: list[Finding]) -> str:
    """Outcomes, and the times of each stage."""
    text = f"{len(found)} compositions: {dict(Counter(f.outcome for f in found).most_common())}"
    text += f"; certificates in place of floats: {sum(not f.by_floats for f in found if 'log_delta' in f.seconds)}"
    for name in ("epsilon", "log_delta", "certificate"):
        times = [f.seconds[name] for f in found if name in f.seconds]
        if times:
            middle, most = np.quantile(times, [0.5, 0.95])
            text += f"; {name} median {middle:.3g} s, 95 % {most:.3g} s, max {max(times):.3g} s"
    return text


def main() -> int:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description="random compositions: float, error estimate and certificate agree")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=2000, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which one composition is given up")
    parser.add_argument("--kind", choices=KINDS, default="any", help="the class of compositions")
    parser.add_argument("--out", help="file to which every finding is appended as it comes, one JSON object per line")
    given = parser.parse_args()
    begun = time.perf_counter()
    work = [(seed, given.limit, given.kind) for seed in range(given.first, given.first + given.count)]
    found: list[Finding] = []
    _check_within((given.first, given.limit, given.kind))  # compiles what the processes then share
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for one in pool.imap_unordered(_check_within, work):
            found.append(one)
            if given.out:
                with open(given.out, "a") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
            if one.outcome not in AGREED:
                print(f"seed {one.seed}: {one.outcome}: {one.told}", flush=True)
    wrong = sorted((f for f in found if f.outcome not in AGREED), key=lambda f: f.seed)
    print(json.dumps([asdict(f) for f in wrong]))
    took = time.perf_counter() - begun
    print(f"seeds {given.first} to {given.first + given.count - 1}, {took:.0f} s: {summary(found)}")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
