"""An audit on several processes, with progress, and twice with the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.audits import CLAIM, ridge
from ndis.auditing import AddAdversarial, AddRows, Domain, RemoveEach, Search, audit
from ndis.errors import ParameterError

DATA = np.random.default_rng(0).standard_normal((30, 3))
RULES = [
    RemoveEach(),
    AddRows(np.eye(3)),
    AddAdversarial(Domain(row_norm_bound=2.0), generations=3, offspring=4, starts=1),
]


def test_the_same_seed_says_the_same():
    one, two = (
        audit(CLAIM, algorithm=ridge, data=DATA, search=Search(neighbours=RULES, random_state=3)) for _ in range(2)
    )
    assert one.to_json() == two.to_json()


def test_several_processes_say_the_same():
    given = Search(seconds=0)
    one = audit(CLAIM, algorithm=ridge, data=DATA[:8], search=given)
    two = audit(CLAIM, algorithm=ridge, data=DATA[:8], workers=2, search=given)
    assert two.refuted == one.refuted
    assert two.witness.neighbours == one.witness.neighbours
    assert two.delta_possible == pytest.approx(one.delta_possible, rel=1e-12)


def test_what_no_other_process_can_get_is_refused(tmp_path):
    with (tmp_path / "open").open("w") as handle:

        def closed_over(data):
            assert not handle.closed
            return ridge(data)

        with pytest.raises(
            ParameterError, match="workers must be 1 for an algorithm that no other process can get; got 2"
        ):
            audit(CLAIM, algorithm=closed_over, data=DATA[:6], workers=2, search=Search(seconds=0))


def test_progress_is_shown_when_asked_for(capsys):
    audit(CLAIM, algorithm=ridge, data=DATA[:4], progress=True)
    assert "neighbours" in capsys.readouterr().err
    audit(CLAIM, algorithm=ridge, data=DATA[:4])
    assert capsys.readouterr().err == ""


def test_a_mean_that_does_not_move():
    report = audit(CLAIM, algorithm=lambda data: ([0.0], [1.0]), data=DATA)
    assert report.delta_possible == 0.0
    assert not report.refuted


def test_keywords_of_the_last_version_are_refused_by_name():
    for old in ("neighbours", "row_norm_bound", "random_state", "columns", "journal", "law_accuracy"):
        with pytest.raises(TypeError, match=old):
            audit(CLAIM, algorithm=ridge, data=DATA[:4], **{old: 1})
