"""Read JSON by the letter of the standard, and objects with a known format and known keys."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ndis.errors import ParameterError

__all__ = ["check_format", "loads", "only_keys"]


def loads(name: str, text: str | bytes) -> Any:
    """Read JSON by the letter of the standard: no NaN or Infinity, no key twice."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"the constant {constant}")

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            raise ValueError("a key that appears twice")
        return result

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (TypeError, ValueError, RecursionError) as error:  # json raises these for text that is not JSON, or not text
        raise ParameterError(name, "be valid JSON", str(error)) from error


def only_keys(name: str, result: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `result` if it is a JSON object with all required keys and none beyond the optional ones."""
    if not isinstance(result, dict):
        raise ParameterError(name, "be a JSON object", f"a {type(result).__name__}")
    missing = [key for key in required if key not in result]
    unknown = [key for key in result if key not in required + optional]
    if missing:
        raise ParameterError(name, f"have the keys {', '.join(required)}", f"none called {', '.join(missing)}")
    if unknown:
        raise ParameterError(name, f"have only the keys {', '.join(required + optional)}", ", ".join(unknown))
    return result


def check_format(name: str, result: Any, tag: str, *versions: int) -> int:
    """Return the version of a format that a JSON object says; another format or version is refused.

    >>> check_format("profile", {"format": "a", "format_version": 2}, "a", 1, 2)
    2
    """
    said, version = (result.get(k) if isinstance(result, dict) else None for k in ("format", "format_version"))
    if said != tag:
        raise ParameterError(f"format of the {name}", f"be {tag!r}", repr(said))
    if type(version) is not int or version not in versions:
        raise ParameterError(f"format_version of the {name}", f"be {' or '.join(map(str, versions))}", repr(version))
    return version
