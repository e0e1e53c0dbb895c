"""Two Gaussians and the invariants that decide how well they can be told apart.

Whitening by q turns the ordered pair into N(m, diag τ) against N(0, I); only the multiset {(t, m²)}, t = τ − 1,
matters. t is formed from
the difference of the covariances, never as τ − 1 of a computed τ: neighbours differ little, and the subtraction would
lose the digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import loss
from ndis._validate import (
    Floats,
    as_counts,
    as_covariance,
    as_floats,
    as_positive,
    as_probability,
    as_scalar,
    as_vector,
    broadcast_vectors,
)
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.loss import LogMoment

if TYPE_CHECKING:
    from ndis.spectrum.invariants import Rounded

__all__ = ["GaussianPair", "Origin"]

LEAST_SHIFT = 1e-140
_EDGE_BITS = (192, 448, 1024, 2400)
_EXACT_SIZE = 24  # dense pairs up to this size are whitened again in ball arithmetic where floats may have lost digits


def _frozen(array: Floats) -> Floats:
    """A copy nobody can write to."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True, eq=False)
class Origin:
    """What a pair was made from, kept so that a certificate can start from the exact binary inputs."""

    kind: str  # "ratios", "diagonal", "dense" or "low-rank"
    arrays: tuple[Floats, ...]
    reverse: bool = False
    copies: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", tuple(_frozen(a) for a in self.arrays))

    def same(self, other: Origin) -> bool:
        """True if both hold equal numbers."""
        return (self.kind, self.reverse, self.copies) == (other.kind, other.reverse, other.copies) and all(
            np.array_equal(a, b) for a, b in zip(self.arrays, other.arrays, strict=True)
        )

    @property
    def size(self) -> int:
        """Size of the dense eigenproblem behind the invariants; 0 where there is none."""
        return 0 if self.kind in ("ratios", "diagonal") else int(self.arrays[0].size)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPair:
    """An ordered pair of Gaussians, p from q, through its invariants.

    Make one with `from_moments`, `from_diagonal`, `from_low_rank` or `from_ratios`.

    Attributes
    ----------
    variance_ratio : array
        Variances τ of p in the coordinates in which q is standard normal.
    shift : array
        Mean shifts m in those coordinates.
    copies : array
        How many independent coordinates share each (ratio, shift).
    dimension : int
        Number of coordinates, those on which the two agree included.
    excess : array
        t = τ − 1, formed without cancellation.
    mutually_singular : bool
        True when the two laws live on different subspaces; then δ(ε) = 1 for every ε.
    uncertainty : float
        What float64 whitening of dense input may have done to the loss, relatively; 0 where the invariants are exact to
        the last digit. `epsilon` allows for it.

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
        for name in ("variance_ratio", "shift", "copies", "excess"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        # one place that every constructor passes: what is not a number must not look private
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

    def __repr__(self) -> str:
        def brief(a: Floats) -> str:
            return np.array2string(a, threshold=6, edgeitems=2, separator=", ")

        parts = [f"{name}={brief(getattr(self, name))}" for name in ("variance_ratio", "shift", "copies")]
        return f"GaussianPair({', '.join(parts)}, dimension={self.dimension}" + (
            ", mutually_singular=True)" if self.mutually_singular else ")"
        )

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_ratios(cls, variance_ratio: ArrayLike, shift: ArrayLike = 0.0, copies: ArrayLike = 1) -> GaussianPair:
        """The pair N(shift, diag variance_ratio) against N(0, I), already whitened; `copies` are multiplicities.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios([1.02], copies=[100]).dimension
        100
        """
        ratio, m, n = broadcast_vectors(
            variance_ratio=as_positive("variance_ratio", variance_ratio),
            shift=as_vector("shift", shift),
            copies=as_counts("copies", copies),
        )
        if ratio.size == 0:
            raise ParameterError("variance_ratio", "have at least one entry", "none")
        return cls(ratio, m, n, int(n.sum()), ratio - 1.0, origins=(Origin("ratios", (ratio, m, n)),))

    @classmethod
    def from_diagonal(cls, mean_p: ArrayLike, var_p: ArrayLike, mean_q: ArrayLike, var_q: ArrayLike) -> GaussianPair:
        """The pair of Gaussians with independent coordinates: means and variances as vectors (or scalars).

        A variance of zero in both fixes that coordinate; in one only, or with different means, the laws are mutually
        singular.

        >>> import ndis
        >>> ndis.GaussianPair.from_diagonal([1.0, 0.0], [4.0, 1.0], [0.0, 0.0], [2.0, 1.0]).variance_ratio
        array([2., 1.])
        """
        mu_p, v_p, mu_q, v_q = broadcast_vectors(
            mean_p=as_vector("mean_p", mean_p),
            var_p=as_vector("var_p", var_p),
            mean_q=as_vector("mean_q", mean_q),
            var_q=as_vector("var_q", var_q),
        )
        if mu_p.size == 0:
            raise ParameterError("mean_p", "have at least one entry", "none")
        for name, v in (("var_p", v_p), ("var_q", v_q)):
            if not (v >= 0).all():
                raise ParameterError(name, "be non-negative", v)
        fixed = (v_p == 0) & (v_q == 0) & (mu_p == mu_q)
        apart = ((v_p == 0) | (v_q == 0)) & ~fixed
        origin = (Origin("diagonal", (mu_p, v_p, mu_q, v_q)),)
        if apart.any():
            return cls._singular(mu_p.size, origin)
        v_p, v_q = np.where(fixed, 1.0, v_p), np.where(fixed, 1.0, v_q)
        ratio = v_p / v_q
        t = np.where((ratio > 0.5) & (ratio < 2.0), (v_p - v_q) / v_q, ratio - 1.0)
        return cls(ratio, (mu_p - mu_q) / np.sqrt(v_q), np.ones(ratio.size), ratio.size, t, origins=origin)

    @classmethod
    def from_moments(cls, mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> GaussianPair:
        """The pair N(mean_p, cov_p) against N(mean_q, cov_q); scalars are accepted in one dimension.

        Singular covariances are accepted: with a common range (which must hold the mean shift) the pair lives inside
        it; otherwise the
        laws are mutually singular. Asymmetry at the level of rounding is averaged, more is refused.

        >>> import ndis
        >>> ndis.GaussianPair.from_moments(1.0, 4.0, 0.0, 2.0).variance_ratio
        array([2.])
        """
        from ndis.spectrum.invariants import common_coordinates, rounded
        from ndis.whitening import whiten

        mu_p, mu_q = as_vector("mean_p", mean_p), as_vector("mean_q", mean_q)
        d = mu_p.size
        if mu_q.size != d or d == 0:
            raise ParameterError("mean_q", f"have the length of mean_p, at least 1 ({d})", f"length {mu_q.size}")
        sigma_p, sigma_q = as_covariance("cov_p", cov_p, d), as_covariance("cov_q", cov_q, d)
        origin = Origin("dense", (mu_p, sigma_p, mu_q, sigma_q))
        with np.errstate(over="ignore"):
            shift = mu_p - mu_q
        floats = whiten(shift, sigma_p, sigma_q)
        if d <= _EXACT_SIZE and (floats is None or floats.doubtful):
            # the inputs as exact binary numbers decide; floats again only where those are no covariances by rounding
            exact = rounded(origin)
            if exact is not None:
                return cls._from_exact(exact, d, (origin,))
        elif floats is None or floats.singular:
            keep = common_coordinates(origin)
            if keep is None:
                return cls._singular(d, (origin,))
            if len(keep) == d:
                raise PrecisionError(
                    "a covariance is singular to working precision, though not exactly; give independent coordinates"
                )
            part = np.ix_(keep, keep)
            floats = whiten(shift[keep], sigma_p[part], sigma_q[part])
            if floats is None or floats.singular:
                raise PrecisionError("a covariance is singular to working precision on its independent coordinates")
        if floats is None:
            return cls._singular(d, (origin,))
        ones = np.ones(floats.t.size)
        return cls(floats.ratio, floats.shift, ones, d, floats.t, uncertainty=floats.error, origins=(origin,))

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
        """The pair with cov_p = cov_q + sign·F Fᵀ, F = `factor` of shape (d, k): O(d²k) once the Cholesky factor is
        known.

        Pass the lower Cholesky factor of cov_q as `cholesky_q` to share it between many neighbours of one data set.

        >>> import numpy as np, ndis
        >>> pair = ndis.GaussianPair.from_low_rank([0, 0, 0], [0, 0, 0], np.eye(3), [[0.0], [0.3], [0.4]])
        >>> pair.variance_ratio.round(12), pair.copies
        (array([1.25, 1.  ]), array([1., 2.]))
        """
        from ndis.spectrum.invariants import rounded
        from ndis.whitening import whiten_low_rank

        mu_p, mu_q = as_vector("mean_p", mean_p), as_vector("mean_q", mean_q)
        d = mu_p.size
        if mu_q.size != d or d == 0:
            raise ParameterError("mean_q", f"have the length of mean_p, at least 1 ({d})", f"length {mu_q.size}")
        f = as_floats("factor", factor)
        f = f[:, None] if f.ndim == 1 else f
        if f.ndim != 2 or f.shape[0] != d:
            raise ParameterError("factor", f"have shape ({d}, k)", f"shape {f.shape}")
        if as_scalar("sign", sign) not in (1.0, -1.0):
            raise ParameterError("sign", "be 1 or -1", sign)
        sigma_q = as_covariance("cov_q", cov_q, d)
        chol = None if cholesky_q is None else as_floats("cholesky_q", cholesky_q)
        if chol is not None and chol.shape != (d, d):
            raise ParameterError("cholesky_q", f"have shape ({d}, {d})", f"shape {chol.shape}")
        origin = Origin("low-rank", (mu_p, mu_q, sigma_q, f, np.array(float(sign))))
        with np.errstate(over="ignore"):
            shift = mu_p - mu_q
        floats = whiten_low_rank(shift, f, sigma_q, sign, chol)
        if floats.doubtful:
            exact = rounded(origin) if d <= _EXACT_SIZE else None
            if exact is None:
                raise ParameterError(
                    "factor", "leave cov_q − F Fᵀ positive definite", "a matrix singular to working precision"
                )
            return cls._from_exact(exact, d, (origin,))
        t, ratio, m = floats.t, floats.ratio, floats.shift
        rest = d - t.size
        t, ratio, m = (np.append(a, [v] * (rest > 0)) for a, v in ((t, 0.0), (ratio, 1.0), (m, 0.0)))
        n = np.append(np.ones(d - rest), [float(rest)] * (rest > 0))
        return cls(ratio, m, n, d, t, uncertainty=floats.error, origins=(origin,))

    @classmethod
    def _from_exact(cls, exact: Rounded, dimension: int, origins: tuple[Origin, ...]) -> GaussianPair:
        if exact.mutually_singular:
            return cls._singular(dimension, origins)
        return cls(exact.ratio, exact.shift, exact.copies, dimension, exact.t, origins=origins)

    @classmethod
    def _singular(cls, dimension: int, origins: tuple[Origin, ...]) -> GaussianPair:
        one = np.ones(1)
        return cls(one, np.zeros(1), one, dimension, np.zeros(1), mutually_singular=True, origins=origins)

    # ------------------------------------------------------------------ algebra

    def reversed(self) -> GaussianPair:
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
            origins=tuple(replace(o, reverse=not o.reverse) for o in self.origins),
        )

    def compose(self, *others: GaussianPair) -> GaussianPair:
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
            if not isinstance(p, GaussianPair):
                raise ParameterError("others", "be GaussianPair values", type(p).__name__)
        return GaussianPair(
            np.concatenate([p.variance_ratio for p in pairs]),
            np.concatenate([p.shift for p in pairs]),
            np.concatenate([p.copies for p in pairs]),
            sum(p.dimension for p in pairs),
            np.concatenate([p.excess for p in pairs]),
            mutually_singular=any(p.mutually_singular for p in pairs),
            uncertainty=max(p.uncertainty for p in pairs),
            origins=tuple(o for p in pairs for o in p.origins),
        )

    def repeat(self, times: int) -> GaussianPair:
        """The pair composed with itself, `times` releases in all.

        >>> import ndis
        >>> ndis.GaussianPair.from_ratios(1.1).repeat(10).dimension
        10
        """
        k = int(as_counts("times", as_scalar("times", times))[0])
        return replace(
            self,
            copies=self.copies * k,
            dimension=self.dimension * k,
            origins=tuple(replace(o, copies=o.copies * k) for o in self.origins),
        )

    def same_origins(self, other: GaussianPair) -> bool:
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
        """Canonical log-moment function of the loss under p: equal groups merged, directions on which the laws agree
        dropped."""
        m2, flat = self.shift**2, self.excess == 0
        pure = math.fsum((self.copies * m2)[flat])  # directions that differ in mean only add up to one
        rows = np.stack([self.excess, self.variance_ratio, m2])[:, ~flat]
        key, where = np.unique(rows, axis=1, return_inverse=True)
        n: Floats = np.bincount(where.ravel(), weights=self.copies[~flat], minlength=key.shape[1]).astype(np.float64)
        order = np.argsort(n, kind="stable")  # the kernel takes logarithms of equal multiplicities together
        (t, ratio, m2), n = key[:, order], n[order]
        mean = math.fsum(n * loss.half_excess_log(t, ratio)) + 0.5 * math.fsum(n * m2) + 0.5 * pure
        nu, q = n, n * m2 * ratio
        if pure != 0:
            t, ratio, nu, q = (np.append(a, v) for a, v in ((t, 0.0), (ratio, 1.0), (nu, 0.0), (q, pure)))
        return LogMoment(mean, t, ratio, nu, q, (lambda: _exact_edge(self.origins)) if self.origins else None)

    # ------------------------------------------------------------------ the spectrum

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """log δ(ε): accurate far below the smallest float. Broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=0.01).log_delta(3.0), 6)
        -45015.43172
        """
        return self._logs(epsilon, 0)

    def log_complement(self, epsilon: ArrayLike) -> Any:
        """log(1 − δ(ε)), accurate where δ is near 1.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=40.0).log_complement(0.0), 6)
        -203.224008
        """
        return self._logs(epsilon, 1)

    def delta(self, epsilon: ArrayLike) -> Any:
        """δ(ε) = sup over events S of p(S) − e^ε q(S), to full relative accuracy (lemma: ndis). Broadcasts; ε may be
        negative.

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
        value = np.exp(self.log_delta(epsilon))
        return float(value) if value.ndim == 0 else value

    def _logs(self, epsilon: ArrayLike, which: int) -> Any:
        from ndis.spectrum.evaluate import spectrum

        x = as_floats("epsilon", epsilon)
        values = spectrum(self, x.ravel(), complement=which == 1)[which].reshape(x.shape)
        return float(values) if x.ndim == 0 else values

    def epsilon(self, delta: ArrayLike) -> Any:
        """The smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side; 0 when that holds at 0 already. Broadcasts.

        Infinite for mutually singular laws. For a bounded loss the answer never exceeds `loss_supremum()`.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).epsilon(1e-6), 9)
        4.886554117
        """
        from ndis.spectrum.evaluate import smallest_epsilon

        target = as_probability("delta", delta)
        values = np.array([smallest_epsilon(self, float(d)) for d in target.ravel()]).reshape(target.shape)
        return float(values) if target.ndim == 0 else values

    def certify(self, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
        """A rigorous enclosure of δ(ε), by ball arithmetic from the exact binary inputs; see `ndis.spectrum.certified`.

        >>> import ndis
        >>> box = ndis.GaussianPair.from_ratios([2.0, 0.5], shift=[0.0, 1.0]).certify(1.0)
        >>> box.lower <= box.upper <= box.lower * (1 + 1e-10)
        True
        """
        from ndis.spectrum.certified import certify

        return certify(self, epsilon, relative_width=relative_width)

    def total_variation(self) -> float:
        """Total variation distance, δ(0).

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=2.0).total_variation(), 12)
        0.682689492137
        """
        return float(self.delta(0.0))

    def tradeoff(self, alpha: ArrayLike) -> Any:
        """Type II error of the best test of p against q at type I error `alpha` (f-DP). Broadcasts.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).tradeoff(0.05), 9)
        0.740488977
        """
        from ndis.spectrum.evaluate import type_two_error

        level = as_probability("alpha", alpha)
        values = np.array([type_two_error(self, float(a)) for a in level.ravel()]).reshape(level.shape)
        return float(values) if level.ndim == 0 else values

    def renyi(self, order: ArrayLike) -> Any:
        """Rényi divergence of the given order; see `ndis.loss.renyi`."""
        return loss.renyi(self, order)  # type: ignore[arg-type]

    def kl(self) -> float:
        """Kullback–Leibler divergence KL(p‖q); see `ndis.loss.kl`."""
        return loss.kl(self)

    def loss_supremum(self) -> float:
        """Least upper bound of the privacy loss, rounded up; see `ndis.loss.loss_supremum`."""
        return loss.loss_supremum(self)


def _exact_edge(origins: tuple[Origin, ...]) -> tuple[float, float] | None:
    """Σ n [ −½ log τ − m²/(2t) ], the end of the support of a loss bounded on one side, as an unevaluated sum of two
    floats; None where the exact inputs do not give one, or not to that accuracy."""
    from flint import arb

    from ndis.spectrum.balls import precision
    from ndis.spectrum.invariants import enclose

    if any(o.size > _EXACT_SIZE for o in origins):
        return None
    for bits in _EDGE_BITS:
        with precision(bits):
            try:
                groups = enclose(origins, bits)
            except ParameterError:
                return None
            if groups is None:
                continue
            one_sided = all(t < 0 for t, _, _ in groups.curved) or all(t > 0 for t, _, _ in groups.curved)
            if groups.mutually_singular or groups.flat != 0 or not (groups.curved and one_sided):
                return None
            total = arb(0)
            for t, m2, n in groups.curved:
                total -= n * ((1 + t).log() + m2 / t) / 2
            if total.rel_accuracy_bits() >= 110:
                high = float(total.mid())
                return high, float((total - high).mid())
    return None
