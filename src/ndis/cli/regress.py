"""`ndis regress`: private regression of a file or folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis._files import check_file, write_file
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
    LedgerOption,
    NullJson,
    Progress,
    RowBound,
    SchemaOption,
    Slot,
)
from ndis.cli.output import as_json_text, print_table, say
from ndis.cli.source import readable_data, reading, schema_for
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema import Schema

__all__ = ["register"]


class Method(StrEnum):
    """How to fit."""

    SKETCH = "sketch"
    ROUNDS = "rounds"


SizeOrDefault = Annotated[
    int | None, typer.Option("--sketch-size", help="Rows of the sketch (100 for every column unless given).")
]
NeededTargetBound = Annotated[
    float | None,
    typer.Option(
        "--target-bound",
        help="Public bound of the absolute target; larger ones are clipped. Needed unless a schema is given.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", help="The target column, by name or number; left out if a schema has a [target]."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(regress)


def regress(
    data: Data,
    epsilon: Epsilon,
    delta: Delta,
    target: Target = None,
    row_norm_bound: RowBound = None,
    target_bound: NeededTargetBound = None,
    schema: SchemaOption = None,
    columns: Columns = None,
    header: Header = False,
    method: Annotated[
        Method, typer.Option("--method", help="One sketch, or rounds: less error, and intervals.")
    ] = Method.ROUNDS,
    alpha: Annotated[float, typer.Option("--alpha", help="Penalty on squared coefficients; 0 is least squares.")] = 0.0,
    fit_intercept: Annotated[bool, typer.Option("--intercept/--no-intercept", help="Learn an intercept.")] = True,
    sketch_size: SizeOrDefault = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
    calibration: CalibrationOption = Calibration.EXACT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new file for coefficients and receipt, as JSON.")
    ] = None,
    ledger: LedgerOption = None,
    slot: Slot = None,
    progress: Progress = None,
    as_json: NullJson = False,
) -> None:
    """Private linear regression of a file or folder, in rounds (with intervals) or from one sketch.

    With --schema, rows are taken in units as they are, and coefficients are in these units.

    Example: ndis regress records.csv --header --target y --epsilon 1 --delta 1e-6 --row-norm-bound 3 --target-bound 2
    """
    if output is not None:
        check_file(output, new=True)
    stated, names = schema_for(schema, data, target=target, columns=columns, header=header)
    if stated is not None and stated.target is None:
        remedy = "write [target] with name, low and high into the file, or name one of its columns with --target"
        raise ParameterError("schema", "have a target", "none", remedy)
    public: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "row_norm_bound": row_norm_bound,
        "target_bound": target_bound,
        "fit_intercept": fit_intercept,
        "adjacency": adjacency.value,
        "schema": stated,
        "ledger": ledger,
        "slot": slot,
    }
    model = _model(method, public, {"alpha": alpha, "sketch_size": sketch_size, "calibration": calibration.value})
    learned: Any
    if stated is not None:
        with readable_data(data):
            model.fit_data(data, target=target, columns=names, header=header, progress=progress)
        target, learned = stated.target_name, model.feature_names_in_
    elif target is None:
        raise ParameterError("--target", "name the target column", "none", "or give a schema with a target")
    else:
        with reading(data, columns=columns, header=header) as records:
            say(records.note)
            chosen = records.columns([target])
            if chosen is None or len(chosen) != 1:
                raise ParameterError("--target", "name one column", repr(target))
            features = records.features(columns) or records.all_but(chosen[0])
            model.fit_data(records.rows, target=chosen[0], columns=features, header=header, progress=progress)
            learned = getattr(model, "feature_names_in_", features)
    coefficients = dict(zip(map(str, learned), model.coef_.tolist(), strict=True))
    found: dict[str, Any] = {
        "target": target,
        "prediction": {"coefficients": coefficients, "intercept": model.intercept_},
        **({"penalty": model.penalty_} if method is Method.SKETCH else _inference(model)),
        **_clipping(stated, target_bound),
        **({} if stated is None else {"schema": stated.to_toml()}),
        "receipt": model.receipt_.to_dict(),
    }
    text = as_json_text(found)
    if output is not None:
        write_file(output, text.encode() + b"\n", new=True)
    if as_json:
        typer.echo(text)
    elif method is Method.ROUNDS:
        typer.echo(repr(model.summary()))
    else:
        others = {"(intercept)": model.intercept_, "(penalty)": model.penalty_}
        print_table(coefficients | {_unlike(name, coefficients): value for name, value in others.items()})


def _model(method: Method, public: dict[str, Any], sketch: dict[str, Any]) -> Any:
    from ndis.learn import PrivateLinearRegression, PrivateRidge

    if method is Method.SKETCH:
        return PrivateRidge(**public, **sketch)
    for name, plain in (("alpha", 0.0), ("sketch_size", None), ("calibration", "exact")):
        if sketch[name] != plain:
            raise ParameterError(name, "be left out with --method rounds", sketch[name])
    return PrivateLinearRegression(**public)


def _inference(model: Any) -> dict[str, Any]:
    """The estimates without shrinkage with their errors and intervals; null where the noise hides them."""
    table = model.summary()
    columns = {
        "estimate": table.estimate.tolist(),
        "standard_error": table.standard_error.tolist(),
        "interval_low": table.interval[:, 0].tolist(),
        "interval_high": table.interval[:, 1].tolist(),
    }
    rows = [
        {key: values[i] if math.isfinite(table.standard_error[i]) else None for key, values in columns.items()}
        for i in range(len(table.names))
    ]
    features = model.n_features_in_
    intercept = rows[features] if len(rows) > features else None
    return {
        "inference": {
            "level": table.level,
            "coefficients": dict(zip(table.names[:features], rows, strict=False)),
            "intercept": intercept,
        },
        **({"baseline": model.baseline_} if model.baseline_ else {}),
        "records": model.records_,
        "residual_std": model.residual_std_,
        "notes": list(table.notes),
    }


def _clipping(schema: Schema | None, target_bound: float | None) -> dict[str, Any]:
    """Where the target was clipped, in its own units."""
    if schema is None or schema.target is None:
        return {"target_bound": target_bound}
    ends = schema.target.to_dict()
    return {"target_range": [ends["low"], ends["high"]]}


def _unlike(name: str, taken: Mapping[str, Any]) -> str:
    """The name, in more brackets where a column has it."""
    while name in taken:
        name = f"({name})"
    return name
