"""Which neighbours are tried: a stated bound adds the search for the worst row."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.audits import CLAIM
from helpers.pages import text_of
from ndis.auditing import Claim, DataSet, Domain, RemoveEach, Search, audit
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)
ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8], [-0.8, 0.6], [0.1, -0.2]])


def noisy_sum(variance: float):
    return lambda data: (data.sum(axis=0), np.full(2, variance))


GIVEN_ONLY = "Only the rows or pairs that the user gave were tried."


def test_a_stated_bound_adds_the_search_for_the_worst_row():
    plainly = audit(Claim(1.0, 0.5), algorithm=noisy_sum(9.0), data=ROWS)
    searched = audit(Claim(1.0, 0.5), algorithm=noisy_sum(9.0), data=DataSet(ROWS, domain=Domain(3.0)))
    assert plainly.given_only
    assert GIVEN_ONLY in text_of(plainly.to_html())
    assert not searched.given_only
    assert GIVEN_ONLY not in text_of(searched.to_html())
    assert searched.pairs_tried > plainly.pairs_tried
    assert any("‖x‖ ≤ 3" in how for how in searched.how_chosen)
    assert searched.delta_possible > plainly.delta_possible  # rows of norm 3 are worse than those of norm 1


def test_replace_one_needs_only_a_bound():
    claim = Claim(1.0, 1e-6, "replace-one")
    with pytest.raises(ParameterError, match="neighbours must be given for replace-one"):
        audit(claim, algorithm=noisy_sum(1.0), data=ROWS)
    assert audit(claim, algorithm=noisy_sum(1.0), data=DataSet(ROWS, domain=Domain(1.0))).refuted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pairs": [SHIFT], "search": Search(RemoveEach())}, "neighbours must come with data"),
        ({"pairs": [SHIFT], "data": DataSet(ROWS)}, "data and workers must be left out with pairs"),
        ({"pairs": [SHIFT], "title": 3}, "title must be of type str"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        audit(CLAIM, **arguments)
