"""Surplus effects are found by their command, also among damaged rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenes.databases import make_database, started_store, write

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = """
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
        instance, created_at, due_at, reason, evidence)
    VALUES (?, 'main', 'adjust', 'prod_1', 'product:prod_1', ?, '{}', '', 'courier',
        '', '', 'why', ?)
"""


async def test_effects_too_many_are_found_by_command(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    make_database(path)
    write(path, COMMAND, "c1", "applied", '{"doubled": ["adj_2", "adj_3"]}')
    write(path, COMMAND, "c2", "applied", '{"note": "\\"doubled\\""}')
    write(path, COMMAND, "c3", "parked", 'damaged "doubled" [')
    write(path, COMMAND, "c4", "applied", '{"doubled": []}')
    adopted = "INSERT INTO adopted_effects VALUES ('main', ?, ?, '{}', '')"
    for adjustment, command in (("a1", "old"), ("a2", "old"), ("a3", "once")):
        write(path, adopted, adjustment, command)
    async with started_store(path) as store:
        doubled = (await store.alert_conditions.current([])).doubled
    found = [(command.id, command.detail) for command in doubled]
    assert found == [("c1", "adj_2, adj_3"), ("old", "a1, a2")]
