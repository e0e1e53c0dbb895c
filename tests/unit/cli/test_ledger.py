"""`ndis ledger create | show | verify | export`, and the options --ledger and --slot."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

import ndis
from ndis.cli import app
from ndis.learn._ridge import sketching

SLOTS = """
[slots.weekly]
count = 4
noise_multiplier = 8.0

[slots.sketch]
count = 1
[slots.sketch.sketch]
epsilon = 0.5
delta = 1e-7
sketch_size = 20
row_norm_bound = 1.0

[slots.regress]
count = 1
profile = "regress.json"
"""
SKETCH = ["--epsilon", "0.5", "--delta", "1e-7", "--sketch-size", "20", "--row-norm-bound", "1", "--header"]


def call(*words, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.output


@pytest.fixture
def place(tmp_path):
    (tmp_path / "slots.toml").write_text(SLOTS)
    (tmp_path / "data.csv").write_text("a,b\n" + "\n".join(f"0.{k},0.{9 - k}" for k in range(10)) + "\n")
    model = ndis.learn.PrivateRidge(
        epsilon=0.5, delta=1e-7, row_norm_bound=1.0, target_bound=1.0, sketch_size=20, adjacency="add-remove"
    )
    mechanism = sketching(model, columns=3, row_norm_bound=1.0, target_bound=0.75, intercept=0.5)
    (tmp_path / "regress.json").write_text(mechanism.profile().to_json())
    call(
        *("ledger", "create", tmp_path / "b.ledger", "--epsilon", 4, "--delta", "1e-6"),
        *("--data-name", "visits", "--plan", tmp_path / "slots.toml"),
    )
    return tmp_path


def test_a_ledger_pays_for_commands_until_it_is_empty(place):
    ledger = place / "b.ledger"
    pay = ["--ledger", ledger, "--slot"]
    call("sketch", place / "data.csv", *SKETCH, "-o", place / "out", *pay, "sketch")
    said = call("sketch", place / "data.csv", *SKETCH, "-o", place / "again", *pay, "sketch", status=2)
    assert "slot 'sketch' is used up" in said
    assert "left: 1 of 'regress', 4 of 'weekly'" in said
    assert not (place / "again").exists()
    regress = [
        "--header",
        "--target",
        "b",
        "--epsilon",
        "0.5",
        "--delta",
        "1e-7",
        "--row-norm-bound",
        "1",
        "--target-bound",
        "1",
    ]
    sketch = ("--method", "sketch", "--sketch-size", 20)
    call("regress", place / "data.csv", *regress, *sketch, *pay, "regress", "-o", place / "r.json")
    shown = json.loads(call("ledger", "show", ledger, "--json"))
    assert shown["remaining"] == {"regress": 0, "sketch": 0, "weekly": 4}
    assert (shown["data_name"], shown["entries"]) == ("visits", 4)
    assert "left: weekly" in call("ledger", "show", ledger)
    receipts = ["--receipt", place / "out" / "receipt.json", "--receipt", place / "r.json"]
    assert "4 entries fit together, 2 receipts among them" in call("ledger", "verify", ledger, *receipts)


def test_show_lists_what_was_released_for_whom_and_what_for(place):
    ledger = place / "b.ledger"
    words = ("--ledger", ledger, "--slot", "sketch", "--by", "team\x1b[2J", "--purpose", "monthly report")
    call("sketch", place / "data.csv", *SKETCH, "-o", place / "out", *words)
    said = call("ledger", "show", ledger)
    assert "entry 1" in said
    assert "purpose monthly report" in said
    assert "by team\\x1b[2J" in said
    assert "state released" in said
    assert "not released" not in said
    release = json.loads(call("ledger", "show", ledger, "--json"))["releases"][0]
    assert (release["slot"], release["purpose"]) == ("sketch", "monthly report")
    assert (
        ndis.Ledger(ledger)
        .reserve("weekly", ndis.PrivacyProfile.from_noise_multiplier(8.0))
        .content["details"]
        .get("by")
        is None
    )  # the command has ended
    assert "not released: counts as spent; its process runs or was stopped" in call("ledger", "show", ledger)


def test_two_receipts_of_one_entry_prove_a_history_written_twice(place):
    ledger, old = place / "b.ledger", place / "old"
    shutil.copy(ledger, old)
    for name in ("one", "two"):
        shutil.copy(old, ledger)
        words = ("--ledger", ledger, "--slot", "sketch")
        call("sketch", place / "data.csv", *SKETCH, "-o", place / name, *words)
    one, two = (("--receipt", place / name / "receipt.json") for name in ("one", "two"))
    assert "2 entries fit together, 1 receipt among" in call("ledger", "verify", ledger, *two)
    assert "not the one that a receipt names" in call("ledger", "verify", ledger, *one, status=2)
    for both in ((*one, *two), (*two, *one)):
        assert "the history was written twice" in call("ledger", "verify", ledger, *both, status=2)


def test_an_anchor_finds_an_end_that_was_cut_off(place):
    ledger, old = place / "b.ledger", place / "old"
    call("ledger", "anchor", ledger, "-o", place / "empty.anchor")
    shutil.copy(ledger, old)
    call("sketch", place / "data.csv", *SKETCH, "-o", place / "out", "--ledger", ledger, "--slot", "sketch")
    call("ledger", "anchor", ledger, "-o", place / "later.anchor")
    head = call("ledger", "anchor", ledger).strip()
    kept = ("--receipt", place / "empty.anchor", "--receipt", place / "later.anchor", "--head", head)
    assert "2 entries fit together, 3 receipts" in call("ledger", "verify", ledger, *kept)
    shutil.copy(old, ledger)
    assert "0 entries fit together" in call("ledger", "verify", ledger)
    for told_by in (kept, ("--head", head)):
        assert "entry 2 of the ledger is missing" in call("ledger", "verify", ledger, *told_by, status=2)
    assert "must be NUMBER:DIGEST" in call("ledger", "verify", ledger, "--head", "2", status=2)
    other = ("--epsilon", 1, "--delta", "1e-6", "--data-name", "visits", "--kind", "shifts")
    call("ledger", "create", place / "other", *other)
    said = call("ledger", "verify", place / "other", "--receipt", place / "empty.anchor", status=2)
    assert "created with other values" in said


def test_reports_are_written_as_page_and_as_json(place):
    call("ledger", "export", place / "b.ledger", "-o", place / "b.html")
    call("ledger", "export", place / "b.ledger", "-o", place / "b.json")
    assert "Privacy budget of visits" in (place / "b.html").read_text()
    assert json.loads((place / "b.json").read_text())["epsilon"] == 4.0
    assert "end in .html or .json" in call("ledger", "export", place / "b.ledger", "-o", place / "b.txt", status=2)


def test_a_receipt_of_another_ledger_is_found(place):
    call("sketch", place / "data.csv", *SKETCH, "-o", place / "out", "--ledger", place / "b.ledger", "--slot", "sketch")
    call(
        "ledger",
        "create",
        place / "c.ledger",
        "--epsilon",
        1,
        "--delta",
        "1e-6",
        "--data-name",
        "x",
        "--kind",
        "shifts",
    )
    said = call("ledger", "verify", place / "c.ledger", "--receipt", place / "out" / "receipt.json", status=2)
    assert "a receipt names it" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[slots]", "at least one slot"),
        ("[slots.a]\nnoise_multiplier = 3.0", "have the keys count"),
        ("[slots.a]\ncount = 1", "have one of noise_multiplier, profile, sketch"),
        ("[slots.a]\ncount = 1\nnoise_multiplier = 3.0\nprofile = 'x'", "have one of"),
        ("[slots.a]\ncount = 0\nnoise_multiplier = 3.0", "count must be whole numbers of at least 1"),
        ("[slots.a]\ncount = 1\nsketch = 3", "be a JSON object"),
        ("slots = ", "be valid TOML"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "p.toml").write_text(text)
    said = call(
        *("ledger", "create", tmp_path / "x", "--epsilon", 1, "--delta", "1e-6", "--data-name", "d"),
        *("--plan", tmp_path / "p.toml"),
        status=2,
    )
    assert message in said
    assert not (tmp_path / "x").exists()


def test_a_slot_needs_a_ledger(place):
    said = call("sketch", place / "data.csv", *SKETCH, "-o", place / "o", "--slot", "a", status=2)
    assert "slot must come with a ledger" in said


def test_a_ledger_is_renewed_and_shows_the_total_of_all_periods(place):
    old, new = place / "b.ledger", place / "next.ledger"
    call("sketch", place / "data.csv", *SKETCH, "-o", place / "out", "--ledger", old, "--slot", "sketch")
    (place / "next.toml").write_text("[slots.weekly]\ncount = 2\nnoise_multiplier = 8.0\n")
    budget = ("--epsilon", 1.5, "--delta", "1e-6", "--plan", place / "next.toml")
    said = call("ledger", "renew", old, new, *budget)
    assert said.startswith("period 2; all periods together: epsilon = 5.5, delta = 2e-06")
    lines = dict(line.split("  ", 1) for line in call("ledger", "show", new).splitlines())
    values = {name.strip(): value.strip() for name, value in lines.items()}
    assert (values["all periods: epsilon"], values["all periods: delta"]) == ("5.5", "2e-06")
    assert 0 < float(values["left in epsilon"]) < 1.5
    call("ledger", "verify", old, "--head", values["renews"])
    words = call("ledger", "show", old)
    assert "it takes no more requests" in words
    shown = json.loads(call("ledger", "show", new, "--json"))
    assert shown["total"] == {"periods": 2, "epsilon": 5.5, "delta": 2e-06, "max_records": None}
    assert shown["renews"][0]["spent"]["used"] == {"sketch": 1}
    assert "was renewed" in call(
        *("count", place / "data.csv", "--header", "--noise-std", 8, "--delta", "1e-6"),
        *("--ledger", old, "--slot", "weekly"),
        status=2,
    )
    assert "renewed once" in call("ledger", "renew", old, place / "third.ledger", *budget, status=2)
    call("ledger", "export", new, "-o", place / "next.html")
    page = (place / "next.html").read_text(encoding="utf-8")
    words = page.replace("\xa0", " ").replace("&nbsp;", " ")
    assert "All 2 periods are together private with ε = 5.5 and δ = 2 × 10⁻⁶." in words


def test_no_command_writes_over_a_ledger_its_data_or_an_older_anchor(place, monkeypatch):
    monkeypatch.chdir(place)
    shutil.copy("b.ledger", "b.json")
    shutil.copy("b.ledger", "b.svg")
    (place / "link.json").symlink_to("b.ledger")
    call("ledger", "anchor", "b.ledger", "-o", "a1")
    profile = ndis.PrivacyProfile.from_noise_multiplier(8.0)
    (place / "p.json").write_text(profile.to_json())
    kept = {one.name: one.read_bytes() for one in place.iterdir()}
    count = ("count", "data.csv", "--header", "--noise-std", 8, "--delta", "1e-6", "--ledger", "b.ledger")
    for words in (
        ("ledger", "anchor", "b.ledger", "-o", "b.ledger"),
        ("ledger", "anchor", "b.ledger", "-o", "a1"),
        ("ledger", "export", "b.json", "-o", "b.json"),
        ("ledger", "export", "b.ledger", "-o", "link.json"),
        *((*count, "--slot", "weekly", "-o", target) for target in ("b.ledger", "data.csv", "link.json")),
        ("risk", "p.json", "-o", "p.json"),
        ("risk", "-o", "./p.json", "p.json"),
        ("risk", "p.json", "-o", "link.json"),
        ("curve", "--ratio", "2", "-o", "b.svg"),
    ):
        call(*words, status=2)
        assert {one.name: one.read_bytes() for one in place.iterdir()} == kept
    release = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).release(3.0)
    for target in ("link.json", "b.ledger", "p.json"):
        with pytest.raises(ndis.ParameterError, match="new file"):
            release.save(target)
    with pytest.raises(ndis.ParameterError, match="a database, as ledgers are"):
        profile.report(1e-6).save("link.json")
    assert {one.name: one.read_bytes() for one in place.iterdir()} == kept
