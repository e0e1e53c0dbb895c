"""Run `ndis audit-training`: what a training loop guarantees, which claims it breaks, and the repair."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click

from ndis._files import only_keys, read_object
from ndis.cli.audit import REFUTED, REPEATED
from ndis.cli.options import JSON, OUT_OF_REACH, PAGES, argument, command, written

__all__ = ["audit_training"]


@command(
    argument("file", "CONFIG_FILE"),
    written("Write the certificate here, .html or .json; may be repeated.", *PAGES, names="--report -o", **REPEATED),
    JSON,
    name="audit-training",
)
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
        raise click.exceptions.Exit(REFUTED if verdict.verdict == "refuted" else OUT_OF_REACH)
