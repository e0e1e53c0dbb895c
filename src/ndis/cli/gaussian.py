"""`ndis calibrate gaussian`: the least Gaussian noise for a query of bounded sensitivity."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ndis import __version__
from ndis.cli.audit import Adjacency

__all__ = ["calibrate_gaussian"]


def calibrate_gaussian(
    epsilon: Annotated[float, typer.Option("--epsilon", help="ε of the guarantee.")],
    delta: Annotated[float, typer.Option("--delta", help="δ of the guarantee.")],
    sensitivity: Annotated[
        float, typer.Option("--sensitivity", help="Public bound on the change of the query between neighbours.")
    ] = 1.0,
    adjacency: Annotated[
        Adjacency, typer.Option("--adjacency", help="The neighbours over which the sensitivity was taken.")
    ] = Adjacency.ADD_REMOVE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The noise of a Gaussian mechanism for a budget, exactly.

    Example: ndis calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1
    """
    from ndis.mechanisms.gaussian import GaussianMechanism

    found = GaussianMechanism.calibrated(
        epsilon=epsilon, delta=delta, sensitivity=sensitivity, adjacency=adjacency.value
    )
    values = {
        "mechanism": "GaussianMechanism",
        "epsilon": found.epsilon,
        "delta": found.delta,
        "sensitivity": found.sensitivity,
        "adjacency": found.adjacency,
        "noise_std": found.noise_std,
        "certified_delta": found.profile().certify(found.epsilon).upper,
    }
    if as_json:
        typer.echo(json.dumps({"ndis_version": __version__, **values}, allow_nan=False, indent=2))
        return
    for key, value in values.items():
        typer.echo(f"{key:<15}  {value!r}" if isinstance(value, float) else f"{key:<15}  {value}")
