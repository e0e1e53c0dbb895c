"""Write pairs and profiles as JSON: exact inputs, never numbers computed from them. So certificates survive.

Python writes the shortest decimal that reads back as the same float, so every input comes back bit for bit. Rationals
are written as text. Format 2 of a profile is written, and format 1 is still read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ndis._groups import Group
from ndis._json import check_format, loads, only_keys
from ndis._version import __version__
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

__all__ = ["pair_from_arrays", "pair_from_json", "pair_to_json", "profile_from_json", "profile_to_json"]

_FORMAT, _FORMAT_VERSIONS = "ndis.PrivacyProfile", (1, 2)
_COMMON = ("format", "format_version", "ndis_version")


class _Kind(NamedTuple):
    """A way to make a pair: the constructor and its arguments, in the order of `Origin.arrays`."""

    make: Callable[..., GaussianPair]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


_KINDS = {
    "ratios": _Kind(GaussianPair.from_ratios, ("variance_ratio",), ("shift", "copies")),
    "excess": _Kind(GaussianPair.from_excess, ("excess",), ("shift", "copies")),
    "diagonal": _Kind(GaussianPair.from_diagonal, ("mean_p", "var_p", "mean_q", "var_q")),
    "dense": _Kind(GaussianPair.from_moments, ("mean_p", "cov_p", "mean_q", "cov_q")),
    "low-rank": _Kind(GaussianPair.from_low_rank, ("mean_p", "mean_q", "cov_q", "factor"), ("sign",)),
}


def pair_from_arrays(name: str, arrays: Mapping[str, Any]) -> GaussianPair:
    """The pair made by the constructor whose arguments these are."""
    for kind in _KINDS.values():
        if set(kind.required) <= arrays.keys() <= {*kind.required, *kind.optional}:
            return kind.make(**arrays)
    choices = " or ".join(", ".join(k.required) + "".join(f" [{o}]" for o in k.optional) for k in _KINDS.values())
    raise ParameterError(f"keys of {name}", f"be {choices}", ", ".join(arrays) or "none")


def pair_to_json(pair: GaussianPair) -> list[dict[str, Any]]:
    """The pair as a list of the origins it is composed of."""
    if not pair.origins:
        raise ParameterError("pair", "know what it was made from", "no origins", "make it with a from_... constructor")
    return [
        {
            "kind": o.kind,
            "reverse": o.reverse,
            "copies": o.copies,
            "arrays": {
                key: [str(x) for x in a] if a.dtype == object and o.kind == "excess" else a.tolist()
                for key, a in zip(_KINDS[o.kind].required + _KINDS[o.kind].optional, o.arrays, strict=True)
            },
        }
        for o in pair.origins
    ]


def pair_from_json(name: str, result: Any) -> GaussianPair:
    """Make the pair again from its origins."""
    if not isinstance(result, list) or not result:
        raise ParameterError(name, "be a list of at least one origin", f"a {type(result).__name__}")
    first, *others = (_origin_from_json(name, item) for item in result)
    return first.compose(*others) if others else first


def _origin_from_json(name: str, result: Any) -> GaussianPair:
    item = only_keys(name, result, ("kind", "reverse", "copies", "arrays"))
    kind, reverse, copies = item["kind"], item["reverse"], item["copies"]
    if not (isinstance(kind, str) and kind in _KINDS):
        raise ParameterError(f"kind in {name}", f"be one of {', '.join(_KINDS)}", repr(kind))
    if not isinstance(reverse, bool):
        raise ParameterError(f"reverse in {name}", "be true or false", repr(reverse))
    if type(copies) is not int:
        raise ParameterError(f"copies in {name}", "be a whole number of at least 1", repr(copies))
    arrays = only_keys(f"arrays in {name}", item["arrays"], _KINDS[kind].required + _KINDS[kind].optional)
    if kind == "excess":
        arrays = {**arrays, **{key: _rationals(f"{key} in {name}", arrays[key]) for key in ("excess", "shift")}}
    pair = _KINDS[kind].make(**arrays)
    if reverse:
        pair = pair.reversed()
    return pair if copies == 1 else pair.repeat(copies)


def _rationals(name: str, result: Any) -> list[Fraction]:
    """Rationals that were written as text."""
    try:
        if isinstance(result, list) and all(isinstance(text, str) for text in result):
            return [Fraction(text) for text in result]
    except (ValueError, ZeroDivisionError):
        pass
    raise ParameterError(name, "be a list of rationals as text", f"{result!r:.80}")


# ---------------------------------------------------------------------- profiles


def profile_to_json(groups: Iterable[Group], adjacency: str, failure_probability: float) -> str:
    """Write the groups of a profile as JSON text."""
    result: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSIONS[-1],
        "ndis_version": __version__,
        "adjacency": adjacency,
        "groups": [_group_to_dict(group) for group in groups],
    }
    if failure_probability:
        result["failure_probability"] = failure_probability
    return json.dumps(result, allow_nan=False)


def profile_from_json(text: str | bytes) -> dict[str, Any]:
    """The arguments of the profile that `profile_to_json` wrote; anything else is refused."""
    result = loads("profile", text)
    if check_format("profile", result, _FORMAT, *_FORMAT_VERSIONS) == 1:
        only_keys("profile", result, (*_COMMON, "sampling_rates", "remove"), ("add", "failure_probability"))
        if not isinstance(result["sampling_rates"], list):
            raise ParameterError("sampling_rates", "be a list of numbers", repr(result["sampling_rates"]))
        pairs = {key: result[key] for key in ("remove", "add") if key in result}
        items: Any = [{**pairs, "rates": result["sampling_rates"], "count": 1}]
    else:
        only_keys("profile", result, (*_COMMON, "adjacency", "groups"), ("failure_probability",))
        items = result["groups"]
        if not isinstance(items, list) or not items:
            raise ParameterError("groups of the profile", "be a list of at least one group", f"{items!r:.80}")
    return {
        "groups": [_group_from_dict(item) for item in items],
        "adjacency": result.get("adjacency", "add-remove"),  # format 1 did not name it
        "failure_probability": result.get("failure_probability", 0.0),
    }


def _group_to_dict(group: Group) -> dict[str, Any]:
    result: dict[str, Any] = {"remove": pair_to_json(group.remove)}
    add = pair_to_json(group.add)
    if add != pair_to_json(group.remove.reversed()):
        result["add"] = add
    return {**result, "rates": list(group.rates), "count": group.count}


def _group_from_dict(result: Any) -> Group:
    item = only_keys("group of the profile", result, ("remove", "rates", "count"), ("add",))
    rates, count = item["rates"], item["count"]
    if not isinstance(rates, list):
        raise ParameterError("rates", "be a list of numbers", repr(rates))
    if type(count) is not int:
        raise ParameterError("count of a group", "be a whole number of at least 1", repr(count))
    remove = pair_from_json("remove", item["remove"])
    add = pair_from_json("add", item["add"]) if "add" in item else remove.reversed()
    return Group(remove, add, tuple(rates), count)
