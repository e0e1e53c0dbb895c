"""Fifty of the random compositions of `make sweep`: float, error estimate and certificate agree."""

from __future__ import annotations

import pytest

from benchmarks.sampled_sweep import AGREED, check

<<<<<<< HEAD
# These are refused, or take minutes; the sweep lists them.
LEFT_OUT = (5, 15, 17, 32, 37, 39, 50)
=======
IN_THE_SUITE = range(52)
ACCURACY = 1e-10  # of log δ, relative to 1 + |log δ|
>>>>>>> h2


@pytest.mark.parametrize("seed", [seed for seed in range(50 + len(LEFT_OUT)) if seed not in LEFT_OUT])
def test_float_error_estimate_and_certificate_agree(seed: int) -> None:
    found = check(seed)
    assert found.outcome in AGREED, found
