"""Write tables for people, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_table", "printable", "text_table"]


def printable(text: str) -> str:
    """Escape every character that is not printable: a name could move the cursor, or write a line of its own.

    >>> printable("a\\x1b[2J\\nb é")
    'a\\\\x1b[2J\\\\nb é'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def text_table(title: str, cells: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return a title, a header and rows with the first column to the left and all others to the right, then notes.

    >>> print(text_table("Trees", [["", "height"], ["oak", "20"]], ["in metres"]))
    Trees
         height
    oak      20
    in metres
    """
    cells = [[printable(text) for text in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join([title, *lines, *notes])


def html_table(title: str, cells: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return the same as HTML.

    >>> html_table("Trees", [["height"], ["20"]])
    '<table><caption>Trees</caption><tr><th>height</th></tr><tr><td>20</td></tr></table>'
    """
    kinds = ["th", *["td"] * (len(cells) - 1)]
    rows = [
        "<tr>" + "".join(f"<{kind}>{escape(text)}</{kind}>" for text in row) + "</tr>"
        for kind, row in zip(kinds, cells, strict=True)
    ]
    after = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>{after}"
