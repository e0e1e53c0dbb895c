"""Compositions of sampled Gaussians: exact values beside dp_accounting (and prv_accountant), with their errors.

python -m benchmarks.accounting

The peer is dp_accounting with connect-the-dots at its default discretization of 1e-4: an error of four digits in
everyday settings. A finer one costs proportionally more. It always makes both orders, of
which a case asks for one. All times are processor times of one warm call in one run.
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import median_time, seconds
from ndis import DPSGD, GaussianPair, PrivacyProfile
from ndis.errors import PrecisionError
from ndis.profile import Group

DATA = Path(__file__).parents[1] / "tests" / "oracle" / "data"
TRUTH_IS_WRONG = 5  # of the few-step file: the given value is off in its fourth digit
PEER = importlib.util.find_spec("dp_accounting") is not None
INTERVAL = 1e-4

Case = dict[str, Any]


def given() -> list[Case]:
    """The reference cases: groups of (rate, shift, steps), ε, order, log δ."""
    many = json.loads((DATA / "given_accounting_cases.json").read_text())
    few = json.loads((DATA / "given_accounting_few_cases.json").read_text())
    return many + [case for i, case in enumerate(few) if i != TRUTH_IS_WRONG]


def corners() -> list[Case]:
    """The cases of our own table: rates down to 1e-6, noise 0.3 and 100, δ to 1e-100, sketches, plain steps."""
    made: list[Case] = json.loads((DATA / "accounting_cases.json").read_text())["cases"]
    return [case for case in made if case["by"] == "line" and all(g["excess"] >= 0.0 for g in case["groups"])]


def profile_of(case: Case) -> PrivacyProfile:
    """The profile of a case."""
    groups = []
    for g in case["groups"]:
        pair = GaussianPair.from_ratios(1.0 + g.get("excess", 0.0), shift=g["shift"], copies=g.get("copies", 1))
        groups.append(Group(pair, rates=(g["rate"],), count=g["steps"]))
    return PrivacyProfile(groups=groups)


def peer_law(parts: Iterable[tuple[float, float, int]]) -> Any:
    """The loss distribution of dp_accounting for some (noise multiplier, rate, steps)."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = None
    for noise, rate, steps in parts:
        part = pld.from_gaussian_mechanism(
            noise, sampling_prob=rate, use_connect_dots=True, value_discretization_interval=INTERVAL
        ).self_compose(steps)
        total = part if total is None else total.compose(part)
    return total


def peer_delta(case: Case) -> float:
    """δ of a case by dp_accounting, in the same order."""
    law = peer_law((1.0 / g["shift"], g["rate"], g["steps"]) for g in case["groups"])
    pmf = law._pmf_remove if case["order"] == "remove" else law._pmf_add
    return float(pmf.get_delta_for_epsilon(case["epsilon"]))


def timed_peer(job: Callable[[], Any]) -> float:
    """Processor time of a job of a peer; one round of a slow one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        job()
        once = time.process_time() - begun
        return once if once > 2.0 else median_time(job, rounds=3, budget=0.5)


def compare(cases: list[Case]) -> tuple[list[float], list[float], list[float]]:
    """δ of each case, ours and theirs: errors beside times. Returns our times, the ratios, and the errors of theirs."""
    print("  groups: rate, shift, steps                        order     log δ      ours    error      peer  δ off by")
    ours, ratios, offs, errors = [], [], [], []
    for case in cases:
        x, truth = np.array([float(case["epsilon"])]), float(case["log_delta"])
        profile = profile_of(case)
        job = lambda p=profile, o=case["order"], x=x: float(p.log_delta(x, order=o)[0])  # noqa: E731
        text = "; ".join(f"{g['rate']:.3g}, {g['shift']:.3g}, {g['steps']}" for g in case["groups"])
        text = "  " + (text + (" (sketch)" if any(g.get("excess") for g in case["groups"]) else ""))[:48]
        line = f"{text:<50} {case['order']:>6} {truth:9.3f} "
        try:
            error = abs(job() - truth) / (1.0 + abs(truth))
        except PrecisionError:
            print(f"{line}  refused")
            continue
        took = median_time(job, rounds=5, budget=0.5)
        ours.append(took)
        errors.append(error)
        line += f"{seconds(took):>9} {error:8.1e}"
        if PEER and not any(g.get("excess") for g in case["groups"]):
            spent = timed_peer(lambda case=case: peer_delta(case))  # type: ignore[misc]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                off = peer_delta(case) / math.exp(truth) - 1.0
            ratios.append(spent / took)
            offs.append(abs(off))
            line += f" {seconds(spent):>9} {off:+9.1e}"
        print(line, flush=True)
    most, middle = seconds(max(ours)), seconds(statistics.median(ours))
    print(f"ours: median {middle}, slowest {most}; largest error of log δ over 1 + |log δ|: {max(errors):.1e}")
    return ours, ratios, offs


def reference_cases() -> None:
    """δ of the reference cases of one group, then of our own corners."""
    print("\nδ of the one-group reference cases (goals: median 3 ms, 50 times faster, slowest 0.2 s, error 1e-10)")
    _, ratios, offs = compare([case for case in given() if len(case["groups"]) == 1])
    if ratios:
        good, percent = (sum(e <= most for e in offs) / len(offs) for most in (1e-6, 1e-2))
        print(f"dp_accounting takes {statistics.median(ratios):.0f} times as long as ours, in the median")
        print(f"dp_accounting: δ within 1 % on {percent:.0%}, within 1e-6 on {good:.0%} of the cases")
    print("\nδ of hard corners (goal: at most 0.2 s)")
    compare(corners())


def row(name: str, goal: float | None, ours: Callable[[], Any], peer: Callable[[], Any] | None, note: str) -> None:
    """One job: our time beside its goal, the time of the peer, and what the answers are worth."""
    took = median_time(ours, rounds=5)
    told = "" if goal is None else f" (goal {seconds(goal)})"
    line = f"{name:>58}: {seconds(took):>8}{told:<15}"
    if PEER and peer is not None:
        spent = timed_peer(peer)
        line += f" peer {seconds(spent):>8}, {spent / took:4.0f} times ours"
    print(f"{line}; {note}", flush=True)


def jobs() -> None:
    """The other goals, each beside dp_accounting where that can do it."""
    noise, rate, steps = 1.1, 256 / 60000, 14062
    profile = DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps).profile()
    grid = np.linspace(0.1, 4.0, 200)
    parts = [(0.8 + 0.01 * i, 0.001 + 0.0001 * i, 50 + i) for i in range(100)]
    hundred = DPSGD.from_schedule(parts).profile()
    law = (noise, rate, steps)
    print("\nother jobs")
    exact, notes = profile.epsilon(1e-5), dict.fromkeys(("epsilon", "curve", "hundred", "noise"), "")
    box = profile.certify(exact)
    sure = f"δ at our ε is certified within {1e-5 / box.upper - 1:.0e} and {1e-5 / box.lower - 1:.0e} of 1e-5"
    if PEER:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = peer_law([law])
            ratio = np.array(found.get_delta_for_epsilon(grid)) / profile.delta(grid) - 1.0
            notes["epsilon"] = f"; the peer's ε is off by {found.get_epsilon_for_delta(1e-5) / exact - 1:+.0e}"
            notes["curve"] = f"the peer's δ are off by up to {np.abs(ratio).max():.0e}"
            value = peer_law(parts).get_delta_for_epsilon(1.0) / hundred.delta(1.0) - 1.0
            notes["hundred"] = f"the peer's δ is off by {value:+.0e}"
    row(
        "ε at δ = 1e-5, σ = 1.1, rate 256/60000, 14 062 steps",
        0.02,
        lambda: profile.epsilon(1e-5),
        lambda: peer_law([law]).get_epsilon_for_delta(1e-5),
        sure + notes["epsilon"],
    )
    row(
        "200 ε on that curve, the worse of both orders",
        0.2,
        lambda: profile.log_delta(grid),
        lambda: peer_law([law]).get_delta_for_epsilon(grid),
        notes["curve"],
    )
    row(
        "δ of 100 different groups, remove order",
        0.3,
        lambda: hundred.log_delta(1.0, order="remove"),
        lambda: peer_law(parts).get_delta_for_epsilon(1.0),
        notes["hundred"],
    )
    epochs = DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    row("ε after each of 60 epochs", 1.0, lambda: epochs.epsilon_by_epoch(1e-5), None, "")
    for epsilon, delta, q, n in ((2.0, 1e-5, 0.01, 1000), (0.01, 1e-3, 1e-4, 100)):
        calibration(epsilon, delta, q, n)
    for sigma, q, n, e, about in (
        (1.1, rate, steps, 2.0, ""),
        (1.0, 1e-3, 1000, 0.369, ", few rare losses"),
        (0.3, 0.1, 100, 136.0, ", little noise"),
    ):
        made = DPSGD(noise_multiplier=sigma, sampling_rate=q, steps=n).profile()
        name = f"certificate, σ = {sigma:g}, rate {q:.3g}, {n} steps{about}"
        row(name, 5.0, lambda made=made, e=e: made.certify(e), None, f"relative width {_width(made, e):.0e}")  # type: ignore[misc]


def _width(profile: PrivacyProfile, epsilon: float) -> float:
    box = profile.certify(epsilon)
    return box.width / box.upper


def calibration(epsilon: float, delta: float, rate: float, steps: int) -> None:
    """The noise multiplier for a budget: with its certificate, without it, and by dp_accounting."""
    end = DPSGD.calibrated(epsilon=epsilon, delta=delta, sampling_rate=rate, steps=steps)
    whole = median_time(
        lambda: DPSGD.calibrated(epsilon=epsilon, delta=delta, sampling_rate=rate, steps=steps), rounds=3
    )
    last = median_time(lambda: end.profile().certify(epsilon), rounds=3)
    name = f"noise multiplier for ({epsilon:g}, {delta:g}), rate {rate:g}, {steps} steps"
    line = f"{name:>58}: {seconds(whole - last):>8} (goal 300 ms)   and {seconds(last)} for its certificate"
    if PEER:
        import dp_accounting as dpa

        def peer() -> float:
            return float(
                dpa.calibrate_dp_mechanism(
                    dpa.pld.PLDAccountant,
                    lambda noise: dpa.SelfComposedDpEvent(
                        dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise)), steps
                    ),
                    epsilon,
                    delta,
                    bracket_interval=dpa.LowerEndpointAndGuess(0.3, 1.0),
                )
            )

        spent = timed_peer(peer)
        off = peer() / end.noise_multiplier - 1.0
        line += f"; peer {seconds(spent)}, {spent / max(whole - last, 1e-9):.0f} times ours, σ off by {off:+.0e}"
    print(line, flush=True)


def everyday() -> None:
    """Two everyday settings: the peers are right to four digits."""
    if importlib.util.find_spec("dp_accounting") is None:
        print("dp_accounting is not installed: no comparison")
        return
    import dp_accounting as dpa

    print("\nε in everyday settings")
    for noise, rate, steps, delta in ((1.1, 256 / 60000, 14062, 1e-5), (0.8, 0.01, 2000, 1e-8)):
        run = DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps)
        event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise)), steps)
        took = seconds(median_time(lambda run=run, delta=delta: run.epsilon(delta), rounds=5))  # type: ignore[misc]
        line = f"σ = {noise}, rate {rate:.4g}, {steps} steps, δ = {delta:g}: exact {run.epsilon(delta):.8f} ({took})"
        for name, make in (("PLD", dpa.pld.PLDAccountant), ("Rényi", dpa.rdp.RdpAccountant)):
            job = lambda make=make, event=event, delta=delta: make().compose(event).get_epsilon(delta)  # noqa: E731
            line += f"; {name} {job():.6f} ({seconds(median_time(job, rounds=3))})"
        print(line)
    if importlib.util.find_spec("prv_accountant") is None:
        print("prv_accountant is not installed: no comparison")
        return
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    def prv() -> tuple[float, float, float]:
        step = PoissonSubsampledGaussianMechanism(sampling_probability=256 / 60000, noise_multiplier=1.1)
        law = PRVAccountant(step, max_self_compositions=14062, eps_error=0.01, delta_error=1e-8)
        return law.compute_epsilon(1e-5, [14062])

    print(f"prv_accountant on the first: {prv()} ({seconds(median_time(prv, rounds=3))})")


def main() -> None:
    """Print all tables."""
    reference_cases()
    jobs()
    everyday()


if __name__ == "__main__":
    main()
