"""Run `ndis dpsgd`: the privacy of a training run, or the noise that a budget asks for."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

from ndis._files import write_file
from ndis.cli.options import BUDGET, JSON, command, flag, option
from ndis.cli.output import check_picture, picture, print_values
from ndis.errors import ParameterError

__all__ = ["dpsgd"]

_SAMPLING = "Poisson sampling; neighbours differ in one record, added or removed"


@command(
    BUDGET[1],
    option("--noise-multiplier", "Standard deviation of the noise over the clipping norm."),
    option("--epsilon", "Instead of the multiplier: the ε for which to find the smallest one."),
    option("--sampling-rate", "Probability that a record enters a batch."),
    option("--batch-size", "Expected size of a batch, with --records.", int),
    option("--records", "Number of records, with --batch-size.", int),
    option("--epochs", "Passes over the data: steps × rate, rounded up."),
    option("--steps", "Number of batches, instead of --epochs.", int),
    flag("--certify", "Rigorous ε, by ball arithmetic."),
    JSON,
    option("--output -o", "Draw ε against epochs here (png, svg, pdf) as well.", Path),
)
def dpsgd(
    delta: float,
    noise_multiplier: float | None,
    epsilon: float | None,
    sampling_rate: float | None,
    batch_size: int | None,
    records: int | None,
    epochs: float | None,
    steps: int | None,
    certify: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Print ε of a DP-SGD training run with Poisson sampling, or the smallest noise multiplier for an ε.

    Example: ndis dpsgd --noise-multiplier 1.1 --batch-size 256 --records 60000 --epochs 60 --delta 1e-5
    """
    from ndis.dpsgd import DPSGD

    if output is not None:
        check_picture(output)
    rate = _rate(sampling_rate, batch_size, records)
    count = _steps(rate, epochs, steps)
    if noise_multiplier is not None and epsilon is None:
        run = DPSGD(noise_multiplier=noise_multiplier, sampling_rate=float(rate), steps=count)
        spent = run.certified_epsilon(delta) if certify else run.epsilon(delta)
    elif noise_multiplier is None and epsilon is not None:
        run = DPSGD.calibrated(epsilon=epsilon, delta=delta, sampling_rate=float(rate), steps=count)
        spent, certify = epsilon, True  # calibration ends with a certificate
    else:
        got = "neither" if epsilon is None else "both"
        raise ParameterError("input", "be one of --noise-multiplier and --epsilon", got)
    (stage,) = run.stages
    about = {
        "noise_multiplier": stage.noise_multiplier,
        "sampling_rate": stage.sampling_rate,
        "steps": stage.steps,
        "epochs": float(rate * count),
        "delta": delta,
        "epsilon": spent if math.isfinite(spent) else None,
        "certified": certify,
        "sampling": _SAMPLING,
    }
    if output is not None:
        write_file(output, picture(lambda ax: run.plot(delta, ax=ax), output.suffix))
    print_values(about if as_json else {key.replace("_", " "): value for key, value in about.items()}, as_json=as_json)


def _rate(sampling_rate: float | None, batch_size: int | None, records: int | None) -> Fraction:
    """Return the sampling rate, exactly."""
    if (sampling_rate is None) == (batch_size is None and records is None) or (batch_size is None) != (records is None):
        got = "both" if sampling_rate is not None else "neither"
        raise ParameterError("input", "be --sampling-rate, or --batch-size and --records", got)
    if sampling_rate is None:
        if not 1 <= (batch_size or 0) <= (records or 0):
            raise ParameterError("--batch-size", "be at least 1 and at most --records", f"{batch_size} of {records}")
        return Fraction(batch_size or 0, records or 0)
    if not 0 < sampling_rate <= 1:
        raise ParameterError("--sampling-rate", "be above 0 and at most 1", sampling_rate)
    return Fraction(sampling_rate)


def _steps(rate: Fraction, epochs: float | None, steps: int | None) -> int:
    """Return the number of steps; a step that is begun counts."""
    if epochs is None and steps is not None:
        return steps
    if epochs is None or steps is not None:
        raise ParameterError("input", "be one of --epochs and --steps", "neither" if epochs is None else "both")
    if not 0 < epochs < math.inf:
        raise ParameterError("--epochs", "be positive and finite", epochs)
    return math.ceil(Fraction(epochs) / rate)
