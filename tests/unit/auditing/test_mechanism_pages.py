"""What the pages about a mechanism say: its parameters, the claim as stated, and a repair that is true."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

import ndis
from helpers.pages import text_of
from ndis.mechanisms.mechanism import Attained

TRAINING = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
WORDS = "DPSGD with noise_multiplier = 1.1, sampling_rate = 0.00426667, steps = 14062"


@dataclass(frozen=True)
class Unknown:
    """A mechanism of somebody else: no theorem of the package is about it."""

    noise: float

    @property
    def adjacency(self):
        return "add-remove"

    def profile(self):
        return ndis.PrivacyProfile.from_noise_multiplier(self.noise)

    def attained(self):
        return (Attained("two data sets", self.profile()),)


def page_of(mechanism, epsilon, delta):
    report = ndis.audit(ndis.Claim(epsilon=epsilon, delta=delta), mechanism=mechanism)
    return report, text_of(report.to_html())


@pytest.fixture(scope="module")
def red():
    return page_of(TRAINING, 2.3, 1e-5)


@pytest.mark.parametrize(
    ("delta", "words"), [(1e-5, "10⁻⁵"), (0.001, "0.001"), (0.05, "0.05"), (1.23456e-5, "1.23456 × 10⁻⁵")]
)
def test_the_claim_is_printed_as_stated(delta, words):
    pairs = [ndis.GaussianPair.from_ratios(1.0, shift=3.0)]
    page = text_of(ndis.audit(ndis.Claim(epsilon=1.0, delta=delta), pairs=pairs).to_html())
    assert f"the claim says δ is at most {words}. In truth" in page


def test_a_red_page_names_the_parameters(red):
    report, page = red
    assert report.refuted
    assert f"The audited mechanism is {WORDS}." in page
    assert f"Mechanism {WORDS}" in page
    assert "sampling_rate=0.004266666666666667" in report.reproduce  # all digits


def test_a_red_page_offers_noise_that_makes_the_claim_true(red):
    page = red[1]
    (shown,) = re.findall(r"Raise noise_multiplier from 1\.1 to ([\d.]+): with all else unchanged", page)
    better = ndis.DPSGD(noise_multiplier=float(shown), sampling_rate=256 / 60000, steps=14062)
    assert better.profile().certify(2.3).upper <= 1e-5
    assert float(shown) < 1.13
    assert "unchanged the claim is then true for all neighbours" in page


def test_a_red_page_offers_an_epsilon_that_the_theorem_proves(red):
    report, page = red
    assert "may need more" not in page
    (shown,) = re.findall(r"claim ε = ([\d.]+) at δ = 10⁻⁵: thm:sampled-moment proves that claim", page)
    assert TRAINING.profile().certify(float(shown)).upper <= 1e-5
    assert float(shown) - report.epsilon_refuted < 0.001


def test_a_green_page_rounds_the_parameters_only():
    report, page = page_of(TRAINING, 2.39123456789, 1e-5)
    assert report.proved
    assert f"{WORDS} gives differential privacy with ε = 2.39123456789, δ = 10⁻⁵ (add-remove) on every" in page
    assert "The audited mechanism is" not in page
    assert report.proof.statement.startswith(WORDS)


def test_an_amber_page_names_the_parameters():
    report, page = page_of(Unknown(10 / 3), 3.0, 1e-5)
    assert not report.refuted
    assert not report.proved
    assert "The audited mechanism is Unknown with noise = 3.33333." in page


def test_schedules_get_no_single_noise_multiplier():
    schedule = ndis.DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 0.02, 500)])
    report, page = page_of(schedule, 1.0, 1e-5)
    assert report.refuted
    assert "DPSGD with stages = ((1, 0.01, 500), (1.4, 0.02, 500))" in page
    assert "Raise noise_multiplier" not in page


def test_the_factor_for_a_schedule_of_full_batches_covers_all_neighbours():
    stages = [(1.0, 1.0, 5), (2.0, 1.0, 5)]
    page = page_of(ndis.DPSGD.from_schedule(stages), 1.0, 1e-5)[1]
    (shown,) = re.findall(r"Multiply the noise of every stage by ([\d.]+): the claim is then true for all", page)
    better = ndis.DPSGD.from_schedule([(float(shown) * noise, rate, steps) for noise, rate, steps in stages])
    assert better.profile().certify(1.0).upper <= 1e-5
    assert "may need more" not in page


def test_algorithms_and_pairs_have_no_mechanism():
    report = ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[ndis.GaussianPair.from_ratios(1.0, shift=1.0)])
    assert report.mechanism == ""
    assert "Mechanism" not in text_of(report.to_html()).partition("How to read")[0]
