"""Which penalty for private logistic regression: the table of docs/models.md.

python examples/choosing_penalty.py     prints accuracies for five penalties and three numbers of records

The noise of the release depends on the penalty, the norm bound and the budget, and not on the number of records. What
the records say grows with their number. So the more records, the larger the penalty they can bear, and the smaller the
noise. The records are made up, so that their number can be chosen; every fit draws fresh noise.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from ndis.learn import PrivateLogisticRegression

WEIGHTS = np.array([2.0, -1.5, 1.0, -1.0, 0.5, 0.0])
ROW_NORM_BOUND = 4.0
EPSILON, DELTA = 1.0, 1e-5
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
RECORDS = (420, 4_200, 42_000)


def made_up(records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows of six features, and labels 0 and 1 from a logistic model."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(records, len(WEIGHTS)))
    return rows, (rng.random(records) < expit(rows @ WEIGHTS)).astype(int)


def private_model(l2_penalty: float) -> PrivateLogisticRegression:
    """The model, not yet fitted. All its parameters are public."""
    return PrivateLogisticRegression(
        epsilon=EPSILON,
        delta=DELTA,
        l2_penalty=l2_penalty,
        row_norm_bound=ROW_NORM_BOUND,
        classes=(0, 1),
        method="posterior",
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8, help="fits behind every accuracy")
    repeats = parser.parse_args().repeats
    rows, labels = made_up(10_000, seed=1)
    print(f"ε = {EPSILON:g}, δ = {DELTA:g}, norm bound {ROW_NORM_BOUND:g}; accuracy on {len(rows)} other records,")
    print(f"mean (standard deviation) of {repeats} fits\n")
    print("| l2_penalty | noise std | " + " | ".join(f"{n:,} records" for n in RECORDS) + " |")
    print("|---" * (2 + len(RECORDS)) + "|")
    training = [made_up(records, seed=0) for records in RECORDS]
    for penalty in PENALTIES:
        cells = []
        for data in training:
            models = [private_model(penalty).fit(*data) for _ in range(repeats)]
            found = [model.score(rows, labels, public=True) for model in models]
            cells.append(f"{np.mean(found):.3f} ({np.std(found):.3f})")
        std = models[0].mechanism_.noise_variance ** 0.5
        print(f"| {penalty:g} | {std:.4g} | " + " | ".join(cells) + " |", flush=True)
    plain = [LogisticRegression(C=np.inf).fit(*data).score(rows, labels) for data in training]
    print("| not private | 0 | " + " | ".join(f"{accuracy:.3f}" for accuracy in plain) + " |")


if __name__ == "__main__":
    main()
