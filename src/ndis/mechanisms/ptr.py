"""Propose, test, release: a smaller ridge if the data allow it (alg:ptr-rp, accounted jointly; thm:ptr-joint).

Let λ_min be the least eigenvalue of the Gram matrix of the data. A record in these data has leverage at most
l²/(max(λ_min, l²) + ridge), because the record is in its own Gram matrix. Suppose a private lower bound λ_lb of λ_min
exceeds l². Then the ridge may be smaller by λ_lb − l² at the same leverage:

    λ̃ = λ_min + N(0, τ²),    λ_lb = λ̃ − τ·Φ⁻¹(1 − δ_ptr),    ridge = λ − max(λ_lb − l², 0),    λ = l²(1/p* − 1)

The output is the pair (λ̃, sketch). The ridge is a function of λ̃.

λ_lb exceeds λ_min with probability at most δ_ptr. Otherwise one pair of Gaussians dominates test and sketch together:
{t = h*, r copies} of the sketch, and a shift by l²/τ of the test. So δ_joint(ε) + δ_ptr ≤ δ in both orders is enough.
Neither ε nor δ is split.

*Both orders.* Let D be the data with the record and D' the data without it. The leverage argument needs
λ_lb ≤ λ_min(D). On D this fails with probability at most δ_ptr by definition. On D' too, because λ_min(D') ≤ λ_min(D).

*Replace-one.* Let D = D₀ + v be the data of the output, D' = D₀ + w, and λ_lb ≤ λ_min(D). With H₀ = D₀ᵀD₀ + ridge·I the
covariances are P = H₀ + vvᵀ and Q = H₀ + wwᵀ. First, vᵀP⁻¹v ≤ p*, that is vᵀH₀⁻¹v ≤ h*, so P ⪯ (1+h*)H₀ ⪯ (1+h*)Q.
Second, Q − P ⪯ wwᵀ ⪯ (wᵀP⁻¹w)·P. If λ_lb ≥ l², then wᵀP⁻¹w ≤ l²/(λ_min(D) + ridge) ≤ p*. Otherwise ridge = l²/h*, and
Q ⪯ (1+h*)H₀ directly. So all ratios lie between 1/(1+h*) and 1+h*, one on each side of 1, as without a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ndis._balls import outward, precision
from ndis._exact import down, up
from ndis._search import least_point, smallest_safe
from ndis._validate import as_scalar
from ndis.errors import BudgetError
from ndis.gram import Gram
from ndis.mechanisms.mechanism import Attained
from ndis.mechanisms.projection import RandomProjection, SketchMechanism
from ndis.mechanisms.releases import loadable
from ndis.mechanisms.sketch_law import ProjectionLaw, mean_shift
from ndis.noise import exact_normal, grid_for
from ndis.noise.bits import RandomBits
from ndis.noise.gaussian import positive_definite
from ndis.profile import PrivacyProfile

_STEPS = 1 << 12  # steps of the eigenvalue's grid in l²
_LEAST_RIDGE = Fraction(1, 1 << 10)  # in l²: keeps every covariance positive definite, whatever the test said


@loadable
@dataclass(frozen=True, kw_only=True)
class PTRProjection(SketchMechanism):
    """A random projection that lowers its ridge by a private lower bound of λ_min(DᵀD) (thm:ptr RP-mech-DP, corrected).

    It is worth its price if λ_min clearly exceeds `profitable_eigenvalue`. Otherwise the plain projection has the
    smaller ridge. Test and sketch are one pair, and neither ε nor δ is split (alg:ptr-rp, corrected; thm:ptr-joint).

    Parameters
    ----------
    ridge : float
        λ, the ridge if the test finds nothing; l²/p* is this plus l².
    test_noise_std : float
        τ, the standard deviation of the noise on λ_min.
    failure_probability : float
        δ_ptr, with which the lower bound may be wrong. Every δ of `profile` includes it.
    sketch_size, row_norm_bound, epsilon, delta, adjacency, target_bound, intercept, fractional_bits, calibration
        As in `RandomProjection`.

    Notes
    -----
    `calibrated` chooses τ and δ_ptr if they are not given. By default δ_ptr is δ/3; the bound depends on it only
    through Φ⁻¹, so its exact share hardly matters. By default τ is about the one with the least
    `profitable_eigenvalue`, from a search over public numbers: less noise costs budget and so ridge, more noise lowers
    the bound. A BudgetError says so if the test spends the whole budget.

    `release` gives out the outcome λ̃ of the test too: it is `noisy_eigenvalue` among the parameters of the receipt. The
    account covers the pair (λ̃, sketch). The `ridge` of the release is a function of λ̃ only.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.PTRProjection.calibrated(
    ...     epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0, test_noise_std=10.0
    ... )
    >>> round(mechanism.ridge + 1.0, 2), round(mechanism.profile().delta(1.0), 12)
    (40.72, 1e-06)
    """

    test_noise_std: float
    failure_probability: float
    outcomes: ClassVar[tuple[str, ...]] = ("noisy_eigenvalue",)

    def __post_init__(self, epsilon: float, delta: float) -> None:
        as_scalar("test_noise_std", self.test_noise_std)  # none stands for a law without a test
        super().__post_init__(epsilon, delta)

    @classmethod
    def _chosen(cls, public: dict[str, Any], own: dict[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
        """Choose the noise and the failure probability of the test; refused if the test spends the whole budget."""
        own = {"failure_probability": delta / 3} | {name: value for name, value in own.items() if value is not None}
        law = cls._law_of(delta, **{"test_noise_std": 1.0, **public, **own}, ridge=1.0)
        if "test_noise_std" not in own:
            law = replace(law, test_noise_std=_best_noise(law, epsilon, delta))
        alone = PrivacyProfile(mean_shift(law.test_shift), failure_probability=law.failure_probability)
        if not alone.certify(epsilon).upper < delta:
            raise BudgetError(
                f"the test alone spends the budget: at epsilon = {epsilon:g} its delta is {alone.delta(epsilon):.3g} "
                f"of {delta:.3g}; take a larger test_noise_std"
            )
        return {**own, "test_noise_std": law.test_noise_std}

    @property
    def profitable_eigenvalue(self) -> float:
        """Return the λ_min at which, half of the time, the ridge is as large as that of a plain projection; public.

        It is τ·Φ⁻¹(1−δ_ptr) + l² + λ − λ_plain. The printed proposition (prop:ptr-profitability) forgets that λ̃ is
        noisy.
        """
        public = {"sketch_size": self.sketch_size, "adjacency": self.adjacency, **self.law.layout}
        plain = RandomProjection.calibrated(epsilon=self.target_epsilon, delta=self.target_delta, **public)
        bound = float(self.law.squared_bound)
        return self.test_noise_std * _quantile(self.failure_probability) + bound + self.ridge - plain.ridge

    def attained(self) -> tuple[Attained, ...]:
        """List neighbours whose output is at least as easy to tell apart as these profiles say.

        The output is λ̃ and the sketch (the receipt has λ̃). The ridge in use is a function of λ̃ and never above λ.
        A reader of λ̃ can add the noise that is missing to λ. So the output tells no less than at ridge λ. Two kinds
        of neighbours move the test by all of l². In one column, a row at the bound joins no rows. In two columns, a
        row at the bound replaces the second of two equal rows. The sketch then moves by h in one direction and by
        l²/(λ + l²) in the other. The share δ_ptr of the guarantee need not be attained.
        """
        if self.intercept is not None or self.target_bound is not None:
            return super().attained()
        pair = self.law.one_record().compose(mean_shift(math.nextafter(self.law.test_shift, 0.0)))
        if self.adjacency == "add-remove":
            moved = Attained("no rows, and one row at the bound (one column)", PrivacyProfile(pair))
        else:
            beside = self.law.at(up(Fraction(self.ridge) + self.law.squared_bound)).one_record()
            words = "rows at the bound, along the axes 2 and 2, and along the axes 2 and 1 (two columns)"
            moved = Attained(words, PrivacyProfile(pair.compose(beside.reversed()), adjacency=self.adjacency))
        return (moved, *super().attained())

    def _test(self, gram: Gram, bits: RandomBits) -> dict[str, float]:
        """Draw λ̃ on its grid, rounded down to a float; this value is given out."""
        floor = least_eigenvalue_floor(gram, step=self.law.squared_bound / _STEPS)
        grid = grid_for(self.test_noise_std)
        noisy = exact_normal(floor, noise_std=self.test_noise_std, grid=grid, random_state=bits)
        return {"noisy_eigenvalue": down(int(noisy.integers) * Fraction(grid))}

    def ridge_in(self, outcomes: Mapping[str, Any]) -> float:
        """Compute max(λ − max(λ_lb − l², 0), least ridge), rounded up: a function of λ̃ and public numbers only."""
        noisy = as_scalar("noisy_eigenvalue", outcomes["noisy_eigenvalue"])
        squared, ridge = self.law.squared_bound, Fraction(self.ridge)
        half_step = Fraction(grid_for(self.test_noise_std)) / 2  # by which rounding to the grid may have lifted λ̃
        margin = Fraction(self.test_noise_std) * Fraction(_quantile(self.failure_probability))
        bound = Fraction(noisy) - half_step - margin
        return up(max(ridge - max(bound - squared, Fraction(0)), min(ridge, _LEAST_RIDGE * squared)))


def _best_noise(law: ProjectionLaw, epsilon: float, delta: float) -> float:
    """Search over log τ, in floats. Every τ is sound, and the mechanism certifies the one that is returned."""
    squared, quantile = float(law.squared_bound), _quantile(law.failure_probability)

    def cost(u: float) -> float:
        """Compute the least useful λ_min, up to a constant."""
        tested = replace(law, test_noise_std=math.exp(u))
        ridge = _trusting(lambda x: float(tested.at(x).profile().log_delta(epsilon)), delta, 10.0 * squared)
        return math.exp(u) * quantile + ridge

    left = delta - law.failure_probability
    least = _trusting(lambda noise: float(mean_shift(squared / noise).log_delta(epsilon)), left, squared)
    return math.exp(least_point(cost, math.log(1.05 * least), math.log(30.0 * least), width=0.02)[0])


def _trusting(log_delta: Callable[[float], float], delta: float, start: float) -> float:
    """Call `smallest_safe` without a certificate, for numbers that no guarantee rests on."""
    return smallest_safe(log_delta, lambda x: 0.0, delta=delta, start=start)


def _quantile(failure: float) -> float:
    """Compute Φ⁻¹(1 − δ_ptr) = √2·erfc⁻¹(2·δ_ptr), rounded up."""
    with precision(128):
        return outward(arb(2).sqrt() * (2 * arb(failure)).erfcinv()).upper


# ---------------------------------------------------------------------- the least eigenvalue, on a grid


def least_eigenvalue_floor(gram: Gram, *, step: Fraction) -> Fraction:
    """Return the largest grid point not above λ_min(DᵀD). **Private.**

    The grid points are c = k·g − o with k = 0, 1, …. The step g divides l², and the offset satisfies 0 < o < g. Take
    two numbers that are at most l² apart. Rounded down to the grid, they are still at most l² apart, because l² is a
    whole number of steps. So the rounded eigenvalue has the sensitivity of the eigenvalue, l². Adding one row of norm
    at most l increases the eigenvalue by at most l². Replacing a row leaves both values between λ and λ + l² of the
    common rows.

    The offset is a power of two over three. The entries of the Gram matrix are whole multiples of a power of two, and
    so are its rational eigenvalues. So no grid point is ever an eigenvalue. A Cholesky factorisation in ball arithmetic
    of enough precision therefore decides whether DᵀD − cI is positive definite. Floats only propose where to look.

    Parameters
    ----------
    gram : Gram
    step : Fraction
        g, public; l² is a whole multiple of it.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.gram import exact_gram
    >>> gram = exact_gram(np.diag([1.0, 0.5]), row_norm_bound=1.0)
    >>> float(least_eigenvalue_floor(gram, step=Fraction(1, 1024))) <= 0.25
    True
    """
    offset = Fraction(math.ldexp(0.5, math.frexp(down(step))[1])) / 3  # the largest power of two not above, over 3
    exact = gram.exact(ridge=0)

    def below(k: int) -> bool:
        point = k * step - offset
        numerators = exact.numerators * point.denominator
        numerators[np.diag_indices(len(numerators))] -= point.numerator * exact.denominator
        return positive_definite(numerators)

    low = max(int((_guess(gram) + offset) // step), 0)
    high, stride = low + 1, 1
    while low and not below(low):  # no Gram matrix has an eigenvalue below −o, so 0 needs no test
        low, high, stride = max(low - stride, 0), low, 2 * stride
    while below(high):
        low, high, stride = high, high + stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low * step - offset


def _guess(gram: Gram) -> Fraction:
    try:
        return Fraction(float(np.linalg.eigvalsh(gram.to_float())[0]))
    except np.linalg.LinAlgError:
        return Fraction(0)
