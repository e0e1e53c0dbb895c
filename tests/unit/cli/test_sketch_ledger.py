"""`ndis sketch` with a schema and a ledger: the ledger pays."""

from __future__ import annotations

import json

import numpy as np
from click.testing import CliRunner

import ndis
from ndis.cli import app


def test_a_ledger_pays_for_a_sketch_with_a_schema(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).uniform(18, 90, size=(40, 1))
    np.savetxt("people.csv", rows, header="age", comments="", fmt="%.3f")
    schema = ndis.Schema({"age": (18, 90)})
    schema.to_toml("schema.toml")
    public = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 20}
    mechanism = ndis.RandomProjection.calibrated(**public, row_norm_bound=schema.row_norm_bound)
    ledger = ndis.Ledger.create(
        "people.ledger", epsilon=3.0, delta=1e-6, plan={"weekly": (mechanism, 2)}, data_name="people"
    )
    words = ["sketch", "people.csv", "--header", "--schema", "schema.toml", "--output", "out", "--ledger"]
    words += ["people.ledger", "--slot", "weekly"]
    words += [word for name, value in public.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert ledger.remaining() == {"weekly": 1}
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["ledger"]["data_name"] == "people"
