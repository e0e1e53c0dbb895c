"""Print the theory page of the site as a paper, out/theory.pdf, with a Chromium that is on the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
NAMES = ("chromium", "chromium-headless-shell", "google-chrome")

if __name__ == "__main__":
    target = ROOT / "out" / "theory.pdf"
    target.parent.mkdir(exist_ok=True)
    place = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place)
        page = browser.new_page()
        page.goto((ROOT / "docs" / "_site" / "theory.html").as_uri())
        page.pdf(path=target, format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "22mm"))
        browser.close()
    print(target)
