"""Dominance by post-processing, over the rationals: no number is rounded here."""

from __future__ import annotations

from fractions import Fraction

from ndis.ledger.directions import Table

__all__ = ["reachable"]


def reachable(a: Table, b: Table) -> bool:
    """True if pair b was found to be a post-processing of pair a (thm:matched-directions). False decides nothing.

    >>> one = Fraction(1)
    >>> a = {one: (3, one), Fraction(0): (1, 4 * one)}
    >>> reachable(a, {one / 2: (2, one / 2), Fraction(0): (7, 3 * one)})
    True
    >>> reachable(a, {2 * one: (1, Fraction(0))})
    False
    """
    nothing = (0, Fraction(0))
    if not b.get(Fraction(0), nothing)[1] <= a.get(Fraction(0), nothing)[1]:
        return False
    return all(_side(_on(a, sign), _on(b, sign)) for sign in (1, -1))


Group = tuple[Fraction, int, Fraction]  # |t|, copies, total m²


def _on(found: Table, sign: int) -> list[Group]:
    """The groups of one sign, largest |t| first."""
    return sorted(((sign * t, n, m2) for t, (n, m2) in found.items() if sign * t > 0), reverse=True)


def _side(supply: list[Group], demand: list[Group]) -> bool:
    """Serve each group of b from copies of a that have at least its |t|.

    A copy that goes from t to t' keeps the part t'/t of its m². Inside a group the whole m² may be turned into any of
    its copies. Demands come in falling |t|, so a copy that serves one could serve every later one.
    """
    rest = list(supply)
    for t, copies, m2 in demand:
        able = [i for i, (have, n, _) in enumerate(rest) if have >= t and n > 0]
        # copies with much shift first if shift is needed, those without shift first if not
        able.sort(key=lambda i: rest[i][2] * t / rest[i][0], reverse=m2 > 0)
        for i in able:
            have, n, shift = rest[i]
            used = min(n, copies)
            part = min(shift, m2 * have / t)
            m2 -= part * t / have
            copies -= used
            rest[i] = have, n - used, shift - part
            if copies == 0:
                break
        if copies > 0 or m2 > 0:
            return False
    return True
