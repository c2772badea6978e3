"""Every command and option has a help text; the old command words still work."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import pytest
from click import unstyle
from typer.main import get_command
from typer.testing import CliRunner

from backhaul.cli.root import app
from docs import man_page

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Any = get_command(app)
COMMANDS = dict(man_page.leaves(ROOT))
OLD_WORDS = {
    "commands settle": "commands resolve",
    "commands drop": "commands discard",
    "events refold": "events reprocess",
    "forget customer": "customers erase",
    "targets resume": "stock resume",
    "secrets drop": "secrets revoke",
    "connectors settle": "connectors resolve",
}


NARROW = "78"
"""The width of a terminal that shows every help text without wrapping."""
PASSED_ON = "reference"
"""The help of this command comes from another program."""


def found(path: str) -> Any:
    command = ROOT
    for word in path.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_argument_and_option_has_help(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    assert [each.name for each in command.params if not each.help] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_an_example_calls_its_own_command(path: str) -> None:
    command = COMMANDS[path]
    if not command.epilog:
        assert not any(each.required for each in command.params)
        return
    title, *lines = command.epilog.splitlines()
    assert title in {"Example:", "Examples:"}
    typed = [f"{line.strip()} ".startswith(f"backhaul {path} ") for line in lines]
    assert typed
    assert all(typed)


@pytest.mark.parametrize(("old", "new"), OLD_WORDS.items())
def test_an_old_word_is_a_hidden_alias(old: str, new: str) -> None:
    assert found(old).hidden
    assert found(old).callback.__wrapped__ is found(new).callback.__wrapped__
    assert new in COMMANDS
    assert old not in COMMANDS


def all_words(command: Any, path: str = "") -> Iterator[str]:
    """Yield the path of a command or group and of all subcommands, also hidden ones."""
    yield path
    for word, below in getattr(command, "commands", {}).items():
        yield from all_words(below, f"{path} {word}".strip())


def written_lines(command: Any) -> list[str]:
    """Return the lines of a help text as they are shown.

    The lines of the first paragraph are joined.
    """
    paragraphs = cleandoc(command.help or "").split("\n\n")[1:]
    texts = [*paragraphs, command.epilog or ""]
    return [line.strip() for text in texts for line in text.splitlines()]


@pytest.mark.parametrize("path", [p for p in all_words(ROOT) if p != PASSED_ON])
def test_a_narrow_terminal_wraps_no_line_of_a_help_text(path: str) -> None:
    typed = [*path.split(), "--help"]
    done = CliRunner().invoke(app, typed, env={"COLUMNS": NARROW})
    assert done.exit_code == 0
    shown = {line.strip() for line in unstyle(done.output).splitlines()}
    assert [line for line in written_lines(found(path)) if line not in shown] == []


@pytest.mark.parametrize("path", [p for p in all_words(ROOT) if p != PASSED_ON])
def test_a_flag_is_shown_without_a_type(path: str) -> None:
    done = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": NARROW})
    shown = unstyle(done.output)
    assert "--help" in shown
    assert "<bool>" not in shown
