"""Make several Gaussian releases of one fit in one budget: matrices, sums of clipped terms, and counts.

Each release has a share of the squared shift, fixed in advance. Its noise is its sensitivity over μ₀·√share. So the
shift that it allows does not depend on its clip, and a clip, a θ or a grid may depend on earlier outputs. Given these,
the next pair is a mean shift of known size. Mean shifts compose to √(Σ shift²), adaptively too (thm:rounds). Shares of
later releases may depend on earlier outputs as well, if their sum stays the same (`reshared`, thm:rounds-chosen).

Every share counts whole, and μ = μ₀·√(Σ shares). If one record is added or removed, a record that reaches every bound
attains this. A matrix Σ zzᵀ may have rows in coordinates that earlier outputs chose (thm:centred-rows), rows of norm at
most l/2 as in the Hessian of a logistic loss, or clipped terms. A row of norm at most b moves it by b², or by √2·b² if
a record is replaced (thm:rounds-weighted). A replaced record moves a sum of terms of norm at most C by 2C.

This is not a mechanism for arbitrary functions: the terms are those of `ndis.gram.sums`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from ndis._exact import root_down, root_up
from ndis._validate import Adjacency, as_adjacency, as_scalar, as_within, require
from ndis.errors import ParameterError
from ndis.gram import Gram
from ndis.gram.sums import TermSums
from ndis.mechanisms.gaussian import GaussianMechanism, shift_profile
from ndis.mechanisms.mechanism import Attained, CertifiedMechanism, settle
from ndis.noise import ExactSample, exact_normal
from ndis.noise.gaussian import exact_symmetric
from ndis.profile import PrivacyProfile

_MANY = ("sum_shares", "count_shares", "matrix_shares")
_HALF_ROW = (1 - Fraction(1, 1 << 8)) ** 4  # what truncation leaves of such a row's square, at the coarsest grid


@dataclass(frozen=True, kw_only=True)
class GaussianRounds(CertifiedMechanism):
    """Divides the budget of one fit among its releases.

    Make one with `calibrated`. The constructor refuses noise that does not meet its ε and δ with a certificate.

    Parameters
    ----------
    shift : float
        μ₀: a release with share q has noise of sensitivity/(μ₀·√q).
    sum_shares, count_shares : tuple of float
        The shares of the sums of clipped terms and of the counts, one per release. All shares add up to at most 1.
    epsilon, delta : float
        The guarantee for all releases together.
    adjacency : str
    matrix_shares : tuple of float
        The shares of matrices Σ zzᵀ, one per release.

    Examples
    --------
    >>> rounds = GaussianRounds.calibrated(
    ...     epsilon=1.0, delta=1e-6, matrix_shares=[0.25], sum_shares=[0.25, 0.25], count_shares=[0.125, 0.125]
    ... )
    >>> round(rounds.shift, 6), round(rounds.sum_noise(0, clip=0.5), 6)
    (0.236704, 4.224679)
    >>> rounds.profile().certify(1.0).upper <= 1e-6
    True
    """

    shift: float
    sum_shares: tuple[float, ...] = ()
    count_shares: tuple[float, ...] = ()
    adjacency: Adjacency = "add-remove"
    matrix_shares: tuple[float, ...] = ()

    def __post_init__(self, epsilon: float, delta: float) -> None:
        many: dict[str, Any] = {name: tuple(as_scalar(name, q) for q in getattr(self, name)) for name in _MANY}
        settle(
            self,
            (epsilon, delta),
            "shift",
            remedy="calibrated() finds one for a budget",
            shift=as_within("shift", self.shift, 100),
            adjacency=as_adjacency(self.adjacency),
            **many,
        )

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove", **shares: Any) -> Self:
        """Find the largest μ₀, and so the least noise, for a budget and the shares of the class."""
        bound = root_up(_total(shares))
        noise = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=bound).noise_std
        shift = root_down(1 / Fraction(noise) ** 2)
        return cls(shift=shift, epsilon=epsilon, delta=delta, adjacency=adjacency, **shares)

    # ------------------------------------------------------------------ the guarantee

    def profile(self) -> PrivacyProfile:
        """Return the guarantee of all releases together, at every ε."""
        return shift_profile(root_up(self._squared(self._total())), self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """Neighbours on which all releases together have this profile, or nearly.

        If a record is replaced, matrices are left out: without them the pair is no easier to tell apart.
        """
        matrices = sum(map(Fraction, self.matrix_shares), Fraction(0))
        others = self._total() - matrices
        if self.adjacency == "add-remove":
            words, reached = "no rows, and one row that reaches every bound", others + matrices * _HALF_ROW
        else:
            words, reached = "a row that reaches every bound, and an opposite one, with terms at every clip", others
        return (Attained(words, shift_profile(root_down(self._squared(reached)), self.adjacency)),)

    def reshared(self, made: int, **shares: Sequence[float]) -> Self:
        """Return the budget with other shares for all releases but the first `made` counts, which keep theirs.

        The shares may depend on these counts: the shift of all releases together stays the same (thm:rounds-chosen).

        >>> rounds = GaussianRounds.calibrated(epsilon=1.0, delta=1e-6, sum_shares=[0.5], count_shares=[0.25, 0.25])
        >>> other = rounds.reshared(1, sum_shares=[0.25, 0.5], count_shares=[0.25])
        >>> other.shift == rounds.shift, other.sum_shares
        (True, (0.25, 0.5))
        """
        other = copy(self)  # the certificate stays: only the sum of all shares counts
        for name in _MANY:
            each = shares.get(name, getattr(self, name))
            object.__setattr__(other, name, tuple(as_scalar(name, q) for q in each))
        kept = shares.keys() <= set(_MANY) and other.count_shares[:made] == self.count_shares[:made]
        if not kept or other._total() > self._total():
            raise ParameterError("shares", "keep those of counts that were made, and add up to no more", shares)
        return other

    # ------------------------------------------------------------------ the releases

    def matrix_noise(self, index: int, squared_norm_bound: Fraction) -> float:
        """s for a matrix Σ zzᵀ of rows with ‖z‖² ≤ `squared_norm_bound`, as `RowLayout.joint_norm_bound_squared`."""
        doubled = 1 if self.adjacency == "add-remove" else 2
        return self._noise(self.matrix_shares[index], squared_norm_bound**2 * doubled)

    def sum_noise(self, index: int, *, clip: float) -> float:
        """The noise of a sum of terms clipped to `clip`."""
        return self._noise(self.sum_shares[index], Fraction(clip) ** 2 * (1 if self.adjacency == "add-remove" else 4))

    def count_noise(self, index: int, *, squared_reach: Fraction | int = 1) -> float:
        """The noise of counts that one record moves by at most √`squared_reach` in norm.

        `squared_reach` is 1 for one count. It is 1 for a histogram, or 2 if a record is replaced.
        """
        return self._noise(self.count_shares[index], Fraction(squared_reach))

    def release_matrix(self, index: int, gram: Gram, *, random_state: Any = None) -> ExactSample:
        """A matrix with its noise; the layout of its rows has their bounds."""
        noise = self.matrix_noise(index, gram.layout.joint_norm_bound_squared)
        return exact_symmetric(gram.exact(ridge=0), noise_std=noise, random_state=random_state)

    def release_sum(self, index: int, sums: TermSums, *, random_state: Any = None) -> ExactSample:
        """The sum of clipped terms with its noise."""
        return exact_normal(sums.total, noise_std=self.sum_noise(index, clip=sums.clip), random_state=random_state)

    def release_count(
        self, index: int, counts: Any, *, squared_reach: Fraction | int = 1, random_state: Any = None
    ) -> ExactSample:
        """Counts, integers or an `ExactArray`, with their noise."""
        noise = self.count_noise(index, squared_reach=squared_reach)
        return exact_normal(counts, noise_std=noise, random_state=random_state)

    def to_dict(self) -> dict[str, Any]:
        """Return the public parameters, for a receipt."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.arguments().items()}

    # ------------------------------------------------------------------ inside

    def _total(self) -> Fraction:
        return _total({name: getattr(self, name) for name in _MANY})

    def _squared(self, exposure: Fraction) -> Fraction:
        return Fraction(self.shift) ** 2 * exposure

    def _noise(self, share: float, squared_sensitivity: Fraction) -> float:
        require(share > 0, "share", "be positive for a release that is made", share)
        return root_up(squared_sensitivity / self._squared(Fraction(share)))


def _total(shares: Mapping[str, Sequence[float]]) -> Fraction:
    """Add up all shares, exactly: the squared shift over μ₀² that one record can cause in all releases together."""
    every = [q for many in shares.values() for q in many]
    if not all(0 <= as_scalar("shares", q) <= 1 for q in every) or not any(every):
        raise ParameterError("shares", "be from 0 to 1, and one of them positive", every)
    total = sum(map(Fraction, every), Fraction(0))
    require(total <= 1 + Fraction(1, 1 << 40), "shares", "add up to at most 1", float(total))
    return total
