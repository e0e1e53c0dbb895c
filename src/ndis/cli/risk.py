"""Run `ndis risk`: what a guarantee means for one person, as text, JSON, a page or a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ndis._files import read_object, write_file
from ndis.cli.files import read_profile
from ndis.cli.options import JSON, PAGES, PICTURES, argument, command, option, written
from ndis.cli.output import picture
from ndis.errors import ParameterError

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
def risk(
    file: Path | None, delta: float, noise_multiplier: float | None, sampling_rate: float, steps: int,
    group: tuple[int, ...], title: str, as_json: bool, output: Path | None,
) -> None:  # fmt: skip
    """Print what a guarantee means for one person. It says how far any attack gets, and compares with others.

    FILE is a saved profile, a pair of Gaussians, or a saved DP-SGD schedule. Options take its place.

    Example: ndis risk --noise-multiplier 1.1 --sampling-rate 0.004 --steps 10000 --delta 1e-5 -o card.html
    """
    from ndis.dpsgd import DPSGD

    if (file is None) == (noise_multiplier is None):
        raise ParameterError("input", "be FILE or --noise-multiplier", "neither" if file is None else "both")
    if noise_multiplier is not None:
        run = DPSGD(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps)
        profile = run.profile()
    elif read_object("file", file).get("format") == "ndis.DPSGD":  # type: ignore[arg-type]  # not None here
        profile = DPSGD.from_json(file.read_bytes()).profile()  # type: ignore[union-attr]
    else:
        profile = read_profile(file)  # type: ignore[arg-type]
    card = profile.report(delta, groups=group or (2, 5, 10), title=title)
    click.echo(card.to_json() if as_json else str(card))
    if output is not None and output.suffix.lower() in PAGES:
        card.save(output)
    elif output is not None:
        write_file(output, picture(lambda ax: profile.plot(ax=ax), output.suffix))
