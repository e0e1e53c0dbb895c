"""Private random projection: a sketch with the law of DᵀG and a public ridge (def:grp, alg::RP mechanism).

The r rows of the sketch are independent draws from N(0, DᵀD + λI). Rows of the data are clipped to norm l, and the
ridge λ is public. This is the law of L·Z with LLᵀ = DᵀD + λI: one pass over the data, then d·r normals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Self

from ndis._json import only_keys
from ndis._search import budget, first_safe_epsilon
from ndis._validate import Adjacency, as_scalar
from ndis.errors import ParameterError
from ndis.gram import Gram
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS
from ndis.gram.poisson import LEAST_RATE, PoissonRows
from ndis.mechanisms.mechanism import Attained, settle
from ndis.mechanisms.releases import ProjectionRelease, draw_release, loadable
from ndis.mechanisms.rows import RowMechanism, bounds_of, row_bounds
from ndis.mechanisms.sketch_law import ProjectionLaw, as_calibration, calibrated_ridge, certified_delta
from ndis.noise.bits import RandomBits
from ndis.profile import PrivacyProfile

__all__ = ["PoissonProjection", "RandomProjection", "SketchMechanism"]


@dataclass(frozen=True, kw_only=True)
class SketchMechanism(RowMechanism[ProjectionRelease]):
    """What the three projections share: the public parameters of a sketch, a certified budget, and the release."""

    sketch_size: int
    row_norm_bound: float
    ridge: float
    adjacency: Adjacency = "add-remove"
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    calibration: str = "exact"

    def __post_init__(self, epsilon: float, delta: float) -> None:
        target = budget(epsilon, delta)
        law = self._law_of({**self._parameters(), "delta": target[1]})
        settle(
            self,
            target,
            "ridge",
            lambda epsilon: certified_delta(law, epsilon),
            remedy="calibrated() finds a ridge for a budget, with_ridge() the budget of a ridge",
            calibration=as_calibration(self.calibration),
            **{name: getattr(law, name) for name in _LAW},
            **self._own(law),
        )

    def _own(self, law: ProjectionLaw) -> dict[str, Any]:
        """The checked parameters that only this kind of projection has."""
        return {}

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
        **own: Any,
    ) -> Self:
        """The mechanism with the smallest ridge for a budget, to about twelve digits (alg::RP mechanism, corrected).

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
        own
            The parameters that only this class has: `rate`, or `test_noise_std` and `failure_probability`.

        Raises
        ------
        BudgetError
            If no ridge meets the budget.
        """
        if as_calibration(calibration) == "given":
            raise ParameterError("calibration", "be a way to find a ridge", "'given'", "with_ridge() takes a ridge")
        epsilon, delta = budget(epsilon, delta)
        bounds = bounds_of(row_bounds(row_norm_bound, target_bound, intercept, fractional_bits))
        public: dict[str, Any] = {"sketch_size": sketch_size, "adjacency": adjacency, **bounds}
        public |= cls._chosen(public, own, epsilon, delta)
        law = cls._law_of({**public, "ridge": 1.0, "delta": delta})
        ridge = calibrated_ridge(law, calibration, epsilon=epsilon, delta=delta)
        return cls(ridge=ridge, epsilon=epsilon, delta=delta, calibration=calibration, **public)

    @classmethod
    def _chosen(cls, public: dict[str, Any], own: dict[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
        """The parameters that only this kind has, as given or as chosen from public numbers."""
        return own

    @classmethod
    def with_ridge(cls, *, ridge: float, delta: float, **public: Any) -> Self:
        """The mechanism with this ridge. Its `target_epsilon` is what the certified profile gives at `delta`.

        >>> import ndis
        >>> mechanism = ndis.RandomProjection.with_ridge(ridge=20.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
        >>> round(mechanism.target_epsilon, 6)
        1.861698
        """
        _, delta = budget(0.0, delta)
        law = cls._law_of({**public, "ridge": ridge, "delta": delta})
        epsilon = first_safe_epsilon(law.profile().certified_epsilon(delta), lambda e: certified_delta(law, e), delta)
        return cls(ridge=law.ridge, delta=delta, epsilon=epsilon, calibration="given", **public)

    # ------------------------------------------------------------------ the guarantee

    @property
    def law(self) -> ProjectionLaw:
        """The law of the sketch, which the auditor asks for."""
        return self._law_of({**self._parameters(), "delta": self.target_delta})

    def _parameters(self) -> dict[str, Any]:
        """Return every parameter but the budget."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    @classmethod
    def _law_of(cls, values: Mapping[str, Any]) -> ProjectionLaw:
        """The law of a mechanism with these parameters, all but the budget needed."""
        names = {one.name: one.default is MISSING for one in fields(cls) if one.init} | {"delta": True}
        missing = [name for name, needed in names.items() if needed and name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            what = f"needs {', '.join(missing)}" if missing else f"has no {', '.join(unknown)}"
            raise TypeError(f"{cls.__name__} {what}")
        return ProjectionLaw(**{name: values[name] for name in _LAW if name in values})

    @property
    def leverage(self) -> float:
        """h = l²/λ: the most that one record may have against all others. The paper's p is h/(1+h) (def: leverage)."""
        return float(self.law.squared_bound) / self.ridge

    def profile(self) -> PrivacyProfile:
        """The guarantee at every ε, exactly: the worst neighbours are known (thm:RP-mech-DP)."""
        return self.law.profile()

    def attained(self) -> tuple[Attained, ...]:
        """Neighbours on which the output has these exact profiles; see `ProjectionLaw.attained`."""
        return self.law.attained()

    # ------------------------------------------------------------------ the release

    def _draw(
        self, gram: Gram, bits: RandomBits, *, stated: Mapping[str, Any], progress: bool | None
    ) -> ProjectionRelease:
        return draw_release(self, gram, ridge=self.ridge, bits=bits, released=stated, progress=progress)

    def ridge_in(self, released: Mapping[str, Any]) -> float:
        """The ridge of a release, from the values in its receipt that came out with the sketch."""
        only_keys("parameters of the receipt", released, ("released_ridge",))
        return self.ridge


_LAW = (
    "sketch_size",
    "ridge",
    "row_norm_bound",
    "target_bound",
    "intercept",
    "fractional_bits",
    "adjacency",
)  # the parameters that a mechanism shares with its law


@loadable
@dataclass(frozen=True, kw_only=True)
class RandomProjection(SketchMechanism):
    """A sketch of r synthetic rows with the second moments of the data, (ε, δ)-private (thm:RP-mech-DP).

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
        How the ridge was found.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
    >>> round(mechanism.ridge, 6), round(mechanism.profile().epsilon(1e-9), 6)
    (35.540172, 1.398659)
    """


@loadable
@dataclass(frozen=True, kw_only=True)
class PoissonProjection(SketchMechanism):
    """The projection of a Poisson sample: each record enters on its own with probability `rate`.

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

    def _own(self, law: ProjectionLaw) -> dict[str, Any]:
        return {"rate": law.rate}

    @classmethod
    def _law_of(cls, values: Mapping[str, Any]) -> ProjectionLaw:
        law = super()._law_of(values)
        return replace(law, rate=_as_rate(values["rate"], law.adjacency, values["delta"]))

    def _sample(self, bits: RandomBits) -> PoissonRows:
        return PoissonRows(self.rate, bits)


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
