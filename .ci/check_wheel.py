"""Install a wheel into a clean environment of every Python at hand, and use it there.

Usage: python .ci/check_wheel.py dist/ndis-*.whl
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
USE = """
import importlib.metadata, pathlib, ndis
assert ndis.__version__ == importlib.metadata.version("ndis")
assert pathlib.Path(ndis.__file__).with_name("py.typed").exists()
pair = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
assert pair.delta(1.0) in pair.certify(1.0)
mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, row_norm_bound=1.0)
assert mechanism.release([[0.6, 0.8]]).receipt.private
assert ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[pair]).to_html().startswith("<!")
"""


def interpreters() -> list[tuple[str, str]]:
    """(version, path) of each Python that runs."""
    found = []
    for version in VERSIONS:
        others = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        places = [shutil.which(f"python{version}"), *map(str, others)]
        for place in filter(None, places):
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            answer = subprocess.run([place, "-c", ask], capture_output=True, text=True, check=False)
            if answer.stdout.strip() == version:
                found.append((version, place))
                break
    return found


def check(version: str, python: str, wheel: Path) -> None:
    """Make an environment, install the wheel and what it needs, use it far from the source tree."""
    with tempfile.TemporaryDirectory() as place:
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        subprocess.run([python, "-m", "venv", f"{place}/env"], check=True, env=clean)
        run = f"{place}/env/bin/python"
        pip = [run, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True, env=clean)
        subprocess.run([*pip, "check"], check=True, env=clean, stdout=subprocess.DEVNULL)
        subprocess.run([run, "-c", USE], check=True, cwd=place, env=clean)
        command = [f"{place}/env/bin/ndis", "delta", "--ratio", "2", "--epsilon", "1"]
        subprocess.run(command, check=True, cwd=place, env=clean, stdout=subprocess.DEVNULL)
    print(f"{wheel.name}: works on Python {version}")


if __name__ == "__main__":
    at_hand = interpreters()
    if not at_hand:
        sys.exit("no Python of " + ", ".join(VERSIONS) + " was found")
    for version, python in at_hand:
        check(version, python, Path(sys.argv[1]).resolve())
