"""Write HTML: elements, pages from the folder `templates`, and one chart of δ against ε.

A page has no scripts and loads nothing: its style sheet is part of it, and its chart is an inline SVG picture.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from ndis._files import write_file
from ndis._validate import require
from ndis.pages.text import at_least, at_most, equation, few, plain, promise, several, stated, superscript, unbroken

Point = tuple[float, float]  # (ε, δ)

_WIDTH, _HEIGHT = 480, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 466.0, 14.0, 268.0
_DIAMOND = ((0, -1), (1, 0), (0, 1), (-1, 0))  # the corners of a marker
_PAD = 9.0  # half a marker, inside the frame
_LEAST_DECADES = 3  # powers of ten along the axis of δ, at least
_MOST_TICKS = 7  # along each axis


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Write an element with escaped text. `class_` is the attribute class; other underscores stand for hyphens.

    >>> print(tag("p", "δ < ", tag("b", 0.5), class_="wide"))
    <p class="wide">δ &lt; <b>0.5</b></p>
    """
    pairs = ((key.rstrip("_").replace("_", "-"), escape(value)) for key, value in attributes.items())
    head = name + "".join(f' {key}="{value}"' for key, value in pairs)
    return Markup(f"<{head}>{''.join(map(escape, children))}</{name}>")


def html_table(title: str, cells: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Write a table as `ndis.pages.text.text_table` does, with the first row as its header, and then notes.

    >>> html_table("Trees", [["height"], ["20"]])
    '<table><caption>Trees</caption><tr><th>height</th></tr><tr><td>20</td></tr></table>'
    """
    kinds = ["th", *["td"] * (len(cells) - 1)]
    rows = (tag("tr", *(tag(kind, text) for text in row)) for kind, row in zip(kinds, cells, strict=True))
    return str(tag("table", tag("caption", title), *rows) + Markup("").join(tag("p", note) for note in notes))


# ---------------------------------------------------------------------- pages


class Page:
    """A report that states its plain values and its page can be saved and shown."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        raise NotImplementedError  # each page has its own

    def to_html(self) -> str:
        """Write one page that loads nothing."""
        raise NotImplementedError  # each page has its own

    def to_json(self) -> str:
        """Write JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)

    def _repr_html_(self) -> str:
        """Put the page in a frame of its own, for notebooks."""
        style = "width: 100%; height: 40rem; border: 0"
        return str(tag("iframe", srcdoc=self.to_html(), sandbox="", style=style))

    def save(self, path: str | os.PathLike[str], *, new: bool = False) -> None:
        """Write a page that needs no other file to a name in .html, or JSON to .json. With `new` none is replaced."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        require(ending in (".html", ".json"), "path", "end in .html or .json", repr(os.fspath(path)))
        text = self.to_html() if ending == ".html" else self.to_json()
        write_file(path, text.encode("utf-8"), name="path", new=new)


def render(file: str, /, **values: Any) -> str:
    """Fill in a template of the folder `templates`. A name that the template needs and does not get is an error."""
    # An argument of a command may be no text.
    return str(_environment().get_template(file).render(**values)).lstrip().encode(errors="backslashreplace").decode()


@functools.cache
def _environment() -> Any:
    """Make the jinja environment that all pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # it takes long to load

    loader = PackageLoader("ndis.pages")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = environment.keep_trailing_newline = True
    environment.filters.update(minute=minute, several=several, sentence=sentence, unbroken=unbroken)
    environment.filters["exact"] = lambda x: number(plain(x))
    words = (at_least, at_most, equation, few, number, plain, promise, stated)
    environment.globals.update((one.__name__, one) for one in words)
    head, style = (Markup(loader.get_source(environment, name)[0]) for name in ("head.html", "page.css"))
    environment.globals["page_head"] = functools.partial(head.format, style=style)
    return environment


def minute(time: str) -> str:
    """Write a time to the minute, in UTC.

    >>> minute("2026-11-15T20:17:27.755215+00:00")
    '2026-11-15 20:17'
    """
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def number(text: str, exact: str = "") -> Markup:
    """Keep a number on one line; if it is rounded, all its digits appear on hover."""
    title = {"title": exact} if exact and exact != text else {}
    return tag("span", unbroken(text), class_="n", **title)


def sentence(text: str) -> str:
    """Give a text a capital letter and a full stop; no line ends inside one of its numbers. A Greek letter stays small.

    >>> sentence("the claim is false"), sentence("δ is 1.")
    ('The claim is false.', 'δ is 1.')
    """
    first = text[:1].upper() if text[:1].isascii() else text[:1]
    return unbroken(first + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else "."))


# ---------------------------------------------------------------------- the chart


def chart(
    curve: Sequence[Point],
    claimed: Sequence[Point],
    *,
    description: str,
    refuted: Point | None = None,
    second: Sequence[Point] = (),
    mark: str = "claim",
) -> Markup:
    """Draw δ on a logarithmic axis against ε: the points of the curve joined by a line, and the claim.

    Parameters
    ----------
    curve : sequence of (ε, δ)
        Values of δ in order of ε; points with δ = 0 are left out.
    claimed : sequence of (ε, δ)
        The claim or the budget: one point, or several that are joined. A δ of 0 lies on the lower edge.
    description : str
        A sentence that says what the picture shows, for readers who do not see it.
    refuted : (ε, δ), optional
        The claimed point that is marked as refuted.
    second : sequence of (ε, δ)
        A second curve, such as that of the other order.
    mark : str
        The word next to the claimed point. Under the curve of a claim the region is shaded, in steps that lie below the
        curve: claims in it are false.

    Examples
    --------
    >>> picture = chart([(0.0, 0.3), (1.0, 0.01)], [(0.5, 1e-6)], refuted=(0.5, 1e-6), description="A curve.")
    >>> picture.startswith("<svg") and "10⁻⁶" in picture
    True
    """
    seen, other = ([(x, y) for x, y in points if y > 0] for points in (curve, second))
    marks = [(x, y) for x, y in claimed if y > 0]
    alone = [] if seen else [(0.0, 10.0 * y) for _, y in marks]  # without a curve the claim is set off from the corner
    low, high = _decades([y for _, y in seen + other + marks + alone], floor=len(marks) < len(claimed))
    left, right = _range([x for x, _ in seen + other + list(claimed) + alone])

    def across(x: float) -> float:
        return round(_LEFT + _PAD + (_RIGHT - _LEFT - 2 * _PAD) * (x - left) / (right - left), 2)

    def down(y: float) -> float:
        place = (high - math.log10(y)) / (high - low) if y > 0 else 1.0
        return round(_TOP + (_BOTTOM - _PAD - _TOP) * min(max(place, 0.0), 1.0), 2)

    def path(points: Iterable[Point]) -> str:
        return " ".join(f"{across(x)},{down(y)}" for x, y in points)

    parts: list[Markup] = [tag("title", "δ against ε"), tag("desc", description)]
    step = max(1, math.ceil((high - low) / _MOST_TICKS))
    zero = len(marks) < len(claimed)  # the lower edge stands for δ = 0
    if zero:
        parts.append(tag("text", "0", x=_LEFT - 7, y=down(0.0), dy="0.32em", text_anchor="end"))
    for power in range(high, low - 1 + zero, -step):
        y = down(10.0**power)
        parts.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", f"10{superscript(power)}", x=_LEFT - 7, y=y, dy="0.32em", text_anchor="end"))
    for tick, text in _round_numbers(left, right):
        x = across(tick)
        parts.append(tag("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM + 5, class_="axis"))
        parts.append(tag("text", text, x=x, y=_BOTTOM + 9, dy="0.8em", text_anchor="middle"))
    parts.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="axis"))
    middle = (_LEFT + _RIGHT) / 2
    parts.append(tag("text", "ε", x=middle, y=_HEIGHT - 6, text_anchor="middle", class_="name"))
    parts.append(tag("text", "δ", x=10, y=(_TOP + _BOTTOM) / 2, dy="0.32em", text_anchor="middle", class_="name"))
    if seen and mark == "claim":
        parts.append(tag("polygon", points=_steps([(across(x), down(y)) for x, y in seen]), class_="false"))
    for points, kind in ((seen, "curve"), (other, "curve second")):
        if points:
            parts.append(tag("polyline", points=path(points), class_=kind))
    if len(claimed) > 1:
        parts.append(tag("polyline", points=path(claimed), class_="claimed"))
    size = 7.0 if len(claimed) == 1 else 4.5
    for x, y in claimed:  # a diamond
        corners = " ".join(f"{across(x) + a * size:.2f},{down(y) + b * size:.2f}" for a, b in _DIAMOND)
        parts.append(tag("polygon", points=corners, class_="mark refuted" if (x, y) == refuted else "mark"))
    named = refuted if refuted in claimed else claimed[0] if claimed else None
    for x, y in claimed:
        label = ", ".join([mark] * ((x, y) == named) + ["δ = 0"] * (y == 0.0))
        if label:
            end = across(x) > middle
            place = {"x": across(x) + (-12 if end else 12), "y": down(y), "dy": "-0.35em"}
            parts.append(tag("text", label, **place, text_anchor="end" if end else "start", class_="label"))
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=description, class_="chart")


def _steps(points: Sequence[Point]) -> str:
    """Return the region under a falling curve, in steps: δ at ε is at least δ at the next known point."""
    steps = (((left, low), (right, low)) for (left, _), (right, low) in itertools.pairwise(points))
    corners = [(points[0][0], _BOTTOM), points[0], *itertools.chain(*steps), (points[-1][0], _BOTTOM)]
    return " ".join(f"{x:g},{y:g}" for x, y in corners)


def _decades(values: Sequence[float], *, floor: bool) -> tuple[int, int]:
    """Return powers of ten below and above the values; if `floor`, one more lies below all of them."""
    if not values:
        return -12, 0
    low, high = math.floor(math.log10(min(values))) - floor, math.ceil(math.log10(max(values)))
    return (low, high) if high - low >= _LEAST_DECADES else (high - _LEAST_DECADES, high)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest value; the axis begins at 0 unless 0 is far away."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = 0.0 if 0 <= low <= 0.6 * high else low
    return (low, high) if low < high else (min(0.0, low), max(1.0, low + 1.0))


def _round_numbers(low: float, high: float) -> list[tuple[float, str]]:
    """Return round numbers at equal steps between two ends, and their texts, which have equally many decimals.

    >>> [text for _, text in _round_numbers(0.0, 1.3)]
    ['0.0', '0.2', '0.4', '0.6', '0.8', '1.0', '1.2']
    """
    power = math.floor(math.log10((high - low) / _MOST_TICKS))
    for size in (1, 2, 5, 10, 20):
        unit = float(f"{size}e{power}")
        first, last = math.ceil(low / unit), math.floor(high / unit)
        if last - first < _MOST_TICKS:
            break
    decimals = max(0, -power - (size >= 10))
    ticks = [float(f"{k * unit:.12g}") for k in range(first, last + 1)]
    return [(x, f"{x:.{decimals}f}" if decimals <= 4 and high < 1e6 else plain(x)) for x in ticks]
