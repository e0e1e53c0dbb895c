"""The command `ndis`: parse, call the library, print. Every number it prints can be had from Python in one line.

Exit status: 0 fine, 1 a claim refuted (`ndis audit`), 2 bad input, 3 a number out of reach of the accuracy promised;
2 and 3 with one line on stderr.
"""

from __future__ import annotations

import typer

from ndis import __version__
from ndis.cli import audit, dpsgd, ledger, projection, regress, schema, spectrum
from ndis.cli.commands import same_behaviour
from ndis.cli.errors import OneLineErrors

__all__ = ["app", "main"]

app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would print data
    help="Exactly how private is an algorithm with Gaussian output?",
)
spectrum.register(app)
projection.register(app)
regress.register(app)
audit.register(app)
dpsgd.register(app)
schema.register(app)
ledger.register(app)
same_behaviour(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ndis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version and leave."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point of the command."""
    app(prog_name="ndis")
