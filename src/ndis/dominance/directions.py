"""Give the invariants of a pair: exact rationals where the inputs have them, balls always.

This is the only module here that knows how a pair keeps its exact inputs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ndis._balls import Ball, climb, middle_of, precision
from ndis._formulas import reverse
from ndis._groups import pair_from_json, pair_to_json
from ndis.errors import ParameterError, PrecisionError
from ndis.pair import GaussianPair
from ndis.spectrum.invariants import Directions
from ndis.spectrum.origins import enclose

_BITS = (256, 512, 1024, 2048)

ExactTable = dict[Fraction, tuple[int, Fraction]]


def enclosed(pair: GaussianPair) -> Directions:
    """Enclose the invariants of a pair in balls of at least 200 good bits."""
    if not pair.origins:
        raise ParameterError("pair", "know its exact inputs", "none", "make it with one of the from_ constructors")

    def attempt(bits: int) -> Directions | None:
        balls = enclose(pair.origins, bits)
        if balls is None:
            return None
        fine = balls.mutually_singular or all(t.rel_accuracy_bits() >= 200 for t, _, _ in balls.curved)
        return balls if fine else None

    balls = climb(attempt, _BITS)
    if balls is None:
        raise PrecisionError("the invariants of a pair could not be enclosed to 200 bits")
    return balls


def up(value: Ball) -> Fraction:
    """Return the upper end of a ball as an exact number."""
    with precision(2 * max(_BITS)):  # the end of a ball is rounded to the working precision
        return middle_of(value.upper())


# ---------------------------------------------------------------------- exact inputs


def table(pair: GaussianPair) -> ExactTable | None:
    """Return {t: (copies, total m²)} as exact rationals; None if the inputs are matrices of more than one coordinate.

    δ depends on equal ratios only through the number of copies and the total m² (def:log-moment).

    >>> table(GaussianPair.from_ratios([2.0, 1.0], shift=[0.5, 3.0], copies=[4, 1]))
    {Fraction(1, 1): (4, Fraction(1, 1)), Fraction(0, 1): (1, Fraction(9, 1))}
    """
    rows_of: ExactTable = {}
    if pair.mutually_singular or not pair.origins:
        return None
    for origin in pair.origins:
        rows = origin.exact_rows()
        if rows is None:
            return None
        for t, m2, n in rows:
            at, square = reverse(t, m2) if origin.reverse else (t, m2)
            copies, total = rows_of.get(at, (0, Fraction(0)))
            many = n * origin.copies
            rows_of[at] = copies + many, total + many * square
    return rows_of


def without_common(a: GaussianPair, b: GaussianPair) -> tuple[GaussianPair | None, GaussianPair | None] | None:
    """Take away the exact inputs that both pairs share; None for a pair with nothing left.

    If they share nothing, the answer is None.
    """
    mine, theirs = _parts(a), _parts(b)
    shared = {key: min(n, theirs[key][0]) for key, (n, _) in mine.items() if key in theirs}
    if not shared:
        return None
    return _without(mine, shared), _without(theirs, shared)


def _parts(pair: GaussianPair) -> dict[str, tuple[int, dict[str, Any]]]:
    """List the exact inputs, row by row if they are rows, each with the number of its copies."""
    inputs: dict[str, tuple[int, dict[str, Any]]] = {}
    for origin in pair_to_json(pair):
        arrays, pieces = origin["arrays"], [(origin["arrays"], 1)]
        if origin["kind"] in ("ratios", "excess"):
            value, shift, copies = arrays
            rows = zip(*arrays.values(), strict=True)
            pieces = [({value: [v], shift: [m], copies: [1]}, int(n)) for v, m, n in rows]
        for piece, n in pieces:
            item = {**origin, "arrays": piece, "copies": 1}
            key = repr(sorted(item.items()))
            inputs[key] = inputs.get(key, (0, item))[0] + n * origin["copies"], item
    return inputs


def _without(parts: dict[str, tuple[int, dict[str, Any]]], shared: dict[str, int]) -> GaussianPair | None:
    left = [{**item, "copies": n - shared.get(key, 0)} for key, (n, item) in parts.items() if n > shared.get(key, 0)]
    return pair_from_json("pair", left) if left else None
