"""Run `ndis count`: how many records a file has, with noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ndis.cli.options import DATA, READING, command, need_one, option, written
from ndis.cli.output import as_json_text, print_values
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data import Table
    from ndis.mechanisms.gaussian import GaussianMechanism
    from ndis.mechanisms.releases import GaussianRelease


@command(
    DATA,
    option("--epsilon", "ε of the guarantee. Needed unless a noise is given."),
    option("--delta", "δ of the guarantee.", required=True),
    option("--noise-std", "Standard deviation of the noise, in place of ε."),
    written("A new file for the count and its receipt (.json).", ".json", new=True),
    *READING[1:],
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
    if not table.width:
        raise ParameterError("data", "have at least one column", "none")

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

    need_one("be one of --epsilon and --noise-std", epsilon, noise_std)
    if noise_std is not None:
        return GaussianMechanism.with_noise(noise_std=noise_std, delta=delta, sensitivity=1.0)
    return GaussianMechanism.calibrated(epsilon=epsilon or 0.0, delta=delta, sensitivity=1.0)


def _records(table: Table) -> int:
    """Count the records. **Private**: one record, whatever its cells are, adds 1."""
    return int(table.reduced(lambda opened: sum(len(cells) for (cells,) in opened.cells(((0, False),))), sum))
