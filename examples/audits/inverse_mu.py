"""Gaussian noise calibrated with μ where 1/μ belongs: μ-GDP needs noise_std = sensitivity/μ.

`python examples/audits/inverse_mu.py` refutes the product; the quotient survives.
"""

from __future__ import annotations

import numpy as np
from gallery import Exhibit, show

import ndis
from ndis.auditing import AuditReport

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-5)
SENSITIVITY = 1.0  # a count


def exhibit() -> Exhibit:
    """A noisy count of 20 people, of whom each may be left out."""
    calibrated = ndis.GaussianMechanism.calibrated(sensitivity=SENSITIVITY, epsilon=CLAIM.epsilon, delta=CLAIM.delta)
    mu = SENSITIVITY / calibrated.noise_std

    def count(noise_std: float) -> AuditReport:
        def algorithm(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return data.sum(axis=0), np.array([noise_std**2])

        return ndis.audit(CLAIM, algorithm=algorithm, data=np.ones((20, 1)))

    return Exhibit(
        "inverse-mu",
        "Noise calibrated with μ instead of 1/μ",
        count(SENSITIVITY * mu),
        count(calibrated.noise_std),
        {"μ": f"{mu:.6g}", "noise used, sensitivity·μ": f"{mu:.6g}", "noise needed": f"{calibrated.noise_std:.6g}"},
    )


if __name__ == "__main__":
    show(exhibit())
