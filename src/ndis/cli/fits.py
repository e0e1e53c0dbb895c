"""Run `ndis regress` and `ndis logistic`: private fits of a file or folder, and `ndis predict`: apply a saved fit."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import click

from ndis.cli import options as opt
from ndis.cli.files import table_options
from ndis.cli.output import as_json_text, print_values, write_answer, write_or_print
from ndis.errors import ParameterError, require

_PUBLIC = ("epsilon", "delta", "row_norm_bound", "target_bound", "adjacency", "schema", "ledger", "slot")


@opt.command(
    opt.DATA,
    opt.GUARANTEE,
    opt.option("--target", "The target column, by name or number; a schema may have a [target].", str, metavar="NAME"),
    opt.ROW_BOUND,
    opt.option("--target-bound", "Public bound of the absolute target; larger ones are clipped. A schema has one."),
    opt.SCHEMA,
    opt.choice("--method", "One sketch, or rounds: less error, and intervals.", "sketch rounds", "rounds"),
    opt.option("--alpha", "Penalty on squared coefficients; 0 is least squares.", default=0.0),
    click.Option(["--intercept/--no-intercept"], default=True, help="Learn an intercept."),
    opt.option("--sketch-size", "Rows of the sketch (100 for every column unless given).", int),
    opt.written("A new file for coefficients and receipt (.json), or a page of rounds (.html).", *opt.PAGES, new=True),
    opt.READING,
)
def regress(data: Path, target: str | None, method: str, output: Path | None, as_json: bool, **given: Any) -> None:
    """Fit a private linear regression of a file or folder. It works in rounds, with intervals, or from one sketch.

    DATA is a CSV, Parquet, Arrow or NPY file, or a folder of CSV, Parquet or Arrow. With --schema, rows are taken in
    their own units, and coefficients are in these units.

    Example: ndis regress records.csv --header --target y --epsilon 1 --delta 1e-6 --row-norm-bound 3 --target-bound 2
    """
    if target is None and given["schema"] is None:
        raise ParameterError("--target", "name the target column", "none", "or give a schema with a target")
    if method == "sketch" and output is not None and output.suffix.lower() == ".html":
        raise ParameterError("output", "end in .json", repr(output.suffix), "only --method rounds has a page")
    how = table_options(data, given, targets=target or ())
    stated = how.pop("schema", None)
    if stated is not None and stated.target is None:
        remedy = "write [target] with name, low and high into the file, or name one of its columns with --target"
        raise ParameterError("schema", "have a target", "none", remedy)
    column, *more = how.pop("targets", None) or [target]
    require(not more, "--target", "name one column", repr(target))
    model = _model(method, {**given, "schema": stated})
    model.fit_data(data, target=column, **how, progress=given["progress"])
    others = [i for i in range(model.n_features_in_ + 1) if i != column]
    learned = getattr(model, "feature_names_in_", how["columns"] or others)
    coefficients = dict(zip(map(str, learned), model.coef_.tolist(), strict=True))
    clipping: dict[str, Any] = {"target_bound": given["target_bound"]}
    if stated is not None:
        ends = stated.target.to_dict()
        clipping = {"target_range": [ends["low"], ends["high"]]}
    values = {
        "target": target if stated is None else stated.target_name,
        "prediction": {"coefficients": coefficients, "intercept": model.intercept_},
        **({"penalty": model.penalty_} if method == "sketch" else _inference(model)),
        **clipping,
        **({} if stated is None else {"schema": stated.to_toml()}),
        "receipt": model.receipt_.to_dict(),
    }
    write_answer(output, values, lambda: str(model.to_html()))
    if as_json:
        click.echo(as_json_text(values))
    elif method == "rounds":
        click.echo(repr(model.summary()))
    else:
        fixed = {"(intercept)": model.intercept_, "(penalty)": model.penalty_}
        named = {f"({name})" if name in coefficients else name: value for name, value in fixed.items()}
        print_values(coefficients | named, as_json=False)


def _model(method: str, given: dict[str, Any]) -> Any:
    """Make the estimator of a method; options of the other method are refused."""
    from ndis.learn import PrivateLinearRegression, PrivateRidge

    public = {name: given[name] for name in _PUBLIC} | {"fit_intercept": given["intercept"]}
    if method == "sketch":
        return PrivateRidge(**public, alpha=given["alpha"], sketch_size=given["sketch_size"])
    for name, default in (("alpha", 0.0), ("sketch_size", None)):
        require(given[name] == default, name, "be left out with --method rounds", given[name])
    return PrivateLinearRegression(**public)


def _inference(model: Any) -> dict[str, Any]:
    """Return the estimates without shrinkage with their errors and intervals; null where the noise hides them."""
    table, keys = model.summary(), ("estimate", "standard_error", "interval_low", "interval_high")
    columns = table.estimate, table.standard_error, *table.interval.T
    rows = [
        {key: x if math.isfinite(row[1]) else None for key, x in zip(keys, row, strict=True)}
        for row in zip(*(each.tolist() for each in columns), strict=True)
    ]
    features = model.n_features_in_
    return {
        "inference": {
            "level": table.level,
            "coefficients": dict(zip(table.names[:features], rows, strict=False)),
            "intercept": rows[features] if len(rows) > features else None,
        },
        **({"baseline": model.baseline_} if model.baseline_ else {}),
        "records": model.records_,
        "residual_std": model.residual_std_,
        "notes": list(table.notes),
    }


@opt.command(
    opt.argument("fit", "FIT"),
    opt.DATA,
    opt.HEADER,
    opt.written("A new file for the predictions (.csv); they are printed unless given.", ".csv", new=True),
)
def predict(fit: Path, data: Path, header: bool, output: Path | None) -> None:
    """Predict every record of a file with a saved fit. Predictions of private records are private: do not publish them.

    FIT is what `ndis regress --schema` or `ndis logistic` wrote, or `model.save` in Python.

    Example: ndis predict fit.json new.csv --header -o predicted.csv
    """
    from ndis.learn import LinearModel

    model = LinearModel.load(fit)
    values = model.predict(data, header=header, progress=False)
    table = io.StringIO()
    predicted = ("" if v is None or v != v else str(v) for v in values)
    csv.writer(table, lineterminator="\n").writerows([each] for each in (str(model.schema.target_name), *predicted))
    write_or_print(output, table.getvalue())


@opt.command(
    opt.DATA,
    opt.NEEDED_SCHEMA,
    opt.GUARANTEE,
    opt.written("A new file for coefficients and receipt (.json), or a page (.html).", *opt.PAGES, new=True),
    opt.READING,
)
def logistic(data: Path, output: Path | None, as_json: bool, progress: bool | None, **given: Any) -> None:
    """Fit a private logistic regression of a file or folder. Coefficients have intervals.

    The schema has a [target] of two classes.

    Example: ndis logistic visits.csv --header --schema visits.toml --epsilon 1 --delta 1e-6 -o fit.json
    """
    from ndis.learn import LinearModel, PrivateLogisticRegression

    how = table_options(data, given)
    reading = {name: how[name] for name in ("columns", "header")}
    public = {name: value for name, value in {**given, **how}.items() if name not in reading}
    model = PrivateLogisticRegression(**public, intervals=True).fit_data(data, **reading, progress=progress)
    write_answer(output, saved := LinearModel.of(model).to_dict(), model.to_html)
    click.echo(as_json_text(saved) if as_json else repr(model.summary()))
