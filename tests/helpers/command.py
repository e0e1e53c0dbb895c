"""The command `ndis` in this process: what it prints, and what it says if it refuses."""

from __future__ import annotations

import json

from click.testing import CliRunner

from ndis.cli import app


def run(*args: object):
    return CliRunner().invoke(app, [str(a) for a in args], prog_name="ndis")


def fine(*args: object, note: str = "") -> str:
    """The output of a command that works and says nothing else, `note` aside."""
    result = run(*args)
    assert (result.exit_code, result.stderr.removeprefix(note)) == (0, ""), result.output
    return result.stdout


def refused(*args: object, status: int = 2, note: str = "") -> str:
    """The one line of a command that refuses, `note` aside."""
    result = run(*args)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    said = result.stderr.removeprefix(note)
    assert said.startswith("ndis: ")
    assert said.endswith("\n")
    assert said.count("\n") == 1
    return said.removeprefix("ndis: ").rstrip("\n")


def values(*args: object) -> list[dict[str, float]]:
    return json.loads(fine(*args, "--json"))["values"]
