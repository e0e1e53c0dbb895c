"""Keep an append-only list of entries in one SQLite file, chained by hashes.

Every entry holds the digest of the one before it, so a changed, missing or exchanged entry is found. A cut-off end is
found by anyone who holds a receipt: receipts carry the digest of their entry.

Entries are appended inside ``BEGIN IMMEDIATE``: SQLite lets one process in at a time, and a process that dies leaves
either the whole entry or none. ``synchronous = EXTRA`` makes the append durable before it returns. All entries are in
the one file between two appends: SQLite keeps a rollback journal, and no write-ahead log. So a reader needs no right to
write, and a file that is moved takes its entries along. Locks do not hold on network file systems, which are refused.

The version of the format is SQLite's ``user_version``. It is no part of the chain, so a later format need not change a
digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ndis._files import check_file, check_room, write_file
from ndis._validate import ADJACENCIES, require
from ndis.errors import LedgerError

FORMAT_VERSION = 1
_APPLICATION = 0x6E646973  # "ndis", which tells a ledger from other SQLite files
_WAIT = 60.0  # seconds to wait for another process that is writing
_NETWORK = re.compile(
    "(fuse[.])?(afs|beegfs|ceph|cifs|coda|davfs|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|pvfs2|rclone|s3fs|"
    "smb[23]|smbfs|sshfs)"
)  # file systems that several hosts may mount at once
_MOUNTS = Path("/proc/self/mountinfo")  # on Linux; other systems are not asked

_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE profiles (digest TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    action TEXT NOT NULL,
    content TEXT NOT NULL,
    totals TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    reservation INTEGER UNIQUE
);
"""


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a plain value, through its one JSON text.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """An entry is one line of a ledger.

    Attributes
    ----------
    number : int
        Counted from 1.
    time : str
        When it was written, in UTC.
    action : str
        "reserve", "commit", "return" or "renew".
    content : mapping
        What was asked for, or which reservation was used.
    totals : mapping
        What is spent after this entry.
    previous, digest : str
        The chain.
    """

    number: int
    time: str
    action: str
    content: Mapping[str, Any]
    totals: Mapping[str, Any]
    previous: str
    digest: str

    def expected_digest(self) -> str:
        """Compute the digest that this entry must have."""
        return digest_of([self.number, self.time, self.action, dict(self.content), dict(self.totals), self.previous])


class Store:
    """A store is the file. It keeps nothing in memory between calls, so any number of processes may use it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require(isinstance(path, str | os.PathLike), "ledger", "be the path of a ledger", type(path).__name__)
        self.path = Path(path).absolute()  # the same file, wherever the process goes
        remedy = "Ledger.create, or 'ndis ledger create' at the shell, makes one"
        require(os.path.isfile(self.path), "ledger", "be an existing ledger file", repr(str(path)), remedy)
        self.about: dict[str, Any] = {}
        with self._connection():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], about: Mapping[str, Any], profiles: Mapping[str, str]) -> None:
        """Write a new file; an existing one is never touched."""
        cls.check_new(path)
        write_file(path, _content({"created": now(), **about}, profiles), name="path", new=True)

    @staticmethod
    def check_new(path: str | os.PathLike[str]) -> None:
        """Refuse a name at which no new file can be made."""
        for one in (path, f"{path}-journal", f"{path}-wal"):  # SQLite would put an old journal into the new file
            check_file(one, name="path", new=True)
        _refuse_network(Path(path))

    # ------------------------------------------------------------------ reading

    @property
    def root(self) -> str:
        """Return the digest that the first entry continues: that of what the ledger was created with."""
        return digest_of(self.about)

    def last(self) -> Entry:
        """Return the last entry; entry 0 is the ledger as it was made."""
        with self._connection() as connection:
            return self._last(connection)

    def _last(self, connection: sqlite3.Connection) -> Entry:
        """Return the last entry, whose totals the next one continues; refused if it was changed."""
        row = connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number DESC LIMIT 1").fetchone()
        if row is None:
            return Entry(0, self.about["created"], "create", self.about, {}, "", self.root)
        entry = _entry(row, self.about["kind"])
        if entry.digest != entry.expected_digest():
            raise LedgerError(f"entry {entry.number} of the ledger does not fit the chain: it was changed")
        return entry

    def entries(self) -> Iterator[Entry]:
        """Return all entries, in order."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM entries ORDER BY number")
        return (_entry(row, self.about["kind"]) for row in rows)

    def entry(self, number: int) -> Entry | None:
        """Return one entry by its number."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM entries WHERE number = ?", number)
        return _entry(rows[0], self.about["kind"]) if rows else None

    def profile(self, digest: str) -> str:
        """Return the JSON text of a profile by its digest."""
        rows = self._rows("SELECT json FROM profiles WHERE digest = ?", digest)
        if not rows:
            raise LedgerError("a profile that an entry names is missing from the file")
        return str(rows[0][0])

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection() as connection:  # all at once, so that no reader keeps a writer waiting
            return connection.execute(query, values).fetchall()

    # ------------------------------------------------------------------ writing

    def append(
        self,
        action: str,
        content: Mapping[str, Any],
        after: Callable[[Entry], Mapping[str, Any]],
        *,
        profiles: Mapping[str, str] | None = None,
        reservation: int | None = None,
    ) -> Entry:
        """Append one entry. `after` gets the last entry and returns the new totals, or raises to write nothing.

        An entry that uses a `reservation` is refused if another one has used it.
        """
        if not (os.access(self.path, os.W_OK) and self.path.stat().st_mode & 0o222):  # root may write what is marked
            raise LedgerError(f"the ledger {str(self.path)!r} cannot be written: it is a read-only file")
        if not os.access(self.path.resolve().parent, os.W_OK):
            raise LedgerError(f"the ledger {str(self.path)!r} cannot be written: its folder is read-only")
        if self.path.stat().st_nlink > 1:  # SQLite looks for the journal of a writer that died under one name
            remedy = "remove it; a process that was killed may have left it in a folder that ends in .ndis.part"
            raise LedgerError(f"the ledger {str(self.path)!r} has a second name, a hard link; {remedy}")
        if action == "reserve" and (problem := check_room(self.path.resolve().parent)):
            raise LedgerError(f"the ledger {str(self.path)!r} cannot be written: it is on {problem}")
        _refuse_network(self.path)
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # a file of an earlier version may have a log
            connection.execute("BEGIN IMMEDIATE")  # if an error follows, closing the connection takes it back
            before = self._last(connection)
            draft = Entry(before.number + 1, now(), action, dict(content), dict(after(before)), before.digest, "")
            entry = replace(draft, digest=draft.expected_digest())
            texts = _canonical(entry.content), _canonical(entry.totals)
            row = (entry.number, entry.time, action, *texts, entry.previous, entry.digest, reservation)
            connection.executemany("INSERT OR IGNORE INTO profiles VALUES (?, ?)", (profiles or {}).items())
            connection.execute(f"INSERT INTO entries ({_COLUMNS}, reservation) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("COMMIT")
        return entry

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the file at one moment, while others may write. The target must be new."""
        with self._connection() as connection:
            content = connection.serialize()
        write_file(path, content, name="path", new=True)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one call, and check that the file is a ledger. SQLite's errors become its own."""
        uri = f"{self.path.resolve().as_uri()}?mode=rw"  # SQLite only reads if the user may not write
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                self._check(connection)
                yield connection
        except sqlite3.IntegrityError as error:
            raise LedgerError("an entry of the ledger was refused: its number or its reservation is used") from error
        except sqlite3.Error as error:
            remedy = ""
            if "readonly" in str(error):  # for a reader with a journal or a log that only a writer can put away
                remedy = "; a writer died, or the file is of an earlier version: whoever may write must open it once"
            raise LedgerError(f"the ledger {str(self.path)!r} could not be read or written: {error}{remedy}") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file of another kind or format, and one with other tables, triggers, views or indexes."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise LedgerError("the file is no ledger of this package")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version != FORMAT_VERSION:
            needed = f"this version of the package needs {FORMAT_VERSION}"
            raise LedgerError(f"the ledger {str(self.path)!r} has format version {version}; {needed}")
        # SQLite's own indexes have no words that declared them
        listed = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        objects: list[tuple[str, str, str]] = listed.fetchall()
        if sorted(words for _, _, words in objects) != _DECLARED:
            others = [f"{kind} {name!r}" for kind, name, words in objects if words not in _DECLARED]
            named = ", ".join(others) or "a missing table"
            raise LedgerError(f"the ledger must have the tables of its format and nothing else; got {named}")
        rows = connection.execute("SELECT key, value FROM about")
        about = {key: _parsed(repr(key), value) for key, value in rows}
        _parsed("the budget", _canonical(about), _ABOUT)
        if self.about and about != self.about:
            raise LedgerError(f"the file {str(self.path)!r} holds another ledger than the one that was opened")
        self.about = about


_COLUMNS = ", ".join(one.name for one in fields(Entry))


_DECLARED = sorted(words.strip() for words in _TABLES.split(";") if words.strip())


def _content(about: Mapping[str, Any], profiles: Mapping[str, str]) -> bytes:
    """Return the file of a ledger without entries."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        kind = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT_VERSION};"
        memory.executescript(f"{_TABLES} {kind}")
        memory.executemany("INSERT INTO about VALUES (?, ?)", [(k, _canonical(v)) for k, v in about.items()])
        memory.executemany("INSERT INTO profiles VALUES (?, ?)", profiles.items())
        return memory.serialize()


def _refuse_network(path: Path) -> None:
    """Refuse a place that several hosts may mount at once: their locks do not hold, and a slot could be spent twice.

    A file that is mounted by itself is refused too: under its other name it has no journal next to it.
    """
    place, kind, length = path.resolve(), "", -1
    with suppress(OSError):
        for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            mount = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), words[4]))
            if place.is_relative_to(mount) and len(mount.parts) >= length:
                kind, length = words[words.index("-") + 1], len(mount.parts)
    if _NETWORK.fullmatch(kind):
        raise LedgerError(
            f"the ledger {str(path)!r} is on a network file system ({kind}), where two hosts may spend a budget twice; "
            "keep it on a local disk of one host, and release there"
        )
    if length == len(place.parts):
        raise LedgerError(f"the ledger {str(path)!r} is mounted without its folder, which has its journal; mount that")


# ---------------------------------------------------------------------- the form of what is stored

# A form is a pattern of texts, a tuple of forms of which one holds, a list with one form, a type, a check or a mapping.
# It has forms of its keys, or under `str` one form of all values; further keys may be there. A key that may be left out
# allows a tuple.
_HEX, _DIGEST, _SOME = "[0-9a-f]+", "[0-9a-f]{64}", (int, type(None))
_SLOTS = {str: {"profile": _DIGEST, "count": int}}
_KINDS: dict[str, tuple[Any, Any]] = {  # what a ledger is made with, and what is spent
    "plan": ({"slots": lambda given: given and _fits(given, _SLOTS)}, {"used": {str: int}, "failure": _HEX}),
    "shifts": ({"units": _HEX}, {"spent": _HEX}),
    "renyi": ({"units": _HEX, "order": lambda x: 1 < x <= 2**20}, {"remove": _HEX, "add": _HEX}),
}
_BUDGET = {"created": datetime.fromisoformat, "epsilon": lambda x: x >= 0.0, "delta": lambda x: 0 < x < 1}
_PERIODS = [{**_BUDGET, "max_records": _SOME, "entry": int, "head": _DIGEST}]
_MADE = {**_BUDGET, "adjacency": "|".join(ADJACENCIES), "data_name": str, "periods": (tuple, _PERIODS)}
_ABOUT = tuple({**_MADE, "kind": kind, **made} for kind, (made, _) in _KINDS.items())
_CLOSED = {"reservation": int}
_CONTENTS: dict[str, Any] = {"commit": _CLOSED, "return": _CLOSED, "renew": {"opens": dict}}
_CONTENTS["reserve"] = {"slot": (str, type(None)), "profile": str, "max_records": _SOME, "details": dict}


def _fits(value: Any, form: Any) -> bool:
    """Return whether a plain value has a form; a value of a wrong type may raise."""
    if isinstance(form, str):
        return re.fullmatch(form, value) is not None
    if isinstance(form, tuple):
        return any(_fits(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_fits(one, *form) for one in value)
    if isinstance(form, dict):
        keys = value if str in form else form
        return isinstance(value, dict) and all(_fits(value.get(k, ()), form.get(str) or form[k]) for k in keys)
    return type(value) is form if isinstance(form, type) else bool(form(value))


def _entry(row: tuple[Any, ...], kind: str) -> Entry:
    number, time, action, *texts, previous, digest = row
    spent = {"spent": _KINDS[kind][1], "max_records": _SOME, "renewed": (tuple, {"root": {"created": str}})}
    forms = _CONTENTS.get(action, ()), spent
    content, totals = (_parsed(f"entry {number}", *each) for each in zip(texts, forms, strict=True))
    return Entry(number, str(time), str(action), content, totals, str(previous), str(digest))


def _parsed(name: str, text: Any, form: Any = None) -> Any:
    """Return the value of a JSON text, which must be the one that is hashed: no key twice, no other order."""
    try:
        value = json.loads(text)
        canonical, fits = _canonical(value), form is None or _fits(value, form)
    except (ValueError, TypeError, RecursionError) as error:
        raise LedgerError(f"{name} of the ledger cannot be read") from error
    if not fits:
        raise LedgerError(f"{name} of the ledger cannot be read: it has not the form of its kind")
    if canonical != text:
        raise LedgerError(f"{name} of the ledger does not fit the chain: it is not written as its digest reads it")
    return value


def now() -> str:
    """Return the time in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
