"""A forged file ends in a LedgerError, whatever is asked: what is stored has the form of its kind, or is refused."""

from __future__ import annotations

import copy
import json
import random
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

import ndis
from helpers.command import run
from ndis.errors import NdisError
from ndis.ledger.store import digest_of

MECHANISM = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
KINDS = {"plan": {"plan": {"a": (MECHANISM, 4)}}, "shifts": {"kind": "shifts"}, "renyi": {"kind": "renyi"}}
BUDGET = {"epsilon": 9.0, "delta": 1e-3}
WRONG = [None, "x", "ff", -1, 0, 2.5, -2.5, 1e300, 1e-320, True, 10**40, [], {}, [1], ["a"], {"a": 1}, "\ud800"]


def places(value, at=()):
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def changed(value, at, wrong):
    if not at:
        return wrong
    value = copy.deepcopy(value)
    inside = value
    for key in at[:-1]:
        inside = inside[key]
    if wrong is KeyError:
        del inside[at[-1]]
    else:
        inside[at[-1]] = wrong
    return value


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def forge(path, table, column, key, value):
    """Write a value, and all digests anew."""
    with closing(sqlite3.connect(path)) as file:
        name = "key" if table == "about" else "number"
        file.execute(f"UPDATE {table} SET {column} = ? WHERE {name} = ?", (value, key))
        previous = digest_of({key: json.loads(each) for key, each in file.execute("SELECT key, value FROM about")})
        for row in file.execute("SELECT number, time, action, content, totals FROM entries ORDER BY number").fetchall():
            digest = digest_of([*row[:3], *map(json.loads, row[3:]), previous])
            file.execute("UPDATE entries SET previous = ?, digest = ? WHERE number = ?", (previous, digest, row[0]))
            previous = digest
        file.commit()


USES = [
    lambda ledger: (ledger.remaining(), ledger.left(), ledger.renewed),
    lambda ledger: (ledger.total(), ledger.periods, ledger.max_records, ledger.failure_probability),
    lambda ledger: (ledger.plan(), ledger.history(), ledger.releases()),
    lambda ledger: (ledger.report().to_html(), ledger.report().to_json()),
    lambda ledger: ledger.verify(),
    lambda ledger: ledger.release("a", MECHANISM, 1.0),
    lambda ledger: ledger.renew(f"{ledger.path}.next", **BUDGET, kind="shifts"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_forged_ends_in_an_error_of_the_package(kind, tmp_path):
    first = ndis.Ledger.create(tmp_path / "1.db", **BUDGET, **KINDS[kind])
    first.give_back(first.reserve("a", MECHANISM))
    second = first.renew(tmp_path / "2.db", **BUDGET, **KINDS[kind])
    second.release("a", MECHANISM, 3.0)
    forgeries = []
    for path in (first.path, second.path):
        with closing(sqlite3.connect(path)) as file:
            rows = [("about", "value", *row) for row in file.execute("SELECT key, value FROM about")]
            for column in ("content", "totals"):
                rows += [("entries", column, *row) for row in file.execute(f"SELECT number, {column} FROM entries")]
        for *where, stored in rows:
            value = json.loads(stored)
            choices = [(at, wrong) for at in places(value) for wrong in (*WRONG, *([KeyError] if at else []))]
            forgeries += [(path, *where, text(changed(value, *choice))) for choice in choices]
        forgeries += [(path, "entries", "action", 1, word) for word in ("commit", "renew", "x", "")]
    draws = random.Random(kind)
    for path, *forgery in draws.sample(forgeries, 150):
        copied = tmp_path / "forged.db"
        copied.unlink(missing_ok=True)
        (tmp_path / "forged.db.next").unlink(missing_ok=True)
        shutil.copy(path, copied)
        forge(copied, *forgery)
        for use in draws.sample(USES, 3):
            with suppress(NdisError):
                use(ndis.Ledger(copied))


@pytest.mark.parametrize("words", [("show",), ("show", "--json"), ("export", "-o", "page.html"), ("verify",)])
@pytest.mark.parametrize(
    "forgery",
    [
        ("about", "value", "created", '"x"'),
        ("about", "value", "slots", "{}"),
        ("about", "value", "slots", "null"),
        ("entries", "totals", 1, "[]"),
        ("entries", "totals", 1, '{"max_records":null,"spent":{"failure":"x","used":{}}}'),
        ("entries", "content", 1, '{"reservation":[]}'),
    ],
)
def test_commands_answer_a_forged_ledger_in_words(words, forgery, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ndis.Ledger.create("x.db", **BUDGET, **KINDS["plan"]).reserve("a", MECHANISM)
    forge("x.db", *forgery)
    answer = run("ledger", words[0], "x.db", *words[1:])
    assert answer.exit_code == 2
    assert "of the ledger cannot be read" in answer.output


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "", "nowhere/x.db"])
def test_a_name_of_no_file_is_refused_in_words(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = ndis.Ledger.create("x.db", **BUDGET, kind="shifts")
    with pytest.raises(NdisError, match="path must"):
        ndis.Ledger.create(path, **BUDGET, kind="shifts")
    with pytest.raises(NdisError, match="path must"):
        ledger.renew(path, **BUDGET, kind="shifts")
    assert not ledger.renewed
