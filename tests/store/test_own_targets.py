"""Stock targets were commands once: the step of the schema that made them rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlite_utils import Database

from backhaul.store.sqlite.migrations.versions import migrations
from backhaul.store.sqlite.opening import open_store
from scenes.clock import VirtualClock
from scenes.databases import rows, write

if TYPE_CHECKING:
    from pathlib import Path

STEP = "m106_own_targets"
AT = "2026-03-01T12:00:00.000Z"
SAID = '{"variant_id": "var_1", "quantity": 7, "as_of": "' + AT + '"}'
COMMAND = """
    INSERT INTO commands (id, store, kind, target, lane, state, reason, payload, cause,
      instance, held, created_at, due_at, settled_at, caused_at, evidence, digest)
    VALUES (?, 'main', ?, 'prod_1', 'product:prod_1', ?, 'why', ?, 'record erp 1',
      'erp', ?, ?, ?, ?, ?, '{"computation": {}}', x'07')
"""
COUNT = """
    INSERT INTO stock_targets (command_id, store, product_id, variant_id, quantity,
      as_of, listed_at, round, tries, correction, computation, words, delta, levels,
      ledger, unread, read_at)
    VALUES (?, 'main', 'prod_1', 'var_1', 7, ?, ?, 2, 1, ?, '{}', 'words', -3, '{}', 9,
      1, ?)
"""
BECAME = {
    ("planned", 0): "waiting",
    ("planned", 1): "adjusting",
    ("applied", 0): "applied",
    ("parked", 0): "parked",
    ("rejected", 0): "discarded",
    ("superseded", 0): "superseded",
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database as the version before left it."""
    path = tmp_path / "backhaul.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database = Database(connection, execute_plugins=False)
        migrations.apply(database, stop_before=STEP)
    return path


def counted(path: Path, id_: str, state: str, held: int) -> None:
    """Write a count and its adjustment."""
    times = (AT, AT, AT, AT)
    write(path, COMMAND, id_, "target", state, SAID, held, *times)
    write(path, COMMAND, f"{id_}-step", "adjust", "applied", "{}", 0, *times)
    write(path, COUNT, id_, AT, AT, f"{id_}-step", AT)


def test_each_state_is_carried_over(older: Path) -> None:
    for number, (state, held) in enumerate(BECAME):
        counted(older, f"t{number}", state, held)
    open_store(older, VirtualClock())
    found = rows(older, "SELECT state FROM stock_targets ORDER BY seq")
    assert [state for (state,) in found] == list(BECAME.values())
    shown = "SELECT state, held FROM commands_and_targets WHERE kind = 'target'"
    assert rows(older, f"{shown} ORDER BY seq") == list(BECAME)
    assert rows(older, "SELECT DISTINCT kind FROM commands") == [("adjust",)]


_OF_COMMAND = """
    SELECT store, instance, reason, payload, cause, created_at, due_at, settled_at,
           caused_at, evidence, digest, seq
"""
_OF_COUNT = """
    SELECT product_id, variant_id, quantity, as_of, listed_at, round, tries, correction,
           computation, words, delta, levels, ledger, unread, read_at
    FROM stock_targets
"""


def test_all_else_is_kept(older: Path) -> None:
    counted(older, "t", "planned", 1)
    before = rows(older, f"{_OF_COMMAND} FROM commands WHERE id = 't'")
    before += rows(older, _OF_COUNT)
    open_store(older, VirtualClock())
    after = rows(older, f"{_OF_COMMAND} FROM stock_targets")
    assert after + rows(older, _OF_COUNT) == before
    both = rows(older, "SELECT id FROM commands_and_targets ORDER BY seq")
    assert both == [("t",), ("t-step",)]
