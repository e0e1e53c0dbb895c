"""Find the minimiser of the penalised logistic loss, with a certificate of its gradient (def:blr-gaussian-output).

    L(w) = Σ log(1 + exp(−zᵢᵀw)) + (λ/2)‖w‖²,    ∇L(w) = λw − Σ σ(−zᵢᵀw) zᵢ,    zᵢ = yᵢxᵢ

L is λ-strongly convex, so ‖∇L(w)‖ ≤ g puts w within g/λ of the minimiser. Newton's method with halved steps finds the
point in floats. It converges from anywhere, because L is strongly convex with a Lipschitz Hessian. Then the gradient is
bounded with certainty in one of two ways. The first is floats with a proved rounding bound, if that is small enough.
The second is ball arithmetic, which refines the point until it passes. So the outcome reveals nothing about the data.

*Rounding bound.* Rows are integers times a power-of-two fraction of the bound. With u = 2⁻⁵³, γₖ = ku/(1−ku),
p columns and rows z:

    margin          |û − zᵀw| ≤ γ_{p+1} ‖z‖‖w‖             (one rounding of step·w, any order of summation)
    σ               |σ̂(û) − σ(û)| ≤ 2⁻⁴⁶                   (`ndis.gram.terms`), and σ is ¼-Lipschitz
    Σ σ̂ z           γ_{b+1} Σ‖z‖ for blocks of b rows, added without error by `math.fsum`, rounded once
    λw − step·Σ     γ₄ (λ‖w‖ + Σ‖z‖)
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, fmpz

from ndis._balls import middle_of, precision
from ndis._exact import ExactArray, exact_array
from ndis._validate import Floats
from ndis.errors import PrecisionError
from ndis.gram.terms import probabilities

_UNIT = 2.0**-53
_SIGMOID_ERROR = 2.0**-46
_BLOCK = 512
_STEPS = 200
_REFINEMENTS = 100


def minimise(signed_rows: Floats, steps: tuple[Fraction, ...], *, l2_penalty: float, tolerance: float) -> ExactArray:
    """Find a point with a certified ‖∇L‖ ≤ `tolerance`, as exact numbers.

    Parameters
    ----------
    signed_rows : (n, p) array
        Integers qᵢ as floats: zᵢ = steps·qᵢ.
    steps : p fractions
        The grid of each column, exact in float64.
    l2_penalty : float
        λ.
    tolerance : float
        g.

    Raises
    ------
    PrecisionError
        If no certified point is found. Newton's method converges and ball arithmetic refines without end. So this
        happens only outside the range that `BohningLogistic` accepts, and the message says nothing about the data.
    """
    grid = np.array([float(step) for step in steps])
    rows = signed_rows[signed_rows.any(axis=1)]  # a zero row adds a constant to L
    w = _newton(rows * grid, l2_penalty, tolerance)
    if gradient_bound(rows, grid, w, l2_penalty) <= tolerance:
        return exact_array(w)
    return _refine(rows, grid, w, l2_penalty, tolerance)


def gradient_bound(rows: Floats, grid: Floats, w: Floats, l2_penalty: float) -> float:
    """Certify an upper bound of ‖∇L(w)‖, in floats; NaN or infinity if floats cannot tell.

    >>> z = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> 0.559 < gradient_bound(z, np.array([0.5, 0.5]), np.zeros(2), 3.0) < 0.5591
    True
    """
    n, p = rows.shape
    with np.errstate(all="ignore"):
        scaled = grid * w
        size = float(np.sqrt(np.sum(w * w)))
        squares = np.sum((rows * grid) ** 2, axis=1)
        up = 1 + (n + p + 16) * 2.0**-52  # past the rounding of these sums, in any order
        lengths, squared = float(np.sum(np.sqrt(squares))) * up, float(np.sum(squares)) * up  # Σ‖z‖ and Σ‖z‖²
        blocks = (rows[a : a + _BLOCK] for a in range(0, n, _BLOCK))
        sums = np.array([_weights(block @ scaled) @ block for block in blocks]).reshape(-1, p)
        total = np.array([math.fsum(column) for column in sums.T]) if np.isfinite(sums).all() else np.full(p, np.nan)
        gradient = l2_penalty * w - grid * total
        error = 0.25 * _gamma(p + 1) * squared * size + (_SIGMOID_ERROR + _gamma(_BLOCK + 1)) * lengths
        error += _gamma(4) * (l2_penalty * size + lengths) + 2.0**-900  # the last for underflow
        return float((np.sqrt(np.sum(gradient * gradient)) + error) * (1 + 2.0**-40))


def _gamma(k: int) -> float:
    return k * _UNIT / (1 - k * _UNIT)


def _weights(margin: Floats) -> Floats:
    """Return σ(−margin) with absolute error at most 2⁻⁴⁶, from single IEEE operations."""
    return np.asarray(probabilities(np, -margin[None])[0])


def _newton(z: Floats, l2_penalty: float, tolerance: float) -> Floats:
    """Run Newton's method with halved steps, in floats; no promise."""
    w = np.zeros(z.shape[1])

    def loss(w: Floats) -> float:
        return float(np.logaddexp(0.0, -(z @ w)).sum() + 0.5 * l2_penalty * (w @ w))

    with np.errstate(all="ignore"):
        value = loss(w)
        for _ in range(_STEPS):
            a = _weights(z @ w)
            gradient = l2_penalty * w - a @ z
            if float(np.sqrt(gradient @ gradient)) <= tolerance / 16:
                break
            direction = _solve(_hessian(z, a, l2_penalty), gradient)
            scale = 1.0
            while not (trial := loss(w - scale * direction)) <= value and scale > 2.0**-30:
                scale /= 2
            if not trial <= value:
                break
            w, value = w - scale * direction, trial
    return w if np.isfinite(w).all() else np.zeros(z.shape[1])


def _hessian(z: Floats, a: Floats, l2_penalty: float) -> Floats:
    return np.asarray((z * (a * (1 - a))[:, None]).T @ z + l2_penalty * np.eye(z.shape[1]))


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
    except np.linalg.LinAlgError:  # singular to working precision: take a step along the gradient
        return np.asarray(gradient / np.trace(hessian))


def _refine(rows: Floats, grid: Floats, w: Floats, l2_penalty: float, tolerance: float) -> ExactArray:
    """Run Newton's method on gradients enclosed in ball arithmetic, until the enclosure passes."""
    bits = 192
    scale = [arb(x) for x in grid.tolist()]
    point = arb_mat([[arb(x)] for x in w.tolist()])
    for _ in range(_REFINEMENTS):
        with precision(bits):
            total, weights = point * arb(l2_penalty), np.empty(len(rows))
            for start in range(0, len(rows), _BLOCK):  # balls take a hundred times the memory of floats
                block = rows[start : start + _BLOCK].tolist()
                # integers below 2⁵³ times floats: exact
                matrix = arb_mat([[arb(fmpz(int(q))) * x for q, x in zip(row, scale, strict=True)] for row in block])
                a = [1 / (1 + margin.exp()) for (margin,) in (matrix * point).tolist()]
                total -= matrix.transpose() * arb_mat([[x] for x in a])
                weights[start : start + _BLOCK] = [float(x.mid()) for x in a]
            gradient = total.tolist()
            norm = sum((g * g for (g,) in gradient), arb(0)).sqrt()
            if norm <= arb(tolerance):
                return exact_array(np.array([middle_of(x) for (x,) in point.tolist()], dtype=object))
            middle = [g.mid() for (g,) in gradient]
            largest = max((abs(float(g)) for g in middle), default=0.0)
            if float(norm.rad()) * 4 > tolerance or not largest > 0:
                bits *= 2
                continue
            unit = np.array([float(g / largest) for g in middle])
            direction = _solve(_hessian(rows * grid, weights, l2_penalty), unit)
            moves = zip(point.tolist(), direction, strict=True)
            point = arb_mat([[(x - arb(float(d)) * arb(largest)).mid()] for (x,), d in moves])
    raise PrecisionError("no point with the declared gradient_tolerance was found, so nothing is released")
