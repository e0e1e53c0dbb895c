"""Renders README.md and docs/*.md to docs/_site, one self-contained page each; every relative link must resolve."""

from __future__ import annotations

import base64
import html
import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "_site"
NAVIGATION = {
    "README.md": "Home",
    "docs/index.md": "Docs",
    "docs/spectrum.md": "Tutorial",
    "docs/sharp-edges.md": "Sharp edges",
    "docs/which-regression.md": "Which regression?",
    "docs/private-sketches.md": "Private sketches",
    "docs/lifting.md": "Lifting",
    "docs/models.md": "Models",
    "docs/ledger.md": "Budget ledger",
    "docs/auditing.md": "Auditing",
    "docs/gallery.md": "Gallery",
    "docs/command-line.md": "Command line",
    "docs/generalized-chi-square.md": "Generalized χ²",
    "docs/how-it-works.md": "How it works",
    "docs/release-engine.md": "Release engine",
    "docs/proof-of-exactness.md": "Proof of exactness",
    "docs/claims.md": "Claims",
    "CHANGELOG.md": "Changes",
    "CONTRIBUTING.md": "Contributing",
}
STYLE = """
:root {
  color-scheme: light dark;
  --text: #1d2329; --soft: #5b6570; --line: #dfe4e9; --back: #ffffff; --panel: #f5f7f9; --link: #00609a;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #dde3e9; --soft: #98a4b0; --line: #323a43; --back: #14181c; --panel: #1d2329; --link: #6fb7e8; }
  img { background: #ffffff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.6 system-ui, sans-serif; }
nav { border-bottom: 1px solid var(--line); padding: .6rem 1rem; font-size: .9rem; line-height: 1.9; }
nav a, nav strong { margin-right: 1rem; white-space: nowrap; }
nav, main { max-width: 56rem; margin: 0 auto; }
main { padding: .5rem 1rem 4rem; overflow-wrap: break-word; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
h1, h2, h3 { line-height: 1.25; margin: 2rem 0 .7rem; }
h1 { font-size: 1.8rem; margin-top: 1.2rem; }
h2 { font-size: 1.3rem; padding-top: .6rem; border-top: 1px solid var(--line); }
code { font: .88em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; background: var(--panel); border-radius: 3px; }
code { padding: .1em .25em; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; }
pre { overflow-x: auto; }
pre code { background: none; padding: 0; font-size: .84em; }
.out { color: var(--soft); }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top; }
th, td { min-width: 5rem; overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; }
img { max-width: 100%; height: auto; border-radius: 6px; display: block; margin: 1rem auto; }
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
<nav>{navigation}</nav>
<main>
{body}
</main>
</html>
"""


def sources() -> list[Path]:
    """The pages in the order of the navigation, those it does not know last."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    known = list(NAVIGATION)
    names = [str(p.relative_to(ROOT)) for p in found]
    return [ROOT / n for n in sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))]


def page_name(source: Path) -> str:
    """Where a source is rendered to; index.md of the docs and the README would otherwise meet."""
    special = {ROOT / "README.md": "index", ROOT / "docs" / "index.md": "docs"}
    return special.get(source, source.stem.lower()) + ".html"


def slug(text: str) -> str:
    """Anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def heading_text(token: Token) -> str:
    """The text of a heading without its marks."""
    return "".join(t.content for t in token.children or [] if t.type in ("text", "code_inline"))


class Page:
    """One source: its tokens, its anchors, and what is wrong with its links."""

    def __init__(self, source: Path, markdown: MarkdownIt) -> None:
        self.source, self.markdown = source, markdown
        self.tokens = markdown.parse(source.read_text(encoding="utf-8"))
        self.title, self.anchors = source.stem, set()
        self.problems: list[str] = []
        for here, after in zip(self.tokens, self.tokens[1:], strict=False):
            if here.type == "heading_open":
                text = heading_text(after)
                here.attrSet("id", slug(text))
                self.anchors.add(slug(text))
                if here.tag == "h1":
                    self.title = text

    def link(self, pages: dict[Path, Page]) -> None:
        """Point links at the rendered pages, put pictures into the page, and note what does not resolve."""
        for token in (t for block in self.tokens for t in block.children or []):
            if token.type == "link_open":
                token.attrSet("href", self._target(str(token.attrGet("href")), pages))
            elif token.type == "image":
                token.attrSet("src", self._picture(str(token.attrGet("src"))))

    def _target(self, href: str, pages: dict[Path, Page]) -> str:
        if re.match(r"[a-z]+:", href):
            return href
        path, _, anchor = href.partition("#")
        file = (self.source.parent / unquote(path)).resolve() if path else self.source
        if not file.exists():
            self.problems.append(f"link to {href!r}: there is no such file")
            return href
        if file not in pages:
            return Path(os.path.relpath(file, SITE)).as_posix()
        if anchor and anchor not in pages[file].anchors:
            self.problems.append(f"link to {href!r}: there is no such heading")
        return page_name(file) + ("#" + anchor if anchor else "")

    def _picture(self, src: str) -> str:
        file = self.source.parent / unquote(src)
        if not file.is_file():
            self.problems.append(f"picture {src!r}: there is no such file")
            return src
        kind = {".svg": "svg+xml", ".jpg": "jpeg"}.get(file.suffix, file.suffix[1:])
        return f"data:image/{kind};base64," + base64.b64encode(file.read_bytes()).decode("ascii")

    def render(self, navigation: str) -> str:
        body = self.markdown.renderer.render(self.tokens, self.markdown.options, {})
        body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
        return PAGE.format(title=html.escape(self.title), style=STYLE, navigation=navigation, body=body)


def fence(renderer: object, tokens: list[Token], index: int, options: object, env: object) -> str:
    """A block of code; in an interactive session what Python answers is set apart."""
    lines = tokens[index].content.rstrip("\n").split("\n")
    session = any(line.startswith(">>> ") for line in lines)
    shown = []
    for line in lines:
        text = html.escape(line, quote=False)
        answer = session and not line.startswith((">>>", "... ")) and line != "..."
        shown.append(f'<span class="out">{text}</span>' if answer and text else text)
    return "<pre><code>" + "\n".join(shown) + "</code></pre>\n"


def navigation_for(page: Page, pages: dict[Path, Page]) -> str:
    items = []
    for source, other in pages.items():
        label = html.escape(NAVIGATION.get(source.relative_to(ROOT).as_posix(), other.title))
        here = other is page
        items.append(f"<strong>{label}</strong>" if here else f'<a href="{page_name(source)}">{label}</a>')
    return "\n".join(items)


def build(site: Path) -> list[str]:
    """Write the pages into `site`; nothing is written, and the problems are returned, where a link leads nowhere."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    markdown.add_render_rule("fence", fence)
    pages = {source: Page(source, markdown) for source in sources()}
    for page in pages.values():
        page.link(pages)
    problems = [f"{p.source.relative_to(ROOT)}: {text}" for p in pages.values() for text in p.problems]
    if not problems:
        shutil.rmtree(site, ignore_errors=True)
        site.mkdir(parents=True)
        for source, page in pages.items():
            (site / page_name(source)).write_text(page.render(navigation_for(page, pages)), encoding="utf-8")
    return problems


def main() -> int:
    problems = build(SITE)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    print(f"open {(SITE / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
