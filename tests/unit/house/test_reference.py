"""The API reference names every public name, and no other."""

import importlib
import re

import pytest

import ndis
from helpers.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^   ([A-Za-z][\w.]*)$", PAGE, flags=re.MULTILINE))
PACKAGES = ("auditing", "gram", "learn", "models", "plotting", "sampling", "schema", "testing")
NOT_SHOWN = {"DEFAULT_FRACTIONAL_BITS", "Column"}  # a number, and a union of the column classes


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_every_public_name_is_listed(package):
    module = importlib.import_module(f"ndis.{package}" if package else "ndis")
    names = {n for n in module.__all__ if not n.startswith("_") and not hasattr(getattr(module, n), "__path__")}
    modules = {n for n in names if type(getattr(module, n)).__name__ == "module"}
    wanted = {n if n in ndis.__all__ else f"{package}.{n}" for n in names - modules - NOT_SHOWN}
    assert wanted <= LISTED, sorted(wanted - LISTED)


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_listed_name_is_there(name):
    found = ndis
    for part in name.split("."):
        found = getattr(found, part)
    assert found.__doc__
