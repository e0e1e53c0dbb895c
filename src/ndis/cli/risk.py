"""Run `ndis risk`: what a guarantee means for one person, as text, JSON, a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ndis._files import read_object
from ndis.cli.files import read_profile
from ndis.cli.options import JSON, PAGES, PICTURES, argument, command, need_one, option, written
from ndis.cli.output import write_picture

__all__ = ["risk"]


@command(
    argument("file", "FILE", required=False),
    option("--delta", "δ of the guarantee.", default=1e-6),
    option("--noise-multiplier", "Instead of FILE: standard deviation of the noise over the sensitivity."),
    option("--sampling-rate", "Probability that a record enters a batch.", default=1.0),
    option("--steps", "Number of batches.", int, default=1),
    option("--group", "Number of people that belong together; may be repeated.", int, multiple=True),
    option("--title", "Name of the release.", str, default=""),
    JSON,
    written("Write the card here: .html, .json, or a picture (.png, .svg, .pdf).", *PAGES, *PICTURES),
)
def risk(file: Path | None, delta: float, as_json: bool, output: Path | None, **given: Any) -> None:
    """Print what a guarantee means for one person. It says how far any attack gets, and compares with others.

    FILE is a saved profile, a pair of Gaussians, or a saved DP-SGD schedule. Options take its place.

    Example: ndis risk --noise-multiplier 1.1 --sampling-rate 0.004 --steps 10000 --delta 1e-5 -o card.html
    """
    from ndis.dpsgd import DPSGD

    need_one("be FILE or --noise-multiplier", file, given["noise_multiplier"])
    if file is None:
        profile = DPSGD(**{name: given[name] for name in ("noise_multiplier", "sampling_rate", "steps")}).profile()
    elif read_object("file", file).get("format") == "ndis.DPSGD":
        profile = DPSGD.from_json(file.read_bytes()).profile()
    else:
        profile = read_profile(file)
    card = profile.report(delta, groups=given["group"] or (2, 5, 10), title=given["title"])
    click.echo(card.to_json() if as_json else str(card))
    if output is not None and output.suffix.lower() in PAGES:
        card.save(output)
    elif output is not None:
        write_picture(output, lambda ax: profile.plot(ax=ax))
