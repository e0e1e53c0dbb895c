"""Compositions of sampled Gaussians: exact values beside dp_accounting (and prv_accountant), with their errors.

python -m benchmarks.accounting
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import median_time, seconds
from ndis import DPSGD, GaussianPair, Group, PrivacyProfile

DATA = Path(__file__).parents[1] / "tests" / "oracle" / "data"
TRUTH_IS_WRONG = 5  # of the few-step file: the given value is off in its fourth digit


def given() -> list[dict[str, Any]]:
    """The reference cases: groups of (rate, shift, steps), ε, order, log δ."""
    many = json.loads((DATA / "given_accounting_cases.json").read_text())
    few = json.loads((DATA / "given_accounting_few_cases.json").read_text())
    return many + [case for i, case in enumerate(few) if i != TRUTH_IS_WRONG]


def profile_of(case: dict[str, Any]) -> PrivacyProfile:
    """The profile of a case."""
    pairs = [(GaussianPair.from_ratios(1.0, shift=g["shift"]), g) for g in case["groups"]]
    return PrivacyProfile.from_groups(Group(pair, rates=(g["rate"],), count=g["steps"]) for pair, g in pairs)


def peer_of(case: dict[str, Any]) -> Callable[[], float]:
    """δ of a case by dp_accounting, in the same order."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def delta() -> float:
        parts = [
            pld.from_gaussian_mechanism(
                1.0 / g["shift"], sampling_prob=g["rate"], use_connect_dots=True, value_discretization_interval=1e-4
            ).self_compose(g["steps"])
            for g in case["groups"]
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
        pmf = total._pmf_remove if case["order"] == "remove" else total._pmf_add
        return float(pmf.get_delta_for_epsilon(case["epsilon"]))

    return delta


def reference_cases() -> None:
    """δ of every one-group reference case, ours and theirs: errors of log δ beside processor times."""
    peer = importlib.util.find_spec("dp_accounting") is not None
    ours, theirs, ratios, errors, peer_errors = [], [], [], [], []
    print("\nδ of the one-group reference cases; error of log δ over 1 + |log δ|")
    print("     rate  shift    steps  order     log δ      ours    error      peer  δ off by")
    for case in given():
        if len(case["groups"]) > 1:
            continue
        (group,), x = case["groups"], np.array([float(case["epsilon"])])
        profile, truth = profile_of(case), float(case["log_delta"])
        job = lambda p=profile, o=case["order"], x=x: p.log_delta(x, order=o)  # noqa: E731
        took = median_time(job, rounds=5, budget=1.0)
        error = abs(float(job()[0]) - truth) / (1.0 + abs(truth))
        ours.append(took)
        errors.append(error)
        line = f"{group['rate']:9.2g} {group['shift']:6.3g} {group['steps']:8d} {case['order']:>6} {truth:9.3f} "
        line += f"{seconds(took):>9} {error:8.1e}"
        if peer:
            other = peer_of(case)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spent = median_time(other, rounds=3, budget=1.0)
                off = other() / math.exp(truth) - 1.0
            theirs.append(spent)
            ratios.append(spent / took)
            peer_errors.append(abs(off))
            line += f" {seconds(spent):>9} {off:+9.1e}"
        print(line)
    middle, most = seconds(statistics.median(ours)), seconds(max(ours))
    print(f"median of ours: {middle} (goal: at most 3 ms); slowest {most}")
    print(f"largest error of ours: {max(errors):.1e} (goal: 1e-10)")
    if peer:
        good = sum(e <= 1e-6 for e in peer_errors) / len(peer_errors)
        percent = sum(e <= 1e-2 for e in peer_errors) / len(peer_errors)
        ratio = statistics.median(ratios)
        print(f"dp_accounting: median {seconds(statistics.median(theirs))}; {ratio:.0f} times ours (goal: at least 50)")
        print(f"dp_accounting: within 1 % on {percent:.0%}, within 1e-6 on {good:.0%} of the cases")


def jobs() -> None:
    """The other goals."""
    mnist = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
    profile = mnist.profile()
    grid = np.linspace(0.1, 4.0, 200)
    hundred = DPSGD.from_schedule([(0.8 + 0.01 * i, 0.001 + 0.0001 * i, 50 + i) for i in range(100)]).profile()
    hard = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=10).profile()
    short = {"sampling_rate": 0.01, "steps": 1000}
    end = DPSGD(noise_multiplier=0.96, **short).profile()
    whole = median_time(lambda: DPSGD.calibrated(epsilon=2.0, delta=1e-5, **short), rounds=5)
    last = median_time(lambda: end.certify(2.0), rounds=5)
    many = np.array([1.0])
    rows = [
        ("ε at δ = 1e-5, σ = 1.1, rate 256/60000, 14 062 steps", median_time(lambda: profile.epsilon(1e-5)), 0.02),
        ("200 ε on one curve, the worse of both orders", median_time(lambda: profile.log_delta(grid), rounds=5), 0.2),
        ("δ of 100 groups, one order", median_time(lambda: hundred.log_delta(many, order="remove"), rounds=5), 0.3),
        ("δ of 10 steps at rate 0.0043 (hard), one order", median_time(lambda: hard.delta(1.0, order="remove")), 0.2),
        ("noise multiplier for (2, 1e-5), before the certificate", whole - last, 0.3),
        ("certificate of one group, 1e-6, both orders", median_time(lambda: profile.certify(2.0), rounds=5), 5.0),
    ]
    print("\nother jobs, processor time")
    for name, took, goal in rows:
        print(f"{name:>56}: {seconds(took):>9} (goal: {seconds(goal)})")


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
