"""`ndis count`: the number of records of a file, with noise, a receipt and a ledger."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import ndis
from ndis.cli import app
from ndis.cli.release import _records
from ndis.data import open_table
from ndis.mechanisms.releases import GaussianRelease

SMALL = ("--noise-std", 0.01, "--delta", "1e-6")  # so little noise that the number can be read


def call(*words, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.output


def counted(*words) -> float:
    return json.loads(call("count", *words, "--json"))["count"]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "visits.csv").write_text("name,age\n" + "x,3\n" * 40 + '"a,b"\n,\n')  # 42 lines, two of them odd
    return tmp_path


def test_every_record_counts_once_in_every_kind_of_file(place):
    assert abs(counted(place / "visits.csv", "--header", *SMALL) - 42) < 1
    assert abs(counted(place / "visits.csv", *SMALL) - 43) < 1  # without a header the first line is a record
    np.save(place / "rows.npy", np.full((17, 3), np.nan))
    assert abs(counted(place / "rows.npy", *SMALL) - 17) < 1
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = pa.array([None, "a", "b"]).dictionary_encode()
    pq.write_table(pa.table({"name": names, "n": [1, 2, 3]}), place / "t.parquet")
    assert abs(counted(place / "t.parquet", *SMALL) - 3) < 1


def test_a_line_moves_the_number_by_at_most_one_whatever_is_in_it(tmp_path):
    lines = [
        b"",
        b" ",
        b'"',
        b'""',
        b'"a',
        b"a,b,c",
        b"\xff\xfe",
        b"\xef\xbb\xbf1",
        b"\x00",
        b"nan",
        b"1e999",
        b"'",
        b"\r",
    ]

    def records(content: bytes) -> int:
        (tmp_path / "t.csv").write_bytes(content)
        return _records(open_table(tmp_path / "t.csv", columns=["record"], progress=False))

    alone = [records(line + b"\n") for line in lines]
    assert set(alone) <= {0, 1}
    assert records(b"\n".join(lines) + b"\n") == sum(alone)
    for i, line in enumerate(lines):
        others = lines[:i] + lines[i + 1 :]
        for order in ([line, *others], [*others, line]):
            assert records(b"\n".join(order) + b"\n") == sum(alone)


def test_the_release_is_saved_with_its_receipt(place):
    output = place / "count.json"
    said = call("count", place / "visits.csv", "--header", "--epsilon", 0.5, "--delta", "1e-7", "-o", output)
    release = GaussianRelease.load(output)
    assert f"{float(release.values[0])!r}" in said
    assert (release.receipt.epsilon, release.receipt.delta, release.receipt.private) == (0.5, 1e-7, True)
    assert release.receipt.parameters["released"] == "number of records"


def test_a_slot_with_a_noise_multiplier_takes_a_count_with_that_noise(place):
    (place / "slots.toml").write_text("[slots.weekly]\ncount = 2\nnoise_multiplier = 20.0\n")
    ledger = place / "b.ledger"
    budget = ("--epsilon", 1, "--delta", "1e-6", "--data-name", "visits")
    call("ledger", "create", ledger, *budget, "--plan", place / "slots.toml")
    words = ("count", place / "visits.csv", "--header", "--noise-std", 20, "--delta", "1e-6")
    pay = ("--ledger", ledger, "--slot", "weekly", "--by", "product", "--purpose", "weekly count")
    call(*words, *pay, "-o", place / "first.json")
    row = ndis.Ledger(ledger).releases()[0]
    assert (row["by"], row["purpose"], row["state"]) == ("product", "weekly count", "released")
    assert "1 receipt among them" in call("ledger", "verify", ledger, "--receipt", place / "first.json")
    call(*words, *pay)
    assert "is used up" in call(*words, *pay, status=2)


def test_a_mistake_spends_nothing(place):
    ledger = ndis.Ledger.create(place / "b.ledger", epsilon=1.0, delta=1e-6, kind="shifts")
    pay = ("--delta", "1e-6", "--ledger", place / "b.ledger")
    assert "neither" in call("count", place / "visits.csv", *pay, status=2)
    assert "both" in call("count", place / "visits.csv", "--epsilon", 1, "--noise-std", 9, *pay, status=2)
    assert "existing file" in call("count", place / "nofile.csv", "--epsilon", 0.5, *pay, status=2)
    assert "noise-std" in call("count", place / "visits.csv", "--noise-std", 0, *pay, status=2)
    np.save(place / "empty.npy", np.zeros((5, 0)))
    call("count", place / "empty.npy", "--epsilon", 0.5, *pay, status=2)
    missing = place / "nofolder" / "count.json"
    call("count", place / "visits.csv", "--epsilon", 0.5, *pay, "-o", missing, status=2)
    assert ledger.entries() == 0


def test_with_noise_states_the_least_epsilon_of_its_noise():
    made = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=2.0)
    again = ndis.GaussianMechanism.with_noise(noise_std=made.noise_std, delta=1e-6, sensitivity=2.0)
    assert again.target_epsilon == pytest.approx(1.0, rel=1e-9)
    assert again.profile().certify(again.target_epsilon).upper <= 1e-6
    assert again.profile().certify(again.target_epsilon * (1 - 1e-9)).lower > 1e-6
    for wrong in ({"noise_std": 0.0}, {"noise_std": float("nan")}, {"delta": 0.0}, {"sensitivity": -1.0}):
        with pytest.raises(ndis.ParameterError, match=next(iter(wrong))):
            ndis.GaussianMechanism.with_noise(**{"noise_std": 1.0, "delta": 1e-6, "sensitivity": 1.0} | wrong)
