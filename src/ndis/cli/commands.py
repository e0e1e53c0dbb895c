"""How every command behaves: a bare one prints its help, flags take no value, two numbers may be written as 0,5."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "same_behaviour", "typed_name"]

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
