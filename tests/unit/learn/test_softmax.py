"""Logistic regression in rounds: conventions, several classes, budget, bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits

from helpers.estimators import keeps_conventions
from ndis.errors import ParameterError
from ndis.learn import PrivateLogisticRegression
from ndis.mechanisms.gaussian import unit_noise
from ndis.schema import Schema

pytestmark = pytest.mark.usefixtures("seeded")

IN_CONFLICT = {
    "check_dtype_object": "a cell that is no number raises nothing: its record counts as none",
    "check_estimators_empty_data_messages": "no records at all are a neighbour of one record, so nothing is raised",
}


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(3000, 2))
    names = np.array(["no", "perhaps", "yes"])
    return x, names[np.digitize(x @ [2.0, -1.0] + 0.2 * rng.normal(size=3000), [-0.7, 0.7])]


def model(**changes):
    return PrivateLogisticRegression(**{"row_norm_bound": 1.5, "random_state": 1, **changes})


@pytest.mark.parametrize("adjacency", ["add-remove", pytest.param("replace-one", marks=pytest.mark.sweep)])
def test_scikit_learn_battery(adjacency):
    estimator = PrivateLogisticRegression(row_norm_bound=3.0, random_state=0, adjacency=adjacency)
    keeps_conventions(estimator, IN_CONFLICT)


class TestLearning:
    def test_several_classes(self, records):
        x, y = records
        fitted = model().fit(x, y)
        assert fitted.classes_.tolist() == ["no", "perhaps", "yes"]
        assert fitted.coef_.shape == (3, 2)
        assert fitted.intercept_.shape == (3,)
        assert fitted.score(x, y, public=True) > 0.8
        chances = fitted.predict_proba(x[:7])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        np.testing.assert_array_equal(fitted.classes_[chances.argmax(axis=1)], fitted.predict(x[:7]))

    def test_two_classes(self, records):
        x, y = records[0], records[0] @ [2.0, -1.0] > 0.1
        fitted = model().fit(x, y)
        assert fitted.coef_.shape == (1, 2)
        assert fitted.score(x, y, public=True) > 0.93
        np.testing.assert_array_equal(fitted.predict(x), fitted.predict_proba(x)[:, 1] > 0.5)

    def test_weights_of_a_well_specified_model(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, size=(40_000, 2))
        y = rng.uniform(size=40_000) < 1 / (1 + np.exp(-(x @ [1.0, -2.0] + 0.5)))
        fitted = model(epsilon=20.0, rounds=15).fit(x, y)
        np.testing.assert_allclose(fitted.coef_[0], [1.0, -2.0], atol=0.15)
        assert fitted.intercept_[0] == pytest.approx(0.5, abs=0.1)

    @pytest.mark.parametrize(("load", "least"), [(load_breast_cancer, 0.92), (load_digits, 0.85)])
    def test_public_data(self, load, least):
        """Train accuracy at ε = 1, δ = 10⁻⁵; measured means are 0.96 and 0.90, standard deviations 0.015 and 0.01."""
        data = load()
        x = data.data[:, data.data.std(axis=0) > 0]
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        bound = float(np.sqrt(x.shape[1]))
        fits = [model(delta=1e-5, row_norm_bound=bound, random_state=s).fit(x, data.target) for s in range(3)]
        assert np.mean([fit.score(x, data.target, public=True) for fit in fits]) > least

    def test_labels_that_say_nothing_leave_small_weights(self):
        rng = np.random.default_rng(0)
        x, y = rng.uniform(-1, 1, size=(300, 2)), rng.integers(0, 2, 300)
        chances = [model(epsilon=0.1, random_state=s).fit(x, y).predict_proba(x) for s in range(5)]
        assert np.median(np.abs(np.array(chances) - 0.5)) < 0.1

    def test_order_and_unreadable_records_do_not_matter(self, records):
        x, y = records
        stated = model(classes=("no", "perhaps", "yes"))
        order = np.random.default_rng(0).permutation(len(x))
        plain = clone(stated).fit(x, y)
        mixed = clone(stated).fit(np.r_[x[order], [[0.3, 0.3], [np.nan, 0.0]]], np.r_[y[order], ["other", "yes"]])
        np.testing.assert_array_equal(plain.coef_, mixed.coef_)
        np.testing.assert_array_equal(clone(stated).fit(sparse.csr_array(x), y).coef_, plain.coef_)

    def test_files(self, records, tmp_path):
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        x, y = records[0], np.where(records[1] == "yes", 7, 3)
        pd.DataFrame(x, columns=["a", "b"]).assign(y=y).to_parquet(tmp_path / "x.parquet")
        files = model(classes=(3, 7)).fit_data(tmp_path, target="y")
        np.testing.assert_array_equal(files.coef_, model(classes=(3, 7)).fit(x, y).coef_)
        assert files.feature_names_in_.tolist() == ["a", "b"]
        for wrong in ({"classes": None}, {"classes": ("a", "b")}):
            with pytest.raises(ParameterError):
                model(**wrong).fit_data(tmp_path, target="y")


class TestGuarantee:
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    def test_all_releases_together_meet_the_budget_and_use_it_up(self, records, adjacency):
        fitted = model(epsilon=0.7, delta=1e-7, adjacency=adjacency).fit(*records)
        assert fitted.profile_.certify(0.7).upper <= 1e-7
        assert fitted.profile_.certify(0.7 - 1e-4).lower > 1e-7
        log = fitted.receipt_.parameters["releases"]
        start = ["histograms of columns", "histogram of norms", "gram", "gram"]
        assert [e["release"] for e in log] == [*start, *["gradients", "histogram of lengths"] * 5, "gradients"]
        factor = 1 if adjacency == "add-remove" else 2
        clips = [e["clip"] / e["noise_std"] * factor for e in log if "clip" in e]
        np.testing.assert_allclose(clips, fitted.mechanism_.shift * np.sqrt(fitted.mechanism_.sum_shares), rtol=1e-12)

    def test_classes_taken_from_labels_are_noted(self, records):
        assert model().fit(*records).receipt_.parameters["classes_stated"] is False
        stated = model(classes=("no", "perhaps", "yes")).fit(*records)
        assert stated.receipt_.parameters["classes_stated"] is True
        assert model(random_state=None).fit(*records).receipt_.private

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("row_norm_bound", None),
            ("method", "newton"),
            ("rounds", 1),
            ("adjacency", "swap"),
            ("l2_penalty", 1.0),
            ("max_records", 5),
            ("classes", ("a",)),
            ("classes", (1, 2, 2)),
            ("intervals", "yes"),
        ],
    )
    def test_public_parameters_are_checked(self, records, name, value):
        with pytest.raises(ParameterError, match=rf"^{name} must "):
            model(**{name: value}).fit(*records)


class TestPenalty:
    def test_default_is_useful_and_does_not_read_the_data(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, size=(4000, 2))
        fits = [model(method="posterior").fit(x[:n], x[:n] @ [2.0, -1.0] > 0) for n in (2000, 4000)]
        assert fits[0].l2_penalty_ == fits[1].l2_penalty_
        assert fits[1].score(x, x @ [2.0, -1.0] > 0, public=True) > 0.9

    def test_replace_one_is_for_rounds(self, records):
        with pytest.raises(ParameterError, match=r"^adjacency must be 'add-remove' with method='posterior'"):
            model(method="posterior", adjacency="replace-one").fit(*records)


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, size=(6000, 2))
    return x, (rng.uniform(size=6000) < 1 / (1 + np.exp(-(x @ [1.5, -1.0] + 0.3)))).astype(int)


class TestIntervals:
    """How often they cover is tested in tests/statistical."""

    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    def test_all_releases_together_meet_the_budget(self, binary, adjacency):
        fitted = model(epsilon=0.7, delta=1e-7, adjacency=adjacency, intervals=True).fit(*binary)
        budget, log = fitted.mechanism_, fitted.receipt_.parameters["releases"]
        assert fitted.profile_.certify(0.7).upper <= 1e-7
        assert fitted.profile_.certify(0.7 - 1e-4).lower > 1e-7
        assert [e["release"] for e in log].count("weighted gram") == 2
        matrices = [e for e in log if "norm_bound" in e]
        reach = np.array([e["norm_bound"] ** 2 for e in matrices]) * (1 if adjacency == "add-remove" else math.sqrt(2))
        noise = [e["noise_std"] for e in matrices]
        np.testing.assert_allclose(noise, reach / (budget.shift * np.sqrt(budget.matrix_shares)), rtol=1e-12)
        gram, hessian = (each["norm_bound"] for each in matrices[1:3])
        assert hessian == pytest.approx(gram / 2)
        # Every release as an independent shift: their squares add up to no more than the profile allows.
        factor = 1 if adjacency == "add-remove" else 4
        shares = [*budget.count_shares, *budget.matrix_shares, *budget.sum_shares]
        if adjacency == "add-remove":
            assert budget.shift**2 * sum(shares) <= 1 / unit_noise(0.7, 1e-7) ** 2 * (1 + 1e-12)
        clips = [e["clip"] ** 2 * factor / e["noise_std"] ** 2 for e in log if "clip" in e]
        np.testing.assert_allclose(clips, budget.shift**2 * np.array(budget.sum_shares), rtol=1e-12)

    def test_near_statsmodels_where_the_budget_is_large(self, binary):
        x, y = binary
        fitted = model(epsilon=1000.0, delta=0.1, intervals=True).fit(x, y)
        design = np.c_[x, np.ones(len(x))]
        theta = np.zeros(3)
        for _ in range(30):
            p = 1 / (1 + np.exp(-design @ theta))
            hessian = (design * (p * (1 - p))[:, None]).T @ design
            theta = theta + np.linalg.solve(hessian, design.T @ (y - p))
        errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
        table = fitted.summary()
        np.testing.assert_allclose(table.estimate, theta, atol=0.1 * errors.min())
        np.testing.assert_allclose(table.standard_error, errors, rtol=0.02)

    def test_summary_and_intervals(self, binary):
        x, y = binary
        fitted = model(intervals=True).fit(x, y)
        table, intervals = fitted.summary(0.9), fitted.coef_interval(0.9)
        assert table.names == ("x0", "x1", "(intercept)")
        np.testing.assert_allclose(table.interval[:2], intervals)
        assert (np.abs(table.estimate - [1.5, -1.0, 0.3]) < 6 * table.standard_error).all()
        np.testing.assert_array_equal(table.shrunk, [*fitted.coef_[0], *fitted.intercept_])
        assert "log-odds of 1 against 0" in repr(table)
        assert model(intervals=True, fit_intercept=False).fit(x, y).summary().names == ("x0", "x1")
        assert fitted.score(x, y, public=True) > 0.68

    def test_units(self, binary):
        """Rows, bound and weights in other units are the same fit."""
        x, y = binary
        fitted, scaled = (model(row_norm_bound=1.5 * c, intervals=True).fit(x * c, y) for c in (1.0, 4.0))
        np.testing.assert_allclose(scaled.coef_interval() * 4.0, fitted.coef_interval(), rtol=1e-9)

    def test_are_finite_where_noise_hides_a_direction(self, binary):
        x, y = binary
        fitted = model(intervals=True).fit(np.c_[x, x[:, 0]] / 2, y)
        low, high = fitted.coef_interval().T
        assert np.isfinite(high).all()
        assert min((high - low)[[0, 2]]) > (high - low)[1]
        assert "the noise hides" in repr(fitted.summary())

    def test_a_schema_compares_with_the_first_value_of_a_category(self):
        pandas = pytest.importorskip("pandas")
        rng = np.random.default_rng(6)
        frame = pandas.DataFrame({"age": rng.uniform(20, 60, size=20_000), "town": rng.choice(["a", "b"], size=20_000)})
        odds = 0.05 * (frame.age - 40) + 0.8 * (frame.town == "b") - 0.2
        frame["bought"] = np.where(rng.uniform(size=20_000) < 1 / (1 + np.exp(-odds)), "yes", "no")
        schema = Schema({"age": (20, 60), "town": ["a", "b"]}, target=("bought", ["no", "yes"]))
        fitted = PrivateLogisticRegression(epsilon=5.0, schema=schema, random_state=2, intervals=True).fit(frame)
        table = fitted.summary()
        assert len(table.names) == 3
        assert (np.abs(table.estimate[:2] - [0.05, 0.8]) < 6 * table.standard_error[:2]).all()
        assert (table.standard_error[:2] < [0.01, 0.2]).all()
        assert ((frame.bought == "yes") == (fitted.predict(frame) == "yes")).mean() > 0.6

    def test_refusals(self, records, binary):
        with pytest.raises(ParameterError, match=r"^classes must be two with intervals=True; got 3 classes"):
            model(intervals=True).fit(*records)
        with pytest.raises(ParameterError, match=r"^classes must be two with intervals=True"):
            model(intervals=True, classes=("no", "perhaps", "yes")).fit_data(records[0], target=1)
        with pytest.raises(ParameterError, match=r"^intervals must be True only"):
            model(intervals=True, method="mean").fit(*binary)
        with pytest.raises(ParameterError, match=r"^intervals must be released in the fit"):
            model(intervals=False).fit(*binary).coef_interval()
        with pytest.raises(ParameterError, match=r"^level must"):
            model(intervals=True).fit(*binary).coef_interval(1.5)
        again = model().fit(*binary).set_params(intervals=False).fit(*binary)
        with pytest.raises(ParameterError, match=r"^intervals must be released in the fit"):
            again.coef_interval()


def test_a_summary_never_fails_after_the_budget_is_spent(binary, records):
    for how in ({"intervals": False}, {"method": "mean"}, {"method": "posterior"}):
        plain = model(**how).fit(*binary).summary()
        assert plain.names == ("x0", "x1", "(intercept)")
        assert np.isinf(plain.standard_error).all()
        assert "errors are unknown: rounds of two classes with intervals release them" in repr(plain)
    several = model().fit(*records).summary()
    assert len(several.names) == len(several.shrunk) > 3
    assert np.isinf(several.standard_error).all()
    table = model().fit(*binary).summary()
    assert np.isfinite(table.standard_error).all()
    ratios = table.odds_ratios()
    np.testing.assert_allclose(np.log(ratios[:, 0]), table.estimate)
    np.testing.assert_allclose(np.log(ratios[:, 1:]), table.interval)
