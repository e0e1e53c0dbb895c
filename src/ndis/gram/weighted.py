"""Sum Gram matrices of rows times a factor of their own record: weighted rows, and clipped terms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ndis.gram.accumulator import Accumulator, Gram
from ndis.gram.rows import RowLayout
from ndis.gram.terms import BELOW, TermRule, probabilities


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
    """Sums p(1 − p)·xxᵀ over blocks of rows, exactly and in any order.

    A tile holds integer rows q, and p is the logistic function of the exact logits. Every further operation is
    elementwise:

        f = min(2·√(p·(1 − p)), 1)·(1 − 2⁻⁴⁰),      row = trunc(q·f),

    on a grid of half the step. A rounded product q·f is at most |q|, because f is at most 1 − 2⁻⁴⁰, and truncation only
    shortens. So no entry of a row exceeds that of q, and the row has norm at most l/2 in exact arithmetic. One record
    moves the matrix by at most l²/4. The bits are the same on every engine and for any block length.
    """

    def _rows(self, xp: Any, tile: Any, weights: Any) -> Iterator[Any]:
        p = probabilities(xp, (weights.T @ tile.T) * self.rule.logit_unit)[0]
        factor = xp.clip(xp.sqrt(p * (1.0 - p)) * 2.0, 0.0, 1.0) * BELOW
        yield xp.trunc(self._predictors(xp, tile, 1.0) * factor[:, None])


class TermGramAccumulator(GramsAccumulator):
    """Sums ttᵀ of clipped terms t over blocks of rows, exactly and in any order.

    A term is q ⊗ u with ‖q‖·‖u‖ ≤ M in exact arithmetic (`ndis.gram.terms`). For one output u the row is

        trunc(q·f),      f = u·κ,      κ = 2ᵏ/M·(1 − 2⁻⁴⁰),

    on the grid C·2⁻ᵏ. Its few roundings are each below 2⁻⁵², so its norm is at most ‖q‖·|u|·2ᵏ/M ≤ 2ᵏ, and truncation
    only shortens. So one record moves the matrix by at most C², and all matrices of its outputs by no more together.
    """

    def _rows(self, xp: Any, tile: Any, weights: Any) -> Iterator[Any]:
        rule, scale = self.rule, 2.0**self.layout.fractional_bits
        rows = self._predictors(xp, tile, math.sqrt(rule.constant) / scale)  # the constant's step over the features'
        for u in rule.integers(xp, tile, weights)[0]:
            yield xp.trunc(rows * (u * (scale / rule.limit * BELOW))[:, None])


def halved(layout: RowLayout) -> RowLayout:
    """Return the layout of rows times at most ½.

    >>> halved(RowLayout(features=2, row_norm_bound=3.0, intercept=1.0)).row_norm_bound
    1.5
    """
    constant = None if layout.intercept is None else layout.intercept / 2
    return replace(layout, row_norm_bound=layout.row_norm_bound / 2, intercept=constant)
