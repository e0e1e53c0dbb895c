"""Maths as MathML, written at build time: the pages need no script and no network to show a formula."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def inline(writer: Any, node: nodes.Element) -> None:
    """Write an inline formula."""
    writer.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
