"""Audits of compositions of sampled releases."""

from __future__ import annotations

import pytest

import ndis
from ndis import DPSGD, ParameterError

MNIST = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)


class TestAudit:
    def test_a_false_claim_is_refuted(self):
        report = ndis.audit(ndis.Claim(epsilon=2.3, delta=1e-5), pairs=[MNIST.profile()])
        assert report.refuted
        assert report.witness.enclosure.lower > 1e-5
        assert 2.3815 < report.epsilon_refuted < 2.3815970
        again = ndis.auditing.AuditReport.from_json(report.to_json())
        assert again.witness.recheck().lower > 1e-5
        assert "14,062 releases" in report.witness.event
        assert report.witness.pair is None
        assert "samples by chance" in report.to_html()

    def test_a_true_claim_is_not(self):
        for source in ({"pairs": [MNIST.profile()]}, {"mechanism": MNIST}):
            report = ndis.audit(ndis.Claim(epsilon=2.382, delta=1e-5), **source)
            assert not report.refuted
            assert not report.undecided

    def test_the_adjacency_is_checked(self):
        claim = ndis.Claim(epsilon=1.0, delta=1e-5, adjacency="replace-one")
        for source in ({"pairs": [MNIST.profile()]}, {"mechanism": MNIST}):
            with pytest.raises(ParameterError, match=r"^adjacency of the claim must be "):
                ndis.audit(claim, **source)
