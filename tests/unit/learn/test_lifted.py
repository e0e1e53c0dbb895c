"""The estimators on lifted models: conventions of scikit-learn, stated bounds, nothing learnt but the release."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from helpers.estimators import keeps_conventions
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateGaussianProcess, PrivateLogisticRegression

ESTIMATORS = [
    PrivateLogisticRegression(row_norm_bound=3.0, method="posterior", random_state=0),
    PrivateGaussianProcess(label_bound=3.0, max_records=8, random_state=0),
]

# What scikit-learn asks for and a private fit must not do: each would tell something about the records.
IN_CONFLICT = {
    "check_dtype_object": "a cell that is no number raises nothing: its record counts as none",
    "check_estimators_empty_data_messages": "no records at all are a neighbour of one record, so nothing is raised",
}
IN_CONFLICT_WITH_TARGETS = {"check_supervised_y_no_nan": "a label that is no number raises nothing"}


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(3000, 2))
    return x, np.where(x @ [2.0, -1.0] > 0.2, "yes", "no")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_scikit_learn_battery(estimator, seeded):
    expected = IN_CONFLICT | (IN_CONFLICT_WITH_TARGETS if isinstance(estimator, PrivateGaussianProcess) else {})
    keeps_conventions(estimator, expected)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_parameters_are_keywords_and_stored_as_given(estimator):
    assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(TypeError):
        type(estimator)(1.0, 1e-6)


class TestLogistic:
    def test_learns_and_says_what_it_guarantees(self, records, seeded):
        x, y = records
        model = PrivateLogisticRegression(method="posterior", l2_penalty=20.0, row_norm_bound=1.5, random_state=1).fit(
            x, y
        )
        assert model.score(x, y, public=True) > 0.85
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.coef_.shape == (1, 2)
        assert model.intercept_.shape == (1,)
        assert model.receipt_.delta == 1e-6
        assert not model.receipt_.private
        proba = model.predict_proba(x[:5])
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.predict(x[:5]), np.where(proba[:, 1] > 0.5, "yes", "no"))

    def test_in_a_pipeline_without_a_seed(self, records):
        x, y = records
        scale = FunctionTransformer(lambda rows: rows / 2)  # a public constant
        model = make_pipeline(
            scale, PrivateLogisticRegression(method="posterior", l2_penalty=20.0, row_norm_bound=0.75, bound="renyi")
        )
        assert model.fit(x, y)[-1].receipt_.private
        assert model.predict(x).shape == (3000,)

    def test_a_seed_warns(self, records):
        with pytest.warns(NotPrivateWarning):
            PrivateLogisticRegression(method="posterior", row_norm_bound=1.5, random_state=0).fit(*records)

    @pytest.mark.parametrize("row_norm_bound", [None, 0.0, np.nan, "1"])
    def test_bounds_are_stated(self, records, row_norm_bound):
        with pytest.raises(ParameterError, match="a bound taken from the data would leak it"):
            PrivateLogisticRegression(method="posterior", row_norm_bound=row_norm_bound).fit(*records)

    def test_without_stated_classes_one_class_is_refused_and_with_them_it_is_not(self, seeded):
        x = np.ones((3, 1))
        with pytest.raises(ParameterError, match="one class"):
            PrivateLogisticRegression(method="posterior", row_norm_bound=1.0).fit(x, [1, 1, 1])
        with pytest.raises(ParameterError, match="Only binary classification"):
            PrivateLogisticRegression(method="posterior", row_norm_bound=1.0).fit(x, [1, 2, 3])
        stated = PrivateLogisticRegression(method="posterior", row_norm_bound=1.0, classes=(0, 1), random_state=0)
        for y in ([1, 1, 1], [5, 6, 7], [np.nan, 0, 1]):
            assert stated.fit(x, y).classes_.tolist() == [0, 1]
        with pytest.raises(ParameterError, match="classes must be two different labels"):
            PrivateLogisticRegression(method="posterior", row_norm_bound=1.0, classes=(0, 0)).fit(x, [0, 1, 0])

    def test_an_unknown_label_is_no_record(self, records, seeded):
        x, y = records
        model = PrivateLogisticRegression(method="posterior", row_norm_bound=1.5, classes=("no", "yes"), random_state=0)
        plain = clone(model).fit(x, y).coef_
        more = model.fit(np.r_[x, [[0.3, 0.3]], [[np.nan, 0.0]]], np.r_[y, ["maybe", "yes"]]).coef_
        np.testing.assert_allclose(more, plain, atol=1e-4)

    def test_sparse_rows_and_no_intercept(self, records, seeded):
        x, y = records
        model = PrivateLogisticRegression(method="posterior", row_norm_bound=1.5, fit_intercept=False, random_state=0)
        dense, thin = clone(model).fit(x, y), clone(model).fit(sparse.csr_array(x), y)
        np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-4)
        assert dense.intercept_.tolist() == [0.0]
        np.testing.assert_allclose(thin.decision_function(sparse.csr_array(x)), thin.decision_function(x))

    def test_the_mean_needs_less_noise_and_no_draw(self, records, seeded):
        x, y = records
        given = {"l2_penalty": 3.0, "row_norm_bound": 1.5, "random_state": 0}
        draw, mean = (PrivateLogisticRegression(**given, method=m).fit(x, y) for m in ("posterior", "mean"))
        assert mean.mechanism_.noise_variance < 0.95 * draw.mechanism_.noise_variance
        assert mean.receipt_.parameters["model"]["release"] == "mean"
        assert draw.receipt_.parameters["model"]["release"] == "draw"
        with pytest.raises(ParameterError, match="method must be 'rounds', 'mean' or 'posterior'"):
            PrivateLogisticRegression(**given, method="map").fit(x, y)

    def test_the_paper_needs_more_noise(self, records, seeded):
        x, y = records
        noise = [
            PrivateLogisticRegression(
                method="posterior", row_norm_bound=1.5, bound=bound, max_records=3000, random_state=0
            )
            .fit(x, y)
            .mechanism_.noise_variance
            for bound in ("exact", "renyi", "paper")
        ]
        assert noise[0] < noise[1] < noise[2]


class TestGaussianProcess:
    def test_predictions_read_the_release_alone(self, seeded):
        x = np.linspace(-2, 2, 30).reshape(-1, 1)
        query = np.array([[-1.0], [0.0], [1.0]])
        model = PrivateGaussianProcess(
            label_bound=1.0, noise_variance=25.0, query=query, max_records=30, random_state=0
        ).fit(x, np.cos(x[:, 0]))
        assert model.values_.shape == (3,)
        assert model.receipt_.parameters["model"]["release"] == "mean"
        other = clone(model).set_params(random_state=1).fit(x, np.zeros(30))
        other.values_, other.weights_ = model.values_, model.weights_
        np.testing.assert_array_equal(model.predict(x), other.predict(x))

    @pytest.mark.parametrize("release", ["mean", "draw"])
    def test_predictions_are_the_best_linear_ones_from_the_release(self, release, seeded):
        """Where as many records as promised lie evenly at the query points, by the joint law of f(x) and z."""
        query = np.array([[-1.0], [0.0], [1.5]])
        x, grid = np.repeat(query, 4, axis=0), np.linspace(-2, 2, 7)[:, None]
        model = PrivateGaussianProcess(
            label_bound=1.0, noise_variance=3.0, query=query, max_records=12, release=release, random_state=0
        ).fit(x, np.cos(x[:, 0]))
        k, v = RBF(1.0), model.mechanism_.noise_variance
        among = k(x) + 3.0 * np.eye(12)
        mean_at = lambda points: k(points, x) @ np.linalg.solve(among, k(x, query))  # noqa: E731  Cov(μ(points), μ(Q))
        variance = k(query) if release == "draw" else mean_at(query)
        best = mean_at(grid) @ np.linalg.solve(variance + v * np.eye(3), model.values_)
        np.testing.assert_allclose(model.predict(grid), best, atol=1e-9)

    def test_a_draw_is_shrunk_for_its_own_spread(self, seeded):
        """With few noisy records a draw is almost all spread; a prediction that repeats it is worse than 0."""
        x = np.linspace(-2, 2, 10).reshape(-1, 1)
        given = {"label_bound": 1.0, "noise_variance": 100.0, "query": [[0.0]], "max_records": 10, "random_state": 0}
        model = PrivateGaussianProcess(**given, release="draw").fit(x, np.cos(x[:, 0]))
        assert model.mechanism_.noise_variance < 1e-9
        assert abs(model.predict([[0.0]])[0]) < 0.1 * abs(model.values_[0])

    def test_little_noise_follows_the_labels(self, seeded):
        rng = np.random.default_rng(0)
        x = rng.uniform(-2, 2, size=(150, 1))
        query = np.linspace(-2, 2, 5).reshape(-1, 1)
        model = PrivateGaussianProcess(
            epsilon=50.0, label_bound=1.0, noise_variance=5.0, query=query, max_records=150, random_state=0,
        ).fit(x, np.cos(x[:, 0]))  # fmt: skip
        assert model.score(x, np.cos(x[:, 0]), public=True) > 0.5

    @pytest.mark.parametrize(("name", "match"), [("label_bound", "would leak"), ("max_records", "known not to exceed")])
    def test_bounds_are_stated(self, name, match):
        given = {"label_bound": 1.0, "max_records": 5, name: None}
        with pytest.raises(ParameterError, match=match):
            PrivateGaussianProcess(**given).fit(np.zeros((3, 1)), np.zeros(3))

    def test_query_must_fit_the_data(self):
        model = PrivateGaussianProcess(label_bound=1.0, max_records=5, query=[[0.0, 1.0]])
        with pytest.raises(ParameterError, match="query must have 1 columns"):
            model.fit(np.zeros((3, 1)), np.zeros(3))


def test_the_estimator_takes_the_better_analysis():
    given = {"label_bound": 1.0, "max_records": 5, "noise_variance": 25.0, "release": "draw"}
    data = np.zeros((1, 1)), [0.5]
    better, prior = (PrivateGaussianProcess(**given, **more).fit(*data) for more in ({}, {"analysis": "prior"}))
    assert better.receipt_.parameters["model"]["analysis"] == "posterior"
    assert better.mechanism_.noise_variance < prior.mechanism_.noise_variance
