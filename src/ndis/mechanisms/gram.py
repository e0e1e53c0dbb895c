"""Release XᵀX of clipped rows plus symmetric Gaussian noise of the smallest scale.

One record moves XᵀX by xxᵀ, so neighbours are a mean shift of at most l²/s. For a replaced record the shift is at most
√2·l²/s, and orthogonal rows at the bound attain it. The proof is thm:gram-mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ndis._exact import root_down, root_up
from ndis._files import only_keys
from ndis._validate import Adjacency, as_adjacency, as_one_probability, as_within, require
from ndis.errors import ParameterError
from ndis.gram import DEFAULT_FRACTIONAL_BITS, Gram, RowLayout
from ndis.mechanisms.gaussian import GaussianMechanism, shift_profile
from ndis.mechanisms.mechanism import Attained, Receipt, mechanism_of, receipt_of, settle
from ndis.mechanisms.releases import GaussianRelease, MomentEstimates, check_columns
from ndis.mechanisms.rows import RowMechanism, bounds_of, row_bounds
from ndis.noise import grid_for
from ndis.noise.bits import RandomBits
from ndis.noise.gaussian import exact_symmetric
from ndis.profile import PrivacyProfile


@dataclass(frozen=True, kw_only=True)
class GramMechanism(RowMechanism["GramRelease"]):
    """Releases the Gram matrix of the rows with symmetric Gaussian noise, (ε, δ)-private.

    Make one with `calibrated`, which finds the least noise for a budget. Or use `with_noise`, which finds the budget of
    a noise level. The constructor refuses noise that does not meet its ε and δ with a certificate.

    Parameters
    ----------
    noise_std : float
        s: the standard deviation on the diagonal; off the diagonal it is s/√2.
    row_norm_bound : float
        Public bound on the Euclidean norm of the features of a row; the mechanism clips longer rows.
    epsilon, delta : float
        The guarantee.
    adjacency : str
        "add-remove" (one record more or less) or "replace-one" (one record exchanged).
    target_bound : float, optional
        Public bound of the target columns, if there are any. Their square adds to l², and so to the noise.
    intercept : float, optional
        Value of a constant column to append. Its square adds to l² too.
    fractional_bits : int
        k: rows are rounded onto the grid bound·2⁻ᵏ.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=2.0)
    >>> round(mechanism.noise_std, 6), round(mechanism.profile().epsilon(1e-6), 9)
    (16.898716, 1.0)
    """

    noise_std: float
    row_norm_bound: float
    adjacency: Adjacency = "add-remove"
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS

    def __post_init__(self, epsilon: float, delta: float) -> None:
        settle(
            self,
            (epsilon, delta),
            "noise_std",
            remedy="calibrated() finds one for a budget, with_noise() the budget of a noise level",
            noise_std=as_within("noise_std", self.noise_std, 200),
            adjacency=as_adjacency(self.adjacency),
            **bounds_of(self._row_layout),
        )

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float,
        row_norm_bound: float,
        adjacency: Adjacency = "add-remove",
        target_bound: float | None = None,
        intercept: float | None = None,
        fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
    ) -> Self:
        """Find the least noise for a budget, to about twelve digits; parameters as in the class."""
        layout = row_bounds(row_norm_bound, target_bound, intercept, fractional_bits)
        bound = root_up(squared_sensitivity(layout, as_adjacency(adjacency)))
        scale = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=bound).noise_std
        return cls(noise_std=scale, epsilon=epsilon, delta=delta, adjacency=adjacency, **bounds_of(layout))

    @classmethod
    def with_noise(cls, *, noise_std: float, delta: float, **public: Any) -> Self:
        """Make the mechanism with this noise. Its `target_epsilon` is what the certified profile gives at `delta`.

        >>> import ndis
        >>> mechanism = ndis.GramMechanism.with_noise(noise_std=10.0, delta=1e-6, row_norm_bound=2.0)
        >>> round(mechanism.target_epsilon, 6)
        1.765648
        """
        like = cls.calibrated(epsilon=1.0, delta=delta, **public)  # checks the parameters, and knows the sensitivity
        alone = GaussianMechanism.with_noise(noise_std=noise_std, delta=delta, sensitivity=like.sensitivity)
        return replace(like, noise_std=alone.noise_std, epsilon=alone.target_epsilon, delta=delta)

    # ------------------------------------------------------------------ the guarantee

    @property
    def sensitivity(self) -> float:
        """Return how far neighbours may differ in Frobenius norm, rounded up: l², or √2·l² for a replaced record."""
        return root_up(squared_sensitivity(self._row_layout, self.adjacency))

    def profile(self) -> PrivacyProfile:
        """Return the guarantee at every ε, exactly: the worst neighbours are known."""
        squared = squared_sensitivity(self._row_layout, self.adjacency)
        return shift_profile(root_up(squared / Fraction(self.noise_std) ** 2), self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """List neighbours on which the output has these exact profiles.

        For "replace-one" these are two rows at the bound, as near to orthogonal as the grid, the targets and the
        constant allow. In one column a row at the bound against a zero row is the worst.
        """
        layout = self._row_layout
        alone = layout.joint_norm_bound_squared**2
        if self.adjacency == "add-remove":
            return (self._neighbours("no rows, and one row at the bound", alone),)
        zero = self._neighbours("one row at the bound, and one row that cannot be read", alone)
        columns = "two" if self.target_bound is None and self.intercept is None else "five"
        both = f"two rows at the bound, orthogonal as far as the bounds allow ({columns} or more feature columns)"
        return zero, self._neighbours(both, two_rows(layout))

    # ------------------------------------------------------------------ the release

    def _draw(self, gram: Gram, bits: RandomBits, *, stated: Mapping[str, Any], progress: bool | None) -> GramRelease:
        sample = exact_symmetric(gram.exact(ridge=0), noise_std=self.noise_std, random_state=bits)
        released = {"names": list(gram.layout.names), "targets": gram.layout.targets, "grid": sample.grid, **stated}
        return GramRelease(sample.values, receipt_of(self, private=sample.private, released=released))

    # ------------------------------------------------------------------ inside

    def _neighbours(self, words: str, squared_distance: Fraction) -> Attained:
        shift = root_down(squared_distance / Fraction(self.noise_std) ** 2)
        return Attained(words, shift_profile(shift, self.adjacency))


# ---------------------------------------------------------------------- symmetric noise


def squared_sensitivity(layout: RowLayout, adjacency: Adjacency) -> Fraction:
    """Return l⁴, or 2l⁴ for a replaced record."""
    return layout.joint_norm_bound_squared**2 * (1 if adjacency == "add-remove" else 2)


def two_rows(layout: RowLayout) -> Fraction:
    """Compute ‖xxᵀ − yyᵀ‖_F² of two legal integer rows, as large as a simple choice makes it.

    x has its features along the first axis. y has the target reversed, and a first entry that brings xᵀy as near to 0
    as the grid allows. The other features of y take its norm to the bound exactly: by Lagrange's theorem four squares
    of integers are enough, so five features are. Without targets and constant the first entry is 0, and two are.
    """
    full, step = 1 << layout.fractional_bits, layout.steps[0]
    whole, constant = layout.joint_norm_bound_squared, Fraction(layout.intercept or 0) ** 2
    target = Fraction(layout.target_bound or 0) ** 2
    wanted = (target - constant) / (step**2 * full)  # the first entry of y, in steps, with which xᵀy = 0
    first = max(-full, min(full, round(wanted)))
    product = step**2 * full * first - target + constant
    return 2 * whole**2 - 2 * product**2


# ---------------------------------------------------------------------- the release


@dataclass(frozen=True, eq=False)
class GramRelease(GaussianRelease, MomentEstimates):
    """A noisy Gram matrix and everything that the public may know about it.

    Anything computed from it is just as private. `save` writes one JSON file. `load` makes the mechanism of the
    receipt again, and so certifies it.

    Attributes
    ----------
    values : (d, d) array
        DᵀD of the clipped rows plus symmetric noise, rounded to a public grid. Symmetric, read-only.
    receipt : Receipt
    mechanism : GramMechanism
        The mechanism of the receipt.

    Examples
    --------
    >>> import tempfile, numpy as np, ndis
    >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0, intercept=1.0)
    >>> release = mechanism.release(np.eye(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/gram.json")
    ...     bool((GramRelease.load(f"{folder}/gram.json").values == release.values).all())
    True
    """

    mechanism: GramMechanism = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        mechanism = _mechanism(self.receipt)
        object.__setattr__(self, "mechanism", mechanism)
        shape = self.values.shape
        if len(shape) != 2 or shape[0] != shape[1] or not np.isfinite(self.values).all():
            raise ParameterError("values", "be a finite square matrix", f"shape {shape}")
        require(np.array_equal(self.values, self.values.T), "values", "be symmetric", "an asymmetric matrix")
        check_columns("values", self.values, mechanism, targets=self.targets, names=len(self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.values, self.receipt)  # so that a copy is read-only too

    def __repr__(self) -> str:
        seeded = "" if self.private else "NOT private, "
        return f"GramRelease({len(self.values)} columns, {seeded}{self.mechanism!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, empty if the data had none."""
        return tuple(self.receipt.parameters["names"])

    @property
    def targets(self) -> int:
        """Count the target columns, which stand behind the features."""
        return int(self.receipt.parameters["targets"])

    @property
    def noise_variance(self) -> float:
        """Return s², the variance on the diagonal; off the diagonal it is half of that."""
        return self.mechanism.noise_std**2

    def gram(self) -> NDArray[np.float64]:
        """Return the released matrix, unbiased for DᵀD of the clipped rows. Not always positive semi-definite."""
        return self.values.copy()

    def error_bound(self, confidence: float = 0.95) -> float:
        """Bound ‖gram() − DᵀD‖ with probability at least `confidence`, from public values only.

        The noise is s·(G + Gᵀ)/2, with G of independent standard normals. Its largest eigenvalue has a mean of at
        most s·√(2d), by comparison with √2·gᵀx (Sudakov and Fernique), and it is s-Lipschitz in the normals. So

            P(‖noise‖ > s·(√(2d) + √(2·ln(2/β)))) ≤ β.

        The bound allows for rounding to the grid. DᵀD is that of the clipped and rounded rows; the bound does not
        cover the clipping.
        """
        beta = 1.0 - as_one_probability("confidence", confidence)
        s, d = self.mechanism.noise_std, len(self.values)
        return s * (math.sqrt(2.0 * d) + math.sqrt(2.0 * math.log(2.0 / beta))) + 0.5 * grid_for(s) * d


def _mechanism(receipt: Receipt) -> GramMechanism:
    """Make the mechanism of a receipt, certified."""
    mechanism: GramMechanism
    mechanism, released = mechanism_of(receipt, {GramMechanism.__name__: GramMechanism})
    only_keys("parameters of the receipt", released, ("names", "targets", "grid"))
    names, targets = released["names"], released["targets"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ParameterError("names of the receipt", "be a list of names", type(names).__name__)
    if type(targets) is not int or targets < 0:
        raise ParameterError("targets of the receipt", "be a number of columns", repr(targets))
    if released["grid"] != grid_for(mechanism.noise_std):
        raise ParameterError("grid of the receipt", "be that of its noise", repr(released["grid"]))
    return mechanism
