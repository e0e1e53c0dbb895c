"""Measure the processor time of a first answer on a fresh install, and of the second.

    python -m benchmarks.first_answer

Each case runs twice in a fresh interpreter, the first time with an empty cache of compiled code. The figures are
processor seconds of the whole process, user and system together.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

COMMAND = "dpsgd --noise-multiplier 1.1 --sampling-rate 0.004 --steps 14000 --delta 1e-5"
FIT = """
import numpy, ndis
rng = numpy.random.default_rng(0)
schema = ndis.Schema({"age": (18, 90), "income": (0, 200_000), "region": ["N", "S"]}, target=("spend", 0, 5_000))
table = {"age": rng.uniform(18, 90, 200), "income": rng.uniform(0, 2e5, 200), "region": ["N", "S"] * 100,
         "spend": rng.uniform(0, 5e3, 200)}
ndis.learn.PrivateLinearRegression(epsilon=1.0, delta=1e-6, schema=schema).fit(table)
"""
REPORT = FIT.split("ndis.learn")[0] + "ndis.describe(table, schema=schema, epsilon=1.0, delta=1e-6)"
LOOP = """
from ndis.auditing import TrainingLoop, audit_training
audit_training(TrainingLoop(sampler="sequential", noise_multiplier=1.0, records=60_000, batch_size=250, steps=480,
                            history=[(1.0, 250 / 60_000, 480)]))
"""
PAIR = "import ndis; ndis.GaussianPair.from_ratios([1.5, 0.8], [0.0, 0.7]).delta(1.0)"
CASES = (
    ("ndis dpsgd", 2.5, ["-m", "ndis", *COMMAND.split()]),
    ("delta of a pair", None, ["-c", PAIR]),
    ("first fit", 4.0, ["-W", "ignore", "-c", FIT]),
    ("first report of a table", None, ["-W", "ignore", "-c", REPORT]),
    ("audit of a training loop", None, ["-c", LOOP]),
    ("ndis --help", None, ["-m", "ndis", "--help"]),
)


def seconds(words: list[str], cache: str) -> float:
    """Return the processor seconds of one run of the interpreter."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line per case: first run, second run, and the target of the first."""
    print(f"{'processor seconds':<24}{'first':>8}{'second':>8}{'target':>8}")
    for name, target, words in CASES:
        with tempfile.TemporaryDirectory() as cache:
            first, second = seconds(words, cache), seconds(words, cache)
        print(f"{name:<24}{first:>8.2f}{second:>8.2f}{'' if target is None else f'{target:>8.1f}'}")


if __name__ == "__main__":
    main()
