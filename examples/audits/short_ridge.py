"""A random projection with 10 % too little ridge.

`python examples/audits/short_ridge.py` refutes it; the calibrated ridge survives.
"""

from __future__ import annotations

from gallery import Exhibit, show

import ndis

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-6)
PUBLIC = {"sketch_size": 100, "row_norm_bound": 1.0}


def exhibit() -> Exhibit:
    """The mechanism finds its own worst neighbours; the claim is what was promised for the larger ridge."""
    calibrated = ndis.RandomProjection.calibrated(epsilon=CLAIM.epsilon, delta=CLAIM.delta, **PUBLIC)
    short = ndis.RandomProjection.with_ridge(ridge=0.9 * calibrated.ridge, delta=CLAIM.delta, **PUBLIC)
    return Exhibit(
        "short-ridge",
        "A projection with 10 % too little ridge",
        ndis.audit(CLAIM, mechanism=short),
        ndis.audit(CLAIM, mechanism=calibrated),
        {"calibrated ridge": f"{calibrated.ridge:.6g}", "ridge used": f"{short.ridge:.6g}"},
    )


if __name__ == "__main__":
    show(exhibit())
