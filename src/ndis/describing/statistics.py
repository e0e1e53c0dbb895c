"""Errors of statistics of noisy sums: a ratio of two sums by Fieller's interval, the others by the delta method.

A statistic of the moments has a gradient A: a small change E of the sums Σ(x − μ)(x − μ)ᵀ, with a constant 1 next to x,
changes it by ⟨A, E⟩. Then its variance is the sum of

- the noise of privacy: s²·‖TᵀAT‖_F² for symmetric noise of scale s, where T centres the released rows;
- sampling: n·Var(xᵀAx), which is 2n·tr((AΣ)²) for normal rows; for others (1 + κ) times that and κ·n·tr(AΣ)² more, as
  for elliptical rows with the excess kurtosis 3κ of the columns;
- the square of what clipping may have taken: ⟨A, B⟩ ≤ Σ|Aᵢⱼ|·√(BᵢᵢBⱼⱼ) for the positive matrix B of what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from ndis._validate import Floats, as_one_probability, as_scalar

_TAIL_NOISE = 6.0  # standard deviations of the noise of a bin that a tail holds at least
_TAIL_FIT = 0.2  # relative error of the share of a bin by a law
_FEW = 0.05  # weight of the laws by which a few are far away, before the histogram
_MORE: Floats = np.array([0.5, 1.0, 1.5, 2.0])  # how many these are, in standard deviations of the noise of a bin
TIMES: Floats = 2.0 ** (np.arange(97) / 8)  # lengths over that where the law starts; an edge is four times further
_CROSSED = 0.3  # share of the largest product of two columns that clipping takes: a long row is long in one, as a rule


def quantile_of(level: float) -> float:
    """Return z with P(|N(0, 1)| ≤ z) = level."""
    return float(ndtri((1.0 + as_one_probability("level", as_scalar("level", level))) / 2.0))


def ratio(
    total: Any, count: Any, *, own: Any, below: Any, crossed: Any = 0.0, z: float, ends: tuple[float, float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return total/count with standard error and interval, for the variances of both, and their covariance `crossed`.

    Fieller: all μ with (total − μ·count)² ≤ z²·(own − 2μ·crossed + μ²·below), within the two ends. If the noise hides
    the count, the ratio is unknown, and the interval is all that lies between the ends.

    >>> [float(x.round(3)) for x in ratio(50.0, 100.0, own=26.0, below=0.0, z=2.0, ends=(0, 1))]
    [0.5, 0.051, 0.398, 0.602]
    """
    total, count = np.asarray(total, dtype=np.float64), np.asarray(count, dtype=np.float64)
    leading, middle = count**2 - z**2 * below, total * count - z**2 * crossed
    clear = (leading > 0.0) & (count > 0.0)
    with np.errstate(all="ignore"):
        estimate = np.where(clear, total / count, np.nan)
        variance = own - 2.0 * estimate * crossed + estimate**2 * below
        error = np.where(clear, np.sqrt(np.maximum(variance, 0.0)) / count, np.inf)
        root = np.sqrt(np.maximum(middle**2 - leading * (total**2 - z**2 * own), 0.0))
        low = np.where(clear, (middle - root) / leading, ends[0])
        high = np.where(clear, (middle + root) / leading, ends[1])
    return estimate, error, np.clip(low, *ends), np.clip(high, *ends)


@cache
def tail_laws() -> Floats:
    """Return P(length > xℓ) = exp(−a(xᵇ − 1)/b) at the `TIMES` x, for many a and b: from powers to normal laws.

    −d log P/d log x = axᵇ is at least 2 after four doublings, so that the variance of a mean is no matter of luck.
    """
    start, growth = np.meshgrid(2.0 ** np.arange(-0.5, 2.1, 0.25), [1e-9, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 2.0])
    a, b = (each[start * 16.0**growth >= 2.0][:, None] for each in (start, growth))
    return np.asarray(np.exp(np.maximum(-a * np.expm1(b * np.log(TIMES)) / b, -700.0)))


def tails(
    edges: Floats, counts: Floats, noise: float, share: float = 0.05, *, far: bool = False, start: int | None = None
) -> tuple[int, float, Floats, Floats]:
    """Fit laws to the tail of a noisy histogram of lengths, whose edges grow by √2: the longest ones hide in the noise.

    The tail is `share` of all, or six standard deviations of the noise of a bin if that is more, or begins at `start`.
    With `far` there are also laws by which one bin holds more than its neighbours tell: as many as it shows, and as the
    noise may hide.

    Returns
    -------
    start : int
        The tail is what lies beyond this edge.
    count : float
        How many lie there.
    laws : (laws, times) array
        P(length > x) by each law, for x at the `TIMES` the edge.
    fits : (laws,) array
        The logarithm of the likelihood of each law.

    Examples
    --------
    >>> edges, counts = 2.0 ** (np.arange(8) / 2), np.r_[np.zeros(3), 800.0, 150.0, 50.0, 0.0, 0.0, 0.0]
    >>> start, count, laws, fits = tails(edges, counts, 2.0)
    >>> weights = np.exp(fits - logsumexp(fits))
    >>> float(edges[start]), count, (weights @ laws)[:13:4].round(2).tolist()
    (4.0, 50.0, [1.0, 0.2, 0.02, 0.0])
    """
    longer = np.cumsum(counts[::-1])[::-1][1:]  # longer[i]: beyond edges[i]
    if start is None:
        start = min(int(np.argmax(longer <= max(share * float(counts.sum()), _TAIL_NOISE * noise))), len(edges) - 2)
    count, seen, laws = max(float(longer[start]), noise), counts[start + 1 :], tail_laws()

    def fit(laws: Floats, whole: float) -> tuple[Floats, Floats]:
        """Return how many each law expects per bin, and the logarithm of its likelihood times its part of a weight."""
        expected = -count * np.diff(laws[:, : 4 * len(seen) : 4], append=0.0)
        variance = noise**2 + expected + (_TAIL_FIT * expected) ** 2
        apart = np.square(seen - expected) / variance + np.log(variance)
        return expected, np.log(whole / len(laws)) - apart.sum(axis=1) / 2.0

    expected, fits = fit(laws, 1.0 - _FEW)
    if far:
        mean = np.exp(fits - logsumexp(fits))
        more = np.maximum(seen - mean @ expected - noise, 0.0)[:, None] + noise * _MORE
        moved = np.minimum(more / count, 1.0)[:, :, None]
        middle = np.arange(len(TIMES)) < 4 * np.arange(len(seen))[:, None, None] + 2
        others = ((1.0 - moved) * (mean @ laws) + moved * middle).reshape(-1, len(TIMES))
        laws, fits = np.vstack([laws, others]), np.append(fits, fit(others, _FEW)[1])
    return start, count, laws, fits


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Hold count, means and covariances that one noisy Gram matrix of rows and a constant gives, unbiased.

    Attributes
    ----------
    records : float
    mean : (columns,) array
    covariance : (columns, columns) array
        Not repaired: noise may leave it with negative eigenvalues.
    noise : float
        s of the Gram matrix: the standard deviation on its diagonal.
    constant : float
        The value of the constant column.
    excess : (columns,) array
        κ, a third of the excess kurtosis.
    lost : (laws, columns) array
        What clipping took from the sum of squares of every column, by each law that the longest rows may have.
    chances : (laws, columns) array, or (laws, 1)
        The weights of these laws, for every column.
    own, seen : (columns,) arrays
        The share that the matrix has in every variance, and the noise of the variance over that of the matrix.
    """

    records: float
    mean: Floats
    covariance: Floats
    noise: float
    constant: float
    excess: Floats
    lost: Floats
    chances: Floats
    own: Floats
    seen: Floats

    @classmethod
    def of(cls, gram: Floats, *, noise: float, constant: float, records: float | None = None) -> NoisyMoments:
        """Take the moments of a released matrix, whose last column is the constant.

        >>> moments = NoisyMoments.of(np.array([[500.0, 200.0], [200.0, 100.0]]), noise=1.0, constant=1.0)
        >>> moments.records, moments.mean.tolist(), moments.covariance.tolist()
        (100.0, [2.0], [[1.0]])
        """
        count = max(float(gram[-1, -1]), noise, constant**2) / constant**2 if records is None else records
        mean = gram[:-1, -1] / (constant * count)
        covariance = gram[:-1, :-1] / count - np.outer(mean, mean)
        zero, one = np.zeros((1, len(mean))), np.ones(len(mean))
        return cls(count, mean, covariance, noise, constant, zero[0], zero, one[None], one, one)

    def with_variances(self, variances: Floats, errors: Floats) -> NoisyMoments:
        """Return the moments with variances of the first columns from elsewhere, with noise of their own, averaged in.

        To those of the matrix comes what clipping took on average. How far both are apart tells which laws are likely:
        given the law, the difference is what clipping took, with normal noise.

        >>> moments = NoisyMoments.of(np.array([[500.0, 200.0], [200.0, 100.0]]), noise=1.0, constant=1.0)
        >>> better = moments.with_variances(np.array([2.0]), np.array([0.01]))
        >>> better.covariance.tolist(), better.seen.round(3).tolist()  # half of each
        ([[1.5]], [0.707])
        """
        more = (0, len(self.mean) - len(errors))
        variances, errors = np.pad(variances, more), np.pad(errors, more, constant_values=1e9)  # the matrix alone tells
        gap, noise = variances - np.diagonal(self.covariance), self.noise / self.records
        apart = np.hypot(errors, noise)
        unlike = np.where(self.chances > 0.0, ((gap - self.lost / self.records) / apart) ** 2 / 2.0, np.inf)
        chances = self.chances * np.exp(unlike.min(axis=0) - unlike)
        chances /= chances.sum(axis=0)
        own, taken = (errors / apart) ** 2, (chances * self.lost).sum(axis=0)
        seen = np.hypot(own, (1.0 - own) * errors / noise)
        covariance = self.covariance + np.diag(own * taken / self.records + (1.0 - own) * gap)
        return replace(self, covariance=covariance, lost=(self.lost - taken) * own, chances=chances, own=own, seen=seen)

    def error(self, gradients: Any, index: Any, *, kurtosis: bool = True) -> Floats:
        """Return the covariance of the errors of statistics with these gradients, in the columns `index` and a one.

        >>> moments = NoisyMoments.of(np.array([[500.0, 200.0], [200.0, 100.0]]), noise=1.0, constant=1.0)
        >>> moments.error(paired(np.eye(2)[:1], np.eye(2)[1], 100.0), [0]).round(4).tolist()  # 1/100, and noise
        [[0.0105]]
        """
        A, chosen, m = np.asarray(gradients, dtype=np.float64), np.asarray(index, dtype=np.intp), len(index)
        T = np.eye(m + 1)
        T[:-1, -1], T[-1, -1] = -self.mean[chosen] / self.constant, 1.0 / self.constant
        # What the first sums tell of a variance has nothing to do with the means of the matrix.
        released = T.T @ (A * (1.0 - np.diag(np.append(1.0 - self.own[chosen], 0.0)))) @ T
        released[:, range(m), range(m)] = A[:, range(m), range(m)] * self.seen[chosen]
        elsewhere = (1.0 - self.own[chosen]) * np.diagonal(self.covariance)[chosen]  # not over the count of the matrix
        released[:, m, m] += np.diagonal(A, axis1=1, axis2=2)[:, :m] @ elsewhere / self.constant**2
        released = released.reshape(len(A), -1)
        sigma = np.eye(m + 1)
        sigma[:m, :m] = self.covariance[np.ix_(chosen, chosen)]
        drawn = A.copy()
        drawn[:, -1, -1] = 0.0  # the constant is not
        spread = np.sqrt(np.maximum(np.diagonal(sigma)[:m], 0.0))
        weight = np.abs(drawn[:, :m, :m]) @ spread * spread * kurtosis + 1e-300
        kappa = weight @ self.excess[chosen] / weight.sum(axis=1) * kurtosis
        product = drawn @ sigma
        grown = np.sqrt(np.maximum(1.0 + kappa, 0.0))
        sampling = 2.0 * np.einsum("aij,bji->ab", product, product) * np.outer(grown, grown)
        sampling += np.diag(kappa * np.trace(product, axis1=1, axis2=2) ** 2)
        np.fill_diagonal(sampling, np.maximum(np.diagonal(sampling), 0.0))
        taken = (self.chances * self.lost**2).sum(axis=0)[chosen] ** 0.25
        bias = (np.abs(A[:, :m, :m]) * (_CROSSED + (1.0 - _CROSSED) * np.eye(m))) @ taken @ taken
        return np.asarray(self.noise**2 * released @ released.T + self.records * sampling + np.diag(bias**2))

    def product(self, i: int, j: int, z: float) -> tuple[float, float, float, float]:
        """Return a variance or a covariance with standard error and interval.

        Clipping takes from a variance and adds nothing. So the estimate of a variance is that of the law of which least
        was lost. Its interval ends at quantiles of the mixture of all laws, and it covers if nothing more was lost.

        >>> moments = NoisyMoments.of(np.array([[500.0, 200.0], [200.0, 100.0]]), noise=1.0, constant=1.0)
        >>> laws = replace(moments, lost=np.array([[0.0], [50.0]]), chances=np.array([[0.5], [0.5]]))
        >>> [round(x, 2) for x in laws.product(0, 0, 2.0)]
        [1.0, 0.38, 0.75, 1.75]
        """
        gradient = paired(np.eye(3)[:1], np.eye(3)[int(i != j)], self.records)
        gradient[0, -1, -1] = -self.covariance[i, j] / self.records
        value, error = float(self.covariance[i, j]), float(np.sqrt(self.error(gradient, [i, j])[0, 0]))
        if i != j:
            return value, error, value - z * error, value + z * error
        shifts, chances, beyond = self.lost[:, i] / self.records, self.chances[:, i], float(ndtr(-z))
        own = float(np.sqrt(np.maximum(error**2 - chances @ shifts**2, 0.0))) + 1e-300
        least = value + float(shifts.min())
        tried = np.linspace(least - 9.0 * own, value + float(shifts.max()) + 9.0 * own, 801)
        held = ndtr((tried[:, None] - value - shifts) / own) @ chances
        low = min(float(np.interp(beyond, held, tried)), least + own * float(ndtri(2.0 * beyond)))
        high = float(np.interp(1.0 - 2.0 * beyond + np.interp(low, tried, held), held, tried))
        return least, error, max(low, 0.0), max(high, 0.0)

    def correlation(self, i: int, j: int, z: float) -> Any:
        """Return a correlation with standard error and Fieller's interval; unknown if the noise hides a variance.

        It is the ratio of the covariance and the root of both variances.
        """
        a, c, b = (float(self.covariance[pair]) for pair in ((i, i), (i, j), (j, j)))
        if not (a > 0 and b > 0):
            return np.nan, np.inf, -1.0, 1.0
        root = np.sqrt(a * b)
        gradients = np.zeros((2, 3, 3))
        gradients[0] = paired(np.eye(3)[:1], np.eye(3)[1], self.records)[0]
        gradients[1, [0, 1], [0, 1]] = root / (2.0 * self.records) / np.array([a, b])
        gradients[:, -1, -1] = -np.array([c, root]) / self.records
        errors = self.error(gradients, [i, j])
        return ratio(c, root, own=errors[0, 0], below=errors[1, 1], crossed=errors[0, 1], z=z, ends=(-1.0, 1.0))

    def directions(self, index: Any) -> tuple[Floats, Floats]:
        """Return the eigenvalues of the covariance of these columns, falling, and rows of eigenvectors.

        The largest entry of each is positive.
        """
        values, vectors = np.linalg.eigh(self.covariance[np.ix_(index, index)])
        rows = vectors[:, ::-1].T
        return values[::-1], rows * np.sign(rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)])[:, None]

    def components(self, index: Any, count: int) -> tuple[Floats, Floats, Floats, int]:
        """Return variances and loadings of components, standard errors of both, and how many variances are negative.

        A variance below zero, which only noise makes, is set to zero. Loadings are rows, the largest entry positive.
        """
        values, vectors = self.directions(index)
        errors = []
        for i, v in enumerate(vectors[:count]):
            with np.errstate(divide="ignore"):
                gaps = np.where(np.arange(len(values)) == i, 0.0, 1.0 / (values[i] - values))
            rows = np.pad(np.vstack([v, (vectors.T * gaps) @ vectors]), ((0, 0), (0, 1)))
            gradients = paired(rows, np.append(v, 0.0), self.records)
            gradients[0, -1, -1] = -values[i] / self.records
            errors.append(np.sqrt(np.diagonal(self.error(gradients, index))))
        return np.maximum(values[:count], 0.0), vectors[:count], np.array(errors), int((values < 0).sum())

    def clear(self, index: Any) -> bool:
        """Return whether the noise leaves every direction of these columns visible."""
        least = np.linalg.eigvalsh(self.covariance[np.ix_(index, index)] * self.records)[0]
        return bool(least > self.noise * max(3.0, 1.2 * np.sqrt(2.0 * len(index))))


def paired(rows: Floats, other: Floats, records: float) -> Floats:
    """Return the gradients of averages of (row·x)(other·x), one per row.

    >>> paired(np.array([[1.0, 0.0]]), np.array([0.0, 1.0]), 1.0).tolist()
    [[[0.0, 0.5], [0.5, 0.0]]]
    """
    return (rows[:, :, None] * other + other[:, None] * rows[:, None, :]) / (2.0 * records)
