"""64 processes race for the same slots and are killed at random moments: python -m benchmarks.ledger_race --rounds 200.

After each round the file must open, `verify` must pass with every entry that a process had in hand, and the spent
releases must stay within the plan. Then the rest of the plan is spent, and it must be exactly what was left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import ndis
from ndis.errors import BudgetError, LedgerError

SLOTS = {"small": (0.05, 60), "large": (0.1, 45)}
MARGIN = 0.4  # seconds within which a round is killed


def make(path: Path) -> ndis.Ledger:
    """A new ledger with two slots of mean shifts."""
    plan = {name: (profile(shift), count) for name, (shift, count) in SLOTS.items()}
    return ndis.Ledger.create(path, epsilon=8.0, delta=1e-6, plan=plan, data_name="race")


def profile(shift: float) -> ndis.PrivacyProfile:
    """A mean shift."""
    return ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=shift))


def child(path: Path, hand: int, seed: int) -> None:
    """Reserve and commit until both slots are used up; what was reserved is written down at once."""
    rng = random.Random(seed)
    ledger = ndis.Ledger(path)
    left = list(SLOTS)
    while left:
        slot = rng.choice(left)
        try:
            entry = ledger.reserve(slot, profile(SLOTS[slot][0]))
        except BudgetError:
            left.remove(slot)
            continue
        except LedgerError as error:
            os.write(hand, f"error: {error}\n".encode())
            return
        os.write(hand, f"{entry.number} {entry.digest}\n".encode())
        if rng.random() < 0.8:
            ledger.commit(entry)


def one_round(folder: Path, number: int, processes: int, seed: int) -> tuple[int, int]:
    """(reservations, kills that found their process alive) of one round; raises if anything is lost or overspent."""
    rng = random.Random(seed)
    path, notes = folder / f"{number}.ledger", folder / f"{number}.notes"
    make(path)
    hand = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    running = []
    for k in range(processes):
        pid = os.fork()
        if pid == 0:
            try:
                child(path, hand, seed * 1000 + k)
            finally:
                os._exit(0)
        running.append(pid)
    os.close(hand)
    killed = 0
    moments = sorted((rng.random() * MARGIN, pid) for pid in running)
    start = time.monotonic()
    for moment, pid in moments:
        time.sleep(max(0.0, start + moment - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    for pid in running:
        killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    lines = notes.read_text().splitlines()
    errors = [line for line in lines if line.startswith("error")]
    assert not errors, errors[0]
    held = dict(line.split() for line in lines if line.count(" ") == 1 and len(line) > 64)
    ledger = ndis.Ledger(path)
    ledger.verify(heads={int(n): digest for n, digest in held.items()})
    spent = sum(entry.action == "reserve" for entry in ledger.history())
    left = ledger.remaining()
    allowed = sum(count for _, count in SLOTS.values())
    assert spent + sum(left.values()) == allowed
    assert all(value >= 0 for value in left.values())
    for slot, count in left.items():
        for _ in range(count):
            ledger.reserve(slot, profile(SLOTS[slot][0]))
        try:
            ledger.reserve(slot, profile(SLOTS[slot][0]))
        except BudgetError:
            continue
        raise AssertionError(f"round {number}: slot {slot} gave more than its count")
    ledger.verify()
    return spent, killed


def main() -> None:
    """Run the rounds and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spent = killed = 0
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.rounds):
            more, dead = one_round(Path(place), number, options.processes, options.seed + number)
            spent, killed = spent + more, killed + dead
            for file in Path(place).iterdir():
                file.unlink()
    print(
        f"{options.rounds} rounds, {options.processes} processes each: {spent} reservations, {killed} kills, all sound"
    )


if __name__ == "__main__":
    main()
