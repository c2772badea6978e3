"""The outbox for people: lists of commands, and one with all that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from backhaul.store.sql.commands.rows import COLUMNS, to_command

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.matching import Command
    from backhaul.store.read_models import CommandFilter

Row = dict[str, Any]

_LISTED = """
    SELECT id, store, kind, target, coalesce(
             (SELECT name FROM orders WHERE store = c.store AND id = c.target),
             (SELECT title FROM products WHERE store = c.store AND id = c.target)
           ) AS about, state, reason, attempts, instance, cause, created_at, due_at,
           settled_at
    FROM commands c
"""
_WANTED = """
    (:state IS NULL OR state = :state) AND (:kind IS NULL OR kind = :kind)
    AND (:store IS NULL OR store = :store)
"""
_NEWEST = f"""
    AND {_WANTED} AND (:before IS NULL OR seq < :before) ORDER BY seq DESC LIMIT :limit
"""
_PLACE = "SELECT seq, state = 'parked' FROM commands WHERE id = ?"
_WHOLE = """
    SELECT *, coalesce(
             (SELECT name FROM orders WHERE store = c.store AND id = c.target),
             (SELECT title FROM products WHERE store = c.store AND id = c.target)
           ) AS about
    FROM commands c WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2
"""
_PARTS = {
    "record": "SELECT instance, key, locator, received_at FROM records"
    " WHERE command_id = ? ORDER BY id LIMIT 1",
    "attempts": "SELECT * FROM attempts WHERE command_id = ? ORDER BY number",
    "target": "SELECT command_id, variant_id, quantity, as_of, round, correction,"
    " computation FROM stock_targets WHERE command_id = ?1 OR correction = ?1",
    "looks": "SELECT * FROM looks WHERE command_id = ? ORDER BY id",
    "by_hand": "SELECT at, who, action, detail AS reason, state_before, state_after"
    " FROM audit WHERE command_id = ? ORDER BY id",
}


def listed(
    connection: sqlite3.Connection,
    wanted: CommandFilter,
    limit: int,
    after: str | None = None,
) -> list[Row]:
    """Return commands: those that wait for a person first, then the newest.

    `after` is the id of the one that the list goes on after, if it is known.
    """
    seq, was_parked = connection.execute(_PLACE, (after,)).fetchone() or (None, True)
    found: list[Row] = []
    for which, is_parked in (("state = 'parked'", True), ("state != 'parked'", False)):
        if is_parked and not was_parked:
            continue
        before = seq if is_parked == was_parked else None
        values = asdict(wanted) | {"limit": limit - len(found), "before": before}
        query = f"{_LISTED} WHERE {which} {_NEWEST}"
        found += map(dict, connection.execute(query, values))
    return found


def count(connection: sqlite3.Connection, wanted: CommandFilter) -> int:
    """Count the commands that `listed` would return without a limit."""
    query = f"SELECT count(*) FROM commands WHERE {_WANTED}"  # noqa: S608 - constants
    return int(connection.execute(query, asdict(wanted)).fetchone()[0])


def planned(
    connection: sqlite3.Connection, wanted: CommandFilter, limit: int
) -> list[tuple[Command, str]]:
    """Return what is planned, with the reason, in the order in which it may leave.

    A damaged one will not leave: it is left out.
    """
    values = asdict(wanted) | {"state": "planned", "limit": limit}
    query = (
        f"SELECT {COLUMNS}, reason FROM commands WHERE {_WANTED}"  # noqa: S608 - constants
        " AND kind != 'target'"
        " ORDER BY seq LIMIT :limit"
    )
    rows = [tuple(row) for row in connection.execute(query, values)]
    found = [(to_command(row[:-1]), row[-1]) for row in rows]
    return [(command, reason) for command, reason in found if command.payload]


def whole(connection: sqlite3.Connection, prefix: str) -> Row | None:
    """Return the only command whose id begins so, with all that is known of it."""
    rows = [dict(row) for row in connection.execute(_WHOLE, (prefix,))]
    if len(rows) != 1:
        return None
    (found,) = rows
    parts = {
        name: [dict(row) for row in connection.execute(query, (found["id"],))]
        for name, query in _PARTS.items()
    }
    return {
        **found,
        "target_of": next(iter(parts.pop("target")), None),
        **parts,
        "record": next(iter(parts["record"]), None),
    }
