"""thm:no-natural-filter: an adversary who breaks the natural filter, certified, and what the ledgers make of him.

The natural filter composes the exact curves of what was asked so far and stops before they cross (ε, δ). The adversary
releases A first, a mean shift. Then he looks at the answer and asks for a sketch X or for a mean shift Y. The filter
allows either: A with X stays within δ at ε, and so does A with Y. But the curves of X and Y cross, and he takes the
larger one each time.

The lower bound is certified. The first answer is sorted into cells, which is post-processing. Given a cell with
probabilities P and Q, what remains is the next release at ε + log(Q/P), because

    sup_S Σ_cells P(cell) X(S | cell) − e^ε Q(cell) Y(S | cell) = Σ_cells P(cell) δ_{X,Y}(ε + log(Q(cell)/P(cell))),

with (X, Y) the pair of the next release that he chooses in that cell.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from flint import arb, ctx

import ndis
from ndis.errors import BudgetError, ParameterError

EPSILON = 2.0
FIRST = ndis.GaussianPair.from_ratios(1.0, shift=0.3)
SKETCH = ndis.GaussianPair.from_ratios(1.1, copies=10)
SHIFT = ndis.GaussianPair.from_ratios(1.0, shift=0.33355)
CELLS = [k / 8 for k in range(-8, 57)]  # ends of the cells of the first answer
TURN = 2.875  # above it the shift, below it the sketch


def budget() -> float:
    """δ that the natural filter would have to allow for either choice."""
    return max(FIRST.compose(one).certify(EPSILON).upper for one in (SKETCH, SHIFT))


def probability(low: float | None, high: float | None, mean: float) -> arb:
    """Of a cell, under a normal law of variance 1."""

    def above(x: float | None) -> arb:
        return arb(1) if x is None else ((arb(x) - arb(mean)) / arb(2).sqrt()).erfc() / 2

    return above(low) - (arb(0) if high is None else above(high))


def adaptive_delta() -> float:
    """A certified lower bound of δ(ε) of what the adversary sees."""
    ctx.prec, before = 160, ctx.prec
    try:
        total = arb(0)
        edges = [None, *CELLS, None]
        for low, high in pairwise(edges):
            p, q = probability(low, high, float(FIRST.shift[0])), probability(low, high, 0.0)
            chosen = SHIFT if low is not None and low >= TURN else SKETCH
            place = float((EPSILON + (q / p).log()).upper()) + 1e-12  # δ falls, so a larger ε bounds from below
            total += p * arb(chosen.certify(place, relative_width=1e-6).lower)
        return float(total.lower())
    finally:
        ctx.prec = before


def test_the_natural_filter_is_broken():
    allowed = budget()
    for one in (SKETCH, SHIFT):
        assert FIRST.compose(one).certify(EPSILON).upper <= allowed  # so the natural filter says yes
    assert adaptive_delta() > 1.3 * allowed


def test_without_adaptivity_the_same_cells_stay_within_the_budget(monkeypatch):
    """The bound is no artefact of the cells: one and the same next release stays within δ."""
    for turn in (-1000.0, 1000.0):
        monkeypatch.setitem(globals(), "TURN", turn)
        assert adaptive_delta() <= budget()


def requests() -> list[ndis.PrivacyProfile]:
    return [ndis.PrivacyProfile(pair) for pair in (SKETCH, SHIFT)]


@pytest.mark.parametrize("declared", [0, 1])
def test_a_plan_refuses_the_other_choice(tmp_path, declared):
    first, choices = ndis.PrivacyProfile(FIRST), requests()
    slots = {"first": (first, 1), "next": (choices[declared], 1)}
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=EPSILON, delta=budget(), plan=slots)
    ledger.reserve("first", first)
    with pytest.raises(BudgetError, match="must be dominated by slot 'next'"):
        ledger.reserve("next", choices[1 - declared])
    ledger.reserve("next", choices[declared])


def test_a_plan_with_both_choices_is_not_made(tmp_path):
    slots = {str(k): (profile, 1) for k, profile in enumerate([ndis.PrivacyProfile(FIRST), *requests()])}
    with pytest.raises(BudgetError, match="the plan must keep delta"):
        ndis.Ledger.create(tmp_path / "x.db", epsilon=EPSILON, delta=budget(), plan=slots)


def test_the_filter_of_shifts_refuses_the_sketch(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=EPSILON, delta=budget(), kind="shifts")
    ledger.reserve(None, ndis.PrivacyProfile(FIRST))
    sketch, _ = requests()
    with pytest.raises(ParameterError, match="mean shift"):
        ledger.reserve(None, sketch)


@pytest.mark.parametrize("order", [None, 9.0, 12.0, 20.0])
def test_the_renyi_filter_refuses_at_least_one_choice(tmp_path, order):
    """Both choices at one order would be sound, and what the adversary does is not."""
    refused = 0
    for number, choice in enumerate(requests()):
        path = tmp_path / f"{number}.db"
        ledger = ndis.Ledger.create(path, epsilon=EPSILON, delta=budget(), kind="renyi", order=order)
        try:
            ledger.reserve(None, ndis.PrivacyProfile(FIRST))
            ledger.reserve(None, choice)
        except BudgetError:
            refused += 1
    assert refused >= 1
