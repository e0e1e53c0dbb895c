"""A pair of Gaussians has a δ(ε): how well a test can distinguish them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ndis._search import reverse_shift
from ndis._validate import (
    Floats,
    as_count,
    as_counts,
    as_covariance,
    as_floats,
    as_fractions,
    as_positive,
    as_probability,
    as_reals,
    as_scalar,
    as_vector,
    broadcast_vectors,
    broadcasts,
    exponential,
    frozen,
    require,
    shaped,
)
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.spectrum import certified, evaluate
from ndis.spectrum import origins as given
from ndis.spectrum.invariants import LEAST_SHIFT
from ndis.spectrum.loss import LogMoment, canonical_form, log_moment, supremum
from ndis.spectrum.origins import Origin, Rounded
from ndis.spectrum.whitening import invariants_of_diagonal, invariants_of_low_rank, invariants_of_moments

__all__ = ["LEAST_SHIFT", "GaussianPair", "Origin"]

Rationals = int | float | Fraction | Sequence[int | float | Fraction] | Floats

_ARRAYS = ("variance_ratio", "shift", "copies", "excess")
_LEAST_EXCESS = 1e-300  # a smaller one is no normal float


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPair:
    """An ordered pair of Gaussians, p from q, is known by its invariants (def:invariants).

    Make one with `from_moments`, `from_diagonal`, `from_low_rank`, `from_ratios` or `from_excess`.

    Attributes
    ----------
    variance_ratio : array
        Variances τ of p in the coordinates in which q is standard normal.
    shift : array
        Mean shifts m in those coordinates.
    copies : array
        Number of independent coordinates that share each (ratio, shift).
    dimension : int
        Number of coordinates, including those on which the two laws agree.
    excess : array
        t = τ − 1, formed without cancellation.
    mutually_singular : bool
        True if the two laws live on different subspaces. Then δ(ε) = 1 for every ε.
    uncertainty : float
        The relative error of the loss that float64 whitening of dense input may have caused. It is 0 if the invariants
        are exact to the last digit. `epsilon` allows for it.
    origins : tuple of Origin
        The exact inputs; empty if they are not known.

    Examples
    --------
    >>> import ndis
    >>> cov_p, cov_q = [[2.0, 0.3], [0.3, 1.0]], [[1.0, 0.0], [0.0, 1.5]]
    >>> pair = ndis.GaussianPair.from_moments([0.0, 1.0], cov_p, [0.0, 0.0], cov_q)
    >>> round(pair.delta(1.0), 12)
    0.104310352051
    >>> round(pair.reversed().delta(1.0), 12)
    0.194768717623
    """

    variance_ratio: Floats
    shift: Floats
    copies: Floats
    dimension: int
    excess: Floats
    mutually_singular: bool = False
    uncertainty: float = 0.0
    origins: tuple[Origin, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        m = self.shift
        # Reject NaN here; every constructor passes this check.
        for name, rule, good in (
            ("variance_ratio", "be positive and finite", (self.variance_ratio > 0) & np.isfinite(self.variance_ratio)),
            ("excess", "be at least -1 and finite", (self.excess >= -1) & np.isfinite(self.excess)),
            ("copies", "be at least 1 and finite", (self.copies >= 1) & np.isfinite(self.copies)),
            ("shift", "be finite in standard deviations of q", np.isfinite(self.shift)),
            ("shift", f"be 0 or at least {LEAST_SHIFT} standard deviations of q", (m == 0) | (abs(m) >= LEAST_SHIFT)),
        ):
            if not good.all():
                raise ParameterError(name, rule, getattr(self, name)[~good][:4])

    def __repr__(self) -> str:
        arrays = {name: getattr(self, name) for name in ("variance_ratio", "shift", "copies")}
        brief = {k: np.array2string(a, threshold=6, edgeitems=2, separator=", ") for k, a in arrays.items()}
        shown = ", ".join(f"{k}={text}" for k, text in brief.items()) + f", dimension={self.dimension}"
        return f"GaussianPair({shown}{', mutually_singular=True' * self.mutually_singular})"

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_ratios(cls, variance_ratio: ArrayLike, shift: ArrayLike = 0.0, copies: ArrayLike = 1) -> GaussianPair:
        """Make the pair N(shift, diag variance_ratio) against N(0, I), already whitened; `copies` are multiplicities.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios([1.02], copies=[100]).dimension
        100
        """
        ratio, m, n = broadcast_vectors(
            variance_ratio=as_positive("variance_ratio", variance_ratio),
            shift=as_vector("shift", shift),
            copies=as_counts("copies", copies),
        )
        require(ratio.size != 0, "variance_ratio", "have at least one entry", "none")
        return cls(ratio, m, n, int(n.sum()), ratio - 1.0, origins=(given.RatioOrigin((ratio, m, n)),))

    @classmethod
    def from_excess(cls, excess: Rationals, shift: Rationals = 0, copies: ArrayLike = 1) -> GaussianPair:
        """Make the pair with variance ratios 1 + excess, already whitened; `Fraction` values are taken exactly.

        Neighbours differ little: 1 + t as a float loses digits of t. Certificates start from the exact numbers given.
        `shift` as floats is rounded away from 0.

        >>> import ndis
        >>> from fractions import Fraction
        >>> pair = ndis.GaussianPair.from_excess(Fraction(1, 3), copies=100)
        >>> pair.delta(1.0) in pair.certify(1.0, relative_width=1e-15)
        True
        """
        t, m = as_fractions("excess", excess), as_fractions("shift", shift)
        n = as_counts("copies", copies)
        if not all(x > -1 for x in t):
            raise ParameterError("excess", "be above -1", str(min(t)))
        if not all(x == 0 or max(x, -x) >= _LEAST_EXCESS for x in t):
            raise ParameterError("excess", f"be 0 or at least {_LEAST_EXCESS} in size", "a smaller one")
        size = max(len(t), len(m), n.size)
        if not all(k in (1, size) for k in (len(t), len(m), n.size)) or size == 0:
            lengths = f"{len(t)}, {len(m)} and {n.size}"
            raise ParameterError("excess, shift and copies", "have one length of at least 1 (or length 1)", lengths)
        t, m, n = t * (size // len(t)), m * (size // len(m)), n if n.size == size else np.full(size, n[0])
        origin = given.ExcessOrigin((np.array(t, dtype=object), np.array(m, dtype=object), np.array(n)))
        return cls._rounded(origin.rounded(), int(n.sum()), origin)

    @classmethod
    def from_diagonal(cls, mean_p: ArrayLike, var_p: ArrayLike, mean_q: ArrayLike, var_q: ArrayLike) -> GaussianPair:
        """Make the pair of Gaussians with independent coordinates from means and variances, vectors or scalars.

        A variance of zero in both laws fixes that coordinate. If only one variance is zero, or if the fixed means
        differ, the laws are mutually singular.

        >>> import ndis
        >>> ndis.GaussianPair.from_diagonal([1.0, 0.0], [4.0, 1.0], [0.0, 0.0], [2.0, 1.0]).variance_ratio
        array([2., 1.])
        """
        numbers = {"mean_p": mean_p, "var_p": var_p, "mean_q": mean_q, "var_q": var_q}
        mu_p, v_p, mu_q, v_q = broadcast_vectors(**{name: as_vector(name, x) for name, x in numbers.items()})
        require(mu_p.size != 0, "mean_p", "have at least one entry", "none")
        for name, v in (("var_p", v_p), ("var_q", v_q)):
            require((v >= 0).all(), name, "be non-negative", v)
        origin = given.DiagonalOrigin((mu_p, v_p, mu_q, v_q))
        return cls._rounded(invariants_of_diagonal(origin), mu_p.size, origin)

    @classmethod
    def from_moments(cls, mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> GaussianPair:
        """Make the pair N(mean_p, cov_p) against N(mean_q, cov_q); scalars are accepted in one dimension.

        Singular covariances are accepted. If both have the same range and it holds the mean shift, the pair lives
        inside that range. Otherwise the laws are mutually singular. Only (Σ+Σᵀ)/2 is used, and an asymmetry beyond
        rounding is refused.

        >>> import ndis
        >>> ndis.GaussianPair.from_moments(1.0, 4.0, 0.0, 2.0).variance_ratio
        array([2.])
        """
        mu_p, mu_q, d = _means(mean_p, mean_q)
        sigma_p, sigma_q = as_covariance("cov_p", cov_p, d), as_covariance("cov_q", cov_q, d)
        origin = given.DenseOrigin((mu_p, sigma_p, mu_q, sigma_q))
        return cls._rounded(invariants_of_moments(origin), d, origin)

    @classmethod
    def from_low_rank(
        cls,
        mean_p: ArrayLike,
        mean_q: ArrayLike,
        cov_q: ArrayLike,
        factor: ArrayLike,
        *,
        sign: int = 1,
        cholesky_q: ArrayLike | None = None,
    ) -> GaussianPair:
        """Make the pair with cov_p = cov_q + sign·F Fᵀ, F = `factor` of shape (d, k).

        It takes O(d²k) operations once the Cholesky factor is known. To share the lower Cholesky factor of cov_q
        between many neighbours of one data set, pass it as `cholesky_q`.

        >>> import numpy as np, ndis
        >>> pair = ndis.GaussianPair.from_low_rank([0, 0, 0], [0, 0, 0], np.eye(3), [[0.0], [0.3], [0.4]])
        >>> pair.variance_ratio.round(12), pair.copies
        (array([1.25, 1.  ]), array([1., 2.]))
        """
        mu_p, mu_q, d = _means(mean_p, mean_q)
        f = as_floats("factor", factor)
        f = f[:, None] if f.ndim == 1 else f
        require(f.ndim == 2 and f.shape[0] == d, "factor", f"have shape ({d}, k)", f"shape {f.shape}")
        require(as_scalar("sign", sign) in (1.0, -1.0), "sign", "be 1 or -1", sign)
        sigma_q = as_covariance("cov_q", cov_q, d)
        chol = None if cholesky_q is None else as_floats("cholesky_q", cholesky_q)
        if chol is not None and chol.shape != (d, d):
            raise ParameterError("cholesky_q", f"have shape ({d}, {d})", f"shape {chol.shape}")
        origin = given.LowRankOrigin((mu_p, mu_q, sigma_q, f, np.array(float(sign))))
        return cls._rounded(invariants_of_low_rank(origin, chol), d, origin)

    @classmethod
    def _rounded(cls, floats: Rounded, dimension: int, origin: Origin) -> GaussianPair:
        t, ratio, shift, copies, singular, error = floats
        return cls(ratio, shift, copies, dimension, t, singular, error, (origin,))

    # ------------------------------------------------------------------ algebra

    def reversed(self) -> Self:
        """Return the same two laws in the other order, q from p.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(4.0, shift=1.0).reversed().variance_ratio
        array([0.25])
        """
        excess, shift = reverse_shift(self.excess, -self.shift, self.variance_ratio)
        origins = tuple(o.reversed() for o in self.origins)
        return replace(self, variance_ratio=1.0 / self.variance_ratio, shift=shift, excess=excess, origins=origins)

    def compose(self, *others: Self) -> Self:
        """Return the product pair: all of them released together, each with independent randomness.

        >>> import ndis
        >>> one = ndis.GaussianPair.from_ratios(1.0, shift=3.0)
        >>> two = ndis.GaussianPair.from_ratios(1.0, shift=4.0)
        >>> five = ndis.GaussianPair.from_ratios(1.0, shift=5.0)
        >>> abs(one.compose(two).delta(2.0) / five.delta(2.0) - 1) < 1e-12
        True
        """
        pairs = (self, *others)
        for p in others:
            require(isinstance(p, type(self)), "others", f"be {type(self).__name__} values", type(p).__name__)
        return type(self)(
            **{name: np.concatenate([getattr(p, name) for p in pairs]) for name in _ARRAYS},
            dimension=sum(p.dimension for p in pairs),
            mutually_singular=any(p.mutually_singular for p in pairs),
            uncertainty=max(p.uncertainty for p in pairs),
            origins=tuple(o for p in pairs for o in p.origins) if all(p.origins for p in pairs) else (),
        )

    def repeat(self, times: int) -> Self:
        """Return the pair composed with itself, `times` releases in all.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.1).repeat(10).dimension
        10
        """
        k = as_count("times", times)
        origins = tuple(o.repeated(k) for o in self.origins)
        return replace(self, copies=self.copies * k, dimension=self.dimension * k, origins=origins)

    def centred(self) -> Self:
        """Return the pair with both means moved to that of q."""
        return replace(self, shift=np.zeros_like(self.shift), origins=tuple(o.still() for o in self.origins))

    def same_origins(self, other: GaussianPair) -> bool:
        """Say if both pairs were made from the same exact inputs, in the same order.

        >>> import ndis
        >>> one, two = ndis.GaussianPair.from_ratios(2.0), ndis.GaussianPair.from_ratios(2.0)
        >>> one.same_origins(two), one.same_origins(two.reversed())
        (True, False)
        """
        if self is other:
            return True
        known = len(self.origins) == len(other.origins) > 0
        return known and all(a.same(b) for a, b in zip(self.origins, other.origins, strict=True))

    # ------------------------------------------------------------------ the spectrum

    @broadcasts
    def log_delta(self, epsilon: ArrayLike) -> float | Floats:
        """Return log δ(ε), accurate far below the smallest float. It broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=0.01).log_delta(3.0), 6)
        -45015.43172
        """
        x = as_floats("epsilon", epsilon)
        return shaped(evaluate.spectrum(self, x.ravel(), complement=False).log_delta, x.shape)

    @broadcasts
    def log_complement(self, epsilon: ArrayLike) -> float | Floats:
        """Return log(1 − δ(ε)), accurate if δ is near 1.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=40.0).log_complement(0.0), 6)
        -203.224008
        """
        x = as_floats("epsilon", epsilon)
        return shaped(evaluate.spectrum(self, x.ravel()).log_complement, x.shape)

    @broadcasts
    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """Return δ(ε) = sup over events S of p(S) − e^ε q(S), to full relative accuracy (lemma: ndis).

        It broadcasts; ε may be negative.

        Raises
        ------
        PrecisionError
            If the value cannot be computed to the accuracy promised. No number is returned then.

        Examples
        --------
        >>> import ndis
        >>> pair = ndis.GaussianPair.from_ratios(2.0)
        >>> round(pair.delta(1.0), 12)
        0.045611619893
        >>> pair.delta([0.0, 1.0, 2.0]).round(6)
        array([0.166064, 0.045612, 0.01413 ])
        """
        return exponential(self.log_delta(epsilon=epsilon))

    @broadcasts
    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """Return the smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side. It broadcasts over `delta`.

        It is infinite for mutually singular laws. For a bounded loss it never exceeds `loss_supremum()`.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).epsilon(1e-6), 9)
        4.886554117
        """
        target = as_probability("delta", delta)
        return shaped(np.array([evaluate.smallest_epsilon(self, d) for d in target.ravel().tolist()]), target.shape)

    def certify(self, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
        """Return a rigorous enclosure of δ(ε), by ball arithmetic from the exact inputs; see `ndis.spectrum.certified`.

        >>> import ndis
        >>> box = ndis.GaussianPair.from_ratios([2.0, 0.5], shift=[0.0, 1.0]).certify(1.0)
        >>> box.lower <= box.upper <= box.lower * (1 + 1e-10)
        True
        """
        return certified.certify(self, epsilon, relative_width=relative_width)

    def total_variation(self) -> float:
        """Return the total variation distance, δ(0).

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=2.0).total_variation(), 12)
        0.682689492137
        """
        return self.delta(0.0)

    @broadcasts
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """Return the type II error of the best test of p against q at type I error `alpha` (f-DP). It broadcasts.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).tradeoff(0.05), 9)
        0.740488977
        """
        level = as_probability("alpha", alpha)
        return shaped(np.array([evaluate.type_two_error(self, a) for a in level.ravel().tolist()]), level.shape)

    # ------------------------------------------------------------------ the loss

    @cached_property
    def form(self) -> LogMoment:
        """Return the canonical log-moment function of the loss under p; the kernels evaluate it."""
        return canonical_form(self.excess, self.variance_ratio, self.shift, self.copies, self.origins)

    def kl(self) -> float:
        """Return the Kullback–Leibler divergence KL(p‖q), the mean of the loss.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.0, shift=2.0).kl()
        2.0
        """
        return math.inf if self.mutually_singular else self.form.mean

    def loss_supremum(self) -> float:
        """Return the least upper bound of the privacy loss, rounded up; infinite unless every ratio is below one.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(0.25).loss_supremum() >= 0.6931471805599453
        True
        """
        return math.inf if self.mutually_singular else supremum(self.form)

    @broadcasts
    def log_moment(self, s: ArrayLike) -> float | Floats:
        """Return K(s) = log E_p e^{sL} of the loss L; infinite where it does not exist. It broadcasts.

        >>> import ndis
        >>> pair = ndis.GaussianPair.from_ratios(2.0)
        >>> pair.log_moment(0.0), pair.log_moment(-1.0)
        (0.0, 0.0)
        """
        points = as_floats("s", s)
        return shaped(log_moment(self.form, points.ravel()), points.shape)

    @broadcasts
    def renyi(self, order: ArrayLike) -> float | Floats:
        """Return the Rényi divergence K(order − 1)/(order − 1) of p from q. Order ∞ is the supremum of the loss.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.0, shift=1.0).renyi(8.0)
        4.0
        """
        orders = as_reals("order", order)
        require((orders > 0).all(), "order", "be positive", order)
        if self.mutually_singular:
            return shaped(np.full(orders.size, math.inf), orders.shape)
        ends = {1.0: self.kl, math.inf: self.loss_supremum}
        values = [ends[a]() if a in ends else self.log_moment(a - 1.0) / (a - 1.0) for a in orders.ravel().tolist()]
        return shaped(np.array(values), orders.shape)


def _means(mean_p: ArrayLike, mean_q: ArrayLike) -> tuple[Floats, Floats, int]:
    """Return two means of one length, and that length."""
    mu_p, mu_q = as_vector("mean_p", mean_p), as_vector("mean_q", mean_q)
    d = mu_p.size
    require(mu_q.size == d and d != 0, "mean_q", f"have the length of mean_p, at least 1 ({d})", f"length {mu_q.size}")
    return mu_p, mu_q, d
