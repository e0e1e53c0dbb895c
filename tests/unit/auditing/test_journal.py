"""Interrupting and resuming an audit, and running it on several processes."""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pytest

from helpers.audits import CLAIM, ROWS, ridge, total
from ndis.auditing import AddAdversarial, AddRandom, Claim, RemoveEach, audit
from ndis.errors import ParameterError

DATA = np.random.default_rng(0).standard_normal((30, 3))
RULES = [
    RemoveEach(),
    AddRandom(row_norm_bound=2.0, count=4),
    AddAdversarial(row_norm_bound=2.0, generations=3, offspring=4, starts=1),
]


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


def test_a_changed_function_is_not_taken_for_the_old_one(tmp_path):
    def first(data):
        return np.zeros(1), np.array([100.0])

    def second(data):
        return np.zeros(1), np.array([100.0 if len(data) == 8 else 1.0])

    second.__qualname__ = first.__qualname__
    audit(CLAIM, algorithm=first, data=ROWS, journal=tmp_path / "j")
    with pytest.raises(ParameterError, match="journal must belong"):
        audit(CLAIM, algorithm=second, data=ROWS, journal=tmp_path / "j")

    def third(data, weight):
        return np.zeros(1), np.array([100.0 + weight * (8 - len(data))])

    one, other = (functools.partial(third, weight=w) for w in (0.0, -99.0))
    audit(CLAIM, algorithm=one, data=ROWS, journal=tmp_path / "k")
    audit(CLAIM, algorithm=functools.partial(third, weight=0.0), data=ROWS, journal=tmp_path / "k")
    with pytest.raises(ParameterError, match="journal must belong"):
        audit(CLAIM, algorithm=other, data=ROWS, journal=tmp_path / "k")


def test_neighbours_are_run_again_on_resuming(tmp_path):
    """A change of a value that the function reads is seen too."""
    settings = {"noise": 100.0}
    globals()["_SETTINGS"] = settings
    audit(CLAIM, algorithm=_depends_on_a_global, data=ROWS, journal=tmp_path / "j")
    settings["noise"] = 1.0
    with pytest.raises(ParameterError, match="scores that do not come out again"):
        audit(CLAIM, algorithm=_depends_on_a_global, data=ROWS, journal=tmp_path / "j")


def _depends_on_a_global(data):
    return data.sum(axis=0), np.full(2, 100.0 if len(data) == 8 else _SETTINGS["noise"])  # noqa: F821


@pytest.mark.parametrize("content", [b"precious material without a newline", b"a,b\n1,2\n3,4", b"[1]\n", b"\x00\xff\n"])
def test_other_files_are_left_as_they_are(tmp_path, content):
    path = tmp_path / "precious.csv"
    path.write_bytes(content)
    with pytest.raises(ParameterError, match="journal of an audit"):
        audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    assert path.read_bytes() == content


def test_a_header_cut_short_is_begun_again(tmp_path):
    path = tmp_path / "j"
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "scores", [None, 3, [[1]], [["a", "b"], [1, 2]], [[math.nan, 1.0], [1.0, 1.0]], [[1.0, 1.0]], [[True, 1], [1, 1]]]
)
def test_damaged_scores_are_refused_by_line(tmp_path, scores):
    path = tmp_path / "j"
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    lines = path.read_text().splitlines()
    third = {**json.loads(lines[2]), "scores": scores}
    path.write_text("\n".join([*lines[:2], json.dumps(third), *lines[3:]]) + "\n")
    with pytest.raises(ParameterError, match="line 3 of the journal"):
        audit(CLAIM, algorithm=total, data=ROWS, journal=path)


def test_a_journal_in_use_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "j"
    inner = []

    def nested(data):
        if len(data) == 7 and not inner:
            inner.append(1)
            with pytest.raises(ParameterError, match="another audit holds"):
                audit(CLAIM, algorithm=total, data=ROWS, journal=path)
        return total(data)

    audit(CLAIM, algorithm=nested, data=ROWS, journal=path)
    assert inner
