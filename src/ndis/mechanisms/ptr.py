"""Propose, test, release: a smaller ridge where the data allow it (alg:ptr-rp, accounted jointly; theory §7).

A record in a data set whose Gram matrix has least eigenvalue λ_min has leverage at most l²/(max(λ_min, l²) + ridge): it
is in its own Gram matrix, hence the l². So where a private lower bound λ_lb of λ_min exceeds l², the ridge may be
smaller by λ_lb − l² at the same leverage:

    λ̃ = λ_min + N(0, τ²),    λ_lb = λ̃ − τ·Φ⁻¹(1 − δ_ptr),    ridge = λ − max(λ_lb − l², 0),    λ = l²(1/p* − 1)

What is given out is the pair (λ̃, sketch); the ridge is a function of λ̃.

λ_lb exceeds λ_min with probability at most δ_ptr. Otherwise test and sketch together are dominated by one pair of
Gaussians: {t = h*, r copies} of the sketch and a shift by l²/τ of the test. So δ_joint(ε) + δ_ptr ≤ δ in both orders is
all that is asked: neither ε nor δ is split.

*Both orders.* Let D be the data with and D' those without the record. The leverage argument needs λ_lb ≤ λ_min(D). On
D that fails with probability at most δ_ptr by definition, and on D' too, for λ_min(D') ≤ λ_min(D).

*Replace-one.* Let D = D₀ + v be the data of the output, D' = D₀ + w, and λ_lb ≤ λ_min(D). With H₀ = D₀ᵀD₀ + ridge·I the
covariances are P = H₀ + vvᵀ and Q = H₀ + wwᵀ. First, vᵀP⁻¹v ≤ p*, that is vᵀH₀⁻¹v ≤ h*, so P ⪯ (1+h*)H₀ ⪯ (1+h*)Q.
Second, Q − P ⪯ wwᵀ ⪯ (wᵀP⁻¹w)·P, and wᵀP⁻¹w ≤ l²/(λ_min(D) + ridge) ≤ p* where λ_lb ≥ l²; below that ridge = l²/h*, and
Q ⪯ (1+h*)H₀ outright. So all ratios lie between 1/(1+h*) and 1+h*, one on each side of 1, as without a test.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from ndis._validate import as_probability, as_scalar
from ndis.calibrate import budget, smallest_safe
from ndis.errors import BudgetError, ParameterError, PrecisionError
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS
from ndis.ledger.charging import charged
from ndis.mechanisms.base import Adjacency, Attained
from ndis.mechanisms.projection import RandomProjection
from ndis.mechanisms.projection_family import SketchFamily, round_up
from ndis.mechanisms.release import ProjectionRelease, draw_release
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["PTRProjection"]

_STEPS = 1 << 12  # of the eigenvalue's grid in l²
_LEAST_RIDGE = Fraction(1, 1 << 10)  # in l²: keeps every covariance positive definite, whatever the test said
_LEAST_NOISE, _MOST_NOISE = 2.0**-400, 2.0**400
_TRIALS = 10  # of the search for the test's noise


@dataclass(frozen=True, kw_only=True)
class PTRProjection(RandomProjection):
    """A random projection that lowers its ridge by a private lower bound of λ_min(DᵀD) (thm:ptr RP-mech-DP, corrected).

    It is worth its price where λ_min clearly exceeds `profitable_eigenvalue`; elsewhere the plain projection has the
    smaller ridge.

    Parameters
    ----------
    ridge : float
        λ, the ridge where the test finds nothing; l²/p* is this plus l².
    test_noise_std : float
        τ, the standard deviation of the noise on λ_min.
    failure_probability : float
        δ_ptr, with which the lower bound may be wrong. Every δ of `profile` includes it.

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

    def _check(self) -> None:
        super()._check()
        object.__setattr__(self, "test_noise_std", _as_noise(self.test_noise_std))
        object.__setattr__(self, "failure_probability", _as_failure(self.failure_probability, self.delta))

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float,
        sketch_size: int,
        row_norm_bound: float,
        adjacency: Adjacency = "add-remove",
        target_bound: float | None = None,
        intercept: float | None = None,
        fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
        calibration: str = "exact",
        test_noise_std: float | None = None,
        failure_probability: float | None = None,
    ) -> Self:
        """The mechanism with the smallest ridge for a budget, as `RandomProjection.calibrated`.

        Parameters
        ----------
        test_noise_std : float, optional
            τ; by default the one with the least `profitable_eigenvalue`, found by a search over public numbers. Less
            noise costs budget and so ridge, more noise lowers the bound.
        failure_probability : float, optional
            δ_ptr; δ/3 by default. The bound depends on it through Φ⁻¹ alone, so its exact share hardly matters.
        calibration : str
            ``"paper"`` splits ε between test and sketch, and δ − δ_ptr in halves, with ridge l²/p*.

        Raises
        ------
        BudgetError
            If the test alone spends the budget.
        """
        epsilon, delta = budget(epsilon, delta)
        share = delta / 3 if failure_probability is None else failure_probability
        public: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "sketch_size": sketch_size,
            "row_norm_bound": row_norm_bound,
            "adjacency": adjacency,
            "target_bound": target_bound,
            "intercept": intercept,
            "fractional_bits": fractional_bits,
            "failure_probability": share,
        }
        if test_noise_std is None:
            test_noise_std = cls._best_noise(public)
            if not _LEAST_NOISE <= test_noise_std <= _MOST_NOISE:
                rule = "leave the noise of the test, about its square, between 2^-400 and 2^400"
                raise ParameterError("row_norm_bound", rule, row_norm_bound, "measure rows in another unit")
        public["test_noise_std"] = test_noise_std
        family = cls._draft(ridge=1.0, **public)._family()
        alone = PrivacyProfile(_shift(family.test_shift), failure_probability=family.failure_probability)
        try:
            spent = alone.certify(epsilon).upper
        except PrecisionError:
            rule = "be comparable with the square of the norm bound, so that the test's delta can be certified"
            raise ParameterError("test_noise_std", rule, test_noise_std) from None
        if not spent < delta:
            raise BudgetError(
                f"the test alone spends the budget: at epsilon = {epsilon:g} its delta is {alone.delta(epsilon):.3g} "
                f"of {delta:.3g}; take a larger test_noise_std"
            )
        return cls._calibrate(calibration, **public)

    @property
    def profitable_eigenvalue(self) -> float:
        """The λ_min at which, half of the time, the ridge is as large as that of a plain projection; public.

        τ·Φ⁻¹(1−δ_ptr) + l² + λ − λ_plain: the printed proposition (prop:ptr-profitability) forgets that λ̃ is noisy.
        """
        plain = RandomProjection.calibrated(
            epsilon=self.epsilon,
            delta=self.delta,
            sketch_size=self.sketch_size,
            row_norm_bound=self.row_norm_bound,
            adjacency=self.adjacency,
            target_bound=self.target_bound,
            intercept=self.intercept,
        )
        bound = float(self._family().squared_bound)
        return self.test_noise_std * _quantile(self.failure_probability) + bound + self.ridge - plain.ridge

    def attained(self) -> tuple[Attained, ...]:
        """Neighbours whose output is at least as easy to tell apart as these profiles say.

        The output is λ̃ and the sketch (the receipt has λ̃). The ridge in use is a function of λ̃ and never above λ, and
        who knows λ̃ can add the noise that is missing to λ, so the output tells no less than at ridge λ. A row at the
        bound moves the test by all of l² when it joins none in a single column, or when it takes the place of the
        second of two equal rows; then the sketch moves by h in one direction and by l²/(λ + l²) in the other. The
        share δ_ptr of the guarantee is not claimed to be attained.
        """
        if self.intercept is not None or self.target_bound is not None:
            return super().attained()
        family = self._family()
        pair = family.one_record(self.ridge).compose(_shift(math.nextafter(family.test_shift, 0.0)))
        if self.adjacency == "add-remove":
            moved = Attained("no rows, and one row at the bound (one column)", PrivacyProfile(pair))
        else:
            beside = family.one_record(round_up(Fraction(self.ridge) + family.squared_bound))
            words = "rows at the bound, along the axes 2 and 2, and along the axes 2 and 1 (two columns)"
            moved = Attained(words, PrivacyProfile(pair.compose(beside.reversed()), adjacency=self.adjacency))
        return (moved, *super().attained())

    def release(
        self,
        data: Any,
        *,
        columns: Any = None,
        targets: Any = None,
        device: str | None = None,
        progress: bool | None = None,
        random_state: Any = None,
        ledger: str | os.PathLike[str] | None = None,
        slot: str | None = None,
    ) -> ProjectionRelease:
        """Test, then draw the sketch with the ridge the test allows; as `RandomProjection.release`.

        The test's outcome λ̃ is given out too: it is `noisy_eigenvalue` among the parameters of the receipt. What is
        accounted for is the pair (λ̃, sketch), and the `ridge` of the release is a function of λ̃ alone.
        """
        from ndis.sampling.bits import random_bits

        bits = random_bits(random_state)
        with charged(self, ledger=ledger, slot=slot, private=bits.private) as charge:
            gram = self._gram(data, bits, columns=columns, targets=targets, device=device, progress=progress)
            noisy = self._test(gram, bits)
            ridge, released = self._ridge_after(noisy), {"noisy_eigenvalue": noisy}
            return draw_release(self, gram, ridge=ridge, bits=bits, released=released, seal=charge.seal())

    def _test(self, gram: Any, bits: Any) -> float:
        """λ̃ as it is given out: drawn on its grid, then rounded down to a float."""
        from ndis.mechanisms.projection_eigenvalue import least_eigenvalue_floor
        from ndis.sampling import exact_normal, grid_for

        floor = least_eigenvalue_floor(gram, step=self._family().squared_bound / _STEPS)
        grid = grid_for(self.test_noise_std)
        noisy = exact_normal(floor, noise_std=self.test_noise_std, grid=grid, random_state=bits)
        return -round_up(-int(noisy.integers) * Fraction(grid))

    def _ridge_after(self, noisy_eigenvalue: float) -> float:
        """max(λ − max(λ_lb − l², 0), least ridge), rounded up: a function of λ̃ and public numbers alone."""
        from ndis.sampling import grid_for

        squared, ridge = self._family().squared_bound, Fraction(self.ridge)
        half_step = Fraction(grid_for(self.test_noise_std)) / 2  # by which rounding to the grid may have lifted λ̃
        margin = Fraction(self.test_noise_std) * Fraction(_quantile(self.failure_probability))
        bound = Fraction(noisy_eigenvalue) - half_step - margin
        return round_up(max(ridge - max(bound - squared, Fraction(0)), min(ridge, _LEAST_RIDGE * squared)))

    def _ridge_in(self, released: Mapping[str, Any]) -> float:
        from ndis._json import only_keys

        name = "noisy_eigenvalue"
        found = only_keys("parameters of the receipt", released, ("released_ridge", name))[name]
        return self._ridge_after(as_scalar(name, found))

    def _family(self) -> SketchFamily:
        bounds = tuple(group.bound for group in self._layout().groups)
        family = SketchFamily(bounds, self.sketch_size, self.adjacency, failure_probability=self.failure_probability)
        return replace(family, test_shift=round_up(family.squared_bound / Fraction(self.test_noise_std)))

    @classmethod
    def _best_noise(cls, public: dict[str, Any]) -> float:
        """A golden-section search over log τ, in floats: any τ is sound, and the one returned is certified later."""
        draft = cls._draft(**public, ridge=1.0, test_noise_std=1.0)
        epsilon, rest = draft.epsilon, draft.delta - draft.failure_probability
        quantile = _quantile(draft.failure_probability)
        squared = float(draft._family().squared_bound)

        def cost(u: float) -> float:
            """What λ_min must exceed, up to a constant."""
            family = replace(draft._family(), test_shift=squared / math.exp(u), failure_probability=0.0)
            ridge = _trusting(lambda x: float(family.profile(x).log_delta(epsilon)), rest, 10.0 * squared)
            return math.exp(u) * quantile + ridge

        least = _trusting(lambda noise: float(_shift(squared / noise).log_delta(epsilon)), rest, squared)
        low, high = math.log(1.05 * least), math.log(30.0 * least)
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = cost(left), cost(right)
        for _ in range(_TRIALS):
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - _GOLDEN * (high - low)
                at_left = cost(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + _GOLDEN * (high - low)
                at_right = cost(right)
        return math.exp(left if at_left <= at_right else right)


_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def _trusting(log_delta: Any, delta: float, start: float) -> float:
    """`smallest_safe` without a certificate, for numbers that no guarantee rests on."""
    return smallest_safe(log_delta, lambda x: 0.0, delta=delta, start=start)


def _shift(standard_deviations: float) -> GaussianPair:
    return GaussianPair.from_ratios(1.0, shift=standard_deviations)


def _quantile(failure: float) -> float:
    """Φ⁻¹(1 − δ_ptr) = √2·erfc⁻¹(2·δ_ptr), rounded up."""
    from flint import arb

    from ndis.spectrum.balls import outward, precision

    with precision(128):
        return outward(arb(2).sqrt() * (2 * arb(failure)).erfcinv()).upper


def _as_noise(value: Any) -> float:
    noise = as_scalar("test_noise_std", value)
    if not _LEAST_NOISE <= noise <= _MOST_NOISE:
        raise ParameterError("test_noise_std", "be positive and between 2^-400 and 2^400", noise)
    return noise


def _as_failure(value: Any, delta: Any) -> float:
    failure = float(as_probability("failure_probability", as_scalar("failure_probability", value)))
    if not failure < budget(0.0, delta)[1]:
        raise ParameterError("failure_probability", "be below delta", failure)
    return failure
