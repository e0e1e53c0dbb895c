"""Release a random projection: a sketch with the law of DᵀG and a public ridge (def:grp, alg::RP mechanism).

The r rows of the sketch are independent draws from N(0, DᵀD + λI). Rows of the data are clipped to norm l, and the
ridge λ is public. This is the law of L·Z with LLᵀ = DᵀD + λI: one pass over the data, then d·r normals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from ndis._search import budget, first_safe_epsilon
from ndis._validate import Adjacency, as_not_negative, as_one_probability, as_scalar, as_size, require
from ndis.data.paths import fixed_steps
from ndis.errors import ParameterError
from ndis.gram import Gram
from ndis.gram.accumulator import PoissonRows
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS
from ndis.mechanisms.gaussian import unit_noise
from ndis.mechanisms.mechanism import Attained, receipt_of, settle
from ndis.mechanisms.releases import ProjectionRelease, loadable
from ndis.mechanisms.rows import RowMechanism, bounds_of, row_bounds
from ndis.mechanisms.sketch_law import ProjectionLaw, certified_delta, smallest_ridge
from ndis.noise import exact_gaussian, grid_for
from ndis.noise.bits import RandomBits
from ndis.profile import PrivacyProfile

_LARGE_DRAW = 1 << 18  # normals: some seconds
_CALIBRATIONS = ("exact", "given", "paper", "lsv", "renyi")  # how a ridge was found; `ndis.paper` has the last three


@dataclass(frozen=True, kw_only=True)
class SketchMechanism(RowMechanism[ProjectionRelease]):
    """The three projections share the public parameters of a sketch, a certified budget, and the release."""

    sketch_size: int
    row_norm_bound: float
    ridge: float
    adjacency: Adjacency = "add-remove"
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    calibration: str = "exact"
    outcomes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self, epsilon: float, delta: float) -> None:
        target = budget(epsilon, delta)
        if self.calibration not in _CALIBRATIONS:
            raise ParameterError("calibration", f"be one of {', '.join(_CALIBRATIONS)}", repr(self.calibration))
        parameters = self._parameters()
        law = self._law_of(target[1], **parameters)
        settle(
            self,
            target,
            "ridge",
            remedy="calibrated() finds a ridge for a budget, with_ridge() the budget of a ridge",
            certified=lambda epsilon: certified_delta(law, epsilon),
            **{one.name: getattr(law, one.name) for one in fields(law) if one.name in parameters},
        )

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
        **own: Any,
    ) -> Self:
        """Find the smallest ridge for a budget, to about twelve digits (alg::RP mechanism, corrected).

        It is l²(1/p* − 1) = l²/h*. `ndis.paper.calibrated_projection` has the larger ridges of other analyses.

        Parameters
        ----------
        epsilon, delta, sketch_size, row_norm_bound, adjacency, target_bound, intercept, fractional_bits
            As in the class.
        own
            The parameters that only this class has: `rate`, or `test_noise_std` and `failure_probability`.

        Raises
        ------
        BudgetError
            If no ridge meets the budget.
        """
        if "calibration" in own:
            remedy = "ndis.paper.calibrated_projection has the ridges of other analyses"
            raise ParameterError("calibration", "be left out", repr(own["calibration"]), remedy)
        epsilon, delta = budget(epsilon, delta)
        bounds = bounds_of(row_bounds(row_norm_bound, target_bound, intercept, fractional_bits))
        public: dict[str, Any] = {"sketch_size": sketch_size, "adjacency": adjacency, **bounds}
        public |= cls._chosen(public, own, epsilon, delta)
        law = cls._law_of(delta, **public, ridge=1.0)
        return cls(ridge=smallest_ridge(law, epsilon, delta), epsilon=epsilon, delta=delta, **public)

    @classmethod
    def _chosen(cls, public: dict[str, Any], own: dict[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
        """Return the parameters that only this kind has, as given or as chosen from public numbers."""
        return own

    @classmethod
    def with_ridge(cls, *, ridge: float, delta: float, **public: Any) -> Self:
        """Make the mechanism with this ridge. Its `target_epsilon` is what the certified profile gives at `delta`.

        >>> import ndis
        >>> mechanism = ndis.RandomProjection.with_ridge(ridge=20.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
        >>> round(mechanism.target_epsilon, 6)
        1.861698
        """
        _, delta = budget(0.0, delta)
        law = cls._law_of(delta, **public, ridge=ridge)
        epsilon = first_safe_epsilon(law.profile().certified_epsilon(delta), lambda e: certified_delta(law, e), delta)
        return cls(ridge=law.ridge, delta=delta, epsilon=epsilon, calibration="given", **public)

    # ------------------------------------------------------------------ the guarantee

    @property
    def law(self) -> ProjectionLaw:
        """Return the law of the sketch, which the auditor asks for."""
        return self._law_of(self.target_delta, **self._parameters())

    def _parameters(self) -> dict[str, Any]:
        """Return every parameter but the budget."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    @classmethod
    def _law_of(cls, delta: float, calibration: str = "exact", **shared: Any) -> ProjectionLaw:
        """Return the law of a mechanism with these parameters, all but ε needed."""
        law = ProjectionLaw(**shared)
        require(law.failure_probability < delta, "failure_probability", "be below delta", law.failure_probability)
        require(delta < law.rate, "rate", "be above delta", law.rate, "at a rate of delta no ridge is needed")
        return law

    @property
    def leverage(self) -> float:
        """Return h = l²/λ, the most that one record may have. The paper's p is h/(1+h) (def: leverage)."""
        return float(self.law.squared_bound) / self.ridge

    def profile(self) -> PrivacyProfile:
        """Return the guarantee at every ε, exactly: the worst neighbours are known (thm:RP-mech-DP)."""
        return self.law.profile()

    def attained(self) -> tuple[Attained, ...]:
        """List neighbours on which the output has these exact profiles; see `ProjectionLaw.attained`."""
        return self.law.attained()

    # ------------------------------------------------------------------ the release

    def _draw(
        self, gram: Gram, bits: RandomBits, *, stated: Mapping[str, Any], progress: bool | None
    ) -> ProjectionRelease:
        """Draw r times from N(0, DᵀD + ridge·I) on a grid that depends on the ridge only.

        By default `progress` shows a bar only on a terminal, and only if the sketch is large.
        """
        outcomes, layout = self._test(gram, bits), gram.layout
        ridge, large = self.ridge_in(outcomes), self.sketch_size * layout.width >= _LARGE_DRAW
        with fixed_steps(progress if large or progress is not None else False, "drawing rows") as show:
            how: dict[str, Any] = {"grid": grid_for(math.sqrt(ridge)), "random_state": bits, "show": show}
            sample = exact_gaussian(0, gram.exact(ridge=ridge), size=self.sketch_size, **how)
        released = {"released_ridge": ridge, **outcomes, **stated}
        receipt = receipt_of(self, private=sample.private, released=released)
        return ProjectionRelease(sample.values, self, ridge, receipt, layout.names, layout.targets)

    def _test(self, gram: Gram, bits: RandomBits) -> dict[str, float]:
        """Return the values of `outcomes` for a release: what it gives out besides the sketch, and accounts for."""
        return {}

    def ridge_in(self, outcomes: Mapping[str, Any]) -> float:
        """Return the ridge of a release with these outcomes."""
        return self.ridge


# ---------------------------------------------------------------------- the size of a sketch

_CLOSE = 1.1  # a bound within 10 % of the best on the table counts as good
_ROWS_PER_COLUMN = 100  # the least: sampling then adds about one per cent to the squared error
_ENTRIES = 1 << 16  # entries of a sketch by default: a second or two
_MOST_ENTRIES = 1 << 18  # entries of a sketch, if the number of records is known and is as large: some seconds


@dataclass(frozen=True)
class SketchSizeRow:
    """A row of the table is one choice.

    Attributes
    ----------
    sketch_size : int
    ridge : float
        The smallest one for the budget.
    error_bound : float
        ‖gram() − DᵀD‖ stays below it with the given confidence, if ‖DᵀD‖ ≤ `gram_norm_bound`.
    """

    sketch_size: int
    ridge: float
    error_bound: float


@dataclass(frozen=True)
class SketchSizes:
    """The table lists choices, smallest sketch first, and the recommended one.

    Attributes
    ----------
    rows : tuple of SketchSizeRow
    recommended : int
        The smallest sketch that meets the target error. Without a target, the smallest one whose bound is within 10 %
        of the best on the table. The bound falls slowly, so this is mostly the largest size or the one before. A
        release draws d·r numbers at about 15 µs each: pass `target_error`, or the `sketch_sizes` that you can afford.
    """

    rows: tuple[SketchSizeRow, ...]
    recommended: int

    def __repr__(self) -> str:
        lines = [f"{'sketch_size':>11} {'ridge':>12} {'error bound':>12}"]
        for row in self.rows:
            mark = "  <- recommended" if row.sketch_size == self.recommended else ""
            lines.append(f"{row.sketch_size:>11} {row.ridge:>12.6g} {row.error_bound:>12.6g}{mark}")
        return "\n".join(lines)


def default_sketch_size(*, columns: int, epsilon: float, delta: float, records: float | None = None) -> int:
    """Choose the rows of an estimator's sketch if the user does not, from public numbers only.

    Least squares on a sketch of r rows has at least the noise of least squares on r records. So more rows than records
    serve little. The privacy noise of an entry of the Gram matrix is about l²κ for every large r, with κ = 1/(√2·μ) and
    μ the shift that (ε, δ) allows. The noise of sampling is at most l²·records/√r. It is below the privacy noise if
    r ≥ (records/κ)². So for records that are known, r is the smaller of records and (records/κ)², up to 2¹⁸ entries.
    Otherwise the sketch has 2¹⁶ entries. It always has at least 100 rows per column.

    Parameters
    ----------
    columns : int
        All columns of the sketch, targets and constant included.
    epsilon, delta : float
    records : float, optional
        The number of records, if it is public.

    Examples
    --------
    >>> default_sketch_size(columns=6, epsilon=1.0, delta=1e-6)
    10922
    >>> [default_sketch_size(columns=6, epsilon=1.0, delta=1e-6, records=n) for n in (500, 20_000, 1_000_000)]
    [600, 20000, 43690]
    """
    least = _ROWS_PER_COLUMN * columns
    if records is None:
        return max(least, _ENTRIES // columns)
    noise = unit_noise(epsilon, delta)
    serving = min(records, 2.0 * (records / noise) ** 2)
    return max(least, int(min(serving, _MOST_ENTRIES // columns)))


# ---------------------------------------------------------------------- the mechanisms


@loadable
@dataclass(frozen=True, kw_only=True)
class RandomProjection(SketchMechanism):
    """Releases a sketch of r synthetic rows with the second moments of the data, (ε, δ)-private (thm:RP-mech-DP).

    Make one with `calibrated`, which finds the smallest ridge for a budget. Or use `with_ridge`, which finds the budget
    of a ridge. The constructor refuses a ridge that does not meet its ε and δ with a certificate.

    Parameters
    ----------
    sketch_size : int
        r, the number of rows of the sketch.
    row_norm_bound : float
        Public bound on the Euclidean norm of the features of a row; the mechanism clips longer rows.
    ridge : float
        λ, public.
    epsilon, delta : float
        The guarantee.
    adjacency : str
        "add-remove" (one record more or less) or "replace-one" (one record exchanged).
    target_bound : float, optional
        Public bound of the target columns, if there are any.
    intercept : float, optional
        Value of a constant column to append.
    fractional_bits : int
        k: rows are rounded onto the grid bound·2⁻ᵏ.
    calibration : str
        How the ridge was found: "exact", "given", or by an analysis of `ndis.paper`.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
    >>> round(mechanism.ridge, 6), round(mechanism.profile().epsilon(1e-9), 6)
    (35.540172, 1.398659)
    """

    @classmethod
    def sizes(
        cls,
        *,
        columns: int,
        sketch_sizes: Iterable[int] | None = None,
        gram_norm_bound: float = 0.0,
        confidence: float = 0.95,
        target_error: float | None = None,
        **public: Any,
    ) -> SketchSizes:
        """Compare sizes of a sketch: the ridge and the error bound of each, from public numbers only.

        A larger sketch needs more ridge, about in proportion to √r, and averages more draws. The bound is
        (2η + η²)·(‖DᵀD‖ + ridge) with η = √(d/r) + √(2 ln(2/β)/r) (thm:mech-rp-utility, with the constants of
        Davidson and Szarek). It falls with r towards a floor that the budget sets.

        Parameters
        ----------
        columns : int
            d: features and targets, without the constant column.
        sketch_sizes : iterable of int, optional
            The sizes to compare; by default powers of two from about 4·d to 4096·d. A release draws d·r numbers at
            about 15 µs each. Without `target_error` nearly the largest size is recommended, so name the sizes you can
            afford.
        gram_norm_bound : float
            A public guess of ‖DᵀD‖, at most records·l². At the default, 0, the table shows only the cost of the ridge.
        confidence : float
            1 − β.
        target_error : float, optional
            The error to reach.
        epsilon, delta, row_norm_bound, adjacency, target_bound, intercept
            As for `RandomProjection.calibrated`.

        Raises
        ------
        ParameterError
            If no size on the table meets `target_error`.

        Examples
        --------
        >>> import ndis
        >>> table = ndis.RandomProjection.sizes(
        ...     epsilon=1.0, delta=1e-6, row_norm_bound=1.0, columns=5, sketch_sizes=[100, 1000, 10000],
        ...     gram_norm_bound=1e4,
        ... )
        >>> table.recommended, [round(row.ridge, 2) for row in table.rows]
        (10000, [35.54, 99.99, 304.2])
        """
        d = as_size("columns", columns) + (public.get("intercept") is not None)
        beta = 1.0 - as_one_probability("confidence", confidence)
        norm = as_not_negative("gram_norm_bound", gram_norm_bound)
        start = 4 << max(d - 1, 1).bit_length()
        wanted: Any = [start << k for k in range(11)] if sketch_sizes is None else sketch_sizes
        require(isinstance(wanted, Iterable), "sketch_sizes", "be several sizes", repr(wanted), "one size is [size]")
        sizes = sorted({as_size("sketch_sizes", r) for r in wanted})
        require(sizes, "sketch_sizes", "name at least one size", "none")

        def row(r: int) -> SketchSizeRow:
            mechanism = cls.calibrated(sketch_size=r, **public)
            eta = math.sqrt(d / r) + math.sqrt(2.0 * math.log(2.0 / beta) / r)
            return SketchSizeRow(r, mechanism.ridge, (2.0 * eta + eta**2) * (norm + mechanism.ridge))

        rows = tuple(row(r) for r in sizes)
        best = min(one.error_bound for one in rows)
        goal = _CLOSE * best if target_error is None else as_scalar("target_error", target_error)
        good = [one.sketch_size for one in rows if one.error_bound <= goal]
        require(good, "target_error", f"be at least {best:.6g}, the best on the table", goal)
        return SketchSizes(rows, good[0])


@loadable
@dataclass(frozen=True, kw_only=True)
class PoissonProjection(SketchMechanism):
    """Projects a Poisson sample: each record enters on its own with probability `rate`.

    Sampling makes the ridge smaller, and the sample makes the estimates noisier (alg:subsampled-wrapper-rp). The
    profile is exact in both orders (`PrivacyProfile.subsampled`, thm:subsampling RP-mech-DP, thm:poisson-sampling). A
    record enters with a probability of at most `rate`. A smaller probability can only be more private: at rate a·q the
    output is that at rate q with probability a, and that without the record otherwise, and δ is jointly convex.

    Only "add-remove" is allowed. If one record is replaced, the output is a mixture under both data sets, with one
    common part. Its δ is not that of two Gaussians.

    Parameters
    ----------
    rate : float
        q, above δ, at least 2⁻⁴⁰ and at most 1.
    sketch_size, row_norm_bound, ridge, epsilon, delta, adjacency, target_bound, intercept, fractional_bits, calibration
        As in `RandomProjection`.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.PoissonProjection.calibrated(
    ...     epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0, rate=0.1
    ... )
    >>> round(mechanism.ridge, 6)
    11.69056
    """

    rate: float

    def _sample(self, bits: RandomBits) -> PoissonRows:
        return PoissonRows(self.rate, bits)


choose_sketch_size = RandomProjection.sizes  # the name of version 0.2
