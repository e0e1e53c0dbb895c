"""Run `ndis calibrate projection`, `ndis calibrate gaussian` and `ndis sketch`: the least noise, sketches of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ndis._files import check_new_folder
from ndis.cli.files import read_schema, table_options
from ndis.cli.options import DATA, GUARANTEE, JSON, READING, ROW_BOUND, SCHEMA, Commands, command, flag, listed, option
from ndis.cli.output import print_values
from ndis.errors import ParameterError
from ndis.pages.text import printable

if TYPE_CHECKING:
    from ndis.data.schema import Schema
    from ndis.mechanisms.projection import SketchMechanism
    from ndis.mechanisms.releases import ProjectionRelease

_SHARED = ("epsilon", "delta", "sketch_size", "row_norm_bound", "target_bound", "intercept", "adjacency")
_TEST = ("test_noise_std", "failure_probability")  # numbers of propose-test-release
# The public numbers from which a projection is calibrated.
_PUBLIC = (
    *GUARANTEE,
    option("--sketch-size", "Rows of the sketch.", int, required=True),
    ROW_BOUND,
    option("--target-bound", "Public bound of the target columns, clipped on their own."),
    SCHEMA,
    option("--intercept", "Append a constant column of this value."),
    option("--rate", "Poisson sampling: every record enters with this probability."),
    flag("--ptr", "Propose-test-release: less ridge where a private test allows it."),
    option("--test-noise-std", "With --ptr: noise of the test (chosen unless given)."),
    option("--failure-probability", "With --ptr: share of δ for the test (δ/3 unless given)."),
)


@command(_PUBLIC, JSON, name="projection")
def calibrate_projection(schema: Path | None, as_json: bool, **given: Any) -> None:
    """Print the ridge of a random projection for a budget.

    Example: ndis calibrate projection --epsilon 1 --delta 1e-6 --sketch-size 200 --row-norm-bound 1
    """
    public = _public(read_schema(schema), given)
    mechanism = sketch_mechanism(public)
    values: dict[str, Any] = {"mechanism": type(mechanism).__name__}
    values |= {key: mechanism.arguments()[key] for key in public}
    values |= {key: getattr(mechanism, key) for key in ("joint_norm_bound", "ridge", "leverage")}
    values["certified_delta"] = mechanism.profile().certify(mechanism.target_epsilon).upper
    if given["ptr"]:
        values["profitable_eigenvalue"] = mechanism.profitable_eigenvalue  # type: ignore[attr-defined]
    shown = {key: value for key, value in values.items() if value is not None}
    print_values(values if as_json else shown, as_json=as_json)


@command(
    GUARANTEE,
    option("--sensitivity", "Public bound on the change of the query between neighbours.", default=1.0),
    JSON,
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


calibrate = Commands(
    "calibrate",
    commands=[calibrate_projection, calibrate_gaussian],
    help="Find the least noise for a budget, without data.",
)


@command(
    DATA,
    _PUBLIC,
    option("--output -o", "A new folder for sketch.npz and receipt.json.", Path, required=True),
    listed("--target", "Target columns, which get a bound of their own."),
    READING,
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
    if given["ptr"] and given["rate"] is not None:
        raise ParameterError("--rate", "be left out with --ptr", given["rate"])
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
