"""What every private estimator must keep: the conventions of scikit-learn, and data that are not touched too early."""

import warnings

from sklearn.base import is_classifier, is_regressor
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import has_fit_parameter

LISTS = "it fits X.tolist(): a list declares no width, and no record may decide it for the others"
STRANGERS = "it fits arrays of no known package: they may be lazy, and NumPy joins their chunks by types"


def keeps_conventions(estimator, in_conflict):
    """The battery of scikit-learn passes, except for the checks that a private fit must break or need not keep."""
    kinds = {"classifiers_train": is_classifier(estimator), "regressors_train": is_regressor(estimator)}
    kinds["transformer_data_not_an_array"] = hasattr(estimator, "transform")
    in_conflict = in_conflict | {f"check_{name}": LISTS for name, meets in kinds.items() if meets}
    kinds = {"classifier_data": is_classifier(estimator), "regressor_data": is_regressor(estimator)}
    kinds["sample_weights"] = has_fit_parameter(estimator, "sample_weight")
    in_conflict |= {f"check_{name}_not_an_array": STRANGERS for name, meets in kinds.items() if meets}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a score is exact")  # the rows of the battery are public
        results = check_estimator(estimator, expected_failed_checks=in_conflict, on_skip=None, on_fail=None)
    status = {(r["check_name"], r["status"]): r["exception"] for r in results}
    assert [(name, status[name, found]) for name, found in status if found == "failed"] == []
    assert {name for name, found in status if found == "xfail"} == set(in_conflict)
    assert {name for name, found in status if found == "skipped"} <= {"check_array_api_input"}


class Untouchable:
    """Fails the test as soon as anything is asked of it."""

    def __getattribute__(self, name):
        raise AssertionError("private data were touched")
