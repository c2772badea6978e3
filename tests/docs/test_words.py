"""Names and prose use the words of docs/glossary.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import BaseModel
from typer.main import get_command

from backhaul.cli.root import app
from backhaul.connect import registry
from backhaul.settings import sources
from docs import man_page, words
from docs.log_actions import actions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {part for path, _ in sources.leaves() for part in path}


def options(model: type[BaseModel]) -> Iterator[str]:
    """Yield the names of a connector's own settings, those of its tables included."""
    for name, field in model.model_fields.items():
        yield name
        for each in nested(field.annotation):
            yield from options(each)


def nested(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from nested(each)


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
    for type_name in registry.known_types():
        connector = registry.load(type_name)
        assert connector is not None
        named += [
            (name, f"setting {name} of {type_name}")
            for name in options(connector.spec.settings)
        ]
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
