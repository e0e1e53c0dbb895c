"""The wheel holds what the package needs, and works far from the source tree. `make wheel` does more, per Python."""

import os
import runpy
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

from helpers.places import ROOT

CHECK = runpy.run_path(str(ROOT / ".ci" / "check_wheel.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(place), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    (found,) = place.glob("*.whl")
    return found


def test_content(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(n).decode() for n in names if n.endswith("/METADATA"))
    for needed in ("ndis/py.typed", "ndis/pages/templates/audit.html.jinja", "ndis/pages/templates/page.css"):
        assert needed in names
    assert "ndis/pages/templates/ledger.html.jinja" in names
    assert not [n for n in names if n.startswith(("tests/", "docs/", "benchmarks/")) or "__pycache__" in n]
    for line in ("Author: the ndis developers", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert line in metadata
    assert "](docs/" not in metadata  # neither pictures nor links that lead nowhere
    assert "](https://arxiv.org" in metadata


def test_use_in_a_clean_environment(wheel, tmp_path):
    """An environment of its own, with the dependencies of this one and the wheel in place of the source tree."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not read
    run = str(tmp_path / "env" / "bin" / "python")
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    where = subprocess.run(
        [run, "-c", "import ndis; print(ndis.__file__)"],
        cwd=tmp_path, env=clean, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(tmp_path))
    command = [run, "-c", CHECK["USE"]]
    clean["NUMBA_DISABLE_JIT"] = "1"  # Python runs the few kernels in less time than they take to compile
    used = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert used.returncode == 0, used.stderr
