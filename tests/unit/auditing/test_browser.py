"""The report in a real browser: on a desktop, on a phone, in the dark, and printed.

Skipped, with the reason, where neither Playwright's Chromium nor one of the system's can be started.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ndis.auditing import AuditReport, Claim, audit
from ndis.mechanisms.gaussian import GaussianMechanism
from ndis.pair import GaussianPair

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

SYSTEM_BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


def reports() -> dict[str, AuditReport]:
    claim = Claim(epsilon=1.0, delta=1e-6)
    loud = GaussianPair.from_ratios(1.0, shift=0.35)
    refuted = audit(claim, pairs=[loud])
    assert refuted.witness is not None
    word = "unbroken" * 40
    witness = dataclasses.replace(refuted.witness, neighbours=word, event=word, order=word)
    proved = audit(claim, mechanism=GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0))
    singular = audit(claim, pairs=[GaussianPair.from_diagonal([0.0], [0.0], [1.0], [1.0])], title="A system")
    return {
        "refuted": refuted,
        "proved": proved,
        "singular": singular,
        "not-refuted": audit(claim, pairs=[GaussianPair.from_ratios(1.02, copies=100)]),
        "curve": audit(Claim.curve([0.5, 1.0, 2.0, 3.0], [1e-2, 1e-3, 1e-4, 0.0]), pairs=[loud]),
        "tiny": audit(Claim(epsilon=1.0, delta=1.2345678901234567e-101), pairs=[loud]),
        "long-words": dataclasses.replace(
            refuted, witness=witness, how_chosen=(word,), not_tested=(word,), notes=(word,), reproduce=word
        ),
    }


NAMES = ("refuted", "proved", "singular", "not-refuted", "curve", "tiny", "long-words")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        reasons = []
        for path in (None, *filter(None, map(shutil.which, SYSTEM_BROWSERS))):
            try:
                found = driver.chromium.launch(executable_path=path, args=list(QUIET), timeout=600_000)
            except playwright.Error as error:
                reasons.append(f"{path or 'the one of playwright'}: {str(error).splitlines()[0]}")
                continue
            yield found
            found.close()
            return
        pytest.skip("no Chromium could be started (" + "; ".join(reasons) + ")")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, report in reports().items():
        report.save(folder / f"{name}.html")
        found[name] = (folder / f"{name}.html").as_uri()
    return found


class Visit:
    """One page in one window, and everything it asked for or complained about."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address, timeout=600_000)  # a busy machine is no flaw
        self.address = address

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def check(self, picture: Any) -> None:
        """Nothing loaded but the page, nothing complained of, nothing wider than the window, something drawn."""
        assert self.requests == [self.address]
        assert self.complaints == []
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room
        assert self.page.evaluate(
            "[...document.body.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)"
            ".map(e => e.outerHTML.slice(0, 80))"
        ) == []  # fmt: skip
        self.page.screenshot(path=picture, full_page=True)
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert picture.stat().st_size > 20_000

    def style(self, selector: str, name: str) -> str:
        return str(self.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{name}"))

    def brightness(self, selector: str, name: str) -> float:
        """Of a computed colour, from 0 to 1."""
        colour = self.style(selector, name)
        assert colour.startswith("rgb("), colour
        return float(np.mean([float(x) for x in re.findall(r"[\d.]+", colour)]) / 255)


@pytest.mark.parametrize("name", NAMES)
def test_desktop(browser, files, name, tmp_path):
    with Visit(browser, files[name], **DESKTOP, color_scheme="light") as visit:
        visit.check(tmp_path / "desktop.png")
        assert visit.brightness("body", "backgroundColor") > 0.95
        assert visit.brightness("body", "color") < 0.3
        verdict = visit.page.locator("h1").bounding_box()
        assert verdict["y"] < 200
        assert legible(visit) >= 12
        assert overlaps(visit) == []


@pytest.mark.parametrize("name", NAMES)
def test_phone(browser, files, name, tmp_path):
    with Visit(browser, files[name], **PHONE) as visit:
        visit.check(tmp_path / "phone.png")
        assert legible(visit) >= 10
        assert overlaps(visit) == []
        assert float(visit.style("body", "fontSize").removesuffix("px")) >= 16


@pytest.mark.parametrize(("name", "window"), [("refuted", DESKTOP), ("not-refuted", PHONE)])
def test_dark(browser, files, name, window, tmp_path):
    with Visit(browser, files[name], **window, color_scheme="dark") as visit:
        visit.check(tmp_path / "dark.png")
        assert visit.brightness("body", "backgroundColor") < 0.15
        for selector in ("body", "h1", "figcaption", "td", "pre"):
            assert visit.brightness(selector, "color") > 0.55
        assert visit.brightness(".chart text", "fill") > 0.55


@pytest.mark.parametrize(("name", "scheme"), [("refuted", "light"), ("not-refuted", "dark"), ("long-words", "dark")])
def test_printed(browser, files, name, scheme, tmp_path):
    """Black on white whatever the screen was, and nothing cut: the page is as wide as the paper."""
    paper = {"viewport": {"width": 680, "height": 960}}  # A4 within its margins
    with Visit(browser, files[name], **paper, color_scheme=scheme) as visit:
        visit.page.emulate_media(media="print", color_scheme=scheme)
        visit.check(tmp_path / "print.png")
        for selector in ("body", ".verdict", "pre"):
            assert visit.brightness(selector, "backgroundColor") == 1.0
        assert visit.brightness("body", "color") == 0.0
        for selector in ("figure", "tr", ".verdict"):
            assert visit.style(selector, "breakInside") == "avoid"
        assert visit.style("pre", "whiteSpace") == "pre-wrap"
        document = visit.page.pdf(format="A4")
        assert document.startswith(b"%PDF")
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 6


@pytest.mark.parametrize(
    "body",
    [
        "<p style='width: 2000px'>wide</p>",
        "<img src='missing.png'>",
        "<script>console.log(1)</script>",
        "<script>x()</script>",
    ],
)
def test_a_flaw_is_noticed(browser, body, tmp_path):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>t</title>{body}")
    with Visit(browser, (tmp_path / "page.html").as_uri(), **PHONE) as visit, pytest.raises(AssertionError):
        visit.check(tmp_path / "page.png")


def overlaps(visit: Visit) -> list[Any]:
    """Pairs of texts of the picture that touch."""
    boxes = visit.page.evaluate(
        "[...document.querySelectorAll('.chart text')].map(e => [e.textContent, e.getBoundingClientRect()])"
        ".map(([t, r]) => [t, r.left, r.top + 1, r.right, r.bottom - 1])"
    )
    return [
        (a[0], b[0])
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]
    ]


def legible(visit: Visit) -> float:
    """Size in pixels of the smallest text of the picture."""
    return float(
        visit.page.evaluate(
            """() => {
              const chart = document.querySelector('.chart');
              const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
              const sizes = [...chart.querySelectorAll('text')].map(e => parseFloat(getComputedStyle(e).fontSize));
              return scale * Math.min(...sizes);
            }"""
        )
    )
