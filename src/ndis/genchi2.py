"""The generalized chi-square distribution, accurate in both tails, in the manner of a frozen scipy.stats distribution.

    W = shift + Σ λ χ'²_ν(ncp) + σG
    K(s) = log E e^{sW} = shift·s + ½σ²s² + Σ [ −½ν log(1−2λs) + λ ncp s/(1−2λs) ]

In the canonical form of `ndis.spectrum.loss.LogMoment`: t = 2λ, q = t² ncp. The Gaussian term is a group with t = 0,
ν = 0 and q = σ².
Tails and density are the contour integrals of `ndis.spectrum.contour`. Close to the end of a support bounded on one
side the leading term

    Pr[|W − shift| ≤ y] = y^{N/2}/Γ(N/2+1) · Π |t|^{−ν/2} · e^{−½Σncp} · (1 + O(y)),        N = Σν

is exact to the last bit, and is used there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis._validate import Floats, as_covariance, as_floats, as_positive, as_vector, broadcast_vectors
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.loss import LogMoment

__all__ = ["GeneralizedChiSquare"]

_NEGLIGIBLE = 2.0**-56  # relative size of the first term that the expansion at the end of the support leaves out
_FLATTEST = 2.0**-500  # smallest weight beside the largest scale; its square is still a float
_HEFT = 1000.0  # sum of dof and noncentralities up to which the exponent about `shift` loses no digits near it
_TOLERANCE = 1e-11  # largest estimated relative error returned, per 1 + |log|; the estimate errs on the large side
_RANK = 2.0**-50  # an eigenvalue (or slope) counts as zero below d times this of the terms it is the sum of


@dataclass(frozen=True, eq=False)
class _Law(LogMoment):
    """A canonical form whose mean is known to twice the precision: mean + mean_low.

    The exponent may be taken about `shift` also where that is no end of the support: there the density has its kink or
    pole, or all but ends, and the contour reaches out so far that the linear parts taken from the mean cancel.
    """

    mean_low: float = 0.0

    def linear(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        about_mean = (self.mean - x) + self.mean_low
        if self.gaussian and self.exact_edge is None:
            return about_mean, np.zeros(x.shape, dtype=np.bool_)
        high, low = self.edge
        about_edge = (high - x) + low
        scale = np.abs(about_mean)
        if not self.side and self.heft <= _HEFT:
            scale = np.maximum(scale, self.spread)
        near = np.abs(about_edge) <= 0.25 * scale
        return np.where(near, about_edge, about_mean), near

    @cached_property
    def heft(self) -> float:
        """Σ (ν + ncp)."""
        live = self.t != 0
        return math.fsum(self.nu[live] + self.q[live] / self.t[live] ** 2)

    @cached_property
    def total_dof(self) -> float:
        return math.fsum(self.nu)

    @cached_property
    def gaussian(self) -> bool:
        """True when there is a Gaussian term, which makes the density smooth and the support the real line."""
        return bool((self.t == 0).any())

    def cumulant(self, n: int) -> float:
        """The n-th cumulant, n ≥ 2: ½(n−1)! Σ [ ν tⁿ + n q tⁿ⁻² ]."""
        return 0.5 * math.factorial(n - 1) * math.fsum(self.nu * self.t**n + n * self.q * self.t ** (n - 2))

    @cached_property
    def spread(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.cumulant(2))

    @cached_property
    def from_end(self) -> bool:
        """True when the support ends on one side within a distance of the mean that floats resolve well."""
        return self.side != 0 and math.fabs(self.mean - self.edge[0]) <= 1024.0 * self.spread

    def log_moment(self, s: float) -> float:
        """K(s) inside its domain: about the mean or, far out on the unbounded side, about the end of the support."""
        from ndis.spectrum.contour import exponent

        if self.constant:
            return self.mean * s
        z = s * self.t
        if self.from_end and self.side * s < 0 and np.abs(z).max() > 1.0:
            terms = -0.5 * self.nu * np.log1p(-z) + 0.5 * (self.q / self.t**2) * (z / (1.0 - z))
            return self.edge[0] * s + math.fsum(terms)
        if not np.abs(z).max() <= 1.0 / _FLATTEST:
            raise PrecisionError(f"the cumulant generating function at {s!r} scales is out of reach")
        return float(exponent(complex(s), self.mean, self.t, self.ratio, self.nu, self.q, False).real)

    # the leading term at the end of the support; asked only where `side` is not 0

    @cached_property
    def edge_reach(self) -> float:
        """Distance from the end of the support up to which the leading term is exact to the last bit."""
        scale = np.abs(self.t)
        return float(_NEGLIGIBLE / np.sum((self.nu + self.q / scale**2) / scale.min()))

    @cached_property
    def edge_constant(self) -> float:
        """−½ Σ [ ν log|t| + ncp ]."""
        return -0.5 * math.fsum(self.nu * np.log(np.abs(self.t)) + self.q / self.t**2)

    def edge_log_tail(self, log_y: Floats, derivative: int) -> Floats:
        """log of the probability (0) or density (1) at distance y from the end of the support."""
        power = 0.5 * self.total_dof - derivative
        return power * log_y + (self.edge_constant - math.lgamma(power + 1.0))


def _exact_products(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a·b as an unevaluated sum of two floats (Dekker)."""
    p = a * b
    split = 2.0**27 + 1.0
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _double_sum(entries: list[float]) -> tuple[float, float]:
    """The sum of the entries as an unevaluated sum of two floats."""
    high = math.fsum(entries)
    return high, math.fsum([*entries, -high])


def _canonical(mean: tuple[float, float], groups: Iterable[tuple[float, float, float]], edge: float | None) -> _Law:
    """The form with groups (t, ν, q) of equal t merged, those with t = 0 into one Gaussian term; equal ν side by side,
    as the kernel likes them."""
    merged: dict[float, tuple[float, float]] = {}
    for scale, dof, slope in groups:
        known = merged.get(scale, (0.0, 0.0))
        merged[scale] = (known[0] + dof if scale else 0.0, known[1] + slope)
    rows = sorted((dof, scale, slope) for scale, (dof, slope) in merged.items() if scale or slope)
    nu, t, q = np.array(rows).reshape(-1, 3).T.copy()
    exact_edge = None if edge is None else lambda: (edge, 0.0)
    return _Law(mean[0], t, 1.0 + t, nu, q, exact_edge, mean[1])


def _log_integral(law: _Law, y: Floats, kind: int) -> Floats:
    """log of the contour integral, refused where rounding has left less than is promised."""
    from ndis.spectrum.evaluate import contour_tail

    value, _, error = contour_tail(law, y, kind)
    lost = error > _TOLERANCE * (1.0 + np.abs(value))
    if lost.any():
        i = int(np.argmax(lost))
        raise PrecisionError(
            f"the contour integral at {y[i]:.17g} scales was reached with a relative error of {error[i]:.3g} only",
            reached=float(error[i]),
        )
    return value


def _scalar(name: str, value: ArrayLike, *, non_negative: bool = False) -> float:
    array = as_floats(name, value)
    if array.ndim:
        raise ParameterError(name, "be a single number", f"shape {array.shape}")
    if non_negative and not array >= 0:
        raise ParameterError(name, "be non-negative", float(array))
    return float(array)


def _points(name: str, value: ArrayLike) -> Floats:
    """Real numbers, infinities allowed."""
    array = np.asarray(value)
    if array.dtype.kind not in "buif":
        raise ParameterError(name, "be real numbers", type(value).__name__)
    array = array.astype(np.float64)
    if np.isnan(array).any():
        raise ParameterError(name, "be real numbers", "nan")
    return array


def _as_symmetric(name: str, value: ArrayLike) -> Floats:
    """A finite symmetric matrix, definite or not; a scalar counts as 1×1. Asymmetry by rounding is averaged away."""
    array = as_floats(name, value)
    array = array.reshape(1, 1) if array.ndim == 0 else array
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ParameterError(name, "be a square matrix", f"shape {array.shape}")
    excess = np.abs(array - array.T).max()
    if not excess <= array.shape[0] * 2.0**-48 * np.abs(array).max():
        raise ParameterError(
            name,
            "be symmetric",
            f"a largest asymmetry of {excess:.3g}",
            "average it with its transpose if that is what you mean",
        )
    return 0.5 * (array + array.T)


def _real(values: Floats, shape: tuple[int, ...]) -> Any:
    return float(values[0]) if shape == () else values.reshape(shape)


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and not (isinstance(random_state, int | np.integer) and random_state >= 0):
        raise ParameterError("random_state", "be None, a non-negative integer or a numpy Generator", random_state)
    return np.random.default_rng(random_state)


@dataclass(frozen=True, eq=False, init=False)
class GeneralizedChiSquare:
    """W = shift + Σ weights·χ'²(dof, noncentrality) + sigma·G: independent noncentral chi-squares and a normal G.

    Every method that takes points broadcasts over them; a scalar in gives a float out. Tails, density and their
    logarithms each keep their own relative accuracy, the logarithms far beyond the smallest float. Where an answer
    cannot be computed to that accuracy `PrecisionError` is raised.

    With no term of nonzero weight and sigma = 0 the law is the point mass at `shift`.

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
    _law: _Law = field(repr=False)

    def __init__(
        self, weights: ArrayLike, dof: ArrayLike, noncentrality: ArrayLike = 0.0, sigma: float = 0.0, shift: float = 0.0
    ) -> None:
        w, nu, ncp = broadcast_vectors(
            weights=as_vector("weights", weights),
            dof=as_positive("dof", dof),
            noncentrality=as_vector("noncentrality", noncentrality),
        )
        if not (ncp >= 0).all():
            raise ParameterError("noncentrality", "be non-negative", ncp)
        s, origin = _scalar("sigma", sigma, non_negative=True), _scalar("shift", shift)
        live = w != 0
        largest = max(s, float((np.abs(w) * np.maximum(1.0, np.sqrt(ncp))).max(initial=0.0)))
        unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
        t = 2.0 * (w[live] / unit)
        if not (np.abs(t) >= _FLATTEST).all():
            raise ParameterError("weights", "lie within 150 orders of magnitude of the largest scale", w)
        edge = origin / unit
        nu_live, ncp_live = nu[live], ncp[live]
        products = _exact_products(0.5 * t, np.stack([nu_live, ncp_live]))
        mean = _double_sum([edge, *(v for part in products for v in part.ravel().tolist())])
        groups = zip(t.tolist(), nu_live.tolist(), (t * t * ncp_live).tolist(), strict=True)
        law = _canonical(mean, [*groups, (0.0, 0.0, (s / unit) ** 2)], edge)
        self._freeze(w, nu, ncp, s, origin, unit, law)

    def _freeze(self, *values: Floats | float | _Law) -> None:
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def from_quadratic_form(
        cls, Q: ArrayLike, b: ArrayLike, c: float, mean: ArrayLike, cov: ArrayLike
    ) -> GeneralizedChiSquare:
        """The law of xᵀQx + bᵀx + c for x = N(mean, cov), with Q of any signature and cov singular or not.

        With cov = CCᵀ, CᵀQC = V diag(λ) Vᵀ and g = VᵀCᵀ(2Q·mean + b) the form is a constant plus λZ² + gZ over
        independent standard normals Z, of log-moment −½ log(1−2λs) + ½ g²s²/(1−2λs) each. This, which has no limit
        λ → 0 to fear, is what is computed with; `weights`, `noncentrality` and `shift` describe the same law by
        completed squares.

        Eigenvalues of cov (scaled to unit variances) and of CᵀQC within rounding of zero count as zero (d·2⁻⁵⁰ of the
        terms they are sums of), and so does the linear part left on the latter.

        Parameters
        ----------
        Q
            Symmetric d×d matrix; asymmetry at the level of rounding is averaged, more is refused.
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
        from ndis.spectrum.whitening import _scale, _spectrum

        matrix = _as_symmetric("Q", Q)
        d = matrix.shape[0]
        vectors = []
        for name, value in (("b", b), ("mean", mean)):
            vector = as_vector(name, value)
            if vector.size not in (1, d):
                raise ParameterError(name, f"have length {d}", f"length {vector.size}")
            vectors.append(np.broadcast_to(vector, d))
        slope, mu = vectors
        constant = _scalar("c", c)
        sigma = as_covariance("cov", cov, d)
        # Q·mean, the value at the mean and the gradient there, each with the digits of the exact result
        rows = [_double_sum(row) for row in np.hstack(_exact_products(matrix, mu[None, :])).tolist()]
        high, low = (np.array(part) for part in zip(*rows, strict=True))
        parts = (*_exact_products(mu, high), mu * low, *_exact_products(slope, mu))
        value = _double_sum([constant, *np.concatenate(parts).tolist()])
        gradient = (2.0 * high + slope) + 2.0 * low
        scale = _scale(sigma)
        values, basis, threshold = _spectrum("cov", scale[:, None] * sigma * scale)
        inside = values > threshold
        C = basis[:, inside] * np.sqrt(values[inside]) / scale[:, None]
        A = C.T @ matrix @ C
        lam, V = np.linalg.eigh(0.5 * (A + A.T))
        g = V.T @ (C.T @ gradient)
        # sizes of the terms that λ and g are sums of: what rounding leaves of them
        size = (np.abs(C).T @ np.abs(matrix) @ np.abs(C)).max(initial=0.0)
        slope_size = (np.abs(C).T @ (2.0 * (np.abs(matrix) @ np.abs(mu)) + np.abs(slope))).max(initial=0.0)
        largest = max(np.abs(lam).max(initial=0.0), np.abs(g).max(initial=0.0))
        flat = np.abs(lam) <= max(d * _RANK * size, _FLATTEST * largest)
        still = flat & (np.abs(g) <= d * _RANK * slope_size)
        lam, g = np.where(flat, 0.0, lam), np.where(still, 0.0, g)
        unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
        centre = _double_sum([value[0] / unit, value[1] / unit, *(lam / unit).tolist()])
        groups = [(2.0 * a, 1.0, q) for a, q in zip((lam / unit).tolist(), ((g / unit) ** 2).tolist(), strict=True)]
        law = _canonical(centre, groups, None)
        w, slopes = lam[~flat], g[~flat]
        self = object.__new__(cls)
        self._freeze(
            w,
            np.ones(w.size),
            (slopes / (2.0 * w)) ** 2,
            float(np.linalg.norm(g[flat])),
            math.fsum([*value, *(-0.25 * slopes * (slopes / w))]),
            unit,
            law,
        )
        return self

    # ------------------------------------------------------------------ tails

    def logcdf(self, x: ArrayLike) -> Any:
        """log Pr[W ≤ x]."""
        return self._log_tail(x, upper=False)

    def logsf(self, x: ArrayLike) -> Any:
        """log Pr[W > x]."""
        return self._log_tail(x, upper=True)

    def cdf(self, x: ArrayLike) -> Any:
        """Pr[W ≤ x], accurate relative to itself; ±inf are points like others.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(1.0, 2.0).cdf([-1.0, 0.0, 2e-300, float("inf")])
        array([0.e+000, 0.e+000, 1.e-300, 1.e+000])
        """
        return _exp(self._log_tail(x, upper=False))

    def sf(self, x: ArrayLike) -> Any:
        """Pr[W > x], accurate relative to itself."""
        return _exp(self._log_tail(x, upper=True))

    def _log_tail(self, x: ArrayLike, *, upper: bool) -> Any:
        """log Pr[W > x] or log Pr[W ≤ x]; where that is near 0 it comes from the other tail, by its own integral."""
        from ndis.spectrum.contour import CDF, SF
        from ndis.spectrum.evaluate import NEAR_ONE, log_one_minus_exp

        points = _points("x", x)
        y = points.ravel() / self._unit
        law = self._law
        below, above, near, log_distance = self._where(y)
        out = np.where(below if upper else above, 0.0, -np.inf)
        if near.any():
            within = law.edge_log_tail(log_distance[near], 0)
            out[near] = within if upper == (law.side < 0) else log_one_minus_exp(within)
        todo = np.flatnonzero(~(below | above | near))
        right = y[todo] > law.mean
        for kind, other, part in ((SF, CDF, todo[right]), (CDF, SF, todo[~right])):
            if part.size:
                value = _log_integral(law, y[part], kind)
                out[part] = value if (kind == SF) == upper else log_one_minus_exp(value)
                part = part[value > NEAR_ONE]
            if part.size:
                value = _log_integral(law, y[part], other)
                out[part] = value if (other == SF) == upper else log_one_minus_exp(value)
        return _real(out, points.shape)

    def _where(self, y: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], Floats]:
        """Which points have all the mass above them, all of it below them, or lie so near the end of the support that
        the leading term there is exact; and the logarithm of the distance to that end."""
        law = self._law
        below, above = y == -np.inf, y == np.inf
        near, log_distance = np.zeros(y.size, dtype=np.bool_), np.zeros(y.size)
        if law.constant:
            return y < law.mean, y >= law.mean, near, log_distance
        if law.side:
            high, low = law.edge
            distance = law.side * ((y - high) - low)
            outside = distance <= 0
            below, above = below | (outside & (law.side > 0)), above | (outside & (law.side < 0))
            near = ~outside & (distance <= law.edge_reach)
            log_distance[near] = np.log(distance[near])
        return below, above, near, log_distance

    # ------------------------------------------------------------------ density

    def logpdf(self, x: ArrayLike) -> Any:
        """Logarithm of the density; +inf where it has a pole (see `pdf`)."""
        from ndis.spectrum.contour import PDF

        points = _points("x", x)
        y = points.ravel() / self._unit
        law = self._law
        below, above, near, log_distance = self._where(y)
        out = np.full(y.size, -np.inf)
        if near.any():
            out[near] = law.edge_log_tail(log_distance[near], 1)
        todo = ~(below | above | near)
        if law.constant:
            out[y == law.mean] = np.inf
        elif not law.gaussian:
            at_shift = points.ravel() == self.shift
            if law.side and law.total_dof == 2:
                out[at_shift] = law.edge_log_tail(np.zeros(1), 1)
            elif law.total_dof < 2 or (law.total_dof == 2 and not law.side):
                out[at_shift] = np.inf
                todo &= ~at_shift
        if todo.any():
            out[todo] = _log_integral(law, y[todo], PDF)
        return _real(out - math.log(self._unit), points.shape)

    def pdf(self, x: ArrayLike) -> Any:
        """Density. Without a Gaussian term it is infinite at `shift` when the dof sum to less than 2 (2 or less where
        the weights have both signs); at the end of a bounded support with dof summing to 2 it is the limit from within.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(1.0, [2.0]).pdf([-1.0, 0.0, 2.0]).round(12)
        array([0.        , 0.5       , 0.18393972])
        >>> ndis.GeneralizedChiSquare([1.0, -1.0], 1.0).pdf(0.0)
        inf
        """
        return _exp(self.logpdf(x))

    # ------------------------------------------------------------------ quantiles

    def ppf(self, probability: ArrayLike) -> Any:
        """The x with cdf(x) = probability; the ends of the support at 0 and 1.

        >>> import ndis
        >>> law = ndis.GeneralizedChiSquare([1.0, 0.3], [1.0, 2.0])
        >>> law.ppf([0.0, 1.0])
        array([ 0., inf])
        >>> law.cdf(law.ppf(1e-300)) / 1e-300 - 1 < 1e-12
        True
        """
        return self._quantiles(probability, upper=False)

    def isf(self, probability: ArrayLike) -> Any:
        """The x with sf(x) = probability; the ends of the support at 1 and 0."""
        return self._quantiles(probability, upper=True)

    def _quantiles(self, probability: ArrayLike, *, upper: bool) -> Any:
        p = as_floats("probability", probability)
        if not ((p >= 0) & (p <= 1)).all():
            raise ParameterError("probability", "lie between 0 and 1", probability)
        low, high = self.support()
        ends = {0.0: high, 1.0: low} if upper else {0.0: low, 1.0: high}
        values = [ends[v] if v in ends else self._quantile(v, upper=upper) for v in p.ravel().tolist()]
        return _real(np.array(values), p.shape)

    def _quantile(self, p: float, *, upper: bool) -> float:
        """Solve about the end of the support where there is one, so that the distance to it has its digits."""
        from ndis.spectrum.evaluate import quantile

        law, unit = self._law, self._unit
        if law.constant:
            return self.shift
        if not law.from_end:
            return unit * quantile(law, p, upper=upper)
        if upper == (law.side < 0):
            log_y = (math.log(p) - float(law.edge_log_tail(np.zeros(1), 0)[0])) / (0.5 * law.total_dof)
            if log_y <= math.log(law.edge_reach):
                return self.shift + law.side * unit * math.exp(log_y)
        return self.shift + unit * quantile(self._about_end, p, upper=upper)

    @cached_property
    def _about_end(self) -> _Law:
        """The law less the end of its support."""
        law = self._law
        mean = _double_sum([law.mean, law.mean_low, -law.edge[0], -law.edge[1]])
        return replace(law, mean=mean[0], mean_low=mean[1], exact_edge=lambda: (0.0, 0.0))

    # ------------------------------------------------------------------ moments and the rest

    def mean(self) -> float:
        """Expectation, shift + Σ λ(ν + ncp)."""
        return self._law.mean * self._unit

    def var(self) -> float:
        """Variance, σ² + Σ 2λ²(ν + 2 ncp)."""
        return self._law.cumulant(2) * self._unit**2

    def std(self) -> float:
        """Standard deviation."""
        return self._law.spread * self._unit

    def skewness(self) -> float:
        """Third standardised cumulant; a point mass has none.

        >>> import ndis
        >>> round(ndis.GeneralizedChiSquare(5.0, 8.0).skewness(), 12)
        1.0
        """
        return self._standardised(3)

    def kurtosis(self) -> float:
        """Excess kurtosis, the fourth standardised cumulant; a point mass has none."""
        return self._standardised(4)

    def _standardised(self, n: int) -> float:
        if self._law.constant:
            raise ParameterError("the variance", "be positive for a standardised moment", 0.0)
        return self._law.cumulant(n) / self._law.spread**n

    def support(self) -> tuple[float, float]:
        """Ends of the support: bounded by `shift` when there is no Gaussian term and all weights have one sign.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare([-1.0, -2.0], 1.0, shift=3.0).support()
        (-inf, 3.0)
        """
        side = self._law.side
        if self._law.constant:
            return self.shift, self.shift
        return (self.shift if side > 0 else -math.inf), (self.shift if side < 0 else math.inf)

    def cgf(self, s: ArrayLike) -> Any:
        """Cumulant generating function log E e^{sW} at real s; infinite outside its domain.

        >>> import ndis
        >>> ndis.GeneralizedChiSquare(0.5, 2.0).cgf([-1e300, 0.0, 0.5, 1.0]).round(9)
        array([-690.77552...,    0.        ,    0.69314...,           inf])
        """
        points = as_floats("s", s)
        law = self._law
        low, high = law.domain
        values = [law.log_moment(z) if low < z < high else math.inf for z in (points.ravel() * self._unit).tolist()]
        return _real(np.array(values), points.shape)

    def rvs(
        self, size: int | tuple[int, ...] | None = None, random_state: int | np.random.Generator | None = None
    ) -> Any:
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
                rest = rng.chisquare(nu - 1.0, size) if nu > 1 else 0.0
                total += math.sqrt(q) * z + (0.5 * t * (z * z + rest - nu) if nu else 0.0)
        values = (law.edge[0] if law.from_end else law.mean) * self._unit + total * self._unit
        return float(values) if size is None else values


def _exp(log_values: Any) -> Any:
    values = np.exp(log_values)
    return float(values) if values.ndim == 0 else values
