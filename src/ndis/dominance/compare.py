"""Does one profile dominate another, at every real ε? Yes, no with a witness, or undecided; never a guess."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Literal

from ndis._search import reverse
from ndis._validate import require
from ndis.dominance.curves import PairCurve, prove, refute
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import Group, Order, PrivacyProfile, StepGroup
from ndis.worst_case.profile import EnvelopeProfile

ExactTable = dict[Fraction, tuple[int, Fraction]]  # {t: (copies, total m²)}


@dataclass(frozen=True)
class Dominance:
    """The answer of `dominates`.

    Attributes
    ----------
    holds : bool or None
        True: the first profile dominates. False: it does not, and `witness` shows it. None: undecided.
    order : str
        The order of the witness, or the order that was asked for.
    witness : float, optional
        An ε at which the second profile has the larger δ, certified. For a negative ε the enclosures are those of the
        reversed pairs at −ε, because δ(ε) = 1 − e^ε + e^ε δ_rev(−ε).
    reason : str
        What decided, in words.
    """

    holds: bool | None
    order: str
    witness: float | None = None
    reason: str = ""

    @property
    def decided(self) -> bool:
        """False if nothing is known."""
        return self.holds is not None


def dominates(a: PrivacyProfile, b: PrivacyProfile, *, order: Literal["both", "remove", "add"] = "both") -> Dominance:
    """Decide if δ_a(ε) ≥ δ_b(ε) at every real ε, order by order, with a proof for every yes and every no.

    Post-processing is tried first, over the rationals: equal pairs, dropped and merged coordinates, added noise, linear
    maps (thm:matched-directions, cor:ray). Sampled releases are compared by rate, pair and number of steps
    (thm:sampled-dominance). If none of this decides, two curves are compared with enclosures in balls
    (`ndis.dominance.curves`).

    The profile of a lifted mechanism may be the worst case over an envelope, which lies below the one pair that
    stands for it. The pair decides what it can: an envelope on the left may be refused, and one on the right may be
    covered. The other answers are undecided. To compare the pair itself, pass ``PrivacyProfile(a.remove, a.add)``.

    Parameters
    ----------
    a, b : PrivacyProfile
        The profile that may dominate, and the other one. Their adjacency must be the same.
    order : str
        "remove", "add", or "both": each order by itself, never the worse of the two.

    Examples
    --------
    >>> import ndis
    >>> shift = lambda m: ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=m))
    >>> dominates(shift(0.5), shift(0.25)).holds
    True
    >>> sketch = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1 + 1 / 35.54, copies=100))
    >>> found = dominates(shift(0.2367), sketch, order="remove")
    >>> found.holds, found.witness > 1
    (False, True)
    """
    for name, profile in (("a", a), ("b", b)):
        require(isinstance(profile, PrivacyProfile), name, "be a PrivacyProfile", type(profile).__name__)
    require(a.adjacency == b.adjacency, "adjacency of b", f"be {a.adjacency!r}, like that of a", repr(b.adjacency))
    require(order in ("both", "remove", "add"), "order", "be 'both', 'remove' or 'add'", repr(order))
    ways: tuple[Order, ...] = ("remove", "add") if order == "both" else (order,)
    if not b.failure_probability <= a.failure_probability:
        return Dominance(None, order, reason="the second profile may fail more often")
    answers = []
    for way in ways:
        answers.append(_of_the_curves(a, b, _one_order(a, b, way)))
        if answers[-1].holds is False:
            return answers[-1]
    undecided = [each for each in answers if each.holds is None]
    return replace(undecided[0] if undecided else answers[0], order=order)


def _of_the_curves(a: PrivacyProfile, b: PrivacyProfile, answer: Dominance) -> Dominance:
    """Keep an answer about pairs if it holds for the curves too: the pair of an envelope lies above its curve."""
    loose = isinstance(a, EnvelopeProfile) if answer.holds else isinstance(b, EnvelopeProfile)
    if answer.holds is None or not loose or a is b:
        return answer
    return Dominance(None, answer.order, reason="the curve of an envelope lies below the pair that was compared")


def _one_order(a: PrivacyProfile, b: PrivacyProfile, order: Order) -> Dominance:
    """Compare two profiles in one order: steps that both have cancel, and plain releases decide."""
    steps = (group for group in b.groups if isinstance(group, StepGroup))
    if any(not any(g.same_release(own) and g.count <= own.count for own in a.groups) for g in steps):
        return Dominance(None, order, reason="the second profile has steps without a pair that the first does not have")
    mine, theirs = _plain(a, b, order)
    if theirs is None:
        return Dominance(True, order, reason="sampled releases, step by step")
    if mine is None:
        return Dominance(None, order, reason="sampled releases that no release of the first profile serves")
    holds, witness, reason = compare(mine, theirs)
    if holds is False and (any(g.sampled for g in (*a.groups, *b.groups)) or a.failure_probability):
        return Dominance(None, order, reason="the plain releases do not compare; the sampled ones were not counted")
    return Dominance(holds, order, witness, reason)


def compare(a: GaussianPair, b: GaussianPair) -> tuple[bool | None, float | None, str]:
    """(answer, witness, reason) for two pairs in one order.

    >>> compare(GaussianPair.from_ratios(2.0), GaussianPair.from_ratios(1.5, copies=8))[0]
    False
    """
    if a.same_origins(b):
        return True, None, "equal"
    exact_a, exact_b = table(a), table(b)
    if exact_a is not None and exact_b is not None and reachable(exact_a, exact_b):
        return True, None, "post-processing"
    try:
        halves = [(PairCurve(a), PairCurve(b), 1.0), (PairCurve(a.reversed()), PairCurve(b.reversed()), -1.0)]
        for one, other, sign in halves:
            witness = refute(one, other)
            if witness is not None:
                return False, sign * witness, "curves"
        if all(prove(one, other) for one, other, _ in halves):
            return True, None, "curves"
    except PrecisionError:
        return None, None, "a number is out of reach"
    return None, None, "the curves are too close, or their tails are alike"


# ---------------------------------------------------------------------- sampled releases


def _plain(a: PrivacyProfile, b: PrivacyProfile, order: Order) -> tuple[GaussianPair | None, GaussianPair | None]:
    """The rest to compare, as pairs, after sampled releases of a served those of b.

    A sampled release of b that none of a serves is taken without its sampling, which dominates it.
    """
    supply = [group for group in a.groups if isinstance(group, Group) and group.sampled]
    left = [group.count for group in supply]
    unserved: list[GaussianPair] = [g.pair(order) for g in b.groups if not g.sampled]
    sampled = [group for group in b.groups if isinstance(group, Group) and group.sampled]
    for group in sorted(sampled, key=lambda g: g.rate, reverse=True):
        need = group.count
        for i, one in enumerate(supply):
            if need and left[i] and _serves(one, group, order):
                used = min(need, left[i])
                need, left[i] = need - used, left[i] - used
        if need:
            unserved.append(group.pair(order).repeat(need))
    return _together([g.pair(order) for g in a.groups if not g.sampled]), _together(unserved)


def _together(pairs: list[GaussianPair]) -> GaussianPair | None:
    return pairs[0].compose(*pairs[1:]) if pairs else None


def _serves(a: Group, b: Group, order: Order) -> bool:
    """Say if a sampled release of a dominates one of b (thm:sampled-dominance)."""
    small, large = (prod(map(Fraction, group.rates), start=Fraction(1)) for group in (b, a))
    return small <= large and compare(a.pair(order), b.pair(order))[0] is True


# ---------------------------------------------------------------------- post-processing, over the rationals


def reachable(a: ExactTable, b: ExactTable) -> bool:
    """Say if pair b was found to be a post-processing of pair a (thm:matched-directions). False decides nothing.

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


_Copies = tuple[Fraction, int, Fraction]  # |t|, copies, total m²


def _on(pair: ExactTable, sign: int) -> list[_Copies]:
    """List the groups of one sign, largest |t| first."""
    return sorted(((sign * t, n, m2) for t, (n, m2) in pair.items() if sign * t > 0), reverse=True)


def _side(supply: list[_Copies], demand: list[_Copies]) -> bool:
    """Serve each group of b from copies of a that have at least its |t|.

    A copy that goes from t to t' keeps the part t'/t of its m². Inside a group the whole m² may be turned into any of
    its copies. Demands come in falling |t|, so a copy that serves one could serve every later one.
    """
    free = list(supply)
    for t, copies, m2 in demand:
        able = [i for i, (have, n, _) in enumerate(free) if have >= t and n > 0]
        # copies with much shift first if shift is needed, those without shift first if not
        able.sort(key=lambda i: free[i][2] * t / free[i][0], reverse=m2 > 0)
        for i in able:
            have, n, shift = free[i]
            used = min(n, copies)
            spent = min(shift, m2 * have / t)
            m2 -= spent * t / have
            copies -= used
            free[i] = have, n - used, shift - spent
            if copies == 0:
                break
        if copies > 0 or m2 > 0:
            return False
    return True


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
