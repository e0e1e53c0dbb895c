"""Speed and accuracy of δ(ε) and of the generalized chi-square, in one run, errors beside times.

References: the certified enclosure for δ, the 25-digit table in ``tests/oracle/data`` for the generalized chi-square.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import ndis
from benchmarks import median_time, median_times, seconds

ORACLE = Path(__file__).parents[1] / "tests" / "oracle" / "data" / "genchi2_cases.json"
console = Console(width=None if sys.stdout.isatty() else 160)


def table(title: str, *columns: str) -> Table:
    out = Table(title=title, title_justify="left", title_style="bold", header_style="", expand=False)
    for i, name in enumerate(columns):
        out.add_column(name, justify="left" if i == 0 else "right")
    return out


def within(value: float, target: float) -> str:
    return f"{seconds(target)} {'✓' if value <= target else '✗'}"


# ---------------------------------------------------------------- δ(ε)


def pairs() -> dict[str, tuple[ndis.GaussianPair, float]]:
    """A pair with few distinct directions and one with a thousand, each with an ε."""
    rng = np.random.default_rng(7)
    few = ndis.GaussianPair.from_ratios([1.5, 0.8, 1.1], shift=[0.0, 0.7, 0.3], copies=[2, 1, 40])
    many = ndis.GaussianPair.from_ratios(np.exp(0.1 * rng.normal(size=1000)), shift=0.05 * rng.normal(size=1000))
    return {"3 distinct directions": (few, 1.0), "1000 distinct directions": (many, 1.0)}


def relative_error(value: float, box: ndis.Enclosure) -> float:
    """Distance from the enclosure's middle, relative."""
    return math.fabs(value / (0.5 * (box.lower + box.upper)) - 1.0)


def spectrum_table() -> None:
    out = table("δ(ε)", "problem", "value", "median time", "target", "relative error")
    scalar, certified = {"3": 1e-4, "1000": 5e-3}, {"3": 0.05, "1000": 2.0}
    for name, (pair, epsilon) in pairs().items():
        key = name.split()[0]
        box = pair.certify(epsilon)
        value = pair.delta(epsilon)
        took = median_time(partial(pair.delta, epsilon))
        error = f"{relative_error(value, box):.1e}"
        out.add_row(f"delta, {name}", f"{value:.6g}", seconds(took), within(took, scalar[key]), error)
        took = median_time(partial(pair.certify, epsilon), rounds=7, budget=5.0)
        width = f"width {(box.upper - box.lower) / box.lower:.1e}"
        out.add_row(f"certify, {name}", f"{box.lower:.6g}", seconds(took), within(took, certified[key]), width)
        target = 1e-6
        answer = pair.epsilon(target)
        took = median_time(partial(pair.epsilon, target))
        short = 1.0 - pair.delta(answer) / target
        out.add_row(f"epsilon(1e-6), {name}", f"{answer:.6g}", seconds(took), "", f"short of δ by {short:.1e}")
    for d in (10, 40):
        pair = dense_pair(d)
        took = median_time(partial(pair.certify, 1.0), rounds=3, budget=5.0)
        box = pair.certify(1.0)
        width = f"width {(box.upper - box.lower) / box.lower:.1e}"
        out.add_row(f"certify, dense {d} x {d}", f"{box.lower:.6g}", seconds(took), "", width)
    grid = np.linspace(0.0, 5.0, 1000)
    pair = pairs()["3 distinct directions"][0]
    took = median_time(lambda: pair.delta(grid))
    out.add_row("delta on 1000 ε, 3 distinct directions", "", seconds(took), "", f"{seconds(took / 1000)} each")
    if hasattr(ndis, "delta_batch"):
        batch_row(out)
    console.print(out)


def dense_pair(d: int) -> ndis.GaussianPair:
    """Two Gaussians with unrelated covariances."""
    rng = np.random.default_rng(d)
    a, b = rng.normal(size=(2, 2 * d, d))
    mean = 0.1 * rng.normal(size=d)
    return ndis.GaussianPair.from_moments(mean, a.T @ a / d + np.eye(d), 0 * mean, b.T @ b / d + np.eye(d))


def batch_row(out: Table) -> None:
    """A million rank-one pairs; a sample of them against the certified value."""
    rng = np.random.default_rng(8)
    n = 1_000_000
    ratio, shift, epsilon = np.exp(rng.normal(scale=0.5, size=n)), rng.normal(size=n), rng.uniform(0.0, 3.0, size=n)
    ndis.delta_batch(ratio[:5000], shift[:5000], 1, epsilon[:5000])
    start = time.perf_counter()
    values = ndis.delta_batch(ratio, shift, 1, epsilon)
    took = time.perf_counter() - start
    worst = 0.0
    for i in rng.choice(n, size=40, replace=False):
        if values[i] > 0.0:
            box = ndis.GaussianPair.from_ratios(ratio[i], shift[i]).certify(float(epsilon[i]))
            worst = max(worst, relative_error(values[i], box) / (1.0 - math.log(values[i])))
    name = f"delta_batch, 10⁶ rank-one pairs, {os.cpu_count()} cores"
    out.add_row(name, "", seconds(took), "seconds", f"{worst:.1e}·(1+|log δ|), worst of 40")


# ---------------------------------------------------------------- fresh processes

IMPORT = "import time; t = time.perf_counter(); import ndis; print(time.perf_counter() - t)"
FIRST = (
    "import time; t = time.perf_counter(); import ndis; "
    "ndis.GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7]).delta(1.0); print(time.perf_counter() - t)"
)


def fresh(code: str, times: int = 5) -> float:
    """Median of what `code` prints, each time in a new process; the first, which may fill caches, does not count."""
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(times + 1)
    ]
    return statistics.median(runs[1:])


def process_table() -> None:
    out = table("A fresh process, caches on disk warm", "step", "median time", "target")
    for name, code, target in (("import ndis", IMPORT, 0.3), ("import ndis and a first δ", FIRST, 1.5)):
        took = fresh(code)
        out.add_row(name, seconds(took), within(took, target))
    console.print(out)


# ---------------------------------------------------------------- against gx2

# gx2's methods at their defaults and, where they have a setting for it, asked for more digits
METHODS: dict[str, dict[str, Any]] = {
    "auto": {"method": "auto"},
    "imhof, tight": {"method": "imhof", "AbsTol": 1e-300, "RelTol": 1e-12},
    "ruben, 5000 terms": {"method": "ruben", "n_ruben": 5000},
    "ray": {"method": "ray"},
    "tail": {"method": "tail"},
    "ellipse": {"method": "ellipse"},
    "ifft": {"method": "ifft"},
}


class Problem:
    """One row of the table: the smaller tail at x, and what it is."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.name = case["id"]
        self.law = tuple(case[key] for key in ("weights", "dof", "noncentrality", "sigma", "shift"))
        self.x = case["x"]
        self.lower = float(case["cdf"]) <= 0.5
        self.tail = float(case["cdf" if self.lower else "sf"])

    def ndis(self) -> float:
        """Law and tail, from the parameters, as gx2 is called."""
        law = ndis.GeneralizedChiSquare(*self.law)
        return float(law.cdf(self.x) if self.lower else law.sf(self.x))

    def gx2(self, options: dict[str, Any]) -> float:
        import gx2

        w, k, ncp, s, m = self.law
        return float(np.ravel(gx2.cdf(self.x, w, k, ncp, s, m, side="lower" if self.lower else "upper", **options))[0])

    def suits(self, method: str) -> bool:
        """Rays need a matrix of the total dof squared; an FFT of a second a call has digits only in the bulk."""
        return sum(self.law[1]) <= 500 if method == "ray" else self.tail > 1e-3 if method == "ifft" else True

    def error(self, value: float) -> float:
        return math.fabs(value / self.tail - 1.0) if math.isfinite(value) and value >= 0.0 else math.inf


def problems() -> list[Problem]:
    cases = [Problem(case) for case in json.loads(ORACLE.read_text())["cases"]]
    return [p for p in cases if p.tail > 1e-300]


def attempt(job: Callable[[], float]) -> float:
    """The value, or NaN where gx2 does not apply to the problem or fails on it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return job()
        except (ValueError, TypeError, ArithmeticError, LookupError, NameError):
            return math.nan


class Trial(NamedTuple):
    """A method of gx2 on one problem and ndis beside it; ndis timed for law and tail, and for the tail alone."""

    problem: Problem
    method: str
    error: float
    time: float
    own_error: float
    own_time: float
    own_tail_time: float


def trials() -> Iterator[Trial]:
    for p in problems():
        law = ndis.GeneralizedChiSquare(*p.law)
        own_error = p.error(p.ndis())
        for method, options in METHODS.items():
            job = partial(attempt, partial(p.gx2, options))
            error = p.error(job()) if p.suits(method) else math.inf
            if error < math.inf:
                times = median_times(job, p.ndis, partial(law.cdf if p.lower else law.sf, p.x), rounds=5, budget=0.03)
                yield Trial(p, method, error, times[0], own_error, times[1], times[2])


def summary(times: list[float]) -> str:
    return f"{statistics.median(times):.3g} ({min(times):.2g}–{max(times):.2g})"


def gx2_tables() -> None:
    if importlib.util.find_spec("gx2") is None:
        console.print("generalized chi-square against gx2: skipped, gx2 is not installed (pip install gx2)")
        return
    done = list(trials())
    rows = {t.problem.name: t for t in done}
    middle = statistics.median
    out = table(
        f"Generalized chi-square: the smaller tail, {len(rows)} problems of the 25-digit table",
        *("method", "answers", "error ≤ 1e-6", "median error", "worst", "median time"),
        *("ndis faster ×, law and tail", "×, tail"),
    )
    own = list(rows.values())
    errors = [t.own_error for t in own]
    accuracy = (str(len(own)), str(sum(e <= 1e-6 for e in errors)), f"{middle(errors):.1e}", f"{max(errors):.1e}")
    out.add_row("ndis, law and tail", *accuracy, seconds(middle([t.own_time for t in own])), "", "")
    out.add_row("ndis, tail of a frozen law", *accuracy, seconds(middle([t.own_tail_time for t in own])), "", "")
    for method in METHODS:
        found = [t for t in done if t.method == method]
        if found:
            errors = [t.error for t in found]
            out.add_row(
                f"gx2 {method}",
                *(str(len(found)), str(sum(e <= 1e-6 for e in errors)), f"{middle(errors):.1e}", f"{max(errors):.1e}"),
                seconds(middle([t.time for t in found])),
                summary([t.time / t.own_time for t in found]),
                summary([t.time / t.own_tail_time for t in found]),
            )
    console.print(out)

    out = table(
        "Problem by problem: of gx2's methods within 10× of its least error there, the fastest",
        *("problem", "tail", "gx2 method", "error", "time", "ndis error", "law and tail", "×", "tail", "×"),
    )
    best = []
    for name in rows:
        here = [t for t in done if t.problem.name == name]
        enough = max(10.0 * min(t.error for t in here), 1e-14)
        t = min((t for t in here if t.error <= enough), key=lambda t: t.time)
        best.append(t)
        theirs = (name, f"{t.problem.tail:.2g}", t.method, f"{t.error:.1e}", seconds(t.time), f"{t.own_error:.1e}")
        ours = (
            seconds(t.own_time),
            f"{t.time / t.own_time:.3g}",
            seconds(t.own_tail_time),
            f"{t.time / t.own_tail_time:.3g}",
        )
        out.add_row(*theirs, *ours)
    console.print(out)
    good = [t for t in best if t.error <= 1e-6]
    reached = sum(t.own_error <= 1e-6 for t in best)
    console.print(
        f"gx2's best method reaches 1e-6 on {len(good)} of {len(best)} problems, ndis on {reached}. On those "
        f"{len(good)} ndis is faster by the factor {summary([t.time / t.own_time for t in good])} for law and tail, "
        f"{summary([t.time / t.own_tail_time for t in good])} for the tail of a frozen law: median (least–greatest)."
    )


# ---------------------------------------------------------------- against dp_accounting


def dp_accounting_table() -> None:
    if importlib.util.find_spec("dp_accounting") is None:
        console.print("Gaussian mechanism against dp_accounting: skipped, not installed (pip install dp-accounting)")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
        from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    out = table(
        "Gaussian mechanism, sensitivity 1", "noise, ε", "δ", "who", "relative error", "median time", "ndis faster ×"
    )
    for noise, epsilon in ((1.0, 1.0), (2.0, 3.0), (5.0, 2.0)):
        pair = ndis.GaussianPair.from_ratios(1.0, shift=1.0 / noise)
        box = pair.certify(epsilon)
        value, own = pair.delta(epsilon), partial(pair.delta, epsilon)
        first = (f"σ = {noise:g}, ε = {epsilon:g}", f"{value:.3g}")
        closed = partial(GaussianPrivacyLoss(noise, sensitivity=1).get_delta_for_epsilon, epsilon)
        grid = partial(from_gaussian_mechanism(noise, sensitivity=1).get_delta_for_epsilon, epsilon)
        times = median_times(own, closed, grid)
        out.add_row(*first, "ndis", f"{relative_error(value, box):.1e}", seconds(times[0]), "")
        for who, job, took in (("closed form", closed, times[1]), ("PLD, ready-made", grid, times[2])):
            error = relative_error(float(job()), box)
            out.add_row("", "", f"dp_accounting {who}", f"{error:.1e}", seconds(took), f"{took / times[0]:.3g}")
    console.print(out)


def main() -> None:
    load = ", ".join(f"{v:.1f}" for v in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    console.print(f"{os.cpu_count()} cores; load average before the run: {load}")
    spectrum_table()
    process_table()
    gx2_tables()
    dp_accounting_table()


if __name__ == "__main__":
    main()
