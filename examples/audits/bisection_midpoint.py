"""A calibration that returns the midpoint of its last bracket.

`python examples/audits/bisection_midpoint.py` refutes it, by the seventh digit of δ; the end that was checked survives.
"""

from __future__ import annotations

from gallery import Exhibit, show

import ndis

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-6)
PUBLIC = {"sketch_size": 100, "row_norm_bound": 1.0}
TOLERANCE = 1e-6


def pair(ridge: float) -> ndis.GaussianPair:
    """No rows against one row at the bound: 100 columns with variance ratio 1 + l²/λ."""
    return ndis.GaussianPair.from_ratios(1.0 + 1.0 / ridge, copies=PUBLIC["sketch_size"])


def bracket() -> tuple[float, float]:
    """A ridge that is too small and one that is enough, TOLERANCE apart; the certificate decides each step."""
    low, high = 1.0, 1000.0
    while high - low > TOLERANCE:
        middle = 0.5 * (low + high)
        if pair(middle).certify(CLAIM.epsilon).upper <= CLAIM.delta:
            high = middle
        else:
            low = middle
    return low, high


def exhibit() -> Exhibit:
    """The same search, two ways to end it."""
    low, high = bracket()
    middle = 0.5 * (low + high)
    false = ndis.audit(CLAIM, mechanism=ndis.RandomProjection.with_ridge(ridge=middle, delta=CLAIM.delta, **PUBLIC))
    checked = ndis.RandomProjection(ridge=high, epsilon=CLAIM.epsilon, delta=CLAIM.delta, **PUBLIC)
    return Exhibit(
        "bisection-midpoint",
        "The midpoint of a bisection",
        false,
        ndis.audit(CLAIM, mechanism=checked),
        {
            "midpoint": f"{middle:.9f}",
            "checked end": f"{high:.9f}",
            "δ at the midpoint": f"{false.delta_possible:.12g}",
            "above the claim by": f"{false.delta_possible / CLAIM.delta - 1:.3g}",
        },
    )


if __name__ == "__main__":
    show(exhibit())
