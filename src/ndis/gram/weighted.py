"""Sum the Gram matrix of rows times √(p(1 − p)), p the logistic function of xᵀθ: the Hessian of the logistic loss at θ.

A tile holds integer rows q as in `ndis.gram.terms`. The logits xᵀθ are exact products, p is that of
`ndis.gram.logistic`, and every further operation is elementwise:

    f = min(2·√(p·(1 − p)), 1)·(1 − 2⁻⁴⁰),      row = trunc(q·f),

on a grid of half the step. A rounded product q·f is at most |q|, because f is at most 1 − 2⁻⁴⁰, and truncation only
shortens. So no entry of a row exceeds that of q, and the row has norm at most l/2 in exact arithmetic. One record moves
the matrix by at most l²/4. The bits are the same on every engine and for any block length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ndis.data.table import Parts
from ndis.gram.accumulator import Gram, GramAccumulator, RuleAccumulator
from ndis.gram.host import integer_tiles
from ndis.gram.layout import RowLayout
from ndis.gram.logistic import probabilities
from ndis.gram.terms import TermRule

__all__ = ["WeightedAccumulator", "halved"]

_BELOW = 1.0 - 2.0**-40


def halved(layout: RowLayout) -> RowLayout:
    """Return the layout of rows times at most ½.

    >>> halved(RowLayout(features=2, row_norm_bound=3.0, intercept=1.0)).row_norm_bound
    1.5
    """
    constant = None if layout.intercept is None else layout.intercept / 2
    return replace(layout, row_norm_bound=layout.row_norm_bound / 2, intercept=constant)


class WeightedAccumulator(RuleAccumulator):
    """Σ p(1 − p)·xxᵀ over blocks of rows, exact in any order; merges and pickles as `GramAccumulator` does.

    Parameters
    ----------
    tile : RowLayout
        Of the rows that are read: features, one column of class codes, marker.
    layout : RowLayout
        Of the predictors.
    rule : TermRule
        The gradient of two classes at θ. Its clip has no piece in this.
    device : str, optional
    """

    def __init__(self, tile: RowLayout, layout: RowLayout, rule: TermRule, device: str | None = None) -> None:
        super().__init__(tile, rule, device)
        self._constant = layout.intercept is not None
        self._gram = GramAccumulator(halved(layout), device=device)

    def _update_on_host(self, parts: Parts, threads: int | None) -> None:
        for tile in integer_tiles(parts, self.layout, threads=threads):
            with np.errstate(all="ignore"):
                self._gram.update_integers(self._rows(np, tile))

    def _update_on_device(self, rows: Any) -> None:
        self._gram.update_integers(self._rows(self._engine.torch, rows))

    def merge(self, other: WeightedAccumulator) -> None:
        """Add all rows of ``other``."""
        self._gram.merge(other._gram)

    def finish(self) -> Gram:
        """Return the matrix of all rows so far."""
        return self._gram.finish()

    def _rows(self, xp: Any, tile: Any) -> Any:
        p = probabilities(xp, (self._weights.T @ tile.T) * self.rule.logit_unit)[0]
        factor = xp.clip(xp.sqrt(p * (1.0 - p)) * 2.0, 0.0, 1.0) * _BELOW
        features = xp.trunc(tile[:, : self.layout.features] * factor[:, None])
        if not self._constant:
            return features
        return xp.concatenate([features, xp.trunc(tile[:, -1:] * factor[:, None])], 1)
