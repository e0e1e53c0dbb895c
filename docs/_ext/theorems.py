"""Number the results of the theory page, link every mention of a label, and list the code and tests that name it.

A result is a heading "### thm:plan: A plan of slots" in theory.md. The page shows "Theorem 12 (A plan of slots)", and
below it the label, the modules that name it and the tests that name it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
KINDS = {
    "thm": "Theorem",
    "lem": "Lemma",
    "cor": "Corollary",
    "def": "Definition",
    "bound": "Bound",
    "rule": "Rule",
}
LABEL = rf"(?:{'|'.join(KINDS)}):[a-z0-9-]+"
HEADING = re.compile(rf"^### ({LABEL}): (.+)$", re.MULTILINE)
# A link whose text is a label, a label in backquotes, or a bare label.
MENTION = re.compile(rf"\[`?({LABEL})`?\]\([^)]*\)|`({LABEL})`|(?<![\w`:/#])({LABEL})(?![\w`:])")
FENCE = re.compile(r"(^```.*?^```$|^:::.*?$|^\([^\n]*\)=$)", re.DOTALL | re.MULTILINE)


class Result(NamedTuple):
    """One numbered result."""

    name: str  # Theorem 12
    title: str
    anchor: str


@lru_cache
def results() -> dict[str, Result]:
    """Return all results of the theory page by their labels, in order."""
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    return {
        label: Result(f"{KINDS[label.split(':')[0]]} {number}", title, label.replace(":", "-"))
        for number, (label, title) in enumerate(HEADING.findall(text), 1)
    }


@lru_cache
def namers(folder: str) -> dict[str, list[str]]:
    """Return the files of a folder that name each label."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for label in sorted(set(re.findall(LABEL, path.read_text(encoding="utf-8")))):
            homes.setdefault(label, []).append(str(path.relative_to(ROOT)))
    return homes


def heading(match: re.Match[str]) -> str:
    """Return the numbered heading of a result, with its homes below."""
    label = match[1]
    result = results()[label]
    homes = [
        f"{verb} {', '.join(f'`{name}`' for name in namers(folder).get(label, []))}"
        for verb, folder in (("used in", "src/ndis"), ("checked by", "tests"))
        if label in namers(folder)
    ]
    below = f"{{.homes}}\n`{label}\u200b` · {' · '.join(homes)}"  # a class of its own
    return f"({result.anchor})=\n\n### {result.name} ({result.title})\n\n{below}"


def link(match: re.Match[str]) -> str:
    """Return a link to the result that a mention names; a label of the paper stays as it is."""
    label = match[1] or match[2] or match[3]
    result = results().get(label)
    return match[0] if result is None else f"[{result.name}](#{result.anchor})"


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Number the headings of the theory page and link the mentions on every page."""
    text = source[0]
    if docname == "theory":
        text = HEADING.sub(heading, text)
    parts = FENCE.split(text)
    source[0] = "".join(part if FENCE.fullmatch(part) else MENTION.sub(link, part) for part in parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Read every page before its Markdown is parsed."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
