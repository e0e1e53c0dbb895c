"""Statistics of a description are near those of the table, with honest errors, and tables come in all forms."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

import ndis
from ndis.data.schema import Number
from ndis.describing.release import _edges
from ndis.describing.statistics import NoisyMoments, ratio
from ndis.errors import NotPrivateWarning, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
N = 60_000
SCHEMA = ndis.Schema(
    {"age": (0, 100), "stay": (0, 60), "ward": ["A", "B", "C"], "sex": ["F", "M"], "smoker": bool},
    target=("life", 0, 100),
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    ward = rng.choice(["A", "B", "C", "elsewhere"], N, p=[0.5, 0.3, 0.15, 0.05])
    age, stay = rng.normal(50, 15, N).clip(0, 100), rng.gamma(2.0, 2.0, N).clip(0, 60)
    smoker = rng.random(N) < 0.25
    life = 80 - 0.3 * age - 4 * smoker - 0.5 * stay + 3 * (ward == "B") + rng.normal(0, 6, N)
    table = {"age": age.astype(object), "stay": stay, "ward": ward, "sex": rng.choice(["F", "M"], N), "smoker": smoker}
    table["age"][rng.random(N) < 0.02] = None
    return {**table, "life": life.clip(0, 100)}


@pytest.fixture(scope="module")
def d(rows):
    return ndis.describe(
        rows, schema=SCHEMA, epsilon=1.0, delta=1e-6, groups=["ward", "smoker", ("ward", "sex")], random_state=11
    )


@pytest.fixture(scope="module")
def known(rows):
    age = rows["age"].astype(float)
    return {**rows, "age": age}


def near(table, name, truth, most=4.5):
    """The estimate is within some standard errors of the truth."""
    i = table.index.index(name)
    assert abs(table.estimate[i] - truth) <= most * table.standard_error[i], (name, table.rows()[i], truth)
    assert table.low[i] <= table.estimate[i] <= table.high[i] or table.low[i] in (0.0, -1.0)


def test_counts_and_means(d, known):
    near(d.records(), ("records",), N)
    near(d.records(), ("missing: age",), np.isnan(known["age"]).sum())
    near(d.means(), ("age",), np.nanmean(known["age"]))
    near(d.means(), ("smoker",), known["smoker"].mean())
    assert d.means().standard_error[1] < 0.1


def test_groups_and_cross_tables(d, known):
    for ward in "ABC":
        group = known["ward"] == ward
        near(d.groups("ward"), (ward, "count"), group.sum())
        near(d.groups("ward"), (ward, "share"), group.mean())
        near(d.groups("ward"), (ward, "stay"), known["stay"][group].mean())
        near(d.groups("ward"), (ward, "age"), np.nanmean(known["age"][group]))
        near(d.table("ward", "sex"), (ward, "F"), (group & (known["sex"] == "F")).sum())
        near(d.table("sex", "ward"), ("M", ward), (group & (known["sex"] == "M")).sum())
        complete = group & known["smoker"] & ~np.isnan(known["age"])
        near(d.table("ward", "smoker"), (ward, "True"), complete.sum())
    near(d.groups("ward"), ("(other)", "count"), (known["ward"] == "elsewhere").sum())
    near(d.groups("ward"), ("(missing)", "count"), 0)
    crossed = (known["ward"] == "A") & (known["sex"] == "F")
    near(d.groups("ward", "sex"), ("A, F", "life"), known["life"][crossed].mean())


def test_second_moments_are_unbiased_and_not_repaired(d, known):
    complete = ~np.isnan(known["age"])
    numbers = {name: known[name][complete].astype(float) for name in ("age", "stay", "smoker", "life")}
    for name, x in numbers.items():
        near(d.variances(), (name,), x.var())
    near(d.covariance(), ("age", "life"), np.cov(numbers["age"], numbers["life"])[0, 1])
    near(d.correlation(), ("age", "life"), np.corrcoef(numbers["age"], numbers["life"])[0, 1])
    near(d.correlation(), ("stay", "smoker"), np.corrcoef(numbers["stay"], numbers["smoker"])[0, 1])
    assert any("left out" in note for note in d.variances().notes)


def test_regressions_of_any_target_on_any_columns(d):
    fit = d.regress("life", on=["age", "smoker", "stay", "ward"], against=["age", "smoker"])
    for name, truth in (("age", -0.3), ("smoker", -4.0), ("stay", -0.5), ("ward=B", 3.0), ("ward=C", 0.0)):
        near(fit, (name,), truth)
    near(fit, ("(intercept)",), 80.0)
    assert any(note.startswith("without stay, ward: F ") for note in fit.notes)
    assert any("equal variance" in note for note in fit.notes)
    near(d.regress("stay", on=["sex"]), ("sex=M",), 0.0)
    for wrong in ({"target": "ward"}, {"target": "life", "on": ["life"]}, {"target": "life", "on": ["nothing"]}):
        with pytest.raises(ParameterError, match="target and on"):
            d.regress(**wrong)


def test_differences_of_groups(d, known):
    table = d.compare("life", by="ward")
    means = {ward: known["life"][known["ward"] == ward].mean() for ward in "ABC"}
    near(table, ("B \u2212 A",), means["B"] - means["A"])
    assert "p = " in table.notes[0]


def test_quantiles(d, known):
    for p, label in ((0.1, "10%"), (0.5, "50%"), (0.9, "90%")):
        table = d.quantiles("stay", [p])
        (index,) = table.index
        assert index == (label,)
        assert table.low[0] <= np.quantile(known["stay"], p) <= table.high[0]
        assert table.high[0] - table.low[0] < 3.0
    with pytest.raises(ParameterError, match="probabilities"):
        d.quantiles("stay", [1.5])


def test_components_are_orthonormal_and_say_if_they_were_repaired(d):
    table = d.pca(2)
    loadings = np.array([row[0] for row in table.rows()]).reshape(2, 5)[:, 1:]
    assert np.allclose(loadings @ loadings.T, np.eye(2), atol=1e-9)
    small = ndis.describe(
        {f"q{i}": np.zeros(30) for i in range(8)}, schema=ndis.Schema({f"q{i}": (-1, 1) for i in range(8)}),
        epsilon=0.1, delta=1e-6,
    )  # fmt: skip
    assert any("set to zero" in note for note in small.pca(1).notes)
    assert all("unknown" in note for note in small.regress("q1").notes)


def test_tables_in_all_forms(d, tmp_path):
    pd = pytest.importorskip("pandas")
    columns = ["estimate", "standard_error", "low", "high"]
    assert d.means().to_frame().columns.tolist() == columns
    assert d.means().to_frame().index.name == "name"
    correlation = d.correlation().to_frame()
    assert correlation.index.names == ["row", "column"]
    assert correlation.loc[("age", "life"), "estimate"] == correlation.loc[("life", "age"), "estimate"]
    assert d.groups("ward").to_frame().index.names == ["category", "name"]
    text = d.means().to_csv(tmp_path / "means.csv")
    assert pd.read_csv(tmp_path / "means.csv").shape == (4, 5)
    assert text.startswith("name,estimate")
    assert d.means().to_latex().count(r"\\") == 5
    assert "<table>" in d.means()._repr_html_()
    for table in (*d.tables(), d.table("ward", "sex"), d.compare("life", by="ward"), d.pca(1)):
        assert repr(table).endswith("costs no further budget")
    pytest.importorskip("matplotlib")
    assert len(d.plot().get_yticklabels()) == 4


def test_a_frame_without_pandas_is_refused_with_a_remedy(d, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ParameterError, match=r"pip install 'ndis\[data\]'"):
        d.means().to_frame()


def test_the_page_shows_tables_and_escapes_names(d):
    page = d.to_html(title="<b>Patients</b>")
    assert "&lt;b&gt;Patients" in page
    assert "<b>Patients" not in page
    assert "NOT private" in page
    assert "By ward" in page
    assert d.receipt.digest in page


def test_a_ledger_pays_once_and_a_seed_is_refused(rows, tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "b.db", epsilon=2.0, delta=1e-6, kind="shifts")
    few = {name: values[:500] for name, values in rows.items()}
    how = {"schema": SCHEMA, "epsilon": 1.0, "delta": 1e-6, "ledger": tmp_path / "b.db"}
    made = ndis.describe(few, **how)
    assert made.receipt.ledger["entry"] == 1
    assert made.receipt.private
    assert made.receipt.bound_to(**made.values) == made.receipt
    with pytest.raises(ParameterError, match="random_state"), pytest.warns(NotPrivateWarning):
        ndis.describe(few, **how, random_state=1)
    with pytest.raises(ndis.BudgetError):
        ndis.describe(few, **{**how, "epsilon": 3.0})
    assert len(ledger.report().to_dict()["entries"]) == 1


def test_parts_that_were_not_released_are_refused(rows):
    few = {name: values[:500] for name, values in rows.items()}
    d = ndis.describe(few, schema=SCHEMA, epsilon=1.0, delta=1e-6, quantiles=False, matrix=False, groups=["ward"])
    assert set(d.receipt.parameters["noise"]) == {"sums 0", "sums 1"}
    for ask in (d.correlation, d.variances, lambda: d.quantiles("age"), lambda: d.groups("sex"), lambda: d.pca(1)):
        with pytest.raises(ParameterError):
            ask()


def test_terms_of_a_number_are_for_regressions_only():
    """A square and an indicator change nothing in a description, and a missing cell is missing whatever its fill."""
    table = {"age": [20.0, 60.0, None] * 2000, "stay": [1.0, 3.0, 2.0] * 2000}
    how = {"epsilon": 5.0, "delta": 1e-6, "random_state": 3}
    schemas = [
        ndis.Schema({"age": age, "stay": (0, 10)})
        for age in (Number(0, 100), Number(0, 100, degree=2, indicator=True), Number(0, 100, 10, indicator=True))
    ]
    with pytest.warns(ndis.NotPrivateWarning):
        plain, *others = (ndis.describe(table, schema=schema, **how) for schema in schemas)
    for each in others:
        for ask in ("records", "means", "variances"):
            assert getattr(each, ask)().to_csv() == getattr(plain, ask)().to_csv()
    missing = plain.records().to_frame().loc["missing: age", "estimate"]
    assert abs(missing - 2000) < 100


def test_a_hidden_ratio_has_the_whole_range():
    estimate, error, low, high = ratio(3.0, 5.0, own=100.5, below=100.0, z=2.0, ends=(-1.0, 1.0))
    assert np.isnan(estimate)
    assert np.isinf(error)
    assert (low, high) == (-1.0, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_errors_of_moments_are_those_of_a_simulation(seed):
    """The delta method gives the standard deviations that repeated noise and sampling show."""
    rng = np.random.default_rng(seed)
    root, mean = np.eye(2) + 0.3 * rng.normal(size=(2, 2)), rng.normal(size=2)
    values, errors = [], []
    for _ in range(600):
        x = np.c_[rng.normal(size=(400, 2)) @ root + mean, np.full(400, 2.0)]
        noise = rng.normal(0, 5.0, (3, 3))
        moments = NoisyMoments.of(x.T @ x + (noise + noise.T) / 2, noise=5.0, constant=2.0)
        correlation, error, _, _ = moments.correlation(0, 1, 2.0)
        values.append((moments.covariance[0, 1], moments.covariance[0, 0], correlation))
        errors.append((moments.product(0, 1, 2.0)[1], moments.product(0, 0, 2.0)[1], error))
    assert np.allclose(np.std(values, axis=0), np.median(errors, axis=0), rtol=0.15)


def test_errors_are_those_of_many_releases():
    """A column far inside its range has the errors that releases show, also beside one with a long tail."""
    schema, scores, held, lengths = ndis.Schema({"age": (0, 100), "cost": (0, 50_000), "yes": bool}), [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        age, cost = rng.normal(50, 15, 6000), 1000 * rng.lognormal(0, 1, 6000)
        table = {"age": age, "cost": cost, "yes": rng.random(6000) < 0.2}
        d = ndis.describe(table, schema=schema, epsilon=1.0, delta=1e-6, random_state=seed)
        found = d.variances().to_frame().loc[["age", "yes"]]
        scores.append((found.estimate - [225.0, 0.16]) / found.standard_error)
        ((_, _, low, high),) = d.quantiles("age", [0.5]).rows()
        held.append(low <= 50.0 <= high)
        lengths.append(high - low)
    assert np.all(np.sqrt(np.mean(np.square(scores), axis=0)) > 0.75)
    assert np.all(np.sqrt(np.mean(np.square(scores), axis=0)) < 1.25)
    assert np.mean(held) >= 0.9
    assert np.median(lengths) < 4.2


def test_the_interval_of_a_quantile_holds_the_whole_bin_of_a_frequent_value():
    """Nothing tells where in its bin a value lies that a third of the records have."""
    table = {"answer": np.repeat([1.0, 2.03, 3.0], 2000)}
    d = ndis.describe(table, schema=ndis.Schema({"answer": (0, 5)}), epsilon=1.0, delta=1e-6, random_state=3)
    ((_, _, low, high),) = d.quantiles("answer", [0.5]).rows()
    assert low <= 2.03 <= high < 3.0


def test_dates_are_shown_as_dates():
    days = np.datetime64("2025-03-01") + np.arange(4000) % 31
    table = {"day": days, "ward": np.tile(["A", "B"], 2000)}
    schema = ndis.Schema({"day": (date(2025, 1, 1), date(2025, 12, 31)), "ward": ["A", "B"]})
    d = ndis.describe(table, schema=schema, epsilon=5.0, delta=1e-6)
    for shown in (d.means(), d.groups("ward"), d.quantiles("day")):
        assert "2025-03-1" in repr(shown)
        assert 20148 < float(shown.to_frame().estimate.iloc[-1]) < 20180 or "share" in repr(shown)
    assert "2025-03-1" in d.to_html()
    assert "2025" not in repr(d.variances())


def test_the_interval_of_a_variance_covers_by_the_laws_that_the_tail_may_have():
    """It covers on average over the laws, for the law of which least was lost, and it is shorter than a normal one."""
    rng, chances, lost = np.random.default_rng(0), np.array([0.6, 0.3, 0.1]), np.array([[0.0], [30.0], [90.0]])
    gram = np.array([[100.0, 0.0], [0.0, 100.0]])
    plain = NoisyMoments.of(gram, noise=5.0, constant=1.0)
    error = plain.product(0, 0, 1.96)[1]
    held, lengths = [], []
    for _ in range(1500):
        law, noise = int(rng.choice(3, p=chances)), rng.normal(0, error, 2)
        for which, each in ((law, noise[0]), (0, noise[1])):
            known = replace(plain, covariance=plain.covariance + each, lost=lost, chances=chances[:, None])
            value, own, low, high = known.product(0, 0, 1.96)
            held.append(low <= 1.0 + lost[which, 0] / 100.0 <= high)
            lengths.append((high - low) / (2 * 1.96 * own))
            assert low <= value <= high
    assert 0.935 <= np.mean(held[::2]) <= 0.985
    assert 0.935 <= np.mean(held[1::2]) <= 0.995
    assert np.mean(lengths) < 0.9


def test_two_releases_tell_what_clipping_took():
    """The laws are weighed by how far the two variances of a number are apart, and the interval still covers."""
    rng, chances, lost = np.random.default_rng(0), np.array([0.6, 0.3, 0.1]), np.array([[0.0], [30.0], [90.0]])
    plain = NoisyMoments.of(np.diag([100.0, 100.0]), noise=5.0, constant=1.0)
    held, errors = [], []
    for _ in range(1500):
        law, (first, second) = int(rng.choice(3, p=chances)), rng.normal(0, [0.1, 0.05])
        truth = 1.0 + lost[law, 0] / 100.0
        here = truth + rng.normal(0, truth * np.sqrt(0.02))  # of these 100 records
        covariance = plain.covariance + (here - 1.0 - lost[law, 0] / 100.0 + second)
        known = replace(plain, covariance=covariance, lost=lost, chances=chances[:, None])
        told = known.with_variances(np.array([here + first]), np.array([0.1]))
        _, _, low, high = told.product(0, 0, 1.96)
        held.append(low <= truth <= high)
        errors.append(told.covariance[0, 0] - here)
        assert np.allclose(told.chances.sum(axis=0), 1.0)
    assert 0.935 <= np.mean(held) <= 0.985
    assert np.sqrt(np.mean(np.square(errors))) < 0.085  # 0.094 if the weights of the laws stay as they were
    far = replace(plain, lost=np.array([[900.0], [0.0]]), chances=np.array([[1.0], [0.0]]))
    assert far.with_variances(np.array([-1e6]), np.array([1e-3])).chances.tolist() == [[1.0], [0.0]]


def test_the_interval_of_a_variance_holds_its_level_of_the_mixture():
    """Its lower end covers if nothing was lost, so it misses less there, and its upper end misses the rest."""
    from scipy.special import ndtr

    lost, chances = np.array([[0.0], [5.0], [90.0]]), np.array([[0.1], [0.3], [0.6]])
    known = replace(NoisyMoments.of(np.diag([100.0, 100.0]), noise=5.0, constant=1.0), lost=lost, chances=chances)
    value, error, low, high = known.product(0, 0, 1.96)
    own = np.sqrt(error**2 - float((chances * (lost / 100.0) ** 2).sum()))
    below, above = (float(chances[:, 0] @ ndtr((end - 1.0 - lost[:, 0] / 100.0) / own)) for end in (low, high))
    assert np.isclose(above - below, 0.95, atol=2e-3)
    assert below < 0.025
    assert np.isclose(low, value - 1.645 * own, atol=1e-3)


def test_a_variance_that_the_first_sums_tell_does_not_count_the_means_of_the_matrix():
    """The noise of the matrix counts by the share that the matrix has in a variance, also where means are far off."""
    errors = []
    for mean in (0.0, 5.0):
        gram = np.array([[100.0 + 100.0 * mean**2, 100.0 * mean], [100.0 * mean, 100.0]])
        moments = NoisyMoments.of(gram, noise=20.0, constant=1.0).with_variances(np.array([1.0]), np.array([1e-4]))
        errors.append(moments.product(0, 0, 1.96)[1])
    assert np.isclose(*errors, rtol=0.02)


def test_a_few_records_far_away_are_among_the_laws():
    """The noise nearly hides fifty of 5,000 records 30 spreads away, and the interval must know of them."""
    n, held = 5000, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(n) < 0.01, 30.0, 0.0) + rng.normal(0, 1, n)
        schema = ndis.Schema({"x": (-50, 50)})
        d = ndis.describe({"x": x}, schema=schema, epsilon=1.0, delta=1e-6, groups=[], random_state=seed)
        ((_, _, low, high),) = d.variances().rows()
        held.append(low <= 1.0 + 900 * 0.01 * 0.99 <= high)
    assert np.mean(held) >= 0.5


def test_the_histogram_of_a_number_tells_its_fourth_moment():
    """A variance of even values has less sampling error than one of normal values."""
    rng = np.random.default_rng(0)
    table = {"even": rng.uniform(0, 1, 20_000), "normal": rng.normal(0.5, 0.1, 20_000)}
    schema = ndis.Schema({"even": (0, 1), "normal": (0, 1)})
    d = ndis.describe(table, schema=schema, epsilon=2.0, delta=1e-6, random_state=1)
    assert np.allclose(3.0 * d._moments.excess, [-1.2, 0.0], atol=0.6)


def test_bins_are_dense_where_records_are_if_a_few_lie_far_away():
    width = np.diff(_edges(0.0, 0.1, 400))
    middle, ends = len(width) // 2, _edges(0.0, 0.1, 400)
    assert width[middle - 20 : middle + 20].mean() < 0.35 * 0.5 / 300
    assert np.abs(ends).max() < 1.0
    assert np.all(width >= 0.0)


def test_every_level_has_an_interval_of_a_quantile(d):
    for level in (0.001, 0.3, 0.999999):
        ((value, _, low, high),) = d.quantiles("stay", [0.5], level=level).rows()
        assert low < high
        assert np.isfinite(value)


@pytest.mark.parametrize("name", [5, None, ["age"], {"age"}, b"age", np.array(["age", "stay"]), object(), "no"])
def test_names_of_any_type_are_refused_in_words(d, name):
    asked = (
        lambda: d.quantiles(name), lambda: d.groups(name), lambda: d.table(name, "ward"), lambda: d.table("ward", name),
        lambda: d.compare(name, by="ward"), lambda: d.compare("age", by=name), lambda: d.regress(name),
        lambda: d.regress("life", on=[name]), lambda: d.regress("life", on=["age"], against=[name]),
        *([lambda: d.regress("life", on=name)] if name is not None and not isinstance(name, list | set) else []),
    )  # fmt: skip
    for ask in asked[: 9 if isinstance(name, np.ndarray) else None]:
        with pytest.raises(ParameterError):
            ask()


def test_a_list_of_names_is_read_once(d):
    names = ["age", "stay"]
    tables = [d.regress("life", on=each, against=(x for x in names[:1])) for each in (names, iter(names))]
    assert tables[0].notes == tables[1].notes
    assert "without stay: F" in str(tables[0].notes)
