"""The paper's wrapper as printed (alg::ndis wrapper): Gaussian process regression, calibrated in the easy order.

`python examples/audits/printed_wrapper.py` refutes it; the exact lift of the same model survives.
"""

from __future__ import annotations

import math

import numpy as np
from gallery import Exhibit, show
from sklearn.gaussian_process.kernels import RBF

import ndis
from ndis._search import smallest_safe

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-5)
NOISE, LABEL_BOUND, MAX_RECORDS = 0.01, 0.001, 1  # σ_n², B and n; the kernel is at most l² = 1


def printed_log_delta(variance: float) -> float:
    """log of δ̄_LC(1; Δ, ρ, ρ), def:delta-LC, at the split ε₂ = ρ/2, where the printed covariance term is zero."""
    shift = LABEL_BOUND * math.sqrt(MAX_RECORDS / (NOISE * variance))  # Δ = l·B·√n / (σ_n·√v)
    ratio = math.log1p(1.0 / variance)  # ρ = log((v + l²)/v)
    return ndis.GaussianPair.from_ratios(1.0, shift=shift).log_delta(CLAIM.epsilon - ratio / 2)


def model() -> ndis.models.GaussianProcess:
    """One public query point, at which a record may lie."""
    return ndis.models.GaussianProcess(
        kernel=RBF(1.0),
        noise_variance=NOISE,
        label_bound=LABEL_BOUND,
        prior_variance_bound=1.0,
        query=[[0.0]],
        max_records=MAX_RECORDS,
        analysis="posterior",
    )


def exhibit() -> Exhibit:
    """Both versions on the data {(x⋆, B)} and its one neighbour, no data."""
    record = np.array([[0.0]]), np.array([LABEL_BOUND])
    printed = smallest_safe(printed_log_delta, lambda v: math.exp(printed_log_delta(v)), delta=CLAIM.delta)

    def wrapper(data: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = (array.to_float() for array in model().distribution(data))
        return mean, covariance + printed * np.eye(1)

    lifted = ndis.lift(model(), epsilon=CLAIM.epsilon, delta=CLAIM.delta, bound="exact")
    return Exhibit(
        "printed-wrapper",
        "The paper's wrapper as printed",
        ndis.audit(CLAIM, algorithm=wrapper, data=record),
        ndis.audit(CLAIM, mechanism=lifted, data=record),
        {"noise variance as printed": f"{printed:.6f}", "noise variance of the lift": f"{lifted.noise_variance:.6g}"},
    )


if __name__ == "__main__":
    show(exhibit())
