"""Print the theory page of the site as a paper, out/theory.pdf, with a Chromium that is on the machine."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
FOOT = """<div style="font: 8pt serif; color: #555; width: 100%; padding: 0 22mm; display: flex">
<span style="flex: 1">Theory of ndis VERSION</span>
<span><span class="pageNumber"></span> of <span class="totalPages"></span></span></div>"""
# A link to another page would lead to a folder of this machine.
UNLINK = """document.querySelectorAll('a[href]').forEach(a => {
  if (a.protocol == 'file:' && a.pathname != location.pathname) a.removeAttribute('href') })"""
# A box around the text that clips or scrolls ends at its height on a screen: the last pages would be missing.
CLIPPED = """() => { for (let e = document.querySelector('article'); e; e = e.parentElement)
  if (getComputedStyle(e).overflowY != 'visible') return e.className || e.tagName }"""
NAMES = ("chromium", "chromium-headless-shell", "google-chrome")

if __name__ == "__main__":
    target = ROOT / "out" / "theory.pdf"
    target.parent.mkdir(exist_ok=True)
    place = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place)
        page = browser.new_page()
        page.goto((ROOT / "docs" / "_site" / "theory.html").as_uri())
        page.evaluate(UNLINK)
        page.emulate_media(media="print")
        if box := page.evaluate(CLIPPED):
            sys.exit(f"the box {box!r} would cut the page off")
        edges = dict.fromkeys(("top", "bottom", "left", "right"), "22mm")
        foot = {"display_header_footer": True, "header_template": "<p></p>"}
        foot["footer_template"] = FOOT.replace("VERSION", version("ndis"))
        page.pdf(path=target, format="A4", margin=edges, outline=True, tagged=True, **foot)
        browser.close()
    print(target)
