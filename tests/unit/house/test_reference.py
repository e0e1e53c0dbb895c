"""The API reference names every public name, and no other."""

import importlib

import pytest

import ndis
from helpers.public_api import PACKAGES, in_reference

LISTED = in_reference()
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
