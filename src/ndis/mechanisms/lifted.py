"""Make any Gaussian-output algorithm private with the least isotropic noise (alg::ndis wrapper, corrected).

A Gaussian-output algorithm (def:gaussian-output-alg) maps data to a mean μ and a covariance Σ. It is released as a draw
from N(μ, Σ + vI), the additive-noise family of def:additive-noise-family with N = vI. By prop:mr-reduction δ depends on
neighbours only through the whitened shift and ratios, and the model bounds those by an envelope at each v.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_scalar
from ndis.calibrate import budget, smallest_safe
from ndis.errors import ParameterError
from ndis.exact import ExactArray, exact_array
from ndis.files import write_file
from ndis.ledger.charging import charged
from ndis.mechanisms.base import ARITHMETICS, Adjacency, Attained, Receipt, as_adjacency
from ndis.mechanisms.envelopes import Envelope, LoewnerEnvelope, as_envelope
from ndis.mechanisms.worst_case import Bound, as_bound, certified_worst_delta, worst_log_delta
from ndis.mechanisms.worst_case_profile import envelope_profile
from ndis.profile import PrivacyProfile

__all__ = ["GaussianOutput", "LiftedMechanism", "LiftedRelease", "lift"]


@runtime_checkable
class GaussianOutput(Protocol):
    """What `lift` asks of a model. Everything about the model but its `distribution` of the data is public.

    Optional members: `adjacency` ("add-remove" unless given); `sensitivity_paper(noise_variance)`, a LoewnerEnvelope
    for bound="paper"; `attained(noise_variance)`, a tuple of `Attained`, the worst neighbours known.
    """

    def distribution(self, data: Any) -> tuple[Any, Any]:
        """Mean (d,) and covariance (d, d), private: integers, fractions or floats, taken as exact, or ExactArrays.

        The receipt calls the law exact where both are ExactArrays (`ndis.exact.exact_array` makes one), and else says
        that it was computed in floats. So return one type whatever the data: the receipt tells which. In one dimension
        the mean may be a number. It must return for every data set of the right shape; what it raises must not depend
        on private values.
        """

    def sensitivity(self, noise_variance: float) -> Envelope:
        """What neighbours can do at this noise variance, as bounds rounded up. Public."""


def lift(model: GaussianOutput, *, epsilon: float, delta: float, bound: Bound = "exact") -> LiftedMechanism:
    """The mechanism that releases `model` with the smallest noise variance for the budget.

    The worst δ over neighbours falls as the noise grows, because more noise is post-processing. The search relies on it
    only to come out small: the noise variance it returns was certified, in both orders, and is safe in any case.

    Parameters
    ----------
    model : GaussianOutput
        With `distribution(data)` and `sensitivity(noise_variance)`.
    epsilon, delta : float
        The budget.
    bound : str
        - ``"exact"``: the worst case over the envelope itself; for a LoewnerEnvelope, where none is known, the best of
          the other two. `bound_used` says which.
        - ``"renyi"``: closed form over the envelope; sound, fast, a little more noise.
        - ``"paper"``: mean and covariance apart, with the paper's covariance term corrected.

    Raises
    ------
    BudgetError
        If no noise variance meets the budget, or every one does: a model that is private without noise needs no search,
        and `LiftedMechanism` takes any `noise_variance`.

    Examples
    --------
    >>> import ndis
    >>> from ndis.mechanisms.envelopes import RankOneEnvelope
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
    )
    return LiftedMechanism(model, noise_variance=noise_variance, epsilon=epsilon, delta=delta, bound=chosen)


@dataclass(frozen=True, eq=False)
class LiftedMechanism:
    """A Gaussian-output algorithm with noise that makes it (ε, δ)-private. Made by `lift`.

    A mechanism whose noise does not meet its ε and δ, certified over the declared envelope, cannot be made.

    Attributes
    ----------
    model : GaussianOutput
    noise_variance : float
        v, added to every coordinate.
    epsilon, delta : float
        The guarantee.
    bound : str
        Which bound was asked for.
    bound_used : str
        Which one decided.
    """

    model: GaussianOutput
    noise_variance: float = field(kw_only=True)
    epsilon: float = field(kw_only=True)
    delta: float = field(kw_only=True)
    bound: Bound = field(default="exact", kw_only=True)
    bound_used: str = field(init=False)

    def __post_init__(self) -> None:
        epsilon, delta = budget(self.epsilon, self.delta)
        noise = as_scalar("noise_variance", self.noise_variance)
        if not 2.0**-900 <= noise <= 2.0**900:
            raise ParameterError("noise_variance", "be positive and between 2^-900 and 2^900", noise)
        _check_model(self.model)
        bound = as_bound(self.bound)
        used = _within_budget(self.model, noise, epsilon, delta, bound)
        values = {"noise_variance": noise, "epsilon": epsilon, "delta": delta, "bound_used": used}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours, as the model says."""
        return as_adjacency(getattr(self.model, "adjacency", "add-remove"))

    def profile(self) -> PrivacyProfile:
        """The guarantee at every ε: the worst case over the model's envelope, whichever bound the noise came from.

        Where the model knows its worst pairs the profile is that of the pairs; else see `EnvelopeProfile`.
        """
        envelope = as_envelope(self.model.sensitivity(self.noise_variance))
        return envelope_profile(envelope, epsilon=self.epsilon, adjacency=self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """The worst neighbours the model knows of; none where it says nothing."""
        known = getattr(self.model, "attained", None)
        return tuple(known(self.noise_variance)) if callable(known) else ()

    def release(
        self,
        data: Any,
        *,
        random_state: Any = None,
        ledger: str | os.PathLike[str] | None = None,
        slot: str | None = None,
    ) -> LiftedRelease:
        """One draw from N(μ, Σ + vI) of `data`, exactly, on a grid that depends on v alone.

        Parameters
        ----------
        data
            Whatever the model takes.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.
        ledger : path, optional
            The `ndis.Ledger` that pays. It reserves before data is read; a BudgetError says what is left.
        slot : str, optional
            The slot of a plan. For the other kinds a label, or None.

        Notes
        -----
        Of a covariance that is not quite symmetric the symmetric part counts. Σ + vI must be positive definite, which
        it is for every covariance of a model; an error that says otherwise means that the model is broken, and tells
        of the data. A model that was changed after `lift` and no longer meets the budget is refused before the data are
        touched. How long a release takes may depend on the data, and is not protected.
        """
        from ndis.sampling import exact_gaussian, grid_for
        from ndis.sampling.bits import random_bits

        bits = random_bits(random_state)
        # what the model declares now: it may have been changed since
        _within_budget(self.model, self.noise_variance, self.epsilon, self.delta, self.bound)
        with charged(self, ledger=ledger, slot=slot, private=bits.private) as charge:
            mean, covariance = self.model.distribution(data)
            centre, spread = exact_array(mean, name="mean"), exact_array(covariance, name="covariance")
            if centre.shape == () and spread.shape == (1, 1):
                centre = ExactArray(centre.numerators.reshape(1), centre.denominator)
            d = centre.shape[0] if len(centre.shape) == 1 else 0
            if not d or spread.shape != (d, d):
                rule = "return a mean of shape (d,) and a covariance of shape (d, d)"
                raise ParameterError("distribution", rule, f"shapes {centre.shape} and {spread.shape}")
            sample = exact_gaussian(
                centre,
                _plus_noise(spread, self.noise_variance),
                size=1,
                grid=grid_for(math.sqrt(self.noise_variance)),
                random_state=bits,
            )
            parameters = {
                "model": _parameters(self.model),
                "noise_variance": self.noise_variance,
                "bound": self.bound,
                "bound_used": self.bound_used,
                "grid": sample.grid,
            }
            # by the two types alone: whether a list holds integers or floats may depend on the data (sum([]) is 0)
            arithmetic = ARITHMETICS[not (isinstance(mean, ExactArray) and isinstance(covariance, ExactArray))]
            receipt = Receipt(
                f"lift({type(self.model).__name__})",
                parameters,
                self.epsilon,
                self.delta,
                self.adjacency,
                private=sample.private,
                arithmetic=arithmetic,
                ledger=charge.seal(),
            )
            return LiftedRelease(sample.values[0], receipt)


@dataclass(frozen=True, eq=False)
class LiftedRelease:
    """One private draw, and its receipt.

    Attributes
    ----------
    values : array
        The draw, rounded to the grid of the receipt. Read-only.
    receipt : Receipt
    """

    values: NDArray[np.float64]
    receipt: Receipt

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "receipt", self.receipt.bound_to(values=values))

    @property
    def private(self) -> bool:
        """False where a seed made the draw reproducible."""
        return self.receipt.private

    @property
    def noise_variance(self) -> float:
        """Variance added to every coordinate; the factor of the covariance where the noise has a public one."""
        return float(self.receipt.parameters["noise_variance"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write values and receipt as one JSON file: all of it under its name, or nothing."""
        content = {"values": self.values.tolist(), "receipt": self.receipt.to_dict()}
        write_file(path, json.dumps(content, allow_nan=False, indent=2).encode() + b"\n", name="path")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LiftedRelease:
        """The release that `save` wrote; the digest of its receipt must be that of receipt and values.

        >>> import tempfile
        >>> receipt = Receipt("lift(Mean)", {"noise_variance": 1.0}, 1.0, 1e-5, "add-remove", private=True)
        >>> release = LiftedRelease([0.5], receipt)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     LiftedRelease.load(f"{folder}/release.json").receipt == release.receipt
        True
        """
        from ndis._json import loads, only_keys

        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError as error:
            raise ParameterError("path", "be a file that can be read", f"{str(path)!r}: {error.strerror}") from error
        found = only_keys("release", loads("release", text), ("values", "receipt"))
        return cls(found["values"], Receipt.from_saved(json.dumps(found["receipt"])))


# ---------------------------------------------------------------------- the model


def _check_model(model: Any) -> None:
    for name in ("distribution", "sensitivity"):
        if not callable(getattr(model, name, None)):
            raise ParameterError("model", f"have a method {name}", type(model).__name__)
    as_adjacency(getattr(model, "adjacency", "add-remove"))


def _declared(model: Any, noise_variance: float, bound: Bound) -> Envelope:
    """The envelope the bound is taken over: the paper's own where the model has one and it is asked for."""
    paper = getattr(model, "sensitivity_paper", None)
    if bound != "paper" or not callable(paper):
        return as_envelope(model.sensitivity(noise_variance))
    found = paper(noise_variance)
    if not isinstance(found, LoewnerEnvelope):
        raise ParameterError("sensitivity_paper", "return a LoewnerEnvelope", type(found).__name__)
    return found


def _within_budget(model: Any, noise_variance: float, epsilon: float, delta: float, bound: Bound) -> str:
    """What certified δ(ε) ≤ δ over the envelope that the model declares, in words; refused where nothing does."""
    reached, used = certified_worst_delta(_declared(model, noise_variance, bound), epsilon, bound)
    if not reached <= delta:
        raise ParameterError(
            "noise_variance",
            f"keep delta at epsilon = {epsilon:g} within {delta:g}",
            f"{noise_variance!r}, with delta up to {reached:.6g}",
            "lift() finds one for a budget",
        )
    return used


def _plus_noise(covariance: ExactArray, noise_variance: float) -> ExactArray:
    """½(Σ + Σᵀ) + vI, without rounding."""
    up, down = noise_variance.as_integer_ratio()
    N, n = covariance.numerators, covariance.denominator
    noise = np.zeros(N.shape, dtype=object)
    np.fill_diagonal(noise, 2 * n * up)
    return ExactArray(np.asarray((N + N.T) * down + noise, dtype=object), 2 * n * down)


def _parameters(model: Any) -> dict[str, Any]:
    """The public parameters of a model, for the receipt: the fields of a dataclass, else its name alone."""
    found: dict[str, Any] = {"name": type(model).__name__}
    if is_dataclass(model):
        found |= {one.name: _plain(getattr(model, one.name)) for one in fields(model)}
    return found


def _plain(value: Any) -> Any:
    """A public parameter in full, in the types of JSON; as text where there is none for it.

    >>> _plain(np.array([[0.1], [float("inf")]]))
    [[0.1], ['inf']]
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> _plain(2.0 * RBF(np.array([0.5, 1.0]), "fixed"))["parameters"]["k2"]
    {'kernel': 'RBF', 'parameters': {'length_scale': [0.5, 1.0], 'length_scale_bounds': 'fixed'}}
    """
    if isinstance(value, np.ndarray | np.generic):
        known = value.dtype.kind in "biUO" or value.dtype in (np.float16, np.float32, np.float64)
        return _plain(value.tolist()) if known else repr(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    kernels = sys.modules.get("sklearn.gaussian_process.kernels")
    if kernels is not None and isinstance(value, kernels.Kernel):
        given = value.get_params(deep=False)  # a kernel within it is written in its place
        return {"kernel": type(value).__name__, "parameters": {name: _plain(each) for name, each in given.items()}}
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
