"""Maths as MathML, written at build time: the pages need no script and no network to show a formula."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# What the converter gets wrong: functions it does not know, fonts of a letter without braces, relations set like
# letters, bars and slashes set like relations, a sign behind an operator set like a difference, primes raised twice.
FORMULA = {
    r"\\arg(?![a-z])": r"\\operatorname{arg}",
    r"\\mathbb ([A-Z])": r"\\mathbb{\1}",
}
TIGHT = 'lspace="0" rspace="0"'
ELEMENTS = {
    "<mi>&#x00064;</mi>": '<mi mathvariant="normal">d</mi>',
    "<mi>&#x0007E;</mi>": "<mo>&#x223C;</mo>",
    "<mi>&#x029F5;</mi>": "<mo>&#x2216;</mo>",
    "<mi>(&#x02AAF;|&#x02AB0;|&#x027C2;)</mi>": r"<mo>\1</mo>",
    "<mo>(&#x0221E;|&#x022A4;)</mo>": r"<mi>\1</mi>",
    "<mi>(&#x0203[23];)</mi>": r'<mpadded voffset="-0.35em" height="0.5em"><mi>\1</mi></mpadded>',
    r'<mo(?: stretchy="false")?>(&#x0007C;|&#x02016;)</mo>': rf'<mo stretchy="false" {TIGHT}>\1</mo>',
    "<mo>&#x02202;</mo>": "<mi>&#x02202;</mi>",
    "<mo>&#x0002F;</mo>": f"<mo {TIGHT}>&#x0002F;</mo>",
    r"(<mo[^>]*>(?!&#x0(?:0029|005D|007D|007C|2016|230B|2309);|[]!])[^<]*</mo>)<mo>&#x02212;</mo>": (
        r'\1<mo form="prefix">&#x02212;</mo>'
    ),
    'width="negativethinmathspace"': 'width="-0.167em"',
}
# The name of a function, what stands before it, and if a bracket opens behind it.
NAME = re.compile(
    r'(</m(?!o>)\w+>)?<(mo|mi)( movablelimits="true")?>([A-Za-z]{2,})</\2>(?=(<m(o[^>]*>(?:&#x00028;|\())?)?)'
)


def space(match: re.Match[str]) -> str:
    """Set the name of a function: a thin space on both sides, but none before a bracket or behind an operator."""
    before, tag, limits, name, follower, bracket = match.groups(default="")
    if tag == "mi" and not (name.islower() and follower):
        return match[0]
    sides = f'lspace="{"0.17em" if before else "0"}" rspace="{"0" if bracket else "0.17em"}"'
    return f"{before}<mo{limits} {sides}>{name}</mo>"


def mathml(formula: str, **options: str) -> str:
    """Return a formula as MathML."""
    for wrong, right in FORMULA.items():
        formula = re.sub(wrong, right, formula)
    text = str(convert(formula, **options))
    for wrong, right in ELEMENTS.items():
        text = re.sub(wrong, right, text)
    return NAME.sub(space, text)


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
            parent = formula.parent
            place = next(i for i, each in enumerate(parent) if each is after)  # an equal text may stand before it
            parent[place] = nodes.Text(after[len(tail[0]) :])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("doctree-resolved", join_tails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
