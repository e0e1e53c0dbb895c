"""Count lines of code per package, without docstrings, comments and blank lines.

    python .ci/code_lines.py [COMMIT ...]

Without a commit the working tree is counted. A line counts if a token of code stands on it.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Number of lines with code.

    >>> code_lines("'Doc.'\\nx = 1  # one\\n\\n# two\\ny = (2,\\n 3)\\n")
    3
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            prose |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)


def sources(commit: str | None) -> Iterator[tuple[str, str]]:
    """(path below src/ndis, text) of every module."""
    if commit is None:
        for path in sorted((ROOT / "src" / "ndis").rglob("*.py")):
            yield str(path.relative_to(ROOT / "src" / "ndis")), path.read_text(encoding="utf-8")
        return
    names = _git("ls-tree", "-r", "--name-only", commit, "src/ndis").split()
    for name in names:
        if name.endswith(".py"):
            yield name.removeprefix("src/ndis/"), _git("show", f"{commit}:{name}")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(commits: list[str]) -> None:
    """Print a table: one row per package, one pair of columns (lines, files) per commit."""
    tables = []
    for commit in commits or [None]:  # type: ignore[list-item]
        lines, files = Counter[str](), Counter[str]()
        for name, text in sources(commit):
            package = name.partition("/")[0] if "/" in name else "(top)"
            for row in (package, "all"):
                lines[row] += code_lines(text)
                files[row] += 1
        tables.append((commit or "working tree", lines, files))
    print(" " * 12 + "".join(f"{name[:14]:>22}" for name, _, _ in tables))
    for row in sorted({key for _, lines, _ in tables for key in lines}, key=lambda row: (row == "all", row)):
        print(f"{row:<12}" + "".join(f"{lines[row]:>10} in {files[row]:>3} files" for _, lines, files in tables))


if __name__ == "__main__":
    main(sys.argv[1:])
