"""The command `ndis`: parse, call the library, print. Every number it prints can be had from Python in one line.

Exit status: 0 fine, 1 a claim refuted (`ndis audit`), 2 bad input, 3 a number out of reach of the accuracy promised;
2 and 3 with one line on stderr.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer

from ndis import __version__
from ndis.cli.commands import OneLineErrors, same_behaviour

__all__ = ["app", "main"]

# The module of each command. Python imports it when somebody asks for the command.
_HOMES = {
    "delta": "spectrum",
    "epsilon": "spectrum",
    "curve": "spectrum",
    "sketch": "projection",
    "regress": "regress",
    "audit": "audit",
    "dpsgd": "dpsgd",
    "calibrate": "projection",
    "schema": "schema",
    "ledger": "ledger",
}


class _Commands(OneLineErrors):
    """The commands, each loaded from its module when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(_HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name. If there is none, all are loaded, so that a similar name can be suggested."""
        for name in [cmd_name] if cmd_name in _HOMES else _HOMES:
            if name not in self.commands:
                part = typer.Typer()
                import_module(f"ndis.cli.{_HOMES[name]}").register(part)
                same_behaviour(part)
                self.commands.update(typer.main.get_group(part).commands)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would print data
    help="Exactly how private is an algorithm with Gaussian output?",
)


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
