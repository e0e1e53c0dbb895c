"""Docstrings are plain text with numpydoc headings; reStructuredText must not read more into them."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of |x|, and show an indented formula as it is typed."""
    found: list[str] = []
    code = literal = False
    for line in lines:
        before = found[-1] if found else ""
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        literal = literal and (not line.strip() or line.startswith("    "))
        if line.startswith("    ") and not (code or literal or before.strip()) and _ends_prose(found):
            found.extend(["::", ""])
            literal = True
        found.append(line if code or literal else re.sub(r"(?<!\\)\|", r"\\|", line))
    lines[:] = found


def _ends_prose(found: list[str]) -> bool:
    """Whether the last line with text belongs to a paragraph, not to an indented block, a list or a directive."""
    last = next((line for line in reversed(found) if line.strip()), "")
    return bool(last) and not re.match(r" |\.\. |:|[-*+] |\d+\. ", last)


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Run after numpydoc."""
    app.connect("autodoc-process-docstring", escape, priority=900)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
