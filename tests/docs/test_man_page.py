"""docs/backhaul.1 has every command, and every reporting command has --json."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.text import Text
from typer.main import get_command

from backhaul.cli.root import app
from docs.man_page import CODES, codes, leaves, page

PAGE = Path(__file__).resolve().parents[2] / "docs/backhaul.1"
NO_JSON = {
    "init": "asks questions",
    "demo": "plays on a screen",
    "run": "is the daemon",
    "reference": "is a server",
}


def test_the_page_is_current() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page(), encoding="utf-8")
    current = PAGE.read_text(encoding="utf-8") == page()
    assert current, "run UPDATE_DOCS=1 pytest tests/docs"


def test_every_exit_code_is_documented() -> None:
    assert codes() <= set(CODES)


def test_help_shows_every_word_that_is_written() -> None:
    """Rich takes a word in brackets, such as a table of the settings, for a style."""
    texts = {
        text
        for _, command in leaves(get_command(app))
        for each in (command, *command.params)
        if (text := getattr(each, "help", None))
    }
    assert len(texts) > 50
    assert {text for text in texts if Text.from_markup(text).plain != text} == set()


def test_every_reporting_command_has_json_output() -> None:
    silent = {
        path
        for path, command in leaves(get_command(app))
        if "--json" not in [name for each in command.params for name in each.opts]
    }
    assert silent == set(NO_JSON)


@pytest.mark.skipif(shutil.which("groff") is None, reason="apt install groff-base")
def test_the_manual_page_is_valid() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "support-bundle" in done.stdout.replace("\N{MINUS SIGN}", "-")
