"""How private is `GaussianProcessRegressor.sample_y` by itself? One draw of the posterior at four public points.

`python examples/audits/sklearn_gaussian_process.py` refutes ε = 1; the same posterior lifted by `ndis.lift` survives.
"""

from __future__ import annotations

import numpy as np
from gallery import Exhibit, show
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import ndis
from ndis.auditing import AddRows, AuditReport, RemoveEach, Search

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-5)
QUERY = np.array([[-1.0], [0.0], [1.0], [2.0]])
LABEL_NOISE = 0.1  # variance, of targets between −1 and 1
PEOPLE = 100
Data = tuple[np.ndarray, np.ndarray]


def load() -> Data:
    """Body mass index and disease progression of 100 people, in public units."""
    rows, targets = load_diabetes(return_X_y=True, scaled=False)
    return (rows[:PEOPLE, [2]] - 26.0) / 5.0, (targets[:PEOPLE] - 150.0) / 200.0


def audit(noise_variance: float, *neighbours: object) -> AuditReport:
    """The law of `sample_y(QUERY)`, with noise added to the draw."""

    def draw(data: Data) -> tuple[np.ndarray, np.ndarray]:
        fitted = GaussianProcessRegressor(RBF(1.0), alpha=LABEL_NOISE, optimizer=None).fit(*data)
        mean, covariance = fitted.predict(QUERY, return_cov=True)
        return mean, covariance + noise_variance * np.eye(len(QUERY))

    return ndis.audit(CLAIM, algorithm=draw, data=load(), search=Search(neighbours=neighbours))


def exhibit() -> Exhibit:
    """The bare draw; a draw with noise that survives every removal but not one more person; the lifted draw."""
    one_more = AddRows((QUERY[-1:], np.array([-1.0])))
    survived = next(v for v in (1.0, 2.0, 4.0) if not audit(v, RemoveEach()).refuted)
    model = ndis.models.GaussianProcess(
        kernel=RBF(1.0),
        noise_variance=LABEL_NOISE,
        label_bound=1.0,
        prior_variance_bound=1.0,
        query=QUERY,
        max_records=PEOPLE + 1,
        analysis="posterior",
    )
    lifted = ndis.lift(model, epsilon=CLAIM.epsilon, delta=CLAIM.delta, bound="exact")
    bare = audit(0.0, RemoveEach())
    return Exhibit(
        "sklearn-gaussian-process",
        "A posterior draw of scikit-learn's GaussianProcessRegressor",
        bare,
        audit(lifted.noise_variance, RemoveEach(), one_more),
        {
            "variance ratio without and with the record": f"{bare.witness.pair.variance_ratio.max():.4g}",
            "noise variance that survives all removals": f"{survived:g}",
            "δ there with one person more": f"{audit(survived, one_more).delta_possible:.6g}",
            "noise of the lift, standard deviation": f"{lifted.noise_variance**0.5:.4g}",
        },
    )


if __name__ == "__main__":
    show(exhibit())
