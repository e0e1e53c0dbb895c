"""How much noise a Gaussian process needs, against the noise of its labels, and how long a release takes.

`python examples/process_noise.py`; with `--times` the releases as well, about a minute. Nothing here is private.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.gaussian_process.kernels import RBF

import ndis

LABEL_NOISE = (0.1, 1.0, 10.0, 25.0, 100.0, 1000.0)
SIZES = ((100, 5), (200, 5), (500, 5), (200, 50), (200, 100))


def process(label_noise: float, queries: int, analysis: str) -> ndis.models.GaussianProcess:
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
    """Noise variance at (1, 10⁻⁶) by the noise of the labels, for both analyses."""
    print("label noise   posterior       prior")
    for label_noise in LABEL_NOISE:
        found = [
            ndis.lift(process(label_noise, 5, analysis), epsilon=1.0, delta=1e-6).noise_variance
            for analysis in ("posterior", "prior")
        ]
        print(f"{label_noise:11g}  {found[0]:10.4g}  {found[1]:10.4g}", flush=True)


def show_times() -> None:
    """Seconds of processor time for one release."""
    print("records  queries  seconds")
    rng = np.random.default_rng(0)
    for records, queries in SIZES:
        x = rng.uniform(-2.0, 2.0, size=(records, 1))
        lifted = ndis.lift(process(25.0, queries, "posterior"), epsilon=1.0, delta=1e-6)
        start = time.process_time()
        lifted.release((x, np.cos(x[:, 0])))
        print(f"{records:7d}  {queries:7d}  {time.process_time() - start:7.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", action="store_true", help="time releases as well")
    show_noise()
    if parser.parse_args().times:
        show_times()
