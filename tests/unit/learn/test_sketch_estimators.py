"""Estimators that learn from a sketch: scikit-learn's battery, stated bounds, nothing learnt but from the release."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import ndis
from helpers.estimators import Untouchable, keeps_conventions
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateCovariance, PrivatePCA, PrivateRidge
from ndis.learn._ridge import ridge_from_matrix

ESTIMATORS = [
    PrivateCovariance(row_norm_bound=10.0, random_state=0),
    PrivatePCA(row_norm_bound=10.0, random_state=0),
    PrivateRidge(row_norm_bound=10.0, target_bound=10.0, sketch_size=60, random_state=0),
    PrivateCovariance(row_norm_bound=10.0, method="sketch", sketch_size=60, random_state=0),
]

# What scikit-learn asks for and a private fit must not do: each would tell something about the records.
IN_CONFLICT = {
    "check_dtype_object": "a cell that is no number raises nothing: its row counts as zero",
    "check_estimators_empty_data_messages": "no records at all are a neighbour of one record, so nothing is raised",
}
IN_CONFLICT_WITH_TARGETS = {"check_supervised_y_no_nan": "a target that is no number raises nothing: its row is zero"}


def named(estimator):
    return type(estimator).__name__


@pytest.fixture
def records():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 3)) / 2
    return x, x @ [1.0, -0.5, 0.25] + 0.5 + 0.1 * rng.normal(size=400)


def fitted(estimator, records):
    x, y = records
    return clone(estimator).fit(x, y)


def released(model):
    return model.release_.sketch if hasattr(model.release_, "sketch") else model.release_.values


class TestConventions:
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    def test_scikit_learn_battery(self, estimator, seeded):
        expected = IN_CONFLICT | (IN_CONFLICT_WITH_TARGETS if isinstance(estimator, PrivateRidge) else {})
        keeps_conventions(estimator, expected)

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    def test_parameters_are_keywords_and_stored_as_given(self, estimator):
        given = estimator.get_params()
        again = clone(estimator)
        assert again.get_params() == given
        assert again.set_params(epsilon=2).epsilon == 2
        with pytest.raises(TypeError):
            type(estimator)(1.0, 1e-6)

    def test_pipeline_and_names(self, records, seeded):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(records[0], columns=["a", "b", "c"])
        model = make_pipeline(FunctionTransformer(lambda x: x / 2), clone(ESTIMATORS[2]).set_params(row_norm_bound=1.0))
        model.fit(frame, records[1])
        assert model[-1].feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.predict(frame).shape == (400,)
        pca = fitted(ESTIMATORS[1], (frame, None))
        assert pca.get_feature_names_out().tolist() == ["privatepca0", "privatepca1", "privatepca2"]

    def test_names_are_exported(self):
        assert set(dir(ndis.learn)) >= {"PrivateCovariance", "PrivatePCA", "PrivateRidge"}
        with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
            ndis.learn.Nothing  # noqa: B018

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    def test_pickle(self, estimator, records, seeded):
        model = fitted(estimator, records)
        again = pickle.loads(pickle.dumps(model))
        assert again.receipt_ == model.receipt_
        np.testing.assert_array_equal(released(again), released(model))


class TestBounds:
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    @pytest.mark.parametrize("bound", [None, "max", "auto", 0, -1.0, np.nan, np.inf, True, [1.0]])
    def test_must_be_stated(self, estimator, bound):
        names = ["row_norm_bound"] + ["target_bound"] * isinstance(estimator, PrivateRidge)
        for name in names:
            model = clone(estimator).set_params(**{name: bound}, random_state=None)
            with pytest.raises(ParameterError, match=f"^{name} must be a positive number; .*would leak it"):
                model.fit(Untouchable(), Untouchable())

    @pytest.mark.parametrize(
        ("estimator", "name", "value"),
        [
            *((e, "epsilon", v) for e in ESTIMATORS for v in (-1, np.nan)),
            *((e, "delta", v) for e in ESTIMATORS for v in (0, 1, np.nan)),
            *((e, "sketch_size", v) for e in ESTIMATORS for v in (0, 1.5, "auto")),
            *((e, "adjacency", "swap") for e in ESTIMATORS),
            *((e, "random_state", "seed") for e in ESTIMATORS),
            (ESTIMATORS[0], "records", 0),
            (ESTIMATORS[1], "records", -5),
            (ESTIMATORS[2], "records", 0),
            (ESTIMATORS[1], "n_components", 4),
            (ESTIMATORS[1], "n_components", 1.5),
            (ESTIMATORS[2], "alpha", -1.0),
            (ESTIMATORS[2], "alpha", np.nan),
        ],
    )
    def test_bad_parameters(self, estimator, name, value, records):
        with pytest.raises(ParameterError, match=name):
            fitted(clone(estimator).set_params(**{name: value}), records)

    @pytest.mark.parametrize("bounds", [(1e36, 7.6e-37), (7.6e-37, 1e36)])
    def test_bounds_far_apart_leave_a_finite_fit(self, bounds, seeded):
        row, target = bounds
        x = np.linspace(-1.0, 1.0, 200)[:, None]
        model = PrivateRidge(epsilon=1, delta=1e-6, row_norm_bound=row, target_bound=target, random_state=0)
        assert np.isfinite(model.fit(x * row, x[:, 0] * target).coef_).all()


class TestPrivateValues:
    BAD = (np.nan, np.inf, -np.inf)

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    @pytest.mark.parametrize("bad", BAD)
    def test_a_bad_row_counts_as_none(self, estimator, bad, records, seeded):
        x, y = records
        worse = np.vstack([x, [0.1, bad, 0.2]]), np.append(y, 1.0)
        np.testing.assert_array_equal(released(fitted(estimator, worse)), released(fitted(estimator, records)))

    @pytest.mark.parametrize("bad", [*BAD, None, "text", {"a": 1}, 1j, 10**400])
    def test_a_bad_object_counts_as_none(self, bad, records, seeded):
        x, y = records
        model = fitted(ESTIMATORS[2], (x, y))
        more = np.vstack([x, [0.1, 0.1, 0.2]])
        targets = fitted(ESTIMATORS[2], (more, [*y.tolist(), bad]))
        more = more.astype(object)
        more[-1, 1] = bad
        rows = fitted(ESTIMATORS[2], (more, [*y.tolist(), 1.0]))
        np.testing.assert_array_equal(released(rows), released(model))
        np.testing.assert_array_equal(released(targets), released(model))

    def test_a_bad_cell_of_the_targets_counts_as_none(self, records, seeded):
        pd = pytest.importorskip("pandas")
        x, y = records
        model = fitted(ESTIMATORS[2], records)
        for bad in (None, "secret", pd.NA, np.inf):
            more = np.vstack([x, [0.1, 0.1, 0.1]])
            for targets in ([*y.tolist(), bad], np.array([*y.tolist(), bad], dtype=object)):
                np.testing.assert_array_equal(released(fitted(ESTIMATORS[2], (more, targets))), released(model))
            with pytest.raises(ParameterError, match="y must hold real numbers; got dtype object"):  # whatever it holds
                fitted(ESTIMATORS[2], (more, pd.Series([*y.tolist(), bad], dtype=object)))
        missing = pd.Series([*y.tolist(), pd.NA], dtype="Float64")
        np.testing.assert_array_equal(released(fitted(ESTIMATORS[2], (more, missing))), released(model))
        whole = pd.Series([*np.arange(400), pd.NA], dtype="Int64")
        assert fitted(ESTIMATORS[2], (np.vstack([x, x[:1]]), whole)).coef_.shape == (3,)

    def test_a_complex_cell_warns_of_nothing(self, records, seeded):
        x, y = records
        more = np.vstack([x, [0.1, 0.1, 0.2]]).astype(object)
        more[-1, 1] = np.complex128(1j)
        fitted(ESTIMATORS[2], (more, [*y.tolist(), np.complex128(2.0)]))

    @pytest.mark.parametrize("kind", ["M8[D]", "m8[s]", "V8", "c16", "longdouble"])
    def test_kinds_that_are_no_numbers(self, kind, records):
        strange = np.zeros(400, dtype=kind)
        with pytest.raises(ParameterError, match=r"X must|data must"):
            fitted(ESTIMATORS[2], (strange[:, None], records[1]))
        if kind != "longdouble":
            with pytest.raises(ParameterError, match="y must"):
                fitted(ESTIMATORS[2], (records[0], strange))

    def test_huge_values_are_clipped_in_silence(self, seeded):
        big = np.array([[1e308, 1e308], [1.0, 0.0]])
        model = PrivateRidge(row_norm_bound=1.0, target_bound=1e-3, random_state=0).fit(big, np.array([1e308, -1e308]))
        long = np.array([np.finfo(np.longdouble).max, 1.0])
        PrivateRidge(row_norm_bound=1.0, target_bound=1.0, random_state=0).fit(big, long)
        assert np.isfinite(model.coef_).all()

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_few_rows_or_none(self, estimator, rows):
        model = clone(estimator).set_params(random_state=None).fit(np.zeros((rows, 5)), np.zeros(rows))
        assert model.receipt_.private

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    def test_nothing_learnt_tells_the_number_of_records(self, estimator, records, seeded):
        # Whatever is kept follows from the release: with the same sketch, the same attributes, for any number of rows.
        x, y = records
        one = fitted(estimator, records)
        more = fitted(estimator, (np.vstack([x, np.full((50, 3), np.nan)]), np.append(y, np.zeros(50))))
        for name, value in vars(one).items():
            if name not in ("release_", "mechanism_"):
                np.testing.assert_equal(getattr(more, name), value)

    def test_no_message_counts_rows(self, records):
        with pytest.raises(ParameterError) as caught:
            PrivateRidge(row_norm_bound=1.0, target_bound=1.0).fit(records[0], records[1][:-1])
        assert not any(digit in str(caught.value) for digit in ("400", "399"))

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
    def test_seed_warns_and_none_does_not(self, estimator, records):
        with pytest.warns(NotPrivateWarning):
            assert not fitted(estimator, records).receipt_.private
        one, two = (fitted(clone(estimator).set_params(random_state=None), records) for _ in range(2))
        assert one.receipt_.private
        assert (released(one) != released(two)).any()


class TestRidge:
    def test_exact_gram_gives_ridge_regression(self, records):
        x, y = records
        gram = np.c_[x, y].T @ np.c_[x, y]
        weights, penalty = ridge_from_matrix(gram, features=3, targets=1, alpha=2.0, noise=0.0)
        expected = Ridge(alpha=2.0, fit_intercept=False).fit(x, y).coef_
        np.testing.assert_allclose(weights[:, 0], expected, rtol=1e-10)
        assert penalty == 2.0

    def test_penalty_lifts_the_smallest_eigenvalue_to_the_noise(self):
        gram = np.diag([5.0, -3.0, 7.0])
        weights, penalty = ridge_from_matrix(gram, features=2, targets=1, alpha=0.5, noise=1.0)
        assert penalty == pytest.approx(3.0 + np.sqrt(2))
        assert weights.shape == (2, 1)
        assert ridge_from_matrix(gram + 9 * np.eye(3), features=2, targets=1, alpha=0.5, noise=1.0)[1] == 0.5

    def test_learns_from_enough_records(self, records, seeded):
        x, y = np.tile(records[0], (200, 1)), np.tile(records[1], 200)
        model = PrivateRidge(row_norm_bound=1.5, target_bound=2.5, random_state=1).fit(x, y)
        np.testing.assert_allclose(model.coef_, [1.0, -0.5, 0.25], atol=0.1)
        assert model.intercept_ == pytest.approx(0.5, abs=0.05)
        assert model.score(x, y, public=True) > 0.95
        assert model.penalty_ == 0.0

    def test_units_of_the_target_do_not_matter(self, records, seeded):
        x, y = records
        one = PrivateRidge(row_norm_bound=1.5, target_bound=2.0, random_state=1).fit(x, y)
        other = PrivateRidge(row_norm_bound=1.5, target_bound=2048.0, random_state=1).fit(x, 1024 * y)
        np.testing.assert_array_equal(released(one), released(other))
        np.testing.assert_allclose(other.coef_, 1024 * one.coef_, rtol=1e-12)

    def test_without_intercept(self, records, seeded):
        model = PrivateRidge(row_norm_bound=1.5, target_bound=2.0, fit_intercept=False, random_state=1).fit(*records)
        assert model.intercept_ == 0.0
        assert released(model).shape == (2**16 // 4, 4)
        assert model.predict(np.zeros((2, 3))).tolist() == [0.0, 0.0]

    def test_several_targets(self, records, seeded):
        x, y = np.tile(records[0], (200, 1)), np.tile(records[1], 200)
        model = PrivateRidge(row_norm_bound=1.5, target_bound=4.0, random_state=1).fit(x, np.c_[y, -y])
        assert model.coef_.shape == (2, 3)
        assert model.predict(x).shape == (len(x), 2)
        assert model.score(x, np.c_[y, -y], public=True) > 0.9

    @pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, np.asfortranarray])
    def test_forms_of_rows(self, form, records, seeded):
        x, y = records
        np.testing.assert_array_equal(
            released(fitted(ESTIMATORS[2], (form(x), y))), released(fitted(ESTIMATORS[2], records))
        )

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_files_give_the_same(self, kind, records, seeded, tmp_path):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(np.c_[records[0], records[1]], columns=["a", "b", "c", "y"])
        path = tmp_path / f"records.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        model = clone(ESTIMATORS[2]).fit_data(path, target="y", header=kind == "csv")
        whole = fitted(ESTIMATORS[2], records)
        np.testing.assert_array_equal(released(model), released(whole))
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(model.predict(frame[["a", "b", "c"]]), whole.predict(records[0]), rtol=1e-12)
        some = clone(ESTIMATORS[2]).fit_data(frame, target="y", columns=["c", "a"])
        assert some.feature_names_in_.tolist() == ["c", "a"]
        assert some.fit_data(np.c_[records[0], records[1]], target=3).n_features_in_ == 3
        assert not hasattr(some, "feature_names_in_")

    def test_guarantee_is_the_mechanisms(self, records):
        model = PrivateRidge(epsilon=0.5, delta=1e-7, row_norm_bound=1.5, target_bound=2.0, adjacency="replace-one")
        model.fit(*records)
        assert (model.receipt_.epsilon, model.receipt_.delta, model.receipt_.adjacency) == (0.5, 1e-7, "replace-one")
        assert model.mechanism_.profile().certify(0.5).upper <= 1e-7
        assert model.mechanism_.sketch_size == 2**16 // 5


class TestCovariance:
    def test_public_number_of_records(self, records, seeded):
        x = np.tile(records[0], (100, 1))
        model = PrivateCovariance(row_norm_bound=2.0, records=len(x), random_state=0).fit(x)
        assert model.records_ == len(x)
        np.testing.assert_allclose(model.covariance_, np.cov(x.T, bias=True), atol=0.03)
        np.testing.assert_allclose(model.location_, x.mean(0), atol=0.03)

    def test_estimated_number_of_records(self, records, seeded):
        x = np.tile(records[0], (100, 1))
        model = PrivateCovariance(row_norm_bound=2.0, random_state=0).fit(x)
        assert model.records_ == pytest.approx(len(x), rel=0.2)
        np.testing.assert_allclose(model.covariance_, np.cov(x.T, bias=True), atol=0.06)

    def test_centred_rows_with_a_public_count_need_no_constant(self, records, seeded):
        model = PrivateCovariance(row_norm_bound=2.0, assume_centered=True, records=400, random_state=0)
        assert released(model.fit(records[0])).shape == (3, 3)
        assert model.location_.tolist() == [0.0, 0.0, 0.0]
        assert released(model.set_params(method="sketch").fit(records[0])).shape == (400, 3)
        assert released(model.set_params(records=None).fit(records[0])).shape == (2**16 // 4, 4)

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_files_and_folders_give_the_same(self, kind, records, tmp_path, seeded):
        import pandas as pd

        frame = pd.DataFrame(records[0], columns=["a", "b", "c"]).assign(d="text")
        for part, rows in enumerate((frame[:150], frame[150:])):
            path = tmp_path / f"{part}.{kind}"
            rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
        public = {"row_norm_bound": 2.0, "random_state": 0}
        for estimator in (PrivateCovariance(**public), PrivatePCA(**public), PrivatePCA(method="sketch", **public)):
            here = clone(estimator).fit(records[0])
            there = estimator.fit_data(tmp_path, columns=["a", "b", "c"], header=kind == "csv")
            np.testing.assert_array_equal(released(there), released(here))
            assert there.feature_names_in_.tolist() == ["a", "b", "c"]

    def test_a_pair_is_refused(self, records):
        with pytest.raises(ParameterError, match="rows without targets"):
            PrivateCovariance(row_norm_bound=1.0).fit_data(records)

    @pytest.mark.parametrize("wrong", [{"method": "guess"}, {"sketch_size": 50}, {"method": None}])
    def test_what_goes_with_a_sketch_only(self, wrong, records):
        with pytest.raises(ParameterError, match="method"):
            PrivateCovariance(row_norm_bound=1.0, **wrong).fit(records[0])

    def test_the_gram_matrix_has_less_error_than_a_sketch(self, records, seeded):
        """Mean squared error over 6 seeds: the sketch's is several times that of the Gram mechanism."""
        x = np.tile(records[0], (20, 1))
        truth = np.cov(x.T, bias=True)
        errors = {
            method: np.mean(
                [
                    np.sum((PrivateCovariance(**public, method=method, random_state=i).fit(x).covariance_ - truth) ** 2)
                    for i in range(6)
                ]
            )
            for method in ("gram", "sketch")
            for public in ({"row_norm_bound": 2.5, "records": len(x)},)
        }
        assert errors["gram"] < 0.5 * errors["sketch"]

    def test_covariance_is_one(self, seeded):
        model = PrivateCovariance(epsilon=0.1, row_norm_bound=1.0, random_state=0).fit(np.zeros((0, 4)))
        assert np.linalg.eigvalsh(model.precision_)[0] >= -1e-12
        assert model.records_ >= 1.0
        assert model.get_precision().shape == (4, 4)


class TestComponents:
    def test_finds_the_directions(self, records, seeded):
        x = np.tile(records[0] * [4.0, 2.0, 0.5] + 1.0, (200, 1))
        model = PrivatePCA(2, row_norm_bound=8.0, random_state=0).fit(x)
        np.testing.assert_allclose(np.abs(model.components_), np.eye(3)[:2], atol=0.1)
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
        assert (model.components_[[0, 1], [0, 1]] > 0).all()
        np.testing.assert_allclose(model.explained_variance_, x.var(0)[:2], rtol=0.2)
        assert 0.9 < model.explained_variance_ratio_.sum() <= 1.0

    def test_back_and_forth(self, records, seeded):
        model = PrivatePCA(row_norm_bound=2.0, random_state=0).fit(records[0])
        np.testing.assert_allclose(model.inverse_transform(model.transform(records[0])), records[0], atol=1e-10)
        flat = model.transform(sparse.csr_array(records[0]))
        np.testing.assert_allclose(flat, model.transform(records[0]), atol=1e-10)
