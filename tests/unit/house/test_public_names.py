"""What `ndis` gives by name, and how light it stays."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ndis
from helpers.public_api import in_reference

PACKAGE = Path(ndis.__file__).parent
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]


def _words_of_messages() -> set[str]:
    """Every word in the text that the code hands to an error or a warning."""
    found: set[str] = set()
    for node in (node for tree in TREES for node in ast.walk(tree)):
        name = getattr(getattr(node, "func", None), "id", "") or getattr(getattr(node, "func", None), "attr", "")
        if isinstance(node, ast.Call) and (name.endswith(("Error", "Warning")) or name == "warn"):
            texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            found |= {word for text in texts if isinstance(text, str) for word in re.findall(r"\w+", text)}
    return found


def test_a_class_that_a_message_names_can_be_imported_from_the_package():
    classes = {node.name for tree in TREES for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    named = {name for name in classes & _words_of_messages() if not name.startswith("_")}
    assert "GaussianPair" in named
    listed = {name.rpartition(".")[2] for name in in_reference()}
    assert sorted(named - set(ndis.__all__) - listed) == []


def test_every_public_name_is_there():
    for name in ndis.__all__:
        assert getattr(ndis, name) is getattr(ndis, name)
    names = {*ndis._HOMES, "__version__"}
    modules = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {path.stem for path in PACKAGE.glob("*.py")}
    assert names <= set(ndis.__all__) <= names | modules


@pytest.mark.parametrize("module", ["numpy", "click", "ndis.cli.spectrum"])
def test_an_interrupt_while_the_command_is_being_imported(module, tmp_path):
    """The module that comes in the place of the named one is interrupted, as by Ctrl-C."""
    code = f"""
import importlib.abc, os, runpy, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["ndis", "delta", "--ratio", "2", "--epsilon", "1"]
runpy.run_module("ndis", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ndis: interrupted\n")
