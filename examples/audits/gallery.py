"""What the exhibits share: two reports side by side, a few lines on the screen and two pages in out/audits/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ndis.auditing import AuditReport

FOLDER = Path("out/audits")


@dataclass(frozen=True)
class Exhibit:
    """A false claim with its refutation, the same claim for the repaired algorithm, and the figures worth quoting."""

    name: str
    title: str
    false: AuditReport
    repaired: AuditReport
    figures: Mapping[str, str] = field(default_factory=dict)


def quoted(value: float, claimed: float) -> str:
    """Six digits, or as many as it takes to tell the value from what was claimed.

    >>> quoted(0.1234567, 1e-06), quoted(1.0000001132e-06, 1e-06)
    ('0.123457', '1.00000011e-06')
    """
    texts = [f"{value:.{digits}g}" for digits in (6, 9, 12)]
    return next((text for text in texts if float(text) != claimed), texts[-1])


def show(exhibit: Exhibit, folder: Path = FOLDER) -> None:
    """Print the exhibit and write both reports."""
    folder.mkdir(parents=True, exist_ok=True)
    print(exhibit.title)
    for what, value in exhibit.figures.items():
        print(f"  {what}: {value}")
    for version, report in (("false", exhibit.false), ("repaired", exhibit.repaired)):
        page = folder / f"{exhibit.name}-{version}.html"
        replace(report, title=f"{exhibit.title} ({version})").save(page)
        print(f"  {version}: {report.verdict}")
        if report.witness is not None:
            epsilon, delta = report.witness.epsilon, report.witness.delta
            least = quoted(report.delta_possible, delta) if report.refuted else f"{report.delta_possible:.6g}"
            print(f"    {report.witness.neighbours}: δ is at least {least}, claimed {delta:g} at ε = {epsilon:g}")
            if report.refuted and report.epsilon_refuted is not None:
                print(f"    refuted up to ε = {quoted(report.epsilon_refuted, epsilon)}")
        print(f"    {page}")
