"""Labels and classes: labels of any type, stated classes, classes that occur."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from helpers.values import ANYTHING
from ndis.errors import ParameterError
from ndis.learn import PrivateGaussianProcess, PrivateLogisticRegression
from ndis.learn._labels import label_signs, occurring_classes, private_labels, stated_classes
from ndis.models.records import read_records


class TestLabels:
    @pytest.mark.parametrize("label", ANYTHING, ids=lambda label: type(label).__name__)
    @pytest.mark.parametrize("classes", [(0, 1), ("0", "1"), (0.5, "a"), (b"1", True)])
    def test_no_label_changes_another_or_raises(self, label, classes):
        labels, stated = [0, 1, "0", "1", "a", b"1", 0.5, 2], stated_classes(classes)
        plain = label_signs(private_labels(labels), stated)
        more = label_signs(private_labels([*labels, label]), stated)
        assert sorted(set(plain)) == [-1.0, 0.0, 1.0]
        assert more[:-1].tolist() == plain.tolist()
        assert more[-1] in (-1.0, 0.0, 1.0)

    @pytest.mark.parametrize("label", ANYTHING, ids=lambda label: type(label).__name__)
    def test_no_label_changes_how_a_model_reads_another(self, label):
        x, y = np.ones((5, 1)), [1, True, "0.5", b"2"]
        plain, more = (
            read_records((x[:4], y), max_records=None)[1],
            read_records((x, [*y, label]), max_records=9)[1],
        )
        assert plain.tolist() == more[:-1].tolist() == [1.0, 1.0, 0.5, 2.0]

    def test_estimators_release_with_any_label(self):
        y = [0, 1, *ANYTHING]
        x = np.zeros((len(y), 1))
        logistic = PrivateLogisticRegression(
            row_norm_bound=1.0, classes=(0, 1), method="posterior", l2_penalty=1.0, bound="renyi"
        ).fit(x, y)
        assert logistic.receipt_.private
        process = PrivateGaussianProcess(label_bound=1.0, max_records=40, noise_variance=25.0)
        assert process.fit(x, y).receipt_.private

    def test_occurring_classes_leave_out_what_is_no_label_and_quote_none(self):
        labels = private_labels(["yes", None, "no", math.nan, pd.NA, [1, 2]])
        assert occurring_classes(labels).tolist() == ["no", "yes"]
        for bad in ([0.25, 17.75], [1, 17, 1775], ["secret"]):
            with pytest.raises(ParameterError) as error:
                occurring_classes(private_labels(bad))
            assert not any(word in str(error.value) for word in ("17", "0.25", "secret"))

    @pytest.mark.parametrize("classes", ["ab", (0,), (0, 0.0), (None, 1), (math.nan, 1), ([1], 2), 5])
    def test_classes_are_two_different_labels(self, classes):
        with pytest.raises(ParameterError, match="classes must be two different labels"):
            stated_classes(classes)

    def test_classes_of_two_types_stay_as_they_are(self):
        assert stated_classes((0, "0")).tolist() == [0, "0"]
        assert label_signs(np.array([0, "0"], dtype=object), stated_classes((0, "0"))).tolist() == [-1.0, 1.0]

    def test_types_and_shapes_of_arrays_are_refused(self):
        for y in (np.zeros((2, 2)), np.zeros(2, dtype=complex), np.zeros(2, dtype="M8[s]")):
            with pytest.raises(ParameterError, match="y must"):
                private_labels(y)


@pytest.mark.parametrize("labels", [[1, 0.0, True], [True, 0, 1.0], [1.0, False, 1], [False, True], [0, 1]])
def test_the_type_of_classes_does_not_follow_the_first_label(labels: list[object]) -> None:
    for order in (labels, labels[::-1]):
        found = occurring_classes(private_labels(order))
        assert (found.dtype, found.tolist()) == (np.dtype(np.int64), [0, 1])
    assert occurring_classes(np.array([True, False])).dtype == np.bool_
    assert occurring_classes(np.array([1.0, 0.0])).dtype == np.float64
