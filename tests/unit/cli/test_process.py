"""`ndis` as a process: pipes, exit statuses, and how light it starts."""

from __future__ import annotations

import json
import subprocess
import sys

import ndis
from helpers.command import fine, run
from ndis.cli import app
from ndis.pair import GaussianPair


class TestAsAProcess:
    def test_version_help_and_light_import(self):
        assert fine("--version") == f"ndis {ndis.__version__}\n"
        assert {"delta", "epsilon", "curve"} <= set(fine("--help").split())
        code = (
            "import sys\n"
            "from ndis.cli import main\n"
            "sys.argv = ['ndis', '--help']\n"
            "try:\n"
            "    main()\n"
            "except SystemExit as leave:\n"
            "    assert leave.code == 0\n"
            "heavy = {'numba', 'numpy', 'scipy', 'flint', 'matplotlib', 'sklearn', 'pandas'} & sys.modules.keys()\n"
            "assert not heavy, heavy\n"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")

    def test_module(self):
        command = [sys.executable, "-m", "ndis", "delta", "--epsilon", "1", "--json", "--ratio"]
        good = subprocess.run([*command, "2"], capture_output=True, text=True, check=False)
        assert (good.returncode, good.stderr) == (0, "")
        assert json.loads(good.stdout)["values"][0]["log_delta"] == GaussianPair.from_ratios(2.0).log_delta(1.0)
        bad = subprocess.run([*command, "-2"], capture_output=True, text=True, check=False)
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr == "ndis: --ratio must be positive; got [-2.]\n"

    def test_an_interrupt_before_the_command_runs(self, monkeypatch):
        """While options are read, some versions of typer answer an interrupt without a word."""

        def interrupt(*args: object, **options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(app, "make_context", interrupt)
        result = run("delta", "--ratio", 2, "--epsilon", 1)
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", "ndis: interrupted\n")

    def test_a_reader_that_leaves_early(self):
        command = [sys.executable, "-m", "ndis", "curve", "--ratio", "2", "--points", "1500", "--range", "0,1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
