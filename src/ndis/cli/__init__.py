"""Run the command `ndis`: parse, call the library, print. Python gives every number in one line too.

The exit status is 0 if all is fine, 1 if a claim is refuted (`ndis audit`), 2 for bad input, and 3 for a number that
cannot be computed to the accuracy promised. It is 70 for a fault of this package, and 130 after an interrupt. One line
on stderr says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from ndis import __version__
from ndis.cli import audit, dpsgd, ledger, regress, schema, sketch, spectrum
from ndis.cli.options import Commands
from ndis.cli.output import place_of
from ndis.errors import NdisError, ParameterError, PrecisionError
from ndis.pages.tables import printable

__all__ = ["app", "main"]

# Names of arguments of the library, and the parameters of commands that have another name.
_OTHER_NAMES = {"targets": "target", "target": "targets", "rate": "sampling_rate"}
BAD_INPUT, OUT_OF_REACH, INTERNAL, INTERRUPTED, NO_READER = 2, 3, 70, 130, 141


class _App(Commands):
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
            context_path = getattr(getattr(error, "ctx", None), "command_path", None)
            hint = f"; see '{context_path} --help'" if context_path else ""
            status, message = BAD_INPUT, error.format_message().rstrip(".") + hint
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


app = _App(
    "ndis",
    help="Exactly how private is an algorithm with Gaussian output?",
    commands=[
        *(spectrum.delta, spectrum.epsilon, spectrum.curve),
        *(sketch.sketch, regress.regress, audit.audit, audit.report),
        *(dpsgd.dpsgd, sketch.calibrate, schema.schema, ledger.ledger),
    ],
)
app = click.version_option(__version__, message="%(prog)s %(version)s")(app)


def main() -> NoReturn:
    """Run the command of this process."""
    app.main()
