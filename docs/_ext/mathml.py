"""Maths as MathML, written at build time: the pages need no script and no network to show a formula."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# What the converter gets wrong: a function it does not know, and relations that it sets like letters.
FORMULA = {r"\\arg(?![a-z])": r"\\operatorname{arg}"}
ELEMENTS = {"<mi>&#x0007E;</mi>": "<mo>&#x223C;</mo>", "<mi>&#x029F5;</mi>": "<mo>&#x2216;</mo>"}


def mathml(formula: str, **options: str) -> str:
    """Return a formula as MathML."""
    for wrong, right in FORMULA.items():
        formula = re.sub(wrong, right, formula)
    text = str(convert(formula, **options))
    for wrong, right in ELEMENTS.items():
        text = text.replace(wrong, right)
    return text


def inline(writer: Any, node: nodes.Element) -> None:
    """Write an inline formula."""
    writer.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
