"""δ(ε) of many small pairs at once, for an auditor who asks about a million neighbours."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis._validate import Floats, as_floats, require
from ndis.errors import ParameterError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.spectrum.contour import COMPLEMENT, DELTA, evaluate
from ndis.spectrum.evaluate import NEAR_ONE, log_delta_at, log_one_minus_exp, lost
from ndis.spectrum.loss import half_excess_log

# Near the end of a bounded loss, δ is as sensitive to that end as edge/gap. Beyond this bound the row is computed from
# its exact inputs.
_EDGE_LOSS = 64.0


def delta_batch(
    variance_ratio: ArrayLike | None = None,
    shift: ArrayLike = 0.0,
    copies: ArrayLike = 1,
    epsilon: ArrayLike = 0.0,
    *,
    excess: ArrayLike | None = None,
    log: bool = False,
) -> Floats:
    """Return the δ(ε) of n pairs N(shift, diag variance_ratio) against N(0, I), on all cores.

    Parameters
    ----------
    variance_ratio : array of shape (n,) or (n, k)
        Each row is one pair. In a vector each entry is one pair with one direction.
    shift, copies : arrays that broadcast against it
    epsilon : scalar or array of shape (n,)
    excess : array, instead of `variance_ratio`
        Ratios − 1. Give these if you know them better than the ratios, because neighbours differ little.
    log : bool
        True for log δ, which is accurate far below the smallest float.

    Returns
    -------
    array of shape (n,), each entry as accurate as `GaussianPair.delta`.

    Examples
    --------
    >>> import numpy as np, ndis
    >>> ndis.delta_batch([1.5, 2.0, 4.0], epsilon=1.0).round(6)
    array([0.008643, 0.045612, 0.196711])
    >>> ndis.delta_batch([1.0], shift=[0.01], epsilon=3.0, log=True).round(3)
    array([-45015.432])
    """
    ratio, t, m, n, eps = checked_rows(variance_ratio, shift, copies, epsilon, excess)
    out = np.full(eps.size, np.nan)
    flat = t == 0
    nu, q = np.where(flat, 0.0, n), n * m * m * ratio
    mean = np.sum(n * (half_excess_log(t, ratio) + 0.5 * m * m), axis=1)

    # near the end of a loss bounded on one side, δ is known exactly or computed from the exact inputs
    still = flat & (m == 0)
    below, above = ((t < 0) | still).all(axis=1), ((t > 0) | still).all(axis=1)
    edge = mean - 0.5 * np.sum(np.where(flat, 0.0, nu * t + q / np.where(flat, 1.0, t)), axis=1)
    gap, about_mean = edge - eps, mean - eps
    near = (below | above) & (np.abs(gap) <= 0.25 * np.abs(about_mean))
    delicate = near & (np.abs(gap) * _EDGE_LOSS <= np.abs(edge) + np.abs(eps))
    out[below & (gap <= 0) & ~delicate] = -np.inf
    everything = above & (gap >= 0) & (eps < 0) & ~delicate
    out[everything] = log_one_minus_exp(eps[everything])

    todo = np.flatnonzero(np.isnan(out) & ~delicate)
    k = t.shape[1]

    def integrate(rows: NDArray[np.intp], kind: int) -> Floats:
        first = np.arange(rows.size, dtype=np.int64) * k
        lin = np.where(near, gap, about_mean)[rows]
        a, b, c, d = (np.ascontiguousarray(x[rows]).ravel() for x in (t, ratio, nu, q))
        value, slope, error = evaluate(lin, first, first + k, (a, b, c, d), near[rows], kind)
        rounded = np.where(near[rows], np.abs(lin), np.abs(mean[rows]) + np.abs(eps[rows]))  # bounds the linear term
        doubtful = lost(value, error + 2.0**-52 * np.abs(slope) * rounded)
        return np.where(doubtful, np.nan, value)  # computed again below, on its own

    out[todo] = integrate(todo, DELTA)
    large = todo[out[todo] > NEAR_ONE]
    if large.size:
        out[large] = log_one_minus_exp(integrate(large, COMPLEMENT))
    make, rows = (GaussianPair.from_excess, t) if variance_ratio is None else (GaussianPair.from_ratios, ratio)
    for i in np.flatnonzero(np.isnan(out)):
        out[i] = log_delta_at(make(rows[i], m[i], n[i]), float(eps[i]))
    return out if log else np.exp(out)


log_delta_batch = partial(delta_batch, log=True)


def checked_rows(
    variance_ratio: ArrayLike | None, shift: ArrayLike, copies: ArrayLike, epsilon: ArrayLike, excess: ArrayLike | None
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return validated (ratio, t, shift, copies) of shape (n, k) and ε of shape (n,)."""
    if (variance_ratio is None) == (excess is None):
        raise ParameterError("variance_ratio", "be given, or excess instead of it", "both or neither")
    value: Any = excess if variance_ratio is None else variance_ratio
    given = as_floats("excess" if variance_ratio is None else "variance_ratio", value)
    ratio, t = (1.0 + given, given) if variance_ratio is None else (given, given - 1.0)
    if not (ratio > 0).all():
        raise ParameterError("variance_ratio", "be positive", f"a smallest value of {ratio.min()}")
    require(ratio.ndim in (1, 2), "variance_ratio", "have shape (n,) or (n, k)", f"shape {ratio.shape}")
    m, n, eps = as_floats("shift", shift), as_floats("copies", copies), as_floats("epsilon", epsilon)
    if not ((m == 0) | (np.abs(m) >= LEAST_SHIFT)).all():
        raise ParameterError("shift", f"be 0 or at least {LEAST_SHIFT} in size", "a smaller one")
    if not ((n >= 1) & (n == np.floor(n))).all():
        raise ParameterError("copies", "be whole numbers of at least 1", f"a smallest value of {n.min()}")
    try:
        ratio, t, m, n = (np.array(a) for a in np.broadcast_arrays(ratio, t, m, n))
        if ratio.ndim == 1:
            ratio, t, m, n = (a[:, None] for a in (ratio, t, m, n))
        eps = np.array(np.broadcast_to(eps, ratio.shape[:1]))
    except ValueError:
        raise ParameterError("shift, copies and epsilon", "broadcast against variance_ratio", "other shapes") from None
    return ratio, t, m, n, eps
