"""No name moves the cursor of a terminal, or writes a line of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import ndis
from ndis.cli import app
from ndis.pages.text import text_table

BAD = "x\x1b]0;title\x07\x9b2J\u202e"


def output(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], color=True)
    return done.output + done.stderr


@pytest.mark.parametrize("case", ["file", "schema", "ledger"])
def test_commands_escape_what_is_not_printable(case: str, tmp_path: Path) -> None:
    if case == "file":
        shown = output("delta", tmp_path / f"{BAD}.json", "--epsilon", 1)
    elif case == "schema":
        schema = ndis.Schema({"region": [BAD, "two\nlines"]})
        (tmp_path / "s.toml").write_text(schema.to_toml(), encoding="utf-8")
        shown = output("schema", "check", tmp_path / "s.toml")
        assert "\nlines" not in shown
    else:
        public = ("--epsilon", 1, "--delta", 1e-6, "--data-name", BAD, "--kind", "shifts")
        shown = output("ledger", "create", tmp_path / f"{BAD}.ledger", *public)
        shown += output("ledger", "show", tmp_path / f"{BAD}.ledger")
    assert "x\\x1b]0;title\\x07\\x9b2J\\u202e" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


def test_tables_escape_names() -> None:
    assert text_table("T", [["", "a"], ["two\nlines\x1b", "1"]]) == "T\n                a\ntwo\\nlines\\x1b  1"
