"""`ndis ledger create | show | verify | export`: budgets on disk."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ndis._files import check_file, write_file
from ndis._json import loads, only_keys
from ndis.cli.options import Adjacency, AdjacencyOption, Json
from ndis.cli.output import as_json_text, print_table
from ndis.cli.projection import sketch_mechanism
from ndis.cli.source import from_toml, read_profile
from ndis.errors import ParameterError

__all__ = ["register"]


class Kind(StrEnum):
    """How a ledger counts."""

    PLAN = "plan"
    SHIFTS = "shifts"
    RENYI = "renyi"


Path_ = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of the ledger.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="ε of everything that the ledger allows.")]
Delta = Annotated[float, typer.Option("--delta", help="δ of everything that the ledger allows.")]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="plan: declared slots. shifts: mean shifts. renyi: one Rényi order.")
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="TOML or JSON file with the slots of a plan.")
]
OrderOption = Annotated[float | None, typer.Option("--order", help="Rényi order, above 1 (chosen unless given).")]
NameOption = Annotated[str, typer.Option("--data-name", help="The data set that the budget is for.")]
Receipts = Annotated[
    list[Path] | None,
    typer.Option("--receipt", metavar="FILE", help="A receipt that the ledger paid for; finds an end cut off."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Write the report here (.html or .json).")]

_SHOWN = ("data_name", "kind", "target_epsilon", "target_delta", "adjacency", "max_records", "failure_probability")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="A privacy budget for one data set, kept in one file.")
    for command in (create, show, verify, export):
        group.command()(command)
    app.add_typer(group, name="ledger")


def create(
    path: Path_,
    epsilon: Epsilon,
    delta: Delta,
    data_name: NameOption,
    kind: KindOption = None,
    plan: PlanOption = None,
    order: OrderOption = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
) -> None:
    """Make a ledger. The guarantee of the whole budget is certified first.

    A plan names slots. Each has a count and one of three: noise_multiplier; profile, the name of a saved profile; or
    sketch, with the options of 'ndis sketch' as names (epsilon, delta, sketch_size, row_norm_bound, ...).

    Example: ndis ledger create visits.ledger --epsilon 3 --delta 1e-6 --data-name visits --plan slots.toml
    """
    from ndis.ledger import Ledger

    slots = None if plan is None else _read_plan(plan, adjacency)
    ledger = Ledger.create(
        path,
        epsilon=epsilon,
        delta=delta,
        plan=slots,
        kind=None if kind is None else kind.value,
        order=order,
        data_name=data_name,
        adjacency=adjacency.value,
    )
    typer.echo(f"{ledger.kind} ledger for {data_name!r} with epsilon = {epsilon:g}, delta = {delta:g}: {path}")


def show(path: Path_, as_json: Json = False) -> None:
    """Show the budget that is left, and the entries that spent the rest.

    Example: ndis ledger show visits.ledger
    """
    from ndis.ledger import Ledger

    ledger = Ledger(path)
    found: dict[str, Any] = {name.removeprefix("target_"): getattr(ledger, name) for name in _SHOWN}
    found |= {"remaining": ledger.remaining(), "entries": ledger.entries(), "head": ledger.head()}
    if as_json:
        typer.echo(as_json_text(found))
        return
    left = found.pop("remaining")
    print_table({**found, **{f"left: {name}": value for name, value in left.items()}})


def verify(path: Path_, receipt: Receipts = None) -> None:
    """Check the chain, every total and the guarantee again; status 2 if something does not fit.

    Example: ndis ledger verify visits.ledger --receipt sketch/receipt.json
    """
    from ndis.ledger import Ledger

    heads = dict(_seal(file) for file in receipt or ())
    count = Ledger(path).verify(heads=heads)
    typer.echo(f"{count} entries fit together" + (f", {len(heads)} receipts among them" if heads else ""))


def export(path: Path_, output: Output) -> None:
    """Write the report of a ledger as a page or as JSON. It holds no private values.

    Example: ndis ledger export visits.ledger --output budget.html
    """
    from ndis.ledger import Ledger

    if output.suffix.lower() not in (".html", ".json"):
        raise ParameterError("output", "end in .html or .json", repr(output.suffix))
    check_file(output)
    report = Ledger(path).report()
    text = report.to_json() if output.suffix.lower() == ".json" else report.to_html()
    write_file(output, text.encode() + b"\n")


# ---------------------------------------------------------------------- files


def _seal(file: Path) -> tuple[int, str]:
    """Entry and digest in a receipt, which may stand inside a saved release."""
    found = loads("receipt", _content("--receipt", file))
    if isinstance(found, dict) and isinstance(found.get("receipt"), dict):
        found = found["receipt"]
    seal = found.get("ledger") if isinstance(found, dict) else None
    if not isinstance(seal, dict) or type(seal.get("entry")) is not int or not isinstance(seal.get("head"), str):
        raise ParameterError("--receipt", "be a receipt that a ledger paid for", repr(str(file)))
    return seal["entry"], seal["head"]


def _content(name: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError):
        raise ParameterError(name, "be a file that can be read", repr(str(file))) from None


def _read_plan(file: Path, adjacency: Adjacency) -> dict[str, tuple[Any, int]]:
    """The slots of a plan file."""
    text = _content("--plan", file)
    found = from_toml("--plan", text) if file.suffix.lower() == ".toml" else loads("--plan", text)
    slots = only_keys("plan", found, ("slots",))["slots"]
    if not isinstance(slots, dict) or not slots:
        raise ParameterError("slots of the plan", "be a table of at least one slot", type(slots).__name__)
    return {name: _slot(name, item, file.parent, adjacency) for name, item in slots.items()}


_WAYS = ("noise_multiplier", "profile", "sketch")


def _slot(name: str, item: Any, folder: Path, adjacency: Adjacency) -> tuple[Any, int]:
    known = only_keys(f"slot {name!r}", item, ("count",), _WAYS)
    ways = [way for way in _WAYS if way in known]
    if len(ways) != 1:
        raise ParameterError(f"slot {name!r}", f"have one of {', '.join(_WAYS)}", ", ".join(ways) or "none")
    value = known[ways[0]]
    if ways == ["noise_multiplier"]:
        from ndis.profile import PrivacyProfile

        return PrivacyProfile.from_noise_multiplier(value, adjacency=adjacency.value), known["count"]
    if ways == ["profile"]:
        if not isinstance(value, str):
            raise ParameterError(f"profile of slot {name!r}", "be the name of a file", repr(value))
        return read_profile(folder / value), known["count"]
    return _sketch(name, value, adjacency), known["count"]


def _sketch(name: str, value: Any, adjacency: Adjacency) -> Any:
    """The calibrated projection of a slot."""
    needed = ("epsilon", "delta", "sketch_size", "row_norm_bound")
    optional = ("target_bound", "intercept", "calibration", "rate", "test_noise_std", "failure_probability")
    public = only_keys(f"sketch of slot {name!r}", value, needed, optional)
    return sketch_mechanism(public, adjacency=adjacency.value)
