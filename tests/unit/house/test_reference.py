"""The API reference names every public name, and no other. Each has an example that the doctests run."""

import doctest
import importlib
import inspect
import re

import pytest

import ndis
from helpers.places import ROOT
from helpers.public_api import PACKAGES, REFERENCE, in_reference

LISTED = in_reference()
RETURNED = re.findall(r"^   ~([\w.]+)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
NOT_SHOWN = {"DEFAULT_FRACTIONAL_BITS", "Column"}  # a number, and a union of the column classes


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_every_public_name_is_listed(package):
    module = importlib.import_module(f"ndis.{package}" if package else "ndis")
    names = {n for n in module.__all__ if not n.startswith("_") and not hasattr(getattr(module, n), "__path__")}
    modules = {n for n in names if type(getattr(module, n)).__name__ == "module"}
    wanted = {n if n in ndis.__all__ else f"{package}.{n}" for n in names - modules - NOT_SHOWN}
    assert wanted <= LISTED, sorted(wanted - LISTED)


def listed(name):
    if "._" in name:
        importlib.import_module(f"ndis.{name.rpartition('.')[0]}")
    thing = ndis
    for step in name.split("."):
        thing = getattr(thing, step)
    return thing


@pytest.mark.parametrize("name", sorted({*LISTED, *RETURNED}))
def test_every_listed_name_is_there(name):
    assert listed(name).__doc__


def test_what_people_hold_in_hand_is_listed():
    shown = {name.rpartition(".")[2] for name in RETURNED}
    assert {"CoefficientTable", "Receipt", "Stage", "Unshrunk"} <= shown


def test_every_listed_name_has_an_example():
    examples = doctest.DocTestParser().get_examples
    assert not [name for name in sorted({*LISTED, *RETURNED}) if not examples(inspect.getdoc(listed(name)))]


TEMPLATE = (ROOT / "docs" / "_templates" / "autosummary" / "class.rst").read_text(encoding="utf-8")
FOREIGN = re.findall(r"\w+", TEMPLATE.split(":inherited-members:")[1])


@pytest.mark.parametrize("name", sorted({*LISTED, *RETURNED}))
def test_the_page_of_a_class_has_what_it_inherits_from_us_and_nothing_else(name):
    """The template names the foreign classes whose methods are left out."""
    thing = listed(name)
    classes = thing.__mro__[:-1] if inspect.isclass(thing) else ()
    assert [base for base in classes if base.__module__.startswith("ndis.") and base.__name__ in FOREIGN] == []
    home = {member: base for base in reversed(classes) for member in vars(base) if member[0] != "_"}
    shown = {member for member, base in home.items() if callable(vars(base)[member]) and base.__name__ not in FOREIGN}
    strangers = {member for member in shown if not home[member].__module__.startswith("ndis.")}
    assert {member for member in strangers if not re.fullmatch(r"set_\w+_request", member)} == set()
