"""Run `ndis dpsgd`: the privacy of a training run, or the noise that a budget asks for."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._files import write_file
from ndis.cli.options import BUDGET, JSON, PICTURES, choice, command, flag, option, written
from ndis.cli.output import picture, print_rows, print_values
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.dpsgd import Sampling

__all__ = ["dpsgd"]


@command(
    BUDGET[1],
    option("--noise-multiplier", "Standard deviation of the noise over the clipping norm."),
    option("--epsilon", "Instead of the multiplier: the ε for which to find the smallest one."),
    choice("--sampling", "How batches are drawn.", "poisson allocation fixed-size truncated", "poisson"),
    option("--sampling-rate", "Probability that a record enters a batch."),
    option("--batch-size", "Size of a batch, or its expected size, with --records.", int),
    option("--records", "Number of records, with --batch-size.", int),
    option("--epochs", "Passes over the data: steps × rate, rounded up."),
    option("--steps", "Number of batches, instead of --epochs.", int),
    option("--bins", "Batches of an epoch, for allocation; records/batch size, rounded down, unless given.", int),
    option("--max-batch-size", "Size to which larger batches are cut, for truncated.", int),
    option("--examples-per-user", "Neighbours differ in one user with up to so many records.", int, default=1),
    flag("--compare", "Print a table of all ways to draw batches, each with its neighbours."),
    flag("--certify", "Rigorous ε, by ball arithmetic."),
    JSON,
    written("Draw ε against epochs here (png, svg, pdf) as well.", *PICTURES),
)
def dpsgd(
    delta: float, noise_multiplier: float | None, epsilon: float | None, sampling: Sampling, compare: bool,
    certify: bool, as_json: bool, output: Path | None, examples_per_user: int, **numbers: Any,
) -> None:  # fmt: skip
    """Print ε of a DP-SGD training run. Or find the smallest noise multiplier for an ε.

    Example: ndis dpsgd --noise-multiplier 1.1 --batch-size 256 --records 60000 --epochs 60 --delta 1e-5
    """
    from ndis.dpsgd import DPSGD

    if compare:
        _compare(noise_multiplier, epsilon, delta, as_json, output, **numbers)
        return
    plan = {"sampling": sampling, "examples_per_user": examples_per_user, **_plan(sampling, **numbers)}
    if noise_multiplier is not None and epsilon is None:
        run = DPSGD(noise_multiplier=noise_multiplier, **plan)
        spent = run.certified_epsilon(delta) if certify else run.epsilon(delta)
    elif noise_multiplier is None and epsilon is not None:
        run = DPSGD.calibrated(epsilon=epsilon, delta=delta, **plan)
        spent, certify = epsilon, True  # calibration ends with a certificate
    else:
        got = "neither" if epsilon is None else "both"
        raise ParameterError("input", "be one of --noise-multiplier and --epsilon", got)
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
        write_file(output, picture(lambda ax: run.plot(delta, ax=ax), output.suffix))
    print_values(about if as_json else {key.replace("_", " "): value for key, value in about.items()}, as_json=as_json)


def _compare(
    noise_multiplier: float | None, epsilon: float | None, delta: float, as_json: bool, output: Path | None, **plan: Any
) -> None:
    """Print a table of all samplers for one training plan."""
    from ndis.dpsgd import DPSGD

    needs = ("batch_size", "records", "epochs")
    more = [name for name, value in plan.items() if value is not None and name not in needs]
    if noise_multiplier is None or epsilon is not None or more or None in (plan[name] for name in needs):
        rule = "be --noise-multiplier, --batch-size, --records, --epochs and --delta with --compare"
        raise ParameterError("input", rule, "other options")
    own = {name: plan[name] for name in needs}
    rows = DPSGD.compare(noise_multiplier=noise_multiplier, delta=delta, **own)
    names = [f"{row.run.stages[0].sampling} ({row.run.adjacency})" for row in rows]
    if output is not None:
        lines = list(zip(names, rows, strict=True))
        drawn = picture(lambda ax: [row.run.plot(delta, ax=ax, label=name) for name, row in lines], output.suffix)
        write_file(output, drawn)
    table: list[dict[str, float | str]] = [
        {"sampling": name, "epsilon": row.epsilon, "at_least": row.lower, "loop": row.run.loop}
        for name, row in zip(names, rows, strict=True)
    ]
    print_rows(table, as_json=as_json, noise_multiplier=noise_multiplier, delta=delta, **own)


def _plan(
    sampling: Sampling, *, sampling_rate: float | None, batch_size: int | None, records: int | None,
    epochs: float | None, steps: int | None, bins: int | None, max_batch_size: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the numbers that the sampler needs, from the options that people know."""
    from ndis.dpsgd import SAMPLERS

    needs = SAMPLERS[sampling].needs
    for name, value in (("bins", bins), ("max_batch_size", max_batch_size)):
        if value is not None and name not in needs:
            raise ParameterError(name, f"not be given for {sampling!r}", value)
    if sampling == "allocation":
        count = _steps(Fraction(1), epochs, steps)  # epochs that are begun count
        if steps is not None:
            raise ParameterError("steps", "not be given for 'allocation'", steps, "say --epochs")
        return {"bins": bins or math.floor(1 / _rate(sampling_rate, batch_size, records)), "epochs": count}
    rate = _rate(sampling_rate, batch_size, records if sampling != "truncated" or batch_size else None)
    known: dict[str, Any] = {"batch_size": batch_size, "records": records, "max_batch_size": max_batch_size}
    known |= {"sampling_rate": float(rate), "steps": _steps(rate, epochs, steps)}
    return {name: known[name] for name in needs}


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
