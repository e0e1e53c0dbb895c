"""HTML from Python values: every text is escaped unless it is markup already."""

from __future__ import annotations

from html import escape

__all__ = ["VOID", "Markup", "tag"]

VOID = ("br", "meta")  # elements without content and without an end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. `class_` is the attribute class, and other underscores stand for hyphens.

    >>> tag("p", "δ < ", tag("b", 0.5), class_="wide")
    '<p class="wide">δ &lt; <b>0.5</b></p>'
    """
    pairs = ((key.rstrip("_").replace("_", "-"), escape(str(value))) for key, value in attributes.items())
    head = name + "".join(f' {key}="{value}"' for key, value in pairs)
    if name in VOID:
        return Markup(f"<{head}>")
    inside = "".join(child if isinstance(child, Markup) else escape(str(child)) for child in children)
    return Markup(f"<{head}>{inside}</{name}>")
