"""The laws that an algorithm returns: their units, the rounding of its arithmetic, and what the screen leaves out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis.auditing import AddRows, AuditReport, Claim, Search, audit
from ndis.auditing.candidates.laws import OutputLaw, certified_pair, screening_pair
from ndis.auditing.judge import screen
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile


def edge_variance():
    noise = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std
    return math.nextafter(noise**2, math.inf)


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e16])
def test_units_of_a_coordinate_hide_nothing(scale):
    """What a low-rank screen leaves out counts in standard deviations, not in the units of the largest."""

    def law(data):
        return np.zeros(2), np.diag([scale, 1.0] if len(data) == 3 else [scale * (1 + 1e-6), 1.5])

    assert audit(Claim(1.0, 1e-3), algorithm=law, data=np.zeros((3, 2))).refuted


def test_the_screen_lies_above_the_certificate():
    """Ill-conditioned and badly scaled covariances that differ by rank one."""
    random = np.random.default_rng(1)
    for _ in range(25):
        d, condition = int(random.integers(2, 6)), 10 ** random.uniform(0, 12)
        basis = np.linalg.qr(random.normal(size=(d, d)))[0]
        scale = 10 ** random.uniform(-5, 5, size=d)
        cov = scale[:, None] * ((basis * np.geomspace(1, 1 / condition, d)) @ basis.T) * scale
        step = scale * random.normal(size=d) * 10 ** random.uniform(-5, 0)
        base, other = (OutputLaw(np.zeros(d), 0.5 * (c + c.T)) for c in (cov, cov + np.outer(step, step)))
        try:
            pair, blur = screening_pair(other, base)
            exact = PrivacyProfile(certified_pair(other, base))
            for side in ("remove", "add"):
                value, slack = screen(PrivacyProfile(pair), side, 1.0, blur)
                lower = exact.certify(1.0, order=side, relative_width=1e-6).lower
                assert lower == 0.0 or slack == math.inf or math.log(lower) <= value + slack
        except ndis.PrecisionError:
            continue  # no covariance within floats


@pytest.mark.parametrize("count", [2000, 100_000])
def test_rounding_of_a_sum_convicts_nobody(count):
    """Calibrated to the last digit; the sum of many rows is rounded."""
    variance = edge_variance()
    data = np.random.default_rng(count).uniform(0, 1, size=(count, 1))

    def noisy_sum(rows):
        return rows.sum(axis=0), np.array([variance])

    for seed in range(3):
        moved = data + seed
        report = audit(CLAIM, algorithm=noisy_sum, data=moved, search=Search(neighbours=AddRows([[1.0]])))
        assert not report.refuted
        assert any("taken as exact, up to the rounding" in text for text in report.not_tested)


# Checks rule:audit.
def test_a_conviction_of_floats_is_clear_of_their_rounding():
    """δ a ten-millionth above the claim may be rounding; a hundred-thousandth above is not."""
    counted = lambda variance: lambda d: (np.array([float(len(d))]), np.array([variance]))  # noqa: E731
    close = audit(CLAIM, algorithm=counted(edge_variance() * (1 - 1e-9)), data=np.zeros((1, 1)))
    assert not close.refuted
    assert close.undecided
    assert close.witness.enclosure.lower == CLAIM.delta
    assert any("rounding of the numbers" in note for note in close.notes)
    assert AuditReport.from_json(close.to_json()).undecided
    assert audit(CLAIM, algorithm=counted(edge_variance() * (1 - 1e-6)), data=np.zeros((1, 1))).refuted


def test_equal_laws_that_are_rounded_in_two_ways_convict_no_algorithm():
    """The same law on all data sets, summed up in an order that depends on them: ε = δ = 0 is true."""
    values = np.random.default_rng(0).uniform(0, 1, 1000)

    def sums(data, noise):
        mean = float(sum(np.random.default_rng(len(data)).permutation(values).tolist()))
        return np.array([mean, 0.1 * mean]), noise * (mean / 500.0)

    assert sums([0], 1)[0][0] != sums([0, 0], 1)[0][0]
    for noise in (np.zeros(2), np.ones(2), np.array([0.0, 1e-9]), np.eye(2), np.zeros((2, 2)), np.ones((2, 2))):
        for claim in (Claim(0.0, 0.0), Claim(1.0, 1e-6)):
            report = audit(claim, algorithm=lambda d, noise=noise: sums(d, noise), data=np.zeros((3, 1)))
            assert not report.refuted
            assert report.delta_possible == 0.0


@pytest.mark.parametrize("dense", [False, True])
def test_a_fixed_coordinate_that_moves_by_rounding_is_left_out(dense):
    """The other coordinate decides."""

    def law(data, size):
        spread = np.array([4.0, 0.0])
        mean = np.array([size * len(data), 0.3 if len(data) == 3 else 0.1 + 0.2])
        return mean, np.diag(spread) if dense else spread

    for size, refuted in ((0.1, False), (5.0, True)):
        report = audit(Claim(1.0, 1e-3), algorithm=lambda d, size=size: law(d, size), data=np.zeros((3, 1)))
        assert report.refuted == refuted
        assert not report.undecided
        assert report.epsilon_refuted is None or report.epsilon_refuted < math.inf


def test_a_fixed_output_that_moves_reveals_the_record():
    fixed = lambda d: (np.array([float(len(d))]), np.zeros(1))  # noqa: E731
    report = audit(CLAIM, algorithm=fixed, data=np.zeros((3, 1)))
    assert report.refuted
    assert report.epsilon_refuted == math.inf


def test_a_covariance_that_is_singular_up_to_rounding_is_undecided():
    """In one direction the variance is of the size of rounding errors, and it doubles: floats prove nothing there."""

    def law(data):
        close = 1.0 - 2.0 ** (-45 if len(data) == 3 else -44)
        return np.full(2, 0.1 * len(data)), np.array([[1.0, close], [close, 1.0]])

    claim = Claim(0.5, 1e-2)
    report = audit(claim, algorithm=law, data=np.zeros((3, 1)))
    assert not report.refuted
    assert report.undecided
    assert report.epsilon_refuted is None
    assert audit(claim, pairs=[GaussianPair.from_moments(*law([0, 0, 0]), *law([0, 0]))]).refuted  # these are exact


def test_many_equal_rows_are_certified_once(monkeypatch):
    import ndis.auditing.judge as judge

    calls = []
    monkeypatch.setattr(judge, "_answer", lambda *a, f=judge._answer: calls.append(1) or f(*a))
    variance = edge_variance()
    data = np.zeros((40, 3))
    data[:, 0] = 1.0
    given = Search(seconds=0)
    assert not audit(CLAIM, algorithm=lambda d: (d.sum(axis=0), np.full(3, variance)), data=data, search=given).refuted
    assert len(calls) <= 4
