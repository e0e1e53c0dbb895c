"""How private is a draw from the posterior of `BayesianRidge` by itself, N(coef_, sigma_)?

`python examples/audits/sklearn_bayesian_ridge.py` refutes ε = 1; with public hyper-parameters and `ndis.lift` it
survives.
"""

from __future__ import annotations

import numpy as np
from gallery import Exhibit, show
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.linear_model import BayesianRidge

import ndis
from ndis.auditing import AddRows, RemoveEach, Search

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-5)
PEOPLE, ROW_NORM_BOUND, TARGET_BOUND = 100, 4.0, 200.0
PRIOR_VARIANCE, LABEL_NOISE = 900.0, 3600.0  # public: of a coefficient, and of progression about its prediction
Data = tuple[np.ndarray, np.ndarray]


def load() -> Data:
    """Four measurements and disease progression, in public units and within public bounds."""
    rows, targets = load_diabetes(return_X_y=True, scaled=False)
    rows = (rows[:PEOPLE, [2, 3, 6, 8]] - [26.0, 95.0, 50.0, 4.6]) / [5.0, 15.0, 13.0, 0.5]
    too_long = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / ROW_NORM_BOUND, 1.0)
    return rows / too_long, np.clip(targets[:PEOPLE] - 150.0, -TARGET_BOUND, TARGET_BOUND)


def posterior(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the coefficients; scikit-learn fits both precisions to the data."""
    fitted = BayesianRidge(fit_intercept=False).fit(*data)
    return fitted.coef_, fitted.sigma_


def public_posterior(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The same with both precisions public."""
    rows, targets = data
    covariance = np.linalg.inv(rows.T @ rows / LABEL_NOISE + np.eye(4) / PRIOR_VARIANCE)
    covariance = (covariance + covariance.T) / 2
    return covariance @ rows.T @ targets / LABEL_NOISE, covariance


def public_model(max_records: int) -> ndis.models.GaussianProcess:
    """That posterior as a Gaussian process: kernel proportional to x·z, queried at the unit vectors."""
    return ndis.models.GaussianProcess(
        kernel=ConstantKernel(PRIOR_VARIANCE) * DotProduct(sigma_0=0.0),
        noise_variance=LABEL_NOISE,
        label_bound=TARGET_BOUND,
        prior_variance_bound=1.001 * PRIOR_VARIANCE * ROW_NORM_BOUND**2,
        query=np.eye(4),
        max_records=max_records,
        analysis="posterior",
    )


def exhibit() -> Exhibit:
    """Every removal; and one more person, along the direction about which the data say least."""
    data = load()
    weakest = np.linalg.eigh(data[0].T @ data[0])[1][:, :1].T
    one_more = AddRows((ROW_NORM_BOUND * np.repeat(weakest, 2, axis=0), np.array([TARGET_BOUND, -TARGET_BOUND])))
    removals = ndis.audit(CLAIM, algorithm=posterior, data=data, search=Search(neighbours=[RemoveEach()]))
    lifted = ndis.lift(public_model(PEOPLE + 1), epsilon=CLAIM.epsilon, delta=CLAIM.delta, bound="exact")

    def released(data: Data) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = public_posterior(data)
        return mean, covariance + lifted.noise_variance * np.eye(4)

    bare = ndis.audit(CLAIM, algorithm=posterior, data=data, search=Search(neighbours=[RemoveEach(), one_more]))
    return Exhibit(
        "sklearn-bayesian-ridge",
        "A posterior draw of scikit-learn's BayesianRidge",
        bare,
        ndis.audit(CLAIM, algorithm=released, data=data, search=Search(neighbours=[RemoveEach(), one_more])),
        {
            "shift by the record, in standard deviations": f"{np.linalg.norm(bare.witness.pair.shift):.4g}",
            "largest ε refuted by removals": f"{removals.epsilon_refuted:.6g}",
            "noise of the lift, standard deviation": f"{lifted.noise_variance**0.5:.4g}",
            "largest coefficient": f"{np.abs(posterior(data)[0]).max():.4g}",
        },
    )


if __name__ == "__main__":
    show(exhibit())
