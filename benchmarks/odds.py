"""Measure standard errors and coverage of private logistic regression on tables with natural ranges.

python -m benchmarks.odds [--draws 20] [--tables rare-yes loans+ ...] [--epsilon 1] [--jobs 1]

Every draw has new records and new noise. Errors are over those of maximum likelihood on the same records, which has no
noise of privacy; coverage is that of both against the coefficients that made the records. Choices were made on the
tables without a plus. Those with a plus were written when everything was fixed, and have seeds of their own.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLogisticRegression
from ndis.schema import Schema

Floats = NDArray[np.float64]
Random = np.random.Generator
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class OddsTable:
    """A generator of columns, the public ranges, the true log-odds of each column, and those where all are zero."""

    make: Callable[[int, Random], dict[str, Any]]
    columns: dict[str, Any]
    slopes: dict[str, float]
    start: float

    def draw(self, n: int, r: Random) -> tuple[pd.DataFrame, Floats, Floats]:
        """Return a table, its rows with a constant, and 1 where the target is yes."""
        frame = pd.DataFrame(self.make(n, r))
        parts = [name.split("=") for name in self.slopes]
        x = np.stack([*[frame[p[0]] == p[1] if p[1:] else frame[p[0]] for p in parts], np.ones(n)], axis=1)
        score = x.astype(float) @ [*self.slopes.values(), self.start]
        yes = r.random(n) < 1.0 / (1.0 + np.exp(-score))
        return frame.assign(back=np.where(yes, "yes", "no")), x.astype(float), yes.astype(float)

    def schema(self) -> Schema:
        """Return what is public."""
        return Schema({**self.columns, "back": ["no", "yes"]}).with_target("back")


def ages(n: int, r: Random) -> Any:
    """Make ages."""
    return np.clip(r.normal(58, 17, n), 18, 99).round()


def stays(n: int, r: Random) -> Any:
    """Make days of a stay, whose range is wide."""
    return np.clip(r.gamma(1.4, 2.6, n), 0, 60).round(1)


def rare_yes(share: float, start: float, effect: float) -> OddsTable:
    """Return a table with a rare yes."""

    def make(n: int, r: Random) -> dict[str, Any]:
        return {"age": r.uniform(18, 95, n).round(), "yes": r.random(n) < share}

    return OddsTable(make, {"age": (18, 95), "yes": bool}, {"age": 0.02, "yes": effect}, start - 0.02 * 56)


def rare_clinic(share: float, clinics: int) -> OddsTable:
    """Return a table with a tiny clinic of several."""
    others = np.array([8.0, 6, 4, 2, 1, 1, 1])[: clinics - 1]
    effects = [0.3, -0.4, 0.2, 0.1, 0.0, -0.2][: clinics - 2]

    def make(n: int, r: Random) -> dict[str, Any]:
        clinic = r.choice(clinics, n, p=[*(1 - share) * others / others.sum(), share])
        other = {"smoker": r.random(n) < 0.22, "stay": stays(n, r)}
        return {"age": ages(n, r), "clinic": np.array(list(LETTERS))[clinic], **other}

    columns = {"age": (18, 100), "clinic": list(LETTERS[:clinics]), "smoker": bool, "stay": (0, 60)}
    own = {f"clinic={LETTERS[k + 1]}": effect for k, effect in enumerate([*effects, 1.0])}
    return OddsTable(make, columns, {"age": 0.02, **own, "smoker": 0.5, "stay": 0.05}, -2.3)


def visits(start: float) -> OddsTable:
    """Return a table whose target is as rare as `start` says."""

    def make(n: int, r: Random) -> dict[str, Any]:
        return {"age": ages(n, r), "smoker": r.random(n) < 0.22, "stay": stays(n, r)}

    slopes = {"age": 0.02, "smoker": 0.7, "stay": 0.08}
    return OddsTable(make, {"age": (18, 100), "smoker": bool, "stay": (0, 60)}, slopes, start - 1.45)


def spikes(share: float, far: float, sigma: float, effect: float) -> OddsTable:
    """Return a table with a number that is zero for most, and far away for a share of the records."""

    def make(n: int, r: Random) -> dict[str, Any]:
        some = r.random(n) < share
        gain = np.where(some, np.clip(r.lognormal(0, sigma, n) * far, 0, 100), 0.0)
        return {"age": r.uniform(18, 95, n).round(), "gain": gain}

    return OddsTable(make, {"age": (18, 95), "gain": (0, 100)}, {"age": 0.02, "gain": effect / far}, -2.12)


def fines(n: int, r: Random) -> dict[str, Any]:
    """Make drivers: fines that one in six has, some of them many, years of driving, and a second car."""
    count = np.where(r.random(n) < 0.16, 1 + r.negative_binomial(1, 0.4, n), 0).clip(0, 40).astype(float)
    return {"fines": count, "years": np.clip(r.normal(20, 12, n), 0, 70).round(), "second": r.random(n) < 0.2}


def incomes(n: int, r: Random) -> dict[str, Any]:
    """Make incomes with a long tail, and a yes that 4 % have."""
    income = np.clip(r.lognormal(10.3, 0.9, n), 0, 1e6).round()
    return {"income": income, "former": r.random(n) < 0.04, "age": np.clip(r.normal(45, 12, n), 18, 90).round()}


def loans(n: int, r: Random) -> dict[str, Any]:
    """Make loans: incomes with a tail, years in a job, four kinds of job, the last of which 1.5 % have."""
    job = np.array(["office", "trade", "care", "artist"])[r.choice(4, n, p=[0.5, 0.3, 0.185, 0.015])]
    income = np.clip(r.lognormal(10.5, 0.5, n), 0, 300_000).round()
    return {"income": income, "years": np.clip(r.gamma(1.5, 5.0, n), 0, 45).round(), "job": job}


def churn(n: int, r: Random) -> dict[str, Any]:
    """Make customers: months, one of three plans, and paper bills; a quarter leave."""
    plan = np.array(["small", "middle", "large"])[r.choice(3, n, p=[0.55, 0.35, 0.1])]
    return {"months": np.clip(r.gamma(1.2, 20.0, n), 0, 120).round(), "plan": plan, "paper": r.random(n) < 0.4}


def alarms(n: int, r: Random) -> dict[str, Any]:
    """Make hours of a machine: a fault that 1 % of them have, a vibration with a tail; few end in an alarm."""
    degrees, shaking = r.normal(40, 9, n).clip(-20, 120).round(1), r.lognormal(0.5, 0.5, n).clip(0, 40)
    return {"degrees": degrees, "night": r.random(n) < 0.3, "fault": r.random(n) < 0.01, "shaking": shaking}


def votes(n: int, r: Random) -> dict[str, Any]:
    """Make voters: age, town, and a membership that 8 % have; nearly half say yes."""
    town, age = r.random(n) < 0.6, r.normal(50, 16, n).clip(18, 100).round()
    return {"age": age, "town": town, "member": r.random(n) < 0.08}


LOANS = OddsTable(
    loans,
    {"income": (0, 300_000), "years": (0, 45), "job": ["office", "trade", "care", "artist"]},
    {"income": -0.00001, "years": -0.05, "job=trade": 0.3, "job=care": -0.2, "job=artist": 0.9}, -1.9,
)  # fmt: skip
CHURN = OddsTable(
    churn,
    {"months": (0, 120), "plan": ["small", "middle", "large"], "paper": bool},
    {"months": -0.03, "plan=middle": 0.3, "plan=large": 0.8, "paper": -0.4}, -0.6,
)  # fmt: skip
ALARMS = OddsTable(
    alarms,
    {"degrees": (-20, 120), "night": bool, "fault": bool, "shaking": (0, 40)},
    {"degrees": 0.04, "night": -0.3, "fault": 1.5, "shaking": 0.25}, -6.4,
)  # fmt: skip
VOTES = OddsTable(
    votes, {"age": (18, 100), "town": bool, "member": bool}, {"age": -0.01, "town": 0.5, "member": 0.8}, 0.0
)
INCOMES = OddsTable(
    incomes, {"income": (0, 1e6), "former": bool, "age": (18, 90)}, {"income": 8e-6, "former": 0.9, "age": -0.03}, 0.19
)
FINES = OddsTable(
    fines, {"fines": (0, 40), "years": (0, 70), "second": bool},
    {"fines": 0.25, "years": -0.02, "second": 0.3}, -1.5,
)  # fmt: skip
TABLES: dict[str, tuple[OddsTable, int]] = {
    "rare-yes": (rare_yes(0.01, -1.0, 1.0), 20_000), "rare-yes-2k": (rare_yes(0.05, -1.0, 1.0), 2000),
    "rare-yes-strong": (rare_yes(0.01, -2.5, 2.0), 20_000),
    "rare-clinic": (rare_clinic(0.01, 4), 20_000), "rare-clinic-3k": (rare_clinic(0.06, 4), 3000),
    "target-2%": (visits(-4.2), 20_000), "target-8%": (visits(-2.8), 8000), "target-43%": (visits(-0.45), 8000),
    "incomes": (INCOMES, 15_000),
    "spikes-5k": (spikes(0.15, 15.0, 0.7, 0.7), 5000), "spikes-20k": (spikes(0.03, 20.0, 0.5, 1.0), 20_000),
    "spikes-50k": (spikes(0.005, 50.0, 0.3, 1.5), 50_000), "fines-8k+": (FINES, 8000), "fines-25k+": (FINES, 25_000),
    "loans+": (LOANS, 12_000), "churn+": (CHURN, 5000), "alarms+": (ALARMS, 30_000), "votes+": (VOTES, 2500),
}  # fmt: skip


def likeliest(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients of maximum likelihood and their errors."""
    theta, hessian = np.zeros(x.shape[1]), np.eye(x.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-(x @ theta)))
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x
        theta = theta + np.linalg.solve(hessian, x.T @ (y - p))
    return theta, np.sqrt(np.diagonal(np.linalg.inv(hessian)))


def one_draw(name: str, seed: int, *, epsilon: float) -> Floats:
    """Return, by coefficient: error over that of maximum likelihood, both errors in units of their standard error."""
    table, n = TABLES[name]
    rng = np.random.default_rng([2312 if name.endswith("+") else 8, seed])
    frame, x, y = table.draw(n, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        public = {"epsilon": epsilon, "delta": 1e-6, "schema": table.schema()}
        found = PrivateLogisticRegression(**public, random_state=int(rng.integers(2**60))).fit(frame).summary()
    truth, (plain, errors) = np.array([*table.slopes.values(), table.start]), likeliest(x, y)
    off = (found.estimate - truth) / found.standard_error
    return np.stack([found.standard_error / errors, off, (plain - truth) / errors])


def main(arguments: list[str] | None = None) -> None:
    """Print one line per coefficient of each table."""
    parser = argparse.ArgumentParser(description="Private logistic regression on natural ranges.")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments if arguments is not None else [])
    for name, epsilon in ((name, epsilon) for name in given.tables for epsilon in given.epsilon):
        work = partial(one_draw, name, epsilon=epsilon)
        if given.jobs == 1:
            values = np.array([work(seed) for seed in range(given.draws)])
        else:
            with ProcessPoolExecutor(given.jobs) as pool:
                values = np.array(list(pool.map(work, range(given.draws), chunksize=5)))
        table, n = TABLES[name]
        print(f"\n{name}, n = {n}, epsilon = {epsilon:g}, {given.draws} draws")
        print(f"{'':<14} {'errors / ML':>11} {'covered':>8} {'by ML':>7} {'bias/SE':>8} {'rms z':>6}")
        for j, each in enumerate([*table.slopes, "(intercept)"]):
            ratio, z, plain = values[:, :, j].T
            inside, own = (np.mean(np.abs(v) <= 1.96) for v in (z, plain))
            print(
                f"{each:<14} {np.median(ratio):>11.2f} {inside:>8.3f} {own:>7.3f} {z.mean():>8.2f} "
                f"{np.sqrt((z**2).mean()):>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
