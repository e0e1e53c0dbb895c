"""Estimators with a schema: units as they are, names, bounds from the schema, files and folders."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import (
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateRidge,
    check_labels,
)
from ndis.schema import Number, Schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SCHEMA = Schema(
    {"age": Number(18, 90, fill=50), "income": (0, 200_000), "region": ["N", "S"]}, target=("spend", 0, 5_000)
)
CLASSES = Schema({"age": (18, 90), "income": (0, 200_000)}, target=("bought", ["no", "yes"]))
BUDGET: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3}  # little noise: these are tests of units


@pytest.fixture
def frame() -> Any:
    """Customers in units as they are, with a text column, missing cells and a name."""
    rng = np.random.default_rng(0)
    n = 20_000
    age, income, region = rng.uniform(18, 90, n), rng.uniform(0, 2e5, n), rng.choice(["N", "S"], n)
    spend = 500 + 20 * age + 0.005 * income + 300 * (region == "S") + rng.normal(size=n) * 50
    bought = np.where((age - 54) / 36 + (income - 1e5) / 1e5 + 0.2 * rng.normal(size=n) > 0, "yes", "no")
    columns = {"name": "x", "age": age, "income": income, "region": region, "spend": spend, "bought": bought}
    found = pd.DataFrame(columns)
    found.loc[:99, "age"] = np.nan
    return found


def sources(frame: Any, place: Path) -> list[tuple[Any, dict[str, Any]]]:
    """The frame as other frames and files."""
    frame.to_csv(place / "t.csv", index=False)
    (place / "many").mkdir()
    for i in range(3):
        frame[i::3].to_parquet(place / "many" / f"{i}.parquet")
    return [(frame, {}), (pl.from_pandas(frame), {}), (place / "t.csv", {"header": True}), (place / "many", {})]


def quiet(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return make()


class TestRidge:
    def test_units_and_names(self, frame: Any, tmp_path: Path) -> None:
        model = PrivateRidge(**BUDGET, schema=SCHEMA).fit(frame)
        assert model.feature_names_in_.tolist() == ["age", "income", "region=N", "region=S"]
        age, income, north, south = model.coef_
        assert abs(age - 20) < 2
        assert abs(income - 0.005) < 0.001
        assert abs(south - north - 300) < 100
        rest = frame.dropna()
        assert model.score(rest, rest.spend, public=True) > 0.95
        raw = model.predict({"age": [50.0, None, 500.0], "income": [1e5] * 3, "region": ["S", "S", "W"]})
        expected = model.intercept_ + model.coef_ @ [50, 1e5, 0, 1]
        np.testing.assert_allclose(raw[:2], [expected, expected])  # a missing age is filled with 50
        np.testing.assert_allclose(raw[2], model.intercept_ + model.coef_ @ [90, 1e5, 0, 0])  # clipped, unknown region
        assert model.mechanism_.row_norm_bound == SCHEMA.row_norm_bound

    def test_every_source_learns_the_same(self, frame: Any, tmp_path: Path) -> None:
        first, *others = [
            quiet(lambda data=data, how=how: PrivateRidge(schema=SCHEMA, random_state=1).fit_data(data, **how).coef_)
            for data, how in sources(frame, tmp_path)[:3]
        ]
        for other in others:
            np.testing.assert_array_equal(first, other)
        both = quiet(lambda: PrivateRidge(schema=SCHEMA, random_state=1).fit(frame.drop(columns="spend"), frame.spend))
        np.testing.assert_array_equal(first, both.coef_)
        assert PrivateRidge(schema=SCHEMA).fit_data(tmp_path / "many").coef_.shape == (4,)

    def test_refused(self, frame: Any) -> None:
        for parameters, words in (
            ({"schema": SCHEMA, "target_bound": 3.0}, "target_bound must be left out with a schema"),
            ({"schema": CLASSES}, "target 'bought' of the schema must be a number"),
            ({"schema": Schema({"age": (18, 90)})}, "schema must have a target; got none"),
            ({"schema": "schema.toml"}, "schema must be an ndis.Schema; got str"),
        ):
            with pytest.raises(ParameterError, match=words):
                PrivateRidge(**parameters).fit(frame)
        with pytest.raises(ParameterError, match="column 'region' must hold numbers"):
            PrivateRidge(schema=Schema({"region": (0, 1)}, target=("spend", 0, 1))).fit(frame)
        with pytest.raises(ParameterError, match="target must be left out, or 'spend' as the schema says; got 'age'"):
            PrivateRidge(schema=SCHEMA).fit_data(frame, target="age")
        with pytest.raises(ParameterError, match="y must hold numbers or booleans, as the schema says; got text"):
            PrivateRidge(schema=SCHEMA).fit(frame, frame.bought)

    def test_a_smaller_norm_bound(self, frame: Any) -> None:
        assert PrivateRidge(schema=SCHEMA, row_norm_bound=1.0).fit(frame).mechanism_.row_norm_bound == 1.0

    def test_clone_and_pickle(self, frame: Any) -> None:
        model = PrivateRidge(schema=SCHEMA).fit(frame[:100])
        assert clone(model).schema == SCHEMA
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(frame[:5]), model.predict(frame[:5]))


class TestLinearRegression:
    def test_units_names_and_intervals(self, frame: Any, tmp_path: Path) -> None:
        for data, how in sources(frame, tmp_path):
            model = PrivateLinearRegression(**BUDGET, schema=SCHEMA).fit_data(data, **how)
            assert model.feature_names_in_.tolist() == ["age", "income", "region=S"]  # against region=N
            assert abs(model.coef_[0] - 20) < 2
            assert abs(model.coef_[2] - 300) < 60
        whole = frame.dropna()
        assert model.score(whole, whole.spend, public=True) > 0.97
        intervals = model.coef_interval(0.9999)
        assert np.isfinite(intervals).all()
        assert intervals[0, 0] < 20 < intervals[0, 1]
        assert intervals[0, 1] - intervals[0, 0] < 3
        assert intervals[2, 0] < 300 < intervals[2, 1]
        low, high = model.predict_interval(whole[:5], kind="observation").T
        assert ((low < whole.spend[:5]) & (whole.spend[:5] < high)).all()
        assert 30 < model.residual_std_ < 200  # 50, and what the missing ages add
        text = repr(model.summary())
        assert "region=S" in text
        assert "(intercept)" in text
        np.testing.assert_allclose(model.summary().shrunk, [*model.coef_, model.intercept_])

    def test_without_intercept(self, frame: Any) -> None:
        """Through zero in the units of the data: every value of a category has its own coefficient."""
        model = PrivateLinearRegression(**BUDGET, fit_intercept=False, schema=SCHEMA).fit(frame)
        assert model.feature_names_in_.tolist() == ["age", "income", "region=N", "region=S"]
        assert model.summary().names == ("age", "income", "region=N", "region=S")
        assert model.intercept_ == 0.0
        assert model.score(frame, frame.spend, public=True) > 0.9
        assert model.predict_interval(frame[200:205]).shape == (5, 2)

    def test_means_of_groups(self, frame: Any) -> None:
        """Without an intercept the coefficients of a category are the means of its values, in the units of the data."""
        schema = Schema({"region": ["N", "S"]}, target=("spend", 0, 5_000))
        model = PrivateLinearRegression(**BUDGET, fit_intercept=False, schema=schema).fit(frame)
        means = frame.groupby("region").spend.mean()
        np.testing.assert_allclose(model.summary().estimate, means[["N", "S"]], rtol=0.05)
        weighted = PrivateLinearRegression(**BUDGET, fit_intercept=False, schema=schema, weight_bound=1.0)
        weighted.fit(frame, sample_weight=np.ones(len(frame)))
        np.testing.assert_allclose(weighted.summary().estimate, means[["N", "S"]], rtol=0.1)

    def test_errors_are_infinite_where_noise_hides_them(self, frame: Any) -> None:
        model = PrivateLinearRegression(epsilon=0.01, delta=1e-9, schema=SCHEMA).fit(frame[:50])
        assert np.isinf(model.estimate_.covariance).all()
        assert not np.isnan(model.coef_).any()

    def test_refused(self, frame: Any) -> None:
        with pytest.raises(ParameterError, match="target_bound must be left out with a schema"):
            PrivateLinearRegression(schema=SCHEMA, target_bound=1.0).fit(frame)


class TestMoments:
    def test_covariance_in_units(self, frame: Any, tmp_path: Path) -> None:
        whole = frame[100:]
        expected = np.cov(np.column_stack([whole.age, whole.income, whole.region == "N", whole.region == "S"]).T)
        for data, how in sources(frame, tmp_path):
            model = PrivateCovariance(**BUDGET, schema=SCHEMA).fit_data(data, **how)
            spread = np.sqrt(np.diagonal(expected))
            assert np.abs((model.covariance_ - expected) / np.outer(spread, spread)).max() < 0.05
            assert abs(model.location_[0] - whole.age.mean()) < 1
            assert model.to_frame().loc["age", "age"] == model.covariance_[0, 0]
            correlation = model.to_frame("correlation")
            assert correlation.loc["region=N", "region=S"] < -0.95
            assert np.diagonal(model.correlation_).tolist() == [1.0] * 4
        assert model.mahalanobis(whole[:7]).shape == (7,)
        plain = PrivateCovariance(**BUDGET, schema=CLASSES).fit(whole)  # without collinear columns
        assert np.isfinite(plain.score(whole[:7], public=True))
        with pytest.raises(ParameterError, match="kind must be 'covariance' or 'correlation'"):
            model.to_frame("other")

    def test_correlation_without_a_schema(self) -> None:
        rows = np.random.default_rng(0).normal(size=(5000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
        model = PrivateCovariance(**BUDGET, row_norm_bound=5.0).fit(rows)
        assert abs(model.correlation_[0, 1] - 0.6) < 0.05
        assert list(model.to_frame().columns) == ["x0", "x1"]

    def test_header_and_columns_of_csv(self, frame: Any, tmp_path: Path) -> None:
        frame[["age", "income"]].dropna().to_csv(tmp_path / "t.csv", index=False)
        model = PrivateCovariance(row_norm_bound=1.0).fit_data(tmp_path / "t.csv", columns=["age"], header=True)
        assert model.feature_names_in_.tolist() == ["age"]
        frame[["age", "income"]].dropna().to_csv(tmp_path / "u.csv", index=False, header=False)
        model = PrivateCovariance(row_norm_bound=1.0).fit_data(tmp_path / "u.csv", columns=["a", None])
        assert model.feature_names_in_.tolist() == ["a"]

    def test_pca(self, frame: Any, tmp_path: Path) -> None:
        for data, how in sources(frame, tmp_path):
            model = PrivatePCA(2, **BUDGET, schema=SCHEMA).fit_data(data, **how)
            assert model.components_.shape == (2, 4)
        scores = model.transform(frame[100:110])
        back = model.inverse_transform(scores)
        assert scores.shape == (10, 2)
        assert np.abs(back[:, 1]).max() > 1_000  # in original units

    def test_pca_by_explained_variance(self) -> None:
        rows = np.random.default_rng(0).normal(size=(5000, 4)) * [3.0, 2.0, 0.1, 0.1]
        model = PrivatePCA(0.9, **BUDGET, row_norm_bound=12.0).fit(rows)
        assert model.n_components_ == 2
        assert model.explained_variance_ratio_.sum() >= 0.9
        assert PrivatePCA(0.5, **BUDGET, row_norm_bound=12.0).fit(rows).n_components_ == 1
        for bad in (0.0, 1.0, 1.5, -0.5, float("nan"), 5, True, "all"):
            with pytest.raises(ParameterError, match="n_components must be"):
                PrivatePCA(bad, row_norm_bound=12.0).fit(rows)


class TestLogistic:
    @pytest.mark.parametrize(("method", "penalty"), [("rounds", None), ("mean", 20.0)])
    def test_text_classes_and_units(self, method: str, penalty: Any, frame: Any, tmp_path: Path) -> None:
        whole = frame.dropna()
        for data, how in sources(whole, tmp_path):
            model = PrivateLogisticRegression(**BUDGET, method=method, l2_penalty=penalty, schema=CLASSES)
            model.fit_data(data, **how)
            assert model.classes_.tolist() == ["no", "yes"]
            assert model.score(whole, whole.bought, public=True) > 0.8
            assert model.receipt_.parameters["classes_stated"] is True
        assert model.coef_[0, 0] > 100 * model.coef_[0, 1] > 0  # per year, and per unit of money
        assert model.predict_proba(whole[:3]).sum(axis=1) == pytest.approx(1.0)
        separate = PrivateLogisticRegression(**BUDGET, method=method, l2_penalty=penalty, schema=CLASSES)
        assert separate.fit(whole, whole.bought).score(whole, whole.bought, public=True) > 0.8

    def test_files_without_a_schema(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, size=(4000, 2))
        np.save(tmp_path / "t.npy", np.column_stack([x, x[:, 0] > 0]))
        model = PrivateLogisticRegression(row_norm_bound=1.5, classes=(0, 1), **BUDGET)
        model.fit_data(tmp_path / "t.npy", target=2)
        assert model.score(x, (x[:, 0] > 0).astype(int), public=True) > 0.8
        with pytest.raises(ParameterError, match="classes must be"):
            PrivateLogisticRegression(row_norm_bound=1.5).fit_data(tmp_path / "t.npy", target=2)
        with pytest.raises(ParameterError, match="target must name the target column"):
            model.fit_data(tmp_path / "t.npy")

    def test_refused(self, frame: Any) -> None:
        with pytest.raises(ParameterError, match="classes must be left out with a schema"):
            PrivateLogisticRegression(schema=CLASSES, classes=("no", "yes")).fit(frame)
        with pytest.raises(ParameterError, match="target 'spend' of the schema must be a category"):
            PrivateLogisticRegression(schema=SCHEMA).fit(frame)

    def test_a_hostile_label_is_no_record(self) -> None:
        class Text(str):
            def _raise(self, *_: Any) -> Any:
                raise RuntimeError("secret 1234")

            __hash__ = __eq__ = __str__ = _raise  # type: ignore[assignment]

        class Other:
            __class__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

        labels = np.empty(4, dtype=object)
        for i, label in enumerate(["no", Text("yes"), Other(), "no"]):
            labels[i] = label
        x = np.eye(4)[:, :2]
        model = PrivateLogisticRegression(row_norm_bound=1.0, classes=("no", "yes"))
        assert model.fit(x, labels).coef_.shape == (1, 2)
        assert model.fit(x, list(labels)).coef_.shape == (1, 2)

    def test_public_labels_are_checked(self) -> None:
        check_labels(np.array([-1, 1, 1.0]), classes=(-1, 1))
        check_labels(["no", "yes"], classes=("no", "yes"))
        for labels in ([0, 1], [None, 1], ["1", 1], [float("nan")]):
            with pytest.raises(ParameterError, match=r"labels must be among the classes \[-1, 1\]"):
                check_labels(labels, classes=(-1, 1))


class TestGaussianProcess:
    SCHEMA = Schema({"age": (18, 90)}, target=("spend", 0, 5_000))

    def test_units(self, frame: Any, tmp_path: Path) -> None:
        query = pd.DataFrame({"age": np.linspace(20, 88, 5)})
        small = frame.dropna()[:120]
        how: dict[str, Any] = {"query": query, "max_records": 120, "noise_variance": 1.0, "kernel": RBF(2.0)}
        for data, options in sources(small, tmp_path):
            model = PrivateGaussianProcess(epsilon=1000.0, delta=1e-2, **how, schema=self.SCHEMA)
            model.fit_data(data, **options)
            found = model.predict(query)
            assert found.shape == (5,)
            assert 0 < found.mean() < 5_000
            assert (np.abs(model.query_) <= 1).all()
        line = np.polyfit(small.age, small.spend, 1)
        assert np.abs(found - np.polyval(line, query.age)).max() < 1_500
        assert model.predict_std(query).max() < 2_500  # less than the prior, half the range
        with pytest.raises(ParameterError, match="label_bound must be left out with a schema"):
            PrivateGaussianProcess(schema=self.SCHEMA, label_bound=1.0, max_records=9).fit(small)

    def test_std_is_that_of_the_model(self) -> None:
        """Values of f, records and releases drawn from the model: predictions are off by as much as said."""
        x = np.array([[-1.0], [0.0], [1.0]])
        model = PrivateGaussianProcess(
            epsilon=5.0, delta=1e-3, noise_variance=0.5, label_bound=4.0, max_records=30, query=x
        ).fit(np.repeat(x, 10, axis=0), np.zeros(30))
        far = model.predict_std([[50.0]])
        assert far == pytest.approx(1.0)
        rng = np.random.default_rng(1)
        points = np.array([[0.0], [0.5], [2.0]])
        together = np.vstack([x, points])
        prior = RBF(1.0)(together) + 1e-12 * np.eye(6)
        f = rng.multivariate_normal(np.zeros(6), prior, size=40_000)
        tau = 0.5 * 3 / 30
        labels = f[:, :3] + np.sqrt(tau) * rng.normal(size=(40_000, 3))  # the mean of ten labels at every point
        smooth = RBF(1.0)(x) @ np.linalg.inv(RBF(1.0)(x) + tau * np.eye(3))
        released = labels @ smooth.T + np.sqrt(model.mechanism_.noise_variance) * rng.normal(size=(40_000, 3))
        from ndis.learn._gaussian_process import prediction_weights

        weights = prediction_weights(model.mechanism_.model, np.eye(3), noise_variance=model.mechanism_.noise_variance)
        predicted = released @ weights.T @ RBF(1.0)(points, x).T
        np.testing.assert_allclose((predicted - f[:, 3:]).std(axis=0), model.predict_std(points), rtol=0.03)

    def test_any_kernel(self) -> None:
        def kernel(a: Any, b: Any) -> Any:
            return np.exp(-np.abs(a - b.T))

        model = PrivateGaussianProcess(
            kernel=kernel, kernel_tolerance=1e-12, noise_variance=1.0, label_bound=1.0, max_records=9
        ).fit(np.zeros((1, 1)), [1.0])
        assert model.predict_std([[0.0], [9.0]]).shape == (2,)


def test_the_transformer_is_a_step(frame: Any) -> None:
    schema = Schema({"age": Number(18, 90, fill=50), "income": (0, 200_000), "region": ["N", "S"]})
    step = schema.transformer()
    assert step.get_feature_names_out().tolist() == ["age", "income", "region=N", "region=S"]
    assert clone(step).schema == schema
    assert pickle.loads(pickle.dumps(step)).schema == schema
    public = {"row_norm_bound": schema.row_norm_bound, "target_bound": 5_000.0}
    model = make_pipeline(schema.transformer(), PrivateRidge(**BUDGET, **public)).fit(frame, frame.spend)
    with pytest.warns(UserWarning, match="a score is exact"):
        assert model.score(frame, frame.spend) > 0.9
    named = schema.transformer().set_output(transform="pandas").fit_transform(frame)
    assert list(named.columns) == ["age", "income", "region=N", "region=S"]
    plain = make_pipeline(schema.transformer(), Ridge()).fit(frame, frame.spend)
    assert plain.score(frame, frame.spend) > 0.95
    assert "SchemaTransformer" in repr(model)
