"""How long it took until an effect came back as news, as `backhaul status` shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from backhaul.core.clock import to_text
from backhaul.store import database_at
from scenes.databases import make_database, write

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = """
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
      instance, created_at, due_at, sent_at, effect_id)
    VALUES (?1, 'main', 'adjust', 'prod_1', 'product:prod_1', 'applied', '{}', '',
      'books', ?2, ?2, ?2, ?1)
"""
ECHO = "INSERT INTO echoes VALUES ('main', ?, 'product:prod_1', 1, ?, NULL, ?)"
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(hours=2)


def echo(path: Path, name: str, seconds: float, folded: datetime = NOW) -> None:
    """Let a command's news come so many seconds after it was sent."""
    sent = to_text(folded - timedelta(seconds=seconds))
    write(path, COMMAND, name, sent)
    write(path, ECHO, name, to_text(folded), name)


def told(path: Path) -> object:
    with database_at(path).reader() as explainer:
        return asdict(explainer.confirmations())


def test_they_are_those_of_the_last_hour(tmp_path: Path) -> None:
    make_database(path := tmp_path / "backhaul.db")
    for number in range(1, 102):
        echo(path, f"c{number}", number / 10)
    echo(path, "old", 3_000, LONG_AGO)
    assert told(path) == {"number": 101, "median_seconds": 5.1, "p99_seconds": 10.0}


def test_news_of_nobody_and_none_at_all_say_nothing(tmp_path: Path) -> None:
    make_database(path := tmp_path / "backhaul.db")
    write(path, ECHO, "adj_1", to_text(NOW), None)
    assert told(path) == {"number": 0, "median_seconds": None, "p99_seconds": None}
