"""Calibrate a random projection as other analyses do: with a larger ridge than it needs (fig:leverage-ratio)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ndis._exact import up
from ndis.errors import BudgetError, ParameterError
from ndis.mechanisms.projection import RandomProjection, SketchMechanism
from ndis.mechanisms.sketch_law import Curves, ProjectionLaw, mean_shift, smallest_ridge
from ndis.spectrum.bounds import renyi_bound


def calibrated_projection(
    calibration: str, kind: type[SketchMechanism] = RandomProjection, *, epsilon: float, delta: float, **public: Any
) -> SketchMechanism:
    """Make a projection with the ridge of an analysis of the literature (fig:leverage-ratio); its profile is exact.

    Parameters
    ----------
    calibration : str
        - ``"paper"``: l²/p*, as printed, which is larger than needed by l². With a test it splits ε between test and
          sketch, and δ − δ_ptr in halves (alg:ptr-rp);
        - ``"lsv"``: l²/p_LSV, Sheffet's least-singular-value analysis;
        - ``"renyi"``: the smallest ridge for the Rényi bound on δ (Gaussian mixing).
    kind : type
        RandomProjection, PoissonProjection or PTRProjection.
    epsilon, delta, public
        As for `RandomProjection.calibrated`.

    Examples
    --------
    >>> import ndis
    >>> public = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 100, "row_norm_bound": 1.0}
    >>> exact = ndis.RandomProjection.calibrated(**public)
    >>> [round(calibrated_projection(name, **public).ridge / exact.ridge, 3) for name in ("paper", "renyi", "lsv")]
    [1.028, 1.1, 7.917]
    """
    exact = kind.calibrated(epsilon=epsilon, delta=delta, **public)
    law, target = exact.law, {"epsilon": exact.target_epsilon, "delta": exact.target_delta}
    if calibration == "lsv":
        ridge = _least_singular_value(law, **target)
    elif calibration == "renyi":
        ridge = smallest_ridge(law, **target, curves=_renyi(law, exact.target_epsilon))
    elif calibration == "paper":
        needed = smallest_ridge(*_split(law, **target)) if law.test_shift else exact.ridge
        ridge = up(Fraction(needed) + law.squared_bound)  # l²/p* = l²/h* + l²
    else:
        raise ParameterError("calibration", "be 'paper', 'lsv' or 'renyi'", repr(calibration))
    return kind(**exact.arguments() | {"ridge": ridge, "calibration": calibration})


def _split(law: ProjectionLaw, epsilon: float, delta: float) -> tuple[ProjectionLaw, float, float]:
    """Compute the budget that the test leaves for the sketch: ε_R = ε − ε_T, and half of δ − δ_ptr (alg:ptr-rp)."""
    half = 0.5 * (delta - law.failure_probability)
    left = epsilon - mean_shift(law.test_shift).epsilon(half)
    if not left > 0:
        raise BudgetError("the test alone spends all of epsilon in the paper's split; take a larger test_noise_std")
    return replace(law, test_noise_std=None, failure_probability=0.0), left, half


def _renyi(law: ProjectionLaw, epsilon: float) -> Curves:
    """Take the Rényi bound of the pair in each order, in place of δ. Sampling follows `alg:subsampled-wrapper-rp`."""
    q = law.rate
    # log(1 + (e^ε − 1)/q); the second form if e^ε may overflow and e^−ε is below rounding
    inner = math.log1p(math.expm1(epsilon) / q) if epsilon < 50.0 else epsilon - math.log(q)
    whole = replace(law, rate=1.0, failure_probability=0.0)

    def upper(ridge: float) -> float:
        profile = whole.at(ridge).profile()
        worse = max(float(renyi_bound(pair, inner)) for pair in (profile.remove, profile.add))
        return math.nextafter(q * worse + law.failure_probability, math.inf)

    return lambda ridge: math.log(upper(ridge)), upper


def _least_singular_value(law: ProjectionLaw, epsilon: float, delta: float) -> float:
    """Compute Sheffet's threshold p = ε / (4(√(2r ln(4/δ)) + ln(4/δ))) and the ridge l²/p, both for add and remove.

    They are the baseline of fig:leverage-ratio.
    """
    if not (law.is_gaussian and law.adjacency == "add-remove"):
        raise ParameterError("calibration", "be another for this mechanism", "'lsv'", "it knows plain add-remove only")
    if not epsilon > 0:
        raise BudgetError("the least-singular-value calibration has no ridge for epsilon = 0")
    log_term = math.log(4.0) - math.log(delta)
    p = epsilon / (4.0 * (math.sqrt(2.0 * law.sketch_size * log_term) + log_term))
    return float(law.squared_bound) / p
