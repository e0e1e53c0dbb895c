"""The paper's propose-test-release rule ε_R = max(ε − ε_T, 0) (alg:ptr-rp) where the test costs more than ε.

`python examples/audits/ptr_budget.py` refutes it; the jointly accounted mechanism refuses that test, and survives with
another.
"""

from __future__ import annotations

import numpy as np
from gallery import Exhibit, show
from scipy.special import ndtri

import ndis
from ndis.paper import calibrated_projection

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-6)
PUBLIC = {"sketch_size": 100, "row_norm_bound": 1.0}
TEST_NOISE_STD = 1.0  # τ = l²


def noisy_least_eigenvalue(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the test reveals: λ_min(DᵀD) + N(0, τ²). The ridge that goes with the sketch is a function of it."""
    return np.linalg.eigvalsh(data.T @ data)[:1], np.array([TEST_NOISE_STD**2])


def exhibit() -> Exhibit:
    """Rows along two axes, fewer along the second: each of those moves λ_min by l²."""
    data = np.repeat(np.eye(2), [100, 50], axis=0)
    third = CLAIM.delta / 3
    margin = 49.0 / TEST_NOISE_STD - ndtri(1.0 - third)  # from λ_min of the smaller data set to where λ_lb is cut at 0
    test_epsilon = ndis.GaussianPair.from_ratios(1.0, shift=1.0 / TEST_NOISE_STD).epsilon(third)
    left = max(CLAIM.epsilon - test_epsilon, 0.0)
    ridge = calibrated_projection("paper", epsilon=left, delta=third, **PUBLIC).ridge
    budget = {"epsilon": CLAIM.epsilon, "delta": CLAIM.delta, **PUBLIC}
    try:
        ndis.PTRProjection.calibrated(test_noise_std=TEST_NOISE_STD, **budget)
        answer = "accepted"
    except ndis.BudgetError as refusal:
        answer = f"refused: {refusal}"
    joint = ndis.PTRProjection.calibrated(test_noise_std=10.0, **budget)
    return Exhibit(
        "ptr-budget",
        "The paper's PTR rule with a test beyond the budget",
        ndis.audit(CLAIM, algorithm=noisy_least_eigenvalue, data=data),
        ndis.audit(CLAIM, mechanism=joint),
        {
            "ε of the test": f"{test_epsilon:.6g}",
            "ε left for the sketch": f"{left:g}",
            "l²/p⋆ for that": f"{ridge:.6g}",
            "standard deviations from the cut": f"{margin:.4g}",
            "PTRProjection with the same test": answer,
            "l²/p⋆ of PTRProjection with τ = 10 l²": f"{joint.ridge + 1.0:.6g}",
        },
    )


if __name__ == "__main__":
    show(exhibit())
