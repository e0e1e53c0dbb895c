"""`ndis calibrate projection` and `ndis sketch`: private sketches of files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis import __version__
from ndis.cli.gaussian import calibrate_gaussian
from ndis.cli.records import names_of, readable_data, reading
from ndis.cli.schema import SchemaOption, read_schema
from ndis.errors import BudgetError, ParameterError
from ndis.files import check_new_folder

if TYPE_CHECKING:
    from ndis.mechanisms.projection import RandomProjection
    from ndis.mechanisms.release import ProjectionRelease
    from ndis.schema import Schema

__all__ = [
    "Adjacency",
    "AdjacencyOption",
    "Calibration",
    "CalibrationOption",
    "Columns",
    "Data",
    "Delta",
    "Epsilon",
    "Header",
    "Json",
    "Progress",
    "RowBound",
    "print_table",
    "register",
    "say",
]


class Adjacency(StrEnum):
    """Which data sets are neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class Calibration(StrEnum):
    """How the ridge is found."""

    EXACT = "exact"
    PAPER = "paper"
    LSV = "lsv"
    RENYI = "renyi"


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, Parquet, Arrow or NPY file, or a folder of CSV, Parquet or Arrow.")
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="ε of the guarantee.")]
Delta = Annotated[float, typer.Option("--delta", help="δ of the guarantee.")]
Size = Annotated[int, typer.Option("--sketch-size", help="Rows of the sketch.")]
RowBound = Annotated[
    float | None,
    typer.Option(
        "--row-norm-bound",
        help="Public bound of the norm of a row; longer rows are clipped. Needed unless a schema is given.",
    ),
]
TargetBound = Annotated[
    float | None, typer.Option("--target-bound", help="Public bound of the target columns, clipped on their own.")
]
Intercept = Annotated[float | None, typer.Option("--intercept", help="Append a constant column of this value.")]
AdjacencyOption = Annotated[Adjacency, typer.Option("--adjacency", help="Which data sets are neighbours.")]
CalibrationOption = Annotated[
    Calibration, typer.Option("--calibration", help="How the ridge is found; only exact is the smallest.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", help="Poisson sampling: every record enters with this probability.")
]
Ptr = Annotated[bool, typer.Option("--ptr", help="Propose-test-release: less ridge where a private test allows it.")]
TestNoise = Annotated[
    float | None, typer.Option("--test-noise-std", help="With --ptr: noise of the test (chosen unless given).")
]
Failure = Annotated[
    float | None, typer.Option("--failure-probability", help="With --ptr: share of δ for the test (δ/3 unless given).")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help="Feature columns, by name or number (all but the targets). "
        "For CSV without --header: the names of all columns, in order.",
    ),
]
Header = Annotated[
    bool, typer.Option("--header", help="The first line of every CSV file holds column names, which are public.")
]
Targets = Annotated[
    list[str] | None, typer.Option("--target", metavar="NAMES", help="Target columns, which get a bound of their own.")
]
Progress = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="A progress bar (on a terminal unless said).")
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="The budget ledger that pays; see 'ndis ledger'.")]
Slot = Annotated[str | None, typer.Option("--slot", help="The slot of the ledger's plan.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; null stands for what does not exist.")]

_calibrate = typer.Typer(no_args_is_help=True, help="The least noise for a budget, from public numbers alone.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    _calibrate.command("projection")(calibrate_projection)
    _calibrate.command("gaussian")(calibrate_gaussian)
    app.add_typer(_calibrate, name="calibrate")
    app.command()(sketch)


def calibrate_projection(
    epsilon: Epsilon,
    delta: Delta,
    sketch_size: Size,
    row_norm_bound: RowBound = None,
    target_bound: TargetBound = None,
    schema: SchemaOption = None,
    intercept: Intercept = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
    calibration: CalibrationOption = Calibration.EXACT,
    rate: Rate = None,
    ptr: Ptr = False,
    test_noise_std: TestNoise = None,
    failure_probability: Failure = None,
    as_json: Json = False,
) -> None:
    """The ridge of a random projection for a budget, beside those of other analyses.

    Example: ndis calibrate projection --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 1
    """
    stated = read_schema(schema)
    public: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "sketch_size": sketch_size,
        **_bounds(stated, row_norm_bound, target_bound),
        "intercept": intercept,
        "adjacency": adjacency.value,
    }
    variant = _variant(rate, ptr, test_noise_std, failure_probability)
    mechanism = _mechanism(public | variant, calibration)
    values: dict[str, Any] = {"mechanism": type(mechanism).__name__, "calibration": calibration.value}
    values |= public | {key: getattr(mechanism, key) for key in variant}
    values |= {
        "joint_norm_bound": mechanism.joint_norm_bound,
        "ridge": mechanism.ridge,
        "leverage": mechanism.leverage,
        "certified_delta": mechanism.profile().certify(mechanism.epsilon).upper,
    }
    if ptr:
        values["profitable_eigenvalue"] = mechanism.profitable_eigenvalue  # type: ignore[attr-defined]
    for other in Calibration:
        if other is not calibration:
            try:
                values[f"ridge_{other.value}"] = _mechanism(public | variant, other).ridge
            except (BudgetError, ParameterError):  # no such analysis of this mechanism, or none for this budget
                values[f"ridge_{other.value}"] = None
    _print_values(values, as_json=as_json)


def sketch(
    data: Data,
    epsilon: Epsilon,
    delta: Delta,
    sketch_size: Size,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for sketch.npz and receipt.json.")],
    row_norm_bound: RowBound = None,
    schema: SchemaOption = None,
    columns: Columns = None,
    header: Header = False,
    target: Targets = None,
    target_bound: TargetBound = None,
    intercept: Intercept = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
    calibration: CalibrationOption = Calibration.EXACT,
    rate: Rate = None,
    ptr: Ptr = False,
    test_noise_std: TestNoise = None,
    failure_probability: Failure = None,
    ledger: LedgerOption = None,
    slot: Slot = None,
    progress: Progress = None,
    as_json: Json = False,
) -> None:
    """Release a private sketch of a file or folder, with its receipt.

    With --schema, rows are taken in units as they are, and its target is part of the sketch if it is a number. Without
    it, a cell of text in a CSV file makes its whole row zero: leave out the columns that hold text.

    Example: ndis sketch records.csv --header --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 3 -o sketch
    """
    check_new_folder(output)
    stated = read_schema(schema)
    public: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "sketch_size": sketch_size,
        **_bounds(stated, row_norm_bound, target_bound),
        "intercept": intercept,
        "adjacency": adjacency.value,
    }
    mechanism = _mechanism(public | _variant(rate, ptr, test_noise_std, failure_probability), calibration)
    if stated is not None:
        if target:
            raise ParameterError("--target", "be left out with a schema, which names its target", ", ".join(target))
        with readable_data(data):
            release = mechanism.release(
                data,
                schema=stated,
                columns=names_of(columns),
                header=header,
                progress=progress,
                ledger=ledger,
                slot=slot,
            )
        return _saved(release, output, as_json)
    with reading(data, columns=columns, header=header) as records:
        say(records.note)
        release = mechanism.release(
            records.rows,
            columns=records.features(columns),
            targets=records.columns(target),
            header=header,
            progress=progress,
            ledger=ledger,
            slot=slot,
        )
    return _saved(release, output, as_json)


def _bounds(schema: Schema | None, row_norm_bound: float | None, target_bound: float | None) -> dict[str, Any]:
    """Stated bounds, or those of a schema."""
    if schema is None:
        if row_norm_bound is None:
            raise ParameterError("row_norm_bound", "be a positive number", "none", "or give a schema with --schema")
        return {"row_norm_bound": row_norm_bound, "target_bound": target_bound}
    if target_bound is not None:
        raise ParameterError("target_bound", "be left out with a schema, whose target has a range", target_bound)
    return {"target_bound": None, **schema.bounds()} | (
        {} if row_norm_bound is None else {"row_norm_bound": row_norm_bound}
    )


def _saved(release: ProjectionRelease, output: Path, as_json: bool) -> None:
    release.save(output)
    if as_json:
        typer.echo(release.receipt.to_json())
        return
    (rows, width), receipt = release.sketch.shape, release.receipt
    words = f"private with epsilon = {receipt.epsilon:g}, delta = {receipt.delta:g}"
    typer.echo(f"{rows} rows x {width} columns, {words}: {output}")


def say(note: str | None) -> None:
    if note is not None:
        typer.echo(note, err=True)


def _variant(rate: float | None, ptr: bool, noise: float | None, failure: float | None) -> dict[str, Any]:
    """The parameters that only one of the three mechanisms has."""
    if ptr and rate is not None:
        raise ParameterError("--rate", "be left out with --ptr", rate)
    if not ptr and (noise is not None or failure is not None):
        raise ParameterError("--test-noise-std and --failure-probability", "come with --ptr", "no --ptr")
    if ptr:
        return {"test_noise_std": noise, "failure_probability": failure}
    return {} if rate is None else {"rate": rate}


def _mechanism(public: Mapping[str, Any], calibration: Calibration) -> RandomProjection:
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection
    from ndis.mechanisms.ptr import PTRProjection

    kind: Any = RandomProjection
    if "rate" in public:
        kind = PoissonProjection
    elif "test_noise_std" in public:
        kind = PTRProjection
    made: RandomProjection = kind.calibrated(**public, calibration=calibration.value)
    return made


def _print_values(values: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"ndis_version": __version__, **values}, allow_nan=False, indent=2))
    else:
        print_table({key: value for key, value in values.items() if value is not None or key.startswith("ridge_")})


def print_table(values: Mapping[str, Any]) -> None:
    """Name and value on a line, floats in the shortest form that reads back."""
    width = max(map(len, values))
    for key, value in values.items():
        shown = "none" if value is None else value
        typer.echo(f"{key.ljust(width)}  {repr(shown) if isinstance(shown, float) else shown}")
