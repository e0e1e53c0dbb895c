"""Private linear regression beside least squares, the centre, AdaSSP, the sketch and the Gram mechanism.

python -m benchmarks.regression [--folder DIR] [--splits 10] [--seeds 20] [--epsilon 1 ...] [--picture FILE]
python -m benchmarks.regression --sizes [--seeds 3]     coefficients by the size of the sketch, of a million records

Without a folder: public data of scikit-learn and statsmodels. Columns are scaled to unit spread, and rows clipped at
√columns, as if centres and spreads were public; targets within three standard deviations; an intercept is learnt;
δ = 10⁻⁶. With a folder: every npz file in it has X and y (and X_test, y_test), in units in which 1 bounds rows and
targets; no intercept; δ = 1/n². A file peers.json in the folder may hold other methods' excess risks.

Train error is the excess of the mean squared error over least squares, in units of that of the centre. Test error is
1 − R², in units of that of least squares on the same split.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLinearRegression, PrivateRidge
from ndis.mechanisms.gaussian import unit_noise

Floats = NDArray[np.float64]
NAMES = ("rounds", "gram", "AdaSSP", "sketch")


@dataclass(frozen=True, eq=False)
class Problem:
    """One data set with public bounds."""

    name: str
    x: Floats
    y: Floats
    row: float
    target: float
    intercept: bool
    delta: float
    test: tuple[Floats, Floats] | None = None

    def splits(self, count: int) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Rows and targets to train on and to test on."""
        if self.test is not None:
            yield self.x, self.y, *self.test
            return
        for seed in range(count):
            x, z, y, w = train_test_split(self.x, self.y, test_size=0.2, random_state=seed)
            yield x, y, z, w


def bundled() -> Iterator[Problem]:
    """Public data that packages bring along, and two made up: without a signal, and large."""
    from sklearn import datasets

    diabetes, digits = datasets.load_diabetes(scaled=False), datasets.load_digits()
    cancer = datasets.load_breast_cancer()
    yield _scaled("diabetes", diabetes.data, diabetes.target)
    yield _scaled("digits", digits.data, digits.target)
    yield _scaled("breast cancer", cancer.data, cancer.target.astype(float))
    try:
        import statsmodels.api as sm
    except ImportError:
        print("statsmodels is not installed: its data are left out")
    else:
        for name in ("anes96", "fair", "randhie"):
            data = getattr(sm.datasets, name).load_pandas()
            yield _scaled(name, data.exog.select_dtypes("number").to_numpy(float), np.asarray(data.endog, dtype=float))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 10))
    yield _scaled("no signal", x, rng.normal(size=2000))
    x = rng.normal(size=(50_000, 5))
    yield _scaled("large", x, x @ rng.normal(size=5) + rng.normal(size=50_000))


def _scaled(name: str, x: Floats, y: Floats) -> Problem:
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    y = (y - y.mean()) / y.std()
    return Problem(name, x, y, math.sqrt(x.shape[1]), 3.0, True, 1e-6)


def folder(path: Path) -> Iterator[Problem]:
    """Every npz file of a folder."""
    for file in sorted(path.glob("*.npz")):
        with np.load(file) as data:
            x, y = data["X"].astype(float), data["y"].astype(float)
            test = (data["X_test"].astype(float), data["y_test"].astype(float)) if "X_test" in data else None
        yield Problem(file.stem, x, y, 1.0, 1.0, False, 1.0 / len(y) ** 2, test)


# ------------------------------------------------------------------ methods: each returns slopes and offset


def _ours(method: str, problem: Problem, x: Floats, y: Floats, epsilon: float, seed: int) -> tuple[Floats, float]:
    model = PrivateLinearRegression(
        epsilon=epsilon, delta=problem.delta, row_norm_bound=problem.row, target_bound=problem.target,
        fit_intercept=problem.intercept, method=method, random_state=seed,
    ).fit(x, y)  # fmt: skip
    return model.coef_, float(model.intercept_)


def _sketch(problem: Problem, x: Floats, y: Floats, epsilon: float, seed: int) -> tuple[Floats, float]:
    model = PrivateRidge(
        epsilon=epsilon, delta=problem.delta, row_norm_bound=problem.row, target_bound=problem.target,
        fit_intercept=problem.intercept, random_state=seed,
    ).fit(x, y)  # fmt: skip
    return model.coef_, float(model.intercept_)


def adassp(problem: Problem, x: Floats, y: Floats, epsilon: float, seed: int) -> tuple[Floats, float]:
    """AdaSSP (Wang 2018): smallest eigenvalue, Gram matrix and Xᵀy, each with a third of one Gaussian budget.

    A baseline: its noise is drawn in floats.
    """
    rng = np.random.default_rng(seed)
    constant = 0.5 * problem.row if problem.intercept else 0.0
    x = x * np.minimum(1.0, problem.row / np.maximum(np.linalg.norm(x, axis=1), 1e-300))[:, None]
    y = np.clip(y, -problem.target, problem.target)
    if constant:
        x = np.c_[x, np.full(len(x), constant)]
    d, squared = x.shape[1], problem.row**2 + constant**2
    scale = math.sqrt(3.0) * unit_noise(epsilon, problem.delta)
    least = np.linalg.eigvalsh(x.T @ x)[0] + squared * scale * (rng.normal() - 1.96)
    ridge = max(0.0, squared * scale * math.sqrt(d * math.log(2 * d * d / 0.05)) - max(least, 0.0))
    noise = rng.normal(size=(d, d)) * squared * scale / math.sqrt(2.0)
    symmetric = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diag(noise)) * math.sqrt(2.0)
    product = x.T @ y + rng.normal(size=d) * math.sqrt(squared) * problem.target * scale
    theta = np.linalg.solve(x.T @ x + symmetric + ridge * np.eye(d), product)
    return (theta[:-1], float(theta[-1] * constant)) if constant else (theta, 0.0)


METHODS: dict[str, Callable[..., tuple[Floats, float]]] = {
    "rounds": partial(_ours, "rounds"), "gram": partial(_ours, "gram"), "AdaSSP": adassp, "sketch": _sketch,
}  # fmt: skip


# ------------------------------------------------------------------ measuring


def measure(problem: Problem, epsilon: float, *, splits: int, seeds: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Mean train and test errors of every method."""
    train: dict[str, list[float]] = {name: [] for name in names}
    test: dict[str, list[float]] = {name: [] for name in names}
    centre, excess = [], []
    for x, y, z, w in problem.splits(splits):
        design = np.c_[x, np.ones(len(x))] if problem.intercept else x
        best = np.linalg.lstsq(design, y, rcond=None)[0]
        fitted, offset = design @ best, float(y.mean()) if problem.intercept else 0.0
        zero = float(((fitted - offset) ** 2).mean())
        slopes, constant = (best[:-1], float(best[-1])) if problem.intercept else (best, 0.0)
        least = float(((w - z @ slopes - constant) ** 2).mean())
        centre.append(float(((w - offset) ** 2).mean()) / least)
        excess.append(zero)
        for name in names:
            for seed in range(seeds):
                slopes, constant = METHODS[name](problem, x, y, epsilon, seed)
                train[name].append(float(((x @ slopes + constant - fitted) ** 2).mean()) / zero)
                test[name].append(float(((w - z @ slopes - constant) ** 2).mean()) / least)
    return {
        "name": problem.name, "n": len(problem.y), "d": problem.x.shape[1], "epsilon": epsilon,
        "centre": float(np.mean(centre)), "zero_excess": float(np.mean(excess)),
        "train": {name: float(np.mean(found)) for name, found in train.items()},
        "test": {name: float(np.mean(found)) for name, found in test.items()},
    }  # fmt: skip


def table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """Print train errors, then test errors."""
    head = " ".join(f"{name:>8}" for name in names)
    print(f"{'':<15} {'n':>6} {'d':>3} {'eps':>5} | train: {head} | test: {'centre':>8} {head}")
    for row in rows:
        train = " ".join(f"{row['train'][name]:>8.3f}" for name in names)
        test = " ".join(f"{row['test'][name]:>8.3f}" for name in names)
        print(
            f"{row['name']:<15} {row['n']:>6} {row['d']:>3} {row['epsilon']:>5.2g} | {train:>{len(train) + 7}} "
            f"| {row['centre']:>14.3f} {test}"
        )


def beside_peers(rows: list[dict[str, Any]], peers: dict[str, Any]) -> None:
    """Geometric means of our excess risks over a peer's, per ε, and how often we are near the best one."""
    published = ("adassp_code", "adassp_gdp", "ihm", "linmix")
    for epsilon in sorted({row["epsilon"] for row in rows}):
        ratios, near, worst = [], 0, 0.0
        for row in rows:
            found = [r for r in peers.get(row["name"], {}).get("rows", []) if math.isclose(r["epsilon"], epsilon)]
            if row["epsilon"] == epsilon and found:
                ours = row["train"]["rounds"] * row["zero_excess"]
                ratios.append(ours / found[0]["ihm"])
                near += ours <= 1.02 * min(found[0][name] for name in published)
                worst = max(worst, row["train"]["rounds"])
        if ratios:
            mean = math.exp(np.mean(np.log(ratios)))
            print(
                f"eps {epsilon:.2f}: {mean:.3f} of IHM's excess risk; within 1.02 of the best method on {near} of "
                f"{len(ratios)}; at most {worst:.3f} of the zero predictor's"
            )


def draw(rows: list[dict[str, Any]], names: tuple[str, ...]) -> Any:
    """Test errors over that of least squares, one group of points per data set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    labels = [f"{row['name']}\n{row['n']}×{row['d']}" for row in rows]
    for name, marker in zip((*names, "centre"), "osD^x", strict=False):
        values = [row["centre"] if name == "centre" else row["test"][name] for row in rows]
        axes.plot(labels, values, marker, label=name, alpha=0.8)
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    axes.set(yscale="log", ylabel="test error / least squares", title=f"(ε, δ) = ({rows[0]['epsilon']:g}, 10⁻⁶)")
    axes.yaxis.set_major_locator(FixedLocator([0.8, 1, 1.2, 1.5, 2, 3, 5, 10, 20, 50]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    figure.legend(fontsize="small", ncols=5, loc="outside lower center", frameon=False)
    axes.tick_params(axis="x", labelsize="small")
    return figure


def sketch_sizes(seeds: int, *, records: int = 1_000_000) -> None:
    """Root mean square error of the coefficients by the size of the sketch, beside least squares on so many rows."""
    truth = np.array([0.8, -0.5, 0.3, 0.0, 0.1])
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(records, len(truth)))
    y = x @ truth + 0.3 * rng.normal(size=records)
    print(f"\n{records} records, {len(truth)} features, epsilon 1, delta 1e-6, mean of {seeds} runs")
    print(f"{'sketch_size':<22} {'rows':>7} {'error':>8} {'least squares on so many rows':>30} {'s':>6}")
    choices: dict[str, dict[str, Any]] = {
        "100 per column": {"sketch_size": 700}, "default": {}, "default, records given": {"records": records},
    }  # fmt: skip
    for name, choice in choices.items():
        errors, plain, start = [], [], perf_counter()
        for _ in range(seeds):
            model = PrivateRidge(epsilon=1.0, row_norm_bound=math.sqrt(5.0), target_bound=3.0, **choice).fit(x, y)
            errors.append(model.coef_ - truth)
        passed = (perf_counter() - start) / seeds
        rows = model.mechanism_.sketch_size
        for _ in range(20):
            some = rng.choice(records, size=rows, replace=False)
            plain.append(np.linalg.lstsq(np.c_[x[some], np.ones(rows)], y[some], rcond=None)[0][:-1] - truth)
        error, least = (float(np.sqrt(np.mean(np.square(each)))) for each in (errors, plain))
        print(f"{name:<22} {rows:>7} {error:>8.4f} {least:>30.4f} {passed:>6.1f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and draw if asked."""
    parser = argparse.ArgumentParser(description="Private linear regression beside other methods.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+")
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--sizes", action="store_true", help="only the coefficients by the size of the sketch")
    given = parser.parse_args(arguments if arguments is not None else [])
    if given.sizes:
        sketch_sizes(given.seeds)
        return
    budgets = given.epsilon or ([1.0] if given.folder is None else [0.1, 10**-0.2, 10**0.2, 10.0])
    names = tuple(given.methods)
    problems = list(bundled() if given.folder is None else folder(given.folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        rows = [
            measure(problem, epsilon, splits=given.splits, seeds=given.seeds, names=names)
            for epsilon in budgets
            for problem in problems
        ]
    table(rows, names)
    peers = None if given.folder is None else given.folder / "peers.json"
    if peers is not None and peers.exists() and "rounds" in names:
        beside_peers(rows, json.loads(peers.read_text()))
    if given.picture is not None:
        draw([row for row in rows if row["epsilon"] == budgets[0]], names).savefig(given.picture, dpi=160)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
