"""A mechanism in words, and as the Python call that makes it: all its fields are public."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ndis._digits import plain
from ndis.dpsgd import DPSGD

__all__ = ["call_of", "described"]

_PLAIN = (bool, int, float, str, type(None))
_IN_THE_CLAIM = ("epsilon", "delta", "adjacency")  # the claim has its own, and the page shows these


def described(mechanism: Any) -> str:
    """The class of a mechanism, and its public parameters.

    >>> described(DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100))
    'DPSGD with noise_multiplier = 1.1, sampling_rate = 0.01, steps = 100'
    """
    own = {name: value for name, value in _parameters(mechanism).items() if name not in _IN_THE_CLAIM}
    words = ", ".join(f"{name} = {_words(value)}" for name, value in own.items() if not _is_nothing(value))
    return type(mechanism).__name__ + (f" with {words}" if words else "")


def call_of(mechanism: Any) -> tuple[str, str] | None:
    """The import and the call that make the same mechanism; None if one of its fields is no plain value.

    >>> call_of(DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100))[1]
    'DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100)'
    """
    kind, own = type(mechanism), _parameters(mechanism)
    if not own or "<locals>" in kind.__qualname__ or not all(_is_plain(value) for value in own.values()):
        return None
    made = f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"
    if "stages" in own:
        made = f"{kind.__name__}.from_schedule({own['stages']!r})"
    return f"from {kind.__module__} import {kind.__name__}", made


def _parameters(mechanism: Any) -> dict[str, Any]:
    """The fields by name; those of the only stage, if the mechanism is a schedule."""
    if isinstance(mechanism, DPSGD):
        stages = [_fields(stage) for stage in mechanism.stages]
        return stages[0] if len(stages) == 1 else {"stages": tuple(tuple(stage.values()) for stage in stages)}
    return _fields(mechanism) if is_dataclass(mechanism) else {}


def _fields(item: Any) -> dict[str, Any]:
    if callable(getattr(item, "arguments", None)):
        return dict(item.arguments())
    return {field.name: getattr(item, field.name) for field in fields(item) if field.init}


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, tuple) and not value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(_is_plain(part) for part in value))


def _words(value: Any) -> str:
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, tuple):
        return f"({', '.join(_words(part) for part in value)})"
    return str(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"
