"""Private logistic regression on scikit-learn's breast-cancer data: accuracy under three bounds, against ε.

python examples/breast_cancer.py        under a minute; prints a table and draws out/breast_cancer.png

569 tumours, 30 measurements each, of which 455 train. The centres and spreads below are the means and standard
deviations of this well-known public data set, rounded. They are treated as public knowledge here, because for these
data they are. With your own data that would leak: take constants from other sources, fixed before looking at a record.
The norm bound is a choice.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import ndis
from ndis.learn import PrivateLogisticRegression

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
L2_PENALTY = 3.0
DELTA = 1e-5
BOUNDS = ("exact", "renyi", "paper")


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


def main() -> None:
    """Print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40, help="releases behind every accuracy")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    x, x_test, y, y_test = rows_and_labels()
    public = {"l2_penalty": L2_PENALTY, "row_norm_bound": ROW_NORM_BOUND, "max_records": 455, "dimension": 30}
    model = Remembered(ndis.models.BohningLogistic(**public))

    mean, covariance = (part.to_float() for part in model.distribution((x, y)))

    def accuracies(epsilon: float, bound: str) -> tuple[float, Any, float]:
        """The noise variance, the accuracies of the releases, and what their mean tends to."""
        mechanism = ndis.lift(model, epsilon=epsilon, delta=DELTA, bound=bound)
        v = mechanism.noise_variance
        draws = [mechanism.release((x, y)).values for _ in range(arguments.repeats)]
        found = np.array([np.mean(np.sign(x_test @ w) == y_test) for w in draws])
        std = np.sqrt(np.sum((x_test @ (covariance + v * np.eye(30))) * x_test, axis=1))
        return v, found, float(norm.cdf(y_test * (x_test @ mean) / std).mean())

    clipped = x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True) / ROW_NORM_BOUND)
    plain = LogisticRegression(C=1 / L2_PENALTY, fit_intercept=False, tol=1e-8, max_iter=1000).fit(clipped, y)
    baseline = plain.score(x_test, y_test)
    print(f"epsilon = 1, delta = {DELTA:g}; {arguments.repeats} releases each, 114 test records")
    print("bound        noise variance   accuracy: mean (standard deviation), and expected over all draws")
    for bound in BOUNDS:
        v, found, expected = accuracies(1.0, bound)
        print(f"{bound:<12} {v:14.4f}   {found.mean():.3f} ({found.std():.3f}), {expected:.3f}")
    print(f"{'not private':<12} {0:14.4f}   {baseline:.3f}")

    epsilons = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    figure, axes = plt.subplots(figsize=(6, 4))
    for bound in BOUNDS:
        results = [accuracies(float(epsilon), bound) for epsilon in epsilons]
        (line,) = axes.plot(epsilons, [expected for _, _, expected in results], label=bound)
        axes.plot(epsilons, [found.mean() for _, found, _ in results], "o", color=line.get_color())
    axes.axhline(baseline, color="black", linestyle=":", label="not private")
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.set_xlabel("ε")
    axes.set_ylabel("test accuracy")
    axes.set_title(f"δ = {DELTA:g}: expected (lines), mean of {arguments.repeats} releases (dots)")
    axes.legend()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out / "breast_cancer.png", dpi=150, bbox_inches="tight")
    print(f"accuracy against epsilon: {arguments.out / 'breast_cancer.png'}")

    estimator = PrivateLogisticRegression(
        epsilon=1.0, delta=DELTA, l2_penalty=L2_PENALTY, row_norm_bound=ROW_NORM_BOUND, classes=(-1, 1)
    ).fit(x, y)
    print(f"as a scikit-learn estimator, with an intercept: {estimator.score(x_test, y_test):.3f}")


if __name__ == "__main__":
    main()
