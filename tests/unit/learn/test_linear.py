"""Linear regression in rounds: conventions, bounds, budget, weights, files, intervals."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import ndis
from helpers.estimators import Untouchable, keeps_conventions
from ndis.data import Rows, Table
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLinearRegression
from ndis.mechanisms.mechanism import Receipt

pytestmark = pytest.mark.usefixtures("seeded")

BOUNDS = {"row_norm_bound": 10.0, "target_bound": 10.0, "weight_bound": 2.0, "random_state": 0}
ESTIMATORS = [
    PrivateLinearRegression(**BOUNDS),
    PrivateLinearRegression(**BOUNDS, method="gram"),
    PrivateLinearRegression(**BOUNDS, adjacency="replace-one", rounds=3),
]

# What scikit-learn asks for and a private fit must not do, or need not.
IN_CONFLICT = {
    "check_dtype_object": "a cell that is no number raises nothing: its row is no record",
    "check_estimators_empty_data_messages": "no records at all are a neighbour of one record, so nothing is raised",
    "check_supervised_y_no_nan": "a target that is no number raises nothing: its row is no record",
    "check_all_zero_sample_weights_error": "weights are private: all zero are no records, and nothing is raised",
    "check_sample_weight_equivalence_on_dense_data": "two records of weight 1 get the noise of two, not of one of 2",
    "check_sample_weight_equivalence_on_sparse_data": "two records of weight 1 get the noise of two, not of one of 2",
}


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(3000, 3))
    return x, x @ [1.0, -0.5, 0.0] + 0.5 + 0.1 * rng.normal(size=3000)


def model(**changes):
    given = {"row_norm_bound": 1.8, "target_bound": 2.0, "random_state": 1}
    return PrivateLinearRegression(**{**given, **changes})


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(estimator, id=name, marks=[pytest.mark.sweep] * (name == "replace-one"))
        for name, estimator in zip(("rounds", "gram", "replace-one"), ESTIMATORS, strict=True)
    ],
)
def test_scikit_learn_battery(estimator):
    keeps_conventions(estimator, IN_CONFLICT)


class TestBounds:
    @pytest.mark.parametrize("bound", [None, "auto", 0, -1.0, np.nan, np.inf, True])
    @pytest.mark.parametrize("name", ["row_norm_bound", "target_bound"])
    def test_must_be_stated(self, name, bound):
        with pytest.raises(ParameterError, match=f"^{name} must be a positive number; .*would leak it"):
            model(**{name: bound}).fit(Untouchable(), Untouchable())

    def test_weights_need_a_bound(self, records):
        with pytest.raises(ParameterError, match=r"^weight_bound must be a positive number"):
            model().fit(*records, sample_weight=np.ones(3000))

    @pytest.mark.parametrize(
        ("name", "value"),
        [("method", "best"), ("rounds", 1), ("rounds", 101), ("rounds", 2.5), ("adjacency", "swap")],
    )
    def test_public_parameters_are_checked(self, records, name, value):
        with pytest.raises(ParameterError, match=f"^{name} must "):
            model(**{name: value}).fit(*records)

    @pytest.mark.parametrize(("name", "value"), [("epsilon", -1), ("epsilon", np.nan), ("delta", 0), ("delta", 1)])
    def test_budget_is_checked(self, records, name, value):
        with pytest.raises(ParameterError, match=f"^{name} must "):
            model(**{name: value}).fit(*records)


class TestGuarantee:
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    @pytest.mark.parametrize("method", ["rounds", "gram"])
    def test_all_releases_together_meet_the_budget_and_use_it_up(self, records, adjacency, method):
        fitted = model(epsilon=0.7, delta=1e-7, adjacency=adjacency, method=method).fit(*records)
        assert fitted.profile_.certify(0.7).upper <= 1e-7
        assert fitted.profile_.certify(0.7 - 1e-4).lower > 1e-7

    def test_noise_of_every_release_is_its_sensitivity_over_its_shift(self, records):
        fitted = model().fit(*records)
        budget, log = fitted.mechanism_, fitted.receipt_.parameters["releases"]
        assert [entry["release"] for entry in log] == [
            "histograms of columns",
            "histogram of norms",
            *["gram"] * 2,
            *["residual products", "histogram of lengths"] * 5,
            "squared terms",
            "histogram of lengths",
            "residual products",
            "squared terms",
        ]
        spent = Fraction(0)
        for entry in log:
            reach = {"histograms of columns": 2.0}.get(entry["release"], 1.0)  # √(three columns and a target)
            reach = entry.get("clip", entry.get("norm_bound", 1.0) ** 2 * reach)
            spent += (Fraction(reach) / Fraction(entry["noise_std"])) ** 2
        assert float(spent) == pytest.approx(budget.shift**2, rel=1e-9)

    def test_a_seed_warns_and_no_seed_is_private(self, records):
        with pytest.warns(NotPrivateWarning):
            fitted = model().fit(*records)
        assert not fitted.receipt_.private
        assert model(random_state=None).fit(*records).receipt_.private

    def test_receipt_is_json_and_fit_is_pickled(self, records):
        fitted = model().fit(*records)
        assert Receipt.from_json(fitted.receipt_.to_json()) == fitted.receipt_
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.coef_interval(), fitted.coef_interval())

    def test_the_order_of_records_does_not_matter_to_the_last_bit(self, records):
        x, y = records
        order = np.random.default_rng(0).permutation(len(x))
        plain, mixed = model().fit(x, y), model().fit(x[order], y[order])
        np.testing.assert_array_equal(plain.coef_, mixed.coef_)
        assert plain.receipt_ == mixed.receipt_

    def test_unreadable_records_are_no_records(self, records):
        x, y = records
        plain = model().fit(x, y)
        more = model().fit(np.r_[x, [[np.nan, 0, 0]], [[0, 0, 0.5]]], np.r_[y, 1.0, np.inf])
        np.testing.assert_array_equal(plain.coef_, more.coef_)


class TestLearning:
    @pytest.mark.parametrize("method", ["rounds", "gram"])
    def test_near_least_squares_where_the_budget_is_large(self, records, method):
        best = LinearRegression().fit(*records)
        fitted = model(epsilon=100.0, method=method).fit(*records)
        np.testing.assert_allclose(fitted.coef_, best.coef_, atol=0.01)
        assert fitted.intercept_ == pytest.approx(best.intercept_, abs=0.01)
        assert fitted.residual_std_ == pytest.approx(0.1, rel=0.2 if method == "rounds" else 0.5)
        assert fitted.records_ == pytest.approx(3000, rel=0.02)

    def test_rounds_have_less_error_than_one_gram_matrix(self, records):
        x, y = records
        best = LinearRegression().fit(x, y).predict(x)

        def excess(method):
            return np.mean(
                [((model(method=method, random_state=s).fit(x, y).predict(x) - best) ** 2).mean() for s in range(5)]
            )

        assert excess("rounds") < 0.5 * excess("gram")

    def test_no_signal_predicts_the_centre(self):
        rng = np.random.default_rng(0)
        x, y = rng.uniform(-1, 1, size=(500, 5)), 0.5 + 0.3 * rng.normal(size=500)
        fits = [model(row_norm_bound=2.3, epsilon=0.2, random_state=s).fit(x, y) for s in range(40)]
        assert sum(fit.coef_.any() for fit in fits) <= 5  # one in 23 sees a signal in the noise (400 seeds)

    def test_several_targets(self, records):
        x, y = records
        fitted = model(epsilon=20.0, target_bound=4.0).fit(x, np.c_[y, 2 * x[:, 2]])
        assert fitted.coef_.shape == (2, 3)
        assert fitted.coef_interval().shape == (2, 3, 2)
        assert fitted.predict_interval(x[:4]).shape == (4, 2, 2)
        np.testing.assert_allclose(fitted.coef_, [[1.0, -0.5, 0.0], [0.0, 0.0, 2.0]], atol=0.05)

    def test_units_do_not_matter(self, records):
        x, y = records
        plain = model().fit(x, y)
        other = model(row_norm_bound=1.8 * 8, target_bound=2.0 / 4).fit(8 * x, y / 4)
        np.testing.assert_allclose(other.coef_ * 32, plain.coef_, rtol=1e-9)
        np.testing.assert_allclose(other.coef_interval() * 32, plain.coef_interval(), rtol=1e-9)

    def test_sparse_rows(self, records):
        x, y = records
        np.testing.assert_array_equal(model().fit(sparse.csr_array(x), y).coef_, model().fit(x, y).coef_)

    def test_no_records_at_all(self):
        fitted = model().fit(np.zeros((0, 3)), np.zeros(0))
        assert np.isfinite(fitted.coef_).all()
        assert np.isinf(fitted.coef_interval()).all()


class TestWeights:
    def test_a_weight_of_zero_is_no_record(self, records):
        x, y = records
        weight = np.ones(3000)
        plain = model(weight_bound=1.0).fit(x, y, sample_weight=weight)
        rows, targets = np.r_[x, [[5.0, 5.0, 5.0]]], np.r_[y, 9.0]
        for nothing in (0.0, -1.0, np.nan):
            more = model(weight_bound=1.0).fit(rows, targets, sample_weight=np.r_[weight, nothing])
            np.testing.assert_array_equal(more.coef_, plain.coef_)

    def test_only_weights_over_their_bound_matter(self, records):
        weight = np.random.default_rng(0).uniform(0.1, 1, 3000)
        one = model(weight_bound=1.0).fit(*records, sample_weight=weight)
        four = model(weight_bound=4.0).fit(*records, sample_weight=4 * weight)
        np.testing.assert_array_equal(one.coef_, four.coef_)

    def test_larger_weights_are_clipped(self, records):
        weight = np.ones(3000)
        weight[0] = 1e9
        clipped = model(weight_bound=1.0).fit(*records, sample_weight=weight)
        np.testing.assert_array_equal(
            clipped.coef_, model(weight_bound=1.0).fit(*records, sample_weight=[1.0] * 3000).coef_
        )

    def test_as_weighted_least_squares(self, records):
        x, y = records
        y = y + (x[:, 2] > 0)  # so that weights matter
        weight = np.where(x[:, 2] > 0, 0.1, 1.0)
        best = LinearRegression().fit(x, y, sample_weight=weight)
        fitted = model(epsilon=100.0, weight_bound=1.0, target_bound=4.0).fit(x, y, sample_weight=weight)
        np.testing.assert_allclose(fitted.coef_, best.coef_, atol=0.03)
        assert fitted.intercept_ == pytest.approx(best.intercept_, abs=0.03)

    def test_a_weight_that_is_no_number_is_no_record(self, records):
        x, y = records[0][:50], records[1][:50]
        plain = model(weight_bound=1.0).fit(x, y, sample_weight=np.ones(50))
        rows, targets = np.r_[x, [[5.0, 5.0, 5.0]]], np.r_[y, 9.0]
        for cell in ("secret", None, [2.0], b"x", 1j):
            listed = [*[1.0] * 50, cell]
            array = np.empty(51, dtype=object)
            for i, each in enumerate(listed):
                array[i] = each
            for weights in (listed, array, pd.Series(array)):
                more = model(weight_bound=1.0).fit(rows, targets, sample_weight=weights)
                np.testing.assert_array_equal(more.coef_, plain.coef_)
        text = np.array([*["1"] * 50, "secret"])
        np.testing.assert_array_equal(model(weight_bound=1.0).fit(rows, targets, sample_weight=text).coef_, plain.coef_)

    def test_types_of_weights_that_are_no_numbers_are_refused(self, records):
        with pytest.raises(ParameterError, match=r"^sample_weight must hold real numbers; got dtype"):
            model(weight_bound=1.0).fit(*records, sample_weight=np.ones(3000, dtype=complex))

    def test_nothing_is_read_before_the_ledger_reserves(self, records, tmp_path, monkeypatch):
        """A refused budget reads no row and no weight."""
        ndis.Ledger.create(tmp_path / "b.db", epsilon=0.1, delta=1e-6, kind="shifts")
        estimator = model(weight_bound=1.0, ledger=tmp_path / "b.db", random_state=None)
        monkeypatch.setattr(Rows, "arrays", lambda *_, **__: pytest.fail("rows were read"))
        monkeypatch.setattr(Table, "read", lambda *_, **__: pytest.fail("weights were read"))
        with pytest.raises(ndis.BudgetError):
            estimator.fit(*records, sample_weight=np.ones(3000))
        with pytest.raises(ParameterError, match="equal length"):
            estimator.fit(*records, sample_weight=np.ones(2999))

    def test_shape_is_checked_without_telling_sizes(self, records):
        with pytest.raises(
            ParameterError, match=r"^sample_weight must have one weight per row, in one dimension; got 2"
        ):
            model(weight_bound=1.0).fit(*records, sample_weight=np.ones((3000, 1)))


class TestFiles:
    def test_a_folder_gives_the_bits_of_an_array(self, records, tmp_path):
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame(records[0], columns=["a", "b", "c"]).assign(y=records[1])
        for part in range(3):
            frame.iloc[part::3].to_parquet(tmp_path / f"{part}.parquet")
        plain = model().fit(frame[["a", "b", "c"]], records[1])
        files = model().fit_data(sorted(tmp_path.glob("*.parquet")), target="y")
        np.testing.assert_array_equal(files.coef_, plain.coef_)
        assert files.feature_names_in_.tolist() == ["a", "b", "c"]
        frame.to_csv(tmp_path / "named.csv", index=False, float_format="%.17g")
        named = model().fit_data(tmp_path / "named.csv", target="y", header=True)
        np.testing.assert_array_equal(named.coef_, plain.coef_)
        two = model().fit_data(frame, target=["y", "c"], columns=["a", "b"])
        assert two.coef_.shape == (2, 2)


class TestIntervals:
    def test_cover_and_get_shorter_with_the_budget(self, records):
        x, y = records
        truth = np.array([1.0, -0.5, 0.0])
        lengths = []
        for epsilon in (0.5, 5.0, 50.0):
            low, high = model(epsilon=epsilon).fit(x, y).coef_interval(0.9999).T
            assert ((low < truth) & (truth < high)).all()
            lengths.append((high - low).mean())
        assert lengths[0] > lengths[1] > lengths[2]
        # With next to no noise of privacy they are those of least squares.
        design = np.c_[x, np.ones(3000)]
        errors = 0.1 * np.sqrt(np.diagonal(np.linalg.inv(design.T @ design)))[:3]
        low, high = model(epsilon=1000.0).fit(x, y).coef_interval(0.95).T
        np.testing.assert_allclose((high - low) / 2, 1.96 * errors, rtol=0.1)

    def test_are_around_an_estimate_without_shrinkage(self, records):
        fitted = model(epsilon=0.5).fit(*records)
        np.testing.assert_allclose(fitted.coef_interval().mean(axis=1), fitted.estimate_.theta[:3, 0])
        assert not np.array_equal(fitted.estimate_.theta[:3, 0], fitted.coef_)

    def test_of_predictions(self, records):
        x, y = records
        fitted = model(epsilon=5.0).fit(x, y)
        mean = fitted.predict_interval(x, 0.95)
        new = fitted.predict_interval(x, 0.95, kind="observation")
        assert (new[:, 0] < mean[:, 0]).all()
        assert ((new[:, 0] < y) & (y < new[:, 1])).mean() == pytest.approx(0.95, abs=0.03)
        np.testing.assert_allclose(mean.mean(axis=1), x @ fitted.estimate_.theta[:3, 0] + fitted.estimate_.theta[3, 0])
        np.testing.assert_allclose(fitted.predict_interval(sparse.csr_array(x[:5])), mean[:5])
        with pytest.raises(ParameterError, match=r"^kind must be 'mean' or 'observation'"):
            fitted.predict_interval(x, kind="new")

    @pytest.mark.parametrize("level", [0.0, 1.0, np.nan, 95])
    def test_level_is_a_probability(self, records, level):
        with pytest.raises(ParameterError, match=r"^level must "):
            model().fit(*records).coef_interval(level)

    def test_are_finite_where_noise_hides_a_direction(self, records):
        """A column twice: the sum of its two coefficients is known, and each is assumed to be like the others."""
        x, y = records
        fitted = model(epsilon=20.0).fit(np.c_[x, x[:, 0]], y)
        assert fitted.estimate_.hidden == 1
        low, high = fitted.coef_interval().T
        assert np.isfinite(high).all()
        assert ((high - low)[[0, 3]] > 5 * (high - low)[[1, 2]].max()).all()
        assert low[0] < 0.5 < high[0]
        assert low[3] < 0.5 < high[3]
        assert "the noise hides 1 of 5 directions of the columns" in repr(fitted.summary())
        half = np.diff(fitted.predict_interval(np.array([[1.0, 0, 0, 1.0], [1.0, 0, 0, -1.0]])))[:, 0]
        assert half[1] > 5 * half[0]  # along the difference of the two, and not along their sum

    def test_summary(self, records):
        pd = pytest.importorskip("pandas")
        x, y = records
        fitted = model().fit(pd.DataFrame(x, columns=["age", "height", "<b>"]), y)
        table = fitted.summary(0.9)
        lines = repr(table).splitlines()
        assert lines[1].split() == ["estimate", "std.", "error", "z", "P>|z|", "90%", "interval", "shrunk"]
        assert [line.split()[0] for line in lines[2:6]] == ["age", "height", "<b>", "(intercept)"]
        assert "NOT private: a seed made the noise reproducible" in lines[7]  # `model` has a seed
        np.testing.assert_allclose(table.interval[:3], fitted.coef_interval(0.9))
        assert "&lt;b&gt;" in table._repr_html_()
        assert math.isclose(table.shrunk[3], fitted.intercept_)


def test_clones_keep_parameters():
    again = clone(ESTIMATORS[2])
    assert again.get_params() == ESTIMATORS[2].get_params()
    with pytest.raises(TypeError):
        PrivateLinearRegression(1.0, 1e-6)
