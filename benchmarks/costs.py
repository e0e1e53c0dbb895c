"""Print what every kind of call costs: processor time of a later call, and the peak memory of its process.

    python -m benchmarks.costs            # a table in Markdown, for docs/costs.md
    python -m benchmarks.costs --all      # certificates of large dense pairs too, minutes

Each line runs in a process of its own: for four seconds to compile and to fill caches, then timed. The shortest of
several calls counts, in processor time, which hardly depends on what else the machine does.
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
LIFTED = "ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)"
NATURAL = """
n = 100_000
table = {"age": rng.integers(18, 91, n), "ward": rng.choice(["A", "B", "C"], n), "stay": rng.gamma(2.0, 2.0, n)}
table["cost"] = 400 + 250 * table["stay"] + rng.normal(0, 300, n)
schema = ndis.Schema({"age": (18, 90), "ward": ["A", "B", "C"], "stay": (0, 60)}, target=("cost", 0, 20_000))
"""
FITTED = f"{NATURAL}\nmodel = ndis.learn.PrivateLinearRegression({BUDGET}, schema=schema).fit_data(table)"
ALLOCATION = "text = ndis.DPSGD(noise_multiplier=1.0, sampling='allocation', bins=200, epochs=10).to_json()"
FIXED = "f = ndis.PrivacyProfile.from_fixed_size(noise_multiplier=1.0, batch_size=128, records=10_000).repeat(1_000)"
ALGORITHM = f"""ndis.audit(
        ndis.Claim({BUDGET}), algorithm=lambda rows: (rows.sum(axis=0), [18.0]),
        data=ndis.auditing.DataSet(domain=ndis.auditing.Domain(row_norm_bound=1.0, features=1)),
    )"""
LOOP = """
from ndis.auditing import TrainingLoop, audit_training
loop = TrainingLoop(sampler="sequential", noise_multiplier=1.0, records=60_000, batch_size=250, steps=480,
                    history=[(1.0, 250 / 60_000, 480)])
"""
LEDGER = f"""
import tempfile
m = {NOISE}
place = tempfile.mkdtemp() + "/budget.ledger"
ledger = ndis.Ledger.create(place, epsilon=1e3, delta=1e-6, plan={{"count": (m, 20_000)}})
"""
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
    ("description of 100,000 × 4", NATURAL, f"ndis.describe(table, schema=schema, {BUDGET})"),
    ("score of a fit, 100,000 records", FITTED, f"ndis.learn.score_privately(model, table, {BUDGET})"),
    ("plan of a regression", NATURAL, f"ndis.plan_regression(schema, records=10_000, {BUDGET})"),
    ("lifted logistic regression: least noise", "", f"ndis.lift({LIFTED}, epsilon=1, delta=1e-5)"),
    ("random allocation, 10 epochs of 200: ε", ALLOCATION, "ndis.DPSGD.from_json(text).epsilon(1e-5)"),
    ("fixed size, 1,000 steps: both ends of ε", FIXED, "f.bounds(1e-6)"),
    ("risk card of a training run", TRAINING, "t.profile().report(1e-5)"),
    ("audit of a mechanism", f"m = {NOISE}", f"ndis.audit(ndis.Claim({BUDGET}), mechanism=m)"),
    ("audit of an algorithm, other data searched", "", ALGORITHM),
    ("audit of a training loop", LOOP, "audit_training(loop)"),
    ("ledger: reserve, release, seal", LEDGER, "ledger.release('count', m, [5.0])"),
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
times = []
while not times or (sum(times) < 2 and len(times) < 5):
    clock = time.process_time()
    {call}
    times.append(time.process_time() - clock)
print(min(times), peak())
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
    print("| call | milliseconds of processor time | MB at peak |\n|---|---|---|")
    for name, prepare, call in CALLS + (LONG if arguments.all else []):
        seconds, memory = measure(prepare, call, warm=name not in {line[0] for line in LONG})
        print(f"| {name} | {float(f'{1000.0 * seconds:.2g}'):g} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
