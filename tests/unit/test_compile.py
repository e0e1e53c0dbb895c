"""Compiled code and where it is kept: nowhere writable, damaged files, two processes at once."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ndis
from ndis.gram import exact_gram

PACKAGE = Path(ndis.__file__).parent
WORK = """
import ndis, numpy as np
from ndis.gram import exact_gram
total = exact_gram(np.full((3, 2), 5.0), row_norm_bound=1.0).to_float().sum()
print(ndis.GaussianPair.from_ratios(2.0).delta(1.0), total)
"""


def bound_by_permissions() -> None:
    """Make root subject to permission bits, as everyone else is: drop CAP_DAC_OVERRIDE before the program starts."""
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) != 0:
        raise OSError("the capability could not be dropped")


def in_child(code: str, *, source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA", "XDG", "TMP", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=kept | {"PYTHONPATH": os.pathsep.join([str(source), str(PACKAGE.parent)])} | environment,
        preexec_fn=bound_by_permissions,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def read_only(tmp_path):
    """A copy of the package that nobody can write to."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "ndis", ignore=shutil.ignore_patterns("__pycache__"))
    folders = [Path(folder) for folder, _, _ in os.walk(tmp_path / "site")]
    for folder in folders:
        folder.chmod(0o555)
    yield tmp_path / "site"
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permission bits of POSIX")
def test_nothing_is_writable(read_only):
    home = str(read_only / "nowhere")
    check = f"import os\nassert not os.access({str(read_only / 'ndis' / 'spectrum')!r}, os.W_OK)\n"
    done = in_child(check + WORK, source=read_only, HOME=home)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    delta, total = map(float, done.stdout.split())
    assert delta == ndis.GaussianPair.from_ratios(2.0).delta(1.0)
    assert total == exact_gram(np.full((3, 2), 5.0), row_norm_bound=1.0).to_float().sum()
    assert not list(read_only.rglob("*.nbc"))


def test_what_the_first_answers_need_is_not_compiled():
    """A fit, a Gaussian mechanism and the commands' help start no compiler."""
    code = """
import sys, ndis
ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).profile().certified_epsilon(1e-6)
assert "numba" not in sys.modules
"""
    done = in_child(code, source=PACKAGE.parent)
    assert done.returncode == 0, done.stderr


def test_every_compiled_function_goes_through_one_home():
    uses = [
        p for p in PACKAGE.rglob("*.py") if re.search(r"\bnumba\b.*\bimport\b|\bimport numba|\bnjit\b", p.read_text())
    ]
    assert [p.name for p in uses] == ["_compile.py"]


MODULE = """
from ndis._compile import compiled

@compiled()
def twice(x):
    return 2 * x
"""

# Each process waits in the middle of saving for the other to be there as well, and goes on without it after a while:
# where files are written by one process at a time, the other cannot come.
TOGETHER = """
import os, sys, time
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
import doubling

me, other, argument = sys.argv[1], sys.argv[2], eval(sys.argv[3])
save = IndexDataCacheFile._save_index

def slowly(self, overloads):
    Path(me).touch()
    for _ in range(40):
        if Path(other).exists():
            break
        time.sleep(0.05)
    time.sleep(0.2)
    save(self, overloads)

IndexDataCacheFile._save_index = slowly
assert doubling.twice(argument) == 2 * argument
"""

AFTERWARDS = """
import doubling
assert (doubling.twice(3), doubling.twice(1.5)) == (6, 3.0)
print(sum(doubling.twice.dispatcher().stats.cache_hits.values()))
"""


def test_two_processes_compile_at_once(tmp_path):
    (tmp_path / "doubling.py").write_text(MODULE)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PACKAGE.parent)]),
        "NUMBA_CACHE_DIR": str(tmp_path / "kept"),
    }
    (tmp_path / "kept").mkdir()

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", *arguments]
        return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    both = [start(TOGETHER, "a", "b", "3"), start(TOGETHER, "b", "a", "1.5")]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    after = start(AFTERWARDS)
    found, _ = after.communicate()
    assert after.returncode == 0
    assert found.split()[0] == "2"  # the code of both signatures was kept, each under its own name


def test_files_that_cannot_be_used(tmp_path):
    (tmp_path / "doubling.py").write_text(MODULE)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    hits = []
    for damage in (None, "*.nbc", "*.nbi", None):
        for path in (tmp_path / "kept").rglob(damage) if damage else ():
            path.write_bytes(path.read_bytes()[:20])
        done = in_child(AFTERWARDS, source=tmp_path, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        hits.append(int(done.stdout.split()[0]))
    assert hits == [0, 0, 0, 2]
