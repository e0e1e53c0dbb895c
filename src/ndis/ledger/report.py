"""A report of a ledger, as a page and as JSON: the budget, the spent part and the rest. No value comes from data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import numpy as np

from ndis._version import __version__
from ndis.ledger.store import Entry
from ndis.profile import Order, PrivacyProfile

__all__ = ["LedgerReport", "curve_of", "releases_of"]

_SHOWN = 500  # releases on the page; JSON has all
_POINTS = 81
_LEAST = 1e-24  # of the picture
_ORDERS: tuple[Order, ...] = ("remove", "add")


@dataclass(frozen=True)
class LedgerReport:
    """A report in plain values.

    Attributes
    ----------
    values : mapping
        The guarantee, what is left, the exact curve of the budget, and every release.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> LedgerReport:
        """The report of these values, with the version of the package."""
        return cls({"version": __version__, **values})

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dict(self.values)

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.values, allow_nan=False, indent=2)

    def to_html(self) -> str:
        """As one page that loads nothing."""
        from jinja2 import Environment, StrictUndefined

        text = (files("ndis.ledger") / "templates" / "report.html").read_text(encoding="utf-8")
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        environment.filters["minute"] = _minute
        template = environment.from_string(text)
        columns, rows = _left(self.values)
        return template.render(
            **self.values,
            left_columns=columns,
            left_rows=rows,
            chart=_chart(self.values["curve"]),
            shown=self.values["entries"][-_SHOWN:],
        )


def releases_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """One row per reservation, with what became of it."""
    found: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if entry.action == "reserve":
            details = entry.content["details"]
            found[entry.number] = {
                "entry": entry.number,
                "time": entry.time,
                "slot": entry.content["slot"],
                "mechanism": details.get("mechanism", ""),
                "epsilon": details.get("epsilon"),
                "delta": details.get("delta"),
                "max_records": entry.content["max_records"],
                "profile": entry.content["profile"],
                "digest": entry.digest,
                "state": "reserved, counts as spent",
            }
        elif entry.content["reservation"] in found:
            found[entry.content["reservation"]]["state"] = "released"
    return list(found.values())


def curve_of(profile: PrivacyProfile | None, epsilon: float) -> list[dict[str, float]]:
    """δ in both orders at ε from 0 to twice the budget's."""
    if profile is None:
        return []
    grid = np.linspace(0.0, 2.0 * epsilon if epsilon > 0 else 1.0, _POINTS)
    remove, add = (profile.delta(grid, order=order) for order in _ORDERS)
    return [
        {"epsilon": float(x), "remove": float(p), "add": float(q)} for x, p, q in zip(grid, remove, add, strict=True)
    ]


def _minute(time: str) -> str:
    """A time as people write it; JSON has all its digits.

    >>> _minute("2026-11-15T20:17:27.755215+00:00")
    '2026-11-15 20:17'
    """
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _left(values: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The rest of the budget as a table."""
    if values["slots"]:
        columns = ["slot", "left", "of", "ε of one release at the budget's δ"]
        rows = [
            [name, str(values["remaining"][name]), str(slot["count"]), f"{slot['epsilon']:.6g}"]
            for name, slot in values["slots"].items()
        ]
        return columns, rows
    return ["what", "left"], [[name.replace("_", " "), f"{value:.6g}"] for name, value in values["remaining"].items()]


def _chart(curve: list[dict[str, float]]) -> dict[str, Any] | None:
    """Lines and labels of log δ against ε, in the units of the picture; None if there is nothing to draw."""
    if not curve:
        return None
    last = curve[-1]["epsilon"]
    smallest = min(row[order] for row in curve for order in _ORDERS)
    bottom = 4 * max(math.ceil(-math.log10(max(smallest, _LEAST)) / 4), 1)  # four whole steps on the axis
    lines = []
    for order in _ORDERS:
        rows = [(row["epsilon"], row[order]) for row in curve if row[order] >= _LEAST]
        points = (f"{60 + 560 * x / last:.1f},{20 - 240 * math.log10(y) / bottom:.1f}" for x, y in rows)
        lines.append({"name": order, "points": " ".join(points)})
    ticks: list[dict[str, Any]] = [
        {"x": 60 + 140 * k, "y": 280, "anchor": "middle", "text": f"{last * k / 4:g}"} for k in range(5)
    ]
    ticks += [
        {"x": 54, "y": 24 + 60 * k, "anchor": "end", "text": f"1e-{bottom * k // 4}" if k else "1"} for k in range(5)
    ]
    return {"lines": lines, "ticks": ticks}
