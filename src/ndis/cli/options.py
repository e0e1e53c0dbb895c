"""Declare commands, and the options that several of them share.

The name of a parameter is the name that the library uses for the same argument. So an error of the library can be
reported under the option that the user typed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getdoc
from pathlib import Path
from typing import Any

import click

__all__ = [
    "ADJACENCY", "BUDGET", "CERTIFY", "DATA", "HEADER", "JSON", "NULL_JSON", "READING", "ROW_BOUND", "SCHEMA",
    "Command", "Commands", "argument", "choice", "command", "flag", "option",
]  # fmt: skip

Params = Sequence["click.Parameter | Params"]


class Command(click.Command):
    """A command must print its help if no word follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words. Two numbers for one option may come as one word, 0,5."""
        pairs = {name for param in self.params if param.nargs == 2 for name in param.opts}
        words: list[str] = []
        for word in args or ["--help"]:
            name, given, value = word.partition("=")
            if given and name in pairs:
                words += [name, *value.split(",")]
            else:
                words += word.split(",") if words and words[-1] in pairs and word.count(",") == 1 else [word]
        unread = super().parse_args(ctx, words)
        names = [str(param.name) for param in self.params if param.expose_value]
        ctx.params = {name: ctx.params[name] for name in names}  # in the order of the help
        return unread


class Commands(click.Group):
    """A group of commands must print its help if no word follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words up to the name of a command."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were given."""
        return list(self.commands)


def command(*params: click.Parameter | Params, name: str | None = None) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function. Its docstring is the help."""

    def flat(items: Params) -> list[click.Parameter]:
        return [one for item in items for one in ([item] if isinstance(item, click.Parameter) else flat(item))]

    def make(function: Callable[..., None]) -> Command:
        settings = {"show_default": True, "max_content_width": 120}
        return Command(
            name or function.__name__,
            params=flat(params),
            callback=function,
            help=getdoc(function),
            context_settings=settings,
        )

    return make


def option(names: str, help: str, kind: Any = float, **more: Any) -> click.Option:
    """Declare an option by its names, such as "--output -o"; a name without dashes is that of the parameter."""
    return click.Option(names.split(), type=kind, help=help, **more)


def flag(names: str, help: str) -> click.Option:
    """Declare an option that takes no value."""
    return click.Option(names.split(), is_flag=True, help=help)


def choice(names: str, help: str, values: str, default: str | None = None) -> click.Option:
    """Declare an option that takes one of some words."""
    return option(names, help, click.Choice(values.split()), default=default)


def argument(name: str, shown: str, *, required: bool = True) -> click.Argument:
    """Declare a file or folder that is named without an option."""
    return click.Argument([name], type=Path, metavar=shown if required else f"[{shown}]", required=required)


def _recorded(context: click.Context, param: click.Parameter, value: str | None) -> None:
    """Record the value with every reservation of the command."""
    if value is not None:
        from ndis.ledger import on_behalf

        context.with_resource(on_behalf(**{str(param.name): value}))


DATA = argument("data", "DATA")
BUDGET = (
    option("--epsilon", "ε of the guarantee.", required=True),
    option("--delta", "δ of the guarantee.", required=True),
)
ROW_BOUND = option(
    "--row-norm-bound", "Public bound of the norm of a row; longer rows are clipped. Needed unless a schema is given."
)
ADJACENCY = choice("--adjacency", "Which data sets are neighbours.", "add-remove replace-one", "add-remove")
HEADER = flag("--header", "The first line of every CSV file holds column names, which are public.")
SCHEMA = option("--schema", "TOML file with public ranges and categories; see 'ndis schema'.", Path, metavar="FILE")
CERTIFY = flag("--certify", "Rigorous bounds, by ball arithmetic from the exact inputs.")
JSON = flag("--json as_json", "Print JSON.")
NULL_JSON = flag("--json as_json", "Print JSON; null stands for what does not exist.")
READING = (
    option(
        "--columns",
        "Feature columns, by name or number (all but the targets). For CSV without --header: the names of all columns, "
        "in order.",
        str,
        multiple=True,
        metavar="NAMES",
    ),
    HEADER,
    option("--ledger", "The budget ledger that pays; see 'ndis ledger'.", Path),
    option("--slot", "The slot of the ledger's plan.", str),
    option("--by", "Who asks, for the record of the ledger.", str, expose_value=False, callback=_recorded),
    option("--purpose", "What for, for the record of the ledger.", str, expose_value=False, callback=_recorded),
    click.Option(["--progress/--no-progress"], default=None, help="A progress bar (on a terminal unless said)."),
    NULL_JSON,
)
