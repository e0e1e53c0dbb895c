"""Interrupting and resuming an audit, and running it on several processes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ndis.auditing import AddAdversarial, AddRandom, Claim, RemoveEach, audit
from ndis.errors import ParameterError

CLAIM = Claim(epsilon=1.0, delta=1e-6)
DATA = np.random.default_rng(0).standard_normal((30, 3))
RULES = [
    RemoveEach(),
    AddRandom(row_norm_bound=2.0, count=4),
    AddAdversarial(row_norm_bound=2.0, generations=3, offspring=4, starts=1),
]


def ridge(data):
    precision = data.T @ data + 3.0 * np.eye(data.shape[1])
    return np.linalg.solve(precision, data.sum(axis=0)), 20.0 * np.linalg.inv(precision)


class Interrupted:
    """`ridge`, until the power goes off."""

    __qualname__, __module__ = ridge.__qualname__, ridge.__module__

    def __init__(self, runs):
        self.runs = runs

    def __reduce__(self):
        return Interrupted, (0,)  # how often it ran is nothing the journal knows it by

    def __call__(self, data):
        self.runs -= 1
        if self.runs < 0:
            raise KeyboardInterrupt
        return ridge(data)


@pytest.fixture(scope="module")
def whole():
    return audit(CLAIM, algorithm=ridge, data=DATA, neighbours=RULES, random_state=3).to_json()


@pytest.mark.parametrize("runs", [2, 7, 31, 36, 50])
def test_an_interrupted_audit_goes_on_and_says_the_same(tmp_path, whole, runs):
    path = tmp_path / "audit.jsonl"
    with pytest.raises(KeyboardInterrupt):
        audit(CLAIM, algorithm=Interrupted(runs), data=DATA, neighbours=RULES, random_state=3, journal=path)
    done = len(path.read_text().splitlines()) - 1
    assert done == runs - 2  # two runs are of the data themselves
    counted = Interrupted(10_000)
    report = audit(CLAIM, algorithm=counted, data=DATA, neighbours=RULES, random_state=3, journal=path)
    assert report.to_json() == whole
    finished = Interrupted(10_000)
    assert (
        audit(CLAIM, algorithm=finished, data=DATA, neighbours=RULES, random_state=3, journal=path).to_json() == whole
    )
    assert 10_000 - finished.runs < 16  # the data, the neighbours that are certified, and a few to compare
    assert counted.runs <= finished.runs


def test_a_line_cut_short_is_done_again(tmp_path, whole):
    path = tmp_path / "audit.jsonl"
    audit(CLAIM, algorithm=ridge, data=DATA, neighbours=RULES, random_state=3, journal=path)
    text = path.read_bytes()
    for cut in (1, 10, len(text) - len(text.split(b"\n", 1)[0]) + 5):
        path.write_bytes(text[:-cut])
        report = audit(CLAIM, algorithm=ridge, data=DATA, neighbours=RULES, random_state=3, journal=path)
        assert report.to_json() == whole
        assert path.read_bytes() == text


def test_a_journal_of_another_audit_is_refused(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit(CLAIM, algorithm=ridge, data=DATA, journal=path)
    before = path.read_bytes()
    other = DATA.copy()
    other[3, 1] += 1e-9
    for claim, algorithm, data, more in (
        (Claim(1.0, 1e-7), ridge, DATA, {}),
        (CLAIM, ridge, other, {}),
        (CLAIM, ridge, DATA, {"random_state": 1}),
        (CLAIM, ridge, DATA, {"neighbours": AddRandom(row_norm_bound=1.0)}),
    ):
        with pytest.raises(ParameterError, match="belong to this audit"):
            audit(claim, algorithm=algorithm, data=data, journal=path, **more)
    assert path.read_bytes() == before

    def twice(data):
        mean, covariance = ridge(data)
        return 2 * mean, covariance

    twice.__qualname__ = "ridge"
    with pytest.raises(ParameterError, match="belong to this audit"):
        audit(CLAIM, algorithm=twice, data=DATA, journal=path)


def test_damage_and_other_files_are_refused(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit(CLAIM, algorithm=ridge, data=DATA, journal=path)
    lines = path.read_text().splitlines()
    swapped = json.loads(lines[2])
    swapped["name"] = "remove:29"
    for damaged in (
        [lines[0], "{", *lines[2:]],
        [lines[0], "[1]", *lines[2:]],
        [lines[0], lines[1], json.dumps(swapped), *lines[3:]],
        ['{"format": "something else"}'],
        ["not json"],
    ):
        path.write_text("\n".join(damaged) + "\n")
        with pytest.raises(ParameterError, match="journal"):
            audit(CLAIM, algorithm=ridge, data=DATA, journal=path)
    with pytest.raises(ParameterError, match="journal must be a file"):
        audit(CLAIM, algorithm=ridge, data=DATA, journal=tmp_path)


def test_an_infinite_score_survives_the_journal(tmp_path):
    """A mean that does not move has δ = 0: −∞ comes back as it was."""
    path = tmp_path / "audit.jsonl"
    constant = lambda data: ([0.0], [1.0])  # noqa: E731
    first = audit(CLAIM, algorithm=constant, data=DATA, journal=path)
    assert audit(CLAIM, algorithm=constant, data=DATA, journal=path).to_json() == first.to_json()
    assert first.delta_possible == 0.0
    assert not first.refuted


def test_several_processes_say_the_same():
    one = audit(CLAIM, algorithm=ridge, data=DATA[:8])
    two = audit(CLAIM, algorithm=ridge, data=DATA[:8], workers=2)
    assert two.refuted == one.refuted
    assert two.witness.neighbours == one.witness.neighbours
    assert two.delta_possible == pytest.approx(one.delta_possible, rel=1e-12)


def test_what_cannot_be_sent_runs_in_threads(tmp_path):
    with (tmp_path / "open").open("w") as handle:

        def closed_over(data):
            assert not handle.closed
            return ridge(data)

        report = audit(CLAIM, algorithm=closed_over, data=DATA[:6], workers=2)
    assert any("threads" in note for note in report.notes)
    assert report.pairs_tried == 6


def test_progress_is_shown_when_asked_for(capsys):
    audit(CLAIM, algorithm=ridge, data=DATA[:4], progress=True)
    assert "neighbours" in capsys.readouterr().err
    audit(CLAIM, algorithm=ridge, data=DATA[:4])
    assert capsys.readouterr().err == ""
