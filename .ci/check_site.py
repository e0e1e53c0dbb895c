"""Follow every link of the built site to a file and a place in it: `python .ci/check_site.py docs/_site`.

Sphinx checks the links of the sources. This reads what came out, with the links that themes and extensions made.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """A page has places, which are ids, and links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one tag says."""
        for name, value in attrs:
            if value and name == "id":
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def dead(root: Path) -> list[str]:
    """Return each link to nowhere, with its page; templates of the theme are no pages."""
    pages = {path: Page(path) for path in root.rglob("*.html") if "_static" not in path.relative_to(root).parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                found.append(f"{path.relative_to(root)}: {link}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(["dead links:", *found]) if (found := dead(Path(sys.argv[1]).resolve())) else 0)
