"""Sum terms over records exactly; a term depends on one record and on public numbers only (thm:term-of-one-record).

`RecordSums` opens the data once, by the readers and row rules of `exact_gram`, and then makes one pass per call:

- ``gram()``: Σ xxᵀ of the predictors x, the features and the constant if there is one;
- ``residual_products(theta, clip=C)``: Σ clip(x·(y − xᵀθ)) for one or several targets, a count of longer terms, and
  the number of records;
- ``gradients(theta, clip=C)``: Σ clip(w·x ⊗ (softmax(xᵀθ) − onehot(y))) for class codes, w = min(1, (row_bound/‖x‖)²);
- ``weighted_gram(theta)``: Σ w·p(1 − p)·xxᵀ, p = σ(xᵀθ), for two classes (`WeightedAccumulator`);
- ``term_grams(theta, clip=C)``: Σ ttᵀ of the clipped terms t of `residual_products`, one matrix per target;
- ``value_counts(edges)``: how many records exceed each edge, column by column, and how many rows are longer.

`in_coordinates` returns the same records in other public coordinates (`ndis.gram.maps`).

Every term has norm at most its clip, in exact arithmetic. So a sum moves by at most C if a record comes or goes, and by
at most 2C if one is replaced. A sum has the same bits on every engine and for any block length (`ndis.gram.terms`). All
sums are **private**: release only draws from them (`ndis.mechanisms.rounds`).

>>> import numpy as np
>>> x, y = np.array([[0.5, 0.0], [0.0, 1.0]]), np.array([0.25, -1.0])
>>> sums = RecordSums((x, y), row_norm_bound=1.0, target_bound=1.0)
>>> values = sums.residual_products(np.zeros(2), clip=0.5)
>>> values.total.to_float().round(6), values.longer.tolist(), values.records
(array([ 0.125, -0.5  ]), [1], 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray
from ndis._validate import as_one_positive, require
from ndis.data import open_rows
from ndis.data.table import Parts
from ndis.errors import ParameterError
from ndis.gram.accumulator import Accumulator, Gram, GramAccumulator, total
from ndis.gram.device import import_torch
from ndis.gram.maps import RowMap
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS, RowLayout, layout_for
from ndis.gram.terms import (
    SumAccumulator,
    TermGramAccumulator,
    TermRule,
    WeightedAccumulator,
    gradient_rule,
    residual_rule,
)


@dataclass(frozen=True, eq=False)
class TermSums:
    """The sums of one pass. **Private**, except for `clip` and `edges`.

    Attributes
    ----------
    total : ExactArray
        Σ of the clipped terms in real units, in the shape of θ: one row per predictor, the constant last.
    clip : float
        The norm that no record's term exceeds.
    longer : int array
        For every edge the number of records whose term, before clipping, is longer than this edge.
    edges : tuple of float
        By default only the clip.
    records : int
        The number of records that could be read.
    """

    total: ExactArray
    clip: float
    longer: NDArray[np.int64]
    edges: tuple[float, ...]
    records: int

    @property
    def histogram(self) -> NDArray[np.int64]:
        """Records by the length of their term: up to the first edge, between edges, beyond the last.

        A record is in one bin. The counts move by 1 if it comes or goes, and by √2 in norm if it is replaced.
        """
        return between(self.longer, self.records)


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Hold the counts of one pass. **Private.**

    Attributes
    ----------
    above : (edges, columns) int array
        Records whose value is above the edge.
    longer : (norms,) int array
        Records whose features have a larger norm.
    records : int
    """

    above: NDArray[np.int64]
    longer: NDArray[np.int64]
    records: int

    def histograms(self) -> NDArray[np.int64]:
        """Return the records between edges, (columns, edges + 1). A record is in one bin of each column."""
        return between(self.above.T, self.records)

    def lengths(self) -> NDArray[np.int64]:
        """Return the records by the norm of their features. A record is in one bin."""
        return between(self.longer, self.records)


def between(above: NDArray[np.int64], records: int) -> NDArray[np.int64]:
    """Return the records between edges from those above each of them, along the last axis.

    >>> between(np.array([3, 1]), 5).tolist()
    [2, 2, 1]
    """
    return np.asarray(-np.diff(above, prepend=records, append=0), dtype=np.int64)


class RecordSums:
    """The records of one fit, to be summed in several passes.

    Parameters
    ----------
    data, device, **how
        As for `ndis.gram.exact_gram`: `how` are `columns`, `targets`, `header` and `progress`.
        The targets are needed for everything but the Gram matrix.
    row_norm_bound, target_bound, intercept, fractional_bits
        The public description of a row, as there. With `classes` there is no target bound.
    classes : sequence of numbers, optional
        The public classes: the one target column holds them. A record of another class counts as unreadable.

    Attributes
    ----------
    layout : RowLayout
        Of the predictors: the features, and the constant if there is one.
    targets : int
        Number of target columns.
    """

    def __init__(
        self,
        data: Any,
        *,
        row_norm_bound: float,
        target_bound: float | None = None,
        classes: Sequence[float] | None = None,
        intercept: float | None = None,
        fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
        device: str | None = None,
        **how: Any,
    ) -> None:
        self._classes = None if classes is None else _as_classes(classes, target_bound)
        if self._classes is not None:
            target_bound = 2.0 ** max(len(self._classes) - 1, 1).bit_length()  # codes are exact on this grid
        self._rows = open_rows(data, **how)
        # The marker, the last column of a tile, tells a record from a row that could not be read.
        marker = row_norm_bound if intercept is None else intercept
        public: dict[str, Any] = {"row_norm_bound": row_norm_bound, "fractional_bits": fractional_bits}
        self._tile = layout_for(self._rows, target_bound=target_bound, intercept=marker, **public)
        f, t = self._tile.features, self._tile.targets
        names = self._tile.names[:f] + (self._tile.names[f + t :] if intercept is not None else ())
        self.layout = RowLayout(f, row_norm_bound, intercept=intercept, fractional_bits=fractional_bits, names=names)
        self.targets = t
        require(self._classes is None or t == 1, "targets", "be one column of classes", t)
        self._device = device
        self._map: RowMap | None = None

    def in_coordinates(
        self, matrix: Any, shift: Any, *, row_norm_bound: float, target: Any = None, weighted: bool = False,
        shape: Any = None, **bounds: Any,
    ) -> RecordSums:  # fmt: skip
        """Return the same records with rows z = matrix·x + shift, clipped to their own bound.

        Parameters
        ----------
        matrix, shift : arrays
            Public. They are rounded, and the rounded map is used (thm:centred-rows).
        row_norm_bound : float
            Bound of z. Rows x are clipped to the bound of these sums before they are mapped.
        target : (centre, scale), optional
            Targets, clipped to their own bound, become (y − centre)/scale.
        weighted : bool
            Rows z beyond the bound, and rows x beyond theirs, are shortened together with their targets.
        shape : array, optional
            Public, of weighted rows: they are multiplied by it after they were shortened.
        **bounds
            `target_bound` of the new targets, and `intercept`, the constant next to z.

        >>> sums = RecordSums(np.array([[3.0], [5.0]]), row_norm_bound=8.0)
        >>> sums.in_coordinates([[0.5]], [-2.0], row_norm_bound=1.0).gram().to_float().round(4)
        array([[0.5]])
        >>> sums = RecordSums((np.array([[3.0]]), np.array([4.0])), row_norm_bound=9.0, target_bound=9.0)
        >>> near = sums.in_coordinates([[1.0]], [0.0], row_norm_bound=1.0, weighted=True, target=(0.0, 1.0))
        >>> near.residual_products(np.zeros(1), clip=9.0).total.to_float().round(4)  # 3·4 times the weight 1/9
        array([1.3333])
        """
        good = target is not None or self._classes is not None or not (weighted and self.targets)
        require(good, "target", "come with weighted rows", target)
        other, how = copy(self), dict[str, Any](row_norm_bound=self.layout.row_norm_bound)
        how["target"] = None if target is None else (*target, self._tile.target_bound)
        other._map = plain = RowMap.of(matrix, shift, **how)
        if weighted:
            other._map = replace(plain, bound=row_norm_bound)
        if shape is not None:
            other._map = replace(RowMap.of(shape @ matrix, shape @ shift, **how), bound=row_norm_bound, plain=plain)
            row_norm_bound = float(np.linalg.norm(shape, 2)) * row_norm_bound * (1.0 + 1e-9)
        own: dict[str, Any] = {"features": len(matrix), "row_norm_bound": row_norm_bound, "names": ()}
        constant = bounds.pop("intercept", None)
        marker = row_norm_bound if constant is None else constant
        other._tile = replace(self._tile, intercept=marker, **own, **bounds)
        other.layout = replace(self.layout, intercept=constant, **own)
        return other

    # ------------------------------------------------------------------ one pass each

    def gram(self) -> Gram:
        """The exact Gram matrix of the predictors, of all records that could be read, targets included."""
        tile = self._tile
        values: GramAccumulator = self._pass(lambda device: GramAccumulator(tile, device=device))
        predictors = [*range(self._tile.features), *[self._tile.width - 1] * self._constant]
        return Gram(values.finish().integers[np.ix_(predictors, predictors)], self.layout)

    def residual_products(self, theta: Any, *, clip: float, edges: Sequence[float] | None = None) -> TermSums:
        """Σ clip(x·(y − xᵀθ)) in one pass.

        Parameters
        ----------
        theta : (predictors,) or (predictors, targets) array
            Public. It is rounded to about 2⁻³⁴ of the largest prediction that it can make.
        clip : float
            C: a term with ‖x‖·‖y − xᵀθ‖ above C is scaled to norm C.
        edges : sequence of float, optional
            Lengths of terms to count; by default only C.
        """
        if not self.targets or self._classes is not None:
            raise ParameterError("targets", "be numbers to regress on", "none" if not self.targets else "classes")
        clip = as_one_positive("clip", clip)
        weights, marks = self._public(theta, self.targets), _edges(clip, edges)
        rule = residual_rule(self._tile, weights, constant=self._constant, clip=clip, edges=marks)
        return self._found(rule, np.shape(theta), clip, marks)

    def gradients(
        self, theta: Any, *, clip: float, edges: Sequence[float] | None = None, row_bound: float | None = None
    ) -> TermSums:
        """Σ clip(w·x ⊗ (p − onehot(y))), p = softmax(xᵀθ), in one pass; for two classes p = σ(xᵀθ) of the second one.

        Parameters
        ----------
        theta : (predictors,) array for two classes, (predictors, classes) for any number
        clip, edges
            As for `residual_products`.
        row_bound : float, optional
            Longer rows have the weight w = (row_bound/‖x‖)².
        """
        count = len(self._classes or ())
        require(count, "classes", "be stated for gradients", None)
        outputs = 1 if count == 2 and np.ndim(theta) == 1 else count
        clip = as_one_positive("clip", clip)
        weights, marks = self._public(theta, outputs), _edges(clip, edges)
        rule = gradient_rule(self._tile, weights, constant=self._constant, clip=clip, edges=marks, row_bound=row_bound)
        return self._found(rule, np.shape(theta), clip, marks)

    def weighted_gram(self, theta: Any, *, row_bound: float | None = None) -> Gram:
        """Return Σ w·p(1 − p)·xxᵀ, p = σ(xᵀθ), in one pass: the Hessian of the logistic loss of two classes at θ.

        Rows are within half of `row_bound`, or of their bound, so a record moves the matrix by at most a quarter of its
        square.

        >>> sums = RecordSums((np.array([[1.0], [0.5]]), np.array([[0.0], [1.0]])), row_norm_bound=1.0, classes=(0, 1))
        >>> sums.weighted_gram(np.zeros(1)).to_float().round(4)
        array([[0.3125]])
        """
        if self._classes is None or len(self._classes) != 2:
            raise ParameterError("classes", "be two for a weighted Gram matrix", self._classes)
        clip = self.layout.joint_norm_bound if row_bound is None else as_one_positive("row_bound", row_bound)
        tile, public = self._tile, self._public(theta, 1)
        rule = gradient_rule(tile, public, constant=self._constant, clip=clip, edges=(), row_bound=clip)
        layout = RowLayout(self.layout.width, clip / 2, fractional_bits=self.layout.fractional_bits)
        values: WeightedAccumulator = self._pass(lambda device: WeightedAccumulator(tile, layout, rule, device))
        return values.finish()[0]

    def term_grams(self, theta: Any, *, clip: float) -> list[Gram]:
        """Return Σ ttᵀ, t = clip(x·(y − xᵀθ)), one matrix per target, in one pass.

        Their norms together move by at most C² if a record comes or goes, because Σ‖t‖² ≤ C² over its targets.

        >>> sums = RecordSums((np.array([[0.5], [1.0]]), np.array([0.5, 1.0])), row_norm_bound=1.0, target_bound=1.0)
        >>> [sums.term_grams(np.zeros(1), clip=0.5)[0].to_float().round(4).item()]  # of the terms 0.25 and 0.5
        [0.3125]
        """
        weights = self._public(theta, self.targets)
        clip = as_one_positive("clip", clip)
        rule = residual_rule(self._tile, weights, constant=self._constant, clip=clip, edges=())
        bits = self.layout.fractional_bits
        terms = RowLayout(self.layout.width, clip, fractional_bits=bits)
        tile = self._tile
        values: TermGramAccumulator = self._pass(lambda device: TermGramAccumulator(tile, terms, rule, device))
        return values.finish()

    def value_counts(self, edges: Sequence[float], norms: Sequence[float] = ()) -> ValueCounts:
        """Count, in one pass, the records whose value is above each edge, for every column of features and targets.

        Edges of features and of targets are in their own units; `norms` are edges of the norm of the features.

        >>> sums = RecordSums(np.array([[0.5, 0.0], [-0.5, 1.0]]), row_norm_bound=2.0)
        >>> counts = sums.value_counts([-0.25, 0.25], norms=[0.75])
        >>> counts.above.tolist(), counts.longer.tolist(), counts.records
        ([[1, 2], [1, 1]], [1], 2)
        """
        tile = self._tile
        steps = [float(step) for step in tile.steps[: tile.width - 1]]
        marks = np.array([[edge / step for edge in edges] for step in steps])
        lengths = np.array([(norm / steps[0]) ** 2 for norm in norms])
        values: CountAccumulator = self._pass(lambda device: CountAccumulator(tile, marks, lengths, device))
        return values.finish()

    # ------------------------------------------------------------------ inside

    @property
    def _constant(self) -> bool:
        return self.layout.intercept is not None

    def _public(self, theta: Any, outputs: int) -> NDArray[np.float64]:
        array = np.asarray(theta, dtype=np.float64)
        p = self.layout.width
        if array.shape not in ((p, outputs), *(((p,),) if outputs == 1 else ())):
            raise ParameterError("theta", f"have {p} rows and {outputs} column(s)", f"shape {array.shape}")
        require(np.isfinite(array).all(), "theta", "be finite", "a NaN or an infinity")
        return array.reshape(p, outputs)

    def _found(self, rule: TermRule, shape: Any, clip: float, edges: Any) -> TermSums:
        """Run one pass over the rows, and take its integers apart."""
        tile = self._tile
        values: SumAccumulator = self._pass(lambda device: SumAccumulator(tile, rule, device))
        integers, p, m = values.integers().astype(object), self.layout.width, rule.outputs
        products = integers[: p * m].reshape(p, m)
        steps = [step * rule.unit for step in self.layout.steps]
        *longer, records = integers[len(integers) - len(edges) - 1 :]
        return TermSums(_scaled(products, steps, shape), clip, np.array(longer, dtype=np.int64), edges, int(records))

    def _pass(self, make: Callable[[str | None], Any]) -> Any:
        """Feed all rows to the accumulators that ``make`` makes, and return their sum. No task holds the data."""
        classes, mapping = self._classes, self._map

        def blocks(parts: Parts) -> Iterable[Parts]:
            coded = _coded(parts, classes)
            return (coded,) if mapping is None else mapping.blocks(coded)

        return total(self._rows, make, self._device, blocks)


def _coded(parts: Parts, classes: tuple[float, ...] | None) -> Parts:
    """Return classes as their numbers, NaN for any other."""
    if classes is None:
        return parts
    labels = parts[1]
    xp: Any = np if isinstance(labels, np.ndarray) else import_torch()
    codes = xp.full_like(labels, math.nan, dtype=xp.float64)
    with np.errstate(all="ignore"):
        for code, value in enumerate(classes):
            codes[labels == value] = code
    return parts[0], codes


class CountAccumulator(Accumulator):
    """Counts values of integer rows above edges.

    Integers are compared with public numbers, so the counts have the same bits everywhere.
    """

    def __init__(self, tile: RowLayout, edges: Any, norms: Any, device: str | None = None) -> None:
        super().__init__(tile, edges.size + len(norms) + 1, 0, device)
        self._edges, self._norms = edges, norms

    def _of(self, xp: Any, tile: Any) -> Any:
        rows = tile[tile[:, -1] != 0]
        squares = (rows[:, : self.layout.features] ** 2).sum(1)
        every = zip((*rows[:, :-1].T, squares), (*self._edges, self._norms), strict=True)
        counts = [_above(xp, values, self._placed(edges)) for values, edges in every if len(edges)]
        return xp.concatenate([*counts, (rows[:, -1] != 0).sum().reshape(1)])

    def finish(self) -> ValueCounts:
        """Return the counts of all rows so far."""
        counts, size = self.integers(), self._edges.size
        return ValueCounts(counts[:size].reshape(self._edges.shape).T, counts[size:-1], int(counts[-1]))


def _above(xp: Any, values: Any, edges: Any) -> Any:
    """Count values above each edge: values in order are compared with few edges, not all values with all edges."""
    ordered = np.sort(values) if xp is np else values.sort().values
    return len(values) - xp.searchsorted(ordered, edges, side="right")


def _scaled(integers: NDArray[Any], units: Any, shape: Any = None) -> ExactArray:
    """Multiply integers by exact units, one for every row or one for all."""
    every = units if isinstance(units, list) else [units] * len(integers)
    denominator = math.lcm(*(u.denominator for u in every))
    factors = np.array([u.numerator * (denominator // u.denominator) for u in every], dtype=object)
    scaled = integers * factors.reshape(-1, *[1] * (integers.ndim - 1))
    return ExactArray(np.asarray(scaled if shape is None else scaled.reshape(shape), dtype=object), denominator)


def _edges(clip: float, edges: Sequence[float] | None) -> tuple[float, ...]:
    values = tuple(as_one_positive("edges", e) for e in ((clip,) if edges is None else edges))
    require(all(a < b for a, b in pairwise(values)), "edges", "increase", values)
    return values


def _as_classes(classes: Sequence[float], target_bound: float | None) -> tuple[float, ...]:
    require(target_bound is None, "target_bound", "be left out with classes", target_bound)
    values = tuple(float(c) for c in classes)
    if not (2 <= len(values) <= 256 and len(set(values)) == len(values) and all(map(math.isfinite, values))):
        raise ParameterError("classes", "be two to 256 different finite numbers", classes)
    return values
