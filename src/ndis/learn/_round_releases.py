"""Draw all releases of a fit in rounds from exact sums.

The first releases choose coordinates (`ndis.learn._coordinates`). All further ones are made in these.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.gram import Gram
from ndis.gram.sums import RecordSums, TermSums
from ndis.learn._coordinates import BINS, NORM_EDGES, Coordinates, PublicRanges, located, norm_bound, turned
from ndis.learn._estimator import INTERCEPT_SHARE
from ndis.mechanisms.mechanism import Receipt
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["BELOW", "PLACE_SHARES", "RoundReleases"]

PLACE_SHARES = (0.02, 0.01)  # the squared shift has these shares for the histograms of columns and of norms
BELOW = 1.0 - 2.0**-40  # shares that are divided anew add up to a little less: floats round
_COUNTING = 0.35  # the constant over the bound of rows in spreads, where it only counts and centres
_LEAST_RECORDS = 3.0  # below this many standard deviations of its noise, the number of records may be zero
_AFFORDED = 0.1  # rows may be longer while the largest eigenvalue of the noise is below this share of the records
_COLUMN = 1.0  # the constant next to rows whose directions spread by about 1


class RoundReleases:
    """Draw all releases of one fit exactly, in coordinates that follow from the first ones.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
        Its first two counts, after those that were `asked`, are histograms of columns and of norms. Its first two
        matrices are Gram matrices. The shares of later releases may follow from the first histograms.
    bits
        The source of randomness of all draws.
    public : PublicRanges
    constant : bool
        Whether the last predictor is a constant.
    held : bool
        Rows hold the constant already, times the root of a weight.
    fixed : bool
        The public coordinates stay.
    asked : int
        The number of counts that come before all others.

    Attributes
    ----------
    budget, bits, constant
    here : Coordinates
    column : float or None
        The value of the constant next to the rows.
    longest : float
        A norm that few rows exceed, the constant included: the unit of clips.
    private : bool
        False if any draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    def __init__(
        self,
        sums: RecordSums,
        budget: GaussianRounds,
        bits: Any,
        *,
        public: PublicRanges,
        constant: bool,
        held: bool = False,
        fixed: bool = False,
        asked: int = 0,
    ) -> None:
        self._sums, self.budget, self.bits, self.constant = sums, budget, bits, constant
        self._public, self._held, self._fixed, self.here = public, held, fixed or held, public.start()
        self.column: float | None = None
        self.longest, self.private = 1.0, True
        self.log: list[dict[str, Any]] = []
        self._rows = self._clipped = sums
        self._asked, self._counted = asked, list[tuple[float, float]]()

    # ------------------------------------------------------------------ coordinates

    def settle(self) -> tuple[Floats, float]:
        """Choose coordinates, and release the Gram matrix in them; with the noise of its diagonal."""
        spreads, counted = (None, 0.0) if self._fixed else self._spreads()
        self.budget = self.budget.reshared(self._asked + (not self._fixed), **self.shares(spreads, counted))
        if spreads is None:
            return self._stay()
        self.here = spreads
        bound = self._norm_bound()
        column = _COUNTING * bound
        gram, noise = self._gram(0, bound, column)
        self.here, longer = turned(spreads, gram, noise, constant=column, centred=self.constant)
        records = max(float(gram[-1, -1]), noise) / column**2
        unit = self.budget.matrix_noise(1, Fraction(1)) * math.sqrt(2.0 * len(gram))
        self.column = _COLUMN if self.constant else None
        far = self._public.longest(self.here)
        self._settled(min(max(bound * longer, math.sqrt(_AFFORDED * records / unit)), far), far)
        self.longest = math.hypot(min(bound * longer, far), self.column or 0.0)
        return self._matrix(1, self._clipped.gram(), "gram")

    def _stay(self) -> tuple[Floats, float]:
        """Keep the public coordinates: one Gram matrix serves."""
        bound = self._public.longest(self.here)
        self.column = INTERCEPT_SHARE * bound if self.constant and not self._held else None
        self._settled(bound, bound)
        return self._matrix(0, self._clipped.gram(), "gram")

    def shares(self, spreads: Coordinates | None, records: float) -> dict[str, Any]:
        """Choose the shares of all further releases from the number of records that the first one tells.

        In the public coordinates one Gram matrix has the shares of both, and no histogram of norms is needed.
        """
        if spreads is not None:
            return {}
        (first, second, *others), counts = self.budget.matrix_shares, list(self.budget.count_shares)
        counts[self._asked + 1] = 0.0
        return {"matrix_shares": ((first + second) * BELOW, 0.0, *others), "count_shares": counts}

    def _settled(self, bound: float, far: float) -> None:
        """Keep the records in the present coordinates, clipped to a bound for matrices, and not clipped for terms."""
        self._clipped, self._rows = self._mapped(bound, self.column), self._mapped(far, self.column)
        self.longest = math.hypot(bound, self.column or 0.0)

    def _spreads(self) -> tuple[Coordinates | None, float]:
        """Release histograms of all columns; one record is in one bin of each. They tell the number of records too."""
        public = self._public
        features, targets = len(public.origin), len(public.target_origin)
        far, zeros = public.farthest, np.zeros(features)
        unit = Coordinates(np.eye(features) / far, zeros, np.zeros(targets), public.target_bound)
        edges = np.linspace(-1.0, 1.0, BINS + 1)[1:-1].tolist()
        counts = self._mapped(public.row_bound / far, None, unit).value_counts(edges)
        squared = (features + targets) * self._replaced
        values = counts.histograms()[: features + targets]
        released, noise = self._counts(0, values, squared_reach=squared, name="histograms of columns")
        return located(released, noise, public), float(released.sum()) / len(released)

    def _norm_bound(self) -> float:
        """Release the histogram of the norms of rows in spreads, and choose where the Gram matrix clips them."""
        far, unit = self._public.longest(self.here), math.sqrt(len(self.here.centre))
        counts = self._mapped(far, None).value_counts((), norms=[unit * edge for edge in NORM_EDGES])
        released, noise = self._counts(1, counts.lengths(), squared_reach=self._replaced, name="histogram of norms")
        return norm_bound(released, noise, unit=unit, longest=far)

    def _mapped(self, bound: float, column: float | None, at: Coordinates | None = None) -> RecordSums:
        """Return the records in coordinates, with rows clipped to a bound."""
        here = self.here if at is None else at
        how: dict[str, Any] = {"row_norm_bound": bound, "intercept": column}
        if len(here.target_centre):
            how["target"] = here.target_centre, here.target_scale
            how["target_bound"] = self._public.farthest_target(here)
        return self._sums.in_coordinates(here.matrix, -(here.matrix @ here.centre), **how)

    def _gram(self, index: int, bound: float, column: float | None) -> tuple[Floats, float]:
        return self._matrix(index, self._mapped(bound, column).gram(), "gram")

    @property
    def farthest_target(self) -> float:
        """Return the largest norm of targets in the present coordinates."""
        return self._public.farthest_target(self.here)

    def shaped(self, shape: Floats) -> RecordSums:
        """Return the records with their predictors, the constant included, times a public matrix: no longer apart."""
        here, column = self.here, self.column
        matrix, shift = here.matrix, -(here.matrix @ here.centre)
        if column is not None:
            matrix, shift = np.vstack([matrix, np.zeros(matrix.shape[1])]), np.append(shift, column)
        far = float(np.linalg.norm(shape, 2)) * math.hypot(self._public.longest(here), column or 0.0) * (1 + 1e-9)
        how: dict[str, Any] = {"target": (here.target_centre, here.target_scale), "target_bound": self.farthest_target}
        return self._sums.in_coordinates(shape @ matrix, shape @ shift, row_norm_bound=far, **how)

    # ------------------------------------------------------------------ one release each

    def shift(self, index: int) -> float:
        """Return the clip of a round divided by its noise."""
        return 1.0 / self.budget.sum_noise(index, clip=1.0)

    def _matrix(self, index: int, gram: Gram, name: str) -> tuple[Floats, float]:
        """Release a matrix; with the standard deviation of its diagonal's noise."""
        sample = self.budget.release_matrix(index, gram, random_state=self.bits)
        noise = self.budget.matrix_noise(index, gram.layout.joint_norm_bound_squared)
        self._note(sample, release=name, norm_bound=gram.layout.joint_norm_bound, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64), noise

    def _total(self, index: int, sums: TermSums, name: str) -> tuple[Floats, float]:
        """Release a sum of clipped terms; with the standard deviation of its noise."""
        sample = self.budget.release_sum(index, sums, random_state=self.bits)
        noise = self.budget.sum_noise(index, clip=sums.clip)
        self._note(sample, release=name, clip=sums.clip, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64), noise

    def _histogram(self, index: int, sums: TermSums) -> tuple[Floats, float]:
        """Release the histogram of the lengths of the terms; one record replaced moves it by √2."""
        return self._record_count(index, sums.histogram, squared_reach=self._replaced, name="histogram of lengths")

    def _record_count(self, index: int, values: Any, **how: Any) -> tuple[Floats, float]:
        """Release counts that add up to the number of records."""
        released, noise = self._counts(index, values, **how)
        self._counted.append((float(released.sum()), noise * math.sqrt(len(released))))
        return released, noise

    def records(self) -> float:
        """Estimate the number of records, to which histograms of lengths add up; 0 if it is within its noise of 0."""
        weights = np.array([noise**-2.0 for _, noise in self._counted])
        records = float(weights @ [count for count, _ in self._counted] / weights.sum())
        return records if records > _LEAST_RECORDS / math.sqrt(float(weights.sum())) else 0.0

    def _counts(self, index: int, values: Any, *, squared_reach: Any, name: str) -> tuple[Floats, float]:
        index += self._asked
        sample = self.budget.release_count(index, values, squared_reach=squared_reach, random_state=self.bits)
        noise = self.budget.count_noise(index, squared_reach=squared_reach)
        self._note(sample, release=name, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64), noise

    @property
    def _replaced(self) -> Fraction:
        """Return the factor by which a replaced record multiplies the squared reach of one that comes or goes."""
        return Fraction(1 if self.budget.adjacency == "add-remove" else 2)

    def _note(self, sample: Any, **entry: Any) -> None:
        self.private = self.private and sample.private
        self.log.append({**entry, "grid": sample.grid})

    def receipt(self, **public: Any) -> Receipt:
        """Make the receipt: the guarantee, with the budget, the bounds in ``public`` and every release."""
        budget = self.budget
        shares = {k: v for k, v in budget.to_dict().items() if k not in ("epsilon", "delta", "adjacency")}
        parameters = {**shares, **public, "releases": self.log}
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt(type(budget).__name__, parameters, *guarantee, private=self.private)
