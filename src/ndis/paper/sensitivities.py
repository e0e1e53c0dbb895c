"""The paper's sensitivities of two models, and its bound as printed, serve audits and comparisons only.

Production takes `model.sensitivity`, which is free of the number of weights and tighter. `AsInPaper(model)` lifts a
model with the paper's own numbers:

>>> import ndis
>>> model = ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5, max_records=50, dimension=2)
>>> printed = ndis.lift(AsInPaper(model), epsilon=1.0, delta=1e-5, bound="paper").noise_variance
>>> printed > ndis.lift(model, epsilon=1.0, delta=1e-5).noise_variance
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from ndis._balls import exact_ball, outward, precision
from ndis._validate import Floats, as_not_negative
from ndis.errors import ParameterError
from ndis.models.gp import GaussianProcess
from ndis.models.logistic import BohningLogistic
from ndis.spectrum.closed_forms import mean_shift_delta
from ndis.worst_case.envelopes import LoewnerEnvelope, mean_shift

_BITS = 128
_HOPELESS = 2.0**20  # a shift that no ε of interest hides


@dataclass(frozen=True, eq=False)
class AsInPaper:
    """A model with the sensitivity of the paper, for `ndis.lift` with ``bound="paper"``.

    Attributes
    ----------
    model : BohningLogistic or GaussianProcess
    """

    model: BohningLogistic | GaussianProcess

    @property
    def adjacency(self) -> str:
        """Neighbours are those of the model."""
        return self.model.adjacency

    def distribution(self, data: Any) -> Any:
        """Return mean and covariance of the model, exactly, before noise. **Private.**"""
        return self.model.distribution(data)

    def sensitivity(self, noise_variance: float) -> LoewnerEnvelope:
        """Return the paper's envelope at this noise variance."""
        return paper_sensitivity(self.model, noise_variance)


def paper_sensitivity(model: BohningLogistic | GaussianProcess, noise_variance: float) -> LoewnerEnvelope:
    """Return the paper's Δ, ρ, ν (prop:blr-ndis-sens, prop:gpr-ndis-sens).

    The number of records is public, and the tolerance of the solver or the allowance for kernel errors is added. A
    logistic model must state its `dimension`: the bound grows with it.
    """
    with precision(_BITS):
        if isinstance(model, BohningLogistic):
            return _logistic(model, noise_variance)
        return _process(model, noise_variance)


def _logistic(model: BohningLogistic, noise_variance: float) -> LoewnerEnvelope:
    """Return the paper's envelope of a logistic model."""
    if model.dimension is None:
        raise ParameterError("dimension", "be given for the paper's sensitivity, which grows with it", None)
    v, lam, bound, drift, least = model._balls(noise_variance)
    moved, d = bound / lam + drift, model.dimension
    if model.release == "mean":
        return LoewnerEnvelope(mean_shift(moved, v), 0.0, 0.0, d)
    log_ratio = ((v + 1 / lam) / (v + least)).log()
    shift = outward(moved / (v + least).sqrt()).upper
    return LoewnerEnvelope(shift, outward(log_ratio).upper, outward(d * log_ratio).upper, d)


def _process(model: GaussianProcess, noise_variance: float) -> LoewnerEnvelope:
    """Return the paper's envelope of a Gaussian process."""
    v, noise, prior, _ = model._balls(noise_variance)
    d = len(model.query)
    if model.release == "mean":
        return LoewnerEnvelope(mean_shift(model._mean_sensitivity, arb(noise_variance)), 0.0, 0.0, d)
    if not v > exact_ball(model._allowance):
        return LoewnerEnvelope(_HOPELESS, 1.0, 1.0, d)
    shift = outward((prior * model.max_records / (noise * v)).sqrt() * arb(model.label_bound)).upper
    log_ratio = outward((1 + prior / v).log()).upper
    return LoewnerEnvelope(shift, log_ratio, log_ratio, d)


def printed_bound_not_private(envelope: LoewnerEnvelope, epsilon: float) -> float:
    """Evaluate δ̄_LC as printed (def:delta-LC). **Not a bound**: an exhibit for audits, never used to calibrate.

    Its covariance term is Chernoff's bound for the *easy* order, set to zero from ε₂ ≥ ν/2 on, while the mechanism
    (alg::ndis wrapper, thm:NDIS-mech-DP) needs the hard one. The paper never defines φ_s and ψ_u; the code takes them
    from the lemma that the definition instantiates.

    >>> import math, ndis
    >>> envelope = LoewnerEnvelope(0.0, math.log(2.0), math.log(2.0), 1)  # admits N(0, 2) from N(0, 1)
    >>> printed_bound_not_private(envelope, 1.0), round(ndis.GaussianPair.from_ratios(2.0).delta(1.0), 4)
    (0.0, 0.0456)
    """
    e = as_not_negative("epsilon", epsilon)
    half = 0.5 * min(envelope.log_det_bound, envelope.dimension * envelope.log_ratio_bound)
    s = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400)])
    exponent = sum(
        (n * (0.5 * s * x - 0.5 * np.log1p(s * -math.expm1(-x))) for x, n in envelope.extreme), np.zeros(s.size)
    )

    def at(split: Floats) -> Floats:
        second = e - split
        chernoff = np.exp(np.minimum((exponent - np.outer(second, s)).min(axis=1), 0.0))
        covariance = np.where(second >= half, 0.0, chernoff)
        mean = np.asarray(mean_shift_delta(split, envelope.shift_bound))
        return np.asarray(mean + np.exp(split) * covariance)

    splits = np.linspace(0.0, e, 4001)
    edge = np.array([e - half]) if e >= half else np.zeros(1)
    return float(min(at(splits).min(), at(edge).min()))
