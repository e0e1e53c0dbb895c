"""Choose the cases of a rule that every run of the tests checks; `make sweep` checks all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest


def quick(cases: Iterable[Any], keep: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters of a test; those that are not in `keep` have the marker `sweep`.

    >>> [case if isinstance(case, str) else case.marks[0].name for case in quick("abc", "a")]
    ['a', 'sweep', 'sweep']
    """
    cases, keep = list(cases), list(keep)
    assert keep
    assert all(case in cases for case in keep)
    return [
        case if case in keep else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.sweep)
        for case in cases
    ]


def crossed(*factors: Iterable[Any], keep: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the same for all combinations of the factors, each a tuple; a factor of tuples is spread out."""

    def spread(case: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(entry for one in case for entry in (one if isinstance(one, tuple) else (one,)))

    return quick(map(spread, product(*factors)), keep)


class Made(Mapping[str, Any]):
    """Things that are made when they are first asked for, not by every process that collects the tests.

    >>> made = Made(one=lambda: [1])
    >>> made["one"] is made["one"], list(made)
    (True, ['one'])
    """

    def __init__(self, **makers: Callable[[], Any]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
