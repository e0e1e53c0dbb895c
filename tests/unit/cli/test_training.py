"""`ndis audit-training`: verdicts as exit codes, JSON with the certificate, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ndis.cli import app

SOUND = """
sampler = "poisson"
noise_multiplier = 2.0
sampling_rate = 0.01
steps = 100
history = [[2.0, 0.01, 100]]
"""
ORDER = """
sampler = "sequential"
noise_multiplier = 1.0
records = 1000
batch_size = 100
steps = 10
history = [[1.0, 0.1, 10]]
"""
OPEN = 'sampler = "unknown"\nnoise_multiplier = 1.0\nsteps = 10\nclaim = {epsilon = 1.0, delta = 1e-5}\n'


def run(folder: Path, text: str, *options: str, name: str = "loop.toml") -> Any:
    (folder / name).write_text(text)
    return CliRunner().invoke(app, ["audit-training", str(folder / name), *options])


@pytest.mark.parametrize(
    ("text", "status", "verdict"), [(SOUND, 0, "sound"), (ORDER, 1, "refuted"), (OPEN, 3, "no guarantee known")]
)
def test_verdicts_are_exit_codes(tmp_path, text, status, verdict):
    done = run(tmp_path, text)
    assert done.exit_code == status, done.output
    assert f"verdict: {verdict}\n" in done.stdout
    assert ("repair: " in done.stdout) == (status > 0)


def test_json_holds_the_certificate_that_report_checks(tmp_path):
    done = run(tmp_path, ORDER, "--json", "--report", str(tmp_path / "audit.html"))
    plain = json.loads(done.stdout)
    assert (done.exit_code, plain["verdict"]) == (1, "refuted")
    assert plain["findings"][0]["name"] == "sampler"
    (tmp_path / "audit.json").write_text(json.dumps(plain["audit"]))
    assert CliRunner().invoke(app, ["report", str(tmp_path / "audit.json")]).exit_code == 1
    page = (tmp_path / "audit.html").read_text()
    assert "The claim is false" in page
    assert "draw Poisson samples" in page


def test_the_page_of_a_loop_without_a_guarantee_passes_no_gate(tmp_path):
    shuffled = ORDER.replace("sequential", "shuffled")
    assert run(tmp_path, shuffled, "--report", str(tmp_path / "audit.html")).exit_code == 3
    again = CliRunner().invoke(app, ["report", str(tmp_path / "audit.html")])
    assert again.exit_code == 3, again.output
    page = (tmp_path / "audit.html").read_text()
    assert "No guarantee is known: no theorem proves the claim" in page


def test_json_in_and_a_claim_of_its_own(tmp_path):
    loop = {"sampler": "poisson", "noise_multiplier": 2.0, "sampling_rate": 0.01, "steps": 100}
    claim = {"epsilon": 0.01, "delta": 1e-5, "adjacency": "add-remove"}
    assert run(tmp_path, json.dumps({**loop, "claim": claim}), name="loop.json").exit_code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 1", "file must have the keys sampler"),
        (SOUND + "claims = 1", "file must have only the keys"),
        (SOUND.replace("poisson", "random"), "sampler must be 'poisson'"),
        (SOUND.replace("0.01", "1.5"), "sampling_rate must be above 0 and at most 1"),
        (SOUND + "claim = {alpha = 1}", "claim must have only the keys"),
        (SOUND + "claim = {delta = 2.0}", "delta must lie strictly between 0 and 1"),
        ("sampler = ", "file must be valid TOML"),
        (SOUND + "public = 2", "public must be a list"),
        (SOUND.replace("[[2.0, 0.01, 100]]", "7"), "history must be a list"),
    ],
)
def test_refusals(tmp_path, text, message):
    done = run(tmp_path, text)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_report_that_cannot_be_written_is_refused_first(tmp_path):
    assert run(tmp_path, SOUND, "--report", "audit.pdf").exit_code == 2
