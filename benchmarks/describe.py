"""Coverage and length of the intervals of `ndis.describe`, beside those without privacy.

    python -m benchmarks.describe [--draws N] [--epsilon E] [--fits] [table ...]

Every draw makes a new table and a new release. The truth is that of two million records. The intervals without privacy
are Student's (means, groups, differences), those of the delta method with fourth moments (variances, and correlations
in Fisher's scale), robust ones (regression) and order statistics (quantiles): none assumes a law. Means of one number
in one grouping are compared with Laplace noise of scale range/(ε·size), which takes the sizes of groups as public.
`--fits` compares the regressions of a description with fits of `PrivateLinearRegression` with the same budget and
columns instead.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import stats

import ndis

Rows = dict[str, np.ndarray]
TRUTH = 2_000_000


def patients(n: int, rng: np.random.Generator) -> Rows:
    """Nine columns in natural ranges, one with a long tail."""
    age = np.clip(rng.normal(58, 17, n), 18, 99).round()
    ward = rng.choice(["medicine", "surgery", "oncology", "cardiology"], n, p=[0.45, 0.3, 0.1, 0.15])
    smoker = rng.random(n) < 0.22
    pressure = np.clip(rng.normal(118 + 0.3 * (age - 50), 14, n), 70, 220).round()
    stay = np.clip(rng.gamma(1.4, 2.6, n) + (ward == "oncology") * 2, 0, 60).round(1)
    life = 92 - 0.29 * (age - 18) - 3.7 * smoker - 0.63 * stay - 7.0 * (ward == "oncology") + rng.normal(0, 8, n)
    life = np.clip(life, 0, 100)
    return {"age": age, "ward": ward, "smoker": smoker, "pressure": pressure, "stay": stay, "life": life}


def costs(n: int, rng: np.random.Generator) -> Rows:
    """Costs with a log-normal error in a wide range."""
    age = rng.uniform(18, 95, n).round()
    chronic = rng.random(n) < 0.2
    error = (300 + 8 * (age - 18)) * (rng.lognormal(0, 1.0, n) - np.exp(0.5))
    cost = 400 + 12 * (age - 18) + 900 * chronic + error
    return {"age": age, "chronic": chronic, "cost": np.clip(cost, -20_000, 50_000)}


def survey(n: int, rng: np.random.Generator) -> Rows:
    """Few people, 25 questions of 1 to 5, three factors."""
    load = np.random.default_rng(7).uniform(0.3, 0.8, (25, 3)) * (np.random.default_rng(8).random((25, 3)) < 0.45)
    factors = rng.normal(size=(n, 3))
    answers = np.clip(np.round(3 + factors @ load.T + rng.normal(0, 0.8, (n, 25))), 1, 5)
    return {f"q{i + 1}": answers[:, i] for i in range(25)}


def shops(n: int, rng: np.random.Generator) -> Rows:
    """Fifty shops, from few customers to many."""
    weights = 1.0 / (1.0 + np.arange(50))
    shop = rng.choice(50, n, p=weights / weights.sum())
    spend = np.clip(rng.gamma(2.0, 12.0, n) + shop * 0.4, 0, 200)
    return {"shop": np.array([f"s{i}" for i in range(50)])[shop], "spend": spend}


def wages(n: int, rng: np.random.Generator) -> Rows:
    """Pay by schooling and years of work."""
    school = np.clip(rng.normal(13.4, 2.6, n), 0, 20).round()
    years = np.clip(rng.gamma(2.2, 9.0, n), 0, 60).round()
    female = rng.random(n) < 0.48
    log = 1.1 + 0.09 * school + 0.03 * years - 0.0005 * years**2 - 0.2 * female + rng.normal(0, 0.45, n)
    region = rng.choice(["N", "S", "E", "W"], n, p=[0.4, 0.3, 0.2, 0.1])
    return {"school": school, "years": years, "female": female, "wage": np.clip(np.exp(log), 0, 250), "region": region}


def loans(n: int, rng: np.random.Generator) -> Rows:
    """Loans with a Pareto tail of incomes. It was written when all constants were fixed; the others were tuned on."""
    income = np.clip(12_000 * (1.0 + rng.pareto(2.8, n)), 0, 400_000)
    years = np.clip(rng.poisson(6.0, n), 1, 30).astype(float)
    score = np.clip(rng.normal(640, 85, n) + 0.0008 * (income - 18_000), 300, 900).round()
    owner = rng.random(n) < 0.35
    rate = np.clip(14.0 - 0.011 * (score - 600) - 1.1 * owner + rng.standard_t(4, n), 0, 40)
    use = rng.choice(["car", "home", "study", "debt", "other"], n, p=[0.34, 0.3, 0.06, 0.25, 0.05])
    return {"income": income, "years": years, "score": score, "owner": owner, "rate": rate, "use": use}


TABLES: dict[str, tuple[Callable[..., Rows], int, dict[str, Any], str, list[str]]] = {
    "patients": (
        patients, 8_000,
        {"age": (18, 100), "ward": ["medicine", "surgery", "oncology", "cardiology"], "smoker": bool,
         "pressure": (70, 220), "stay": (0, 60), "life": (0, 100)},
        "life", ["age", "smoker"],
    ),
    "costs": (costs, 20_000, {"age": (18, 95), "chronic": bool, "cost": (-20_000, 50_000)}, "cost", ["age"]),
    "survey": (survey, 600, {f"q{i + 1}": (1, 5) for i in range(25)}, "q1", ["q2"]),
    "shops": (shops, 10_000, {"shop": [f"s{i}" for i in range(50)], "spend": (0, 200)}, "spend", []),
    "wages": (
        wages, 20_000,
        {"school": (0, 20), "years": (0, 60), "female": bool, "wage": (0, 250), "region": ["N", "S", "E", "W"]},
        "wage", ["school", "female"],
    ),
    "loans": (
        loans, 12_000,
        {"income": (0, 400_000), "years": (0, 30), "score": (300, 900), "owner": bool, "rate": (0, 40),
         "use": ["car", "home", "study", "debt", "other"]},
        "rate", ["score", "owner"],
    ),
}  # fmt: skip
PAIRS = (
    ("patients", "ward", "stay"), ("patients", "ward", "life"), ("shops", "shop", "spend"), ("wages", "region", "wage"),
    ("loans", "use", "income"),
)  # fmt: skip
Key = tuple[str, ...]
Interval = tuple[float, float]


Statistic = tuple[str, Key, float, Interval]


def statistics(rows: Rows, target: str, on: list[str], spec: dict[str, Any]) -> Iterator[Statistic]:
    """Kind, name, value and 95 % interval of every statistic, without privacy."""
    numbers = {k: v.astype(float) for k, v in rows.items() if not isinstance(spec[k], list)}
    names, n = list(numbers), len(next(iter(rows.values())))
    for name, x in numbers.items():
        yield "means", (name,), *_student(x)
        centred = x - x.mean()
        half = 1.96 * np.sqrt(max((centred**4).mean() - x.var() ** 2, 0.0) / n)
        yield "variances", (name,), x.var(), (x.var() - half, x.var() + half)
        if spec[name] is not bool:
            ordered = np.sort(x)
            for p in (0.25, 0.5, 0.75):
                low, high = stats.binom.ppf([0.025, 0.975], n, p).astype(int)
                ends = ordered[low], ordered[min(high, n - 1)]
                yield "quantiles", (name, f"{100 * p:g}%"), ordered[int(n * p)], ends
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            r = float(np.corrcoef(numbers[a], numbers[b])[0, 1])
            u, v = ((numbers[k] - numbers[k].mean()) / numbers[k].std() for k in (a, b))
            half = 1.96 * float((u * v - r / 2 * (u * u + v * v)).std()) / (1 - r * r) / np.sqrt(n)
            yield "correlations", (a, b), r, (np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half))
    for by, values in spec.items():
        if isinstance(values, list):
            groups = [rows[by] == value for value in values]
            for value, group in zip(values, groups, strict=True):
                for name, x in numbers.items():
                    if group.sum() > 1:
                        yield "groups", (by, value, name), *_student(x[group])
            first = numbers[target][groups[0]]
            for value, group in list(zip(values, groups, strict=True))[1:6]:
                x = numbers[target][group]
                apart, half = x.mean() - first.mean(), 1.96 * np.sqrt(x.var() / len(x) + first.var() / len(first))
                yield "differences", (by, value), apart, (apart - half, apart + half)
    if on:
        x = np.stack([*(numbers[name] for name in on), np.ones(n)], axis=1)
        inverse = np.linalg.inv(x.T @ x)
        beta = inverse @ x.T @ numbers[target]
        residual = numbers[target] - x @ beta
        robust = inverse @ (x.T * residual**2) @ x @ inverse
        for name, value, v in zip([*on, "(intercept)"], beta, np.diagonal(robust), strict=True):
            half = 1.96 * np.sqrt(v)
            yield "regression", (name,), float(value), (value - half, value + half)


def _student(x: np.ndarray) -> tuple[float, Interval]:
    half = stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), (float(x.mean() - half), float(x.mean() + half))


def private(d: ndis.Description, target: str, on: list[str], spec: dict[str, Any]) -> dict[tuple[str, Key], Any]:
    """Estimate and interval of every statistic of a release, by kind and name."""
    made: dict[tuple[str, Key], Any] = {}

    def take(kind: str, table: Any, before: Key = ()) -> None:
        for name, (value, _, low, high) in zip(table.index, table.rows(), strict=True):
            made[kind, (*before, *name)] = value, (low, high)

    take("means", d.means())
    if d.plan.matrix:
        take("variances", d.variances())
        take("correlations", d.correlation())
    if on:
        take("regression", d.regress(target, on=on))
    for name in d.plan.numbers:
        if d.plan.quantiles and spec[name] is not bool:
            take("quantiles", d.quantiles(name), (name,))
    for by, values in spec.items():
        if isinstance(values, list):
            take("groups", d.groups(by), (by,))
            table = d.compare(target, by=by)
            for label, (value, _, low, high) in zip(table.index, table.rows(), strict=True):
                made["differences", (by, label[0].partition(" \u2212 ")[0])] = value, (low, high)
    return made


def coverage(table: str, draws: int, epsilon: float) -> None:
    """Print coverage and median length of every kind."""
    make, n, spec, target, on = TABLES[table]
    schema = ndis.Schema(spec)
    many = make(TRUTH, np.random.default_rng(99))
    truth = {(kind, name): value for kind, name, value, _ in statistics(many, target, on, spec)}
    hits: dict[str, list[tuple[bool, bool, float, float]]] = defaultdict(list)
    each: dict[tuple[str, Key], list[tuple[bool, bool]]] = defaultdict(list)
    for seed in range(draws):
        rows = make(n, np.random.default_rng(seed))
        ours = private(ndis.describe(rows, schema=schema, epsilon=epsilon, delta=1e-6), target, on, spec)
        for kind, name, _, (low, high) in statistics(rows, target, on, spec):
            if (kind, name) not in ours:
                continue
            _, (a, b) = ours[kind, name]
            true = truth[kind, name]
            hits[kind].append((a <= true <= b, low <= true <= high, b - a, high - low))
            each[kind, name].append((a <= true <= b, low <= true <= high))
    print(f"{table}, {n:,} records, epsilon {epsilon:g}, {draws} draws")
    print(f"  {'kind':<13}{'covered':>9}{'not private':>13}{'length ratio':>14}   worst: covered, not private")
    for kind, rows_of in hits.items():
        own, other, length, before = np.array(rows_of, dtype=float).T
        ours, theirs, name = min((*np.mean(v, axis=0), n) for (k, n), v in each.items() if k == kind)
        worst = f"{', '.join(name)}: {ours:.3f}, {theirs:.3f}"
        print(f"  {kind:<13}{own.mean():>9.3f}{other.mean():>13.3f}{length.sum() / before.sum():>14.2f}   {worst}")


def group_means(draws: int, epsilon: float) -> None:
    """Print the error of means of one number in one grouping, over that of Laplace noise with public sizes."""
    for table, by, name in PAIRS:
        make, n, spec, _, _ = TABLES[table]
        schema = ndis.Schema({by: spec[by], name: spec[name]})
        ours, laplace = [], []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            rows = make(n, rng)
            d = ndis.describe(rows, schema=schema, epsilon=epsilon, delta=1e-6, quantiles=False, matrix=False)
            frame = d.groups(by)
            for (label, what), value in zip(frame.index, frame.estimate.tolist(), strict=True):
                group = rows[by] == label
                if what == name and group.sum() >= 100:
                    true = rows[name][group].mean()
                    low, high = spec[name]
                    ours.append(value - true if np.isfinite(value) else high - low)
                    laplace.append(rng.laplace(0, (high - low) / (epsilon * group.sum())))
        ratio = np.sqrt(np.mean(np.square(ours)) / np.mean(np.square(laplace)))
        print(f"{table}: mean of {name} by {by}: {ratio:.2f} times the error of Laplace noise with public sizes")


def fits(table: str, draws: int, epsilon: float) -> None:
    """Print standard errors of the regression of a description over those of a fit with the same budget."""
    make, n, spec, target, on = TABLES[table]
    schema = ndis.Schema({name: spec[name] for name in on}, target=(target, *spec[target]))
    ratios = []
    for seed in range(draws):
        rows = make(n, np.random.default_rng(seed))
        d = ndis.describe(rows, schema=ndis.Schema(spec), epsilon=epsilon, delta=1e-6)
        model = ndis.learn.PrivateLinearRegression(epsilon=epsilon, delta=1e-6, schema=schema).fit_data(rows)
        ratios.append(d.regress(target, on=on).standard_error / model.summary().standard_error)
    medians = zip([*on, "(intercept)"], np.median(ratios, axis=0), strict=True)
    shown = ", ".join(f"{name} {ratio:.1f}" for name, ratio in medians)
    print(f"{table}, {target}, {draws} draws: errors of a description over those of a fit: {shown}")


def main() -> None:
    """Read the options and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.fits:
        for table in given.tables:
            if TABLES[table][4]:
                fits(table, given.draws, given.epsilon)
        return
    for table in given.tables:
        coverage(table, given.draws, given.epsilon)
    group_means(min(given.draws, 100), given.epsilon)


if __name__ == "__main__":
    main()
