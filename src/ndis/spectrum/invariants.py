"""The invariants of an ordered pair of Gaussians: all that δ(ε) depends on.

Whitening by q turns the pair into N(m, diag τ) against N(0, I). Only the multiset {(t, m²)}, t = τ − 1, matters. The
constructors form t from the difference of the covariances, never as τ − 1 of a computed τ. Neighbours differ little,
and the subtraction would lose the digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, overload

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import Floats, Vector, as_count, as_floats, as_reals, shaped
from ndis.errors import ParameterError
from ndis.spectrum.loss import LogMoment, half_excess_log, log_moment, supremum
from ndis.spectrum.origins import Origin, exact_edge, frozen

__all__ = ["LEAST_SHIFT", "Invariants"]

LEAST_SHIFT = 1e-140


@dataclass(frozen=True, eq=False, repr=False)
class Invariants:
    """The invariants of an ordered pair, p from q, and the exact inputs that they come from.

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
        are exact to the last digit. `smallest_epsilon` allows for it.
    origins : tuple of Origin
        The exact inputs; empty if nobody knows them.
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
        for name in ("variance_ratio", "shift", "copies", "excess"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        # Reject NaN here; every constructor passes this check.
        for name, rule, good in (
            ("variance_ratio", "be positive and finite", (self.variance_ratio > 0) & np.isfinite(self.variance_ratio)),
            ("excess", "be at least -1 and finite", (self.excess >= -1) & np.isfinite(self.excess)),
            ("copies", "be at least 1 and finite", (self.copies >= 1) & np.isfinite(self.copies)),
            ("shift", "be finite in standard deviations of q", np.isfinite(self.shift)),
            (
                "shift",
                f"be 0 or at least {LEAST_SHIFT} standard deviations of q",
                (self.shift == 0) | (np.abs(self.shift) >= LEAST_SHIFT),
            ),
        ):
            if not good.all():
                raise ParameterError(name, rule, getattr(self, name)[~good][:4])

    # ------------------------------------------------------------------ algebra

    def reversed(self) -> Self:
        """The same two laws in the other order, q from p: t' = −t/(1+t), m'² = m²/(1+t).

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(4.0, shift=1.0).reversed().variance_ratio
        array([0.25])
        """
        return replace(
            self,
            variance_ratio=1.0 / self.variance_ratio,
            shift=-self.shift / np.sqrt(self.variance_ratio),
            excess=-self.excess / self.variance_ratio,
            origins=tuple(o.reversed() for o in self.origins),
        )

    def compose(self, *others: Self) -> Self:
        """The product pair: all of them released together, each with independent randomness.

        >>> import ndis
        >>> one = ndis.GaussianPair.from_ratios(1.0, shift=3.0)
        >>> two = ndis.GaussianPair.from_ratios(1.0, shift=4.0)
        >>> five = ndis.GaussianPair.from_ratios(1.0, shift=5.0)
        >>> abs(one.compose(two).delta(2.0) / five.delta(2.0) - 1) < 1e-12
        True
        """
        pairs = (self, *others)
        for p in others:
            if not isinstance(p, type(self)):
                raise ParameterError("others", f"be {type(self).__name__} values", type(p).__name__)
        return type(self)(
            np.concatenate([p.variance_ratio for p in pairs]),
            np.concatenate([p.shift for p in pairs]),
            np.concatenate([p.copies for p in pairs]),
            sum(p.dimension for p in pairs),
            np.concatenate([p.excess for p in pairs]),
            mutually_singular=any(p.mutually_singular for p in pairs),
            uncertainty=max(p.uncertainty for p in pairs),
            origins=tuple(o for p in pairs for o in p.origins) if all(p.origins for p in pairs) else (),
        )

    def repeat(self, times: int) -> Self:
        """The pair composed with itself, `times` releases in all.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.1).repeat(10).dimension
        10
        """
        k = as_count("times", times)
        return replace(
            self,
            copies=self.copies * k,
            dimension=self.dimension * k,
            origins=tuple(o.repeated(k) for o in self.origins),
        )

    def centred(self) -> Self:
        """The pair with both means moved to that of q."""
        return replace(self, shift=np.zeros_like(self.shift), origins=tuple(o.still() for o in self.origins))

    def same_origins(self, other: Invariants) -> bool:
        """True if both pairs were made from the same exact inputs, in the same order.

        >>> import ndis
        >>> one, two = ndis.GaussianPair.from_ratios(2.0), ndis.GaussianPair.from_ratios(2.0)
        >>> one.same_origins(two), one.same_origins(two.reversed())
        (True, False)
        """
        if self is other:
            return True
        known = len(self.origins) == len(other.origins) > 0
        return known and all(a.same(b) for a, b in zip(self.origins, other.origins, strict=True))

    # ------------------------------------------------------------------ the loss

    @cached_property
    def form(self) -> LogMoment:
        """The canonical log-moment function of the loss under p.

        Equal groups are merged, and directions on which the laws agree are dropped.
        """
        m2, flat = self.shift**2, self.excess == 0
        pure = math.fsum((self.copies * m2)[flat])  # directions that differ in mean only add up to one
        rows = np.stack([self.excess, self.variance_ratio, m2])[:, ~flat]
        key, where = np.unique(rows, axis=1, return_inverse=True)
        n: Floats = np.bincount(where.ravel(), weights=self.copies[~flat], minlength=key.shape[1]).astype(np.float64)
        order = np.argsort(n, kind="stable")  # the kernel takes logarithms of equal multiplicities together
        (t, ratio, m2), n = key[:, order], n[order]
        mean = math.fsum(n * half_excess_log(t, ratio)) + 0.5 * math.fsum(n * m2) + 0.5 * pure
        nu, q = n, n * m2 * ratio
        if pure != 0:
            t, ratio, nu, q = (np.append(a, v) for a, v in ((t, 0.0), (ratio, 1.0), (nu, 0.0), (q, pure)))
        return LogMoment(mean, t, ratio, nu, q, (lambda: exact_edge(self.origins)) if self.origins else None)

    def kl(self) -> float:
        """Kullback–Leibler divergence KL(p‖q), the mean of the loss.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.0, shift=2.0).kl()
        2.0
        """
        return math.inf if self.mutually_singular else self.form.mean

    def loss_supremum(self) -> float:
        """The least upper bound of the privacy loss, rounded up; infinite unless every ratio is below one.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(0.25).loss_supremum() >= 0.6931471805599453
        True
        """
        return math.inf if self.mutually_singular else supremum(self.form)

    @overload
    def log_moment(self, s: float) -> float: ...
    @overload
    def log_moment(self, s: Vector) -> Floats: ...
    def log_moment(self, s: ArrayLike) -> float | Floats:
        """K(s) = log E_p e^{sL} of the loss L; infinite outside `moment_domain`. Broadcasts.

        >>> import ndis
        >>> pair = ndis.GaussianPair.from_ratios(2.0)
        >>> pair.log_moment(0.0), pair.log_moment(-1.0)
        (0.0, 0.0)
        """
        points = as_floats("s", s)
        return shaped(log_moment(self.form, points.ravel()), points.shape)

    @property
    def moment_domain(self) -> tuple[float, float]:
        """The open interval of s on which K(s) is finite.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios([3.0, 0.5]).moment_domain
        (-2.0, 0.5)
        """
        return self.form.domain

    @overload
    def renyi(self, order: float) -> float: ...
    @overload
    def renyi(self, order: Vector) -> Floats: ...
    def renyi(self, order: ArrayLike) -> float | Floats:
        """Rényi divergence D_order(p‖q) = K(order − 1)/(order − 1). Order 1 is KL, order ∞ the supremum of the loss.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.0, shift=1.0).renyi(8.0)
        4.0
        """
        orders = as_reals("order", order)
        if not (orders > 0).all():
            raise ParameterError("order", "be positive", order)
        return shaped(np.array([self._renyi(a) for a in orders.ravel().tolist()]), orders.shape)

    def _renyi(self, order: float) -> float:
        if self.mutually_singular:
            return math.inf
        if math.isinf(order):
            return self.loss_supremum()
        return self.kl() if order == 1.0 else self.log_moment(order - 1.0) / (order - 1.0)
