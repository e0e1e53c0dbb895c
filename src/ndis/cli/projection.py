"""`ndis calibrate projection`, `ndis calibrate gaussian` and `ndis sketch`: the least noise, and sketches of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis._files import check_new_folder
from ndis.cli.options import (
    Adjacency,
    AdjacencyOption,
    Calibration,
    CalibrationOption,
    Columns,
    Data,
    Delta,
    Epsilon,
    Header,
    Json,
    LedgerOption,
    NullJson,
    Progress,
    RowBound,
    SchemaOption,
    Slot,
)
from ndis.cli.output import print_values, say
from ndis.cli.source import read_schema, readable_data, reading, schema_for
from ndis.errors import BudgetError, ParameterError

if TYPE_CHECKING:
    from ndis.data.schema import Schema
    from ndis.mechanisms.projection import SketchMechanism
    from ndis.mechanisms.release import ProjectionRelease

__all__ = ["register", "sketch_mechanism"]

Size = Annotated[int, typer.Option("--sketch-size", help="Rows of the sketch.")]
TargetBound = Annotated[
    float | None, typer.Option("--target-bound", help="Public bound of the target columns, clipped on their own.")
]
Intercept = Annotated[float | None, typer.Option("--intercept", help="Append a constant column of this value.")]
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
Targets = Annotated[
    list[str] | None, typer.Option("--target", metavar="NAMES", help="Target columns, which get a bound of their own.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="The least noise for a budget, from public numbers alone.")
    group.command("projection")(calibrate_projection)
    group.command("gaussian")(calibrate_gaussian)
    app.add_typer(group, name="calibrate")
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
    as_json: NullJson = False,
) -> None:
    """The ridge of a random projection for a budget, beside those of other analyses.

    Example: ndis calibrate projection --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 1
    """
    bounds = _bounds(read_schema(schema), row_norm_bound, target_bound, intercept, adjacency)
    public = {"epsilon": epsilon, "delta": delta, "sketch_size": sketch_size, **bounds}
    variant = _variant(rate, ptr, test_noise_std, failure_probability)
    mechanism = sketch_mechanism(public | variant, calibration=calibration.value)
    values: dict[str, Any] = {"mechanism": type(mechanism).__name__, "calibration": calibration.value}
    values |= public | {key: getattr(mechanism, key) for key in variant}
    values |= {
        "joint_norm_bound": mechanism.joint_norm_bound,
        "ridge": mechanism.ridge,
        "leverage": mechanism.leverage,
        "certified_delta": mechanism.profile().certify(mechanism.target_epsilon).upper,
    }
    if ptr:
        values["profitable_eigenvalue"] = mechanism.profitable_eigenvalue  # type: ignore[attr-defined]
    for other in Calibration:
        if other is not calibration:
            try:
                values[f"ridge_{other.value}"] = sketch_mechanism(public | variant, calibration=other.value).ridge
            except (BudgetError, ParameterError):  # no such analysis of this mechanism, or none for this budget
                values[f"ridge_{other.value}"] = None
    shown = {key: value for key, value in values.items() if value is not None or key.startswith("ridge_")}
    print_values(values if as_json else shown, as_json=as_json)


def calibrate_gaussian(
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Annotated[
        float, typer.Option("--sensitivity", help="Public bound on the change of the query between neighbours.")
    ] = 1.0,
    adjacency: Annotated[
        Adjacency, typer.Option("--adjacency", help="The neighbours over which the sensitivity was taken.")
    ] = Adjacency.ADD_REMOVE,
    as_json: Json = False,
) -> None:
    """The noise of a Gaussian mechanism for a budget, exactly.

    Example: ndis calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1
    """
    from ndis.mechanisms.gaussian import GaussianMechanism

    found = GaussianMechanism.calibrated(
        epsilon=epsilon, delta=delta, sensitivity=sensitivity, adjacency=adjacency.value
    )
    values: dict[str, Any] = {"mechanism": "GaussianMechanism", "epsilon": found.target_epsilon}
    values |= {"delta": found.target_delta, "sensitivity": found.sensitivity, "adjacency": found.adjacency}
    values["noise_std"] = found.noise_std
    values["certified_delta"] = found.profile().certify(found.target_epsilon).upper
    print_values(values, as_json=as_json)


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
    as_json: NullJson = False,
) -> None:
    """Release a private sketch of a file or folder, with its receipt.

    With --schema, rows are taken in units as they are, and its target is part of the sketch if it is a number. Without
    it, a cell of text in a CSV file makes its whole row zero: leave out the columns that hold text.

    Example: ndis sketch records.csv --header --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 3 -o sketch
    """
    check_new_folder(output)
    if schema is not None and len(target or []) > 1:
        raise ParameterError("--target", "be one column with a schema", ", ".join(target or []))
    named = target[0] if target else None
    stated, names = schema_for(schema, data, target=named, columns=columns, header=header)
    bounds = _bounds(stated, row_norm_bound, target_bound, intercept, adjacency)
    public = {"epsilon": epsilon, "delta": delta, "sketch_size": sketch_size, **bounds}
    variant = _variant(rate, ptr, test_noise_std, failure_probability)
    mechanism = sketch_mechanism(public | variant, calibration=calibration.value)
    how: dict[str, Any] = {"header": header, "progress": progress, "ledger": ledger, "slot": slot}
    if stated is not None:
        with readable_data(data):
            release = mechanism.release(data, schema=stated, columns=names, **how)
    else:
        with reading(data, columns=columns, header=header) as records:
            say(records.note)
            how |= {"columns": records.features(columns), "targets": records.columns(target)}
            release = mechanism.release(records.rows, **how)
    _save(release, output, as_json)


def _bounds(
    schema: Schema | None,
    row_norm_bound: float | None,
    target_bound: float | None,
    intercept: float | None,
    adjacency: Adjacency,
) -> dict[str, Any]:
    """The public bounds of a row, as stated or from a schema."""
    rest = {"intercept": intercept, "adjacency": adjacency.value}
    if schema is None:
        if row_norm_bound is None:
            raise ParameterError("row_norm_bound", "be a positive number", "none", "or give a schema with --schema")
        return {"row_norm_bound": row_norm_bound, "target_bound": target_bound, **rest}
    if target_bound is not None:
        raise ParameterError("target_bound", "be left out with a schema, whose target has a range", target_bound)
    stated = {} if row_norm_bound is None else {"row_norm_bound": row_norm_bound}
    return {"target_bound": None, **schema.bounds(), **stated, **rest}


def _save(release: ProjectionRelease, output: Path, as_json: bool) -> None:
    release.save(output)
    if as_json:
        typer.echo(release.receipt.to_json())
        return
    (rows, width), receipt = release.sketch.shape, release.receipt
    words = f"private with epsilon = {receipt.epsilon:g}, delta = {receipt.delta:g}"
    typer.echo(f"{rows} rows x {width} columns, {words}: {output}")


def _variant(rate: float | None, ptr: bool, noise: float | None, failure: float | None) -> dict[str, Any]:
    """The parameters that only one of the three mechanisms has."""
    if ptr and rate is not None:
        raise ParameterError("--rate", "be left out with --ptr", rate)
    if not ptr and (noise is not None or failure is not None):
        raise ParameterError("--test-noise-std and --failure-probability", "come with --ptr", "no --ptr")
    if ptr:
        return {"test_noise_std": noise, "failure_probability": failure}
    return {} if rate is None else {"rate": rate}


def sketch_mechanism(public: Mapping[str, Any], **more: Any) -> SketchMechanism:
    """The calibrated projection of the kind that has these parameters."""
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection
    from ndis.mechanisms.ptr import PTRProjection

    kind: type[SketchMechanism] = RandomProjection
    if "rate" in public:
        kind = PoissonProjection
    elif "test_noise_std" in public or "failure_probability" in public:
        kind = PTRProjection
    return kind.calibrated(**public, **more)
