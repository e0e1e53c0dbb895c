"""Run `ndis dpsgd`, `ndis audit-training` and `ndis risk`: what a training run or a guarantee means."""

from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ndis._files import only_keys, read_object
from ndis.cli import options as opt
from ndis.cli.audit import REFUTED
from ndis.cli.files import read_profile
from ndis.cli.output import print_rows, print_values, write_picture
from ndis.errors import ParameterError, require
from ndis.pages.text import at_least, at_most

_COMPARED = ("noise_multiplier", "batch_size", "records", "epochs", "steps")  # what a comparison takes
_USUAL = {"sampling": "poisson", "examples_per_user": 1, "certify": False}


@opt.command(
    opt.BUDGET[1],
    opt.option("--noise-multiplier", "Standard deviation of the noise over the clipping norm."),
    opt.option("--epsilon", "Instead of the multiplier: the ε for which to find the smallest one."),
    opt.choice("--sampling", "How batches are drawn.", "poisson allocation fixed-size truncated", "poisson"),
    opt.option("--sampling-rate", "Probability that a record enters a batch."),
    opt.option("--batch-size", "Size of a batch, or its expected size, with --records.", int),
    opt.option("--records", "Number of records, with --batch-size.", int),
    opt.option("--epochs", "Passes over the data: steps × rate, rounded up."),
    opt.option("--steps", "Number of batches, instead of --epochs.", int),
    opt.option("--bins", "Batches of an epoch, for allocation; records/batch size, rounded down, unless given.", int),
    opt.option("--max-batch-size", "Size to which larger batches are cut, for truncated.", int),
    opt.option("--examples-per-user", "Neighbours differ in one user with up to so many records.", int, default=1),
    opt.flag("--compare", "Print a table of all ways to draw batches, each with its neighbours."),
    opt.flag("--certify", "Rigorous ε, by ball arithmetic."),
    opt.JSON,
    opt.written("Draw ε against epochs here (png, svg, pdf) as well.", *opt.PICTURES),
)
def dpsgd(delta: float, compare: bool, as_json: bool, output: Path | None, **given: Any) -> None:
    """Print ε of a DP-SGD training run. Or find the smallest noise multiplier for an ε.

    Example: ndis dpsgd --noise-multiplier 1.1 --batch-size 256 --records 60000 --epochs 60 --delta 1e-5
    """
    from ndis.dpsgd import DPSGD

    if compare:
        _compare(delta, as_json, output, given)
        return
    noise, epsilon, certify = given["noise_multiplier"], given["epsilon"], given["certify"]
    plan = {"sampling": given["sampling"], "examples_per_user": given["examples_per_user"], **_plan(given)}
    opt.need_one("be one of --noise-multiplier and --epsilon", noise, epsilon)
    if epsilon is None:
        run = DPSGD(noise_multiplier=noise, **plan)
        spent = run.certified_epsilon(delta) if certify else run.epsilon(delta)
    else:
        run = DPSGD.calibrated(epsilon=epsilon, delta=delta, **plan)
        spent, certify = epsilon, True  # calibration ends with a certificate
    (stage,) = run.stages
    about = {
        **stage.arguments(),
        "sampling_rate": stage.sampling_rate,
        "steps": stage.steps,
        "epochs": stage.epochs or float(Fraction(stage.sampling_rate) * stage.steps),
        "delta": delta,
        "epsilon": spent if math.isfinite(spent) else None,
        "certified": certify,
        "sampling": run.loop,
    }
    if output is not None:
        write_picture(output, lambda ax: run.plot(delta, ax=ax))
    print_values(about if as_json else {key.replace("_", " "): value for key, value in about.items()}, as_json=as_json)


def _compare(delta: float, as_json: bool, output: Path | None, given: dict[str, Any]) -> None:
    """Print a table of all samplers for one training plan."""
    from ndis.dpsgd import DPSGD

    for name in (name for name in given if name not in _COMPARED):
        remedy = "it takes --noise-multiplier, --batch-size, --records, --delta, and --epochs or --steps"
        require(given[name] == _USUAL.get(name), name, "not be given with --compare", given[name], remedy)
    for name in _COMPARED[:3]:
        require(given[name] is not None, name, "be given with --compare", "none")
    rate = _rate(given, given["records"])
    steps = _steps(rate, given["epochs"], given["steps"])
    own = {name: given[name] for name in _COMPARED[:3]} | {"epochs": given["epochs"] or steps * rate}
    rows = {f"{row.run.stages[0].sampling} ({row.run.adjacency})": row for row in DPSGD.compare(delta=delta, **own)}
    known = {name: row.run for name, row in rows.items() if not row.reason}
    table = list[dict[str, float | str]]()
    for name, row in rows.items():
        low = "the same" if row.lower == row.epsilon else at_least(row.lower)
        upper, lower = (row.epsilon, row.lower) if as_json else (at_most(row.epsilon), low)
        loop = f"no answer: {row.reason}" if row.reason else row.run.loop
        table.append({"sampling": name, "steps": f"{row.run.steps}", "epsilon": upper, "at_least": lower, "loop": loop})
    print_rows(table, as_json=as_json, delta=delta, **{**own, "epochs": float(own["epochs"])})
    if output is not None and known:
        write_picture(output, lambda ax: [run.plot(delta, ax=ax, label=name) for name, run in known.items()])
    if len(known) < len(rows):
        raise click.exceptions.Exit(opt.OUT_OF_REACH)


def _plan(given: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that the sampler needs, from the options that people know."""
    from ndis.dpsgd import SAMPLERS

    sampling, known = given["sampling"], dict(given)
    needs = SAMPLERS[sampling].needs
    for name in ("bins", "max_batch_size"):
        require(given[name] is None or name in needs, name, f"not be given for {sampling!r}", given[name])
    if sampling == "allocation":
        known["epochs"] = _steps(Fraction(1), given["epochs"], given["steps"])  # epochs that are begun count
        require(given["steps"] is None, "steps", "not be given for 'allocation'", given["steps"], "say --epochs")
        known["bins"] = given["bins"] or math.floor(1 / _rate(given, given["records"]))
    else:
        rate = _rate(given, given["records"] if sampling != "truncated" or given["batch_size"] else None)
        known |= {"sampling_rate": float(rate), "steps": _steps(rate, given["epochs"], given["steps"])}
    return {name: known[name] for name in needs}


def _rate(given: dict[str, Any], records: Any) -> Fraction:
    """Return the sampling rate, exactly."""
    rate, size = given["sampling_rate"], given["batch_size"]
    if (rate is None) == (size is None and records is None) or (size is None) != (records is None):
        got = "both" if rate is not None else "neither"
        raise ParameterError("input", "be --sampling-rate, or --batch-size and --records", got)
    if rate is None:
        require(1 <= size <= records, "--batch-size", "be at least 1 and at most --records", f"{size} of {records}")
        return Fraction(size, records)
    require(0 < rate <= 1, "--sampling-rate", "be above 0 and at most 1", rate)
    return Fraction(rate)


def _steps(rate: Fraction, epochs: float | None, steps: int | None) -> int:
    """Return the number of steps; a step that is begun counts."""
    opt.need_one("be one of --epochs and --steps", epochs, steps)
    if epochs is None:
        return steps  # type: ignore[return-value]  # one of both
    require(0 < epochs < math.inf, "--epochs", "be positive and finite", epochs)
    return math.ceil(Fraction(epochs) / rate)


@opt.command(opt.argument("file", "CONFIG_FILE"), opt.reports("--report -o"), opt.JSON, name="audit-training")
def audit_training(file: Path, report: list[Path], as_json: bool) -> None:
    """Say which guarantee a training loop really has. Refute a claim that it breaks.

    CONFIG_FILE is TOML or JSON: sampler, steps, noise_multiplier (or noise_std and clipping_norm), records, batch_size
    or sampling_rate, and, where they differ from the usual, parameters, normaliser, clipping, micro_batches, drop_last,
    public, history, and claim = {epsilon, delta, adjacency}. Without an epsilon the claim is what a Poisson accountant
    says of the history.

    Exit status: 0 proved, 1 refuted, 3 no guarantee known, 2 bad input.

    Example: ndis audit-training loop.toml --report audit.html
    """
    from ndis.auditing import Claim, TrainingLoop
    from ndis.auditing import audit_training as run

    names = tuple(one.name for one in fields(TrainingLoop) if one.name != "adjacency")
    stated = only_keys("file", read_object("file", file), ("sampler",), ("claim", *names))
    claim = only_keys("claim", stated.pop("claim", {}), (), ("epsilon", "delta", "adjacency"))
    lists = {key: tuple(stated[key]) for key in ("public", "schedule", "history") if isinstance(stated.get(key), list)}
    loop = TrainingLoop(**{**stated, **lists})
    delta = {"delta": claim["delta"]} if "delta" in claim else {}
    verdict = run(loop, Claim(**{"delta": 1e-5, **claim}), **delta) if "epsilon" in claim else run(loop, **delta)
    click.echo(verdict.to_json() if as_json else str(verdict))
    for path in report:
        verdict.audit.save(path)
    if verdict.verdict != "sound":
        raise click.exceptions.Exit(REFUTED if verdict.verdict == "refuted" else opt.OUT_OF_REACH)


@opt.command(
    opt.argument("file", "FILE", required=False),
    opt.option("--delta", "δ of the guarantee.", default=1e-6),
    opt.option("--noise-multiplier", "Instead of FILE: standard deviation of the noise over the sensitivity."),
    opt.option("--sampling-rate", "Probability that a record enters a batch.", default=1.0),
    opt.option("--steps", "Number of batches.", int, default=1),
    opt.option("--group", "Number of people that belong together; may be repeated.", int, multiple=True),
    opt.option("--title", "Name of the release.", str, default=""),
    opt.JSON,
    opt.written("Write the card here: .html, .json, or a picture (.png, .svg, .pdf).", *opt.PAGES, *opt.PICTURES),
)
def risk(file: Path | None, delta: float, as_json: bool, output: Path | None, **given: Any) -> None:
    """Print what a guarantee means for one person. It says how far any attack gets, and compares with others.

    FILE is a saved profile, a pair of Gaussians, or a saved DP-SGD schedule. Options take its place. One (ε, δ) is not
    a whole guarantee: for the noise that reaches it, see 'ndis calibrate' and 'ndis dpsgd --epsilon'.

    Example: ndis risk --noise-multiplier 1.1 --sampling-rate 0.004 --steps 10000 --delta 1e-5 -o card.html
    """
    from ndis.dpsgd import DPSGD

    opt.need_one("be FILE or --noise-multiplier", file, given["noise_multiplier"])
    run = {name: given[name] for name in ("noise_multiplier", "sampling_rate", "steps")}
    profile = DPSGD(**run).profile() if file is None else read_profile(file)
    card = profile.report(delta, groups=given["group"] or (2, 5, 10), title=given["title"])
    click.echo(card.to_json() if as_json else str(card))
    if output is not None and output.suffix.lower() in opt.PAGES:
        card.save(output)
    elif output is not None:
        write_picture(output, lambda ax: profile.plot(ax=ax))
