"""Lists of commands, and one command with its evidence and history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from backhaul.store.read_records import (
    CommandAttempt,
    CommandCheck,
    CommandDecision,
    CommandDetail,
    CommandRecord,
    CommandTarget,
    ListedCommand,
)
from backhaul.store.sql.commands.asked import asked_for, locators
from backhaul.store.sql.commands.rows import COLUMNS, to_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.matching import Command
    from backhaul.store.read_models import CommandFilter
    from backhaul.store.sql.family import Connection

NO_END = (1 << 63) - 1
"""A bound above every id."""
ABOUT = """
    coalesce((SELECT name FROM orders WHERE store = c.store AND id = c.target),
             (SELECT title FROM products WHERE store = c.store AND id = c.target)
           ) AS about
"""
"""The name of the order or product of a command `c`."""
_LISTED = f"""
    SELECT id, store, kind, target, {ABOUT}, state, reason, attempts, instance, cause,
           created_at, due_at, settled_at, payload
    FROM commands_and_targets c
"""  # noqa: S608 - constants
# Each part of the next two is answered by an index, which the view's states would miss.
_OPEN = f"""
    {_LISTED} WHERE id IN (
      SELECT id FROM commands
      WHERE state = :state AND state IN ('planned', 'sending', 'uncertain')
      UNION ALL SELECT id FROM stock_targets
      WHERE :state = 'planned' AND state IN ('waiting', 'adjusting', 'held'))
    LIMIT :limit
"""  # noqa: S608 - constants
IS_PARKED = """
    id IN (SELECT id FROM commands WHERE state = 'parked'
           UNION ALL SELECT id FROM stock_targets WHERE state = 'parked')
"""
"""Whether a row of `commands_and_targets` is parked."""
_WANTED = """
    (:state IS NULL OR state = :state) AND (:kind IS NULL OR kind = :kind)
    AND (:store IS NULL OR store = :store)
    AND (:since IS NULL OR created_at >= :since)
    AND (:object_id IS NULL OR target = :object_id)
"""
_COUNT = f"SELECT count(*) AS commands FROM commands_and_targets WHERE {_WANTED}"  # noqa: S608 - constants
_NEWEST = f"""
    AND {_WANTED} AND seq < :before ORDER BY seq DESC LIMIT :limit
"""
_PLANNED = f"""
    SELECT {COLUMNS}, reason FROM commands WHERE {_WANTED} 
    ORDER BY seq LIMIT :limit
"""  # noqa: S608 - constants
_PLACE = "SELECT seq, state FROM commands_and_targets WHERE id = :id"
_OTHERS = frozenset(
    {"attempts", "looks", "about", "target_of", "record", "by_hand", "asked"}
)
MOST_LINES = 500
"""The lines of one command that are shown."""
_OWN = [name for name in CommandDetail.__struct_fields__ if name not in _OTHERS]
_DETAIL = f"""
    SELECT {ABOUT}, {", ".join(_OWN)} FROM commands_and_targets c
    WHERE substr(id, 1, length(:prefix)) = :prefix LIMIT 2
"""  # noqa: S608 - constants
_RECORD = """
    SELECT instance, key, locator, received_at FROM records
    WHERE command_id = :id ORDER BY id LIMIT 1
"""
_ATTEMPTS = f"""
    SELECT {", ".join(CommandAttempt.__struct_fields__)} FROM attempts
    WHERE command_id = :id ORDER BY number
"""  # noqa: S608 - constants
_TARGET = """
    SELECT id, variant_id, quantity, as_of, round, correction, computation
    FROM stock_targets WHERE id = :id OR correction = :id
"""
_CHECKS = f"""
    SELECT {", ".join(CommandCheck.__struct_fields__)} FROM resolution_checks
    WHERE command_id = :id ORDER BY id
"""  # noqa: S608 - constants
_DECISIONS = """
    SELECT at, who, action, detail, state_before, state_after FROM audit
    WHERE command_id = :id ORDER BY id
"""


def list_commands(
    connection: Connection,
    wanted: CommandFilter,
    limit: int,
    after: str | None = None,
) -> list[ListedCommand]:
    """Return commands: parked ones first, then the newest, behind the id `after`."""
    place = connection.execute(_PLACE, {"id": after}).fetchone()
    seq, was_parked = (place[0], place[1] == "parked") if place else (NO_END, True)
    found: list[ListedCommand] = []
    for which, is_parked in ((IS_PARKED, True), ("state != 'parked'", False)):
        if is_parked and not was_parked:
            continue
        before = seq if is_parked == was_parked else NO_END
        values = asdict(wanted) | {"limit": limit - len(found), "before": before}
        rows = connection.execute(f"{_LISTED} WHERE {which} {_NEWEST}", values)
        found += _listed(connection, rows.fetchall())
    return found


def _listed(connection: Connection, rows: Sequence[Any]) -> list[ListedCommand]:
    """Return commands with what each asks for; the payload is their last column."""
    asked = asked_for(connection, [(*row[:4], row[-1]) for row in rows])
    places = locators(connection, [row[0] for row in rows])
    return [
        replace(
            ListedCommand(*row[:-1]),
            asked=asked[row[0]].in_words(),
            locator=places.get(row[0], ""),
        )
        for row in rows
    ]


def count(connection: Connection, wanted: CommandFilter) -> int:
    """Count the commands that `list_commands` would return without a limit."""
    return int(connection.execute(_COUNT, asdict(wanted)).fetchone()[0])


def open_commands(
    connection: Connection, state: str, limit: int
) -> list[ListedCommand]:
    """Return some commands that are planned, sending or uncertain."""
    rows = connection.execute(_OPEN, {"state": state, "limit": limit})
    return _listed(connection, rows.fetchall())


def planned(
    connection: Connection, wanted: CommandFilter, limit: int
) -> list[tuple[Command, str]]:
    """Return planned commands with their reason, without damaged ones."""
    values = asdict(wanted) | {"state": "planned", "limit": limit}
    rows = [tuple(row) for row in connection.execute(_PLANNED, values)]
    found = [(to_command(row[:-1]), row[-1]) for row in rows]
    return [(command, reason) for command, reason in found if command.payload]


def detail(connection: Connection, prefix: str) -> CommandDetail | None:
    """Return the only command whose id begins so, with its evidence and history."""
    rows = connection.execute(_DETAIL, {"prefix": prefix}).fetchall()
    if len(rows) != 1:
        return None
    about, *own = rows[0]
    known = dict(zip(_OWN, own, strict=True))
    id_ = known["id"]
    place = (id_, known["store"], known["kind"], known["target"], known["payload"])

    def parts(query: str) -> list[Any]:
        return connection.execute(query, {"id": known["id"]}).fetchall()

    return CommandDetail(
        **known,
        about=about,
        attempts=[CommandAttempt(*row) for row in parts(_ATTEMPTS)],
        looks=[CommandCheck(*row) for row in parts(_CHECKS)],
        target_of=next((CommandTarget(*row) for row in parts(_TARGET)), None),
        record=next((CommandRecord(*row) for row in parts(_RECORD)), None),
        by_hand=[CommandDecision(*row) for row in parts(_DECISIONS)],
        asked=asked_for(connection, [place], MOST_LINES)[id_],
    )
