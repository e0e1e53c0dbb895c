"""A mixture of Gaussians on a line against one Gaussian: users with several examples, and other ways to draw a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ndis._validate import Adjacency, Order, as_vector, as_within
from ndis.accountant.laws import Law
from ndis.errors import ParameterError, PrecisionError

__all__ = ["MixtureStep"]

_MOST_NOISE = 400  # noise multipliers lie between 2^-400 and 2^400
_SUM_TO_ONE = 1e-9  # probabilities may miss 1 by this much, and are divided by their sum


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
        if not (shifts >= 0.0).all():
            raise ParameterError("sensitivities", "be at least 0", f"{min(shifts.tolist())}")
        if shifts.size != chances.size or not shifts.size:
            raise ParameterError("probabilities", f"be one per sensitivity, {shifts.size}", f"{chances.size}")
        if not (chances >= 0.0).all() or math.fabs(math.fsum(chances.tolist()) - 1.0) > _SUM_TO_ONE:
            raise ParameterError("probabilities", "be at least 0 and add up to 1", f"{chances.tolist()!r:.80}")
        object.__setattr__(self, "sensitivities", tuple(shifts.tolist()))
        object.__setattr__(self, "probabilities", tuple(chances.tolist()))

    def law(self, order: Order) -> Law:
        """Return the law of one step."""
        raise PrecisionError("the law of a mixture is not known")
