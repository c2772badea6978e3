"""Names and prose use the words of docs/glossary.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.main import get_command

from backhaul.cli.root import app
from backhaul.settings import sources
from docs import man_page, words
from docs.log_actions import actions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {part for path, _ in sources.leaves() for part in path}


def verbs() -> Iterator[str]:
    """Yield the words of every listed command."""
    for path, _ in man_page.leaves(get_command(app)):
        yield path


def test_modules_classes_and_functions_are_named_by_the_glossary() -> None:
    found = [fault for path in words.modules() for fault in words.name_faults(path)]
    assert not found, "\n".join(map(str, found))


def test_commands_settings_and_log_actions_are_named_by_the_glossary() -> None:
    named = [(path, f"command {path}") for path in verbs()]
    named += [(action, f"log action {action}") for action in actions()]
    named += [(name, f"setting {name}") for name in SETTINGS]
    found = [fault for name, where in named for fault in words.in_name(name, where)]
    assert not found, "\n".join(map(str, found))


def test_prose_is_written_in_the_words_of_the_glossary() -> None:
    paths = [*words.modules(), *words.pages()]
    found = [fault for path in paths for fault in words.prose_faults(path)]
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Settler:\n    pass\n", "Settler"),
        ("async def move_and_tell():\n    pass\n", "move_and_tell"),
        ('"""What is told\nof orders."""\n', "What is told of orders."),
        ("# It is looked\n# for later.\n", "It is looked for later."),
    ],
)
def test_an_old_word_is_found(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(source)
    found = [*words.name_faults(path), *words.prose_faults(path)]
    assert said in found[0].text
