"""Long names may break after a dot, a colon, a slash or an underscore. Pages of sources link to where names are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # tests read this file where no site is built
    from sphinx.application import Sphinx

# Sphinx takes one prefix for all names of a module, whether a name is ndis.DPSGD or ndis.dpsgd.EpochRow.
BACK = re.compile(r'(generated/([\w.]*?)(\w+)\.html#)[\w.]+?\.(\3(?:\.\w+)*")')
PIECE = re.compile(r'(?<=<span class="pre">)[^<]{24,}(?=</span>)')


def break_names(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mark the places where a browser may break: a mark is no character, so copied names stay whole."""
    if page.startswith("_modules/"):
        context["body"] = BACK.sub(r"\1\2\4", context["body"])
    for part in ("body", "toc"):
        if part in context:
            context[part] = PIECE.sub(lambda m: re.sub(r"(?<=[_./:,=(])(?=\w)", "<wbr>", m[0]), context[part])


def setup(app: Sphinx) -> dict[str, Any]:
    """Run when a page is written."""
    app.connect("html-page-context", break_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
