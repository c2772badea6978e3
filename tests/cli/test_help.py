"""Every command and option explains itself; the old command words still work."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command

from backhaul.cli.root import app
from docs import man_page

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
