"""Measure standard errors, coverage and finite intervals of private regression on tables with natural ranges.

python -m benchmarks.natural [--draws 20] [--tables patients trips ...] [--epsilon 1] [--jobs 1] [--wide]

Every draw has new records and new noise. Standard errors are over those of least squares with robust errors (HC3) on
the same records; coverage is that of both against the best linear fit of the population. `--wide` makes the range of
each column of the patients ten times wider in turn. The tables whose name ends in * were made after the method; they
were looked at when its constants were chosen. Those that end in + were written when everything was fixed, have seeds of
their own, and nothing was chosen on them.

Coverage of the small tables over 1,000 draws, in about two minutes of one core:
python -m benchmarks.natural --draws 1000 --tables costs-2k groups-2k --jobs 1
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLinearRegression
from ndis.schema import Schema

Floats = NDArray[np.float64]
Random = np.random.Generator
_POPULATION = 40  # blocks of 100,000 records, for the best linear fit


@dataclass(frozen=True)
class NaturalTable:
    """A generator of records, with the public ranges that anybody would write without looking."""

    make: Callable[[int, Random], pd.DataFrame]
    columns: dict[str, Any]
    target: tuple[str, float, float]

    def schema(self, **wider: Any) -> Schema:
        """Return the schema of the table, perhaps with other ranges."""
        return Schema({**self.columns, **wider}, target=self.target)


def patients(n: int, r: Random) -> pd.DataFrame:
    """Make quality of life after a stay: nine columns, one of them with a long tail in a wide range."""
    age = np.clip(r.normal(58, 17, n), 18, 99).round()
    sex = r.choice(["F", "M"], n)
    wards = np.array(["medicine", "surgery", "oncology", "cardiology"])
    ward = r.choice(4, n, p=[0.45, 0.3, 0.1, 0.15])
    smoker = r.random(n) < 0.22
    height = np.where(sex == "M", r.normal(177, 7, n), r.normal(165, 6.5, n)).round()
    pressure = np.clip(r.normal(118 + 0.3 * (age - 50), 14, n), 70, 220).round()
    stay = np.clip(r.gamma(1.4, 2.6, n) + (ward == 2) * 2, 0, 60).round(1)
    effect = np.array([0.0, 1.2, -7.0, -2.0])[ward]
    life = 92 - 0.29 * (age - 18) - 3.7 * smoker - 0.63 * stay + effect + r.normal(0, 8, n)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "ward": wards[ward],
            "smoker": smoker,
            "height_cm": height,
            "pressure": pressure,
            "stay": stay,
        }
    ).assign(life=np.clip(life, 0, 100))


def trips(n: int, r: Random) -> pd.DataFrame:
    """Make fares: two columns that go together, far inside their ranges; errors grow with the fare."""
    km = np.clip(r.lognormal(1.0, 0.8, n), 0.2, 60).round(2)
    minutes = np.clip(km * r.lognormal(1.0, 0.35, n) + 2, 1, 180).round()
    rush = r.random(n) < 0.3
    fare = 3 + 2.1 * km + 0.35 * minutes + 1.2 * rush + r.normal(0, 0.3 + 0.12 * km, n)
    return pd.DataFrame({"km": km, "minutes": minutes, "rush": rush, "fare": np.clip(fare, 0, 250)})


def costs(n: int, r: Random) -> pd.DataFrame:
    """Make costs with a log-normal error that grows with age."""
    age = r.uniform(18, 95, n).round()
    chronic = r.random(n) < 0.2
    error = (300 + 8 * (age - 18)) * (r.lognormal(0, 1.0, n) - np.exp(0.5))
    cost = 400 + 12 * (age - 18) + 900 * chronic + error
    return pd.DataFrame({"age": age, "chronic": chronic, "cost": np.clip(cost, -20_000, 50_000)})


def two_groups(n: int, r: Random) -> pd.DataFrame:
    """Make a null effect: a tenth is treated, and spreads three times as much."""
    treated = r.random(n) < 0.1
    y = 50 + r.normal(0, 1, n) * np.where(treated, 15.0, 5.0)
    return pd.DataFrame({"treated": treated, "y": np.clip(y, 0, 100)})


def wages(n: int, r: Random) -> pd.DataFrame:
    """Make log wages of a labour force survey: education, experience and its square go together."""
    education = np.clip(r.normal(13.6, 2.8, n), 0, 20).round()
    experience = np.clip(r.gamma(2.6, 8.0, n), 0, 50).round()
    female = r.random(n) < 0.48
    error = r.normal(0, 1, n) * (0.42 + 0.004 * experience)
    wage = 0.9 + 0.1 * education + 0.035 * experience - 0.0006 * experience**2 - 0.22 * female + error
    return pd.DataFrame(
        {"education": education, "experience": experience, "experience_squared": experience**2, "female": female}
    ).assign(log_wage=np.clip(wage, -1, 6))


def houses(n: int, r: Random) -> pd.DataFrame:
    """Make prices of houses: skewed areas, rooms that follow from them, five districts, errors that grow."""
    area = np.clip(r.lognormal(4.7, 0.45, n), 15, 600).round()
    rooms = np.clip(np.round(area / 28 + r.normal(0, 0.8, n)), 1, 20)
    built = np.clip(2020 - r.gamma(1.6, 25, n), 1800, 2024).round()
    district = r.choice(5, n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    price = 40 + 2.4 * area + 6 * rooms + 0.35 * (built - 1950) + np.array([0, 40, -20, 90, 15.0])[district]
    price = price + r.standard_t(4, n) * (15 + 0.25 * area)
    frame = {"area": area, "rooms": rooms, "built": built, "district": np.array(list("ABCDE"))[district]}
    return pd.DataFrame(frame).assign(price=np.clip(price, 0, 3000))


def energy(n: int, r: Random) -> pd.DataFrame:
    """Make the use of energy of households: temperature, people, floor space, and a heat pump that 6 % have."""
    degrees = r.normal(9, 7.5, n)
    people = np.clip(1 + r.poisson(1.3, n), 1, 12)
    space = np.clip(r.normal(60 + 22 * people, 30), 15, 400).round()
    pump = r.random(n) < 0.06
    use = 4 + 0.5 * np.maximum(18 - degrees, 0) + 1.1 * people + 0.04 * space + 5 * pump
    use = use * r.lognormal(-0.08, 0.4, n)
    frame = {"degrees": np.clip(degrees, -40, 50), "people": people, "space": space, "pump": pump}
    return pd.DataFrame(frame).assign(kwh=np.clip(use, 0, 200))


def pupils(n: int, r: Random) -> pd.DataFrame:
    """Make scores in a test: hours of study, three kinds of school, and tutors, who help nobody and spread scores."""
    hours = np.clip(r.gamma(2.5, 2.0, n), 0, 40).round(1)
    school = r.choice(3, n, p=[0.6, 0.33, 0.07])
    tutor = r.random(n) < 0.25
    error = r.normal(0, 1, n) * np.array([9.0, 7.0, 16.0])[school] * np.where(tutor, 1.5, 1.0)
    score = 50 + 1.5 * hours + np.array([0.0, 4.0, -3.0])[school] + error
    frame = {"hours": hours, "school": np.array(["state", "church", "other"])[school], "tutor": tutor}
    return pd.DataFrame(frame).assign(score=np.clip(score, 0, 150))


def claims(n: int, r: Random) -> pd.DataFrame:
    """Make claims of drivers: gamma errors whose spread grows with the mean, and 8 % who drive for a living."""
    experience = np.clip(r.normal(18, 11, n), 0, 60).round()
    power = np.clip(r.lognormal(4.6, 0.35, n), 30, 600).round()
    trade = r.random(n) < 0.08
    mean = np.maximum(300 - 3 * experience + 2.0 * power + 250 * trade, 50)
    claim = mean * r.gamma(1.2, 1 / 1.2, n)
    return pd.DataFrame({"experience": experience, "power": power, "trade": trade}).assign(claim=claim.clip(0, 20_000))


def rare_yes(n: int, r: Random, *, share: float, spread: float) -> pd.DataFrame:
    """Make a score with a rare yes, whose errors may spread more."""
    age, yes = r.uniform(18, 95, n).round(), r.random(n) < share
    y = 40 + 0.1 * (age - 18) + 10 * yes + 5 * r.normal(0, 1, n) * np.where(yes, spread, 1.0)
    return pd.DataFrame({"age": age, "yes": yes, "y": np.clip(y, -100, 200)})


def rare_clinic(n: int, r: Random, *, share: float, spread: float, clinics: int) -> pd.DataFrame:
    """Make quality of life after treatment in one of several clinics, the last of which is tiny and bad."""
    others = np.array([8.0, 6, 4, 2, 1, 1, 1])[: clinics - 1]
    clinic = r.choice(clinics, n, p=[*(1 - share) * others / others.sum(), share])
    tiny, smoker = clinic == clinics - 1, r.random(n) < 0.22
    age, stay = np.clip(r.normal(58, 17, n), 18, 99).round(), np.clip(r.gamma(1.4, 2.6, n), 0, 60).round(1)
    effect = np.where(tiny, -16.0, np.array([0.0, 1.2, -7, -2, 3, 1, -1, 0])[clinic])
    error = 8 * r.normal(0, 1, n) * np.where(tiny, spread, 1.0)
    frame = {"age": age, "clinic": np.array(list("ABCDEFGH"))[clinic], "smoker": smoker, "stay": stay}
    life = 97 - 0.29 * age - 3.7 * smoker - 0.63 * stay + effect + error
    return pd.DataFrame(frame).assign(life=np.clip(life, -150, 250))


def spikes(n: int, r: Random, *, share: float, far: float, sigma: float) -> pd.DataFrame:
    """Make a score with a number that is zero for most, and far away for a share of the records."""
    age, some = r.uniform(18, 95, n).round(), r.random(n) < share
    gain = np.where(some, np.clip(r.lognormal(0, sigma, n) * far, 0, 100), 0.0)
    y = 40 + 0.1 * (age - 18) + 10 * gain / far + 5 * r.normal(0, 1, n)
    return pd.DataFrame({"age": age, "gain": gain, "y": np.clip(y, -100, 300)})


def taxes(n: int, r: Random) -> pd.DataFrame:
    """Make taxes of people: gains of capital that one in twelve has, with a long tail."""
    age, hours = np.clip(17 + r.gamma(3.2, 7, n), 17, 90).round(), np.clip(r.normal(40, 12, n), 1, 99).round()
    gain = np.where(r.random(n) < 0.083, np.clip(r.lognormal(8.6, 0.9, n), 100, 99_999), 0.0).round()
    tax = 0.12 * gain + 60 * hours + 25 * age + r.normal(0, 1, n) * (400 + 0.03 * gain)
    frame = {"age": age, "hours": hours, "gain": gain, "male": r.random(n) < 0.67}
    return pd.DataFrame(frame).assign(tax=np.clip(tax, 0, 50_000))


def visits(n: int, r: Random) -> pd.DataFrame:
    """Make costs of visits to a doctor, which most people never make, and of a distance with a tail."""
    count = np.where(r.random(n) < 0.7, 0, r.negative_binomial(1, 0.25, n)).clip(0, 60).astype(float)
    distance, insured = np.clip(r.lognormal(1.5, 0.8, n), 0, 200).round(1), r.random(n) < 0.06
    cost = 80 + 120 * count + 2 * distance - 50 * insured + (60 + 40 * np.sqrt(count)) * r.standard_t(5, n)
    frame = {"visits": count, "distance": distance, "insured": insured}
    return pd.DataFrame(frame).assign(cost=np.clip(cost, -500, 20_000))


def spiked(share: float, far: float, sigma: float) -> NaturalTable:
    """Return a table with a number that few records have."""
    made = partial(spikes, share=share, far=far, sigma=sigma)
    return NaturalTable(made, {"age": (18, 95), "gain": (0, 100)}, ("y", -100, 300))


def rare(share: float, spread: float = 1.0, clinics: int = 0) -> NaturalTable:
    """Return a table with a rare yes, or with a tiny clinic of several, whose errors spread more by a factor."""
    if not clinics:
        made = partial(rare_yes, share=share, spread=spread)
        return NaturalTable(made, {"age": (18, 95), "yes": bool}, ("y", -100, 200))
    columns = {"age": (18, 100), "clinic": list("ABCDEFGH")[:clinics], "smoker": bool, "stay": (0, 60)}
    return NaturalTable(partial(rare_clinic, share=share, spread=spread, clinics=clinics), columns, ("life", -150, 250))


PATIENTS = NaturalTable(
    patients,
    {"age": (18, 100), "sex": ["F", "M"], "ward": ["medicine", "surgery", "oncology", "cardiology"], "smoker": bool}
    | {"height_cm": (130, 210), "pressure": (70, 220), "stay": (0, 60)},
    ("life", 0, 100),
)
TRIPS = NaturalTable(trips, {"km": (0, 60), "minutes": (0, 180), "rush": bool}, ("fare", 0, 250))
COSTS = NaturalTable(costs, {"age": (18, 95), "chronic": bool}, ("cost", -20_000, 50_000))
GROUPS = NaturalTable(two_groups, {"treated": bool}, ("y", 0, 100))
WAGES = NaturalTable(
    wages,
    {"education": (0, 20), "experience": (0, 50), "experience_squared": (0, 2500), "female": bool},
    ("log_wage", -1, 6),
)
HOUSES = NaturalTable(
    houses, {"area": (0, 600), "rooms": (0, 20), "built": (1800, 2030), "district": list("ABCDE")}, ("price", 0, 3000)
)
ENERGY = NaturalTable(
    energy, {"degrees": (-40, 50), "people": (0, 12), "space": (0, 400), "pump": bool}, ("kwh", 0, 200)
)
PUPILS = NaturalTable(
    pupils, {"hours": (0, 40), "school": ["state", "church", "other"], "tutor": bool}, ("score", 0, 150)
)
CLAIMS = NaturalTable(claims, {"experience": (0, 60), "power": (0, 600), "trade": bool}, ("claim", 0, 20_000))
TAXES = NaturalTable(
    taxes, {"age": (17, 90), "hours": (1, 99), "gain": (0, 99_999), "male": bool}, ("tax", 0, 50_000)
)
VISITS = NaturalTable(visits, {"visits": (0, 60), "distance": (0, 200), "insured": bool}, ("cost", -500, 20_000))
TABLES: dict[str, tuple[NaturalTable, int]] = {
    "patients": (PATIENTS, 8000), "patients-2k": (PATIENTS, 2000), "trips": (TRIPS, 300_000),
    "costs-2k": (COSTS, 2000), "costs-20k": (COSTS, 20_000), "costs-200k": (COSTS, 200_000),
    "groups-2k": (GROUPS, 2000), "groups-20k": (GROUPS, 20_000), "groups-200k": (GROUPS, 200_000),
    "wages": (WAGES, 25_000), "houses*": (HOUSES, 20_000), "energy*": (ENERGY, 10_000),
    "pupils-2k+": (PUPILS, 2000), "pupils-20k+": (PUPILS, 20_000),
    "claims-2k+": (CLAIMS, 2000), "claims-20k+": (CLAIMS, 20_000),
    "spikes-5k": (spiked(0.05, 20.0, 0.5), 5000), "spikes-20k": (spiked(0.01, 30.0, 0.3), 20_000),
    "spikes-50k": (spiked(0.005, 50.0, 0.3), 50_000),
    "taxes-30k+": (TAXES, 30_000), "taxes-5k+": (TAXES, 5000), "visits-6k+": (VISITS, 6000),
    "rare-yes": (rare(0.01), 20_000), "rare-yes-2k": (rare(0.05), 2000), "rare-yes-40": (rare(0.002), 20_000),
    "rare-yes-loud": (rare(0.01, 3.0), 20_000), "rare-yes-200k": (rare(0.002), 200_000),
    "rare-clinic": (rare(0.01, 1.0, 5), 20_000), "rare-clinic-2k": (rare(0.05, 1.0, 5), 2000),
    "rare-clinic-loud": (rare(0.01, 3.0, 5), 20_000), "rare-clinics": (rare(0.01, 1.0, 8), 20_000),
    "rare-yes-5k*": (rare(0.03, 2.0), 5000), "rare-yes-50k*": (rare(0.005, 2.0), 50_000),
    "rare-clinic-5k*": (rare(0.03, 1.5, 3), 5000), "rare-clinic-50k*": (rare(0.004, 1.0, 4), 50_000),
    "rare-yes-12k+": (rare(0.012, 2.5), 12_000), "rare-yes-30k+": (rare(0.015), 30_000),
    "rare-clinic-3k+": (rare(0.06, 2.0, 4), 3000), "rare-clinic-30k+": (rare(0.008, 1.0, 6), 30_000),
}  # fmt: skip


# ------------------------------------------------------------------ least squares


def design(table: NaturalTable, frame: pd.DataFrame) -> tuple[list[str], Floats, Floats]:
    """Return names, rows with a constant, and targets, in the users' units."""
    names, columns = [], []
    for name, spec in table.columns.items():
        for value in spec[1:] if isinstance(spec, list) else [None]:
            names.append(name if value is None else f"{name}={value}")
            columns.append(frame[name] if value is None else frame[name] == value)
    x = np.stack([*columns, np.ones(len(frame))], axis=1).astype(float)
    return [*names, "(intercept)"], x, frame[table.target[0]].to_numpy(float)


def least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and HC3 standard errors."""
    inverse = np.linalg.inv(x.T @ x)
    theta = inverse @ (x.T @ y)
    lever = np.einsum("ij,jk,ik->i", x, inverse, x)
    scores = x * ((y - x @ theta) / (1 - lever))[:, None]
    return theta, np.sqrt(np.diagonal(inverse @ (scores.T @ scores) @ inverse))


@cache
def population(name: str) -> Floats:
    """Return the best linear fit of the population, of four million records."""
    table, gram, products = TABLES[name][0], 0.0, 0.0
    for block in range(_POPULATION):
        _, x, y = design(table, table.make(100_000, np.random.default_rng([99, block])))
        gram, products = gram + x.T @ x, products + x.T @ y
    return np.asarray(np.linalg.solve(gram, products))


# ------------------------------------------------------------------ measuring


def one_draw(name: str, seed: int, *, epsilon: float, errors: str, wider: str | None = None) -> Floats:
    """Return, by coefficient: standard error over that of HC3, covered, covered by HC3, error over standard error."""
    table, records = TABLES[name]
    rng = np.random.default_rng([2311 if name.endswith("+") else 7, seed])
    frame, truth = table.make(records, rng), population(name)
    ranges = {}
    if wider is not None:
        low, high = table.columns[wider]
        ranges[wider] = (low, low + 10 * (high - low))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        model = PrivateLinearRegression(
            epsilon=epsilon, delta=1e-6, schema=table.schema(**ranges), random_state=int(rng.integers(2**60)),
            **({} if errors == "robust" else {"errors": errors}),
        ).fit(frame)  # fmt: skip
    shown = model.summary()
    _, x, y = design(table, frame)
    plain, hc3 = least_squares(x, y)
    off = np.abs(shown.estimate - truth)
    return np.stack([
        shown.standard_error / hc3, off <= 1.96 * shown.standard_error, np.abs(plain - truth) <= 1.96 * hc3,
        (shown.estimate - truth) / shown.standard_error,
    ])  # fmt: skip


def measure(name: str, draws: int, *, jobs: int, **how: Any) -> Floats:
    """Return (draws, 4, coefficients) measures."""
    work = partial(one_draw, name, **how)
    if jobs == 1:
        return np.array([work(seed) for seed in range(draws)])
    with ProcessPoolExecutor(jobs) as pool:
        return np.array(list(pool.map(work, range(draws), chunksize=max(draws // (4 * jobs), 1))))


def main(arguments: list[str] | None = None) -> None:
    """Print one line per table, and one per coefficient."""
    parser = argparse.ArgumentParser(description="Private regression on natural ranges.")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0])
    parser.add_argument("--errors", default="robust", choices=("robust", "equal-variance"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args(arguments if arguments is not None else [])
    how: dict[str, Any] = {"jobs": given.jobs, "errors": given.errors}
    for name, epsilon in ((name, epsilon) for name in given.tables for epsilon in given.epsilon):
        table, records = TABLES[name]
        values = measure(name, given.draws, epsilon=epsilon, **how)
        finite = np.isfinite(values[:, 0])
        print(
            f"\n{name}, n = {records}, epsilon = {epsilon:g}, {given.draws} draws: every interval finite in "
            f"{finite.all(axis=1).mean():.0%} of fits"
        )
        print(f"{'':<16} {'errors / HC3':>12} {'finite':>7} {'covered':>8} {'by HC3':>7} {'bias/SE':>8} {'rms z':>6}")
        names = design(table, table.make(10, np.random.default_rng(0)))[0]
        for j, each in enumerate(names):
            ratio, covered, plain, z = values[:, :, j].T
            print(
                f"{each:<16} {np.median(ratio):>12.2f} {finite[:, j].mean():>7.0%} {covered.mean():>8.3f} "
                f"{plain.mean():>7.3f} {z.mean():>8.2f} {np.sqrt((z**2).mean()):>6.2f}",
                flush=True,
            )
    if given.wide:
        print("\npatients, the range of one column ten times wider: median errors over those in natural ranges")
        before = np.median(measure("patients", given.draws, epsilon=1.0, **how)[:, 0], axis=0)
        for wider, spec in PATIENTS.columns.items():
            if isinstance(spec, tuple):
                after = np.median(measure("patients", given.draws, epsilon=1.0, wider=wider, **how)[:, 0], axis=0)
                print(f"{wider:<16} {' '.join(f'{value:.2f}' for value in after / before)}", flush=True)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
