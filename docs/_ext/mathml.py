"""Maths as MathML, written at build time: the pages need no script and no network to show a formula."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# What the converter gets wrong: functions it does not know, relations set like letters, bars and slashes set like
# relations, names of functions without a space behind them, primes that are raised twice.
FORMULA = {r"\\arg(?![a-z])": r"\\operatorname{arg}"}
TIGHT = 'lspace="0" rspace="0"'
ELEMENTS = {
    "<mi>&#x0007E;</mi>": "<mo>&#x223C;</mo>",
    "<mi>&#x029F5;</mi>": "<mo>&#x2216;</mo>",
    "<mi>(&#x02AAF;|&#x02AB0;|&#x027C2;)</mi>": r"<mo>\1</mo>",
    "<mo>(&#x0221E;|&#x022A4;)</mo>": r"<mi>\1</mi>",
    "<mi>(&#x0203[23];)</mi>": r'<mpadded voffset="-0.35em" height="0.5em"><mi>\1</mi></mpadded>',
    r'<mo(?: stretchy="false")?>(&#x0007C;|&#x02016;)</mo>': rf'<mo stretchy="false" {TIGHT}>\1</mo>',
    "<mo>&#x0002F;</mo>": f"<mo {TIGHT}>&#x0002F;</mo>",
    r"<mo( movablelimits=\"true\")?>([A-Za-z]+)</mo>": r'<mo\1 lspace="0" rspace="0.17em">\2</mo>',
    r"<mi>([a-z]{2,})</mi>(?=<m[a-z])(?!<mo)": r'<mo lspace="0" rspace="0.17em">\1</mo>',
}


def mathml(formula: str, **options: str) -> str:
    """Return a formula as MathML."""
    for wrong, right in FORMULA.items():
        formula = re.sub(wrong, right, formula)
    text = str(convert(formula, **options))
    for wrong, right in ELEMENTS.items():
        text = re.sub(wrong, right, text)
    return text


def inline(writer: Any, node: nodes.Element) -> None:
    """Write an inline formula."""
    writer.body.append(f'<span class="math">{mathml(node.astext())}{node.get("tail", "")}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def join_tails(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Keep a comma or a full stop with the formula before it: no line may begin with one."""
    for formula in list(doctree.findall(nodes.math)):
        after = formula.next_node(descend=False, siblings=True)
        if isinstance(after, nodes.Text) and (tail := re.match(r"[,.;:)]+", after)):
            formula["tail"] = tail[0]
            formula.parent.replace(after, nodes.Text(after[len(tail[0]) :]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("doctree-resolved", join_tails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
