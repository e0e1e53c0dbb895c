"""Private random projection: a sketch whose law is that of DᵀG with a public ridge (def:grp, alg::RP mechanism).

The r columns of the sketch are independent draws from N(0, DᵀD + λI), with rows clipped to norm l and a public ridge λ.
That is the law of L·Z with LLᵀ = DᵀD + λI: one pass over the data, then d·r normals, whatever the number of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Self

from ndis._validate import STATE_A_BOUND, as_scalar
from ndis.calibrate import budget
from ndis.errors import ParameterError
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS, RowLayout
from ndis.gram.poisson import LEAST_RATE
from ndis.ledger.charging import charged
from ndis.mechanisms.base import Adjacency, Attained, as_adjacency
from ndis.mechanisms.projection_family import SketchFamily, as_calibration, as_size, calibrated_ridge, certified_delta
from ndis.mechanisms.release import ProjectionRelease, draw_release
from ndis.profile import PrivacyProfile

__all__ = ["PoissonProjection", "RandomProjection"]


@dataclass(frozen=True, kw_only=True)
class RandomProjection:
    """A sketch of r synthetic rows with the second moments of the data, (ε, δ)-private (thm:RP-mech-DP).

    Make one with `calibrated`, which finds the smallest ridge for a budget, or with `with_ridge`, which finds the
    budget of a ridge. A mechanism whose ridge does not meet its ε and δ, certified, cannot be made.

    Parameters
    ----------
    sketch_size : int
        r, the rows of the sketch.
    row_norm_bound : float
        Public bound on the Euclidean norm of the features of a row; rows beyond it are clipped.
    ridge : float
        λ, public.
    epsilon, delta : float
        The guarantee.
    adjacency : str
        "add-remove" (one record more or less) or "replace-one" (one record another).
    target_bound : float, optional
        Public bound of the target columns, where there are some.
    intercept : float, optional
        Value of a constant column to append.
    fractional_bits : int
        k: rows are rounded onto the grid bound·2⁻ᵏ.
    calibration : str
        How the ridge was found.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
    >>> round(mechanism.ridge, 6), round(mechanism.profile().epsilon(1e-9), 6)
    (35.540172, 1.398659)
    """

    sketch_size: int
    row_norm_bound: float
    ridge: float
    epsilon: float
    delta: float
    adjacency: Adjacency = "add-remove"
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    calibration: str = "exact"

    def __post_init__(self) -> None:
        self._check()
        reached = certified_delta(self._family(), self.ridge, self.epsilon)
        if not reached <= self.delta:
            raise ParameterError(
                "ridge",
                f"keep delta at epsilon = {self.epsilon:g} within {self.delta:g}",
                f"{self.ridge!r}, with delta up to {reached:.6g}",
                "calibrated() finds a ridge for a budget, with_ridge() the budget of a ridge",
            )

    def _check(self) -> None:
        """Check the public values one by one and keep them in their plain types."""
        epsilon, delta = budget(self.epsilon, self.delta)
        layout = self._layout()
        checked: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "sketch_size": as_size("sketch_size", self.sketch_size),
            "row_norm_bound": layout.row_norm_bound,
            "target_bound": layout.target_bound,
            "intercept": layout.intercept,
            "fractional_bits": layout.fractional_bits,
            "adjacency": as_adjacency(self.adjacency),
            "calibration": as_calibration(self.calibration),
            "ridge": as_scalar("ridge", self.ridge),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not 2.0**-900 <= self.ridge <= 2.0**900:
            raise ParameterError("ridge", "be positive and between 2^-900 and 2^900", self.ridge)

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
    ) -> Self:
        """The mechanism with the smallest ridge for a budget, to about twelve digits.

        Parameters
        ----------
        calibration : str
            - ``"exact"``: the smallest ridge, l²(1/p* − 1) = l²/h*, whose certified δ meets the target;
            - ``"paper"``: l²/p*, as printed, which is larger by l²;
            - ``"lsv"``: l²/p_LSV, Sheffet's least-singular-value analysis;
            - ``"renyi"``: the smallest ridge for the Rényi bound on δ (Gaussian mixing).

            All give the same mechanism with another ridge, and `profile` is exact for each.
        epsilon, delta, sketch_size, row_norm_bound, adjacency, target_bound, intercept, fractional_bits
            As in the class.

        Raises
        ------
        BudgetError
            If no ridge meets the budget.
        """
        return cls._calibrate(
            calibration,
            epsilon=epsilon,
            delta=delta,
            sketch_size=sketch_size,
            row_norm_bound=row_norm_bound,
            adjacency=adjacency,
            target_bound=target_bound,
            intercept=intercept,
            fractional_bits=fractional_bits,
        )

    @classmethod
    def with_ridge(cls, *, ridge: float, delta: float, **public: Any) -> Self:
        """The mechanism with this ridge; its `epsilon` is what the certified profile gives at `delta`.

        >>> import ndis
        >>> mechanism = ndis.RandomProjection.with_ridge(ridge=20.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
        >>> round(mechanism.epsilon, 6)
        1.861698
        """
        draft = cls._draft(ridge=ridge, delta=delta, epsilon=0.0, calibration="given", **public)
        family = draft._family()
        epsilon = family.profile(draft.ridge).certified_epsilon(draft.delta)
        while not certified_delta(family, draft.ridge, epsilon) <= draft.delta:  # by a little wider certificate
            epsilon = math.nextafter(epsilon * (1.0 + 2.0**-40), math.inf)
        return cls(ridge=draft.ridge, delta=draft.delta, epsilon=epsilon, calibration="given", **public)

    # ------------------------------------------------------------------ the guarantee

    @property
    def joint_norm_bound(self) -> float:
        """l: the norm no row exceeds, targets and intercept included."""
        return self._layout().joint_norm_bound

    @property
    def leverage(self) -> float:
        """h = l²/λ, the most one record may have against all others; the paper's p is h/(1+h) (def: leverage)."""
        return float(self._family().squared_bound) / self.ridge

    def profile(self) -> PrivacyProfile:
        """The guarantee at every ε, exactly: the worst neighbours are known."""
        return self._family().profile(self.ridge)

    def attained(self) -> tuple[Attained, ...]:
        """Neighbours on which the output has these exact profiles.

        For "replace-one" the guarantee is met by two orthogonal rows at the bound. In one column there are no such
        rows: there a row at the bound replaced by a zero row is the worst, with the profile of "add-remove". Beside a
        constant column rows cannot be made orthogonal at will, so only the zero row (as an unreadable one becomes) is
        listed.
        """
        family = self._family()
        pair = family.one_record(self.ridge)

        def found(words: str, pair: Any) -> Attained:
            return Attained(words, PrivacyProfile(pair, adjacency=self.adjacency).subsampled(family.rate))

        if self.adjacency == "add-remove":
            return (found("no rows, and one row at the bound", pair),)
        zero = found("one row at the bound, and one zero row", pair)
        if self.intercept is not None:
            return (zero,)
        other = SketchFamily((self.row_norm_bound,), self.sketch_size, self.adjacency).one_record(self.ridge)
        both = "one row at the bound, and one row orthogonal to it with its features at the bound (two or more columns)"
        return zero, found(both, pair.compose(other.reversed()))

    # ------------------------------------------------------------------ the release

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
        """Draw the sketch of `data`, exactly.

        Parameters
        ----------
        data, columns, targets, device, progress
            As for `ndis.gram.exact_gram`: arrays, frames, files, folders, dask collections, tensors, pairs (X, y); a
            list of rows too. Targets need a `target_bound`.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.
        ledger : path, optional
            The `ndis.Ledger` that pays. It reserves before data is read; a BudgetError says what is left.
        slot : str, optional
            The slot of a plan. For the other kinds a label, or None.

        Examples
        --------
        >>> import numpy as np, ndis
        >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0)
        >>> release = mechanism.release(np.eye(3))
        >>> release.sketch.shape, release.receipt.private
        ((50, 3), True)
        """
        from ndis.sampling.bits import random_bits

        bits = random_bits(random_state)
        with charged(self, ledger=ledger, slot=slot, private=bits.private) as charge:
            gram = self._gram(data, bits, columns=columns, targets=targets, device=device, progress=progress)
            return draw_release(self, gram, ridge=self.ridge, bits=bits, seal=charge.seal())

    def _gram(self, data: Any, bits: Any, **how: Any) -> Any:
        from ndis.gram import exact_gram

        return exact_gram(
            _as_rows(data),
            row_norm_bound=self.row_norm_bound,
            target_bound=self.target_bound,
            intercept=self.intercept,
            fractional_bits=self.fractional_bits,
            sample=self._sample(bits),
            **how,
        )

    def _sample(self, bits: Any) -> Any:
        return None

    def _ridge_in(self, released: Mapping[str, Any]) -> float:
        """The ridge of a release from the values in its receipt that came out along with the sketch."""
        from ndis._json import only_keys

        only_keys("parameters of the receipt", released, ("released_ridge",))
        return self.ridge

    # ------------------------------------------------------------------ the family

    def _layout(self) -> RowLayout:
        """A row of one feature, and one target where there are some: enough to check and add up the bounds."""
        return RowLayout(
            1,
            self.row_norm_bound,
            targets=0 if self.target_bound is None else 1,
            target_bound=self.target_bound,
            intercept=self.intercept,
            fractional_bits=self.fractional_bits,
        )

    def _family(self) -> SketchFamily:
        bounds = tuple(group.bound for group in self._layout().groups)
        return SketchFamily(bounds, self.sketch_size, self.adjacency)

    @classmethod
    def _draft(cls, **values: Any) -> Self:
        """The same value, checked but not certified, to ask for its family on the way to a certified one."""
        names = {field.name: field.default is MISSING for field in fields(cls)}
        missing = [name for name, needed in names.items() if needed and name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            what = f"needs {', '.join(missing)}" if missing else f"has no {', '.join(unknown)}"
            raise TypeError(f"{cls.__name__} {what}")
        if values.get("row_norm_bound") is None:
            remedy = f"{STATE_A_BOUND}, and rows beyond it are clipped"
            raise ParameterError("row_norm_bound", "be a positive number", None, remedy)
        draft = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(draft, name, value)
        draft._check()
        return draft

    @classmethod
    def _calibrate(cls, calibration: str, **public: Any) -> Self:
        if as_calibration(calibration) == "given":
            raise ParameterError("calibration", "be a way to find a ridge", "'given'", "with_ridge() takes a ridge")
        draft = cls._draft(ridge=1.0, **public)
        ridge = calibrated_ridge(draft._family(), calibration, epsilon=draft.epsilon, delta=draft.delta)
        return cls(ridge=ridge, calibration=calibration, **public)


@dataclass(frozen=True, kw_only=True)
class PoissonProjection(RandomProjection):
    """The projection of a Poisson sample: each record enters on its own with probability `rate`.

    Sampling makes the ridge smaller and the estimates noisier by the sample (alg:subsampled-wrapper-rp). The profile is
    exact: `PrivacyProfile.subsampled`, both orders (thm:subsampling RP-mech-DP). A record enters with a probability of
    at most `rate`, which can only be more private: the output at rate a·q is that at rate q with probability a and that
    without the record otherwise, and δ is jointly convex.

    Only for "add-remove": when one record is replaced, the output is a mixture under both data sets, with one common
    part, and its δ is not that of two Gaussians.

    Parameters
    ----------
    rate : float
        q, above δ, at least 2⁻⁴⁰ and at most 1.

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

    def _check(self) -> None:
        super()._check()
        object.__setattr__(self, "rate", _as_rate(self.rate, self.adjacency, self.delta))

    @classmethod
    def calibrated(  # type: ignore[override]
        cls,
        *,
        epsilon: float,
        delta: float,
        sketch_size: int,
        row_norm_bound: float,
        rate: float,
        adjacency: Adjacency = "add-remove",
        target_bound: float | None = None,
        intercept: float | None = None,
        fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
        calibration: str = "exact",
    ) -> Self:
        """The mechanism with the smallest ridge for a budget; as `RandomProjection.calibrated`, with `rate`."""
        return cls._calibrate(
            calibration,
            epsilon=epsilon,
            delta=delta,
            sketch_size=sketch_size,
            row_norm_bound=row_norm_bound,
            rate=rate,
            adjacency=adjacency,
            target_bound=target_bound,
            intercept=intercept,
            fractional_bits=fractional_bits,
        )

    def _family(self) -> SketchFamily:
        bounds = tuple(group.bound for group in self._layout().groups)
        return SketchFamily(bounds, self.sketch_size, self.adjacency, rate=self.rate)

    def _sample(self, bits: Any) -> Any:
        from ndis.gram.poisson import PoissonRows

        return PoissonRows(self.rate, bits)


def _as_rows(data: Any) -> Any:
    """A list of rows as an array, NaN for an entry that is no number; anything else as it is."""
    if not isinstance(data, list) or any(isinstance(row, str | os.PathLike) for row in data):
        return data
    if not data:
        remedy = "without rows, np.empty((0, columns)) says how many columns there are"
        raise ParameterError("data", "show its columns", "an empty list", remedy)
    from ndis.gram.cells import nested_cells

    return nested_cells("data", data)


def _as_rate(value: Any, adjacency: Adjacency, delta: float) -> float:
    if adjacency != "add-remove":
        raise ParameterError(
            "adjacency",
            "be 'add-remove' with Poisson sampling",
            repr(adjacency),
            "a replaced record leaves a mixture on both sides, which is no pair of Gaussians",
        )
    rate = as_scalar("rate", value)
    if not delta < rate <= 1:
        raise ParameterError("rate", "be above delta and at most 1", rate, "at a rate of delta no ridge is needed")
    if not rate >= LEAST_RATE:
        remedy = "rows enter at a multiple of 2^-64, which must be near the rate that estimates divide by"
        raise ParameterError("rate", "be at least 2^-40", rate, remedy)
    return rate
