"""Private logistic regression on scikit-learn's breast-cancer data: the mean, and draws under three bounds, against ε.

python examples/breast_cancer.py                under a minute; prints a table and draws out/breast_cancer.png
python examples/breast_cancer.py --penalties    seconds; noise and expected accuracy by penalty

569 tumours, 30 measurements each, of which 455 train. The centres and spreads below are the means and standard
deviations of this well-known public data set, rounded. They are treated as public knowledge here, because for these
data they are. With your own data that would leak: take constants from other sources, fixed before looking at a record.
The norm bound is a choice.
"""

from __future__ import annotations

import argparse
import io
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import ndis
from ndis._files import write_file
from ndis.learn import PrivateLogisticRegression
from ndis.paper.sensitivities import AsInPaper

# radius, texture, perimeter, area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension;
# each as mean of the cells, as standard error and as worst
CENTRE = np.array(
    [
        [14, 19, 90, 650, 0.1, 0.1, 0.09, 0.05, 0.18, 0.06],
        [0.4, 1.2, 3, 40, 0.007, 0.025, 0.03, 0.012, 0.02, 0.004],
        [16, 25, 107, 900, 0.13, 0.25, 0.27, 0.11, 0.3, 0.08],
    ]
).ravel()
SPREAD = np.array(
    [
        [3.5, 4, 25, 350, 0.015, 0.05, 0.08, 0.04, 0.03, 0.007],
        [0.3, 0.5, 2, 45, 0.003, 0.02, 0.03, 0.006, 0.008, 0.003],
        [5, 6, 35, 600, 0.02, 0.15, 0.2, 0.07, 0.06, 0.02],
    ]
).ravel()
ROW_NORM_BOUND = 1.5
L2_PENALTY = 30.0
DELTA = 1e-5
WAYS = (("mean", "exact"), ("draw", "exact"), ("draw", "renyi"), ("draw", "paper"))
COLOURS = dict(zip(WAYS, ("#08306b", "#4292c6", "#41ab5d", "#fd8d3c"), strict=True))
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


class Remembered:
    """A model that fits once: repeated releases of the same data share the fit. For experiments on public data."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.fitted: Any = None

    def distribution(self, data: Any) -> Any:
        """Mean and covariance, from the first call."""
        if self.fitted is None:
            self.fitted = self.model.distribution(data)
        return self.fitted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def rows_and_labels() -> list[Any]:
    """Training and test rows of typical norm 1, labels −1 and +1."""
    data = load_breast_cancer()
    x = (data.data - CENTRE) / (SPREAD * math.sqrt(len(CENTRE)))
    return train_test_split(x, 2 * data.target - 1, train_size=455, random_state=0, stratify=data.target)


class Comparison:
    """Releases of one fit under several bounds and budgets, judged on the test records."""

    def __init__(self, *, repeats: int) -> None:
        self.x, self.x_test, self.y, self.y_test = rows_and_labels()
        public = {"l2_penalty": L2_PENALTY, "row_norm_bound": ROW_NORM_BOUND, "max_records": 455, "dimension": 30}
        self.models = {
            release: Remembered(ndis.models.BohningLogistic(**public, release=release)) for release in ("mean", "draw")
        }
        self.repeats = repeats

    def accuracies(self, epsilon: float, release: str, bound: str) -> tuple[float, Any, float]:
        """The noise variance, the accuracies of the releases, and what their mean tends to."""
        model = self.models[release]
        if bound == "paper":
            model = Remembered(AsInPaper(model.model))
        mean, covariance = (part.to_float() for part in model.distribution((self.x, self.y)))
        mechanism = ndis.lift(model, epsilon=epsilon, delta=DELTA, bound=bound)
        v = mechanism.noise_variance
        draws = [mechanism.release((self.x, self.y)).values for _ in range(self.repeats)]
        found = np.array([np.mean(np.sign(self.x_test @ w) == self.y_test) for w in draws])
        std = np.sqrt(np.sum((self.x_test @ (covariance + v * np.eye(30))) * self.x_test, axis=1))
        return v, found, float(norm.cdf(self.y_test * (self.x_test @ mean) / std).mean())

    def not_private(self) -> float:
        """Accuracy of the same regression on the same clipped rows, without noise."""
        clipped = self.x / np.maximum(1, np.linalg.norm(self.x, axis=1, keepdims=True) / ROW_NORM_BOUND)
        plain = LogisticRegression(C=1 / L2_PENALTY, fit_intercept=False, tol=1e-8, max_iter=1000)
        return float(plain.fit(clipped, self.y).score(self.x_test, self.y_test))

    def as_estimator(self, fits: int) -> np.ndarray:
        """Accuracies of the scikit-learn estimator, with an intercept."""
        estimator = PrivateLogisticRegression(
            epsilon=1.0,
            delta=DELTA,
            l2_penalty=L2_PENALTY,
            row_norm_bound=ROW_NORM_BOUND,
            classes=(-1, 1),
            max_records=455,
            method="mean",
        )
        test = self.x_test, self.y_test
        return np.array([estimator.fit(self.x, self.y).score(*test, public=True) for _ in range(fits)])


Found = dict[tuple[float, tuple[str, str]], tuple[float, Any, float]]


def draw(found: Found, *, baseline: float, repeats: int) -> Figure:
    """Accuracy against ε in each way: expected, and as found in the releases."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    for place, way in enumerate(WAYS):
        x = np.array(EPSILONS)
        accuracies = [found[e, way][1] for e in EPSILONS]
        # Beside one another, so that the bars do not hide each other.
        beside = x * 2 ** (0.09 * (place - 1.5))
        spread = [one.std() for one in accuracies]
        ax.plot(x, [found[e, way][2] for e in EPSILONS], color=COLOURS[way], lw=2, label=f"{way[0]}, bound={way[1]!r}")
        ax.errorbar(beside, [one.mean() for one in accuracies], spread, fmt="o", color=COLOURS[way], ms=4, lw=1)
    ax.axhline(baseline, color="0.45", lw=1, ls="--")
    ax.annotate(
        "not private",
        (EPSILONS[0], baseline),
        (0, 4),
        textcoords="offset points",
        color="0.35",
        fontsize=9,
    )
    ax.set_xscale("log")
    ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    ax.minorticks_off()
    ax.set_ylim(top=1.0)
    ax.set_xlabel("ε  (δ = 10⁻⁵)")
    ax.set_ylabel("test accuracy")
    ax.set_title(f"Breast cancer: expected (lines); mean ± one deviation of {repeats} releases", fontsize=11)
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    ax.grid(axis="y", color="0.93")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def show_penalties() -> None:
    """Noise variance and expected accuracy by penalty at ε = 1, with and without a promise on the records."""
    x, x_test, y, y_test = rows_and_labels()
    print("penalty  release  records  noise variance  expected accuracy")
    for penalty, release, records in itertools.product((3, 10, 30, 100, 300), ("draw", "mean"), (None, 455)):
        model = ndis.models.BohningLogistic(
            l2_penalty=penalty, row_norm_bound=ROW_NORM_BOUND, max_records=records, release=release
        )
        v = ndis.lift(model, epsilon=1.0, delta=DELTA).noise_variance
        mean, covariance = (part.to_float() for part in model.distribution((x, y)))
        std = np.sqrt(np.sum((x_test @ (covariance + v * np.eye(30))) * x_test, axis=1))
        accuracy = norm.cdf(y_test * (x_test @ mean) / std).mean()
        print(f"{penalty:7d}  {release:<7}  {records or 'any':>7}  {v:14.4g}  {accuracy:.3f}")


def main() -> None:
    """Print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40, help="releases behind every accuracy")
    parser.add_argument("--fits", type=int, default=40, help="fits of the estimator")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--penalties", action="store_true", help="only noise and expected accuracy by penalty")
    given = parser.parse_args()
    if given.penalties:
        show_penalties()
        return
    comparison = Comparison(repeats=given.repeats)
    baseline = comparison.not_private()
    found = {(e, way): comparison.accuracies(e, *way) for e in EPSILONS for way in WAYS}
    print(f"epsilon = 1, delta = {DELTA:g}; {given.repeats} releases each, 114 test records")
    print("release, bound noise variance   accuracy: mean (standard deviation), and expected over all draws")
    for way in WAYS:
        v, accuracies, expected = found[1.0, way]
        print(f"{', '.join(way):<14} {v:14.5f}   {accuracies.mean():.3f} ({accuracies.std():.3f}), {expected:.3f}")
    print(f"{'not private':<14} {0:14.5f}   {baseline:.3f}")
    fitted = comparison.as_estimator(given.fits)
    shown = f"{fitted.mean():.3f} ({fitted.std():.3f}), {given.fits} fits"
    print(f"as a scikit-learn estimator, the mean with an intercept: {shown}")

    given.out.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    draw(found, baseline=baseline, repeats=given.repeats).savefig(buffer, format="png", dpi=160)
    write_file(given.out / "breast_cancer.png", buffer.getvalue())
    print(f"accuracy against epsilon: {given.out / 'breast_cancer.png'}")


if __name__ == "__main__":
    main()
