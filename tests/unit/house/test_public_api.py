"""The public names and their signatures are those of the committed list."""

import ast
import difflib
import importlib
import inspect
import re

import pytest

from helpers.public_api import (
    DOORS,
    SNAPSHOT,
    Function,
    constructor,
    definitions,
    members,
    parameters,
    public_api,
    public_paths,
)

HERE = [path for path in public_paths() if not path.startswith(tuple(f"ndis.{door}." for door in DOORS))]
REMEDY = "the public API changed; if that is meant, run `make api`, commit public_api.txt and say so in CHANGELOG.md"


def test_the_public_api_is_the_committed_one():
    committed, found = SNAPSHOT.read_text(encoding="utf-8"), public_api()
    changes = difflib.unified_diff(committed.splitlines(), found.splitlines(), "committed", "found", lineterm="", n=0)
    assert committed == found, "\n".join([REMEDY, *changes])


def names_in(written):
    """The names of the parameters in a list as the snapshot writes it."""
    function = ast.parse(f"def f{written}: ...").body[0]
    given = function.args
    parts = given.posonlyargs, given.args, [given.vararg], given.kwonlyargs, [given.kwarg]
    return [each.arg for part in parts for each in part if each is not None]


def names_of(found):
    """The names of the parameters of an object, those that need their keyword sorted."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    given = inspect.signature(found).parameters.values()
    kinds = sorted({each.kind for each in given})
    listed = {kind: [each.name for each in given if each.kind == kind] for kind in kinds}
    return [name for kind in kinds for name in (sorted(listed[kind]) if kind == keyword else listed[kind])]


@pytest.mark.parametrize("path", HERE)
def test_the_list_is_that_of_the_running_package(path):
    """The list is read from the source, without running it; here it is held against the objects themselves."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    home, nodes = definitions(module, name)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            written, taken = constructor(home, node)
            assert not written or names_in(written) == names_of(found)
            own = {each for each in {*vars(found), *getattr(found, "__dataclass_fields__", {})} if each[0] != "_"}
            requests = {each for each in own if re.fullmatch("set_.*_request", each)}  # made by scikit-learn
            assert sorted(own - requests - taken - members(home, node).keys()) == []
        elif isinstance(node, Function):
            assert names_in(parameters(node, bound=False)) == names_of(found)
