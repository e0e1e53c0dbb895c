"""Render the HTML pages of the package, from the templates in the folder `templates`.

A page has no scripts and loads nothing: its style sheet is part of it. Templates use `head`, `list` and the legend of
the chart from `parts.html.jinja`, so that all pages look alike.
"""

from __future__ import annotations

import functools
import html
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ndis.pages.chart import tag
from ndis.pages.digits import at_least, at_most, equation, plain, several, unbroken

__all__ = ["framed", "minute", "number", "render", "sentence"]


def render(template: str, **values: Any) -> str:
    """Fill in a template of the folder `templates`. A name that the template needs and does not get is an error."""
    return _environment().get_template(template).render(**values).lstrip()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ndis.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        exact=lambda x: number(plain(x)), minute=minute, several=several, sentence=sentence, unbroken=unbroken
    )
    environment.globals.update(at_least=at_least, at_most=at_most, equation=equation, number=number, plain=plain)
    return environment


def framed(page: str) -> str:
    """Put a page in a frame of its own, for notebooks."""
    return f'<iframe srcdoc="{html.escape(page)}" sandbox style="width: 100%; height: 40rem; border: 0"></iframe>'


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
    """Give a text a capital letter and a full stop; no line ends inside one of its numbers.

    >>> sentence("the claim is false")
    'The claim is false.'
    """
    return unbroken(text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else "."))
