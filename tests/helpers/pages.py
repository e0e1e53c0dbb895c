"""Pages of reports, as a reader of HTML sees them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = ("br", "meta")  # elements without content and without an end


class Page(HTMLParser):
    """Checks that every element is closed in its turn, and keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, tag: str | None = None) -> str:
        return " ".join(data for where, data in self.texts if where == tag or (tag is None and where != "style"))

    def elements(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def text_of(page: str) -> str:
    """The text of a page without its elements, spaces made equal."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", body).replace("\u00a0", " ").split()).replace(" .", ".").replace(" ;", ";")
