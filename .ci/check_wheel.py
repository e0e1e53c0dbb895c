"""Install a wheel into a clean environment of every Python at hand, and use it there.

For a version that is not at hand: everything that the wheel and its extras need can be had as wheels.

Usage: python .ci/check_wheel.py dist/ndis-*.whl
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXTRAS = "data,dask,plot,interop"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
USE = """
import importlib.metadata, pathlib, ndis, numpy
assert ndis.__version__ == importlib.metadata.version("ndis")
assert pathlib.Path(ndis.__file__).with_name("py.typed").exists()
pair = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
assert pair.delta(1.0) in pair.certify(1.0)
mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, row_norm_bound=1.0)
assert mechanism.release(numpy.array([[0.6, 0.8]])).receipt.private
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


def resolve(version: str, wheel: Path) -> None:
    """Ask pip for the wheels that another Python would install; nothing is downloaded but their metadata."""
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run"]
        pip += ["--ignore-installed", "--target", place, "--only-binary", ":all:", "--python-version", version]
        subprocess.run([*pip, f"{wheel}[{EXTRAS}]"], check=True, stdout=subprocess.DEVNULL)
    print(f"{wheel.name}: every dependency has a wheel for Python {version}, which is not here to run it")


if __name__ == "__main__":
    at_hand = interpreters()
    if not at_hand:
        sys.exit("no Python of " + ", ".join(VERSIONS) + " was found")
    built = Path(sys.argv[1]).resolve()
    for version, python in at_hand:
        check(version, python, built)
    for version in VERSIONS:
        if version not in dict(at_hand):
            resolve(version, built)
