"""How close can neighbouring data sets come to the guarantee of a lifted model?

python examples/adversarial_search.py                   a minute
python examples/adversarial_search.py --count 20000     longer

For each model: random neighbours of every kind, then optimised ones. Printed are the largest δ(1) found, against the
guarantee of 1e-5, and the noise variance that those neighbours alone would need, against the calibrated one. None may
exceed it.
"""

from __future__ import annotations

import argparse
import itertools
import math
from typing import Any

import numpy as np
from hard_neighbours import KINDS, climb, gp_neighbours, logistic_neighbours, profile_on
from scipy.optimize import brentq, minimize_scalar
from sklearn.gaussian_process.kernels import RBF, DotProduct

import ndis
from ndis.models.logistic import noisy_pair

EPSILON, DELTA = 1.0, 1e-5


def needed(model: Any, data: Any) -> float:
    """The noise variance at which these neighbours alone meet the budget; 0 where they need none."""
    x, y = data
    moments = *model.distribution(data), *model.distribution((x[:-1], y[:-1]))

    def excess(log_v: float) -> float:
        profile = ndis.PrivacyProfile(noisy_pair(*moments, math.exp(log_v)))
        return max(float(profile.log_delta(EPSILON)), -1e4) - math.log(DELTA)

    return math.exp(brentq(excess, -10.0, 10.0, xtol=1e-10)) if excess(-10.0) > 0 else 0.0


def report(name: str, model: Any, data: Any, v: float) -> float:
    """Print one line; the log of δ."""
    log_delta = float(profile_on(model, data, v).log_delta(EPSILON))
    assert log_delta <= math.log(DELTA), "a counterexample"
    shown = f"{math.exp(log_delta):.4e}" if log_delta > -700 else f"exp({log_delta:.0f})"
    print(f"  {name:<52} delta = {shown:<12} needs v = {needed(model, data):.5f}")
    return log_delta


def random_search(neighbours: Any, model: Any, v: float, count: int) -> None:
    """The worst of each kind."""
    worst: dict[str, Any] = dict.fromkeys(KINDS, (-math.inf, None))
    for kind, data in itertools.islice(neighbours, count):
        found = float(profile_on(model, data, v).log_delta(EPSILON))
        worst[kind] = max(worst[kind], (found, data), key=lambda pair: pair[0])
    for kind, (_, data) in worst.items():
        report(f"random, {kind}", model, data, v)


def logistic(count: int) -> None:
    """Bayesian logistic regression."""
    model = ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)
    v = ndis.lift(model, epsilon=EPSILON, delta=DELTA).noise_variance
    print(f"BohningLogistic, any number of records: v = {v:.5f}")
    for features in (1, 3):
        print(f" {count} random neighbours, {features} feature(s)")
        random_search(logistic_neighbours(model, features=features, records=60, random_state=features), model, v, count)
    print(" optimised: n short rows of one label against one long row of the other")
    for n in (100, 454, 2000, 20_000, 200_000, 2_000_000):

        def crowd(log_share: float, n: int = n) -> Any:
            x = np.append(np.full(n, 1.5 * math.exp(log_share)), 1.5)[:, None]
            return x, np.append(np.full(n, -1.0), 1.0)

        middle = math.log(2 * 6 * 3.0 / (n * 1.5**2))
        best = minimize_scalar(
            lambda u, crowd=crowd: -float(profile_on(model, crowd(u), v).log_delta(EPSILON)),
            bounds=(middle - 2, min(middle + 1.5, 0.0)),
            method="bounded",
            options={"maxiter": 15 if n > 100_000 else 40},
        )
        report(f"{n} rows of length {1.5 * math.exp(best.x):.3g}", model, crowd(best.x), v)
    start = crowd(math.log(2 * 4 * 3.0 / (100 * 1.5**2)), 100)
    _, data = climb(lambda data: float(profile_on(model, data, v).log_delta(EPSILON)), start, steps=300, random_state=0)
    report("100 rows, every one free to move", model, data, v)


def process(count: int) -> None:
    """Gaussian process regression, where labels are noisy and where they are not."""
    for noise in (250.0, 0.1):
        for analysis in ("prior", "posterior"):
            model = ndis.models.GaussianProcess(
                kernel=RBF(1.0), noise_variance=noise, label_bound=0.5, prior_variance_bound=1.0, query=[[0.0]],
                max_records=16, analysis=analysis,
            )  # fmt: skip
            v = ndis.lift(model, epsilon=EPSILON, delta=DELTA).noise_variance
            print(f"GaussianProcess, label noise {noise:g}, 16 records, analysis={analysis!r}: v = {v:.6g}")
            random_search(gp_neighbours(model, records=16, random_state=1), model, v, count // 10)
            start = (np.linspace(-1, 1, 16)[:, None] ** 3, np.append(np.full(15, -0.5), 0.5))
            _, data = climb(
                lambda data, model=model, v=v: float(profile_on(model, data, v).log_delta(EPSILON)),
                start,
                steps=100,
                random_state=0,
            )
            report("optimised, 16 records free to move", model, data, v)
    for release in ("draw", "mean"):
        model = ndis.models.GaussianProcess(
            kernel=DotProduct(sigma_0=0.0), noise_variance=0.1, label_bound=0.5, prior_variance_bound=1.0,
            query=[[1.0]], max_records=16, analysis="posterior", release=release,
        )  # fmt: skip
        v = ndis.lift(model, epsilon=EPSILON, delta=DELTA).noise_variance
        print(f"GaussianProcess, linear kernel, label noise 0.1, 16 records, release={release!r}: v = {v:.6g}")

        def short(share: float) -> Any:
            return np.append(np.full(15, share), 1.0)[:, None], np.append(np.full(15, -0.5), 0.5)

        best = minimize_scalar(
            lambda share, model=model, v=v: -float(profile_on(model, short(share), v).log_delta(EPSILON)),
            bounds=(0.01, 0.5),
            method="bounded",
        )
        report(f"optimised, 15 records at {best.x:.3g} of the last", model, short(best.x), v)


def main() -> None:
    """Search both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1200)
    arguments = parser.parse_args()
    logistic(arguments.count)
    process(arguments.count)


if __name__ == "__main__":
    main()
