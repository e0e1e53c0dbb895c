"""Arguments of an audit that are refused, each with its name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.audits import CLAIM, LOUD, ROWS, SHIFT
from ndis.auditing import AddAdversarial, AddRows, Claim, Domain, PairBatch, ProjectionLaw, RemoveEach, Search, audit
from ndis.errors import ParameterError


def noisy_sum(variance, columns=3):
    return lambda data: (data.sum(axis=0), np.full(columns, variance))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "pairs, algorithm or mechanism must be given"),
        ({"pairs": [SHIFT], "mechanism": ProjectionLaw(5, 1.0, 1.0)}, "one of them"),
        ({"pairs": []}, "pairs must be at least one"),
        ({"pairs": [1.0]}, "GaussianPair or PrivacyProfile"),
        ({"pairs": {"ratio": [1.0]}}, "pairs must have the keys variance_ratio"),
        ({"pairs": {"variance_ratio": [1.0, math.nan]}}, "variance_ratio must be finite"),
        ({"pairs": {"variance_ratio": [1.0], "shift": [math.inf]}}, "shift must be finite"),
        ({"pairs": {"variance_ratio": [1.0, -1.0]}}, "positive"),
        ({"pairs": {"variance_ratio": [1.0, 2.0], "copies": [0, 1]}}, "copies"),
        ({"pairs": {"variance_ratio": [1.0, 2.0], "shift": [0.0, 1.0, 2.0]}}, "broadcast"),
        ({"pairs": {"variance_ratio": []}}, "at least one pair"),
        ({"pairs": [SHIFT], "data": np.zeros((2, 2))}, "data and workers must be left out"),
        ({"pairs": [SHIFT], "search": Search(RemoveEach())}, "neighbours must come with data"),
        ({"algorithm": noisy_sum(1.0)}, "data must come with an algorithm"),
        ({"algorithm": noisy_sum(1.0), "data": [[1.0, 2.0, 3.0]]}, "array of rows"),
        ({"algorithm": lambda d: 1.0, "data": np.zeros((2, 2))}, "return"),
        ({"algorithm": lambda d: ([math.nan], [1.0]), "data": np.zeros((2, 2))}, "finite"),
        ({"algorithm": lambda d: ([0.0], [-1.0]), "data": np.zeros((2, 2))}, "non-negative"),
        ({"algorithm": lambda d: (np.zeros(len(d)), np.ones(len(d))), "data": np.zeros((2, 2))}, "one dimension"),
        ({"algorithm": noisy_sum(1.0), "data": np.zeros((2, 3)), "search": Search(3)}, "rule of ndis.auditing"),
        ({"algorithm": noisy_sum(1.0), "data": np.zeros((2, 3)), "search": Search([])}, "rule of ndis.auditing"),
        ({"algorithm": noisy_sum(1.0), "data": np.zeros((2, 3)), "workers": 0}, "workers"),
        ({"algorithm": noisy_sum(1.0), "data": np.zeros((0, 3))}, "at least one pair"),
        ({"mechanism": 3}, "profile"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ParameterError, match=words):
        audit(CLAIM, **arguments)


@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency"),
    [
        (-1.0, 0.1, "add-remove"),
        (math.nan, 0.1, "add-remove"),
        (math.inf, 0.1, "add-remove"),
        (1.0, 1.0, "add-remove"),
        (1.0, -0.1, "add-remove"),
        (1.0, math.nan, "add-remove"),
        (1.0, 0.1, "both"),
    ],
)
def test_bad_claims(epsilon, delta, adjacency):
    with pytest.raises(ParameterError):
        Claim(epsilon, delta, adjacency)
    with pytest.raises(ParameterError):
        Claim.curve([0.5, epsilon], [0.1, delta], adjacency=adjacency)


def test_bad_rules():
    for seed in (-1, 0.5, True, "a"):
        with pytest.raises(ParameterError, match="random_state"):
            Search(random_state=seed)
    with pytest.raises(ParameterError, match="row_norm_bound"):
        AddAdversarial(Domain(row_norm_bound=math.nan))
    with pytest.raises(ParameterError, match="candidates"):
        AddRows([[math.nan]])
    with pytest.raises(ParameterError, match="columns of data"):
        audit(CLAIM, algorithm=noisy_sum(1.0), data=np.zeros((2, 3)), search=Search(neighbours=AddRows([[1.0]])))
    with pytest.raises(ParameterError, match="ridge"):
        ProjectionLaw(10, 0.0, 1.0)
    with pytest.raises(ParameterError, match="claim must be a Claim"):
        audit((1.0, 1e-6), pairs=[SHIFT])


@pytest.mark.parametrize("neighbours", [(ROWS[:3], ROWS[:3, 0]), [None], "abc", [ROWS], iter([ROWS]), []])
def test_neighbours_are_chosen_by_rules(neighbours):
    with pytest.raises(ParameterError, match=r"be a rule of ndis\.auditing"):
        audit(CLAIM, algorithm=noisy_sum(8.0), data=ROWS, search=Search(neighbours=neighbours))


def test_a_bad_pair_of_a_batch_is_refused():
    for batch, words in (
        (PairBatch([1.0, 1.0, math.nan]), "variance_ratio must be finite"),
        (PairBatch([1.0, -1.0]), "variance_ratio must be positive"),
        (PairBatch([1.0, 1.0], shift=[0.0, math.inf]), "shift must be finite"),
        (PairBatch(np.ones((2, 2)), copies=[[1, 1], [1, 1.5]]), "copies must be whole numbers"),
    ):
        with pytest.raises(ParameterError, match=words):
            audit(CLAIM, pairs=batch)


@pytest.mark.parametrize(
    "wrong",
    [
        {"generations": 0},
        {"offspring": 0},
        {"starts": True},
    ],
)
def test_bad_arguments_of_rules(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        AddAdversarial(Domain(1.0), **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"row_norm_bound": math.inf},
        {"row_norm_bound": 1e-320},
        {"row_norm_bound": 1e308},
        {"target_values": "ab"},
        {"target_values": {"a": 1}},
        {"target_values": True},
        {"target_values": [math.nan]},
    ],
)
def test_bad_arguments_of_domains(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Domain(**{"row_norm_bound": 1.0, **wrong})


def test_a_bound_is_no_domain():
    with pytest.raises(ParameterError, match="domain must be a Domain; got float"):
        AddAdversarial(1.0)


def test_what_only_an_algorithm_needs_is_refused_with_pairs():
    with pytest.raises(ParameterError, match="left out with pairs"):
        audit(CLAIM, pairs=[LOUD], workers=2)
    with pytest.raises(ParameterError, match="neighbours must come with data"):
        audit(CLAIM, pairs=[LOUD], search=Search(RemoveEach()))
