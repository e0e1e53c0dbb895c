"""A list declares neither a width nor a type: no item of it decides how another is read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ndis
from ndis import Schema
from ndis.errors import ParameterError
from ndis.gram import exact_gram


def test_with_a_schema_too_a_list_is_paths_and_no_item_is_quoted() -> None:
    """A list of cells was taken for paths if all of them were texts, and the message quoted one."""
    schema = Schema({"diagnosis": ["flu", "cold"]})
    mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, **schema.bounds())
    rule = "data must be an array, a frame or a file, or list existing files and folders; got another list; "
    for call in (
        lambda data: mechanism.release(data, schema=schema),
        schema.encode,
        lambda data: ndis.mechanisms.rows.clipped_count(data, schema, epsilon=1.0, delta=1e-6),
        lambda data: ndis.learn.PrivateCovariance(schema=schema).fit(data),
    ):
        for rows in ([], ["rare disease", "flu"], ["flu", None], [["flu"]], [None], [np.array(["flu"], dtype=object)]):
            with pytest.raises(ParameterError) as caught:
                call(rows)
            assert str(caught.value) == rule + "rows are written numpy.asarray(data, dtype=object)"


LISTS: list[Any] = [
    [],
    [[1.0]],
    [[1.0], [2.0]],
    [[1.0], [2.0, 3.0]],
    [1.0],
    ["a.csv"],
    ["a", None],
    [None],
    [[], {}],
    [""],
]


@pytest.mark.parametrize("rows", LISTS, ids=repr)
def test_a_list_of_rows_is_refused_by_its_type(rows: Any) -> None:
    """The first row decided how wide all rows are, and whether they are rows. Now the words are always the same."""
    said = "; write numpy.asarray(X, dtype=object)"
    covariance = ndis.learn.PrivateCovariance(row_norm_bound=1.0)
    ridge = ndis.learn.PrivateRidge(row_norm_bound=1.0, target_bound=1.0)
    model = ndis.models.BohningLogistic(l2_penalty=20.0, row_norm_bound=1.0)
    labels = [1] * len(rows)
    rule = "X must be an array, a frame or a file; got a list"
    for call in (
        lambda: covariance.fit(rows),
        lambda: ridge.fit(rows, labels),
        lambda: model.distribution((rows, labels)),
        lambda: exact_gram((rows, labels), row_norm_bound=1.0, target_bound=1.0),
    ):
        with pytest.raises(ParameterError) as caught:
            call()
        assert str(caught.value) == rule + said
    with pytest.raises(ParameterError) as caught:
        exact_gram(rows, row_norm_bound=1.0)
    assert str(caught.value).startswith(
        "data must be an array, a frame or a file, or list existing files and folders; got another list"
    )


def test_no_target_of_a_list_decides_how_another_is_read() -> None:
    """The first target decided whether a list was one column or several."""
    x = np.full((4, 1), 0.5)
    targets: list[Any] = [0.25, [0.5, 0.5], "0.5", None]
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0}
    alone = [exact_gram((x[:1], [y]), **bounds).integers for y in targets]
    for order in itertools.permutations(range(4)):
        assert (exact_gram((x, [targets[i] for i in order]), **bounds).integers == sum(alone)).all()
