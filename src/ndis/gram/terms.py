"""Make one record's term from its integer row and public numbers, the same bits everywhere, and sum terms exactly.

A tile holds integer rows (`ndis.gram.rows`) with the columns features, targets, marker. The marker is 2ᵏ for a record
and 0 for a row that could not be read. A term is x ⊗ v: x the features (and the constant), v one number per output:

    residual   v = y − xᵀθ                      gradient   v = softmax(xᵀθ) − onehot(y)

*Exact products.* θ is rounded to integers w so that 2ᵏ·(‖w‖ + |w₀| + 2ᶠ) ≤ 2⁵³, with w₀ for the constant and 2ᶠ for
the target. Every partial sum of q·w is then an integer of at most 2⁵³, by Cauchy–Schwarz. A float64 matrix product
returns it exactly, in any order, fused or not. So one row's residual does not depend on the length of its block.

*The clip.* x is the integer row times the step s. In units of s·υ, with υ a public unit for v, the clip is M:

    h = √(Σq² + (c/b)²4ᵏ),   L = M·(1 − 2⁻⁴⁰)/h,   u = rint(v/υ)               if ‖u‖ ≤ L   (nearest grid point)
                                                   u = trunc((v/υ)·L/‖v/υ‖)    otherwise    (pulled in)

The term is q ⊗ u. Before the clip v may be multiplied by a weight of the row, min(1, R/h)² for a public R. Norms of u
and v are sums over the outputs in a fixed order. Each of the at most 2¹² + 8 roundings is relative and at most 2⁻⁵³, so
they are below 2⁻⁴⁰ in all, and truncation only shortens: ‖x_int‖·‖u‖ ≤ M in exact arithmetic. M·s·υ ≤ C holds exactly,
in rationals, by the choice of M. So the term has norm at most C.

*The same bits.* Apart from exact integer products and sums, only single elementwise IEEE operations are used.

*The exponential.* Libraries differ in the last bits of their exponentials. Here

    e^t = 2ⁿ·P(r),   y = t·log₂e,   n = rint(y),   r = y − n in [−½, ½],

P being the Taylor polynomial of 2^r of degree 11 by Horner's rule, with one rounding per product and per sum. In
units of 2⁻⁵³ its remainder is at most 58.3, Horner's rule adds 31.2, the coefficients 1.5, and the rounding of y at
most 0.8. So e^t is within 2⁻⁴⁶·⁴ for t ≤ 0, and the logistic function, with two roundings more, within 2⁻⁴⁶. An array
library rounds after every elementwise operation, so nothing is fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import require
from ndis.errors import ParameterError
from ndis.gram.accumulator import Accumulator, Gram
from ndis.gram.rows import RowLayout, square_root

MOST_OUTPUTS = 4096
BELOW = 1.0 - 2.0**-40  # what rounding may take, many times over
_TERM_BITS = 22  # a row at its bound, its term at the clip, has about 2²² units of v
_SUM_BITS = 42  # bits of one record's contribution, so that 2¹¹ records add up exactly in float64
_MOST_BITS = 46  # bits of the same, if a small constant needs more
_LEAST_BITS = 10  # units of v in place of _TERM_BITS then
_FARTHEST = 200  # the most that a binary exponent of a unit may be


@dataclass(frozen=True, eq=False)
class TermRule:
    """A rule holds all public constants of one pass.

    Attributes
    ----------
    weights : (width, outputs) float64 array of integers
        tile @ weights is the residual, or the logits, exactly.
    features : int
        The first columns of a tile.
    constant : float
        (c/b)²·4ᵏ, what the constant column adds to Σq²; 0 without one.
    scale : float
        v/υ over v: a power of two.
    limit : float
        M, an integer.
    edges : tuple of float
        Norms of terms, in units of s·υ, whose exceedances are counted.
    bits : int
        No entry of one record's contribution exceeds 2^bits.
    unit : Fraction
        υ in real units.
    gradient : float
        0 for residuals; otherwise the unit of a class code in the target column.
    logit_unit : float
        The value of one unit of tile @ weights in logits.
    row_bound : float
        R, in units of s: terms of longer rows have less weight; 0 for none.
    """

    weights: NDArray[np.float64]
    features: int
    constant: float
    scale: float
    limit: float
    edges: tuple[float, ...]
    bits: int
    unit: Fraction
    gradient: float = 0.0
    logit_unit: float = 0.0
    row_bound: float = 0.0

    @property
    def outputs(self) -> int:
        """Return the number of residuals or classes."""
        return int(self.weights.shape[1])

    @property
    def size(self) -> int:
        """Return how many integers `sums` makes."""
        return (self.features + bool(self.constant)) * self.outputs + len(self.edges) + 1

    @property
    def block_rows(self) -> int:
        """Rows whose sum is exact in float64."""
        return int(1 << (53 - self.bits))

    def integers(self, xp: Any, tile: Any, weights: Any) -> tuple[Any, Any]:
        """Return u of every record, outputs × records, and the norm of its unclipped term."""
        products = weights.T @ tile.T
        v = (self._gradient(xp, tile, products) if self.gradient else products) * self.scale
        h = self.lengths(xp, tile)
        if self.row_bound:
            root = self.roots(xp, h)
            v = v * (root * root)
        limits = xp.full_like(h, self.limit * BELOW) / h  # infinite for a zero row, whose term is zero
        norms = _norm(xp, v)
        return clip_to(xp, v, norms, limits), norms * h

    def lengths(self, xp: Any, tile: Any) -> Any:
        """Return h, the lengths of rows."""
        q = tile[:, : self.features]
        return square_root(xp, xp.einsum("ij,ij->i", q, q) + self.constant)  # the sum is exact in any order

    def roots(self, xp: Any, h: Any) -> Any:
        """Return the roots of the weights of rows of these lengths."""
        return xp.clip(xp.full_like(h, self.row_bound) / h, 0.0, 1.0)

    def sums(self, xp: Any, tile: Any, weights: Any, multiply: Callable[[Any, Any], Any]) -> list[Any]:
        """Sums over at most 2¹⁷ rows of a tile: q ⊗ u, exceedances of the edges, records; exact integers.

        ``multiply(tile, u)`` is Σ q ⊗ u, exactly.
        """
        u, norms = self.integers(xp, tile, weights)
        total = multiply(tile, u)
        here = tile[:, -1] != 0
        terms = [total[: self.features].reshape(-1), *([total[-1]] if self.constant else [])]  # predictors × outputs
        terms += [((norms > edge) & here).sum().reshape(1) for edge in self.edges]
        return [*terms, here.sum().reshape(1)]

    def _gradient(self, xp: Any, tile: Any, products: Any) -> Any:
        """Return the residuals of a logistic model: probabilities less the class of the record."""
        code = tile[:, self.features] * self.gradient
        v = probabilities(xp, products * self.logit_unit)
        if len(v) == 1:
            return v - code
        for j in range(len(v)):
            v[j] -= (code == j) * 1.0
        return v


def clip_to(xp: Any, v: Any, norms: Any, limits: Any) -> Any:
    """Integers near the columns of ``v``, of norm at most ``limits``; a column that does not fit is pulled in.

    >>> v = np.array([[2.6, 30.0, -1.5]])
    >>> clip_to(np, v, np.abs(v[0]), np.array([9.0, 9.5, 1.7])).ravel().tolist()
    [3.0, 9.0, -1.0]
    """
    u = xp.round(v)
    pulled = xp.trunc(v * (limits / norms))
    return xp.where(_norm(xp, u) <= limits, u, pulled)


def _norm(xp: Any, v: Any) -> Any:
    """Return the norms of the columns, summed in the order of the outputs."""
    if len(v) == 1:
        return xp.abs(v[0])
    total = v[0] * v[0]
    for one in v[1:]:
        total += one * one
    return square_root(xp, total)


def residual_rule(layout: RowLayout, theta: Any, *, constant: bool, clip: float, edges: Any) -> TermRule:
    """Return the rule of x·(y − xᵀθ), clipped, for a tile of ``layout``; with ``constant`` x has the last column."""
    k, target = layout.fractional_bits, layout.steps[layout.features]
    weights, fraction_bits = _integer_weights(layout, theta, constant, target, range(52 - k, -1, -1), own=True)
    unit = target / 2**fraction_bits  # the unit of tile @ weights
    return _rule(layout, -weights, constant=constant, clip=clip, edges=edges, v_unit=unit)


def gradient_rule(
    layout: RowLayout, theta: Any, *, constant: bool, clip: float, edges: Any, row_bound: float | None = None
) -> TermRule:
    """Return the rule of w·x ⊗ (softmax(xᵀθ) − onehot(y)), clipped; the target column holds the class code."""
    bits = range(60, -_FARTHEST, -1)
    weights, fraction_bits = _integer_weights(layout, theta, constant, Fraction(1), bits, own=False)
    return _rule(
        layout, weights, constant=constant, clip=clip, edges=edges, v_unit=Fraction(1),
        gradient=float(layout.steps[layout.features]), logit_unit=math.ldexp(1.0, -fraction_bits),
        row_bound=float(Fraction(row_bound or 0.0) / layout.steps[0]),
    )  # fmt: skip


def _integer_weights(
    layout: RowLayout, theta: NDArray[np.float64], constant: bool, unit: Fraction, bits: range, *, own: bool
) -> tuple[NDArray[np.float64], int]:
    """Round θ times the step of its column, in ``unit``, to as many of these fraction bits as fit.

    With `own`, each output subtracts its own target.
    """
    steps = [layout.steps[0]] * layout.features + [layout.steps[-1]] * constant
    relative = [[Fraction(t) * step / unit for t in row] for row, step in zip(theta.tolist(), steps, strict=True)]
    largest = max((abs(x) for row in relative for x in row), default=Fraction(0))
    most = 54 - layout.fractional_bits - _exponent(largest) if largest else bits[0]
    for fraction_bits in range(min(bits[0], most), bits[-1] - 1, -1):
        scale = Fraction(2) ** fraction_bits
        rounded = np.array([[float(round(x * scale)) for x in row] for row in relative])
        weights = np.zeros((layout.width, rounded.shape[1]))
        weights[: layout.features] = rounded[: layout.features]
        if constant:
            weights[-1] = rounded[-1]
        if own:
            targets = np.arange(layout.targets)
            weights[layout.features + targets, targets] = -(2.0**fraction_bits)
        if _fits(layout, weights):
            return weights, fraction_bits
    rule = "predict within 2^30 times the target bound" if own else "keep the logits below 2^200"
    raise ParameterError("theta", rule, "larger coefficients")


def _fits(layout: RowLayout, weights: NDArray[np.float64]) -> bool:
    """Return whether every partial sum of tile @ weights is at most 2⁵³: each group of a row has norm at most 2ᵏ."""
    most = 1 << (53 - layout.fractional_bits)
    for column in weights.T.tolist():
        if not max(map(abs, column)) <= most:
            return False
        squares = (sum(int(w) ** 2 for w in column[g.start : g.stop]) for g in layout.groups)
        if not sum(math.isqrt(square - 1) + 1 if square else 0 for square in squares) <= most:  # roots, rounded up
            return False
    return True


def _rule(
    layout: RowLayout,
    weights: NDArray[np.float64],
    *,
    constant: bool,
    clip: float,
    edges: Any,
    v_unit: Fraction,
    **kind: Any,
) -> TermRule:
    """The rule with all units chosen; `kind` are the constants that only residuals, or only gradients, have."""
    k, step = layout.fractional_bits, layout.steps[0]
    ratio = layout.steps[-1] / step if constant else Fraction(0)
    wide = max(math.ceil(math.log2(1 + float(ratio) ** 2) / 2), 0)  # the constant makes rows longer
    narrow = max(math.ceil(-math.log2(float(ratio))), 0) if constant else 0  # or makes |u| larger than for features
    term_bits = min(min(k + _TERM_BITS, _SUM_BITS) + wide, _MOST_BITS - narrow)
    exponent = _exponent(Fraction(clip) / (step * v_unit)) - term_bits
    if not (abs(exponent) <= _FARTHEST and weights.shape[1] <= MOST_OUTPUTS):
        raise ParameterError("clip", "be comparable with the bounds, and the outputs at most 4096", clip)
    bits = max(term_bits + narrow, 36)
    require(term_bits >= k + _LEAST_BITS, "intercept", "be comparable with row_norm_bound", float(ratio))
    unit = v_unit * Fraction(2) ** exponent
    return TermRule(
        weights=weights,
        features=layout.features,
        constant=float(ratio**2 * 4**k),
        scale=math.ldexp(1.0, -exponent),
        limit=float(Fraction(clip) / (step * unit) // 1),
        edges=tuple(float(Fraction(edge) / (step * unit)) for edge in edges),
        bits=bits,
        unit=unit,
        **kind,
    )


def _exponent(x: Fraction) -> int:
    """Return the integer e with 2^(e−1) < x ≤ 2^e.

    >>> [_exponent(Fraction(x)) for x in (1, 1.5, 2, 0.5, 0.375, 2.0**-60)]
    [0, 1, 1, -1, -1, -60]
    """
    shift = x.denominator.bit_length()  # so that x·2^shift is above 1
    return int(math.ceil(x * 2**shift) - 1).bit_length() - shift


# ---------------------------------------------------------------------- the softmax

_LN_2 = Fraction("0.69314718055994530941723212145817656807550013436")
_LOG2_E = float(1 / _LN_2)
_LOWEST = -700.0  # below it the exponential is under 10⁻³⁰³
# Correctly rounded from rationals, so the same on every machine.
_TAYLOR = tuple(float(_LN_2**i / math.factorial(i)) for i in range(11, -1, -1))


def exponential(xp: Any, t: Any) -> Any:
    """e^t of float64 numbers t ≤ 0, to about fourteen digits; ``xp`` is ``numpy`` or ``torch``.

    >>> [round(float(x), 12) for x in exponential(np, np.array([0.0, -1.0, -30.5]))]
    [1.0, 0.367879441171, 0.0]
    """
    y = xp.clip(t, _LOWEST, 0.0) * _LOG2_E
    n = xp.round(y)
    r = y - n
    p = xp.full_like(r, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        p *= r
        p += coefficient
    power = xp.asarray(n, dtype=xp.int64)
    power += 1023
    power <<= 52
    p *= power.view(xp.float64)
    return p


def probabilities(xp: Any, logits: Any) -> Any:
    """Softmax over the rows of ``logits``; of one row, the logistic function, which is softmax with a zero.

    >>> probabilities(np, np.array([[0.0, math.log(3.0)]])).round(12).tolist()
    [[0.5, 0.75]]
    >>> probabilities(np, np.array([[0.0], [0.0], [math.log(2.0)]])).round(12).tolist()
    [[0.25], [0.25], [0.5]]
    """
    if len(logits) == 1:
        e = exponential(xp, -xp.abs(logits))
        whole = e + 1.0
        return xp.where(logits >= 0, xp.ones_like(e), e) / whole
    e = exponential(xp, logits - xp.amax(logits, 0))
    total = e[0] + e[1]
    for one in e[2:]:
        total += one
    e /= total
    return e


# ---------------------------------------------------------------------- sums over records


class SumAccumulator(Accumulator):
    """The sums of one rule add up over blocks of rows."""

    def __init__(self, tile: RowLayout, rule: TermRule, device: str | None = None) -> None:
        super().__init__(tile, rule.size, rule.bits, device)
        self.rule = rule

    def _of(self, xp: Any, tile: Any) -> Any:
        multiply = (lambda q, u: (u @ q).T) if self._engine is None else self._device_product
        values = self.rule.sums(xp, tile, self._placed(self.rule.weights), multiply)
        return xp.concatenate([xp.asarray(each, dtype=xp.int64) for each in values])

    def _device_product(self, tile: Any, u: Any) -> Any:
        """Σ q ⊗ u from products that are short enough to be exact, many at a time."""
        torch, step = self._engine.torch, min(self.rule.block_rows, len(tile))
        cut = len(tile) - len(tile) % step
        left = u[:, :cut].reshape(len(u), -1, step).transpose(0, 1)
        right = tile[:cut].reshape(-1, step, tile.shape[1])
        total = torch.bmm(left, right).to(torch.int64).sum(0)
        return (total + (u[:, cut:] @ tile[cut:]).to(torch.int64)).T


class GramsAccumulator(Accumulator):
    """Base of sums of Gram matrices of rows that a rule makes, one per output.

    Parameters
    ----------
    tile : RowLayout
        Of the rows that are read: features, targets, marker.
    layout : RowLayout
        Of the rows that are summed, on a grid of as many bits.
    rule : TermRule
    device : str, optional
    """

    def __init__(self, tile: RowLayout, layout: RowLayout, rule: TermRule, device: str | None = None) -> None:
        super().__init__(tile, (rule.outputs, layout.width, layout.width), 2 * layout.fractional_bits, device)
        self.rule, self._summed = rule, layout

    def _of(self, xp: Any, tile: Any) -> Any:
        return xp.stack([self._product(rows) for rows in self._rows(xp, tile, self._placed(self.rule.weights))])

    def _rows(self, xp: Any, tile: Any, weights: Any) -> Iterator[Any]:
        """Return the integer rows of every matrix."""
        raise NotImplementedError  # each sum has its own

    def _predictors(self, xp: Any, tile: Any, ratio: float) -> Any:
        """Return the features of a tile, and the constant times a number if the rule has one."""
        parts = [tile[:, : self.layout.features], *([tile[:, -1:] * ratio] if self.rule.constant else [])]
        return xp.concatenate(parts, 1)

    def finish(self) -> list[Gram]:
        """Return the matrices of all rows so far."""
        return [Gram(integers, self._summed) for integers in self.integers()]


class WeightedAccumulator(GramsAccumulator):
    """Sums w·p(1 − p)·xxᵀ over blocks of rows, exactly and in any order.

    A tile holds integer rows q, and p is the logistic function of the exact logits. Every further operation is
    elementwise:

        f = min(2·√(p·(1 − p)), 1)·min(R/h, 1)·2ᵏ/R·(1 − 2⁻⁴⁰),      row = trunc(q·f),

    with h the length of q, on the grid R/2·2⁻ᵏ in units of the step. The few roundings are each below 2⁻⁵¹, so ‖q‖·f is
    at most 2ᵏ, and truncation only shortens. So a row is at most R/2 long in exact arithmetic, and one record moves the
    matrix by at most R²/4. The bits are the same on every engine and for any block length.
    """

    def _rows(self, xp: Any, tile: Any, weights: Any) -> Iterator[Any]:
        rule, scale = self.rule, 2.0**self.layout.fractional_bits
        p = probabilities(xp, (weights.T @ tile.T) * rule.logit_unit)[0]
        factor = xp.clip(square_root(xp, p * (1.0 - p)) * 2.0, 0.0, 1.0) * rule.roots(xp, rule.lengths(xp, tile))
        rows = self._predictors(xp, tile, math.sqrt(rule.constant) / scale)  # the constant's step over the features'
        yield xp.trunc(rows * (factor * (scale / rule.row_bound * BELOW))[:, None])


class TermGramAccumulator(GramsAccumulator):
    """Sums ttᵀ of clipped terms t over blocks of rows, exactly and in any order.

    A term is q ⊗ u with ‖q‖·‖u‖ ≤ M in exact arithmetic. For one output u the row is

        trunc(q·f),      f = u·κ,      κ = 2ᵏ/M·(1 − 2⁻⁴⁰),

    on the grid C·2⁻ᵏ. Its few roundings are each below 2⁻⁵², so its norm is at most ‖q‖·|u|·2ᵏ/M ≤ 2ᵏ, and truncation
    only shortens. So one record moves the matrix by at most C², and all matrices of its outputs by no more together.
    """

    def _rows(self, xp: Any, tile: Any, weights: Any) -> Iterator[Any]:
        rule, scale = self.rule, 2.0**self.layout.fractional_bits
        rows = self._predictors(xp, tile, math.sqrt(rule.constant) / scale)  # the constant's step over the features'
        for u in rule.integers(xp, tile, weights)[0]:
            yield xp.trunc(rows * (u * (scale / rule.limit * BELOW))[:, None])
