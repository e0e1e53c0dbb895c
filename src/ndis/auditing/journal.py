"""What is finished of an audit, on disk, so that it can be interrupted and resumed.

A file of JSON lines. The first names the audit; each of the others is one neighbour with its scores, which come back
bit for bit. A last line cut short, as an interrupt may leave it, is dropped; any other damage is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from ndis.errors import ParameterError

__all__ = ["Journal", "Scores"]

Scores = list[tuple[float, float]]  # (log δ, slack) of each order at each claimed point
_FORMAT = "ndis.AuditJournal"
_CLOSE = 1e-6  # the same algorithm on the same data may differ in its last digits between machines


class Journal:
    """Scores by the name of the neighbour; on disk if a path is given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "audit.jsonl"
    ...     with Journal(path, {"audit": 1}) as journal:
    ...         journal.add("remove:0", [(-1.5, 0.0)])
    ...     with Journal(path, {"audit": 1}) as journal:
    ...         journal.done
    {'remove:0': [(-1.5, 0.0)]}
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, identity: dict[str, Any], law: tuple[float, ...] = ()
    ) -> None:
        self.done: dict[str, Scores] = {}
        self._mark = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._file = None
        if path is None:
            return
        target = Path(path)
        try:
            if target.exists():
                self._resume(target, law)
            self._file = target.open("a", encoding="utf-8")
            if self._file.tell() == 0:
                self._write({"format": _FORMAT, "audit": self._mark, "law": list(law)})
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError("journal", "be a file that can be read and written", str(error)) from error

    def add(self, name: str, scores: Scores) -> None:
        """One neighbour is finished."""
        self.done[name] = scores
        if self._file is not None:
            plain = [[None if math.isinf(value) else value for value in pair] for pair in scores]
            self._write({"key": self._key(name), "name": name, "scores": plain})

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _key(self, name: str) -> str:
        return hashlib.sha256(f"{self._mark} {name}".encode()).hexdigest()[:16]

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()

    def _resume(self, target: Path, law: tuple[float, ...]) -> None:
        text = target.read_bytes()
        end = text.rfind(b"\n") + 1
        if end < len(text):  # cut short
            os.truncate(target, end)
        lines = text[:end].decode("utf-8").splitlines()
        if not lines:
            return
        first = _line(lines[0], 1)
        if first.get("format") != _FORMAT:
            raise ParameterError("journal", "be the journal of an audit", "another file")
        then = first.get("law", [])
        same = len(then) == len(law) and all(math.isclose(a, b, rel_tol=_CLOSE) for a, b in zip(then, law, strict=True))
        if first.get("audit") != self._mark or not same:
            raise ParameterError(
                "journal", "belong to this audit", "one of another claim, algorithm, data or rule", "name a new file"
            )
        for number, line in enumerate(lines[1:], start=2):
            found = _line(line, number)
            name = found.get("name")
            if not isinstance(name, str) or found.get("key") != self._key(name):
                raise ParameterError(f"line {number} of the journal", "belong to this audit", "another")
            # the first of a pair is −∞ where δ = 0, the second +∞ where floats could not tell
            self.done[name] = [
                (-math.inf if value is None else value, math.inf if slack is None else slack)
                for value, slack in found["scores"]
            ]


def _line(text: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ParameterError(f"line {number} of the journal", "be valid JSON", str(error)) from error
    if not isinstance(found, dict):
        raise ParameterError(f"line {number} of the journal", "be a JSON object", type(found).__name__)
    return found
