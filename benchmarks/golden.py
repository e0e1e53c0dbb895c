"""Freeze what the package answers, and compare a later state with it.

    python -m benchmarks.golden record FILE [--jobs 16]
    python -m benchmarks.golden compare [FILE] [--jobs 16] [--exact] [--only cases|sweep|bits] [--seeds 1 5 82]

`record` writes log δ, ε and certificates of all oracle cases and of 400 seeds of the sweep, the bits of Gram matrices,
receipts, the JSON of profiles and the output of commands. `compare` computes them again. With --exact every number
must be equal to the last bit. Without it a certificate decides: the two enclosures must overlap, the float must lie
inside the new one, and ε must agree within the promised accuracy. A refusal that was an answer is listed, and so is a
certificate that became wider. The program ends with 1 if something clashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ndis
from benchmarks.sampled_sweep import composition
from ndis.profile import Group

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tests" / "oracle" / "data" / "golden.json"
TABLES = ("given_accounting_cases", "given_accounting_few_cases", "accounting_cases")
SEEDS = range(400)
LIMIT = 60.0  # seconds of processor time for one value of one case; more counts as a refusal
ACCURACY = 1e-10  # of log δ, relative to 1 + |log δ|


class _LateError(Exception):
    """The time of one value is up."""


def oracle_cases() -> dict[str, dict[str, Any]]:
    """Return the oracle cases of sampled compositions by name."""
    cases = {}
    for table in TABLES:
        found = json.loads((ROOT / "tests" / "oracle" / "data" / f"{table}.json").read_text())
        for i, case in enumerate(found["cases"] if isinstance(found, dict) else found):
            cases[f"{table}-{i}"] = case
    return cases


def profile_of(case: dict[str, Any]) -> ndis.PrivacyProfile:
    """Build the profile of an oracle case."""
    groups = []
    for g in case["groups"]:
        pair = ndis.GaussianPair.from_excess(g.get("excess", 0.0), g["shift"], int(g.get("copies", 1)))
        groups.append(Group(pair, rates=(g["rate"],), count=g["steps"]))
    return ndis.PrivacyProfile(groups=groups)


def _within(compute: Any) -> Any:
    """Compute one value; a refusal is its class name, and an answer that comes too late counts as one."""

    def stop(*_: Any) -> None:
        raise _LateError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return compute()
    except (ndis.NdisError, _LateError, ArithmeticError) as refused:
        return type(refused).__name__
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def answers(profile: ndis.PrivacyProfile, order: Any, epsilon: float | None, target: float | None) -> dict[str, Any]:
    """Return log δ, ε and the certificate of one composition."""
    began = time.perf_counter()
    row: dict[str, Any] = {}
    if target is not None:
        row["epsilon"] = _within(lambda: profile.epsilon(target, order=order))
    at = row["epsilon"] if epsilon is None else epsilon
    if isinstance(at, float) and math.isfinite(at):
        row["at"] = at
        row["log_delta"] = _within(lambda: profile.log_delta(at, order=order))

        def certified() -> list[float]:
            box = profile.certify(at, order=order)
            return [box.lower, box.upper]

        row["certificate"] = _within(certified)
    row["seconds"] = round(time.perf_counter() - began, 3)
    return row


def _case(item: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    name, case = item
    log_delta = float(case["log_delta"])
    target = math.exp(log_delta) if -600.0 < log_delta < -1e-9 else None
    return name, answers(profile_of(case), case["order"], float(case["epsilon"]), target)


def _seed(item: tuple[int, float | None]) -> tuple[str, dict[str, Any]]:
    seed, at = item
    profile, order, target = composition(seed)
    return str(seed), answers(profile, order, at, target)


def bits() -> dict[str, Any]:
    """Return the bits of Gram matrices, receipts and JSON, and what commands print."""
    rows = np.random.default_rng(5).normal(size=(997, 6))
    found: dict[str, Any] = {}
    for name, data in {"float64": rows, "float32": rows.astype(np.float32), "int": (rows * 9).astype(np.int64)}.items():
        gram = ndis.gram.exact_gram(data, row_norm_bound=2.0, intercept=1.0)
        text = json.dumps([[str(entry) for entry in line] for line in np.asarray(gram.integers).tolist()])
        found[f"gram {name}"] = hashlib.sha256(text.encode()).hexdigest()
    step = ndis.PrivacyProfile.from_noise_multiplier(1.1).subsampled(0.004)
    sketch = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
    found["json step"] = json.loads(step.repeat(100).to_json())
    found["json mixed"] = json.loads(step.repeat(3).compose(sketch).to_json())
    mechanisms = {
        "sketch": ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, row_norm_bound=2.0),
        "gram": ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=2.0),
        "mean": ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=2.0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, mechanism in mechanisms.items():
            receipt = mechanism.release(rows, random_state=7).receipt.to_json()
            found[f"receipt {name}"] = _stable(json.loads(receipt) if isinstance(receipt, str) else receipt)
    for line in COMMANDS:
        found[f"$ {line}"] = _printed(line)
    return found


COMMANDS = (
    "ndis delta --ratio 2 --epsilon 1",
    "ndis epsilon --ratio 1.02 --copies 100 --delta 1e-6",
    "ndis dpsgd --noise-multiplier 1.1 --sampling-rate 0.004 --steps 14000 --delta 1e-5",
    "ndis dpsgd --noise-multiplier 1.1 --sampling-rate 0.004 --steps 14000 --delta 1e-5 --json",
    "ndis dpsgd --epsilon 2 --sampling-rate 0.004 --steps 14000 --delta 1e-5",
    "ndis delta --ratio nan --epsilon 1",
    "ndis dpsgd --noise-multiplier -1 --sampling-rate 0.004 --steps 14000 --delta 1e-5",
)
_CHANGING = ("digest", "drawn", "created", "time", "version", "ndis", "date")


def _stable(value: Any) -> Any:
    """Drop the entries that change from run to run."""
    if isinstance(value, dict):
        return {key: _stable(entry) for key, entry in value.items() if not any(word in key for word in _CHANGING)}
    return [_stable(entry) for entry in value] if isinstance(value, list) else value


def _printed(line: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "ndis", *line.split()[1:]]
        where = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        done = subprocess.run(command, cwd=folder, env=where, capture_output=True, text=True, check=False)
    return [done.returncode, done.stdout, done.stderr]


def compute(
    jobs: int, only: str | None, at: dict[str, float | None], seeds: Sequence[int] = SEEDS
) -> dict[str, Any]:
    """Compute all parts, or one of them, or some seeds of the sweep."""
    found: dict[str, Any] = {}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        if only in (None, "cases"):
            found["cases"] = dict(pool.imap_unordered(_case, list(oracle_cases().items())))
        if only in (None, "sweep"):
            found["sweep"] = dict(pool.imap_unordered(_seed, [(seed, at.get(str(seed))) for seed in seeds]))
    if only in (None, "bits"):
        found["bits"] = bits()
    return found


def clashes(name: str, old: dict[str, Any], new: dict[str, Any], exact: bool) -> tuple[list[str], list[str]]:
    """Compare one row; return what clashes, and what was narrowed."""
    bad, narrowed = [], []
    if exact:
        changed = [key for key in old if key != "seconds" and old[key] != new.get(key)]
        return [f"{name}: {key}: {old[key]} is now {new.get(key)}" for key in changed], []
    for key in ("epsilon", "log_delta", "certificate"):
        was, now = old.get(key), new.get(key)
        if isinstance(now, str) and was is not None and not isinstance(was, str):
            narrowed.append(f"{name}: {key} was {was} and is refused: {now}")
    box, value = new.get("certificate"), new.get("log_delta")
    if isinstance(box, list) and isinstance(value, float):
        slack = ACCURACY * (1.0 + abs(value)) if math.isfinite(value) else 0.0
        if box[0] > 0 and math.log(box[0]) > value + slack:
            bad.append(f"{name}: float {value} below the certificate {box}")
        if math.isfinite(value) and (box[1] <= 0 or value - slack > math.log(box[1])):
            bad.append(f"{name}: float {value} above the certificate {box}")
    was = old.get("certificate")
    if isinstance(box, list) and isinstance(was, list) and old.get("at") == new.get("at"):
        if box[0] > was[1] or was[0] > box[1]:
            bad.append(f"{name}: certificates {was} and {box} do not meet")
        if box[1] - box[0] > max(2.0 * (was[1] - was[0]), 1.01e-6 * box[1]):
            narrowed.append(f"{name}: certificate {was} is now {box}")
    was, now = old.get("epsilon"), new.get("epsilon")
    if isinstance(was, float) and isinstance(now, float) and abs(was - now) > 1e-8 * (1.0 + abs(was)):
        bad.append(f"{name}: epsilon {was} is now {now}")
    return bad, narrowed


def compare(stored: dict[str, Any], found: dict[str, Any], exact: bool) -> int:
    """Print what clashes and what was narrowed; return the exit status."""
    bad: list[str] = []
    narrowed: list[str] = []
    for part in ("cases", "sweep"):
        for name, row in found.get(part, {}).items():
            b, n = clashes(f"{part} {name}", stored[part][name], row, exact)
            bad += b
            narrowed += n
    for name, entry in found.get("bits", {}).items():
        if stored["bits"].get(name) != entry:
            bad.append(f"bits {name}: {stored['bits'].get(name)} is now {entry}")
    for line in (*(f"CLASH {line}" for line in bad), *(f"narrowed {line}" for line in narrowed)):
        print(line)
    refused = {line.split(":")[0] for line in narrowed if "refused" in line}
    print(f"{len(bad)} clashes; {len(narrowed)} narrowed; {len(refused)} compositions refused that were answered")
    return min(len(bad), 1)


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("mode", choices=("record", "compare"))
    parser.add_argument("file", nargs="?", default=str(STORED))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--only", choices=("cases", "sweep", "bits"))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="seeds of the sweep to compare")
    given = parser.parse_args()
    path = Path(given.file)
    if given.mode == "record":
        old = json.loads(path.read_text()) if given.only and path.exists() else {}
        path.write_text(json.dumps({**old, **compute(given.jobs, given.only, {})}, indent=0) + "\n")
        return 0
    stored = json.loads(path.read_text())
    at = {seed: row.get("at") for seed, row in stored.get("sweep", {}).items()}
    return compare(stored, compute(given.jobs, given.only, at, given.seeds), given.exact)


if __name__ == "__main__":
    sys.exit(main())
