"""Make any Gaussian-output algorithm private with the least isotropic noise (alg::ndis wrapper, corrected).

A Gaussian-output algorithm (def:gaussian-output-alg) maps data to a mean μ and a covariance Σ. The mechanism releases a
draw from N(μ, Σ + vI), the additive-noise family of def:additive-noise-family with N = vI. By prop:mr-reduction δ
depends on neighbours only through the whitened shift and ratios. At each v the model bounds these by an envelope.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ndis._exact import ExactArray, exact_array, plus_diagonal
from ndis._search import budget, smallest_safe
from ndis._validate import Adjacency, as_adjacency, as_within, require
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import ARITHMETICS, Attained, CertifiedMechanism, Receipt, announce, payable, settle
from ndis.mechanisms.releases import GaussianRelease
from ndis.noise import exact_gaussian, grid_for
from ndis.noise.bits import random_bits
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.worst_case.envelopes import Envelope, LoewnerEnvelope, as_envelope
from ndis.worst_case.profile import Bound, as_bound, certified_worst_delta, envelope_profile, worst_log_delta

_NO_NOISE = 2.0**-200  # for a model that needs no noise: it only sets a public grid for the draw


@runtime_checkable
class GaussianOutput(Protocol):
    """The members that `lift` needs of a model (def:gaussian-output-alg). Only `distribution(data)` is private.

    Optional members: `adjacency` ("add-remove" by default); `sensitivity_paper(noise_variance)`, a LoewnerEnvelope for
    bound="paper"; `attained(noise_variance)`, a tuple of `Attained`, the worst known neighbours.
    """

    def distribution(self, data: Any) -> tuple[Any, Any]:
        """Return mean (d,) and covariance (d, d), private: integers, fractions or floats, or ExactArrays, all exact.

        If both are ExactArrays (`ndis.exact_array` makes one), the receipt calls the law exact. Otherwise it says that
        the law was computed in floats. The receipt tells which, so return one type whatever the data are. In one
        dimension the mean may be a number. The method must return for every data set of the right shape, and what it
        raises must not depend on private values.
        """

    def sensitivity(self, noise_variance: float) -> Envelope:
        """Bound how far neighbours can be apart at this noise variance, rounded up. Public."""


def lift(model: GaussianOutput, *, epsilon: float, delta: float, bound: Bound = "exact") -> LiftedMechanism:
    """Make the mechanism that releases `model` with the smallest noise variance for the budget.

    It draws from the additive-noise family (def:additive-noise-family). The worst δ over neighbours falls as the noise
    grows, because more noise is post-processing. The search needs this only to find a small noise. The noise variance
    that it returns is certified in both orders, and safe in any case.

    Parameters
    ----------
    model : GaussianOutput
        With `distribution(data)` and `sensitivity(noise_variance)`.
    epsilon, delta : float
        The budget.
    bound : str
        - ``"exact"``: the worst case over the envelope itself. None is known for a LoewnerEnvelope, which gets the
          better of the other two. `bound_used` says which.
        - ``"renyi"``: a closed form over the envelope; sound, fast, a little more noise.
        - ``"paper"``: mean and covariance apart, with the paper's covariance term corrected.

    Raises
    ------
    BudgetError
        If no noise variance meets the budget.

    Notes
    -----
    A model that is private without noise gets a noise variance of 2⁻²⁰⁰, which only sets the grid of the draw.

    Examples
    --------
    >>> import ndis
    >>> from ndis.worst_case.envelopes import RankOneEnvelope
    >>> class Mean:
    ...     '''The mean of at most 100 numbers in [0, 1], each 0 to begin with.'''
    ...     def distribution(self, data):
    ...         return [sum(data) / 100], [[0.0]]
    ...     def sensitivity(self, noise_variance):
    ...         return RankOneEnvelope(shift_bound=0.01 / noise_variance**0.5, ratio_bound=0.0)
    >>> mechanism = ndis.lift(Mean(), epsilon=1.0, delta=1e-5)
    >>> round(mechanism.noise_variance**0.5, 9), mechanism.bound_used
    (0.037306316, 'exact (branch and bound)')
    >>> mechanism.release([0.5] * 80).values.shape
    (1,)
    """
    epsilon, delta = budget(epsilon, delta)
    chosen = as_bound(bound)
    _check_model(model)
    noise_variance = smallest_safe(
        lambda v: worst_log_delta(_declared(model, v, chosen), epsilon, chosen),
        lambda v: certified_worst_delta(_declared(model, v, chosen), epsilon, chosen)[0],
        delta=delta,
        least=_NO_NOISE,
    )
    return LiftedMechanism(model, noise_variance=noise_variance, epsilon=epsilon, delta=delta, bound=chosen)


@dataclass(frozen=True, eq=False)
class LiftedMechanism(CertifiedMechanism):
    """A Gaussian-output algorithm with noise that makes it (ε, δ)-private. `lift` makes one.

    The constructor refuses noise that does not meet its ε and δ with a certificate over the declared envelope.

    Attributes
    ----------
    model : GaussianOutput
    noise_variance : float
        v, added to every coordinate.
    target_epsilon, target_delta : float
        The guarantee.
    bound : str
        Which bound was asked for.
    bound_used : str
        Which one decided.

    Examples
    --------
    >>> import numpy as np, ndis
    >>> from ndis.models import BohningLogistic
    >>> model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)
    >>> mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    >>> round(mechanism.noise_variance, 4), mechanism.target_epsilon, mechanism.bound
    (3.875, 1.0, 'exact')
    >>> mechanism.release((np.array([[1.5, 0.0]]), [1])).values.shape
    (2,)
    """

    model: GaussianOutput
    noise_variance: float = field(kw_only=True)
    bound: Bound = field(default="exact", kw_only=True)
    bound_used: str = field(init=False)

    def __post_init__(self, epsilon: float, delta: float) -> None:
        _check_model(self.model)
        settle(
            self,
            (epsilon, delta),
            "noise_variance",
            remedy="lift() finds one for a budget",
            certified=self._certified,
            noise_variance=as_within("noise_variance", self.noise_variance, 900),
            bound=as_bound(self.bound),
        )

    def _certified(self, epsilon: float) -> float:
        """Certify δ(ε) over the declared envelope, and keep the name of the bound that decided."""
        envelope = _declared(self.model, self.noise_variance, self.bound)
        reached, used = certified_worst_delta(envelope, epsilon, self.bound)
        object.__setattr__(self, "bound_used", used)
        return reached

    @property
    def adjacency(self) -> Adjacency:
        """Say which data sets are neighbours; the model knows."""
        return as_adjacency(getattr(self.model, "adjacency", "add-remove"))

    def profile(self) -> PrivacyProfile:
        """Return the guarantee at every ε: the worst case over the model's envelope.

        The bound that gave the noise plays no part.
        If the model knows its worst pairs, it is the profile of the pairs. Otherwise see `EnvelopeProfile`.
        """
        envelope = as_envelope(self.model.sensitivity(self.noise_variance))
        return envelope_profile(envelope, epsilon=self.target_epsilon, adjacency=self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """List the worst neighbours that the model knows, if it knows any."""
        known = getattr(self.model, "attained", None)
        return tuple(known(self.noise_variance)) if callable(known) else ()

    @payable
    def release(self, data: Any, *, random_state: Any = None) -> GaussianRelease:
        """Draw once from N(μ, Σ + vI) of `data`, exactly, on a grid that depends only on v.

        Parameters
        ----------
        data
            Whatever the model takes.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.

        Notes
        -----
        Only (Σ+Σᵀ)/2 is used. Σ + vI must be positive definite, and it is for every covariance. An error that says
        otherwise means that the model is broken, and it tells something about the data. If the model was changed after
        `lift` and no longer meets the budget, the release is refused before the data are touched. The time that a
        release takes may depend on the data, and is not protected.
        """
        bits = random_bits(random_state)
        self.check()
        announce(self)
        mean, covariance = self.model.distribution(data)
        centre, spread = exact_array(mean, name="mean"), exact_array(covariance, name="covariance")
        if centre.shape == () and spread.shape == (1, 1):
            centre = ExactArray(centre.numerators.reshape(1), centre.denominator)
        d = centre.shape[0] if len(centre.shape) == 1 else 0
        if not d or spread.shape != (d, d):
            rule = "return a mean of shape (d,) and a covariance of shape (d, d)"
            raise ParameterError("distribution", rule, f"shapes {centre.shape} and {spread.shape}")
        wider, grid = plus_diagonal(spread, self.noise_variance), grid_for(math.sqrt(self.noise_variance))
        sample = exact_gaussian(centre, wider, size=1, grid=grid, random_state=bits)
        own = {name: getattr(self, name) for name in ("noise_variance", "bound", "bound_used")}
        parameters = {"model": _parameters(self.model), **own, "grid": sample.grid}
        # only the two types decide: whether a list holds integers or floats may depend on the data (sum([]) is 0)
        arithmetic = ARITHMETICS[not (isinstance(mean, ExactArray) and isinstance(covariance, ExactArray))]
        name = f"lift({type(self.model).__name__})"
        guarantee = self.target_epsilon, self.target_delta, self.adjacency
        receipt = Receipt(name, parameters, *guarantee, private=sample.private, arithmetic=arithmetic)
        return GaussianRelease(sample.values[0], receipt)

    def check(self) -> None:
        """Check what the model declares now, because it may have been changed."""
        self.__post_init__(self.target_epsilon, self.target_delta)


def noisy_pair(mean_p: Any, cov_p: Any, mean_q: Any, cov_q: Any, noise_variance: float) -> GaussianPair:
    """Return N(μ, Σ + vI) on two data sets, as an ordered pair. The moments are exact, and each number is rounded once.

    >>> noisy_pair([0.5], [[1.0]], [0], [[3.0]], 1.0).variance_ratio
    array([0.5])
    """
    numbers = []
    for mean, cov in ((mean_p, cov_p), (mean_q, cov_q)):
        spread = plus_diagonal(exact_array(cov, name="covariance"), noise_variance)
        numbers += [np.atleast_1d(exact_array(mean, name="mean").to_float()), spread.to_float()]
    mu_p, sigma_p, mu_q, sigma_q = numbers
    if len(mu_p) == 1:
        return GaussianPair.from_diagonal(mu_p, sigma_p[0], mu_q, sigma_q[0])
    return GaussianPair.from_moments(mu_p, sigma_p, mu_q, sigma_q)


# ---------------------------------------------------------------------- the model


def _check_model(model: Any) -> None:
    for name in ("distribution", "sensitivity"):
        require(callable(getattr(model, name, None)), "model", f"have a method {name}", type(model).__name__)
    as_adjacency(getattr(model, "adjacency", "add-remove"))


def _declared(model: Any, noise_variance: float, bound: Bound) -> Envelope:
    """Return the envelope for the bound. For bound="paper" it is the paper's own, if the model has one."""
    paper = getattr(model, "sensitivity_paper", None)
    if bound != "paper" or not callable(paper):
        return as_envelope(model.sensitivity(noise_variance))
    envelope = paper(noise_variance)
    if not isinstance(envelope, LoewnerEnvelope):
        raise ParameterError("sensitivity_paper", "return a LoewnerEnvelope", type(envelope).__name__)
    return envelope


def _parameters(model: Any) -> dict[str, Any]:
    """List the public parameters of a model, for the receipt: the fields of a dataclass, otherwise only its name."""
    own = fields(model) if is_dataclass(model) else ()
    return {"name": type(model).__name__} | {one.name: _json_value(getattr(model, one.name)) for one in own}


def _json_value(value: Any) -> Any:
    """Write a public parameter in full, in the types of JSON, or as text if JSON has no type for it.

    >>> _json_value(np.array([[0.1], [float("inf")]]))
    [[0.1], ['inf']]
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> _json_value(2.0 * RBF(np.array([0.5, 1.0]), "fixed"))["parameters"]["k2"]
    {'kernel': 'RBF', 'parameters': {'length_scale': [0.5, 1.0], 'length_scale_bounds': 'fixed'}}
    """
    if isinstance(value, np.ndarray | np.generic):
        known = value.dtype.kind in "biUO" or value.dtype in (np.float16, np.float32, np.float64)
        return _json_value(value.tolist()) if known else repr(value)
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    kernels = sys.modules.get("sklearn.gaussian_process.kernels")
    if kernels is not None and isinstance(value, kernels.Kernel):
        given = value.get_params(deep=False)  # a kernel within it is written in its place
        return {"kernel": type(value).__name__, "parameters": {name: _json_value(each) for name, each in given.items()}}
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
