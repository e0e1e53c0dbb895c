"""Privacy profiles as JSON, from the exact inputs of their pairs. Format 2 is written; format 1 is still read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ndis._groups import Group
from ndis._json import loads, only_keys
from ndis._pair_json import pair_from_json, pair_to_json
from ndis._version import __version__
from ndis.errors import ParameterError

__all__ = ["profile_from_json", "profile_to_json"]

_FORMAT, _FORMAT_VERSIONS = "ndis.PrivacyProfile", (1, 2)
_COMMON = ("format", "format_version", "ndis_version")


def profile_to_json(groups: Iterable[Group], adjacency: str, failure_probability: float) -> str:
    """The parts of a profile as JSON text."""
    found: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSIONS[-1],
        "ndis_version": __version__,
        "adjacency": adjacency,
        "groups": [_group_to_dict(group) for group in groups],
    }
    if failure_probability:
        found["failure_probability"] = failure_probability
    return json.dumps(found, allow_nan=False)


def profile_from_json(text: str | bytes) -> dict[str, Any]:
    """The arguments of the profile that `profile_to_json` wrote; anything else is refused."""
    found = loads("profile", text)
    tag, version = (found.get(k) if isinstance(found, dict) else None for k in ("format", "format_version"))
    if tag != _FORMAT:
        raise ParameterError("format of the profile", f"be {_FORMAT!r}", repr(tag))
    if type(version) is not int or version not in _FORMAT_VERSIONS:
        raise ParameterError("format_version of the profile", "be 1 or 2", repr(version))
    if version == 1:
        only_keys("profile", found, (*_COMMON, "sampling_rates", "remove"), ("add", "failure_probability"))
        if not isinstance(found["sampling_rates"], list):
            raise ParameterError("sampling_rates", "be a list of numbers", repr(found["sampling_rates"]))
        pairs = {key: found[key] for key in ("remove", "add") if key in found}
        items: Any = [{**pairs, "rates": found["sampling_rates"], "count": 1}]
    else:
        only_keys("profile", found, (*_COMMON, "adjacency", "groups"), ("failure_probability",))
        items = found["groups"]
        if not isinstance(items, list) or not items:
            raise ParameterError("groups of the profile", "be a list of at least one group", f"{items!r:.80}")
    return {
        "groups": [_group_from_dict(item) for item in items],
        "adjacency": found.get("adjacency", "add-remove"),  # format 1 did not name it
        "failure_probability": found.get("failure_probability", 0.0),
    }


def _group_to_dict(group: Group) -> dict[str, Any]:
    found: dict[str, Any] = {"remove": pair_to_json(group.remove)}
    add = pair_to_json(group.add)
    if add != pair_to_json(group.remove.reversed()):
        found["add"] = add
    return {**found, "rates": list(group.rates), "count": group.count}


def _group_from_dict(found: Any) -> Group:
    item = only_keys("group of the profile", found, ("remove", "rates", "count"), ("add",))
    rates, count = item["rates"], item["count"]
    if not isinstance(rates, list):
        raise ParameterError("rates", "be a list of numbers", repr(rates))
    if type(count) is not int:
        raise ParameterError("count of a group", "be a whole number of at least 1", repr(count))
    remove = pair_from_json("remove", item["remove"])
    add = pair_from_json("add", item["add"]) if "add" in item else remove.reversed()
    return Group(remove, add, tuple(rates), count)
