"""Print what every kind of call costs: seconds of a later call, and the peak memory of its process.

    python -m benchmarks.costs            # a table in Markdown, for docs/costs.md
    python -m benchmarks.costs --all      # certificates of large dense pairs too, minutes

Each line runs in a process of its own: for four seconds to compile and to fill caches, then timed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

SETUP = "import numpy as np, ndis\nrng = np.random.default_rng(0)\n"
DENSE = """
def dense(d):
    a, b = rng.normal(size=(2 * d, d)), rng.normal(size=(2 * d, d))
    first, second = np.eye(d) + 0.02 * a.T @ a / d, np.eye(d) + 0.02 * b.T @ b / d
    return ndis.GaussianPair.from_moments(np.zeros(d), first, np.full(d, 0.02), second)
"""
TABLE = """
n = 100_000
x = rng.uniform(-1, 1, (n, 10)) / 10**0.5
y = np.clip(x @ np.arange(10.0) / 30 + rng.normal(0, 0.1, n), -1, 1)
"""
RATIOS = "p = ndis.GaussianPair.from_ratios([1.1, 1.2, 0.9, 1.5, 0.7], shift=0.1)"
TRAINING = "t = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)"
BUDGET = "epsilon=1, delta=1e-6"
SKETCH = f"ndis.RandomProjection.calibrated({BUDGET}, sketch_size=200, row_norm_bound=1.0)"
GRAM = f"ndis.GramMechanism.calibrated({BUDGET}, row_norm_bound=1.0)"
LINEAR = f"ndis.learn.PrivateLinearRegression({BUDGET}, row_norm_bound=1.0, target_bound=1.0)"
LOGISTIC = f"ndis.learn.PrivateLogisticRegression({BUDGET}, row_norm_bound=1.0)"
NOISE = f"ndis.GaussianMechanism.calibrated({BUDGET}, sensitivity=1.0)"
# What is measured: a name, what to prepare, what to time.
CALLS = [
    ("δ of a pair with five ratios", RATIOS, "p.delta(1.0)"),
    ("its ε", RATIOS, "p.epsilon(1e-6)"),
    ("its certificate", RATIOS, "p.certify(1.0)"),
    ("a dense pair, d = 100: build", DENSE, "dense(100)"),
    ("a dense pair, d = 100: δ", DENSE + "p = dense(100)", "p.delta(1.0)"),
    ("a dense pair, d = 20: certificate", DENSE + "p = dense(20)", "p.certify(1.0)"),
    ("a dense pair, d = 50: certificate", DENSE + "p = dense(50)", "p.certify(1.0)"),
    ("DP-SGD, 14,062 steps: ε", TRAINING, "t.epsilon(1e-5)"),
    ("DP-SGD, 14,062 steps: certified ε", TRAINING, "t.certified_epsilon(1e-5)"),
    ("DP-SGD: noise for ε = 2", "", "ndis.DPSGD.calibrated(epsilon=2, delta=1e-5, sampling_rate=0.004, steps=14_000)"),
    ("random projection: calibrate", "", SKETCH),
    ("random projection: release of 100,000 × 10", f"{TABLE}\nm = {SKETCH}", "m.release(x)"),
    ("Gram matrix: release of 100,000 × 10", f"{TABLE}\nm = {GRAM}", "m.release(x)"),
    ("linear regression: fit of 100,000 × 10", TABLE, f"{LINEAR}.fit(x, y)"),
    ("logistic regression: fit of 100,000 × 10", TABLE, f"{LOGISTIC}.fit(x, y > 0)"),
    ("audit of a mechanism", f"m = {NOISE}", f"ndis.audit(ndis.Claim({BUDGET}), mechanism=m)"),
]
LONG = [
    ("a dense pair, d = 100: certificate", DENSE + "p = dense(100)", "p.certify(1.0)"),
    ("a dense pair, d = 200: certificate", DENSE + "p = dense(200)", "p.certify(1.0)"),
    ("a dense pair, d = 500: certificate", DENSE + "p = dense(500)", "p.certify(1.0)"),
]
PROGRAM = """
import resource, time
{setup}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
{prepare}
start = time.thread_time()
while {warm} and time.thread_time() < start + 4:  # Python runs short kernels itself before it compiles them
    {call}
clock = time.perf_counter()
{call}
print(time.perf_counter() - clock, peak())
"""


def measure(prepare: str, call: str, *, warm: bool = True) -> tuple[float, float]:
    """Return seconds and megabytes of one call in a process of its own."""
    program = PROGRAM.format(setup=SETUP, prepare=prepare, call=call, warm=warm)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    print("| call | seconds | MB at peak |\n|---|---|---|")
    for name, prepare, call in CALLS + (LONG if arguments.all else []):
        seconds, memory = measure(prepare, call, warm=name not in {line[0] for line in LONG})
        print(f"| {name} | {seconds:.2g} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
