"""Run `ndis calibrate`, `ndis sketch`, `ndis count` and `ndis describe`: the least noise, and releases of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ndis._files import check_new_folder, write_file
from ndis.cli import options as opt
from ndis.cli.files import read_schema, table_options
from ndis.cli.output import as_json_text, print_values
from ndis.errors import ParameterError, require
from ndis.pages.text import printable

if TYPE_CHECKING:
    from ndis.data import Table
    from ndis.data.schema import Schema
    from ndis.mechanisms.gaussian import GaussianMechanism
    from ndis.mechanisms.projection import SketchMechanism
    from ndis.mechanisms.releases import GaussianRelease, ProjectionRelease


_SHARED = ("epsilon", "delta", "sketch_size", "row_norm_bound", "target_bound", "intercept", "adjacency")
_TEST = ("test_noise_std", "failure_probability")  # numbers of propose-test-release
# The public numbers from which a projection is calibrated.
_PUBLIC = (
    *opt.GUARANTEE,
    opt.option("--sketch-size", "Rows of the sketch.", int, required=True),
    opt.ROW_BOUND,
    opt.option("--target-bound", "Public bound of the target columns, clipped on their own."),
    opt.SCHEMA,
    opt.option("--intercept", "Append a constant column of this value."),
    opt.option("--rate", "Poisson sampling: every record enters with this probability."),
    opt.flag("--ptr", "Propose-test-release: less ridge where a private test allows it."),
    opt.option("--test-noise-std", "With --ptr: noise of the test (chosen unless given)."),
    opt.option("--failure-probability", "With --ptr: share of δ for the test (δ/3 unless given)."),
)


@opt.command(_PUBLIC, opt.JSON, name="projection")
def calibrate_projection(schema: Path | None, as_json: bool, **given: Any) -> None:
    """Print the ridge of a random projection for a budget.

    Example: ndis calibrate projection --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 1
    """
    public = _public(None if schema is None else read_schema(schema), given)
    mechanism = sketch_mechanism(public)
    values: dict[str, Any] = {"mechanism": type(mechanism).__name__}
    values |= {key: mechanism.arguments()[key] for key in public}
    values |= {key: getattr(mechanism, key) for key in ("joint_norm_bound", "ridge", "leverage")}
    values["certified_delta"] = mechanism.profile().certify(mechanism.target_epsilon).upper
    if given["ptr"]:
        values["profitable_eigenvalue"] = mechanism.profitable_eigenvalue  # type: ignore[attr-defined]
    shown = {key: value for key, value in values.items() if value is not None}
    print_values(values if as_json else shown, as_json=as_json)


@opt.command(
    opt.GUARANTEE,
    opt.option("--sensitivity", "Public bound on the change of the query between neighbours.", default=1.0),
    opt.JSON,
    name="gaussian",
)
def calibrate_gaussian(as_json: bool, **public: Any) -> None:
    """Print the noise of a Gaussian mechanism for a budget, exactly.

    Example: ndis calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1
    """
    from ndis.mechanisms.gaussian import GaussianMechanism

    mechanism = GaussianMechanism.calibrated(**public)
    certified = mechanism.profile().certify(mechanism.target_epsilon).upper
    values = {"mechanism": "GaussianMechanism", **public, "noise_std": mechanism.noise_std}
    print_values({**values, "certified_delta": certified}, as_json=as_json)


calibrate = opt.Commands(
    "calibrate",
    commands=[calibrate_projection, calibrate_gaussian],
    help="Find the least noise for a budget, without data.",
)


@opt.command(
    opt.DATA,
    _PUBLIC,
    opt.option("--output -o", "A new folder for sketch.npz and receipt.json.", Path, required=True),
    opt.listed("--target", "Target columns, which get a bound of their own."),
    opt.READING,
)
def sketch(data: Path, output: Path, target: list[str], as_json: bool, **given: Any) -> None:
    """Release a private sketch of a file or folder. Its receipt comes with it.

    DATA is a CSV, Parquet, Arrow or NPY file, or a folder of CSV, Parquet or Arrow. With --schema, rows are taken in
    their own units, and its target is part of the sketch if it is a number. Without it, a cell of text in a CSV file
    makes its whole row zero: leave out the columns that hold text.

    Example: ndis sketch records.csv --header --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 3 -o sketch
    """
    from ndis.data import open_table
    from ndis.ledger import pay

    check_new_folder(output)
    how = table_options(data, given, targets=target)
    mechanism = sketch_mechanism(_public(how.get("schema"), given))
    encoded = how["schema"].feature_names if "schema" in how else None
    width = len(encoded or open_table(data, columns=how["columns"], header=how["header"], progress=False).kinds)
    check_new_folder(output, size=8 * mechanism.sketch_size * (width + 2))  # a target and a constant may come to it

    def make() -> ProjectionRelease:
        return mechanism.release(data, **how, progress=given["progress"])

    release = pay(mechanism, make, ledger=given["ledger"], slot=given["slot"], announced=True)
    release.save(output)
    if as_json:
        click.echo(release.receipt.to_json())
        return
    (rows, width), receipt = release.sketch.shape, release.receipt
    budget = f"epsilon = {receipt.epsilon:g}, delta = {receipt.delta:g}"
    click.echo(f"{rows} rows x {width} columns, private with {budget}: {printable(str(output))}")


def _public(schema: Schema | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public numbers of a projection. A schema states bounds that are not given."""
    public = {name: given[name] for name in _SHARED}
    if schema is None and given["row_norm_bound"] is None:
        raise ParameterError("row_norm_bound", "be a positive number", "none", "or give a schema with --schema")
    if schema is not None:
        if given["target_bound"] is not None:
            rule = "be left out with a schema, whose target has a range"
            raise ParameterError("target_bound", rule, given["target_bound"])
        public |= {key: value for key, value in schema.bounds().items() if given[key] is None}
    require(not given["ptr"] or given["rate"] is None, "--rate", "be left out with --ptr", given["rate"])
    if not given["ptr"] and any(given[name] is not None for name in _TEST):
        raise ParameterError("--test-noise-std and --failure-probability", "come with --ptr", "no --ptr")
    own = _TEST if given["ptr"] else () if given["rate"] is None else ("rate",)
    return public | {name: given[name] for name in own}


def sketch_mechanism(public: Mapping[str, Any], **more: Any) -> SketchMechanism:
    """Calibrate the projection of the kind that has these parameters."""
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection
    from ndis.mechanisms.ptr import PTRProjection

    kind: type[SketchMechanism] = RandomProjection
    if "rate" in public:
        kind = PoissonProjection
    elif "test_noise_std" in public or "failure_probability" in public:
        kind = PTRProjection
    return kind.calibrated(**public, **more)


@opt.command(
    opt.DATA,
    opt.option("--epsilon", "ε of the guarantee. Needed unless a noise is given."),
    opt.option("--delta", "δ of the guarantee.", required=True),
    opt.option("--noise-std", "Standard deviation of the noise, in place of ε."),
    opt.written("A new file for the count and its receipt (.json).", ".json", new=True),
    *opt.READING[1:],
)
def count(data: Path, output: Path | None, header: bool, as_json: bool, **given: Any) -> None:
    """Release the number of records of a file or folder. It has Gaussian noise and a receipt.

    One record more or less moves the number by 1. If a record is exchanged, the number stays, and needs no release.

    Example: ndis count visits.csv --header --epsilon 0.5 --delta 1e-7 -o count.json
    """
    from ndis.data import open_table
    from ndis.data.paths import files_of, kind_of_files
    from ndis.ledger import pay

    mechanism = _mechanism(given["epsilon"], given["noise_std"], given["delta"])
    unnamed = kind_of_files(files_of(data)) == "csv" and not header  # a line is a record, whatever its columns are
    table = open_table(data, columns=["record"] if unnamed else None, header=header, progress=given["progress"])
    require(table.width, "data", "have at least one column", "none")

    def make() -> GaussianRelease:
        made = mechanism.release([_records(table)])
        parameters = {**made.receipt.parameters, "released": "number of records"}
        return replace(made, receipt=replace(made.receipt, parameters=parameters, digest=""))

    release = pay(mechanism, make, ledger=given["ledger"], slot=given["slot"])
    if output is not None:
        release.save(output)
    counted, receipt = float(release.values[0]), release.receipt
    if as_json:
        click.echo(as_json_text({"count": counted, "receipt": receipt.to_dict()}))
        return
    stated = {"epsilon": receipt.epsilon, "delta": receipt.delta}
    print_values({"count": counted, "noise_std": mechanism.noise_std, **stated}, as_json=False)


def _mechanism(epsilon: float | None, noise_std: float | None, delta: float) -> GaussianMechanism:
    """Make the mechanism of a budget, or that of a noise."""
    from ndis.mechanisms.gaussian import GaussianMechanism

    opt.need_one("be one of --epsilon and --noise-std", epsilon, noise_std)
    if noise_std is not None:
        return GaussianMechanism.with_noise(noise_std=noise_std, delta=delta, sensitivity=1.0)
    return GaussianMechanism.calibrated(epsilon=epsilon or 0.0, delta=delta, sensitivity=1.0)


def _records(table: Table) -> int:
    """Count the records. **Private**: one record, whatever its cells are, adds 1."""
    return int(table.reduced(lambda opened: sum(len(cells) for (cells,) in opened.cells(((0, False),))), sum))


@opt.command(
    opt.DATA,
    opt.NEEDED_SCHEMA,
    opt.GUARANTEE,
    opt.option("--groups", "Columns to group by, crossed by a colon: ward,ward:sex. By default each category.", str),
    click.Option(["--quantiles/--no-quantiles"], default=True, help="Release histograms of the numbers."),
    click.Option(["--matrix/--no-matrix"], default=True, help="Release what correlations and regressions need."),
    opt.written("A new file for the report (.html).", ".html", new=True),
    opt.option("--title", "The title of the report.", str, default="A table in numbers"),
    opt.READING,
)
def describe(data: Path, groups: str | None, output: Path | None, title: str, as_json: bool, **given: Any) -> None:
    """Describe a file or folder with one release, as a report.

    It has counts, means, groups, correlations and quantiles, with intervals.

    DATA is a CSV, Parquet, Arrow or NPY file, or a folder of CSV, Parquet or Arrow. Everything comes from one release
    with one guarantee.

    Example: ndis describe visits.csv --header --schema visits.toml --epsilon 1 --delta 1e-6 -o report.html
    """
    from ndis.describing import describe as make

    how = table_options(data, given)
    crossed = None if groups is None else [tuple(one.split(":")) for one in groups.split(",") if one]
    made = make(data, **{**given, **how}, groups=crossed)
    if output is not None:
        write_file(output, made.to_html(title=title).encode(), new=True)
    if as_json:
        keys = ("name", "estimate", "standard_error", "low", "high")
        rows = {one.title: zip(one.index, one.rows(), strict=True) for one in made.tables()}
        tables = {title: [dict(zip(keys, (list(n), *r), strict=True)) for n, r in each] for title, each in rows.items()}
        click.echo(as_json_text({"tables": tables, "receipt": made.receipt.to_dict()}))
    else:
        click.echo("\n\n".join(map(repr, made.tables())))
