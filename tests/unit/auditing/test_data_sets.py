"""An audit starts from other data sets: inside a stated domain, or made of rows of the data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis import GaussianPair
from ndis.auditing import Claim, DataSet, Domain, Search, audit
from ndis.auditing.candidates import algorithm
from ndis.auditing.candidates.data_sets import DataSets, data_words, kinds_of
from ndis.auditing.candidates.edits import parts_of, row_count
from ndis.errors import ParameterError

UNIT = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std
SCHEMA = ndis.Schema({"age": (18, 90), "member": bool, "region": ["N", "S", "W"]}, target=("spend", 0, 5_000))
DOMAINS = {
    "ball": Domain(row_norm_bound=2.0, features=3),
    "box": Domain(low=(0.0, -1.0), high=5.0),
    "targets": Domain(row_norm_bound=1.0, features=2, target_bound=(0.0, 3.0)),
    "classes": Domain(low=-1.0, high=1.0, features=1, target_values=(0.0, 1.0, 2.0)),
    "schema": Domain.of_schema(SCHEMA),
}


def inside(domain: Domain, row: tuple) -> bool:
    x = row[0]
    if domain.row_norm_bound is not None:
        good = np.linalg.norm(x) <= domain.row_norm_bound
    else:
        good = np.all((np.asarray(domain.low) <= x) & (x <= np.asarray(domain.high)))
    for start, stop in domain.categories:
        alone = stop - start == 1
        good = good and (abs(x[start]) == 1.0 if alone else sorted(x[start:stop]) == [0.0] * (stop - start - 1) + [1.0])
    if len(row) == 1:
        return bool(good) and not domain.has_target
    ends = domain.target_ends
    return bool(good) and (row[1] in domain.target_values if domain.target_values else ends[0] <= row[1] <= ends[-1])


@pytest.mark.parametrize("name", DOMAINS)
def test_made_up_rows_lie_inside_the_domain(name):
    domain, random = DOMAINS[name], np.random.default_rng(0)
    rows = [*domain.extremes(), domain.centre(), *(domain.draw(random) for _ in range(50))]
    rows += [domain.near(random, row, step) for row in rows for step in (1e-3, 0.3, 3.0)]
    assert all(inside(domain, row) for row in rows)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", [*DOMAINS, "none"])
def test_every_data_set_and_every_neighbour_is_allowed(name, adjacency):
    """Also along the paths and in the climb: no row outside the domain, none but the given ones without a domain."""
    random = np.random.default_rng(1)
    domain = DOMAINS.get(name)
    given = random.standard_normal((7, 2))
    if domain is not None:
        parts = tuple(map(np.array, zip(*(domain.draw(random) for _ in range(7)), strict=True)))
        given = parts if domain.has_target else parts[0]
    sets = DataSets(given, domain, 3, 25, adjacency)
    tour = sets.tour(random, lambda at, low, high: float(row_count(at(high))))
    seen, step = 0, next(tour)
    while step is not None:
        data, edits = step
        for one in (data, *(edit.apply(data) for edit in edits)):
            assert 3 <= row_count(one) <= 25
            assert adjacency == "add-remove" or row_count(one) == row_count(data)
            rows = list(zip(*parts_of(one), strict=True))
            if domain is None:
                assert all(any(np.array_equal(row[0], mine) for mine in given) for row in rows)
            else:
                assert all(inside(domain, rows[i]) for i in kinds_of(one)[0])
            seen += 1
        try:
            step = tour.send([float(row_count(data))] * len(edits))
        except StopIteration:
            step = None
    assert seen > 100


def test_equal_rows_convict_noise_from_the_sample():
    """The classic fault, on data on which its neighbours look harmless."""
    rows = np.random.default_rng(0).uniform(0.0, 1.0, (100, 1))

    def scaled_mean(data):
        return [data.mean()], [(UNIT * (data.std() + 1e-6)) ** 2 / 4.0]

    assert not audit(CLAIM, algorithm=scaled_mean, data=rows, search=Search(seconds=0)).refuted
    for data in (
        rows,
        DataSet(rows, domain=Domain(low=0.0, high=1.0)),
        DataSet(domain=Domain(low=0, high=1, features=1)),
    ):
        report = audit(CLAIM, algorithm=scaled_mean, data=data)
        assert report.refuted
        assert report.noise_depends
        assert report.epsilon_refuted > 1000
        assert str(report).startswith("warning: the noise depends on the data")


def test_noise_that_is_fixed_is_not_warned_about():
    report = audit(CLAIM, algorithm=lambda d: (d.sum(axis=0), [UNIT**2]), data=np.ones((3, 1)))
    assert not report.noise_depends
    assert "warning" not in str(report)


def test_an_algorithm_that_raises_is_reported_and_not_convicted():
    def fussy(data):
        if len(data) < 5:
            raise RuntimeError("the value 0.123456 is secret")
        return data.sum(axis=0), [UNIT**2]

    report = audit(CLAIM, algorithm=fussy, data=DataSet(domain=Domain(low=0.0, high=1.0, features=1)))
    assert not report.refuted
    (note,) = [note for note in report.notes if "gave no law" in note]
    assert "RuntimeError" in note
    assert "0.123456" not in report.to_json()
    with pytest.raises(RuntimeError):  # on the data given it is an error, as before
        audit(CLAIM, algorithm=fussy, data=np.ones((3, 1)))


def test_min_rows_is_kept():
    seen = set()

    def mean_of_many(data):
        seen.add(len(data))
        return [data.mean()], [(UNIT / 30) ** 2]

    domain = Domain(low=0.0, high=1.0, features=1)
    assert not audit(CLAIM, algorithm=mean_of_many, data=DataSet(domain=domain, min_rows=30)).refuted
    assert min(seen) == 30
    assert audit(CLAIM, algorithm=mean_of_many, data=DataSet(domain=domain, min_rows=10)).refuted
    with pytest.raises(ParameterError, match="data must have from min_rows to max_rows rows; got fewer or more"):
        audit(CLAIM, algorithm=mean_of_many, data=DataSet(np.ones((9, 1)), domain=domain, min_rows=10))


def test_max_rows_is_kept():
    seen = set()

    def first_fifty(data):  # a promise of at most 50 rows: beyond it, a removal lets another row in
        seen.add(len(data))
        return [data[:50].sum()], [UNIT**2]

    domain = Domain(low=-1.0, high=1.0, features=1)
    assert not audit(CLAIM, algorithm=first_fifty, data=DataSet(domain=domain, max_rows=50)).refuted
    assert max(seen) == 50
    full = DataSet(np.ones((50, 1)), domain=domain, max_rows=50)
    assert not audit(CLAIM, algorithm=first_fifty, data=full).refuted
    assert audit(CLAIM, algorithm=first_fifty, data=DataSet(np.ones((60, 1)), domain=domain)).refuted
    with pytest.raises(ParameterError, match="max_rows must be above min_rows"):
        DataSet(min_rows=5, max_rows=5)


def test_the_size_is_public_under_replace_one():
    claim = Claim(1.0, 1e-6, "replace-one")
    seen = set()

    def mean(data):
        seen.add(len(data))
        return [data.mean()], [(UNIT / 40) ** 2]

    domain = Domain(low=0.0, high=1.0)
    assert not audit(claim, algorithm=mean, data=DataSet(np.linspace(0, 1, 40)[:, None], domain=domain)).refuted
    assert seen == {40}
    rows = np.linspace(0, 1, 40)[:, None]
    assert audit(claim, algorithm=mean, data=DataSet(rows, domain=domain, min_rows=1)).refuted


def test_a_generator_of_ones_own():
    """Only whole-number rows that sum to ten reach the fault."""

    def odd(data):
        return [data.sum()], [UNIT**2 if data.sum() != 10.0 else 0.01]

    given = np.full((4, 1), 0.3)
    assert not audit(CLAIM, algorithm=odd, data=given).refuted
    tens = DataSet(given, generator=lambda random: random.permutation([[3.0], [3.0], [4.0], [0.0]]))
    assert audit(CLAIM, algorithm=odd, data=tens).refuted


def test_copies_are_not_built(monkeypatch):
    """300 columns of a sketch of five features: no matrix is larger than 5 × 5, and the pair has 1500 entries."""
    ridge = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=300, row_norm_bound=1.0).law.ridge
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    made = []
    whole = GaussianPair.from_moments
    monkeypatch.setattr(GaussianPair, "from_moments", lambda *a: made.append(np.shape(a[1])) or whole(*a))

    def sketch(data, ridge=ridge):
        return ndis.Gaussian(np.zeros(5), data.T @ data + ridge * np.eye(5), copies=300)

    given = Search(seconds=0)
    sound = audit(CLAIM, algorithm=sketch, data=DataSet(rows, domain=Domain(row_norm_bound=1.0)), search=given)
    assert not sound.refuted
    short = audit(CLAIM, algorithm=lambda d: sketch(d, 0.9 * ridge), data=rows, search=given)
    assert short.refuted
    assert short.witness.pair.dimension == 1500
    assert set(made) == {(5, 5)}
    law = sketch(rows)
    with pytest.raises(ParameterError, match="one dimension on neighbours; got 5 × 1 and 5 × 300"):
        audit(CLAIM, algorithm=lambda d: law if len(d) == 5 else (law.mean, law.covariance), data=rows)


def test_copies_equal_the_block_matrix():
    rows = np.array([[0.6, 0.8], [1.0, 0.0], [0.3, -0.4]])
    spread = lambda d: d.T @ d + 9.0 * np.eye(2)  # noqa: E731
    given = Search(seconds=0)
    short = audit(CLAIM, algorithm=lambda d: ndis.Gaussian(d.sum(axis=0), spread(d), copies=4), data=rows, search=given)
    block = audit(
        CLAIM,
        algorithm=lambda d: (np.tile(d.sum(axis=0), 4), np.kron(np.eye(4), spread(d))),
        data=rows,
        search=given,
    )
    assert short.witness.enclosure.lower == pytest.approx(block.witness.enclosure.lower, rel=1e-11)
    assert short.epsilon_refuted == pytest.approx(block.epsilon_refuted, rel=1e-8)


def test_time_ends_the_tour_and_the_report_says_so(monkeypatch):
    """A clock of the test goes one second further each time it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(algorithm.time, "monotonic", lambda: float(next(seconds)))
    sums = lambda d: (d.sum(axis=0), np.full(1, 900.0))  # noqa: E731
    data = DataSet(np.ones((2, 1)), domain=Domain(low=0.0, high=1.0))
    tried = [audit(CLAIM, algorithm=sums, data=data, search=Search(seconds=given)) for given in (5, 50, 10**6)]
    assert tried[0].pairs_tried < tried[1].pairs_tried < tried[2].pairs_tried
    assert [any("ran out" in note for note in report.notes) for report in tried] == [True, True, False]


def test_the_number_of_runs_ends_a_usual_audit():
    """Some hundred runs: on any machine the count ends them, and not the clock."""
    runs = itertools.count()

    def sums(data):
        next(runs)
        return data.sum(axis=0), np.full(2, 900.0)

    audit(CLAIM, algorithm=sums, data=DataSet(np.ones((30, 2)), domain=Domain(low=0.0, high=1.0)))
    assert next(runs) < 2000


def test_a_path_ends_at_the_jump():
    """A jump after 777 rows, that no start data set is near."""

    def jump(data):
        return [data.sum()], [UNIT**2 * (1.0 if len(data) < 777 else 4.0)]

    report = audit(CLAIM, algorithm=jump, data=DataSet(domain=Domain(low=0.0, high=1.0, features=1)))
    assert report.refuted
    assert report.witness.neighbours.startswith("776 rows: ")


def test_words_for_a_data_set():
    assert data_words(np.empty((0, 2))) == "no rows"
    assert data_words(np.ones((1, 1))) == "1 row: 1 × [1.]"
    targets = np.ones((2, 1)), np.array([0.0, 1.0])
    assert data_words(targets) == "2 rows: 1 × [1.] with target 0., 1 × [1.] with target 1."
    assert "9 rows, 9 of them different" in data_words(np.arange(9.0)[:, None])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, "row_norm_bound, or low and high, must be stated; got none of them"),
        ({"row_norm_bound": 1.0, "low": 0.0, "high": 1.0}, "must be stated; got both"),
        ({"low": 1.0, "high": 1.0}, "low must lie below high"),
        ({"low": (0.0, 0.0), "high": 1.0, "features": 3}, "features must be as many as low and high have; got 3"),
        ({"row_norm_bound": math.nan}, "row_norm_bound must be"),
        ({"row_norm_bound": -1.0}, "row_norm_bound must be positive"),
        ({"row_norm_bound": 1.0, "target_bound": (2.0, 1.0)}, "target_bound must not be negative, or be"),
        ({"row_norm_bound": 1.0, "features": 0}, "features must be a whole number"),
    ],
)
def test_domains_that_are_none(bounds, message):
    with pytest.raises(ParameterError, match=message):
        Domain(**bounds)


def test_what_must_come_together():
    domain, narrow = Domain(row_norm_bound=1.0), Domain(low=0, high=(1, 1))
    with pytest.raises(ParameterError, match="data must come with an algorithm; got None; or state a domain"):
        audit(CLAIM, algorithm=lambda d: ([0.0], [1.0]), data=DataSet(domain=domain))
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    with pytest.raises(ParameterError, match="domain must come with an algorithm, or with data"):
        audit(CLAIM, mechanism=mechanism, data=DataSet(domain=domain))
    with pytest.raises(ParameterError, match="features of the domain must be those of the data; got 2 for 3"):
        audit(CLAIM, algorithm=lambda d: ([0.0], [1.0]), data=DataSet(np.ones((2, 3)), domain=narrow))
    with pytest.raises(ParameterError, match="min_rows must be a whole number"):
        DataSet(np.ones((2, 3)), min_rows=-1)
    with pytest.raises(ParameterError, match="seconds must not be negative"):
        Search(seconds=-1)


def test_every_epsilon_is_refuted_at_delta_zero():
    """For a mean shift, and for a wider law; a narrower one has a bounded loss."""
    claim = Claim(1.0, 0.0)
    assert audit(claim, pairs=[GaussianPair.from_ratios(1.0, shift=0.1)]).epsilon_refuted == math.inf
    assert audit(claim, pairs=[GaussianPair.from_ratios(1.5, copies=100)]).epsilon_refuted == math.inf
    sampled = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)
    report = audit(claim, pairs=[sampled])
    assert report.epsilon_refuted in (1.0, math.inf)
    assert report.witness.side == "remove" or report.epsilon_refuted == 1.0
