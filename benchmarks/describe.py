"""Coverage, length and error of the intervals of `ndis.describe`, beside those without privacy.

    python -m benchmarks.describe [--draws N] [--jobs N] [--epsilon E] [--fits] [--told] [table ...]

Every draw makes a new table and a new release. The truth is that of two million records. The intervals without privacy
are Student's (means, groups), Welch's (differences), those of the delta method with fourth moments (variances, and
correlations in Fisher's scale), robust ones (regression) and order statistics (quantiles): none assumes a law. The last
table is that of docs/describe.md. A kind beyond two points is marked: coverage minus that without privacy on the same
draws, with the standard error of this difference. Ratios of median lengths and of root mean square errors are medians
over the statistics of a kind. A draw that fails is counted and named, and the others are shown.

Means of one number in one grouping are compared with Laplace noise of scale range/(ε·size), as diffprivlib adds it: it
takes the sizes of groups as public. The bar is 2.5 times its error. `--fits` compares the regressions of a description
with fits of `PrivateLinearRegression` with the same budget and columns instead.

`--told` asks why intervals are long. It makes those of variances and regressions that are told what the clip took from
this table, which only the data know. And it counts for a slope on one number how often Fieller's interval is unbounded
that knows the law of the noise and needs no sampling error.

Rooms and meters were written when all other constants were fixed; they, gains, visits, rare and skewed are drawn if
they are named.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

import ndis

Rows = dict[str, np.ndarray]
TRUTH = 2_000_000
BAR = 2.5  # times the error of Laplace noise with public sizes


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


def rooms(n: int, rng: np.random.Generator) -> Rows:
    """Offers of rooms: bounded skewed shares, counts with many zeros, prices of two kinds with unequal spreads."""
    share = 10 * rng.beta(0.6, 3.5, n)
    guests = np.where(rng.random(n) < 0.45, 0, rng.poisson(2.5, n)).clip(0, 12).astype(float)
    whole = rng.random(n) < 0.4
    price = (
        np.where(whole, rng.normal(140, 25, n), rng.normal(55, 12, n)) + 4 * guests + 3 * share * rng.normal(0, 1, n)
    )
    town = rng.choice(["old", "new", "port"], n, p=[0.6, 0.3, 0.1])
    return {"share": share, "guests": guests, "whole": whole, "price": np.clip(price, 0, 500), "town": town}


def meters(n: int, rng: np.random.Generator) -> Rows:
    """Use of power: an exponential law with a few heavy users, a log-normal one, a grade of 0 to 3; wide ranges."""
    use = np.clip(rng.exponential(9.0, n) + 90 * (rng.random(n) < 0.01) + rng.normal(0, 1, n), 0, 400)
    area = np.clip(60 * rng.lognormal(0, 0.5, n), 10, 1000)
    grade = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05]).astype(float)
    bill = np.clip(20 + 1.5 * use + 0.2 * area - 5 * grade + rng.gamma(1.0, 15.0, n), 0, 2000)
    kind = rng.choice(["flat", "house", "shop", "farm", "mill"], n, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    return {"use": use, "area": area, "grade": grade, "bill": bill, "kind": kind}


def rare(n: int, rng: np.random.Generator) -> Rows:
    """One number of which few values lie 30 spreads away."""
    return {"size": np.clip(np.where(rng.random(n) < 0.002, 30.0, 0.0) + rng.normal(0, 1, n), -50, 50)}


def skewed(n: int, rng: np.random.Generator) -> Rows:
    """One log-normal number with a long tail."""
    return {"size": np.clip(rng.lognormal(0, 1.5, n), 0, 500)}


def gains(n: int, rng: np.random.Generator) -> Rows:
    """People, few of whom have gains of capital, with a long tail; taxes follow from them."""
    age = np.clip(17 + rng.gamma(3.2, 7, n), 17, 90).round()
    hours = np.clip(rng.normal(40, 12, n), 1, 99).round()
    gain = np.where(rng.random(n) < 0.083, np.clip(rng.lognormal(8.6, 1.0, n), 100, 99_999), 0).round()
    tax = np.clip(0.1 * gain + 40 * hours + 30 * age * rng.lognormal(0, 0.4, n) + rng.normal(0, 400, n), 0, 30_000)
    return {"age": age, "hours": hours, "gain": gain, "sex": rng.choice(["F", "M"], n, p=[0.33, 0.67]), "tax": tax}


def visits(n: int, rng: np.random.Generator) -> Rows:
    """Visits to a doctor, which most people never make, and their costs."""
    count = np.where(rng.random(n) < 0.7, 0, rng.negative_binomial(1, 0.25, n)).clip(0, 60).astype(float)
    distance, insured = np.clip(rng.lognormal(1.5, 0.9, n), 0, 200), rng.random(n) < 0.04
    cost = np.clip(50 + 120 * count + 2 * distance + 400 * insured + rng.gamma(1, 80, n), 0, 20_000)
    kind = rng.choice(["a", "b", "c"], n, p=[0.7, 0.28, 0.02])
    return {"visits": count, "distance": distance, "insured": insured, "cost": cost, "kind": kind}


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
    "rooms": (
        rooms, 4_000,
        {"share": (0, 10), "guests": (0, 12), "whole": bool, "price": (0, 500), "town": ["old", "new", "port"]},
        "price", ["share", "guests"],
    ),
    "meters": (
        meters, 30_000,
        {"use": (0, 400), "area": (10, 1_000), "grade": (0, 3), "bill": (0, 2_000),
         "kind": ["flat", "house", "shop", "farm", "mill"]},
        "bill", ["use", "area"],
    ),
    "gains": (
        gains, 30_000, {"age": (17, 90), "hours": (1, 99), "gain": (0, 99_999), "sex": ["F", "M"], "tax": (0, 30_000)},
        "tax", ["age", "gain"],
    ),
    "visits": (
        visits, 6_000,
        {"visits": (0, 60), "distance": (0, 200), "insured": bool, "cost": (0, 20_000), "kind": ["a", "b", "c"]},
        "cost", ["visits", "distance"],
    ),
    "rare": (rare, 10_000, {"size": (-50, 50)}, "size", []),
    "skewed": (skewed, 3_000, {"size": (0, 500)}, "size", []),
}  # fmt: skip
SHOWN = ("patients", "costs", "survey", "shops", "wages", "loans")  # in docs/describe.md
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
                ends = ordered[max(low - 1, 0)], ordered[min(high, n - 1)]
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
                welch = stats.ttest_ind(numbers[target][group], first, equal_var=False).confidence_interval()
                yield "differences", (by, value), (welch.low + welch.high) / 2, (welch.low, welch.high)
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


@cache
def truth(table: str) -> dict[tuple[str, Key], float]:
    """Return every statistic of two million records."""
    make, _, spec, target, on = TABLES[table]
    many = make(TRUTH, np.random.default_rng(99))
    return {(kind, name): value for kind, name, value, _ in statistics(many, target, on, spec)}


Draw = dict[tuple[str, Key], tuple[float, ...]]  # value and ends, then those without privacy


def one_draw(table: str, epsilon: float, seed: int) -> Draw | str:
    """Return all statistics of one release, or why there are none."""
    make, n, spec, target, on = TABLES[table]
    warnings.simplefilter("ignore")
    try:
        rows = make(n, np.random.default_rng(seed))
        ours = private(ndis.describe(rows, schema=ndis.Schema(spec), epsilon=epsilon, delta=1e-6), target, on, spec)
        plain = {(kind, name): (value, *ends) for kind, name, value, ends in statistics(rows, target, on, spec)}
        return {key: (ours[key][0], *ours[key][1], *plain[key]) for key in plain if key in ours}
    except Exception as error:  # noqa: BLE001 - the other draws are shown
        return f"{type(error).__name__}: {error}"


def each_draw(work: Callable[[int], Any], draws: int, jobs: int) -> list[Any]:
    """Return what every seed gives, in so many processes."""
    if jobs == 1:
        return [work(seed) for seed in range(draws)]
    with ProcessPoolExecutor(jobs, initializer=threadpool_limits, initargs=(1,)) as pool:
        made = [pool.submit(work, seed) for seed in range(draws)]
        return [f"a process: {each.exception()}" if each.exception() else each.result() for each in made]


def shown(made: list[Any], what: str) -> list[Any]:
    """Return the draws that did not fail, and print why others did."""
    for why, count in Counter(one for one in made if isinstance(one, str)).items():
        print(f"  {count} draws of {what} failed: {why}")
    return [one for one in made if not isinstance(one, str)]


def coverage(table: str, draws: int, epsilon: float, jobs: int) -> dict[str, str]:
    """Print coverage, length and error of every kind, and return the coverage by kind."""
    true = truth(table)  # before the processes start
    print(f"{table}, {TABLES[table][1]:,} records, epsilon {epsilon:g}, {draws} draws")
    made = shown(each_draw(partial(one_draw, table, epsilon), draws, jobs), table)
    line = "  {:<13}{:>8}{:>13}{:>18}{:>8}{:>7}{:>9}   {}"
    print(
        line.format("kind", "covered", "not private", "difference", "length", "error", "unknown", "farthest statistic")
    )
    found = {}
    for kind in dict.fromkeys(kind for kind, _ in true):
        names = sorted({key for one in made for key in one if key[0] == kind})
        if not names:
            continue
        absent = (np.nan,) * 6
        values = np.array([[one.get(name, absent) for name in names] for one in made])
        truths = np.array([true[name] for name in names])
        there = ~np.isnan(values[:, :, 1])
        held = [np.where(there, (values[:, :, i] <= truths) & (truths <= values[:, :, i + 1]), np.nan) for i in (1, 4)]
        ours, theirs = (np.nanmean(one) for one in held)
        apart = np.nanmean(held[0] - held[1], axis=1)
        error = np.nanstd(apart) / np.sqrt(len(apart))
        each = np.nanmean(held[0] - held[1], axis=0)
        worst = int(np.argmax(np.abs(each)))
        widths = [np.nanmedian(values[:, :, i + 1] - values[:, :, i], axis=0) for i in (1, 4)]
        points = [np.sqrt(np.nanmean(np.square(values[:, :, i] - truths), axis=0)) for i in (0, 3)]
        unknown = np.isnan(values[:, :, 0])[there].mean()
        mark = "*" if abs(ours - theirs) > 0.02 else " "
        print(
            line.format(
                kind, f"{ours:.3f}", f"{theirs:.3f}", f"{100 * (ours - theirs):+.1f} ± {100 * error:.1f}{mark}",
                f"{_median_ratio(*widths):.2f}", f"{_median_ratio(*points):.2f}",
                f"{unknown:.3f}",
                f"{', '.join(names[worst][1])}: {100 * each[worst]:+.1f}",
            )
        )  # fmt: skip
        found[kind] = f"{ours:.3f} ({theirs:.3f})" if unknown < 0.5 else "unknown"
    sys.stdout.flush()
    return found


def _median_ratio(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the median of quotients; a quantile that many records share is known exactly without privacy."""
    there = theirs > 1e-6 * ours
    return float(np.median(ours[there] / theirs[there])) if there.any() else np.nan


def summary(found: dict[str, dict[str, str]], draws: int) -> None:
    """Print the table of docs/describe.md."""
    kinds = dict.fromkeys(kind for each in found.values() for kind in each)
    print(f"\n| covered, of {draws:,} draws (without privacy) | {' | '.join(found)} |\n|---{'|---' * len(found)}|")
    for kind in kinds:
        print(f"| {kind} | {' | '.join(each.get(kind, '') for each in found.values())} |")


def one_error(table: str, by: str, name: str, epsilon: float, seed: int) -> list[tuple[float, float]] | str:
    """Return errors of the means of one number in one grouping, and what those of Laplace noise are as a rule."""
    make, n, spec, _, _ = TABLES[table]
    schema, errors = ndis.Schema({by: spec[by], name: spec[name]}), []
    try:
        rows = make(n, np.random.default_rng(seed))
        d = ndis.describe(rows, schema=schema, epsilon=epsilon, delta=1e-6, quantiles=False, matrix=False)
        means = d.groups(by)
        for (label, what), value in zip(means.index, means.estimate.tolist(), strict=True):
            group = rows[by] == label
            if what == name and group.sum() >= 100:
                low, high = spec[name]
                error = value - rows[name][group].mean() if np.isfinite(value) else high - low
                errors.append((error, np.sqrt(2.0) * (high - low) / (epsilon * group.sum())))
    except Exception as error:  # noqa: BLE001 - the other draws are shown
        return f"{type(error).__name__}: {error}"
    return errors


def group_means(tables: list[str], draws: int, epsilon: float, jobs: int) -> None:
    """Print the error of means of one number in one grouping, over that of Laplace noise with public sizes."""
    print(f"\nerrors over those of Laplace noise with public sizes, {draws} draws (bar: {BAR})")
    for pair in (one for one in PAIRS if one[0] in tables):
        table, by, name = pair
        made = shown(each_draw(partial(one_error, *pair, epsilon), draws, jobs), table)
        if made:
            ours, laplace = np.square(np.concatenate(made)).mean(axis=0)
            ratio = np.sqrt(ours / laplace)
            print(f"  {table + ':':<10}mean of {name} by {by}: {ratio:.2f}, {'met' if ratio <= BAR else 'MISSED'}")


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


def _unclipped(d: ndis.Description, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments of the centred and scaled numbers of a table, clipped as the release did, and not clipped."""
    scaled = [(rows[name].astype(float) - one.centre) / one.half_width for name, one in d.plan.numbers.items()]
    x = (np.stack(scaled, axis=1) - d.values["centre"]) / d.values["spread"]
    short = x * np.minimum(1.0, d.values["matrix"][0] / np.linalg.norm(x, axis=1))[:, None]
    return np.cov(short.T, bias=True).reshape(2 * x.shape[1:]), np.cov(x.T, bias=True).reshape(2 * x.shape[1:])


def one_told(table: str, epsilon: float, seed: int) -> Draw | str:
    """Return variances and slopes of one release, told what the clip took, and those without privacy."""
    make, n, spec, target, on = TABLES[table]
    warnings.simplefilter("ignore")
    try:
        rows = make(n, np.random.default_rng(seed))
        d = ndis.describe(rows, schema=ndis.Schema(spec), epsilon=epsilon, delta=1e-6)
        plain = {(kind, name): (value, *ends) for kind, name, value, ends in statistics(rows, target, on, spec)}
        names, scale, (short, full) = list(d.plan.numbers), d._units[1], _unclipped(d, rows)
        base, lost = d._moments, np.zeros((1, len(d._moments.mean)))
        nothing = replace(base, lost=0.0 * base.lost)
        lost[0, : len(names)] = base.records * np.diagonal(full - short)
        d.__dict__["_moments"] = replace(base, lost=lost, chances=np.ones((1, 1)))
        made: dict[tuple[str, Key], Any] = {}
        for name, (value, _, low, high) in zip(names, d.variances().rows(), strict=True):
            made["variances", (name,)] = value, low, high
        d.__dict__.update(_moments=nothing, _averaged=nothing)
        if on:
            fit, y, index = d.regress(target, on=on), names.index(target), [names.index(name) for name in on]
            slopes = [np.linalg.solve(V[np.ix_(index, index)], V[index, y]) for V in (short, full)]
            more = (slopes[1] - slopes[0]) * scale[y] / scale[index]
            for i, name in enumerate(on):
                value, _, low, high = fit.rows()[i]
                made["regression", (name,)] = value + more[i], low + more[i], high + more[i]
        if len(on) == 1:
            variance, noise = nothing.covariance[index[0], index[0]], nothing.noise / nothing.records
            hidden = np.inf if variance < 1.96 * noise else 0.0
            made["slopes that Fieller leaves unbounded", (on[0],)] = np.nan if hidden else 0.0, -hidden, hidden
            plain["slopes that Fieller leaves unbounded", (on[0],)] = plain["regression", (on[0],)]
        return {key: (*made[key], *plain[key]) for key in made}
    except Exception as error:  # noqa: BLE001 - the other draws are shown
        return f"{type(error).__name__}: {error}"


def told(table: str, draws: int, epsilon: float, jobs: int) -> None:
    """Print coverage and length of intervals that are told what the clip took."""
    true = truth(table)  # before the processes start
    print(f"{table}, {TABLES[table][1]:,} records, epsilon {epsilon:g}, {draws} draws, told what the clip took")
    made = shown(each_draw(partial(one_told, table, epsilon), draws, jobs), table)
    for kind in dict.fromkeys(kind for one in made for kind, _ in one):
        names = sorted({key for one in made for key in one if key[0] == kind})
        values = np.array([[one[name] for name in names] for one in made])
        unknown = np.isnan(values[:, :, 0]).mean()
        if kind not in {key[0] for key in true}:
            print(f"  {kind}: {unknown:.3f}")
            continue
        truths = np.array([true[name] for name in names])
        ours, theirs = (((values[:, :, i] <= truths) & (truths <= values[:, :, i + 1])).mean() for i in (1, 4))
        widths = [np.median(values[:, :, i + 1] - values[:, :, i], axis=0) for i in (1, 4)]
        print(
            f"  {kind}: covered {ours:.3f}, not private {theirs:.3f}, length {_median_ratio(*widths):.2f}, "
            f"unknown {unknown:.3f}"
        )
    sys.stdout.flush()


def main() -> None:
    """Read the options and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(SHOWN))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", action="store_true")
    parser.add_argument("--told", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if importlib.util.find_spec("numba") is None:  # Python runs the short kernels, with the same answers
        sys.modules["numba"] = types.SimpleNamespace(njit=lambda **_: lambda kernel: kernel)  # type: ignore[assignment]
    if given.fits:
        for table in given.tables:
            if TABLES[table][4]:
                fits(table, given.draws, given.epsilon)
        return
    if given.told:
        for table in given.tables:
            told(table, given.draws, given.epsilon, given.jobs)
        return
    found = {table: coverage(table, given.draws, given.epsilon, given.jobs) for table in given.tables}
    group_means(given.tables, given.draws, given.epsilon, given.jobs)
    summary(found, given.draws)


if __name__ == "__main__":
    main()
