"""Steps that are mixtures of Gaussians on a line, by their exact inputs.

**Mixtures** (thm:mixtures). Let a record move the output of a Gaussian release by a random vector whose length is at
most cᵢ with probability pᵢ. Then Σ pᵢ N(cᵢ, σ²) against N(0, σ²) dominates in both orders: all vectors on one line are
worst (lem:gram-order). A user with k examples, each sampled on its own, is the binomial case.

**Replaced records** (thm:replace-poisson). If a record is replaced, and each of the two enters the Poisson sample with
probability q and moves the sum by a vector of length at most 1, (1−q)N(0) + qN(1) against (1−q)N(0) + qN(−1) dominates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from ndis._balls import exact_ball, precision
from ndis._validate import Adjacency, Order, as_adjacency, as_size, as_vector, as_within, assign, require
from ndis.accountant.laws.mixture import LEAST_SHIFT, Mixture
from ndis.accountant.laws.mixture_balls import Sides
from ndis.errors import ParameterError, PrecisionError

_BITS = 160  # bits from which exact inputs are rounded to floats
_MOST_NOISE = 400  # noise multipliers lie between 2^-400 and 2^400
_SUM_TO_ONE = 1e-9  # probabilities may miss 1 by this much, and are divided by their sum


def mixture_law(chances: list[Fraction], shifts: list[Fraction], order: Order, *, double: bool = False) -> Mixture:
    """Return the law of Σ pᵢ N(cᵢ, 1) against N(0, 1), or against Σ pᵢ N(−cᵢ, 1) if it is `double`."""
    if float(max(shifts)) < LEAST_SHIFT:
        raise PrecisionError("the composition is not known: a mixture with next to no shift is out of reach")

    def exact() -> Sides:
        one = [exact_ball(p) for p in chances], [exact_ball(c) for c in shifts]
        sides = Sides(*one, *(one if double else ([arb(1)], [arb(0)])))
        return sides if order == "remove" else sides.swapped()

    with precision(_BITS):
        return Mixture.from_balls(exact)


@dataclass(frozen=True)
class MixtureStep:
    """Describe Σ pᵢ N(cᵢ, σ²) against N(0, σ²): the record moves the output by cᵢ ≥ 0 with probability pᵢ.

    Parameters
    ----------
    noise_multiplier : float
        σ.
    sensitivities, probabilities : sequence of float
        cᵢ and pᵢ. Probabilities are taken relative to their sum, which must be 1 up to rounding.
    """

    noise_multiplier: float
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]

    kind: ClassVar[str] = "mixture"
    adjacency: ClassVar[Adjacency] = "add-remove"
    attained: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, _MOST_NOISE))
        shifts = as_vector("sensitivities", self.sensitivities)
        chances = as_vector("probabilities", self.probabilities)
        if not (shifts >= 0.0).all() or not (shifts > 0.0).any():
            raise ParameterError("sensitivities", "be at least 0, and one of them above 0", f"{shifts.tolist()!r:.80}")
        if shifts.size != chances.size:
            raise ParameterError("probabilities", f"be one per sensitivity, {shifts.size} in all", f"{chances.size}")
        if not (chances > 0.0).all() or math.fabs(math.fsum(chances.tolist()) - 1.0) > _SUM_TO_ONE:
            raise ParameterError("probabilities", "be above 0 and add up to 1", f"{chances.tolist()!r:.80}")
        assign(self, sensitivities=tuple(shifts.tolist()), probabilities=tuple(chances.tolist()))

    def law(self, order: Order) -> Mixture:
        """Return the law of one step."""
        sigma, total = Fraction(self.noise_multiplier), sum(map(Fraction, self.probabilities))
        shifts = [Fraction(c) / sigma for c in self.sensitivities]
        chances = [Fraction(p) / total for p in self.probabilities]
        return mixture_law(chances, shifts, order)


@dataclass(frozen=True)
class SampledStep:
    """Describe Gaussian noise on a Poisson sample: one user with k examples, or a replaced record.

    The examples of a user move the sum by 0, 1, …, k times the sensitivity, by a binomial law (thm:mixtures). A
    replaced record moves it by 1 to one side or the other (thm:replace-poisson).

    Parameters
    ----------
    noise_multiplier : float
        The standard deviation of the noise over the clipping norm of one example.
    rates : sequence of float
        Rates of Poisson sampling, one after the other.
    size : int
        k, which is 1 for a replaced record.
    adjacency : str
        "add-remove", or "replace-one".
    """

    noise_multiplier: float
    rates: tuple[float, ...]
    size: int = 1
    adjacency: Adjacency = "add-remove"

    kind: ClassVar[str] = "sampled"
    attained: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, _MOST_NOISE))
        rates, k = as_vector("rates", self.rates), as_size("size", self.size)
        require(((rates > 0.0) & (rates < 1.0)).all(), "rates", "be above 0 and below 1", f"{rates.tolist()!r:.80}")
        require(as_adjacency(self.adjacency) != "replace-one" or k == 1, "size", "be 1 for a replaced record", k)
        object.__setattr__(self, "rates", tuple(rates.tolist()))

    def law(self, order: Order) -> Mixture:
        """Return the law of one step."""
        q, k = math.prod(map(Fraction, self.rates), start=Fraction(1)), self.size
        chances = [math.comb(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)]
        shifts = [i / Fraction(self.noise_multiplier) for i in range(k + 1)]
        return mixture_law(chances, shifts, order, double=self.adjacency == "replace-one")
