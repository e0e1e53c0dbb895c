"""A training loop is convicted only by data that show it, proved only by a theorem, and otherwise left open."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import ndis
from helpers.pages import text_of
from ndis.auditing import AuditReport, Claim, TrainingLoop, audit_training
from ndis.errors import ParameterError

POISSON: dict[str, Any] = {"sampler": "poisson", "noise_multiplier": 1.0, "sampling_rate": 0.01, "steps": 1000}
SIZES: dict[str, Any] = {"records": 60_000, "batch_size": 250, "noise_multiplier": 1.0}
TOLD = ((1.0, 0.01, 1000),)


def verdict(claim: Claim | None = None, **loop: Any) -> str:
    return audit_training(TrainingLoop(**loop), claim).verdict


def names(claim: Claim | None = None, **loop: Any) -> list[str]:
    return [one.name for one in audit_training(TrainingLoop(**loop), claim).findings]


# ---------------------------------------------------------------------- a normaliser that depends on the data


@pytest.mark.parametrize(
    ("records", "batch_size", "parameters", "claimed", "true"),
    [
        (60_000, 250, 26_010, 0.06567, 9.135),
        (50_000, 500, 550_570, 0.19945, 100.69),
        (60_000, 250, 10**9, 0.06567, 66_406),
    ],
)
def test_private_records_in_the_normaliser_are_priced(records, batch_size, parameters, claimed, true):
    """The width of the noise differs in every parameter: two Gaussians with another covariance (thm:loop-pairs)."""
    loop = TrainingLoop(
        sampler="poisson",
        noise_multiplier=1.0,
        steps=1,
        records=records,
        batch_size=batch_size,
        parameters=parameters,
        normaliser="opacus",
        public=(),
        history=((1.0, batch_size / records, 1),),
    )
    report = audit_training(loop)
    assert report.verdict == "refuted"
    assert report.epsilon_guaranteed is None
    assert report.claim.epsilon == pytest.approx(claimed, rel=1e-4)
    assert report.epsilon_refuted == pytest.approx(true, rel=1e-4)
    assert report.audit is not None
    assert report.audit.witness is not None
    assert report.audit.witness.recheck().lower > report.claim.delta
    assert report.audit.witness.pair is not None
    assert report.audit.witness.pair.dimension == parameters
    assert [(one.name, one.verdict) for one in report.findings] == [
        ("normaliser", "refuted"),
        ("rate", "no guarantee known"),
    ]


def test_a_public_number_of_records_is_no_fault():
    loop: dict[str, Any] = {**SIZES, "sampler": "poisson", "steps": 240, "parameters": 10**6, "normaliser": "opacus"}
    assert verdict(**loop, history=((1.0, 1 / 240, 240),)) == "sound"
    assert verdict(Claim(0.5, 1e-5), **loop, public=()) == "refuted"
    assert verdict(Claim(0.4, 1e-5, "replace-one"), **loop, public=()) != "refuted"  # replacing keeps their number


def test_the_divisor_is_computed_as_opacus_does():
    """49 batches of one record: 49 · (1/49) is 0.999… in floats, and Opacus would divide by 0 there."""
    loop = TrainingLoop(
        sampler="shuffled", noise_multiplier=1.0, steps=49, records=49, batch_size=1, normaliser="opacus", public=()
    )
    assert audit_training(loop, Claim(1.0, 1e-5)).verdict == "no guarantee known"


def test_without_the_batch_size_nothing_convicts():
    """Another batch size, or a last batch that was dropped, gives as many batches and other divisors."""
    loop: dict[str, Any] = {"sampler": "poisson", "noise_multiplier": 1.0, "steps": 1, "parameters": 10**6}
    loop |= {"normaliser": "opacus", "public": (), "records": 60_000}
    assert verdict(Claim(0.1, 1e-5), **loop, batches=240) == "no guarantee known"
    assert verdict(Claim(0.1, 1e-5), **loop, batches=240, batch_size=200) == "no guarantee known"  # that gives 300
    assert verdict(Claim(0.1, 1e-5), **loop, batches=240, batch_size=250) == "refuted"


def test_a_dropped_batch_changes_the_divisor_elsewhere():
    """With 240 full batches of 250 the divisor stays 250 up to 60,239 records; the pair is where the count changes."""
    loop: dict[str, Any] = {**SIZES, "sampler": "poisson", "steps": 1, "parameters": 10**6, "normaliser": "opacus"}
    report = audit_training(TrainingLoop(**loop, drop_last=True, public=()), Claim(0.1, 1e-5))
    assert report.verdict == "refuted"
    assert "60,000 and 59,999 records" in report.audit.witness.neighbours  # type: ignore[union-attr]
    assert "divided by 250 and by 251" in report.audit.witness.neighbours  # type: ignore[union-attr]


def test_records_as_the_divisor():
    loop: dict[str, Any] = {"sampler": "full-batch", "noise_multiplier": 4.0, "steps": 1, "records": 1000, "public": ()}
    for normaliser in ("records", "batch"):
        report = audit_training(TrainingLoop(**loop, normaliser=normaliser, parameters=10**6), Claim(1.0, 1e-5))
        assert report.verdict == "refuted"
        pair = ndis.GaussianPair.from_excess((999 / 1000) ** 2 - 1, copies=10**6)
        assert report.epsilon_refuted == pytest.approx(ndis.PrivacyProfile(pair).epsilon(1e-5), rel=1e-6)
    assert verdict(Claim(2.0, 1e-5), **loop) == "sound"


# ---------------------------------------------------------------------- numbers that do not agree


def test_noise_without_the_clipping_norm():
    """The noise is 1 although the clipping norm is 2: a noise multiplier of 0.5."""
    loop: dict[str, Any] = {**POISSON, "noise_multiplier": None, "noise_std": 1.0}
    assert verdict(**loop, history=TOLD) == "sound"
    report = audit_training(TrainingLoop(**loop, clipping_norm=2.0, history=TOLD))
    assert report.verdict == "refuted"
    assert [one.name for one in report.findings] == ["noise"]
    assert report.epsilon_guaranteed == pytest.approx(
        ndis.DPSGD(noise_multiplier=0.5, sampling_rate=0.01, steps=1000).epsilon(1e-5), rel=1e-5
    )


def test_several_epochs_with_one_step_of_the_accountant():
    assert verdict(**POISSON, history=((1.0, 0.01, 1),)) == "refuted"
    assert names(**POISSON, history=((1.0, 0.01, 1),)) == ["steps"]


def test_a_rate_above_the_accounted_one():
    assert verdict(**POISSON, history=((1.0, 0.001, 1000),)) == "refuted"
    assert names(**POISSON, history=((1.0, 0.001, 1000),)) == ["rate"]


def test_noise_for_each_part_of_a_batch():
    """Four parts with half the noise each have the noise of one batch; four parts with a quarter have too little."""
    half = {**POISSON, "noise_multiplier": 0.5, "micro_batches": 4, "history": TOLD}
    assert verdict(**half) == "sound"
    assert verdict(**{**half, "noise_multiplier": 0.25}) == "refuted"


@pytest.mark.parametrize(("clipping", "expected"), [("none", "refuted"), ("batch", "refuted"), ("adaptive", None)])
def test_clipping(clipping, expected):
    loop: dict[str, Any] = {"sampler": "full-batch", "noise_multiplier": 4.0, "steps": 1, "clipping": clipping}
    told = ((4.0, 1.0, 1),)
    assert verdict(**loop, history=told) == (expected or "no guarantee known")
    assert names(**loop, history=told)[0] == "clipping"
    sampled = audit_training(TrainingLoop(**{**POISSON, "clipping": clipping}, history=TOLD))
    assert sampled.verdict == ("refuted" if clipping == "none" else "no guarantee known")


# ---------------------------------------------------------------------- batches that are no Poisson samples


def test_batches_in_order_amplify_nothing():
    report = audit_training(TrainingLoop(**SIZES, sampler="sequential", steps=480, history=((1.0, 1 / 240, 480),)))
    two = ndis.PrivacyProfile.from_noise_multiplier(2**-0.5)
    assert report.verdict == "refuted"
    assert report.epsilon_refuted == pytest.approx(two.epsilon(1e-5), rel=1e-6)
    assert report.epsilon_guaranteed == pytest.approx(two.epsilon(1e-5), rel=1e-6)


def test_a_dropped_batch_lets_a_new_record_push_another_out():
    loop: dict[str, Any] = {**SIZES, "sampler": "sequential", "steps": 240, "public": ()}
    kept, dropped = (audit_training(TrainingLoop(**loop, drop_last=d), Claim(0.1, 1e-5)) for d in (False, True))
    assert [one.name for one in dropped.findings] == ["last batch"]
    assert dropped.epsilon_refuted == pytest.approx(
        ndis.PrivacyProfile.from_noise_multiplier(0.5).epsilon(1e-5), rel=1e-6
    )
    assert kept.epsilon_refuted < dropped.epsilon_refuted
    assert kept.epsilon_guaranteed is None


def test_fixed_sizes_move_a_sum_twice():
    """RdpAccountant of dp_accounting says 2.646 (google/differential-privacy#378)."""
    loop: dict[str, Any] = {"sampler": "fixed-size", "noise_multiplier": 1.0, "records": 1000, "batch_size": 16}
    claim = Claim(2.646, 1e-6, "replace-one")
    report = audit_training(TrainingLoop(**loop, steps=128, history=((1.0, 0.016, 128),)), claim)
    assert report.verdict == "refuted"
    assert report.epsilon_refuted > 10.8
    assert report.epsilon_guaranteed == pytest.approx(11.25, abs=0.001)
    assert [one.name for one in report.findings] == ["sampler", "neighbours"]
    assert {one.verdict for one in report.findings} == {"refuted"}


@pytest.mark.parametrize("sampler", ["weighted", pytest.param("with-replacement", marks=pytest.mark.sweep), "unknown"])
def test_samplers_without_a_theorem_are_denied(sampler):
    report = audit_training(TrainingLoop(**SIZES, sampler=sampler, steps=240, history=((1.0, 1 / 240, 240),)))
    assert report.verdict != "sound"
    assert report.epsilon_guaranteed is None
    assert report.findings[0].name == "sampler"


def test_shuffled_batches_are_a_random_allocation():
    """One record of a shuffled pass is in one of t full batches (thm:loop-pairs), which Poisson sampling is not."""
    loop: dict[str, Any] = {"sampler": "shuffled", "noise_multiplier": 0.5, "records": 1000, "batch_size": 100}
    poisson = ndis.DPSGD(noise_multiplier=0.5, sampling_rate=0.1, steps=10)
    claim = Claim(0.3, 0.29)  # δ is 0.270 for Poisson samples and 0.328 for an allocation
    assert poisson.delta(0.3) < claim.delta
    for public in (("records",), ()):
        assert verdict(claim, **loop, steps=10, public=public) == "refuted"
    assert verdict(claim, **{**loop, "records": 1001}, steps=11) == "no guarantee known"  # the last batch is not full
    replaced = audit_training(
        TrainingLoop(**{**loop, "noise_multiplier": 2.0}, steps=20), Claim(1.0, 1e-5, "replace-one")
    )
    law = ndis.PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10, epochs=2)
    assert replaced.verdict == "refuted"
    assert replaced.epsilon_refuted == pytest.approx(law.epsilon(1e-5), rel=1e-3)


def test_a_random_allocation_has_its_own_law():
    loop: dict[str, Any] = {"sampler": "allocation", "noise_multiplier": 1.0, "batches": 10, "steps": 20, "public": ()}
    law = ndis.PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=10, epochs=2)
    assert verdict(Claim(1.01 * law.epsilon(1e-5), 1e-5), **loop) == "sound"
    assert verdict(Claim(0.98 * law.epsilon(1e-5), 1e-5), **loop) == "refuted"
    sizes = {**loop, "batches": None, "records": 1000, "batch_size": 100}  # the number of batches depends on a record
    assert verdict(Claim(1.01 * law.epsilon(1e-5), 1e-5), **sizes) == "no guarantee known"
    with pytest.raises(ParameterError, match="batches must be known for sampler 'allocation'"):
        TrainingLoop(**{**loop, "batches": None})


def test_a_heavy_record_is_denied():
    """One record may have half of all weight, and be drawn several times: no law here is about such batches."""
    loop: dict[str, Any] = {"noise_multiplier": 4.0, "batch_size": 16, "steps": 1, "records": 100}
    for sampler in ("weighted", "with-replacement"):
        assert verdict(Claim(0.1, 1e-5), **loop, sampler=sampler) == "no guarantee known"
        assert verdict(Claim(5.0, 1e-5), **loop, sampler=sampler) == "no guarantee known"


def test_a_replaced_record_under_poisson_sampling_has_an_exact_law():
    claim = Claim(0.1, 1e-5, "replace-one")
    report = audit_training(TrainingLoop(**POISSON), claim)
    assert report.verdict == "refuted"  # by a record that turns into one without a gradient
    assert report.epsilon_refuted == pytest.approx(1.828236, rel=1e-5)
    assert report.epsilon_guaranteed == pytest.approx(2.84344, rel=1e-5)


# ---------------------------------------------------------------------- the report


def test_a_report_as_plain_values():
    report = audit_training(TrainingLoop(**POISSON, history=((1.0, 0.001, 1000),)))
    plain = json.loads(report.to_json())
    again = AuditReport.from_dict(plain["audit"])
    assert again.refuted
    assert again.witness is not None
    assert again.witness.recheck().lower > 1e-5
    assert plain["verdict"] == "refuted"
    assert plain["loop"]["steps"] == 1000
    assert plain["findings"][0]["repair"] == "account with the rate 0.01"
    assert "repair: account with the rate 0.01" in str(report)


def test_the_page_of_a_proved_loop_names_the_theorem():
    report = audit_training(TrainingLoop(**POISSON), Claim(2.0, 1e-5))
    assert report.audit is not None
    assert report.audit.proof is not None
    assert report.audit.proof.theorem == "thm:loop-guarantee"
    assert "Theorem" in report.audit.to_html() or "thm:loop-guarantee" in report.audit.to_html()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sampler": "poison"}, "sampler must be .poisson., "),
        ({"noise_std": 1.0}, "noise_multiplier, noise_std or schedule must be given, one of them"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier must"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"sampling_rate": 1.5}, "sampling_rate must be above 0 and at most 1"),
        ({"sampling_rate": None}, "sampling_rate must be known"),
        ({"sampler": "shuffled"}, "batch_size and records must be known"),
        ({"public": ("names",)}, "public must hold some of"),
        ({"history": ((1.0, 2.0, 3),)}, "sampling_rate must be above 0"),
        ({"drop_last": 1}, "drop_last must be true or false"),
        ({"adjacency": "both"}, "adjacency must be"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises(ParameterError, match=message):
        TrainingLoop(**{**POISSON, **wrong})


def test_a_claim_is_needed():
    with pytest.raises(ParameterError, match="claim must be given if the loop states no history; got none"):
        audit_training(TrainingLoop(**POISSON))


def test_every_verdict_but_sound_has_a_finding():
    """A claim between what some data need and what theorems give is neither proved nor refuted."""
    loop = TrainingLoop(sampler="shuffled", noise_multiplier=1.0, records=50_000, batch_size=250, steps=2000)
    report = audit_training(loop, Claim(1.2081, 1e-5))
    assert report.verdict == "no guarantee known"
    assert [finding.name for finding in report.findings] == ["claim"]
    assert report.epsilon_guaranteed > 1.2081


@pytest.mark.parametrize(("sampler", "words"), [("sequential", "ε = 6.573"), ("never-empty", "no ε at all")])
def test_a_page_of_a_loop_says_what_is_proved(sampler, words):
    loop = TrainingLoop(
        sampler=sampler, noise_multiplier=1.0, records=60_000, batch_size=250, steps=480, history=[(1.0, 1 / 240, 480)]
    )
    page = text_of(audit_training(loop).audit.to_html())
    assert re.search(f"What theorems prove for all data is {words}[^;]*; the claim says ε = 0.51[0-9]* there", page)


@pytest.mark.parametrize("name", ["steps", "micro_batches", "parameters", "clipping_norm"])
def test_a_number_that_every_loop_has_is_not_left_open(name):
    stated = {"sampler": "poisson", "noise_multiplier": 1.0, "sampling_rate": 0.01, "steps": 10, name: None}
    with pytest.raises(ParameterError, match=name):
        TrainingLoop(**stated)
