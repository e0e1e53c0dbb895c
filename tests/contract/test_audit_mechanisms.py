"""The auditor against the package's own mechanisms: correct ones survive at the edge, weaker ones do not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ndis
from ndis._exact import exact_array
from ndis.auditing import AddAdversarial, Claim, Domain, ProjectionLaw, Search, audit
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import Mechanism
from ndis.mechanisms.rounds import GaussianRounds
from ndis.pair import GaussianPair

BUDGETS = [(1.0, 1e-6), (4.0, 1e-9), (0.1, 1e-3)]


def unit_rows(count, columns, seed=0):
    x = np.random.default_rng(seed).standard_normal((count, columns))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def mechanisms(epsilon, delta):
    yield ndis.GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.5)
    for adjacency in ("add-remove", "replace-one"):
        yield ndis.RandomProjection.calibrated(
            epsilon=epsilon, delta=delta, sketch_size=40, row_norm_bound=1.0, adjacency=adjacency
        )
    yield ndis.RandomProjection.calibrated(
        epsilon=epsilon, delta=delta, sketch_size=40, row_norm_bound=1.0, target_bound=0.5, intercept=1.0
    )
    yield ndis.PoissonProjection.calibrated(epsilon=epsilon, delta=delta, sketch_size=40, row_norm_bound=1.0, rate=0.2)
    yield from at_the_edge(epsilon, delta)


def at_the_edge(epsilon, delta):
    """Mechanisms whose worst neighbours are known to all digits."""
    for adjacency in ("add-remove", "replace-one"):
        public = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        yield ndis.GramMechanism.calibrated(**public, row_norm_bound=2.0)
        yield ndis.GramMechanism.calibrated(**public, row_norm_bound=2.0, target_bound=1.0, intercept=0.75)
        yield GaussianRounds.calibrated(**public, sum_shares=[0.25] * 4)
        yield GaussianRounds.calibrated(**public, sum_shares=[0.125] * 4, count_shares=[0.5])


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_a_mechanism_at_the_edge_of_its_budget_is_not_refuted_and_a_tighter_claim_is(epsilon, delta):
    for mechanism in mechanisms(epsilon, delta):
        assert isinstance(mechanism, Mechanism)
        name = type(mechanism).__name__
        report = audit(Claim(epsilon, delta, mechanism.adjacency), mechanism=mechanism)
        assert not report.refuted, name
        assert report.delta_possible > 0
        tight = report.delta_possible * (1 - 1e-9)
        assert audit(Claim(epsilon, tight, mechanism.adjacency), mechanism=mechanism).refuted, name


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gram_and_rounds_are_refuted_one_millionth_below_the_edge(epsilon, delta):
    for mechanism in at_the_edge(epsilon, delta):
        assert not audit(Claim(epsilon, delta, mechanism.adjacency), mechanism=mechanism).refuted
        below = Claim(epsilon, delta * (1 - 1e-6), mechanism.adjacency)
        assert audit(below, mechanism=mechanism).refuted, mechanism
        tighter = Claim(epsilon * (1 - 1e-6), delta, mechanism.adjacency)
        assert audit(tighter, mechanism=mechanism).refuted, mechanism


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("sketch_size", [1, 300])
def test_one_percent_too_little_ridge_is_refuted(adjacency, epsilon, delta, sketch_size):
    exact = ndis.RandomProjection.calibrated(
        epsilon=epsilon, delta=delta, sketch_size=sketch_size, row_norm_bound=2.0, adjacency=adjacency
    )
    claim = Claim(epsilon, delta, adjacency)
    assert not audit(claim, mechanism=exact).refuted
    assert audit(claim, mechanism=ProjectionLaw(sketch_size, 0.99 * exact.ridge, 2.0, adjacency=adjacency)).refuted


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_one_percent_too_little_gaussian_noise_is_refuted(adjacency, epsilon, delta):
    exact = ndis.GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0, adjacency=adjacency)
    claim = Claim(epsilon, delta, adjacency)
    assert not audit(claim, mechanism=exact).refuted
    assert audit(claim, pairs=[GaussianPair.from_ratios(1.0, shift=1.0 / (0.99 * exact.noise_std))]).refuted


def test_a_lone_row_attains_the_guarantee_of_a_projection():
    """Data of one row at the bound: removing it is the worst case itself, up to the grid; 1 % less ridge is refuted."""
    exact = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
    row = np.array([[1.0, 0.0, 0.0]])
    claim = Claim(1.0, 1e-6)
    assert not audit(claim, mechanism=exact, data=row).refuted
    from ndis.auditing.candidates.mechanism import projection_neighbours

    (removal, _), _, _ = projection_neighbours(ProjectionLaw(100, 0.99 * exact.ridge, 1.0), row)
    assert audit(claim, pairs=[removal.profile]).refuted


def test_the_ptr_mechanism():
    mechanism = ndis.PTRProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0)
    assert not audit(Claim(1.0, 1e-6), mechanism=mechanism).refuted
    with pytest.raises(ParameterError, match="no single Gaussian"):
        audit(Claim(1.0, 1e-6), mechanism=mechanism, data=unit_rows(3, 2))


@pytest.fixture(scope="module")
def lifted_logistic():
    model = ndis.models.BohningLogistic(row_norm_bound=1.0, l2_penalty=3.0, max_records=50)
    return ndis.lift(model, epsilon=1.0, delta=1e-5, bound="renyi")


def test_a_lifted_model_on_its_data(lifted_logistic):
    x = unit_rows(6, 2)
    data = (x, np.where(x[:, 0] > 0, 1.0, -1.0))
    claim = Claim(1.0, 1e-5)
    domain = Domain(row_norm_bound=1.0, target_values=(-1.0, 1.0))
    rules = [AddAdversarial(domain, generations=2, offspring=3, starts=1)]
    report = audit(claim, mechanism=lifted_logistic, data=data, search=Search(neighbours=rules))
    assert not report.refuted
    assert report.pairs_tried > 6
    # the model by itself, with a hundredth of the noise
    from ndis.auditing.candidates.mechanism import Lifted

    bare = Lifted(lifted_logistic.model, 0.01 * lifted_logistic.noise_variance)
    report = audit(claim, algorithm=bare, data=data)
    assert report.refuted
    assert report.witness.recheck().lower == pytest.approx(report.delta_possible, rel=1e-9)


def test_a_lifted_gaussian_process_on_its_data():
    from sklearn.gaussian_process.kernels import RBF

    model = ndis.models.GaussianProcess(
        kernel=RBF(1.0), noise_variance=0.5, label_bound=1.0, prior_variance_bound=1.0, query=[[0.0]], max_records=1
    )
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    data = (np.zeros((1, 1)), np.ones(1))
    report = audit(Claim(1.0, 1e-5), mechanism=mechanism, data=data)
    assert not report.refuted
    assert 0 < report.delta_possible < 1e-5


def test_laws_in_fractions_count_as_their_floats():
    third = lambda data: (exact_array([Fraction(len(data), 3)]), exact_array([[Fraction(1)]]))  # noqa: E731
    delta = GaussianPair.from_diagonal(1.0, 9.0, 0.0, 9.0).delta(0.3)
    claims = [Claim(0.3, delta * (1.0 + slack)) for slack in (-1e-5, -1e-9, 1e-5)]
    reports = [audit(claim, algorithm=third, data=np.zeros((2, 1)), search=Search(seconds=0)) for claim in claims]
    assert [report.refuted for report in reports] == [True, False, False]
    assert [report.undecided for report in reports] == [False, True, False]


def test_an_upper_bound_alone_convicts_nobody():
    """A mechanism that knows no neighbours has nothing to be convicted by, whatever its profile says."""

    class Vague:
        adjacency = "add-remove"

        def profile(self):
            return ndis.PrivacyProfile(GaussianPair.from_ratios(1.0, shift=9.0))

        def attained(self):
            return ()

    with pytest.raises(ParameterError, match="at least one pair"):
        audit(Claim(1.0, 1e-6), mechanism=Vague())
    assert math.isfinite(Vague().profile().delta(1.0))
