"""Two Gaussians, and how well they can be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ndis._rounding import away_from_zero
from ndis._validate import (
    Floats,
    Vector,
    as_counts,
    as_covariance,
    as_floats,
    as_fractions,
    as_positive,
    as_probability,
    as_scalar,
    as_vector,
    broadcast_vectors,
    shaped,
)
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum import certified, evaluate
from ndis.spectrum.invariants import LEAST_SHIFT, Invariants
from ndis.spectrum.origins import (
    EXACT_SIZE,
    DenseOrigin,
    DiagonalOrigin,
    ExcessOrigin,
    LowRankOrigin,
    Origin,
    RatioOrigin,
    Rounded,
)
from ndis.spectrum.whitening import whiten, whiten_low_rank

__all__ = ["LEAST_SHIFT", "GaussianPair", "Origin"]

Rationals = int | float | Fraction | Sequence[int | float | Fraction] | Floats

_LEAST_EXCESS = 1e-300  # a smaller one is no normal float
_NOT_FLOATS = 2.0**-50  # relative error of a loss whose invariants were rounded to floats, with room


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPair(Invariants):
    """An ordered pair of Gaussians, p from q, through its invariants.

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
        return cls(ratio, m, n, int(n.sum()), ratio - 1.0, origins=(RatioOrigin((ratio, m, n)),))

    @classmethod
    def from_excess(cls, excess: Rationals, shift: Rationals = 0, copies: ArrayLike = 1) -> GaussianPair:
        """The pair with variance ratios 1 + excess, already whitened; `Fraction` values are taken exactly.

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
        floats, ratio = (np.array([float(x) for x in row]) for row in (t, (1 + x for x in t)))
        shifts = np.array([away_from_zero(x) for x in m])
        exact = all(
            Fraction(x) == y for row, given in ((floats, t), (shifts, m)) for x, y in zip(row, given, strict=True)
        )
        origin = ExcessOrigin((np.array(t, dtype=object), np.array(m, dtype=object), np.array(n)))
        uncertainty = 0.0 if exact else _NOT_FLOATS
        return cls(ratio, shifts, n, int(n.sum()), floats, uncertainty=uncertainty, origins=(origin,))

    @classmethod
    def from_diagonal(cls, mean_p: ArrayLike, var_p: ArrayLike, mean_q: ArrayLike, var_q: ArrayLike) -> GaussianPair:
        """The pair of Gaussians with independent coordinates: means and variances as vectors (or scalars).

        A variance of zero in both laws fixes that coordinate. If only one variance is zero, or if the fixed means
        differ, the laws are mutually singular.

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
        origin = DiagonalOrigin((mu_p, v_p, mu_q, v_q))
        if apart.any():
            return cls._singular(mu_p.size, origin)
        v_p, v_q = np.where(fixed, 1.0, v_p), np.where(fixed, 1.0, v_q)
        ratio = v_p / v_q
        t = np.where((ratio > 0.5) & (ratio < 2.0), (v_p - v_q) / v_q, ratio - 1.0)
        return cls(ratio, (mu_p - mu_q) / np.sqrt(v_q), np.ones(ratio.size), ratio.size, t, origins=(origin,))

    @classmethod
    def from_moments(cls, mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> GaussianPair:
        """The pair N(mean_p, cov_p) against N(mean_q, cov_q); scalars are accepted in one dimension.

        Singular covariances are accepted. If both have the same range and it holds the mean shift, the pair lives
        inside that range. Otherwise the laws are mutually singular. Only (Σ+Σᵀ)/2 is used, and an asymmetry beyond
        rounding is refused.

        >>> import ndis
        >>> ndis.GaussianPair.from_moments(1.0, 4.0, 0.0, 2.0).variance_ratio
        array([2.])
        """
        mu_p, mu_q, d = _means(mean_p, mean_q)
        sigma_p, sigma_q = as_covariance("cov_p", cov_p, d), as_covariance("cov_q", cov_q, d)
        origin = DenseOrigin((mu_p, sigma_p, mu_q, sigma_q))
        with np.errstate(over="ignore"):
            shift = mu_p - mu_q
        floats = whiten(shift, sigma_p, sigma_q)
        if d <= EXACT_SIZE and (floats is None or floats.doubtful):
            # The exact binary inputs decide. Floats decide only if those inputs are no covariances, by rounding.
            exact = origin.rounded()
            if exact is not None:
                return cls._from_exact(exact, d, origin)
        elif floats is None or floats.singular:
            keep = origin.common_coordinates()
            if keep is None:
                return cls._singular(d, origin)
            if len(keep) == d:
                raise PrecisionError(
                    "a covariance is singular to working precision, though not exactly; give independent coordinates"
                )
            part = np.ix_(keep, keep)
            floats = whiten(shift[keep], sigma_p[part], sigma_q[part])
            if floats is None or floats.singular:
                raise PrecisionError("a covariance is singular to working precision on its independent coordinates")
        if floats is None:
            return cls._singular(d, origin)
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
        """The pair with cov_p = cov_q + sign·F Fᵀ, F = `factor` of shape (d, k).

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
        if f.ndim != 2 or f.shape[0] != d:
            raise ParameterError("factor", f"have shape ({d}, k)", f"shape {f.shape}")
        if as_scalar("sign", sign) not in (1.0, -1.0):
            raise ParameterError("sign", "be 1 or -1", sign)
        sigma_q = as_covariance("cov_q", cov_q, d)
        chol = None if cholesky_q is None else as_floats("cholesky_q", cholesky_q)
        if chol is not None and chol.shape != (d, d):
            raise ParameterError("cholesky_q", f"have shape ({d}, {d})", f"shape {chol.shape}")
        origin = LowRankOrigin((mu_p, mu_q, sigma_q, f, np.array(float(sign))))
        with np.errstate(over="ignore"):
            shift = mu_p - mu_q
        floats = whiten_low_rank(shift, f, sigma_q, sign, chol)
        if floats.doubtful:
            exact = origin.rounded() if d <= EXACT_SIZE else None
            if exact is None:
                raise ParameterError(
                    "factor", "leave cov_q − F Fᵀ positive definite", "a matrix singular to working precision"
                )
            return cls._from_exact(exact, d, origin)
        t, ratio, m = floats.t, floats.ratio, floats.shift
        rest = d - t.size
        t, ratio, m = (np.append(a, [v] * (rest > 0)) for a, v in ((t, 0.0), (ratio, 1.0), (m, 0.0)))
        n = np.append(np.ones(d - rest), [float(rest)] * (rest > 0))
        return cls(ratio, m, n, d, t, uncertainty=floats.error, origins=(origin,))

    @classmethod
    def _from_exact(cls, exact: Rounded, dimension: int, origin: Origin) -> GaussianPair:
        if exact.mutually_singular:
            return cls._singular(dimension, origin)
        return cls(exact.ratio, exact.shift, exact.copies, dimension, exact.t, origins=(origin,))

    @classmethod
    def _singular(cls, dimension: int, origin: Origin) -> GaussianPair:
        one = np.ones(1)
        return cls(one, np.zeros(1), one, dimension, np.zeros(1), mutually_singular=True, origins=(origin,))

    # ------------------------------------------------------------------ the spectrum

    @overload
    def log_delta(self, epsilon: float) -> float: ...
    @overload
    def log_delta(self, epsilon: Vector) -> Floats: ...
    def log_delta(self, epsilon: ArrayLike) -> float | Floats:
        """log δ(ε): accurate far below the smallest float. Broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=0.01).log_delta(3.0), 6)
        -45015.43172
        """
        given: object = epsilon
        if isinstance(given, float) and math.isfinite(given):  # the checks below take longer than the integral
            return evaluate.log_delta_at(self, float(given))
        x = as_floats("epsilon", epsilon)
        return shaped(evaluate.spectrum(self, x.ravel(), complement=False).log_delta, x.shape)

    @overload
    def log_complement(self, epsilon: float) -> float: ...
    @overload
    def log_complement(self, epsilon: Vector) -> Floats: ...
    def log_complement(self, epsilon: ArrayLike) -> float | Floats:
        """log(1 − δ(ε)), accurate if δ is near 1.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=40.0).log_complement(0.0), 6)
        -203.224008
        """
        x = as_floats("epsilon", epsilon)
        return shaped(evaluate.spectrum(self, x.ravel()).log_complement, x.shape)

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Vector) -> Floats: ...
    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """δ(ε) = sup over events S of p(S) − e^ε q(S), to full relative accuracy (lemma: ndis).

        Broadcasts; ε may be negative.

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
        value: Any = np.exp(self.log_delta(epsilon))  # type: ignore[arg-type]  # an ArrayLike is a float or a Vector
        return float(value) if value.ndim == 0 else value

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: Vector) -> Floats: ...
    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """The smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side; 0 if that holds at 0 already. Broadcasts.

        It is infinite for mutually singular laws. For a bounded loss it never exceeds `loss_supremum()`.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).epsilon(1e-6), 9)
        4.886554117
        """
        target = as_probability("delta", delta)
        return shaped(np.array([evaluate.smallest_epsilon(self, d) for d in target.ravel().tolist()]), target.shape)

    def certify(self, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
        """A rigorous enclosure of δ(ε), by ball arithmetic from the exact inputs; see `ndis.spectrum.certified`.

        >>> import ndis
        >>> box = ndis.GaussianPair.from_ratios([2.0, 0.5], shift=[0.0, 1.0]).certify(1.0)
        >>> box.lower <= box.upper <= box.lower * (1 + 1e-10)
        True
        """
        return certified.certify(self, epsilon, relative_width=relative_width)

    def total_variation(self) -> float:
        """Total variation distance, δ(0).

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=2.0).total_variation(), 12)
        0.682689492137
        """
        return self.delta(0.0)

    @overload
    def tradeoff(self, alpha: float) -> float: ...
    @overload
    def tradeoff(self, alpha: Vector) -> Floats: ...
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """Type II error of the best test of p against q at type I error `alpha` (f-DP). Broadcasts.

        >>> import ndis
        >>> round(ndis.GaussianPair.from_ratios(1.0, shift=1.0).tradeoff(0.05), 9)
        0.740488977
        """
        level = as_probability("alpha", alpha)
        return shaped(np.array([evaluate.type_two_error(self, a) for a in level.ravel().tolist()]), level.shape)


def _means(mean_p: ArrayLike, mean_q: ArrayLike) -> tuple[Floats, Floats, int]:
    """Two means of one length, and that length."""
    mu_p, mu_q = as_vector("mean_p", mean_p), as_vector("mean_q", mean_q)
    d = mu_p.size
    if mu_q.size != d or d == 0:
        raise ParameterError("mean_q", f"have the length of mean_p, at least 1 ({d})", f"length {mu_q.size}")
    return mu_p, mu_q, d
