"""Report a ledger as a page and as JSON: the budget, the spent part and the rest. No value comes from data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._validate import ORDERS
from ndis._version import __version__
from ndis.ledger.store import Entry
from ndis.pages.html import Page, chart, render
from ndis.pages.text import equation, few, stated
from ndis.profile import PrivacyProfile

_SHOWN = 500  # releases on the page; JSON has all
_POINTS = 81  # points of the curve
_DRAWN_BELOW = 1e-3  # the picture ends at this part of the budget's δ
STATES = {
    "reserve": "reserved, not released: counts as spent; its process runs or was stopped",
    "read": "reading, not released: counts as spent; its process runs or was stopped",
    "commit": "released",
    "return": "given back, nothing was read",
}
PEOPLE = ("by", "purpose", "user", "host")  # who asked, and what for


@dataclass(frozen=True)
class LedgerReport(Page):
    """A report is a mapping of plain values, which can be saved or shown as JSON or as a page.

    Attributes
    ----------
    values : mapping
        The guarantee, what is left, the exact curve of the budget, and every release.
    """

    values: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(self.values)

    def to_html(self) -> str:
        """Write one page that loads nothing."""
        values = self.values
        picture = ""
        if values["curve"]:
            least = _DRAWN_BELOW * values["delta"]
            remove, add = (
                [(row["epsilon"], row[order]) for row in values["curve"] if row[order] >= least] for order in ORDERS
            )
            words = "δ on a logarithmic axis against ε, in both orders, for everything that the ledger allows together."
            budget = [(values["epsilon"], values["delta"])]
            picture = chart(remove, budget, second=add, mark="budget", description=words)
        shown = values["entries"][-_SHOWN:]
        return render("ledger.html.jinja", rest=_left(values), chart=picture, shown=shown, **values)


def report_of(ledger: Any, about: Mapping[str, Any], whole: PrivacyProfile | None) -> LedgerReport:
    """Report a ledger that was made with these values; `whole` is the profile of its whole budget."""
    epsilon, delta, plan = ledger.target_epsilon, ledger.target_delta, ledger.plan().items()
    smallest, total = ledger.max_records, ledger.total()
    neighbours = {"add-remove": "present or absent", "replace-one": "exchanged"}[ledger.adjacency]
    condition = f"The guarantee holds for tables with at most {smallest} records." if smallest is not None else ""
    return LedgerReport(
        {
            "version": __version__,
            "data_name": ledger.data_name,
            "kind": ledger.kind,
            "order": about.get("order"),
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": ledger.adjacency,
            "created": about["created"],
            "guarantee": (
                f"Everything that this ledger allows is together private with {equation('ε', epsilon)} and "
                f"{equation('δ', delta)}, for one record {neighbours}, even if later requests depend on earlier "
                "answers." + (_all_periods(total) if ledger.periods else "")
            ),
            "condition": condition,
            "max_records": smallest,
            "failure_probability": ledger.failure_probability,
            "slots": {name: {"count": n, "epsilon": profile.epsilon(delta)} for name, (profile, n) in plan},
            "remaining": ledger.remaining(),
            "left": ledger.left(),
            "total": total,
            "renews": ledger.periods,
            "renewed": ledger.renewed,
            "curve": curve_of(whole, epsilon),
            "entries": ledger.releases(),
            "head": ledger.head(),
        }
    )


def releases_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """List one row per reservation, with what became of it."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if entry.action == "reserve":
            details = entry.content["details"]
            rows[entry.number] = {
                "entry": entry.number,
                "time": entry.time,
                **{name: entry.content[name] for name in ("slot", "max_records", "profile")},
                **{name: details.get(name) for name in ("mechanism", "epsilon", "delta")},
                "digest": entry.digest,
                **{name: details.get(name) for name in PEOPLE},
                "state": STATES["reserve" if entry.content.get("owner") else "read"],
            }
        elif entry.content.get("reservation") in rows:  # a renewal has none
            rows[entry.content["reservation"]]["state"] = STATES[entry.action]
    return list(rows.values())


def curve_of(profile: PrivacyProfile | None, epsilon: float) -> list[dict[str, float]]:
    """Compute δ in both orders at ε from 0 to twice the budget's."""
    if profile is None:
        return []
    grid = np.linspace(0.0, 2.0 * epsilon if epsilon > 0 else 1.0, _POINTS)
    columns = [grid.tolist(), *(profile.delta(grid, order=order).tolist() for order in ORDERS)]
    return [dict(zip(("epsilon", *ORDERS), row, strict=True)) for row in zip(*columns, strict=True)]


def _all_periods(total: Mapping[str, Any]) -> str:
    """State the total of all periods in full digits, because a shorter number may be smaller."""
    promise = total["max_records"]
    tables = "" if promise is None else f", for tables with at most {promise} records"
    budgets = f"{equation('ε', total['epsilon'])} and {equation('δ', total['delta'])}"
    return f" All {total['periods']} periods are together private with {budgets}{tables}."


def _left(values: Mapping[str, Any]) -> list[list[str]]:
    """Lay out what is left of the budget as a table; its first row names the columns."""
    if not values["slots"]:
        left = [*values["remaining"].items(), *((f"in {name}", value) for name, value in values["left"].items())]
        return [["what", "left"], *([name.replace("_", " "), few(value)] for name, value in left)]
    counts, slots = values["remaining"], values["slots"].items()
    rows = ([name, str(counts[name]), str(slot["count"]), stated(slot["epsilon"])] for name, slot in slots)
    return [["slot", "left", "of", "ε of one release at the budget's δ"], *rows]
