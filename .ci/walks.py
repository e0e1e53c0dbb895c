"""Count the files of the package that everyday walks touch.

    python .ci/walks.py [--names]

Each walk runs twice in a fresh interpreter. `imported` counts the modules of the package that Python loads. `run`
counts the files of which a function runs in the second run, when everything is loaded and calibrations are kept. With
--names, the files that run are listed. The exit status is 1 if a walk runs more files than its limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WALKS = {
    "delta of a pair": """
import ndis
ndis.GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7]).delta(1.0)
""",
    "epsilon of DP-SGD": """
import ndis
ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062).epsilon(1e-5)
""",
    "calibrate and release a Parquet folder": """
import numpy, os, pyarrow, pyarrow.parquet
os.makedirs("rows", exist_ok=True)
rows = numpy.random.default_rng(0).normal(size=(50, 3))
for i in range(2):
    pyarrow.parquet.write_table(pyarrow.table({name: rows[:, j] for j, name in enumerate("abc")}), f"rows/{i}.parquet")
import ndis
public = {"sketch_size": 20, "row_norm_bound": 1.0}
ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, **public).release("rows", progress=False)
""",
    "lift and release": """
import numpy, ndis
model = ndis.models.BohningLogistic(l2_penalty=30.0, row_norm_bound=1.0)
ndis.lift(model, epsilon=1.0, delta=1e-6).release((numpy.array([[0.6, 0.8], [1.0, 0.0]]), numpy.array([1, -1])))
""",
    "regression with a schema": """
import numpy, pandas, ndis
age = numpy.random.default_rng(0).uniform(18, 90, 500)
frame = pandas.DataFrame({"age": age, "region": ["N", "S"] * 250, "spend": 10 * age})
schema = ndis.Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 1000))
ndis.learn.PrivateLinearRegression(schema=schema).fit(frame)
""",
    "a charged release": """
import sys, types, ndis
kept = sys.modules.get("kept")
if kept is None:
    kept = sys.modules["kept"] = types.SimpleNamespace()
    kept.mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    kept.ledger = ndis.Ledger.create("budget.db", epsilon=3.0, delta=1e-6, plan={"weekly": (kept.mechanism, 4)})
with kept.ledger.charge("weekly", kept.mechanism) as charge:
    charge.seal(kept.mechanism.release(3.0))
""",
    "ndis audit FILE": """
import json, sys
pair = {"variance_ratio": [1.0], "shift": [1.0]}
with open("pairs.json", "w") as file:
    json.dump({"claim": {"epsilon": 1.0, "delta": 1e-6}, "pairs": [pair]}, file)
sys.argv = ["ndis", "audit", "pairs.json", "--report", "page.html"]
from ndis.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 1, end.code
""",
}

_WATCH = """
import json, sys, threading
ran = set()
def watch(frame, event, argument):
    if event == "call" and frame.f_code.co_name not in ("<module>", "<lambda>") and frame.f_code.co_flags & 2:
        ran.add(frame.f_code.co_filename)
code = compile(open(sys.argv.pop(1)).read(), "walk", "exec")
exec(code, {"__name__": "walk"})
sys.setprofile(watch)
threading.setprofile(watch)
try:
    exec(code, {"__name__": "walk"})
finally:
    sys.setprofile(None)
    imported = sorted(name for name in sys.modules if name == "ndis" or name.startswith("ndis."))
    with open("found.json", "w") as file:
        json.dump({"imported": imported, "run": sorted(name for name in ran if "/ndis/" in name)}, file)
"""

# The most files that a walk may run.
LIMITS = {"epsilon of DP-SGD": 10, "regression with a schema": 26, "a charged release": 16, "ndis audit FILE": 26}


def walk(code: str) -> dict[str, list[str]]:
    """Modules imported and files run by one walk."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "walk.py").write_text(code, encoding="utf-8")
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", _WATCH, "walk.py"]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
        found: dict[str, list[str]] = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))
    return found


def main(names: bool) -> int:
    """Print one line per walk, and return the exit status."""
    print(f"{'':<40}{'imported':>10}{'run':>6}{'limit':>8}")
    status = 0
    for title, code in WALKS.items():
        found = walk(code)
        limit = LIMITS.get(title)
        print(f"{title:<40}{len(found['imported']):>10}{len(found['run']):>6}{limit or '':>8}")
        status |= limit is not None and len(found["run"]) > limit
        for name in found["run"] if names else ():
            print("    " + name.partition("/src/ndis/")[2])
    return status


if __name__ == "__main__":
    sys.exit(main("--names" in sys.argv[1:]))
