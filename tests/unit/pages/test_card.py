"""A risk card holds safe numbers; its page and its JSON show the same ones."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from scipy.special import ndtr, ndtri

import ndis
from helpers.pages import text_of
from ndis.cli import app
from ndis.errors import ParameterError
from ndis.pages.card import RiskCard

GAUSS = ndis.PrivacyProfile.from_noise_multiplier(2.0)
SKETCH = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))


@pytest.fixture(scope="module")
def card() -> RiskCard:
    return GAUSS.report(1e-6, title="A sum <b>")


def test_numbers_of_a_gaussian(card):
    """Two Gaussians at distance ½ have closed forms."""
    assert card.mu == 0.5
    assert card.epsilon == GAUSS.epsilon(1e-6)
    assert card.advantage == pytest.approx(2 * ndtr(0.25) - 1, rel=1e-9)
    assert card.guesses == pytest.approx(ndtr(0.25), rel=1e-9)
    assert card.guesses >= ndtr(0.25) * (1 - 1e-15)
    for level, power in card.attacks:
        assert power == pytest.approx(ndtr(ndtri(level) + 0.5), rel=1e-6)
        assert power >= ndtr(ndtri(level) + 0.5) * (1 - 1e-12)
    assert [level for level, _ in card.attacks] == [10.0**-k for k in range(2, 13)]


def test_groups(card):
    """thm:gaussian-groups: k people are two Gaussians at distance k μ; Poisson samples have their own law."""
    for size, epsilon in card.groups:
        assert epsilon == pytest.approx(ndis.PrivacyProfile.from_noise_multiplier(2.0 / size).epsilon(1e-6), rel=1e-9)
    run = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=100).profile()
    assert dict(run.report(1e-6, groups=(2,)).groups)[2] == pytest.approx(1.970757, rel=1e-6)


def test_groups_of_any_profile():
    """(ε, δ') for one gives (k ε, δ' (e^(kε) − 1)/(e^ε − 1)) for k."""
    ((size, epsilon),) = SKETCH.report(1e-6, groups=(3,)).groups
    one = epsilon / size
    assert SKETCH.delta(one) * (math.exp(2 * one) + math.exp(one) + 1) <= 1e-6
    assert epsilon < 3.0 * SKETCH.epsilon(1e-9)
    loud = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0, copies=1000))
    assert loud.report(1e-6, groups=(50,)).groups == ((50, math.inf),)


def test_deployments_have_sources_and_one_delta_each(card):
    for one in card.deployments:
        assert one["source"]
        assert one["unit"]
        assert one["own_epsilon"] == GAUSS.epsilon(one["delta"] or 1e-10)


def test_json_and_page_agree(card, tmp_path):
    plain = json.loads(card.to_json())
    assert plain["epsilon"] == card.epsilon
    assert len(plain["attacks"]) == 11
    page = card.to_html()
    assert "<script" not in page
    assert "A sum &lt;b&gt;" in page
    assert "59.88" in page  # 100 Φ(¼), rounded up
    for ending in ("html", "json"):
        card.save(tmp_path / f"card.{ending}")
    assert (tmp_path / "card.html").read_text() == page
    with pytest.raises(ParameterError, match=r"path must end in \.html or \.json"):
        card.save(tmp_path / "card.txt")


def test_a_guarantee_of_nothing_is_written_as_such():
    lost = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0, copies=5), failure_probability=1e-3)
    card = lost.report(1e-6, groups=(2,))
    assert card.epsilon == math.inf
    assert json.loads(card.to_json())["epsilon"] == "infinity"
    assert "infinity" in card.to_html()


class TestCommand:
    def run(self, *words):
        return CliRunner().invoke(app, ["risk", *map(str, words)])

    def test_options_and_files(self, tmp_path):
        done = self.run("--noise-multiplier", 2, "--delta", 1e-6, "--group", 3, "-o", tmp_path / "card.html")
        assert done.exit_code == 0, done.output
        assert "ε = 2.255 at δ = 10⁻⁶" in done.stdout
        assert "group of 3" in done.stdout
        assert "Risk card" in (tmp_path / "card.html").read_text()
        (tmp_path / "profile.json").write_text(GAUSS.to_json())
        again = json.loads(self.run(tmp_path / "profile.json", "--json").stdout)
        assert again["epsilon"] == GAUSS.epsilon(1e-6)

    def test_a_schedule_and_a_picture(self, tmp_path):
        run = ndis.DPSGD(noise_multiplier=2.0, sampling_rate=0.01, steps=1000)
        (tmp_path / "run.json").write_text(run.to_json())
        done = self.run(tmp_path / "run.json", "-o", tmp_path / "card.svg", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["epsilon"] == run.epsilon(1e-6)
        assert (tmp_path / "card.svg").read_text().startswith("<?xml")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((), "input must be FILE or --noise-multiplier; got neither"),
            (("--noise-multiplier", 0), "--noise-multiplier must"),
            (("--noise-multiplier", 1, "--delta", 2), "--delta must lie strictly between 0 and 1"),
            (("--noise-multiplier", 1, "-o", "card.txt"), "-o must end in .html, .json, .png, .svg or .pdf"),
        ],
    )
    def test_refusals(self, words, message):
        done = self.run("--title", "x", *words)
        assert done.exit_code == 2
        assert message in done.stderr


@pytest.mark.parametrize(
    ("noise", "box", "words"),
    [
        (8.0, "proved", "Strong protection: one record makes no result more than 1."),
        (2.0, "open", "Reasonable protection: one record makes no result more than "),
        (0.3, "refuted", "Weak protection: one record makes no result more than "),
    ],
)
def test_the_card_says_how_much_a_guarantee_is_and_what_to_do(noise, box, words):
    page = ndis.PrivacyProfile.from_noise_multiplier(noise).report(1e-5).to_html()
    assert f'<section class="verdict {box}">' in page
    assert words in text_of(page)
    assert "Scale: strong (ε up to 1) · reasonable (ε up to 10) · weak (a larger ε)" in text_of(page)
    assert ("Do not rely on this guarantee to protect anybody." in page) == (box == "refuted")
