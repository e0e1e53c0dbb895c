"""Options that several commands share, and the kinds of words that they take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
    "LedgerOption",
    "NullJson",
    "Progress",
    "RowBound",
    "SchemaOption",
    "Slot",
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
RowBound = Annotated[
    float | None,
    typer.Option(
        "--row-norm-bound",
        help="Public bound of the norm of a row; longer rows are clipped. Needed unless a schema is given.",
    ),
]
AdjacencyOption = Annotated[Adjacency, typer.Option("--adjacency", help="Which data sets are neighbours.")]
CalibrationOption = Annotated[
    Calibration, typer.Option("--calibration", help="How the ridge is found; only exact is the smallest.")
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
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="TOML file with public ranges and categories; see 'ndis schema'."),
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="The budget ledger that pays; see 'ndis ledger'.")]
Slot = Annotated[str | None, typer.Option("--slot", help="The slot of the ledger's plan.")]
Progress = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="A progress bar (on a terminal unless said).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NullJson = Annotated[bool, typer.Option("--json", help="Print JSON; null stands for what does not exist.")]
