"""`ndis audit`: compare a claim of differential privacy with neighbours."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import ndis
from ndis._files import check_file
from ndis.cli.algorithm import NamedAlgorithm, workers_without_current_folder
from ndis.cli.audit_file import Request, read_request
from ndis.cli.options import Adjacency, SchemaOption
from ndis.errors import ParameterError

__all__ = ["REFUTED", "register"]

REFUTED = 1  # exit status


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(audit)


def audit(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON or TOML with claim = {epsilon, delta, adjacency} and pairs, or algorithm and data; NPZ with the "
            "same as arrays; a pair or a profile as for ndis delta; rows of data as CSV (the first line names the "
            "columns), Parquet, Arrow or NPY; or a saved report, which is certified and shown again. "
            "FILE is trusted as a program is: the function that it names is run.",
            show_default=False,
        ),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            metavar="MODULE:FUNCTION",
            help="A function from data to (mean, covariance), in a module of the current folder, beside FILE, or "
            "installed. It is run, and trusted.",
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Claimed ε, in place of the file's.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Claimed δ, in place of the file's.")] = None,
    adjacency: Annotated[
        Adjacency | None, typer.Option("--adjacency", help="Which data sets are neighbours (add-remove unless given).")
    ] = None,
    targets: Annotated[
        list[str] | None,
        typer.Option("--targets", metavar="COLUMN", help="Columns that are targets; the algorithm then gets (X, y)."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="COLUMN", help="Feature columns of a table (all but the targets)."),
    ] = None,
    row_norm_bound: Annotated[
        float | None, typer.Option("--row-norm-bound", help="Search for the worst row within this norm as well.")
    ] = None,
    target_bound: Annotated[
        float | None, typer.Option("--target-bound", help="With --row-norm-bound: the bound of the worst row's target.")
    ] = None,
    schema: SchemaOption = None,
    title: Annotated[str | None, typer.Option("--title", help="Name of the audited system, for the report.")] = None,
    data_name: Annotated[str | None, typer.Option("--data-name", help="Name of the data, for the report.")] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", "-o", metavar="PATH", help="Write the report here, .html or .json; may be repeated."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="How many runs of the algorithm at a time (1 unless given).")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Note finished neighbours here; run again to go on from there.")
    ] = None,
    law_accuracy: Annotated[
        float | None,
        typer.Option(
            "--law-accuracy", help="Relative accuracy of the algorithm's numbers (2⁻⁴⁰ unless given; 0: exact)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Try to refute a claim of (ε, δ)-differential privacy, with proof.

    Exit status: 0 not refuted (which is not a proof of privacy), 1 refuted and nothing else, 2 bad input.

    Example: ndis audit gaussians.json --epsilon 1 --delta 1e-6 --report audit.html
    """
    for path in report or []:
        _check_report(path)
    if journal is not None:
        check_file(journal, name="journal")
    request = read_request(file, targets=targets, columns=columns, schema=schema)
    options = {
        "--algorithm": algorithm,
        "--epsilon": epsilon,
        "--delta": delta,
        "--adjacency": None if adjacency is None else adjacency.value,
        "--targets": targets,
        "--columns": columns,
        "--row-norm-bound": row_norm_bound,
        "--target-bound": target_bound,
        "--schema": schema,
        "--title": title,
        "--data-name": data_name,
        "--law-accuracy": law_accuracy,
    }
    if request.report is not None:
        found = _checked_again(request.report, {**options, "--workers": workers, "--journal": journal})
    else:
        found = _run(request, options, workers, journal)
        pages = [str(path) for path in report or [] if path.suffix.lower() == ".html"]
        found = replace(found, command=_command(file, options, pages[0] if pages else "audit.html"))
    typer.echo(found.to_json() if as_json else _summary(found))
    for path in report or []:
        found.save(path)
    if found.refuted:
        raise typer.Exit(REFUTED)


def _run(request: Request, options: dict[str, Any], workers: int | None, journal: Path | None) -> Any:
    """Audit the claim of the file and of the options."""
    claim = _claim(request, options["--epsilon"], options["--delta"], options["--adjacency"])
    running = {"--workers": workers, "--journal": journal, "--law-accuracy": options["--law-accuracy"]}
    bounds = {key: options[key] for key in ("--row-norm-bound", "--target-bound")}
    arguments = _arguments(request, claim, options["--algorithm"], bounds, running)
    title, data_name = options["--title"], options["--data-name"]
    arguments["title"] = request.title if title is None else title
    arguments["data_name"] = request.data_name if data_name is None else data_name
    try:
        with workers_without_current_folder():
            return ndis.audit(claim, **arguments)
    except KeyboardInterrupt:
        raise typer.Abort("" if journal is None else "; the same command goes on from the journal") from None


def _checked_again(found: Any, options: dict[str, Any]) -> Any:
    """A saved report whose witness gives the same numbers again."""
    for option, value in options.items():
        if value is not None:
            raise ParameterError(option, "be left out for a saved report", value)
    witness = found.witness
    if witness is not None:
        again = witness.recheck()
        agrees = again.upper >= witness.enclosure.lower and again.lower <= witness.enclosure.upper
        if found.refuted and agrees:
            agrees = ndis.auditing.judge.exceeds(witness.profile, witness.side, witness.epsilon, witness.delta) is True
        if not agrees:
            raise ParameterError("report", "agree with its own witness", "other numbers")
    if found.proved:
        typer.echo("ndis: this command does not check the proof in the report again", err=True)
    return found


def _command(file: Path, options: dict[str, Any], page: str) -> str:
    """The command that makes the same page again."""
    words = ["ndis", "audit", str(file)]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            words += [] if one is None else [option, str(one)]
    return shlex.join([*words, "--report", page])


def _claim(request: Request, epsilon: float | None, delta: float | None, adjacency: str | None) -> Any:
    """The claim of the file; options take the place of its parts."""
    given = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    claim = {**request.claim, **{key: value for key, value in given.items() if value is not None}}
    missing = [key for key in ("epsilon", "delta") if key not in claim]
    if missing:
        raise ParameterError("claim", "have epsilon and delta", f"none called {' or '.join(missing)}",
                             "give --epsilon and --delta or a claim in the file")  # fmt: skip
    words = {"adjacency": claim["adjacency"]} if "adjacency" in claim else {}
    if isinstance(claim["epsilon"], list | np.ndarray) and np.ndim(claim["epsilon"]):
        return ndis.Claim.curve(claim["epsilon"], claim["delta"], **words)
    return ndis.Claim(claim["epsilon"], claim["delta"], **words)


def _arguments(
    request: Request, claim: Any, algorithm: str | None, bounds: dict[str, Any], running: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of `ndis.audit`; `running` are the options that need an algorithm."""
    if request.pairs is not None:
        options: dict[str, object] = {"--algorithm": algorithm, **bounds, **running}
        for option, value in options.items():
            if value is not None:
                raise ParameterError(option, "be left out if the file holds pairs", value)
        return {"pairs": request.pairs}
    name = algorithm if algorithm is not None else request.algorithm
    if request.data is None:
        raise ParameterError("file", "hold pairs or data", "neither")
    if name is None:
        raise ParameterError("algorithm", "come with data", "none", "name it with --algorithm module:function")
    stated = {key[2:].replace("-", "_"): value for key, value in bounds.items() if value is not None}
    if "target_bound" in stated and request.target_values is not None:
        raise ParameterError("--target-bound", "be left out with target values", stated["target_bound"])
    request = replace(request, **stated)
    if request.row_norm_bound is None and "target_bound" in stated:
        raise ParameterError("--target-bound", "come with --row-norm-bound", stated["target_bound"])
    named = NamedAlgorithm(name, tuple(dict.fromkeys((os.getcwd(), request.folder or os.getcwd()))))
    _ = named.func  # an unknown name fails before anything runs
    return {
        "algorithm": named,
        "data": request.data,
        "neighbours": _rules(request, claim),
        **{key[2:].replace("-", "_"): value for key, value in running.items() if value is not None},
    }


def _rules(request: Request, claim: Any) -> list[Any]:
    rules = ndis.auditing
    replaced = claim.adjacency == "replace-one"
    chosen: list[Any] = [] if replaced else [rules.RemoveEach()]
    if request.candidates is not None:
        chosen.append((rules.ReplaceEach if replaced else rules.AddRows)(request.candidates))
    if request.row_norm_bound is not None:
        bounds = {"row_norm_bound": request.row_norm_bound, "target_bound": request.target_bound}
        if request.target_values is not None:
            bounds["target_values"] = request.target_values
        chosen.append((rules.ReplaceAdversarial if replaced else rules.AddAdversarial)(**bounds))
    if not chosen:
        raise ParameterError("neighbours", "be given for replace-one", "none", "give candidates or row_norm_bound")
    return chosen


def _check_report(path: Path) -> None:
    """Refuse a path that cannot be written, before the audit runs."""
    if path.suffix.lower() not in (".html", ".json"):
        raise ParameterError("--report", "end in .html or .json", str(path))
    check_file(path, name="--report")


def _summary(found: Any) -> str:
    lines = [str(found)]
    if found.epsilon_refuted is not None:
        lines.append(f"largest ε refuted at δ = {found.witness.delta!r}: {found.epsilon_refuted!r}")
    return "\n".join(lines)
