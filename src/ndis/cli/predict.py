"""Run `ndis predict`: apply a saved fit to a file, and `ndis logistic`: make one for two classes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from ndis._files import write_file
from ndis.cli.files import table_options
from ndis.cli.options import DATA, GUARANTEE, HEADER, PAGES, READING, argument, command, option, written
from ndis.cli.output import as_json_text, write_answer

__all__ = ["logistic", "predict"]


@command(
    argument("fit", "FIT"),
    DATA,
    HEADER,
    written("A new file for the predictions (.csv); they are printed unless given.", ".csv", new=True),
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
    text = table.getvalue()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_file(output, text.encode(), new=True)


@command(
    DATA,
    option("--schema", "TOML file with public ranges, categories and a [target] of two classes.", Path, required=True),
    GUARANTEE,
    written("A new file for coefficients and receipt (.json), or a page (.html).", *PAGES, new=True),
    READING,
)
def logistic(data: Path, output: Path | None, as_json: bool, progress: bool | None, **given: Any) -> None:
    """Fit a private logistic regression of a file or folder. Coefficients have intervals.

    Example: ndis logistic visits.csv --header --schema visits.toml --epsilon 1 --delta 1e-6 -o fit.json
    """
    from ndis.learn import LinearModel, PrivateLogisticRegression

    how = table_options(data, given)
    reading = {name: how[name] for name in ("columns", "header")}
    public = {name: value for name, value in {**given, **how}.items() if name not in reading}
    model = PrivateLogisticRegression(**public, intervals=True).fit_data(data, **reading, progress=progress)
    write_answer(output, saved := LinearModel.of(model).to_dict(), model.to_html)
    click.echo(as_json_text(saved) if as_json else repr(model.summary()))
