"""How much noise a Gaussian process needs, against the noise of its labels; how well it predicts; how long it takes.

`python examples/process_noise.py`; `--errors` adds prediction errors on scikit-learn's diabetes data (half a minute),
`--times` the times of releases (a minute). Nothing here is private.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from ndis.models.mean import Release
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF

import ndis
from ndis.learn._gaussian_process import prediction_weights
from ndis.models.exact_solve import Release
from ndis.models.gp import Analysis

LABEL_NOISE = (0.1, 1.0, 10.0, 25.0, 100.0, 1000.0)
RELEASES: tuple[Release, ...] = ("draw", "mean")
SIZES = ((100, 5), (200, 5), (500, 5), (200, 50), (200, 100))


def process(label_noise: float, queries: int, analysis: Analysis) -> ndis.models.GaussianProcess:
    """At most 500 records, labels within ±1, queries evenly between −2 and 2."""
    return ndis.models.GaussianProcess(
        kernel=RBF(1.0),
        noise_variance=label_noise,
        label_bound=1.0,
        prior_variance_bound=1.0,
        query=np.linspace(-2.0, 2.0, queries)[:, None],
        max_records=500,
        analysis=analysis,
    )


def show_noise() -> None:
    """Noise variance at (1, 10⁻⁶) by the noise of the labels: of the mean, and of a draw by both analyses."""
    print("label noise        mean  draw, posterior  draw, prior")
    for label_noise in LABEL_NOISE:
        posterior, prior = process(label_noise, 5, "posterior"), process(label_noise, 5, "prior")
        models = (replace(posterior, release="mean"), posterior, prior)
        found = [ndis.lift(model, epsilon=1.0, delta=1e-6).noise_variance for model in models]
        print(f"{label_noise:11g}  {found[0]:10.4g}  {found[1]:15.4g}  {found[2]:11.4g}", flush=True)


def show_errors(draws: int = 400) -> None:
    """Root mean squared test errors on one column of the diabetes data, in standard deviations of the target.

    The law of the release is known, so draws from it in floats stand for releases, which take exact arithmetic.
    """
    data = load_diabetes()
    x, y = data.data[:, [2]] / 0.05, (data.target - 152) / 77  # body mass; public centre and spread
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    train, test = order[:342], order[342:]
    query, kernel, labels = np.linspace(-2, 2, 5)[:, None], RBF(1.0), np.clip(y[train], -2, 2)
    print(f"epsilon = 1, delta = 1e-5; always predicting 0: {np.sqrt(np.mean(y[test] ** 2)):.3f}")
    print("label noise   mean   draw   not private")
    for label_noise in (10.0, 25.0, 50.0, 100.0, 200.0, 400.0):
        across, among = kernel(query, x[train]), kernel(x[train]) + label_noise * np.eye(len(train))
        mean = across @ np.linalg.solve(among, labels)
        covariance = kernel(query) - across @ np.linalg.solve(among, across.T)
        errors = []
        for release in RELEASES[::-1]:
            model = ndis.models.GaussianProcess(
                kernel=kernel, noise_variance=label_noise, label_bound=2.0, prior_variance_bound=1.0, query=query,
                max_records=len(train), analysis="posterior", release=release,
            )  # fmt: skip
            noise = ndis.lift(model, epsilon=1.0, delta=1e-5).noise_variance
            spread = noise * np.eye(5) + (covariance if release == "draw" else 0)
            squares = []
            for values in rng.multivariate_normal(mean, spread, size=draws):
                weights = prediction_weights(model, values, noise_variance=noise)
                squares.append(np.mean((kernel(x[test], query) @ weights - y[test]) ** 2))
            errors.append(np.sqrt(np.mean(squares)))
        plain = kernel(x[test], x[train]) @ np.linalg.solve(among, labels)
        errors.append(np.sqrt(np.mean((plain - y[test]) ** 2)))
        print(f"{label_noise:11g}  {errors[0]:.3f}  {errors[1]:.3f}  {errors[2]:.3f}", flush=True)


def show_times() -> None:
    """Seconds of processor time for calibration and one release."""
    print("records  queries  lift (draw)  draw  lift (mean)  mean")
    rng = np.random.default_rng(0)
    for records, queries in SIZES:
        x = rng.uniform(-2.0, 2.0, size=(records, 1))
        cells = []
        for release in RELEASES:
            model = replace(process(25.0, queries, "posterior"), release=release)
            start = time.process_time()
            lifted = ndis.lift(model, epsilon=1.0, delta=1e-6)
            middle = time.process_time()
            lifted.release((x, np.cos(x[:, 0])))
            cells += [middle - start, time.process_time() - middle]
        shown = "  ".join(f"{seconds:7.1f}" for seconds in cells)
        print(f"{records:7d}  {queries:7d}  {shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", action="store_true", help="prediction errors as well")
    parser.add_argument("--times", action="store_true", help="time releases as well")
    asked = parser.parse_args()
    show_noise()
    if asked.errors:
        show_errors()
    if asked.times:
        show_times()
