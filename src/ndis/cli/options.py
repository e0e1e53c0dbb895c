"""Declare and run commands, and the options that several of them share.

The name of a parameter is the name that the library uses for the same argument. So an error of the library can be
reported under the option that the user typed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from inspect import getdoc
from pathlib import Path
from typing import Any, NoReturn

import click

from ndis._files import check_file
from ndis.cli.output import place_of
from ndis.errors import NdisError, ParameterError, PrecisionError, require
from ndis.pages.text import printable

# Names of arguments of the library, and the parameters of commands that have another name.
_OTHER_NAMES = {"targets": "target", "target": "targets", "rate": "sampling_rate"}
BAD_INPUT, OUT_OF_REACH, INTERNAL, INTERRUPTED, NO_READER = 2, 3, 70, 130, 141

PAGES, PICTURES = (".html", ".json"), (".png", ".svg", ".pdf")  # endings of files that are written
Params = Sequence["click.Parameter | Params"]


class Output(click.Option):
    """An option that names files to write."""


class Command(click.Command):
    """A command must print its help if no word follows it, and must not write what it reads."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and compare the files that are written with those that are read."""
        unread = super().parse_args(ctx, args or ["--help"])
        names = [str(param.name) for param in self.params if param.expose_value]
        ctx.params = {name: ctx.params[name] for name in names}  # in the order of the help
        outputs = {str(param.name) for param in self.params if isinstance(param, Output)}
        for name in outputs:
            keep_apart(name, ctx.params[name], *(value for other, value in ctx.params.items() if other not in outputs))
        return unread


def keep_apart(name: str, written: Any, *read: Any) -> None:
    """Refuse an option that would write a file that is read; each value may be a path, several, or something else."""
    held = [path for value in read for path in _existing(value)]
    for path in _existing(written):
        if any(os.path.samefile(path, one) for one in held):
            raise ParameterError(name, "be another file than those that are read", repr(str(path)))


def _existing(value: Any) -> list[Path]:
    """Return the existing files and folders among the values of a parameter."""
    values = value if isinstance(value, tuple | list) else [value]
    return [one for one in values if isinstance(one, Path) and os.path.exists(one)]


class Commands(click.Group):
    """A group of commands must print its help if no word follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words up to the name of a command."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were given."""
        return list(self.commands)


class App(Commands):
    """Every error is one line on stderr and an exit status, never a traceback, which might show data."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the command that these words name, and leave with its status."""
        words = list(sys.argv[1:] if args is None else args)
        status, message = 0, ""
        try:
            with self.make_context(prog_name or "ndis", list(words)) as context:
                self.invoke(context)
        except click.exceptions.Exit as leave:
            status = leave.exit_code
        except click.ClickException as error:
            status, message = BAD_INPUT, refusal(error)
        except NdisError as error:
            status, message = OUT_OF_REACH if isinstance(error, PrecisionError) else BAD_INPUT, str(error)
            if isinstance(error, ParameterError):
                message = typed_name(self, words, error.name) + message.removeprefix(error.name)
        except KeyboardInterrupt as error:
            status, message = INTERRUPTED, "; ".join(["interrupted", *map(str, error.args)])
        except BrokenPipeError:  # the reader of the output left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = NO_READER
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            status, message = BAD_INPUT, f"{missing} must be installed; got none; pip install 'ndis[all]'"
        except Exception as error:  # noqa: BLE001 - no error may look like a verdict, or show its message
            status, message = INTERNAL, f"internal error, {place_of(error)}; no verdict"
        if message:
            click.echo("ndis: " + printable(" ".join(message.split())), err=True)
        sys.exit(status)


def refusal(error: click.ClickException) -> str:
    """Say what is wrong with the words of a command, and where to read on. For an unknown option, say what it takes."""
    text, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        word, params = error.option_name, context.command.get_params(context)
        own = [max(one.opts, key=len) if isinstance(one, click.Option) else str(one.metavar) for one in params]
        near = [one for one in own if one.startswith(word)] or get_close_matches(word, own, cutoff=0.75)
        text = f"No such option '{word}'; '{context.command_path}' takes {', '.join(near or own)}"
    return f"{text}; see '{context.command_path} --help'" if context is not None else text


def typed_name(command: click.Command, words: list[str], name: str) -> str:
    """Return the option under which the user knows an argument of the library.

    `name` may join several by "and". A name that is no option is not changed. If the command reads a FILE, a name that
    the user did not type is not changed either, for the file may hold it.
    """
    while isinstance(command, click.Group):
        word = next((word for word in words if word in command.commands), None)
        if word is None:
            return name
        command, words = command.commands[word], words[words.index(word) + 1 :]
    options = {param.name: param.opts for param in command.params if isinstance(param, click.Option)}
    from_file = any("FILE" in (param.metavar or "") for param in command.params if isinstance(param, click.Argument))
    names = []
    for each in name.split(" and "):
        known = options.get(each) or options.get(_OTHER_NAMES.get(each, "")) or []
        typed = [one for one in known if any(word == one or word.startswith(f"{one}=") for word in words)]
        names.append(typed[0] if typed else each if from_file or not known else max(known, key=len))
    return " and ".join(names)


def command(*params: click.Parameter | Params, name: str | None = None) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function. Its docstring is the help."""

    def flat(items: Params) -> list[click.Parameter]:
        return [one for item in items for one in ([item] if isinstance(item, click.Parameter) else flat(item))]

    def make(function: Callable[..., None]) -> Command:
        settings, words = {"show_default": True, "max_content_width": 120}, name or function.__name__
        return Command(words, settings, callback=function, params=flat(params), help=getdoc(function))

    return make


def option(names: str, help: str, kind: Any = float, **more: Any) -> click.Option:
    """Declare an option by its names, such as "--output -o"; a name without dashes is that of the parameter."""
    return click.Option(names.split(), type=kind, help=help, **more)


def listed(names: str, help: str, metavar: str = "NAMES", **more: Any) -> click.Option:
    """Declare an option that takes several words, separated by commas or repeated."""
    return option(names, help, str, multiple=True, metavar=metavar, **more)


def written(help: str, *endings: str, names: str = "--output -o", new: bool = False, **more: Any) -> click.Option:
    """Declare an option for files to write. A path that cannot be written is refused before anything runs."""

    def check(_: click.Context, param: click.Parameter, value: Any) -> Any:
        for path in value if isinstance(value, tuple) else [value] * (value is not None):
            if endings and path.suffix.lower() not in endings:
                rule = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
                raise ParameterError(str(param.name), f"end in {rule}", repr(path.suffix))
            check_file(path, name=str(param.name), new=new)
        return value

    return Output(names.split(), type=Path, help=help, callback=check, **more)


def reports(names: str) -> click.Option:
    """Declare an option for reports, as pages or JSON."""
    words = "Write the report here, .html or .json; may be repeated."
    return written(words, *PAGES, names=names, multiple=True, metavar="PATH")


def need_one(rule: str, *given: object) -> None:
    """Refuse options that say one thing twice, or not at all; what is not given is None."""
    said = sum(one is not None for one in given)
    require(said == 1, "input", rule, "both" if said else "neither")


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
ROW_BOUND = option("--row-norm-bound", "Public bound of the norm of a row; longer rows are clipped. A schema has one.")
ADJACENCY = choice("--adjacency", "Which data sets are neighbours.", "add-remove replace-one", "add-remove")
GUARANTEE = (*BUDGET, ADJACENCY)
HEADER = flag("--header", "The first line of every CSV file holds column names, which are public.")
_SCHEMA: Any = ("--schema", "TOML file with public ranges and categories; see 'ndis schema'.", Path)
SCHEMA, NEEDED_SCHEMA = option(*_SCHEMA, metavar="FILE"), option(*_SCHEMA, required=True)
CERTIFY = flag("--certify", "Rigorous bounds, by ball arithmetic from the exact inputs.")
JSON = flag("--json as_json", "Print JSON; null stands for what does not exist.")
READING = (
    listed("--columns", "Feature columns, by name or number (all but targets). CSV without --header: all, in order."),
    HEADER,
    option("--ledger", "The budget ledger that pays; see 'ndis ledger'.", Path),
    option("--slot", "The slot of the ledger's plan.", str),
    option("--by", "Who asks, for the record of the ledger.", str, expose_value=False, callback=_recorded),
    option("--purpose", "What for, for the record of the ledger.", str, expose_value=False, callback=_recorded),
    click.Option(["--progress/--no-progress"], default=None, help="A progress bar (on a terminal unless said)."),
    JSON,
)
