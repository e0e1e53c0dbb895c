"""The public names and their signatures are those of the committed list."""

import ast
import difflib
import importlib
import inspect
import re

import pytest

from helpers.public_api import DOORS, SNAPSHOT, Function, definitions, members, public_api, public_paths

HERE = [path for path in public_paths() if not path.startswith(tuple(f"ndis.{door}." for door in DOORS))]
REMEDY = "the public API changed; if that is meant, run `make api`, commit public_api.txt and say so in CHANGELOG.md"


def test_the_public_api_is_the_committed_one():
    committed, found = SNAPSHOT.read_text(encoding="utf-8"), public_api()
    changes = difflib.unified_diff(committed.splitlines(), found.splitlines(), "committed", "found", lineterm="", n=0)
    assert committed == found, "\n".join([REMEDY, *changes])


def parameters(node):
    """The names of the parameters that a function is written with."""
    given = node.args
    parts = given.posonlyargs, given.args, [given.vararg], given.kwonlyargs, [given.kwarg]
    return [each.arg for part in parts for each in part if each is not None]


def name_of(line):
    """The name of the member that a line describes."""
    return re.split(r"[(:=]| ->", line, maxsplit=1)[0].split()[-1]


@pytest.mark.parametrize("path", HERE)
def test_the_list_is_that_of_the_running_package(path):
    """The list is read from the source, without running it; here it is held against the objects themselves."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    home, nodes = definitions(module, name)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            own = {each for each in {*vars(found), *getattr(found, "__dataclass_fields__", {})} if each[0] != "_"}
            requests = {each for each in own if re.fullmatch("set_.*_request", each)}  # made by scikit-learn
            assert sorted(own - requests - {name_of(line) for line in members(home, node)}) == []
        elif isinstance(node, Function):
            assert list(inspect.signature(found).parameters) == parameters(node)
