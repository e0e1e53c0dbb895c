"""The drop-ins for other tools, each with a case whose answer is known; the recipes of docs/interop.md."""

from __future__ import annotations

import doctest
import importlib.util
import math
import re
import runpy

import numpy as np
import pytest

import ndis
from helpers.places import ROOT
from ndis import ParameterError, PrivacyProfile

RECIPE = re.compile(r"^## (\w+)\n(?:.(?!^## ))*?^```py\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RECIPES = {name.lower(): text for name, text in RECIPE.findall((ROOT / "docs" / "interop.md").read_text("utf-8"))}


def test_every_recipe_is_found():
    assert set(RECIPES) == {"jax_privacy", "opacus", "riskcal", "prv_accountant", "autodp", "opendp"}


@pytest.mark.filterwarnings("default")  # the other packages warn as they like
@pytest.mark.parametrize("package", sorted(RECIPES))
def test_recipes(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    report: list[str] = []
    test = doctest.DocTestParser().get_doctest(RECIPES[package], {}, package, None, 0)
    found = doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=report.append)
    assert found.failed == 0, "".join(report)
    assert found.attempted > 3


def test_opacus_trains_with_it(capsys):
    if importlib.util.find_spec("opacus") is None:
        pytest.skip("opacus is not installed")
    runpy.run_path(str(ROOT / "examples" / "opacus_training.py"), run_name="__main__")
    lines = dict(re.findall(r"^  (.+?)\s{2,}([\d.]+)$", capsys.readouterr().out, re.MULTILINE))
    exact = float(lines["exact (ndis)"])
    truth = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=1 / 20, steps=100).epsilon(1e-5)
    assert exact == pytest.approx(truth, abs=1e-6)
    assert exact <= float(lines["exact, certified"]) + 1e-6
    assert float(lines["prv (Opacus)"]) == pytest.approx(exact, abs=0.03)
    assert float(lines["rdp (Opacus)"]) > exact


class TestOpacus:
    @pytest.fixture
    def accountant(self):
        if importlib.util.find_spec("opacus") is None:
            pytest.skip("opacus is not installed")
        from ndis.interop.opacus import ExactAccountant, OpacusAccountant

        assert ExactAccountant is OpacusAccountant
        return OpacusAccountant()

    def test_history(self, accountant):
        from opacus.accountants import create_accountant

        assert accountant.get_epsilon(1e-5) == 0.0
        for noise, rate, steps in ((1.0, 0.01, 30), (1.2, 0.01, 20), (1.0, 0.01, 5)):
            for _ in range(steps):
                accountant.step(noise_multiplier=noise, sample_rate=rate)
        assert accountant.history == [(1.0, 0.01, 30), (1.2, 0.01, 20), (1.0, 0.01, 5)]
        assert len(accountant) == 55
        truth = ndis.DPSGD.from_schedule(accountant.history).epsilon(1e-5)
        assert accountant.get_epsilon(1e-5) == truth <= accountant.get_epsilon(1e-5, certify=True)
        again = create_accountant("exact")
        again.load_state_dict(accountant.state_dict())
        assert again.get_epsilon(delta=1e-5) == truth

    def test_no_noise(self, accountant):
        accountant.step(noise_multiplier=0.0, sample_rate=0.01)
        assert accountant.get_epsilon(1e-5) == math.inf


class TestDPAccounting:
    """The cases of the library's own battery for accountants, and known answers."""

    @pytest.fixture
    def dpa(self):
        if importlib.util.find_spec("dp_accounting") is None:
            pytest.skip("dp_accounting is not installed")
        import dp_accounting

        return dp_accounting

    @pytest.fixture
    def ours(self, dpa):
        from ndis.interop import dp_accounting

        return dp_accounting

    def accountants(self, dpa, ours):
        relation = dpa.NeighboringRelation
        return [ours.ExactAccountant(), *(ours.ExactAccountant(r) for r in relation)]

    def test_unsupported(self, dpa, ours):
        class Unknown(dpa.DpEvent):
            pass

        for bad in (dpa.UnsupportedDpEvent(), Unknown(), dpa.LaplaceDpEvent(1.0)):
            for event in (bad, dpa.ComposedDpEvent([bad]), dpa.SelfComposedDpEvent(bad, 10)):
                for accountant in self.accountants(dpa, ours):
                    error = accountant._maybe_compose(event, count=1, do_compose=False)
                    assert error.invalid_event == bad
                    assert not accountant.supports(event)
                    with pytest.raises(dpa.UnsupportedEventError, match="caused by subevent"):
                        accountant.compose(event)
                with pytest.raises(ParameterError, match=r"^event must have an exact Gaussian profile"):
                    ours.from_event(event)

    def test_nothing(self, dpa, ours):
        for accountant in self.accountants(dpa, ours):
            for _ in range(2):
                assert [accountant.get_epsilon(d) for d in (1e-12, 0, 1)] == [0, 0, 0]
                assert [accountant.get_delta(e) for e in (1e-12, 0, math.inf)] == [0, 0, 0]
                assert accountant.supports(dpa.NoOpDpEvent())
                accountant.compose(dpa.NoOpDpEvent())
        assert ours.from_event(dpa.NoOpDpEvent()).delta(0.0) == 0.0

    def test_non_private(self, dpa, ours):
        bare = dpa.NonPrivateDpEvent()
        for event in (
            bare,
            dpa.ComposedDpEvent([bare]),
            dpa.ComposedDpEvent([dpa.NoOpDpEvent(), dpa.GaussianDpEvent(1.0), bare]),
            dpa.SelfComposedDpEvent(bare, 10),
            dpa.GaussianDpEvent(0.0),
        ):
            for accountant in self.accountants(dpa, ours):
                assert accountant.supports(event)
                accountant.compose(event)
                assert [accountant.get_epsilon(d) for d in (0.99, 0, 1)] == [math.inf] * 3
                assert [accountant.get_delta(e) for e in (100, 0, math.inf)] == [1, 1, 1]

    def test_the_battery_itself(self, dpa, ours):
        """Where the source distribution of the library lies beside the package, its own battery runs."""
        battery = pytest.importorskip("dp_accounting.privacy_accountant_test", reason="not part of the wheel")
        import unittest

        class Battery(battery.PrivacyAccountantTest):
            def _make_test_accountants(self):
                return [ours.ExactAccountant(), ours.ExactAccountant(dpa.NeighboringRelation.REPLACE_ONE)]

        Battery.__unittest_skip__ = False
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(Battery)
        result = unittest.TestResult()
        suite.run(result)
        assert result.testsRun > 5
        assert result.wasSuccessful()

    def test_gaussians_compose(self, dpa, ours):
        event = dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 3)])
        accountant = ours.ExactAccountant(dpa.NeighboringRelation.REPLACE_ONE).compose(event)
        assert accountant.get_epsilon(1e-6) == pytest.approx(PrivacyProfile.from_noise_multiplier(0.5).epsilon(1e-6))
        assert accountant.get_epsilon(0) == math.inf
        assert accountant.get_epsilon(1) == 0
        assert accountant.get_delta(math.inf) == 0

    def test_dp_sgd(self, dpa, ours):
        step = dpa.PoissonSampledDpEvent(256 / 60000, dpa.GaussianDpEvent(1.1))
        accountant = ours.ExactAccountant()
        for count in (10000, 4000, 62):
            accountant.compose(step, count)
        epsilon = accountant.get_epsilon(1e-5)
        assert epsilon == pytest.approx(2.38159692, rel=3e-9)
        peer = dpa.pld.PLDAccountant().compose(step, 14062)
        assert peer.get_epsilon(1e-5) == pytest.approx(epsilon, rel=1e-4)
        assert peer.get_epsilon(1e-5) >= epsilon * (1 - 1e-9)
        assert accountant.get_delta(epsilon) <= 1e-5
        assert dpa.rdp.RdpAccountant().compose(step, 14062).get_epsilon(1e-5) > epsilon

    def test_samples(self, dpa, ours):
        gaussian = dpa.GaussianDpEvent(1.0)
        for event, truth in (
            (dpa.PoissonSampledDpEvent(0.0, gaussian), None),
            (dpa.PoissonSampledDpEvent(1.0, gaussian), PrivacyProfile.from_noise_multiplier(1.0)),
            (
                dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(gaussian, 4)),
                PrivacyProfile.from_noise_multiplier(0.5).subsampled(0.1),
            ),
        ):
            found = ours.ExactAccountant().compose(event).get_delta(0.3)
            assert found == (0.0 if truth is None else pytest.approx(truth.delta(0.3), rel=1e-12))
        step = dpa.PoissonSampledDpEvent(0.1, gaussian)
        assert not ours.ExactAccountant().supports(dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(step, 2)))
        several = dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(gaussian, 4))
        assert not ours.ExactAccountant(dpa.NeighboringRelation.REPLACE_ONE).supports(several)
        with pytest.raises(ParameterError, match=r"^target_delta must lie between 0 and 1"):
            ours.ExactAccountant().compose(step).get_epsilon(-1e-5)

    @pytest.mark.parametrize(
        "profile",
        [
            PrivacyProfile(ndis.GaussianPair.from_ratios(1.1, copies=10)),
            PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1).repeat(30),
        ],
    )
    def test_loss_distributions_compose(self, dpa, ours, profile):
        pld = ours.to_pld(profile, discretization=2e-3)
        twice = pld.compose(pld)
        truth = profile.compose(profile).epsilon(1e-6)
        assert truth <= twice.get_epsilon_for_delta(1e-6) <= truth * (1 + 1e-3)

    def test_loss_distributions_need_a_grid(self, dpa, ours):
        profile = PrivacyProfile.from_noise_multiplier(1.0)
        for bad in (0.0, -1.0, 1e-12):
            with pytest.raises(ParameterError, match=r"^discretization must "):
                ours.to_pld(profile, discretization=bad)
        np.testing.assert_allclose(ours.to_pld(profile).get_delta_for_epsilon(1.0), profile.delta(1.0), rtol=1e-6)
