"""The finished neighbours of an audit, on disk, so that a user can interrupt the audit and resume it.

The file holds JSON lines. The first line names the audit. Each other line is one neighbour with its scores, which come
back bit for bit. An interrupt may cut the last line short; the journal drops such a line. It refuses any other damage
and does not touch a file that is no journal. The file is locked while an audit runs, and only its user may read it.

The name of an audit is a digest of the claim, the data, the rules and the law of the algorithm on the data. It does
not cover the code of the algorithm. So a resumed audit runs a few neighbours again, the worst among them (`probes`),
and their scores must be as before.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from types import TracebackType
from typing import IO, Any

from ndis._json import loads
from ndis.errors import ParameterError

__all__ = ["Journal", "Scores"]

Scores = list[tuple[float, float]]  # (log δ, slack) of each order at each claimed point
_FORMAT = "ndis.AuditJournal"
_PROBES = 4  # neighbours that a resumed audit runs again
_CLOSE = 1e-9  # of log δ: closer scores count as equal


class Journal:
    """Scores by the name of the neighbour, kept on disk if there is a path.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "audit.jsonl"
    ...     with Journal(path, {"audit": 1}, 1) as journal:
    ...         journal.add("remove:0", [(-1.5, 0.0)])
    ...     with Journal(path, {"audit": 1}, 1) as journal:
    ...         journal.done, journal.probes
    ({'remove:0': [(-1.5, 0.0)]}, {'remove:0'})
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: dict[str, Any], count: int) -> None:
        self.done: dict[str, Scores] = {}
        self.probes: set[str] = set()  # read from the file and run again
        self._mark = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._count = count  # scores per neighbour
        self._file: IO[bytes] | None = None
        if path is None:
            return
        self._file = open(path, "a+b")  # noqa: SIM115 - closed by `__exit__`
        try:
            _lock(self._file)
            self._resume(self._file)
        except OSError as error:
            self._close()
            raise ParameterError("journal", "be a file that can be read and written", str(error)) from error
        except ParameterError:
            self._close()
            raise
        self.probes = self._chosen()

    def add(self, name: str, scores: Scores) -> None:
        """Note a finished neighbour; if the file already has it, its scores must agree."""
        if name in self.probes:
            self.probes.discard(name)
            if not _alike(scores, self.done[name]):
                raise ParameterError(
                    "journal", "belong to this algorithm", "scores that do not come out again", "name a new file"
                )
            return
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
            os.fsync(self._file.fileno())
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _key(self, name: str) -> str:
        return hashlib.sha256(f"{self._mark} {name}".encode()).hexdigest()[:16]

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            try:
                self._file.write(_bytes(line))
                self._file.flush()
            except OSError as error:
                raise ParameterError("journal", "be a file that can be read and written", str(error)) from error

    def _resume(self, file: IO[bytes]) -> None:
        """Read and check everything, and only then cut off a last line that an interrupt left."""
        first = {"format": _FORMAT, "audit": self._mark}
        file.seek(0)
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end == 0:
            if not _bytes(first).startswith(content):
                raise ParameterError("journal", "be the journal of an audit", "another file")
            file.truncate(0)
            self._write(first)
            return
        lines = content[:end].split(b"\n")[:-1]
        header = _header(lines[0])
        if header.get("audit") != self._mark:
            raise ParameterError(
                "journal", "belong to this audit", "one of another claim, algorithm, data or rule", "name a new file"
            )
        for number, line in enumerate(lines[1:], start=2):
            found = _line(line, number)
            name = found.get("name")
            if not isinstance(name, str) or found.get("key") != self._key(name):
                raise ParameterError(f"line {number} of the journal", "belong to this audit", "another")
            self.done[name] = _scores(found.get("scores"), number, self._count)
        if end < len(content):
            file.truncate(end)

    def _chosen(self) -> set[str]:
        """The names to run again: the worst neighbour, and others spread over the file."""
        names = list(self.done)
        if not names:
            return set()
        worst = max(names, key=lambda name: max(value for value, _ in self.done[name]))
        return {worst, *names[:: max(1, math.ceil(len(names) / (_PROBES - 1)))]}


def _lock(file: IO[bytes]) -> None:
    """Keep other audits out, if the system can."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ParameterError("journal", "not be in use", "one that another audit holds") from None


def _bytes(line: dict[str, Any]) -> bytes:
    return (json.dumps(line, allow_nan=False) + "\n").encode()


def _header(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ParameterError("journal", "be the journal of an audit", "another file")
    return found


def _line(line: bytes, number: int) -> dict[str, Any]:
    found = loads(f"line {number} of the journal", line)
    if not isinstance(found, dict):
        raise ParameterError(f"line {number} of the journal", "be a JSON object", type(found).__name__)
    return found


def _scores(found: Any, number: int, count: int) -> Scores:
    """(log δ, slack). A null log δ is −∞ (δ = 0); a null slack is +∞ (floats could not tell)."""
    pairs = isinstance(found, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in found)
    if not (pairs and len(found) == count and all(x is None or type(x) in (int, float) for p in found for x in p)):
        rule = f"hold {count} scores, each of two numbers"
        raise ParameterError(f"line {number} of the journal", rule, "others")
    return [
        (-math.inf if value is None else float(value), math.inf if slack is None else float(slack))
        for value, slack in found
    ]


def _alike(one: Scores, other: Scores) -> bool:
    return all(
        a == b or math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE) for (a, _), (b, _) in zip(one, other, strict=True)
    )
