"""How every command behaves.

A bare command prints its help, flags take no value, and two numbers may be written as 0,5. An error is one line on
stderr and an exit status, never a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ndis.errors import NdisError, ParameterError, PrecisionError

__all__ = ["Command", "Group", "OneLineErrors", "same_behaviour", "told", "typed_name"]

BAD_INPUT, OUT_OF_REACH, INTERNAL, INTERRUPTED = 2, 3, 70, 130

# typer brings its own copy of click in recent versions; this is the root of the usage errors of whichever it uses.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickError: Any = typer.BadParameter.__mro__[2]

# Names of arguments of the library that an option has another name for.
_ALIASES = {
    "variance_ratio": "ratio",
    "targets": "target",  # of sketch; the option of audit has the name itself
    "rate": "sampling_rate",
    "path": "output",
    "folder": "output",
    "intercept": "fit_intercept",
}


class Command(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Two numbers for one option may come as one word, 0,5."""
        pairs = {name for param in self.params if param.nargs == 2 for name in param.opts}
        found: list[str] = []
        for word in args:
            option, given, value = word.partition("=")
            if given and option in pairs:
                found += [option, *value.split(",")]
            elif found and found[-1] in pairs and word.count(",") == 1:
                found += word.split(",")
            else:
                found.append(word)
        return super().parse_args(ctx, found)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters; a flag shows no type of a value."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters; a flag shows no type of a value."""
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters, those that are flags with nothing to show for a value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def same_behaviour(app: typer.Typer) -> None:
    """Make all commands of an app, and of the groups in it, behave alike."""
    for command in app.registered_commands:
        command.cls, command.no_args_is_help = Command, True
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            same_behaviour(group.typer_instance)


def typed_name(command: Any, args: list[str], name: str) -> str:
    """The option that the user knows an argument of the library by.

    `name` may join several by "and". A name that is no option stays as it is. So does one that was not typed if the
    command reads a FILE, for the file may hold that name.
    """
    while hasattr(command, "commands"):
        word = next((word for word in args if word in command.commands), None)
        if word is None:
            return name
        command, args = command.commands[word], args[args.index(word) + 1 :]
    params = {param.name: param for param in command.params}
    from_file = any(p.param_type_name == "argument" and p.metavar == "FILE" for p in command.params)
    found = []
    for part in name.split(" and "):
        param = params.get(part) or params.get(_ALIASES.get(part, ""))
        if param is None or param.param_type_name == "argument":
            found.append(part)
            continue
        used = [opt for opt in param.opts if any(word == opt or word.startswith(f"{opt}=") for word in args)]
        found.append(str(used[0]) if used else part if from_file else max(param.opts, key=len))
    return " and ".join(found)


class OneLineErrors(Group):
    """A group of commands whose errors are one line each."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Some versions of typer end it without a word if somebody interrupts it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort("".join(f"; {word}" for word in error.args)) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        try:
            status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _ClickError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # a bare command
                help_text = error.format_message()  # empty in versions that have printed the help already
                typer.echo(help_text, nl=bool(help_text))
                sys.exit(0)
            hint = f"; see '{error.ctx.command_path} --help'" if isinstance(error, _UsageError) and error.ctx else ""
            status = _say(error.format_message().rstrip(".") + hint, BAD_INPUT)
        except PrecisionError as error:
            status = _say(str(error), OUT_OF_REACH)
        except ParameterError as error:
            known = typed_name(self, sys.argv[1:] if args is None else list(args), error.name)
            status = _say(known + str(error).removeprefix(error.name), BAD_INPUT)
        except NdisError as error:
            status = _say(str(error), BAD_INPUT)
        except typer.Abort as error:
            status = _say(f"interrupted{error}", INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - whatever it is, its status is that of no verdict
            status = _say(f"internal error, {told(error)}; no verdict", INTERNAL)
        else:
            if status == INTERRUPTED:  # some versions of typer say nothing of an interrupt before the command runs
                _say("interrupted", INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


def told(error: BaseException) -> str:
    """The type of an error and the place where it was raised. Its message may quote data, so it is left out."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError in {Path(error.filename).name}, line {error.lineno}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
    return f"{type(error).__name__}{where}"


def _say(message: str, status: int) -> int:
    typer.echo("ndis: " + " ".join(message.split()), err=True)
    return status
