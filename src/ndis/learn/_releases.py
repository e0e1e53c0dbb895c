"""Draw all releases of a fit in rounds from exact sums, in coordinates that follow from the first ones.

A fit first releases histograms of all columns and of the norms of rows, with a small share of its budget, then a Gram
matrix. They choose the coordinates of all that follows (`ndis.learn._coordinates`).

Rows beyond a bound count less in every sum alike: they are shortened to it together with their targets
(thm:weighted-rows). So the matrix and the terms are those of one weighted fit, whatever rows are far away.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.gram import Gram
from ndis.gram.sums import RecordSums, TermSums
from ndis.learn._coordinates import BINS, FARTHEST, NORM_EDGES, Coordinates, PublicRanges, located, turned, with_far
from ndis.mechanisms.mechanism import Receipt
from ndis.mechanisms.rounds import GaussianRounds

# The constant column is this multiple of `row_norm_bound`. A larger one adds noise to the features, and a smaller one
# loses the mean in noise. Between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5
PLACE_SHARES = (0.02, 0.02)  # the squared shift has these shares for the histograms of columns and of norms
BELOW = 1.0 - 2.0**-40  # shares that are divided anew add up to a little less: floats round
_COUNTING = 0.35  # the constant over the bound of rows in spreads, where it only counts and centres
_LEAST_RECORDS = 3.0  # below this many standard deviations of its noise, the number of records may be zero
_COLUMN = 1.0  # the constant next to rows whose directions spread by about 1


class RoundReleases:
    """Draw all releases of one fit exactly, in coordinates that follow from the first ones.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
        Its first two counts are histograms of columns and of norms, its first two matrices Gram matrices. The shares of
        later releases may follow from the first histograms.
    bits
        The source of randomness of all draws.
    public : PublicRanges
    constant : bool
        Whether the last predictor is a constant.
    held, fixed : bool
        Rows hold the constant already, times the root of a weight; the public coordinates stay.

    Attributes
    ----------
    budget, bits, constant, here
    column : float or None
        The value of the constant next to the rows.
    row_bound : float
        Longer rows, the constant included, count less.
    longest : float
        A norm that few rows exceed, the constant included: the unit of clips.
    far : array
        How many spreads the farthest records of each column are away.
    stretched : array
        Whether a column has values far from most; False if it has two values.
    private : bool
        False if a draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    shares: Any  # a subclass divides the budget anew by this method, after the first histograms
    afforded = 0.05  # rows may be longer while the largest eigenvalue of the noise is below this share of the least one

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
    ) -> None:
        self._sums, self.budget, self.bits, self.constant = sums, budget, bits, constant
        self._public, self._held, self._fixed, self.here = public, held, fixed or held, public.start()
        self.column: float | None = None
        self.row_bound, self.longest, self.private = 1.0, 1.0, True
        self.far = self.stretched = np.zeros(1)
        self.log: list[dict[str, Any]] = []
        self._counted: list[tuple[float, float]] = []

    # ------------------------------------------------------------------ coordinates

    def settle(self) -> tuple[Floats, float]:
        """Choose coordinates, and release the Gram matrix in them; with the noise of its diagonal."""
        spreads, counted = (None, 0.0) if self._fixed else self._spreads()
        self.budget = self.budget.reshared(int(not self._fixed), **self.shares(spreads, counted))
        if spreads is None:
            return self._stay()
        root = math.sqrt(len(spreads.centre))
        self.here, self.far = self._far_rows(spreads, root + 1.0)
        self.stretched = (self.far > 0.0) & (self._public.farthest_values(spreads) == 0.0)
        bound = min(root + 1.0, self._public.longest(self.here))
        column = _COUNTING * bound
        gram, noise = self._matrix(0, self._mapped(bound, column).gram(), "gram")
        self.here, longer = turned(self.here, gram, noise, column, centred=self.constant, long=self.far > bound)
        records = max(float(gram[-1, -1]), noise) / column**2
        farthest = min(self._public.longest(self.here), FARTHEST)
        unit = self.budget.matrix_noise(1, Fraction(1)) * math.sqrt(2.0 * (len(self.far) + self.constant))
        least = min(bound / max(self.far.max(), bound), 1.0) ** 2  # a column with far records has a small eigenvalue
        most = max(bound * longer, math.sqrt(self.afforded * least * records / unit))
        return self._settled(1, min(most, farthest), min(bound * longer, farthest), _COLUMN)

    def _stay(self) -> tuple[Floats, float]:
        """Keep the public coordinates: one Gram matrix serves."""
        bound = self._public.longest(self.here)
        return self._settled(0, bound, bound, INTERCEPT_SHARE * bound)

    def _settled(self, index: int, row_bound: float, longest: float, column: float) -> tuple[Floats, float]:
        """Release the Gram matrix in the present coordinates, of rows within a norm."""
        self.column = column if self.constant and not self._held else None
        self.row_bound, self.longest = (math.hypot(each, self.column or 0.0) for each in (row_bound, longest))
        return self._matrix(index, self.rows().gram(), "gram")

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

    def _far_rows(self, spreads: Coordinates, most: float) -> tuple[Coordinates, Floats]:
        """Release the histogram of the norms of rows in spreads, and choose how columns with long rows are scaled."""
        public, unit = self._public, math.sqrt(len(spreads.centre))
        norms = [unit * edge for edge in NORM_EDGES]
        counts = self._mapped(public.longest(spreads), None, spreads).value_counts((), norms=norms)
        released, noise = self._counts(1, counts.lengths(), squared_reach=self._replaced, name="histogram of norms")
        return with_far(spreads, released, noise, public, most)

    def _mapped(self, bound: float, column: float | None, at: Coordinates | None = None) -> RecordSums:
        """Return the records in coordinates, with rows clipped to a bound."""
        here = self.here if at is None else at
        how: dict[str, Any] = {"row_norm_bound": bound, "intercept": column}
        if len(here.target_centre):
            how["target"] = here.target_centre, here.target_scale
            how["target_bound"] = self._public.farthest_target(here)
        return self._sums.in_coordinates(here.matrix, -(here.matrix @ here.centre), **how)

    @property
    def farthest_target(self) -> float:
        """Return the largest norm of targets in the present coordinates."""
        return self._public.farthest_target(self.here)

    def rows(self, shape: Any = None) -> RecordSums:
        """Return the records with their predictors, the constant included; long ones count less.

        Rows may be multiplied by a public matrix after that.
        """
        here, column = self.here, self.column
        matrix, shift = here.matrix, -(here.matrix @ here.centre)
        if column is not None:
            matrix, shift = np.vstack([matrix, np.zeros(matrix.shape[1])]), np.append(shift, column)
        how: dict[str, Any] = {"row_norm_bound": self.row_bound, "weighted": True, "shape": shape}
        if len(here.target_centre):
            how |= {"target": (here.target_centre, here.target_scale), "target_bound": self.farthest_target}
        return self._sums.in_coordinates(matrix, shift, **how)

    # ------------------------------------------------------------------ one release each

    def shift(self, index: int) -> float:
        """Return the clip of a round divided by its noise."""
        return 1.0 / self.budget.sum_noise(index, clip=1.0)

    def _matrix(self, index: int, gram: Gram, name: str) -> tuple[Floats, float]:
        """Release a matrix; with the standard deviation of its diagonal's noise."""
        sample = self.budget.release_matrix(index, gram, random_state=self.bits)
        noise = self.budget.matrix_noise(index, gram.layout.joint_norm_bound_squared)
        return self._noted(sample, release=name, norm_bound=gram.layout.joint_norm_bound, noise_std=noise)

    def _total(self, index: int, sums: TermSums, name: str) -> tuple[Floats, float]:
        """Release a sum of clipped terms; with the standard deviation of its noise."""
        sample = self.budget.release_sum(index, sums, random_state=self.bits)
        noise = self.budget.sum_noise(index, clip=sums.clip)
        return self._noted(sample, release=name, clip=sums.clip, noise_std=noise)

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
        sample = self.budget.release_count(index, values, squared_reach=squared_reach, random_state=self.bits)
        noise = self.budget.count_noise(index, squared_reach=squared_reach)
        return self._noted(sample, release=name, noise_std=noise)

    @property
    def _replaced(self) -> Fraction:
        """Return the factor by which a replaced record multiplies the squared reach of one that comes or goes."""
        return Fraction(1 if self.budget.adjacency == "add-remove" else 2)

    def _noted(self, sample: Any, **entry: Any) -> tuple[Floats, float]:
        """Log a release for the receipt; return it with its noise."""
        self.private = self.private and sample.private
        self.log.append({**entry, "grid": sample.grid})
        return np.asarray(sample.values, dtype=np.float64), entry["noise_std"]

    def receipt(self, **public: Any) -> Receipt:
        """Make the receipt: the guarantee, with the budget, the bounds in ``public`` and every release."""
        budget = self.budget
        shares = {k: v for k, v in budget.to_dict().items() if k not in ("epsilon", "delta", "adjacency")}
        parameters = {**shares, **public, "releases": self.log}
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt(type(budget).__name__, parameters, *guarantee, private=self.private)
