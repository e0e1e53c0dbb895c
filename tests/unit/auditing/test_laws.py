"""The laws that an algorithm returns: their units, their accuracy, and what the screen leaves out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis._exact import ExactArray
from ndis.auditing import AddRows, AuditReport, Claim, audit
from ndis.auditing.judge import screen
from ndis.auditing.laws import Law, certified_pair, confidence, screening_pair
from ndis.errors import ParameterError
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
        base, other = (Law(np.zeros(d), 0.5 * (c + c.T)) for c in (cov, cov + np.outer(step, step)))
        try:
            pair, room = screening_pair(other, base)
            exact = PrivacyProfile(certified_pair(other, base))
            for side in ("remove", "add"):
                value, slack = screen(PrivacyProfile(pair), side, 1.0, room(confidence(1.0, 1e-6)))
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
        report = audit(CLAIM, algorithm=noisy_sum, data=moved, neighbours=AddRows([[1.0]]))
        assert not report.refuted
        assert any("relative error of" in note for note in report.notes)


def test_the_accuracy_of_the_numbers_decides():
    """A millionth of a millionth too little noise: refuted where the numbers are exact, undecided where they need not
    be."""
    variance = edge_variance() * (1 - 1e-12)
    algorithm = lambda d: (np.array([float(len(d))]), np.array([variance]))  # noqa: E731
    exact = audit(CLAIM, algorithm=algorithm, data=np.zeros((1, 1)), law_accuracy=0)
    assert exact.refuted
    assert "the numbers returned by the algorithm are taken as exact" in exact.notes
    open_ = audit(CLAIM, algorithm=algorithm, data=np.zeros((1, 1)))
    assert not open_.refuted
    assert open_.undecided
    assert 0.999 * CLAIM.delta < open_.witness.enclosure.lower < CLAIM.delta
    assert any("within the accuracy of the algorithm's numbers" in note for note in open_.notes)
    assert AuditReport.from_json(open_.to_json()).undecided
    clear = lambda d: (np.array([float(len(d))]), np.array([0.99999 * variance]))  # noqa: E731
    assert audit(CLAIM, algorithm=clear, data=np.zeros((1, 1))).refuted
    for bad in (-1e-3, 1.0, math.nan):
        with pytest.raises(ParameterError, match="law_accuracy"):
            audit(CLAIM, algorithm=clear, data=np.zeros((1, 1)), law_accuracy=bad)


def test_a_fixed_output_that_moves_by_rounding_is_undecided():
    moved = lambda d: (np.array([1.0 + 2.0**-50 * len(d)]), np.zeros(1))  # noqa: E731
    assert audit(CLAIM, algorithm=moved, data=np.zeros((3, 1))).undecided
    told = lambda d: (np.array([float(len(d))]), np.zeros(1))  # noqa: E731
    report = audit(CLAIM, algorithm=told, data=np.zeros((3, 1)))
    assert report.refuted
    assert report.epsilon_refuted == math.inf


def test_exact_laws_keep_their_fractions():
    """A claim between the truth and the pair rounded to floats: what is stored says what was judged."""
    for k in (3, 11, 29):

        def exact(data, k=k):
            return ExactArray(np.array([len(data)], dtype=object), k), ExactArray(np.array([[1]], dtype=object), 7)

        lower = audit(Claim(0.5, 1e-3), algorithm=exact, data=np.zeros((3, 1))).witness.enclosure.lower
        report = audit(Claim(0.5, lower), algorithm=exact, data=np.zeros((3, 1)))
        again = AuditReport.from_json(report.to_json())
        assert again.to_json() == report.to_json()
        assert again.witness.recheck() == report.witness.recheck()
        assert not (report.refuted and again.witness.recheck().upper <= lower)
        assert not any("relative error" in note for note in report.notes)


def test_many_equal_rows_are_certified_once(monkeypatch):
    import ndis.auditing.judge as judge

    calls = []
    monkeypatch.setattr(judge, "_answer", lambda *a, f=judge._answer: calls.append(1) or f(*a))
    variance = edge_variance()
    data = np.zeros((40, 3))
    data[:, 0] = 1.0
    assert not audit(CLAIM, algorithm=lambda d: (d.sum(axis=0), np.full(3, variance)), data=data).refuted
    assert len(calls) <= 4
