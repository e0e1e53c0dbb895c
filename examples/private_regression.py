"""Private regression on a real data set: disease progression of 442 diabetes patients, bundled with scikit-learn.

One sketch of all records is released; the regression is solved from the sketch. Held-out error, private against
non-private, is printed with the receipt; pictures go to out/. `python examples/private_regression.py`, or `make demo`.
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from ndis._files import write_file
from ndis.learn import PrivateRidge

DELTA = 1e-6
EPSILON = 3.0
EPSILONS = (0.5, 1.0, EPSILON, 8.0)
ENLARGED = (1, 10, 100)

# What can be said in public, before looking: a usual value and a usual spread of each measurement.
USUAL = {
    "age": (50, 15),
    "sex": (1.5, 0.5),
    "body mass index": (26, 5),
    "blood pressure": (95, 15),
    "total cholesterol": (190, 35),
    "LDL": (115, 30),
    "HDL": (50, 13),
    "cholesterol ratio": (4, 1.3),
    "log triglycerides": (4.6, 0.5),
    "glucose": (91, 12),
}
CENTRE, TARGET_BOUND = 150.0, 200.0  # progression is scored from about 25 to 350
ROW_NORM_BOUND = 4.0  # ten measurements, each about one spread from usual: √10 and a little


class Records(NamedTuple):
    """Measurements in public units, and progression less its public centre."""

    rows: np.ndarray
    targets: np.ndarray


def load() -> Records:
    """The data set in public units; nothing here is computed from it."""
    rows, targets = load_diabetes(return_X_y=True, scaled=False)
    centre, spread = np.array(list(USUAL.values())).T
    return Records((rows - centre) / spread, targets - CENTRE)


def split(records: Records, seed: int) -> tuple[Records, Records]:
    """Four fifths to learn from, one fifth to test on."""
    order = np.random.default_rng(seed).permutation(len(records.targets))
    cut = len(order) // 5
    return tuple(Records(records.rows[part], records.targets[part]) for part in (order[cut:], order[:cut]))


def enlarged(records: Records, factor: int, seed: int) -> Records:
    """As many more records, drawn again from those there are: what a larger study of the same people would hold."""
    if factor == 1:
        return records
    drawn = np.random.default_rng(seed).integers(0, len(records.targets), factor * len(records.targets))
    return Records(records.rows[drawn], records.targets[drawn])


def private_model(epsilon: float) -> PrivateRidge:
    """The model, not yet fitted. All its parameters are public."""
    return PrivateRidge(epsilon=epsilon, delta=DELTA, row_norm_bound=ROW_NORM_BOUND, target_bound=TARGET_BOUND)


def error(model: PrivateRidge | LinearRegression, test: Records) -> float:
    """Root mean squared error on records that were not learnt from."""
    return float(np.sqrt(np.mean((model.predict(test.rows) - test.targets) ** 2)))


def show_release(records: Records) -> PrivateRidge:
    """Fit once on everything and show what was released."""
    model = private_model(EPSILON).fit(records.rows, records.targets)
    sketch = model.release_.sketch
    print(f"Released: a sketch of {sketch.shape[0]} random rows x {sketch.shape[1]} columns, and this receipt:")
    print("\n".join("  " + line for line in model.receipt_.to_json().splitlines()))
    return model


def errors(records: Records, *, repeats: int) -> dict[str | tuple[int, float], np.ndarray]:
    """Held-out errors over random splits: of the mean, of least squares, and of private fits by size and ε."""
    found: dict[str | tuple[int, float], list[float]] = {}
    for seed in range(repeats):
        train, test = split(records, seed)
        found.setdefault("mean", []).append(float(np.sqrt(np.mean((test.targets - train.targets.mean()) ** 2))))
        found.setdefault("exact", []).append(error(LinearRegression().fit(*train), test))
        for factor in ENLARGED:
            more = enlarged(train, factor, seed)
            for epsilon in EPSILONS:
                found.setdefault((factor, epsilon), []).append(error(private_model(epsilon).fit(*more), test))
    return {key: np.array(values) for key, values in found.items()}


def show_errors(found: dict[str | tuple[int, float], np.ndarray]) -> None:
    repeats = len(found["mean"])
    print(f"Held-out error in points of progression, mean over {repeats} random splits; ± is one standard deviation of")
    print("the distance from least squares on the same split, that is, of what privacy adds:")
    print(f"  predicting the mean          {found['mean'].mean():5.1f}")
    print(f"  least squares, not private   {found['exact'].mean():5.1f}")
    print("  private, learnt from      " + "".join(f"{f'ε = {epsilon:g}':>13}" for epsilon in EPSILONS))
    for factor in ENLARGED:
        cells = [(found[factor, e].mean(), (found[factor, e] - found["exact"]).std()) for e in EPSILONS]
        label = "353 patients" if factor == 1 else f"{factor} times as many"
        print(f"    {label:<22}" + "".join(f"{mean:7.1f} ± {spread:3.1f}" for mean, spread in cells))


def draw_errors(found: dict[str | tuple[int, float], np.ndarray]) -> Figure:
    """Held-out error against ε, between that of the mean and that of least squares; bands show what privacy adds."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    colours = ("#fd8d3c", "#41ab5d", "#2171b5")
    labels = ("353 patients", "10 times as many", "100 times as many")
    for factor, colour, label in zip(ENLARGED, colours, labels, strict=True):
        centre = np.array([found[factor, e].mean() for e in EPSILONS])
        spread = np.array([(found[factor, e] - found["exact"]).std() for e in EPSILONS])
        ax.fill_between(EPSILONS, centre - spread, centre + spread, color=colour, alpha=0.18, lw=0)
        ax.plot(EPSILONS, centre, "o-", color=colour, lw=2, ms=4, label=label)
    for key, label, place in (("mean", "predicting the mean", 4), ("exact", "least squares, not private", -12)):
        ax.axhline(found[key].mean(), color="0.45", lw=1, ls="--")
        ax.annotate(
            label,
            (EPSILONS[-1], found[key].mean()),
            (0, place),
            textcoords="offset points",
            ha="right",
            color="0.35",
            fontsize=9,
        )
    ax.set_xscale("log")
    ax.set_ylim(bottom=min(found["exact"].mean() - 4.0, ax.get_ylim()[0]))  # room for the words below the line
    ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    ax.minorticks_off()
    ax.set_xlabel("ε  (δ = 10⁻⁶)")
    ax.set_ylabel("held-out error, points of progression")
    ax.set_title("Diabetes progression, learnt from a private sketch", fontsize=11)
    ax.legend(frameon=False, fontsize=9, loc="center right")
    ax.grid(axis="y", color="0.93")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def draw_coefficients(model: PrivateRidge, records: Records) -> Figure:
    """Private coefficients beside those of least squares, in points of progression for one usual spread."""
    exact = LinearRegression().fit(*records).coef_
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    ax = figure.subplots()
    place = np.arange(len(USUAL))[::-1]
    ax.hlines(place, exact, model.coef_, color="0.8", lw=2, zorder=1)
    ax.plot(exact, place, "o", color="0.25", ms=6, label="least squares, not private")
    ax.plot(model.coef_, place, "D", color="#2171b5", ms=6, label=f"private, ε = {EPSILON:g}")
    ax.axvline(0, color="0.7", lw=1)
    ax.set_yticks(place, list(USUAL))
    ax.set_xlabel("points of progression for one usual spread")
    ax.set_title("Coefficients from 442 patients", fontsize=11)
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a picture whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    write_file(path, buffer.getvalue())


def run(folder: Path, *, repeats: int = 6) -> tuple[PrivateRidge, Records]:
    """Release, fit, compare, draw; returns the model fitted on all records, and those."""
    records = load()
    print(f"{len(records.targets)} patients, {records.rows.shape[1]} measurements each; to predict: progression")
    print(f"after a year. Public bounds: row norm {ROW_NORM_BOUND:g}, target {TARGET_BOUND:g} about {CENTRE:g}.")
    model = show_release(records)
    found = errors(records, repeats=repeats)
    show_errors(found)
    save(draw_errors(found), folder / "private_error.png")
    save(draw_coefficients(model, records), folder / "private_coefficients.png")
    print(f"Pictures: {folder / 'private_error.png'}, {folder / 'private_coefficients.png'}")
    return model, records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where to save the pictures")
    parser.add_argument("--repeats", type=int, default=6, help="random splits to average over")
    given = parser.parse_args()
    start = time.perf_counter()
    run(given.folder, repeats=given.repeats)
    print(f"({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
