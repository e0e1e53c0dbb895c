"""`ndis dpsgd`: the privacy of a training run, or the noise that a budget asks for."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from ndis._files import write_file
from ndis.cli.options import Delta, Json
from ndis.cli.output import as_json_text, check_picture, picture, print_table
from ndis.errors import ParameterError

__all__ = ["register"]

_WORDS = "Poisson sampling; neighbours differ in one record, added or removed"

Noise = Annotated[
    float | None, typer.Option("--noise-multiplier", help="Standard deviation of the noise over the clipping norm.")
]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="Instead of the multiplier: the ε for which to find the smallest one.")
]
Rate = Annotated[float | None, typer.Option("--sampling-rate", help="Probability that a record enters a batch.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Expected size of a batch, with --records.")]
Records = Annotated[int | None, typer.Option("--records", help="Number of records, with --batch-size.")]
Epochs = Annotated[float | None, typer.Option("--epochs", help="Passes over the data: steps × rate, rounded up.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Number of batches, instead of --epochs.")]
Certify = Annotated[bool, typer.Option("--certify", help="Rigorous ε, by ball arithmetic.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Draw ε against epochs here (png, svg, pdf) as well.")
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(dpsgd)


def dpsgd(
    delta: Delta,
    noise_multiplier: Noise = None,
    epsilon: Epsilon = None,
    sampling_rate: Rate = None,
    batch_size: BatchSize = None,
    records: Records = None,
    epochs: Epochs = None,
    steps: Steps = None,
    certify: Certify = False,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """ε of a DP-SGD training run with Poisson sampling, or the smallest noise multiplier for an ε.

    Example: ndis dpsgd --noise-multiplier 1.1 --batch-size 256 --records 60000 --epochs 60 --delta 1e-5
    """
    from ndis.dpsgd import DPSGD

    if output is not None:
        check_picture(output)
    rate = _rate(sampling_rate, batch_size, records)
    count = _steps(rate, epochs, steps)
    if (noise_multiplier is None) == (epsilon is None):
        got = "neither" if epsilon is None else "both"
        raise ParameterError("input", "be one of --noise-multiplier and --epsilon", got)
    if epsilon is not None:
        run = DPSGD.calibrated(epsilon=epsilon, delta=delta, sampling_rate=float(rate), steps=count)
        found, certify = epsilon, True  # calibration ends with a certificate
    else:
        assert noise_multiplier is not None
        run = DPSGD(noise_multiplier=noise_multiplier, sampling_rate=float(rate), steps=count)
        found = run.certified_epsilon(delta) if certify else run.epsilon(delta)
    (stage,) = run.stages
    about: dict[str, object] = {
        "noise_multiplier": stage.noise_multiplier,
        "sampling_rate": stage.sampling_rate,
        "steps": stage.steps,
        "epochs": float(rate * count),
        "delta": delta,
        "epsilon": found if math.isfinite(found) else None,
        "certified": certify,
        "sampling": _WORDS,
    }
    if output is not None:
        write_file(output, picture(lambda ax: run.plot(delta, ax=ax), output.suffix))
    if as_json:
        typer.echo(as_json_text(about))
    else:
        print_table({key.replace("_", " "): str(value) for key, value in about.items()})


def _rate(sampling_rate: float | None, batch_size: int | None, records: int | None) -> Fraction:
    """The sampling rate, exactly."""
    if sampling_rate is not None:
        if batch_size is not None or records is not None:
            raise ParameterError("input", "be --sampling-rate, or --batch-size and --records", "both")
        rate = Fraction(sampling_rate) if math.isfinite(sampling_rate) else Fraction(-1)
        if not 0 < rate <= 1:
            raise ParameterError("--sampling-rate", "be above 0 and at most 1", sampling_rate)
        return rate
    if batch_size is None or records is None:
        raise ParameterError("input", "be --sampling-rate, or --batch-size and --records", "neither")
    if not 1 <= batch_size <= records:
        raise ParameterError("--batch-size", "be at least 1 and at most --records", f"{batch_size} of {records}")
    return Fraction(batch_size, records)


def _steps(rate: Fraction, epochs: float | None, steps: int | None) -> int:
    """The number of steps; a step that is begun counts."""
    if (epochs is None) == (steps is None):
        raise ParameterError("input", "be one of --epochs and --steps", "neither" if epochs is None else "both")
    if epochs is None:
        assert steps is not None
        return steps
    if not 0 < epochs < math.inf:
        raise ParameterError("--epochs", "be positive and finite", epochs)
    return math.ceil(Fraction(epochs) / rate)
