"""Add the least Gaussian noise to a query of bounded sensitivity, exactly calibrated.

It is the simplest lift: its covariance does not depend on the data. The worst pair is the mean shift
μ = sensitivity/noise_std (thm:mean-shift), with δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)
(prop:ndis-mean-analytic-form). This is exact for every query that attains its sensitivity: Balle and Wang's analytic
Gaussian mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ndis._exact import ExactArray, exact_array
from ndis._search import budget, first_safe_epsilon, smallest_safe
from ndis._validate import Adjacency, as_adjacency, as_within
from ndis.mechanisms.mechanism import Attained, CertifiedMechanism, announce, payable, receipt_of, settle
from ndis.mechanisms.releases import GaussianRelease
from ndis.noise import exact_normal
from ndis.noise.bits import random_bits
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

_BITS = 200  # noise and sensitivity lie between 2^-200 and 2^200
_LARGEST = 2.0**1000  # the largest entry: with its noise it is still a float


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(CertifiedMechanism):
    """Add N(0, noise_std²) to every entry of a query.

    Make one with `calibrated`, which finds the least noise for a budget. Or use `with_noise`, which finds the budget of
    a noise level. The constructor refuses noise that does not meet its ε and δ with a certificate.
    For noise with a public covariance LLᵀ, release L⁻¹q and multiply the answer by L.

    Parameters
    ----------
    noise_std : float
        Standard deviation of the noise.
    sensitivity : float
        Public bound on ‖q(D) − q(D')‖₂ over neighbours.
    epsilon, delta : float
        The guarantee.
    adjacency : str
        Which data sets are neighbours. The sensitivity must be taken over these.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    >>> round(mechanism.noise_std, 9)
    3.730631635
    >>> mechanism.release([3.0, 4.0]).values.shape
    (2,)
    """

    noise_std: float
    sensitivity: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self, epsilon: float, delta: float) -> None:
        settle(
            self,
            (epsilon, delta),
            "noise_std",
            remedy="calibrated() finds one for a budget, with_noise() the budget of a noise level",
            sensitivity=as_within("sensitivity", self.sensitivity, _BITS),
            noise_std=as_within("noise_std", self.noise_std, _BITS),
            adjacency=as_adjacency(self.adjacency),
        )

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, sensitivity: float, adjacency: Adjacency = "add-remove"
    ) -> Self:
        """Find the least noise for a budget, to about twelve digits."""
        epsilon, delta = budget(epsilon, delta)
        bound = as_within("sensitivity", sensitivity, _BITS)
        ratio = smallest_safe(
            lambda x: float(_pair(1.0, x).log_delta(epsilon)),
            lambda x: _pair(bound, bound * x).certify(epsilon).upper,
            delta=delta,
        )
        return cls(noise_std=bound * ratio, sensitivity=bound, epsilon=epsilon, delta=delta, adjacency=adjacency)

    @classmethod
    def with_noise(
        cls, *, noise_std: float, delta: float, sensitivity: float, adjacency: Adjacency = "add-remove"
    ) -> Self:
        """Make the mechanism with this noise. Its `target_epsilon` is what the certified profile gives at `delta`.

        >>> import ndis
        >>> mechanism = ndis.GaussianMechanism.with_noise(noise_std=20.0, delta=1e-6, sensitivity=1.0)
        >>> round(mechanism.target_epsilon, 6)
        0.189213
        """
        bound, noise = as_within("sensitivity", sensitivity, _BITS), as_within("noise_std", noise_std, _BITS)
        profile, (_, delta) = PrivacyProfile(_pair(bound, noise)), budget(0.0, delta)
        epsilon = first_safe_epsilon(profile.certified_epsilon(delta), lambda e: profile.certify(e).upper, delta)
        return cls(noise_std=noise, sensitivity=bound, epsilon=epsilon, delta=delta, adjacency=adjacency)

    def profile(self) -> PrivacyProfile:
        """Return the guarantee at every ε, exactly."""
        return PrivacyProfile(_pair(self.sensitivity, self.noise_std), adjacency=self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """Name two data sets whose answers are as far apart as the sensitivity allows, if the query has any."""
        return (Attained("answers that differ by the whole sensitivity", self.profile()),)

    @payable
    def release(self, value: Any, *, random_state: Any = None) -> GaussianRelease:
        """Release the answer plus noise, drawn exactly and rounded to a grid that depends only on the noise.

        Parameters
        ----------
        value : number or array
            The query's answer, private: integers, fractions or floats, taken as exact, or an `ExactArray`. An
            entry that is not a finite number, or beyond ±2^1000, counts as 0. The sensitivity must hold with this
            rule.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.
        """
        bits, answer = random_bits(random_state), _finite(value)
        announce(self)
        sample = exact_normal(answer, noise_std=self.noise_std, random_state=bits)
        released = {"noise_variance": self.noise_std**2, "grid": sample.grid}
        return GaussianRelease(sample.values, receipt_of(self, private=sample.private, released=released))


def shift_profile(shift: float, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
    """Return the profile of a mean shift, in standard deviations, between neighbours of this kind."""
    return PrivacyProfile(GaussianPair.from_ratios(1.0, shift=shift), adjacency=adjacency)


def _pair(sensitivity: float, noise_std: float) -> GaussianPair:
    """Return the worst pair: a shift of sensitivity/noise_std standard deviations, rounded up."""
    return GaussianPair.from_ratios(1.0, shift=math.nextafter(sensitivity / noise_std, math.inf))


def _finite(value: Any) -> ExactArray:
    """The answer, with 0 for each entry that is not a finite number. An error would reveal such an entry."""
    if isinstance(value, ExactArray):
        value = value.to_fractions()
    array = value if isinstance(value, np.ndarray | np.generic) else np.array(value, dtype=object)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        floats = np.asarray(array, dtype=np.float64)
        return exact_array(np.where(np.abs(floats) <= _LARGEST, floats, 0.0), name="value")
    if array.dtype.kind != "O":
        return exact_array(array, name="value")
    entries = np.empty(array.size, dtype=object)
    entries[:] = [_entry(x) for x in np.asarray(array).ravel()]
    return exact_array(entries.reshape(array.shape))


def _entry(x: Any) -> Fraction:
    """An entry, exactly; 0 if it is not a finite number within ±2^1000.

    >>> [str(_entry(x)) for x in (3, 0.5, float("nan"), 10**400, None, "a", Decimal("0.1"))]
    ['3', '1/2', '0', '0', '0', '0', '1/10']
    """
    exact = Fraction(0)
    if isinstance(x, int | np.integer | np.bool_ | Fraction):
        exact = x if isinstance(x, Fraction) else Fraction(int(x))
    elif isinstance(x, float | np.floating):
        exact = Fraction(*x.as_integer_ratio()) if np.isfinite(x) else exact
    elif isinstance(x, Decimal):  # an extreme exponent would fill the memory
        exact = Fraction(x) if x.is_finite() and abs(x.adjusted()) <= 400 else exact
    return exact if abs(exact) <= _LARGEST else Fraction(0)


@lru_cache(maxsize=64)
def unit_noise(epsilon: float, delta: float) -> float:
    """Return 1/μ, the noise that a sensitivity of 1 needs.

    >>> round(unit_noise(1.0, 1e-6), 6)
    4.224679
    """
    return GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0).noise_std
