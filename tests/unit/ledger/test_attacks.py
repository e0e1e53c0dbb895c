"""What attacks on a ledger found: rights that outlive their reason, files that change their place, crashes anywhere."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sqlite3
import sys

import numpy as np
import pytest

import ndis
from ndis.errors import LedgerError, ParameterError
from ndis.ledger.store import digest_of
from ndis.mechanisms import gaussian

MECHANISM = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)


@pytest.fixture
def ledger(tmp_path) -> ndis.Ledger:
    return ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (MECHANISM, 2)})


# ---------------------------------------------------------------------- giving back


@pytest.mark.parametrize("request_of", [lambda: MECHANISM, MECHANISM.profile], ids=["mechanism", "profile"])
def test_a_reservation_without_a_block_is_not_given_back_after_a_release(ledger, request_of):
    entry = ledger.reserve("a", request_of())
    MECHANISM.release(1.0)
    with pytest.raises(LedgerError, match="before data are read"):
        ledger.give_back(entry)
    assert ledger.remaining() == {"a": 1}


def test_copies_and_other_processes_own_nothing(ledger):
    entry = ledger.reserve("a", MECHANISM)
    with pytest.raises(LedgerError, match="only by its owner"):
        pickle.loads(pickle.dumps(ledger)).give_back(entry)
    child = os.fork()
    if child == 0:
        try:
            ledger.give_back(entry)
        except LedgerError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ledger.give_back(entry)
    assert ledger.remaining() == {"a": 2}


def test_a_charge_seals_no_release_of_another_mechanism_with_the_same_target(ledger):
    """A sketch for the same ε and δ has another curve, which the slot does not dominate."""
    sketch = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
    with (
        pytest.raises(ParameterError, match="charged, with mechanism 'GaussianMechanism'; got 'RandomProj"),
        ledger.charge("a", MECHANISM) as charge,
    ):
        charge.seal(sketch.release(np.array([[0.5]])))
    again = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    with ledger.charge("a", MECHANISM) as charge:
        assert charge.seal(again.release(1.0)).receipt.ledger["entry"] == 2  # an equal mechanism is the same one


@pytest.mark.parametrize("own", [True, False], ids=["beside its own", "from before the block"])
def test_no_order_of_releases_lets_a_charge_seal_that_of_another_mechanism(ledger, own):
    sketch = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
    other = sketch.release(np.array([[0.5]]))
    with ledger.charge("a", MECHANISM) as charge:
        if own:
            MECHANISM.release(1.0)
            other = sketch.release(np.array([[0.5]]))
        with pytest.raises(ParameterError, match="with mechanism 'GaussianMechanism'; got 'RandomProjection'"):
            charge.seal(other)


def test_a_charge_seals_no_release_of_its_kind_with_other_numbers(tmp_path):
    """The smaller sketch has a ridge that the larger one needs, and states the same ε and δ."""
    large = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
    small = ndis.RandomProjection(**large.arguments() | {"sketch_size": 4})
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (small, 1)})
    with ledger.charge("a", small) as charge:
        with pytest.raises(ParameterError, match="with sketch_size 4; got 5"):
            charge.seal(large.release(np.array([[0.5]])))
        assert charge.seal(small.release(np.array([[0.5]]))).receipt.ledger["entry"] == 1


# ---------------------------------------------------------------------- the file


def test_another_ledger_under_the_name_is_not_spent_by_an_old_plan(ledger, tmp_path):
    ledger.reserve("a", MECHANISM)
    os.rename(ledger.path, tmp_path / "2026.db")
    other = ndis.Ledger.create(ledger.path, epsilon=9.0, delta=1e-3, plan={"a": (MECHANISM, 1)})
    for use in (lambda: ledger.reserve("a", MECHANISM), ledger.remaining, ledger.verify):
        with pytest.raises(LedgerError, match="holds another ledger than the one that was opened"):
            use()
    assert other.verify() == 0


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_no_ledger_is_made_beside_the_journal_of_an_old_one(tmp_path, end):
    (tmp_path / f"x.db{end}").write_text("old")
    with pytest.raises(ParameterError, match="path must be a new file"):
        ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    assert not (tmp_path / "x.db").exists()


def test_a_file_with_two_names_is_not_written(ledger, tmp_path):
    os.link(ledger.path, tmp_path / "second.db")
    for path in (ledger.path, tmp_path / "second.db"):
        with pytest.raises(LedgerError, match="has a second name, a hard link; remove it"):
            ndis.Ledger(path).reserve("a", MECHANISM)
    assert ledger.verify() == 0
    os.unlink(tmp_path / "second.db")
    ledger.reserve("a", MECHANISM)


@pytest.mark.parametrize(
    ("action", "content"),
    [
        ("reserve", {}),
        ("reserve", {"slot": "a", "profile": 3, "cost": None, "max_records": None}),
        ("reserve", []),
        ("reserve", "text"),
        ("commit", {}),
        ("return", {"reservation": [1], "digest": 1}),
        ("renew", {}),
        ("forget", {}),
    ],
)
def test_forged_entries_of_any_form_are_found(ledger, action, content):
    ledger.reserve("a", MECHANISM)
    last = ledger._store.last()
    texts = [json.dumps(x, sort_keys=True, separators=(",", ":")) for x in (content, last.totals)]
    digest = digest_of([2, last.time, action, content, last.totals, last.digest])
    with sqlite3.connect(ledger.path) as connection:
        row = (2, last.time, action, *texts, last.digest, digest)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
    connection.close()
    with pytest.raises(LedgerError):
        ledger.verify()


@pytest.mark.parametrize("column", ["time", "action", "content", "totals", "previous", "digest"])
def test_columns_that_are_no_text_are_found(ledger, column):
    ledger.reserve("a", MECHANISM)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(f"UPDATE entries SET {column} = CAST({column} AS BLOB)")
    connection.close()
    for use in (ledger.verify, lambda: ledger.reserve("a", MECHANISM)):
        with pytest.raises(LedgerError, match="entry 1 of the ledger"):
            use()


# ---------------------------------------------------------------------- a crash anywhere


def killed(path: str, line: int) -> tuple[bool, bool]:
    """Release in a process that kills itself before a line of the package; whether it was killed, and had drawn."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        count = [0]

        def watch(frame, event, argument):
            name = frame.f_code.co_filename
            if "/ndis/ledger/" not in name and not name.endswith(("mechanisms/gaussian.py", "mechanisms/mechanism.py")):
                return None
            if event == "line":
                count[0] += 1
                if count[0] == line:
                    os.kill(os.getpid(), signal.SIGKILL)
            return watch

        known = gaussian.exact_normal
        gaussian.exact_normal = lambda *args, **how: (os.write(writes, b"drawn"), known(*args, **how))[1]
        budget = ndis.Ledger(path)
        sys.settrace(watch)
        budget.release("a", MECHANISM, 1.0)
        sys.settrace(None)
        os._exit(0)
    os.close(writes)
    status = os.waitpid(child, 0)[1]
    drawn = os.read(reads, 5) == b"drawn"
    os.close(reads)
    return os.WIFSIGNALED(status), drawn


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_process_killed_before_any_line_leaves_a_sound_ledger(tmp_path, step):
    """What was drawn is reserved, the file is whole, and no line costs more than one release."""
    first = ndis.Ledger.create(tmp_path / "0.db", epsilon=9.0, delta=1e-3, plan={"a": (MECHANISM, 1)})
    line, dead, drawings = 1, True, set()
    while dead:
        path = tmp_path / f"{line}.db"
        first.backup(path)
        dead, drawn = killed(str(path), line)
        ledger = ndis.Ledger(path)
        actions = [entry.action for entry in ledger.history()]
        assert ledger.verify() == len(actions)
        assert actions in ([], ["reserve"], ["reserve", "commit"])
        assert not drawn or actions, line
        assert ledger.remaining() == {"a": 0 if actions else 1}
        drawings.add((drawn, len(actions)))
        line += step
    assert {(False, 0), (True, 1), (True, 2)} <= drawings  # before, between and after


def test_a_process_that_goes_to_another_folder_spends_from_the_file_that_it_opened(tmp_path, monkeypatch):
    """A copy of the same ledger under the same name lies there, and nothing else tells the two apart."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ledger = ndis.Ledger.create("x.db", epsilon=3.0, delta=1e-6, plan={"a": (MECHANISM, 2)})
    ledger.backup(tmp_path / "there" / "x.db")
    monkeypatch.chdir(tmp_path / "there")
    ledger.reserve("a", MECHANISM)
    pickle.loads(pickle.dumps(ledger)).reserve("a", MECHANISM)
    assert ndis.Ledger("x.db").remaining() == {"a": 2}
    assert ndis.Ledger(tmp_path / "here" / "x.db").remaining() == {"a": 0}
