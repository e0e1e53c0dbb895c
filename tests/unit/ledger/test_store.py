"""The file of a ledger: changes are found, failures release nothing, backups and migrations are whole."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile

import pytest

import ndis
from helpers.ledgers import Model, lifted, shift, sketch
from helpers.places import ROOT
from ndis.errors import LedgerError, ParameterError
from ndis.ledger import store as store_module
from ndis.ledger.verify import after


def spend(ledger: ndis.Ledger) -> dict[int, str]:
    entries = []
    for name, request in (("a", shift(0.25)), ("a", shift(0.1)), ("b", sketch())):
        entries.append(ledger.reserve(name, request))
        ledger.commit(entries[-1])
    return {entry.number: entry.digest for entry in entries}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE entries SET time = '2000-01-01' WHERE number = 2", "entry 2 .* does not fit the chain"),
        ("UPDATE entries SET totals = replace(totals, '2', '1') WHERE number = 3", "entry 3 .* does not fit the chain"),
        ("DELETE FROM entries WHERE number = 3", "entry 3 .* does not fit the chain"),
        (
            "UPDATE entries SET number = 99 WHERE number = 2; UPDATE entries SET number = 2 WHERE number = 4;"
            "UPDATE entries SET number = 4 WHERE number = 99",
            "entry 2 .* does not fit the chain",
        ),
        ("UPDATE about SET value = '9.0' WHERE key = 'epsilon'", "entry 1 .* does not fit the chain"),
        (
            "UPDATE entries SET totals = '{\"spent\":0,' || substr(totals, 2) WHERE number = 2",
            "entry 2 .* as its digest",
        ),
        ("UPDATE entries SET content = ' ' || content WHERE number = 1", "entry 1 .* as its digest reads it"),
        ("UPDATE about SET value = value || ' ' WHERE key = 'epsilon'", "'epsilon' .* as its digest reads it"),
        ("UPDATE about SET value = '{' WHERE key = 'epsilon'", "'epsilon' of the ledger cannot be read"),
        ("UPDATE profiles SET json = replace(json, '0.25', '0.75')", "does not have the digest"),
    ],
)
def test_a_changed_file_is_found(plan, sql, message):
    spend(plan)
    assert plan.verify() == 6
    with sqlite3.connect(plan.path) as connection:
        connection.executescript(sql)
    connection.close()
    with pytest.raises(LedgerError, match=message):
        ndis.Ledger(plan.path).verify()


def test_an_end_that_was_cut_off_is_found_with_a_receipt(plan):
    heads = spend(plan)
    with sqlite3.connect(plan.path) as connection:
        connection.execute("DELETE FROM entries WHERE number > 4")
    connection.close()
    assert ndis.Ledger(plan.path).verify() == 4  # nothing in the file tells of it
    with pytest.raises(LedgerError, match="entry 5 of the ledger is missing: a receipt names it"):
        ndis.Ledger(plan.path).verify(heads=heads)


def test_a_history_that_was_written_again_is_found_with_a_receipt(plan, tmp_path):
    """Whoever owns the file can compute a whole chain anew; only what others hold tells."""
    heads = spend(plan)
    slots = {"a": (shift(0.25), 2), "b": (sketch(), 1)}
    again = ndis.Ledger.create(tmp_path / "again.db", epsilon=4.0, delta=1e-6, plan=slots, data_name="visits")
    spend(again)
    assert again.verify() == 6
    with pytest.raises(LedgerError, match="entry 1 of the ledger is not the one that a receipt names"):
        again.verify(heads=heads)


def test_a_chain_computed_anew_over_an_overspent_plan_is_found(plan):
    """A forger who keeps the chain consistent still cannot have more releases than the plan has."""
    entry = plan.reserve("a", shift(0.25))
    store = plan._store
    for _ in range(2):
        store.append("reserve", entry.content, lambda before: before.totals)
    with pytest.raises(LedgerError, match="entry 2 of the ledger has wrong totals"):
        plan.verify()


def test_a_forged_cost_is_found(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    entry = ledger.reserve(None, shift(0.1))
    cheap = {**entry.content, "cost": {"spent": "1"}}
    ledger._store.append("reserve", cheap, lambda before: after(ledger._account, before.totals, "reserve", cheap))
    with pytest.raises(LedgerError, match="entry 2 of the ledger has a wrong cost"):
        ledger.verify()


def test_an_existing_file_is_never_touched(tmp_path):
    path = tmp_path / "x.db"
    path.write_text("mine")
    with pytest.raises(ParameterError, match="path must be a new file"):
        ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, kind="shifts")
    assert path.read_text() == "mine"
    with pytest.raises(LedgerError):
        ndis.Ledger(path)
    for name in ("nothing.db", "x" * 400, "a\0b", "."):
        with pytest.raises(ParameterError, match="be an existing ledger file"):
            ndis.Ledger(tmp_path / name)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(LedgerError, match="no ledger of this package"):
        ndis.Ledger(tmp_path / "other.db")


def test_a_read_only_file_releases_nothing(tmp_path):
    model = Model()
    mechanism = lifted(model)
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="read-only file"):
        ledger.release("a", mechanism, "fine")
    assert model.asked == 0
    path.chmod(0o600)
    assert ledger.remaining() == {"a": 1}


def test_a_reservation_checks_the_entry_that_it_continues(plan):
    """One cell of the last row, changed, would make a used slot free again."""
    plan.reserve("b", sketch())
    with sqlite3.connect(plan.path) as connection:
        connection.execute("UPDATE entries SET totals = replace(totals, '1', '0')")
    connection.close()
    with pytest.raises(LedgerError, match="entry 1 of the ledger does not fit the chain"):
        plan.reserve("b", sketch())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM entries; END", "got trigger 'forget'"),
        ("CREATE TABLE foreign_one (x)", "got table 'foreign_one'"),
        ("CREATE VIEW other AS SELECT * FROM entries", "got view 'other'"),
        ("DROP TABLE profiles", "got a missing table"),
    ],
)
def test_what_is_no_part_of_a_ledger_is_found(plan, sql, message):
    with sqlite3.connect(plan.path) as connection:
        connection.execute(sql)
    connection.close()
    for attempt in (lambda: ndis.Ledger(plan.path), plan.verify, lambda: plan.reserve("a", shift(0.25))):
        with pytest.raises(LedgerError, match=f"the tables of its format and nothing else; {message}"):
            attempt()


def test_a_file_moved_while_others_have_it_open_takes_its_entries_along(plan, tmp_path):
    reader = sqlite3.connect(plan.path)
    reader.execute("SELECT * FROM entries").fetchall()
    spend(plan)
    os.rename(plan.path, tmp_path / "moved.db")
    reader.close()
    assert ndis.Ledger(tmp_path / "moved.db").verify() == 6
    assert sorted(one.name for one in tmp_path.iterdir()) == ["moved.db"]


def test_a_file_with_a_log_of_an_earlier_version_loses_it_with_the_next_entry(plan):
    with sqlite3.connect(plan.path) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    assert plan.remaining() == {"a": 2, "b": 1}
    spend(plan)
    with sqlite3.connect(plan.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert plan.verify() == 6


MOUNTS = """22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 0:44 / {place} rw,relatime shared:9 - {kind} server:/export rw
"""


@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("xfs", False)])
def test_a_network_file_system_is_refused(kind, refused, plan, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(MOUNTS.format(place=str(tmp_path).replace(" ", "\\040"), kind=kind))
    attempts = (
        lambda: plan.reserve("a", shift(0.25)),
        lambda: ndis.Ledger.create(tmp_path / "new.db", epsilon=1.0, delta=1e-6, kind="shifts"),
    )
    for attempt in attempts:
        if not refused:
            attempt()
            continue
        with pytest.raises(LedgerError, match=rf"is on a network file system \({kind}\).* a local disk of one host"):
            attempt()
    assert plan.verify() == (0 if refused else 1)  # it can still be read


@pytest.mark.parametrize(("kind", "message"), [("nfs4", "network file system"), ("ext4", "without its folder")])
def test_a_file_that_is_mounted_by_itself_is_not_written(kind, message, tmp_path, monkeypatch):
    """As containers mount one file: the folder around it is another one, and so is the place of the journal."""
    place = tmp_path / "a b\tc\\d"
    place.mkdir()
    ledger = ndis.Ledger.create(place / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    escaped = str(place / "x.db").replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    monkeypatch.setattr(store_module, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(MOUNTS.format(place=escaped, kind=kind))
    with pytest.raises(LedgerError, match=message):
        ledger.reserve(None, shift(0.1))
    assert ledger.verify() == 0


READER = """
import os
from ndis.ledger import Ledger
Ledger({path!r}).verify()  # all that is needed is loaded
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ledger = Ledger({path!r})
print(ledger.verify(), ledger.remaining(), len(ledger.releases()))
try:
    ledger.reserve("a", ledger.plan()["a"][0])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may become another user")
def test_an_auditor_reads_without_the_right_to_write(plan):
    """The folder is one that others may enter and not write."""
    spend(plan)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "visits.ledger")
        plan.backup(path)
        os.chmod(path, 0o644)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        words = [sys.executable, "-c", READER.format(path=path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    said = done.stdout.splitlines()
    assert len(said) == 2, done.stderr
    assert said[0] == "6 {'a': 0, 'b': 0} 3"
    assert said[1].endswith("cannot be written: it is a read-only file")


def test_a_read_only_folder_is_said_before_anything_is_written(plan, monkeypatch):
    known = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not os.path.isdir(path) and known(path, mode))
    with pytest.raises(LedgerError, match="cannot be written: its folder is read-only"):
        plan.reserve("a", shift(0.25))


FULL = """
import resource, sys
sys.path.insert(0, {tests!r})
from helpers.ledgers import Model, lifted
import ndis
model = Model()
mechanism = lifted(model)
ledger = ndis.Ledger({path!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
try:
    ledger.release("a", mechanism, "fine")
except ndis.LedgerError as error:
    print(model.asked, "LedgerError", "could not be read or written" in str(error))
"""


@pytest.mark.parametrize("limit", [100, 4096, 12288])
def test_a_full_disk_releases_nothing(tmp_path, limit):
    """A limit on the size of files makes every write beyond it fail, as a full disk does; the last one in mid-entry."""
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (lifted(Model()), 1)})
    code = FULL.format(tests=str(ROOT / "tests"), path=str(path), limit=limit)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "LedgerError", "True"], done.stderr
    assert ledger.remaining() == {"a": 1}
    assert ledger.verify() == 0


def test_a_backup_is_whole_and_new(plan, tmp_path):
    spend(plan)
    plan.backup(tmp_path / "copy.db")
    copy = ndis.Ledger(tmp_path / "copy.db")
    assert copy.verify() == 6
    assert copy.head() == plan.head()
    with pytest.raises(ParameterError, match="new file"):
        plan.backup(tmp_path / "copy.db")


def test_another_format_is_refused(plan, monkeypatch):
    monkeypatch.setattr(store_module, "FORMAT_VERSION", 2)
    with pytest.raises(LedgerError, match=r"has format version 1; .* needs 2$"):
        ndis.Ledger(plan.path)


def test_processes_that_race_and_are_killed_leave_a_sound_ledger():
    """The short form of `make ledger-race`."""
    command = [sys.executable, "-m", "benchmarks.ledger_race", "--rounds", "1", "--processes", "64"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "1 rounds, 64 processes each" in done.stdout
