"""Errors as one line on stderr and an exit status, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ndis.cli.commands import Group, typed_name
from ndis.errors import NdisError, ParameterError, PrecisionError

__all__ = ["BAD_INPUT", "INTERNAL", "OUT_OF_REACH", "OneLineErrors", "told"]

BAD_INPUT, OUT_OF_REACH, INTERNAL, INTERRUPTED = 2, 3, 70, 130

# typer brings its own copy of click in recent versions; this is the root of the usage errors of whichever it uses.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickError: Any = typer.BadParameter.__mro__[2]


class OneLineErrors(Group):
    """A group of commands whose errors are one line each."""

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
        except typer.Abort:
            status = _say("interrupted", INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - whatever it is, its status is that of no verdict
            status = _say(f"internal error, {told(error)}; no verdict", INTERNAL)
        sys.exit(status if isinstance(status, int) else 0)


def told(error: BaseException) -> str:
    """What was raised and where; its message may quote data and is left out."""
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
