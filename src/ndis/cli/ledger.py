"""Run `ndis ledger create | renew | show | verify | anchor | export`: budgets on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from ndis._files import only_keys, read_object
from ndis.cli.files import read_profile
from ndis.cli.options import ADJACENCY, JSON, PAGES, Commands, argument, choice, command, listed, option, written
from ndis.cli.output import print_values, write_or_print
from ndis.cli.release import sketch_mechanism
from ndis.errors import LedgerError, ParameterError, require
from ndis.pages.text import printable, several

_LEDGER = argument("path", "LEDGER")
_SHOWN = ("data_name", "kind", "target_epsilon", "target_delta", "adjacency", "max_records", "failure_probability")
_WAYS = ("noise_multiplier", "profile", "sketch")
_NEEDED = ("epsilon", "delta", "sketch_size", "row_norm_bound")
_LISTED = ("entry", "time", "slot", "mechanism", "epsilon", "delta", "by", "purpose", "user", "host", "state")
_OPTIONAL = ("target_bound", "intercept", "rate", "test_noise_std", "failure_probability")


_OPENING = (
    option("--epsilon", "ε of everything that the ledger allows.", required=True),
    option("--delta", "δ of everything that the ledger allows.", required=True),
    choice("--kind", "plan: declared slots. shifts: mean shifts. renyi: one Rényi order.", "plan shifts renyi"),
    option("--plan", "TOML or JSON file with the slots of a plan.", Path, metavar="FILE"),
    option("--order", "Rényi order, above 1 (chosen unless given)."),
)


@command(
    _LEDGER, _OPENING, option("--data-name", "The data set that the budget is for.", str, required=True), ADJACENCY
)
def create(path: Path, plan: Path | None, adjacency: Any, **public: Any) -> None:
    """Make a ledger. The guarantee of the whole budget is certified first.

    A plan names slots. Each has a count and one of three: noise_multiplier; profile, the name of a saved profile; or
    sketch, with the options of 'ndis sketch' as names (epsilon, delta, sketch_size, row_norm_bound, ...).

    Example: ndis ledger create visits.ledger --epsilon 3 --delta 1e-6 --data-name visits --plan slots.toml
    """
    from ndis.ledger import Ledger

    slots = None if plan is None else _read_plan(plan, adjacency, public["delta"])
    made = Ledger.create(path, plan=slots, adjacency=adjacency, **public)
    budget = f"epsilon = {made.target_epsilon:g}, delta = {made.target_delta:g}"
    click.echo(f"{made.kind} ledger for {made.data_name!r} with {budget}: {printable(str(path))}")


@command(argument("old", "OLD"), argument("path", "NEW"), _OPENING)
def renew(old: Path, path: Path, plan: Path | None, **public: Any) -> None:
    """Close the ledger OLD, and open NEW for the next period of the same data. The budgets of all periods add up.

    Example: ndis ledger renew 2026.ledger 2027.ledger --epsilon 3 --delta 1e-6 --plan slots.toml
    """
    closed = _opened(old)
    slots = None if plan is None else _read_plan(plan, closed.adjacency, public["delta"])
    total = closed.renew(path, plan=slots, **public).total()
    budget = f"epsilon = {total['epsilon']!r}, delta = {total['delta']!r}"
    click.echo(f"period {total['periods']}; all periods together: {budget}: {printable(str(path))}")


@command(_LEDGER, JSON)
def show(path: Path, as_json: bool) -> None:
    """Show the budget that is left, and the releases that spent the rest: when, for whom, and what for.

    "left in epsilon" is the cost of all that may still be released, by itself. "all periods" adds up the budgets of
    this ledger and of those that it renews; "renews" is the entry that closed the last one, for 'verify --head'.

    Example: ndis ledger show visits.ledger
    """
    budget = _opened(path)
    values: dict[str, Any] = {name.removeprefix("target_"): getattr(budget, name) for name in _SHOWN}
    left, entries = budget.remaining(), {"entries": budget.entries(), "head": budget.head()}
    releases, total, periods, both = budget.releases(), budget.total(), budget.periods, budget.left()
    if as_json:
        more = {"left": both, "total": total, "renews": periods, "renewed": budget.renewed}
        print_values({**values, "remaining": left, **entries, **more, "releases": releases}, as_json=True)
        return
    named = {f"left: {name}": value for name, value in left.items()}
    named |= {f"left in {name}": value for name, value in both.items()}
    if periods:
        named["renews"] = f"{periods[-1]['entry']}:{periods[-1]['head']}"
        named |= {f"all periods: {name}": value for name, value in total.items()}
    if budget.renewed:
        named["renewed"] = "yes; it takes no more requests"
    print_values({**values, **entries, **named}, as_json=False)
    for one in releases:
        listed = (f"{name} {one[name]}" for name in _LISTED if one[name] not in (None, ""))
        click.echo(printable("  ".join(listed)))


@command(
    _LEDGER,
    option("--receipt", "A receipt that the ledger paid for, or an anchor.", Path, multiple=True, metavar="FILE"),
    listed("--head", "An entry that you noted, as NUMBER:DIGEST.", "HEAD"),
)
def verify(path: Path, receipt: list[Path], head: list[str]) -> None:
    """Check the chain, every total and the guarantee again; status 2 if something does not fit.

    Receipts, anchors and heads find what the file alone cannot show: an end that was cut off, and a history that was
    written twice.

    Example: ndis ledger verify visits.ledger --receipt sketch/receipt.json --head 12:9f86d0...
    """
    budget = _opened(path)
    heads = [*(_seal(file, budget.data_name) for file in receipt), *map(_head, head)]
    count = budget.verify(heads=heads)
    among = f", {several(len(heads), 'receipt')} among them" if heads else ""
    click.echo(f"{count} entries fit together{among}")


@command(_LEDGER, written("A new file, to be kept where writers of the ledger cannot reach it.", new=True))
def anchor(path: Path, output: Path | None) -> None:
    """Check the ledger, and print its head or write it to a file. 'ndis ledger verify --receipt' takes the file.

    Example: ndis ledger anchor visits.ledger --output visits-2026-07.anchor
    """
    seal = _opened(path).anchor()
    text = f"{seal['entry']}:{seal['head']}" if output is None else json.dumps({"ledger": seal}, indent=2)
    write_or_print(output, f"{text}\n")


@command(_LEDGER, written("A new file for the report (.html or .json).", *PAGES, new=True, required=True))
def export(path: Path, output: Path) -> None:
    """Write the report of a ledger as a page or as JSON. It holds no private values.

    Example: ndis ledger export visits.ledger --output budget.html
    """
    _opened(path).report().save(output, new=True)


ledger = Commands(
    "ledger",
    commands=[create, renew, show, verify, anchor, export],
    help="Keep a privacy budget for one data set in one file.",
)


def _opened(path: Path) -> Any:
    from ndis.ledger import Ledger

    return Ledger(path)


def _head(text: str) -> tuple[int, str]:
    """Read NUMBER:DIGEST."""
    number, _, digest = text.partition(":")
    if not (number.isascii() and number.isdigit() and re.fullmatch("[0-9a-f]{64}", digest)):
        raise ParameterError("--head", "be NUMBER:DIGEST, with 64 hexadecimal digits", repr(text))
    return int(number), digest


def _seal(file: Path, data_name: str) -> tuple[int, str]:
    """Return entry and digest in a receipt, which may stand inside a saved release, or in an anchor."""
    saved = read_object("--receipt", file)
    receipt = saved.get("receipt", saved)
    seal = receipt.get("ledger") if isinstance(receipt, dict) else None
    if not isinstance(seal, dict) or type(seal.get("entry")) is not int or not isinstance(seal.get("head"), str):
        raise ParameterError("--receipt", "be a receipt that a ledger paid for", repr(str(file)))
    if seal.get("data_name", data_name) != data_name:
        named = f"a receipt names it as that of {seal['data_name']!r}"
        raise LedgerError(f"the ledger is that of {data_name!r}, and {named}")
    return seal["entry"], seal["head"]


def _read_plan(file: Path, adjacency: Any, delta: float) -> dict[str, tuple[Any, int]]:
    """Return the slots of a plan file."""
    slots = only_keys("plan", read_object("--plan", file), ("slots",))["slots"]
    if not isinstance(slots, dict) or not slots:
        raise ParameterError("slots of the plan", "be a table of at least one slot", type(slots).__name__)
    return {name: _slot(name, item, file.parent, adjacency, delta) for name, item in slots.items()}


def _slot(name: str, item: Any, folder: Path, adjacency: Any, delta: float) -> tuple[Any, int]:
    """Return what a slot declares, and its count. A noise multiplier is the mechanism that `ndis count` makes of it."""
    known = only_keys(f"slot {name!r}", item, ("count",), _WAYS)
    ways = [way for way in _WAYS if way in known]
    require(len(ways) == 1, f"slot {name!r}", f"have one of {', '.join(_WAYS)}", ", ".join(ways) or "none")
    value = known[ways[0]]
    if ways == ["noise_multiplier"]:
        from ndis.mechanisms.gaussian import GaussianMechanism

        require(type(value) in (int, float), f"noise_multiplier of slot {name!r}", "be a number", repr(value))
        public = {"delta": delta, "sensitivity": 1.0, "adjacency": adjacency}
        return GaussianMechanism.with_noise(noise_std=value, **public), known["count"]
    if ways == ["profile"]:
        require(isinstance(value, str), f"profile of slot {name!r}", "be the name of a file", repr(value))
        return read_profile(folder / value), known["count"]
    public = only_keys(f"sketch of slot {name!r}", value, _NEEDED, _OPTIONAL)
    return sketch_mechanism(public, adjacency=adjacency), known["count"]
