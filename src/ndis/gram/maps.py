"""Map rows to public coordinates, z = Mx + m, one record at a time and with the same bits everywhere.

M and m are public: they come from earlier releases. A row is first made an integer row q of norm at most 2ᵏ, on the
grid l·2⁻ᵏ (`ndis.gram.rows`). M and m are rounded to integers w and o, in units of a power of two, so that

    2ᵏ·‖wᵢ‖ + |oᵢ| ≤ 2⁵³      for every coordinate i.

So every partial sum of q·wᵢ + oᵢ is an integer of at most 2⁵³, by Cauchy–Schwarz. A float64 product returns it exactly,
in any order. The product with the unit is exact too. So z depends on its own record only, whatever block it is read in,
and the rounded map is the one that is used everywhere. What follows clips z to the bound of its layout and rounds it
(thm:integer-rows), so no bound rests on the size of M (thm:centred-rows). Unreadable rows stay so: z is NaN.

A map may be *weighted*. Then a row longer than a bound is shortened to it together with its target, which multiplies
the record by the root of a weight: so sums of products stay those of one weighted least squares (thm:weighted-rows).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import require
from ndis.data.table import Parts
from ndis.errors import ParameterError
from ndis.gram.device import import_torch
from ndis.gram.rows import ColumnGroup, GroupRule, quantise_group, shortening

_BITS = 24  # k of the rows before the map
_STRIP = 1 << 16  # rows that are mapped at a time
_LOWEST = -200  # the least binary exponent of the reciprocal of a unit


@dataclass(frozen=True, eq=False)
class RowMap:
    """Holds a rounded map of the features, and an elementwise one of the targets.

    Attributes
    ----------
    rule : GroupRule
        Makes integer rows of the features.
    weights : (features, coordinates) float64 array of integers
    offset : (coordinates,) float64 array of integers
    unit : float
        The value of one unit of q·w + o: a power of two.
    target : (centre, scale, bound), optional
        Targets, clipped to their bound, become (y − centre)/scale.
    bound : float, optional
        The map is weighted: rows whose image by `plain`, or by this map, is longer are shortened to it, and rows x
        beyond their own bound to that, both together with their targets.
    plain : RowMap, optional

    Examples
    --------
    >>> turned = RowMap.of(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-0.5, -0.5]), row_norm_bound=2.0)
    >>> [(z,)] = turned.blocks((np.array([[0.5, 0.25], [np.nan, 0.0]]),))
    >>> z.tolist()
    [[0.25, -0.25], [nan, nan]]
    """

    rule: GroupRule
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]
    unit: float
    target: tuple[NDArray[np.float64], float, float] | None = None
    bound: float | None = None
    plain: RowMap | None = None

    @classmethod
    def of(cls, matrix: Any, shift: Any, *, row_norm_bound: float, target: Any = None) -> RowMap:
        """Round z = matrix·x + shift for rows x of norm at most `row_norm_bound`, which clips longer ones."""
        m, shift = np.asarray(matrix, dtype=np.float64), np.asarray(shift, dtype=np.float64)
        group = ColumnGroup(0, m.shape[1], row_norm_bound)
        step = row_norm_bound * 2.0**-_BITS
        largest = float(np.abs(m).max() * row_norm_bound + np.abs(shift).max())
        require(0.0 < largest < math.inf, "matrix", "be finite and not zero", "another map")
        for exponent in range(54 - math.frexp(largest)[1], _LOWEST, -1):
            weights, offset = np.rint(np.ldexp(m.T * step, exponent)), np.rint(np.ldexp(shift, exponent))
            if _fits(weights, offset):
                return cls(GroupRule.of(group, _BITS), weights, offset, math.ldexp(1.0, -exponent), target)
        raise ParameterError("matrix", "be comparable with the bounds", "a larger map")

    def blocks(self, parts: Parts) -> Iterator[Parts]:
        """Yield the mapped rows of a block, and its targets if there are any, in strips."""
        for start in range(0, max(len(parts[0]), 1), _STRIP):
            yield self._mapped(tuple(piece[start : start + _STRIP] for piece in parts))

    def _mapped(self, parts: Parts) -> Parts:
        """Return the rows of a block in other coordinates; broken rows become NaN."""
        xp: Any = np if isinstance(parts[0], np.ndarray) else import_torch()

        def placed(array: Any) -> Any:
            return xp.asarray(array, dtype=xp.float64, **({} if xp is np else {"device": parts[0].device}))

        def mapped(by: RowMap) -> Any:
            return (q @ placed(by.weights) + placed(by.offset) * root) * by.unit

        with np.errstate(all="ignore"):
            x = placed(parts[0])
            q, broken = quantise_group(xp, x, self.rule)
            root = 1.0 if self.bound is None else shortening(xp, x, 2.0**_BITS / self.rule.scale)
            z = mapped(self)
            if self.bound is not None:
                shorter = shortening(xp, z if self.plain is None else mapped(self.plain), self.bound)
                z, root = z * shorter, root * shorter
            z[broken] = math.nan
            if len(parts) == 1 or self.target is None:
                return (z, *parts[1:])
            y, (centre, scale, most) = placed(parts[1]), self.target
            return z, (y * shortening(xp, y, most) - placed(centre)) / placed(scale) * root


def _fits(weights: NDArray[np.float64], offset: NDArray[np.float64]) -> bool:
    """Return whether 2ᵏ·‖wᵢ‖ + |oᵢ| ≤ 2⁵³ for every coordinate, in exact integers."""
    for column, start in zip(weights.T.tolist(), offset.tolist(), strict=True):
        length = math.isqrt(sum(int(w) ** 2 for w in column)) + 1  # rounded up
        if not (length << _BITS) + abs(int(start)) <= 1 << 53:
            return False
    return True
