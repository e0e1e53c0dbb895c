"""Every argument of an estimator is checked before a ledger reserves: a wrong one is refused by its name, unspent."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest

import ndis
from ndis import learn
from ndis.errors import NdisError

ROWS = {"a": np.linspace(-1, 1, 12), "b": np.tile([0.5, -0.5], 6)}
NUMBER, CLASS = {**ROWS, "t": np.linspace(0, 1, 12)}, {**ROWS, "t": np.tile([0, 1], 6)}
COLUMNS = {"a": (-1, 1), "b": (-1, 1)}
X = np.stack(list(ROWS.values()), axis=1)
BOUND, BOUNDS = {"row_norm_bound": 2.0}, {"row_norm_bound": 2.0, "target_bound": 1.0}
CLASSES = {**BOUND, "classes": (0, 1)}
POINTS = {"label_bound": 1.0, "max_records": 40, "noise_variance": 25.0}
ESTIMATORS = {
    "covariance": (learn.PrivateCovariance, BOUND, (X,)),
    "centred": (learn.PrivateCovariance, {**BOUND, "records": 12, "assume_centered": True}, (X,)),
    "sketched covariance": (learn.PrivateCovariance, {**BOUND, "method": "sketch", "sketch_size": 20}, (X,)),
    "pca": (learn.PrivatePCA, BOUND, (X,)),
    "ridge": (learn.PrivateRidge, {**BOUNDS, "sketch_size": 20}, (X, NUMBER["t"])),
    "linear": (learn.PrivateLinearRegression, BOUNDS, (X, NUMBER["t"])),
    "logistic": (learn.PrivateLogisticRegression, CLASSES, (X, CLASS["t"])),
    "intervals": (learn.PrivateLogisticRegression, {**CLASSES, "intervals": True}, (X, CLASS["t"])),
    "lifted": (learn.PrivateLogisticRegression, {**CLASSES, "method": "mean"}, (X, CLASS["t"])),
    "process": (learn.PrivateGaussianProcess, POINTS, (X, NUMBER["t"])),
    "schema": (learn.PrivateLinearRegression, {"schema": ndis.Schema(COLUMNS, target=("t", 0, 1))}, (NUMBER,)),
    "classes": (learn.PrivateLogisticRegression, {"schema": ndis.Schema(COLUMNS, target=("t", [0, 1]))}, (CLASS,)),
    "moments": (learn.PrivateCovariance, {"schema": ndis.Schema(COLUMNS)}, (ROWS,)),
}
WRONG = [
    None, "x", b"x", True, -1, 0, 1.5, float("nan"), float("inf"), 1e308, 1e-308, 10**400, 2j, np.array([1, 2]), {},
    object(), Decimal("1"), Fraction(1, 3), np.array(True), int,
]  # fmt: skip
SKETCHED = ("epsilon", "delta", "records")  # each number calibrates a sketch anew, which takes long


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_refused_is_refused_before_the_reservation(name, tmp_path):
    kind, own, data = ESTIMATORS[name]
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9e3, delta=1e-3, kind="renyi", order=1.5)
    arguments = [each for each in signature(kind).parameters if each != "ledger"]
    if "sketch_size" in own:
        arguments = [each for each in arguments if each not in SKETCHED]
    refused = 0
    for argument in arguments:
        for wrong in WRONG:
            before = ledger.entries()
            try:
                model = kind(**{**own, "ledger": ledger.path, argument: wrong}).fit(*data)
            except NdisError:
                refused += 1
                assert ledger.entries() == before, (argument, wrong)
            else:
                assert ledger.entries() == before + 2
                learnt = [np.asarray(each) for key, each in vars(model).items() if key.endswith("_")]
                assert all(np.isfinite(each).all() for each in learnt if each.dtype.kind == "f"), (argument, wrong)
    assert refused > 8 * len(arguments)


@pytest.mark.parametrize("ends", [(-1e308, 1e307), (0, 1e40), (0, 1e-40), (-1e-300, 1e-300)])
def test_a_range_whose_powers_are_no_floats_is_refused_when_it_is_stated(ends):
    """One bound for all that learns in units: a covariance became NaN after its release."""
    for spec in (ends, {"low": ends[0], "high": ends[1], "degree": 2}):
        with pytest.raises(ndis.errors.ParameterError, match=r"low of column 'a' must be as far from high as 2\^-119"):
            ndis.Schema({"a": spec})


@pytest.mark.parametrize("wide", [2.0**120, 2.0**-119])
def test_the_widest_and_the_narrowest_range_give_finite_results(wide):
    columns = {"a": {"low": -wide, "high": wide, "degree": 2}, "b": (-1, 1)}
    schema = ndis.Schema(columns, target=("t", -1 / wide, 1 / wide))
    rng = np.random.default_rng(0)
    rows = {"a": wide * rng.uniform(-1, 1, 4000), "b": rng.uniform(-1, 1, 4000), "t": rng.uniform(-1, 1, 4000) / wide}
    budget = {"epsilon": 9.0, "delta": 1e-6, "schema": schema}
    linear = learn.PrivateLinearRegression(**budget).fit(rows)
    assert np.isfinite(linear.coef_interval()).all()
    covariance = learn.PrivateCovariance(**budget).fit(rows)
    assert np.isfinite([covariance.covariance_, covariance.covariance_error_, covariance.correlation_]).all()
    described = ndis.describe(rows, **budget)
    for table in (described.means(), described.variances(), described.covariance(), described.correlation()):
        assert np.isfinite([table.estimate, table.standard_error]).all()
    assert np.isfinite(described.regress("t", on=["a", "b"]).estimate).all()
