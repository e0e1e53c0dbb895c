"""The generalized chi-square distribution is accurate in both tails; it looks like a frozen scipy.stats distribution.

    W = shift + Σ λ χ'²_ν(ncp) + σG
    K(s) = log E e^{sW} = shift·s + ½σ²s² + Σ [ −½ν log(1−2λs) + λ ncp s/(1−2λs) ]

In the canonical form of `ndis.spectrum.loss.LogMoment`: t = 2λ, q = t² ncp. The Gaussian term is a group with t = 0,
ν = 0 and q = σ². `ndis.spectrum.chi_square` computes with that form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import (
    Floats,
    as_covariance,
    as_floats,
    as_positive,
    as_reals,
    as_share,
    as_symmetric,
    as_vector,
    broadcast_vectors,
    broadcasts,
    exponential,
    require,
    shaped,
    single,
)
from ndis.errors import ParameterError
from ndis.spectrum.chi_square import ChiSquareLaw, quadratic_form, weighted_sum
from ndis.spectrum.invariants import Invariants

__all__ = ["GeneralizedChiSquare", "loss_laws"]


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and not (isinstance(random_state, int | np.integer) and random_state >= 0):
        raise ParameterError("random_state", "be None, a non-negative integer or a numpy Generator", random_state)
    return np.random.default_rng(random_state)


@dataclass(frozen=True, eq=False, init=False)
class GeneralizedChiSquare:
    """W = shift + Σ weights·χ'²(dof, noncentrality) + sigma·G has independent noncentral chi-squares and a normal G.

    This is def:genchi2, and the sum may be empty. Every method that takes points broadcasts over them: a float gives a
    float, an array gives an array. Tails, density and their logarithms each keep their own relative accuracy, the
    logarithms far beyond the smallest float. A method raises `PrecisionError` if it cannot reach that accuracy.

    If every weight and sigma are 0, the law is the point mass at `shift`.

    Parameters
    ----------
    weights
        Weights λ of the chi-square terms, of any sign; may be empty.
    dof
        Their degrees of freedom, positive reals.
    noncentrality
        Their noncentralities, the sums of squared means.
    sigma
        Standard deviation of the Gaussian term.
    shift
        Constant added.

    Examples
    --------
    >>> import ndis
    >>> law = ndis.GeneralizedChiSquare([1.0, -0.5], [3, 2], [0.0, 1.5], sigma=0.2)
    >>> law.mean(), round(law.cdf(4.0), 12)
    (1.25, 0.852779881705)
    >>> round(law.logsf(5000.0), 6)
    -2496.617362
    >>> round(law.ppf(law.cdf(4.0)), 12)
    4.0
    """

    weights: Floats
    dof: Floats
    noncentrality: Floats
    sigma: float
    shift: float
    _unit: float = field(repr=False)  # a power of two near the largest scale; `_law` is that of W/unit
    _law: ChiSquareLaw = field(repr=False)

    def __init__(
        self, weights: ArrayLike, dof: ArrayLike, noncentrality: ArrayLike = 0.0, sigma: float = 0.0, shift: float = 0.0
    ) -> None:
        w, nu, ncp = broadcast_vectors(
            weights=as_vector("weights", weights),
            dof=as_positive("dof", dof),
            noncentrality=as_vector("noncentrality", noncentrality),
        )
        require((ncp >= 0).all(), "noncentrality", "be non-negative", ncp)
        s, origin = single("sigma", as_floats("sigma", sigma)), single("shift", as_floats("shift", shift))
        require(s >= 0, "sigma", "be non-negative", s)
        unit, law = weighted_sum(w, nu, ncp, s, origin)
        self._freeze(w, nu, ncp, s, origin, unit, law)

    def _freeze(self, *values: Floats | float | ChiSquareLaw) -> None:
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def from_quadratic_form(
        cls, Q: ArrayLike, b: ArrayLike, c: float, mean: ArrayLike, cov: ArrayLike
    ) -> GeneralizedChiSquare:
        """The law of xᵀQx + bᵀx + c for x = N(mean, cov), with Q of any signature and cov singular or not.

        With cov = CCᵀ, CᵀQC = V diag(λ) Vᵀ and g = VᵀCᵀ(2Q·mean + b), the form is a constant plus λZ² + gZ over
        independent standard normals Z. Each has the log-moment −½ log(1−2λs) + ½ g²s²/(1−2λs). The code computes with
        these terms, which stay regular as λ → 0. `weights`, `noncentrality` and `shift` describe the same law by
        completed squares.

        Eigenvalues of cov (scaled to unit variances) and of CᵀQC count as zero within rounding, d·2⁻⁵⁰ of the terms
        they are sums of. So does the linear part that is left on the latter.

        Parameters
        ----------
        Q
            Symmetric d×d matrix. Only (Q+Qᵀ)/2 is used, and an asymmetry beyond rounding is refused.
        b, mean
            Vectors of length d (or scalars, for every coordinate).
        c
            Constant.
        cov
            Covariance, d×d.

        Examples
        --------
        >>> import ndis
        >>> identity = [[1.0, 0.0], [0.0, 1.0]]
        >>> law = ndis.GeneralizedChiSquare.from_quadratic_form(identity, 0.0, 0.0, mean=0.0, cov=identity)
        >>> round(law.sf(2.0), 12)
        0.367879441171
        """
        matrix = as_symmetric("Q", Q)
        d = matrix.shape[0]
        slope, mu = as_vector("b", b, d), as_vector("mean", mean, d)
        constant = single("c", as_floats("c", c))
        sigma = as_covariance("cov", cov, d)
        try:
            w, noncentrality, gaussian, shift, unit, law = quadratic_form(matrix, slope, constant, mu, sigma)
        except OverflowError:
            raise ParameterError("Q, b, c and mean", "give a form within the range of floats", "an overflow") from None
        self = object.__new__(cls)
        self._freeze(w, np.ones(w.size), noncentrality, gaussian, shift, unit, law)
        return self

    # ------------------------------------------------------------------ tails

    @broadcasts
    def logcdf(self, x: ArrayLike) -> float | Floats:
        """log Pr[W ≤ x]."""
        return self._log_tail(x, upper=False)

    @broadcasts
    def logsf(self, x: ArrayLike) -> float | Floats:
        """log Pr[W > x]."""
        return self._log_tail(x, upper=True)

    @broadcasts
    def cdf(self, x: ArrayLike) -> float | Floats:
        """Pr[W ≤ x], to full relative accuracy; x may be ±inf.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(1.0, 2.0).cdf([-1.0, 0.0, 2e-300, float("inf")])
        array([0.e+000, 0.e+000, 1.e-300, 1.e+000])
        """
        return exponential(self._log_tail(x, upper=False))

    @broadcasts
    def sf(self, x: ArrayLike) -> float | Floats:
        """Return Pr[W > x], to full relative accuracy."""
        return exponential(self._log_tail(x, upper=True))

    def _log_tail(self, x: ArrayLike, *, upper: bool) -> float | Floats:
        points = as_reals("x", x)
        return shaped(self._law.log_tail(points.ravel() / self._unit, upper=upper), points.shape)

    # ------------------------------------------------------------------ density

    @broadcasts
    def logpdf(self, x: ArrayLike) -> float | Floats:
        """Logarithm of the density; +inf if it has a pole there (see `pdf`)."""
        points = as_reals("x", x)
        flat = points.ravel()
        values = self._law.log_density(flat / self._unit, flat == self.shift)
        return shaped(values - math.log(self._unit), points.shape)

    @broadcasts
    def pdf(self, x: ArrayLike) -> float | Floats:
        """Return the density.

        Without a Gaussian term it is infinite at `shift` if the dof sum to less than 2, or to 2 with weights of both
        signs. At the end of a bounded support with dof that sum to 2 it is the limit from within.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(1.0, [2.0]).pdf([-1.0, 0.0, 2.0]).round(12)
        array([0.        , 0.5       , 0.18393972])
        >>> ndis.GeneralizedChiSquare([1.0, -1.0], 1.0).pdf(0.0)
        inf
        """
        return exponential(self.logpdf(x=x))

    # ------------------------------------------------------------------ quantiles

    @broadcasts
    def ppf(self, probability: ArrayLike) -> float | Floats:
        """The x with cdf(x) = probability; the ends of the support at 0 and 1.

        >>> import ndis
        >>> law = ndis.GeneralizedChiSquare([1.0, 0.3], [1.0, 2.0])
        >>> law.ppf([0.0, 1.0])
        array([ 0., inf])
        >>> law.cdf(law.ppf(1e-300)) / 1e-300 - 1 < 1e-12
        True
        """
        return self._quantiles(probability, upper=False)

    @broadcasts
    def isf(self, probability: ArrayLike) -> float | Floats:
        """The x with sf(x) = probability; the ends of the support at 1 and 0."""
        return self._quantiles(probability, upper=True)

    def _quantiles(self, probability: ArrayLike, *, upper: bool) -> float | Floats:
        p = as_share("probability", probability)
        low, high = self.support()
        ends = {0.0: high, 1.0: low} if upper else {0.0: low, 1.0: high}
        values = [ends[v] if v in ends else self._quantile(v, upper=upper) for v in p.ravel().tolist()]
        return shaped(np.array(values), p.shape)

    def _quantile(self, p: float, *, upper: bool) -> float:
        """Solve about the end of the support if there is one, so that the distance to it has its digits."""
        if self._law.constant:
            return self.shift
        result = self._unit * self._law.quantile(p, upper=upper)
        return self.shift + result if self._law.from_end else result

    # ------------------------------------------------------------------ moments and the rest

    def mean(self) -> float:
        """Return the expectation, shift + Σ λ(ν + ncp)."""
        return self._law.mean * self._unit

    def var(self) -> float:
        """Return the variance, σ² + Σ 2λ²(ν + 2 ncp)."""
        return self._law.cumulant(2) * self._unit**2

    def std(self) -> float:
        """Return the standard deviation."""
        return self._law.spread * self._unit

    def support(self) -> tuple[float, float]:
        """Ends of the support. It is bounded by `shift` if there is no Gaussian term and all weights have one sign.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare([-1.0, -2.0], 1.0, shift=3.0).support()
        (-inf, 3.0)
        """
        side = self._law.side
        if self._law.constant:
            return self.shift, self.shift
        return (self.shift if side > 0 else -math.inf), (self.shift if side < 0 else math.inf)

    @broadcasts
    def cgf(self, s: ArrayLike) -> float | Floats:
        """Return the cumulant generating function log E e^{sW} at real s; infinite outside its domain.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(0.5, 2.0).cgf([-1e300, 0.0, 0.5, 1.0]).round(9)
        array([-690.77552...,    0.        ,    0.69314...,           inf])
        """
        points = as_floats("s", s)
        law = self._law
        low, high = law.domain
        values = [law.log_moment(z) if low < z < high else math.inf for z in (points.ravel() * self._unit).tolist()]
        return shaped(np.array(values), points.shape)

    @overload
    def rvs(self, size: None = None, random_state: int | np.random.Generator | None = None) -> float: ...
    @overload
    def rvs(self, size: int | tuple[int, ...], random_state: int | np.random.Generator | None = None) -> Floats: ...
    def rvs(
        self, size: int | tuple[int, ...] | None = None, random_state: int | np.random.Generator | None = None
    ) -> float | Floats:
        """Random variates of the given shape (a float without one); `random_state` is a seed, a Generator, or None.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare([1.0, 2.0], 1.0).rvs(3, random_state=0).shape
        (3,)
        """
        rng = _generator(random_state)
        law = self._law
        total = np.zeros(() if size is None else size)
        for t, nu, q in zip(law.t.tolist(), law.nu.tolist(), law.q.tolist(), strict=True):
            if law.from_end or 0 < nu < 1:
                ncp = q / (t * t)
                total += 0.5 * t * (rng.noncentral_chisquare(nu, ncp, size) - (0.0 if law.from_end else nu + ncp))
            else:  # ½t(χ'² − its mean) without the large constants of a small t
                z = rng.standard_normal(size)
                others = rng.chisquare(nu - 1.0, size) if nu > 1 else 0.0
                total += math.sqrt(q) * z + (0.5 * t * (z * z + others - nu) if nu else 0.0)
        values = (law.edge[0] if law.from_end else law.mean) * self._unit + total * self._unit
        return float(values) if size is None else values


def loss_laws(pair: Invariants) -> tuple[GeneralizedChiSquare, GeneralizedChiSquare]:
    """Return the laws of the privacy loss of a pair under p and under q (thm:ndis-two-genchi2-cdf).

    With t = τ − 1 and G standard normal the loss is, by directions with t ≠ 0 and with t = 0,

        under p:  κ + Σ (t/2)·χ'²₁(m²τ/t²) + σG + σ²/2,      under q:  κ + Σ (t/2τ)·χ'²₁(m²/t²) + σG − σ²/2,

    where κ = −½ Σ (log τ + m²/t) over t ≠ 0, and σ² = Σ m² over t = 0. The case of equal means is
    eq:delta-two-cdf-cov, in which δ(ε) is a difference of their tails at ε.
    """
    flat = pair.excess == 0
    t, tau, m2, n = (a[~flat] for a in (pair.excess, pair.variance_ratio, pair.shift**2, pair.copies))
    kappa = -0.5 * math.fsum(n * (np.log(tau) + m2 / t))
    sigma2 = math.fsum((pair.copies * pair.shift**2)[flat])
    sigma = math.sqrt(sigma2)
    under_p = GeneralizedChiSquare(t / 2, n, n * m2 * tau / t**2, sigma=sigma, shift=kappa + 0.5 * sigma2)
    under_q = GeneralizedChiSquare(t / (2 * tau), n, n * m2 / t**2, sigma=sigma, shift=kappa - 0.5 * sigma2)
    return under_p, under_q
