"""By what an algorithm is known again: its name, its code, and the values it closes over.

Modules are not read: a journal also runs some of its neighbours again.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["fingerprint"]


def fingerprint(algorithm: Any) -> str:
    """A digest that changes with the code of a function, its defaults, what it closes over, and the state of an object.

    >>> def first(data): return data, 1.0
    >>> def second(data): return data, 2.0
    >>> second.__qualname__ = first.__qualname__
    >>> fingerprint(first) == fingerprint(first), fingerprint(first) == fingerprint(second)
    (True, False)
    """
    mark = hashlib.sha256()
    for part in _parts(algorithm, set()):
        mark.update(len(part).to_bytes(8, "big") + part)
    return mark.hexdigest()


def _parts(value: Any, seen: set[int]) -> list[bytes]:
    if id(value) in seen:
        return [b"again"]
    if isinstance(value, FunctionType):
        seen.add(id(value))
        inside = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        values = [value.__defaults__, value.__kwdefaults__, *inside]
        return [_name(value), *_code(value.__code__), *(p for v in values for p in _parts(v, seen))]
    if isinstance(value, MethodType):
        return [*_parts(value.__func__, seen), *_parts(value.__self__, seen)]
    if isinstance(value, functools.partial):
        inside = [value.func, *value.args, *(x for item in sorted(value.keywords.items()) for x in item)]
        return [b"partial", *(p for v in inside for p in _parts(v, seen))]
    own = type(value).__call__ if callable(value) else None
    code = _parts(own, seen) if isinstance(own, FunctionType) else []
    named = getattr(type(value), "func", None)  # an object that stands for a function
    if isinstance(named, property):
        code += _parts(value.func, seen)
    return [_name(type(value)), *code, _pickled(value)]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _name(value: Any) -> bytes:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode()


def _code(code: CodeType) -> list[bytes]:
    found = [code.co_code, repr((code.co_names, code.co_varnames, code.co_freevars)).encode()]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _code(constant)
        else:  # the order of a set differs from run to run
            text = repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
            found.append(text.encode())
    return found


def _pickled(value: Any) -> bytes:
    """The state of a value; nothing where it cannot be written down."""
    try:
        return pickle.dumps(value, protocol=4)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return b""
