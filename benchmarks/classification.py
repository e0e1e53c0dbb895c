"""Private logistic regression beside plain logistic regression, the lifted methods and diffprivlib's, if installed.

python -m benchmarks.classification [--splits 20]

ε = 1, δ = 10⁻⁵, default parameters; columns are scaled to unit spread as if centres and spreads were public, and rows
clipped at √columns. Accuracy on a fifth of the records, mean (standard deviation) over random splits.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from ndis.learn import PrivateLogisticRegression

EPSILON, DELTA = 1.0, 1e-5


def methods(columns: int, classes: int) -> dict[str, Callable[[int], Any]]:
    """Names, and makers of unfitted models from seeds."""
    ours: dict[str, Any] = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "row_norm_bound": math.sqrt(columns),
        "classes": list(range(classes)),
    }
    found: dict[str, Callable[[int], Any]] = {
        "not private": lambda _: LogisticRegression(max_iter=2000),
        "rounds": lambda seed: PrivateLogisticRegression(**ours, random_state=seed, intervals=False),
    }
    if classes == 2:
        found["intervals"] = lambda seed: PrivateLogisticRegression(**ours, random_state=seed)
        found["mean"] = lambda _: PrivateLogisticRegression(**ours, method="mean")
        found["posterior"] = lambda _: PrivateLogisticRegression(**ours, method="posterior")
    try:
        from diffprivlib.models import LogisticRegression as Peer
    except ImportError:
        print("diffprivlib cannot be imported here: it is left out")
    else:
        found["diffprivlib"] = lambda _: Peer(epsilon=EPSILON, data_norm=math.sqrt(columns + 1.0))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print one line per data set and method."""
    parser = argparse.ArgumentParser(description="Private logistic regression beside other methods.")
    parser.add_argument("--splits", type=int, default=20)
    splits = parser.parse_args(arguments if arguments is not None else []).splits
    print(f"\naccuracy, epsilon {EPSILON:g}, delta {DELTA:g}, {splits} splits")
    for name, load in (("breast cancer", load_breast_cancer), ("digits", load_digits)):
        data = load()
        x = data.data[:, data.data.std(axis=0) > 0]
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        x = x * np.minimum(1.0, math.sqrt(x.shape[1]) / np.linalg.norm(x, axis=1))[:, None]
        every: dict[str, list[float]] = {}
        for method, make in methods(x.shape[1], len(data.target_names)).items():
            scores = every[method] = []
            for seed in range(splits):
                train, test, y, w = train_test_split(
                    x, data.target, test_size=0.2, random_state=seed, stratify=data.target
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # convergence, and what the peer says of its parameters
                    scores.append(make(seed).fit(train, y).score(test, w))
            print(f"{name:<15} {method:<12} {np.mean(scores):.3f} ({np.std(scores):.3f})", flush=True)
        if "intervals" in every:
            price = 100 * (np.array(every["rounds"]) - every["intervals"])
            error = price.std() / math.sqrt(splits)
            print(
                f"{name:<15} intervals cost {price.mean():.2f} points, with a standard error of {error:.2f}", flush=True
            )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
