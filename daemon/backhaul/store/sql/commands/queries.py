"""Lists of commands, and one command with its evidence and history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.store.bulk import BulkRow
from backhaul.store.command_records import (
    CommandAttempt,
    CommandCheck,
    CommandDecision,
    CommandDetail,
    CommandRecord,
    CommandTarget,
    ListedCommand,
)
from backhaul.store.filters import SelectedRows, Sort
from backhaul.store.sql import selection
from backhaul.store.sql.commands.asked import asked_for, locators
from backhaul.store.sql.commands.rows import columns, to_command
from backhaul.store.sql.dialect import contains, member
from backhaul.store.sql.schema import TARGETS_AS_COMMANDS
from backhaul.store.sql.selection import (
    NO_END,
    SCANNED,
    NumberedRows,
    all_words,
    as_list,
    given,
    in_list,
    order_ids,
    span,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.filters import Filter, Span
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

ABOUT = """
    coalesce((SELECT name FROM orders WHERE store = c.store AND id = c.target),
             (SELECT title FROM products WHERE store = c.store AND id = c.target)
           ) AS about
"""
"""The name of the order or product of a command `c`."""
_LISTED_COLUMNS = f"""
    SELECT id, store, kind, target, {ABOUT}, state, reason, attempts, instance, cause,
           created_at, due_at, settled_at, payload
"""
_LISTED = f"{_LISTED_COLUMNS} FROM commands_and_targets c"
# Each part of the next two is answered by an index, which the view's states would miss.
_OPEN = f"""
    {_LISTED} WHERE id IN (
      SELECT id FROM commands
      WHERE state = :state AND state IN ('planned', 'sending', 'uncertain')
      UNION ALL SELECT id FROM stock_targets
      WHERE :state = 'planned' AND state IN ('waiting', 'adjusting', 'held'))
    LIMIT :limit
"""  # noqa: S608 - constants
_OPEN_STATE = "state IN ('planned', 'sending', 'uncertain')"
_IDS: Mapping[str, str] = {
    "planned": f"""
        SELECT id FROM commands WHERE state = 'planned' AND {_OPEN_STATE}
        UNION ALL SELECT id FROM stock_targets
        WHERE state IN ('waiting', 'adjusting', 'held')
    """,  # noqa: S608 - constants
    "sending": f"""
        SELECT id FROM commands WHERE state = 'sending' AND {_OPEN_STATE}
    """,  # noqa: S608 - constants
    "uncertain": "SELECT id FROM commands WHERE state = 'uncertain'",
    "parked": """
        SELECT id FROM commands WHERE state = 'parked'
        UNION ALL SELECT id FROM stock_targets WHERE state = 'parked'
    """,
    "rejected": """
        SELECT id FROM commands WHERE state = 'rejected'
        UNION ALL SELECT id FROM stock_targets WHERE state = 'discarded'
    """,
}
"""The commands and stock targets in each state that an index finds."""
IS_PARKED = f"id IN ({_IDS['parked']})"
"""Whether a row of `commands_and_targets` is parked."""
_PARKED_ONLY = f"AND {IS_PARKED}"
_ROWS = [
    NumberedRows("commands", "seq", "created_at"),
    NumberedRows("stock_targets", "seq", "created_at"),
]
_SOURCES = ("commands", f"({TARGETS_AS_COMMANDS})")
"""What `commands_and_targets` consists of.

A query asks each alone, because no engine looks into both by all indexes.
"""
_WORDS = """
    c.id || ' ' || c.cause || ' ' || c.instance || ' ' || c.target || ' ' || c.reason
    || CASE WHEN c.state = 'applied' THEN '' ELSE ' ' || c.payload END
"""
_CONDITIONS: Mapping[str, str] = {
    "keys": in_list("c.id", "keys"),
    **{f"is_{state}": f"c.id IN ({ids})" for state, ids in _IDS.items()},
    "state": "c.state = :state",
    "kind": "c.kind = :kind",
    "store": "c.store = :store",
    "connector": "c.instance = :connector",
    "orders": in_list("c.target", "orders"),
    "object": "c.target = :object",
    "products": in_list("c.target", "products"),
    "variants": f"""
        (c.kind NOT IN ('adjust', 'target')
         OR {in_list(member("c.payload", "$.variant_id"), "variants")})
    """,
    "reason": contains("lower(c.reason)", "lower(:reason)"),
    "since": "c.created_at >= :since",
    "until": "c.created_at < :until",
    "words": all_words(_WORDS),
}
"""The condition of each term: a query has those of its filter alone."""
_INDEXED = ("keys", "object", "orders", "products", *(f"is_{each}" for each in _IDS))
"""The terms that an index answers."""
_PLACE = "SELECT seq, state FROM commands_and_targets WHERE id = :id"
_KEYS = """
    SELECT id FROM commands_and_targets WHERE id >= :key AND id < :behind LIMIT 100
"""
_VARIANTS = "SELECT product_id, id FROM variants WHERE sku = :sku"
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
    wanted: Filter,
    limit: int,
    after: str | None = None,
    sort: Sort = Sort.USUAL,
    within: Span | None = None,
) -> list[ListedCommand]:
    """Return commands, parked ones first in the usual order, behind the id `after`."""
    values = _values(connection, wanted)
    seq, was_parked = _place(connection, after)
    found: list[ListedCommand] = []
    if sort is Sort.USUAL and was_parked:
        bounds = {"first": 0, "last": NO_END if seq is None else seq - 1}
        found = _listed(connection, values | bounds, _PARKED_ONLY, limit, sort)
        seq = None
    if within is None:
        within = span(connection, _ROWS, wanted, seq, sort, None)
    bounds = {"first": within.first, "last": within.last}
    which = "AND c.state != 'parked'" if sort is Sort.USUAL else ""
    left = limit - len(found)
    return found + _listed(connection, values | bounds, which, left, sort)


def searched(
    connection: Connection, wanted: Filter, after: str | None, sort: Sort
) -> Span:
    """Return the numbers of the commands that one page searches."""
    values = _values(connection, wanted)
    seq, was_parked = _place(connection, after)
    place = None if sort is Sort.USUAL and was_parked else seq
    indexed = any(values.get(name) is not None for name in _INDEXED)
    return span(connection, _ROWS, wanted, place, sort, None if indexed else SCANNED)


def _listed(
    connection: Connection, values: dict[str, Any], which: str, limit: int, sort: Sort
) -> list[ListedCommand]:
    # Rows that an index finds are sorted: along the numbers lie all the others.
    is_indexed = which == _PARKED_ONLY or any(
        values.get(name) is not None for name in _INDEXED
    )
    number = "c.seq + 0" if is_indexed else "c.seq"
    is_oldest = sort is Sort.OLDEST
    rows: list[Any] = []
    for source in _SOURCES:
        query = f"""
            {_LISTED_COLUMNS}, seq FROM {source} c
            WHERE {where(_CONDITIONS, values)} {which}
              AND {number} >= :first AND {number} <= :last
            ORDER BY {number}{"" if is_oldest else " DESC"} LIMIT :limit
        """
        rows += connection.execute(query, given(values) | {"limit": limit})
    rows.sort(key=lambda row: row[-1], reverse=not is_oldest)
    return _with_asked(connection, [tuple(row[:-1]) for row in rows[:limit]])


def _with_asked(connection: Connection, rows: Sequence[Any]) -> list[ListedCommand]:
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


def _place(connection: Connection, after: str | None) -> tuple[int | None, bool]:
    """Return the number of a place in the list, and True among the parked commands.

    A place is the id of a command, or a number at which a page ended its search.
    """
    if after is None:
        return None, True
    if after.isascii() and after.isdigit() and len(after) < len(str(NO_END)):
        return int(after), False
    row = connection.execute(_PLACE, {"id": after}).fetchone()
    return (row[0], row[1] == "parked") if row else (None, True)


def _values(connection: Connection, wanted: Filter) -> dict[str, Any]:
    """Return the values of the conditions of a filter."""
    values: dict[str, Any] = {
        name: getattr(wanted, name)
        for name in ("state", "kind", "store", "connector", "object", "reason")
    }
    values |= {"since": wanted.since, "until": wanted.until}
    values["words"] = as_list(wanted.words)
    if wanted.state in _IDS:
        values[f"is_{wanted.state}"] = True
    if wanted.order:
        values["orders"] = as_list(order_ids(connection, wanted.order))
    if wanted.keys:
        values["keys"] = json.dumps(_ids_of(connection, wanted.keys))
    if wanted.sku:
        found = connection.execute(_VARIANTS, {"sku": wanted.sku}).fetchall()
        values["products"] = json.dumps([product for product, _ in found])
        values["variants"] = json.dumps([variant for _, variant in found])
    return values


def _ids_of(connection: Connection, keys: Sequence[str]) -> list[str]:
    """Return the ids that begin with one of the keys, which are hexadecimal."""
    values = [{"key": key, "behind": f"{key}g"} for key in keys]
    rows = [row for each in values for row in connection.execute(_KEYS, each)]
    return [row[0] for row in rows]


def count(connection: Connection, wanted: Filter) -> int:
    """Count the commands that `list_commands` would return without a limit."""
    return sum(row[0] for row in _of_both(connection, wanted, "count(*) AS commands"))


def _of_both(
    connection: Connection, wanted: Filter, columns: str, rest: str = "", **more: int
) -> list[Any]:
    """Return rows of the commands, and then of the stock targets, that match."""
    values = _values(connection, wanted)
    rows: list[Any] = []
    for source in _SOURCES:
        query = f"""
            SELECT {columns} FROM {source} c WHERE {where(_CONDITIONS, values)} {rest}
        """  # noqa: S608 - constants
        rows += connection.execute(query, given(values) | more)
    return rows


# What Backhaul sent before may have taken effect.
_CONTENT = """
    CASE WHEN c.kind = 'target' THEN 'target' WHEN c.sent_at IS NULL THEN 'unsent'
         ELSE 'sent' END
"""


def bulk_selected(connection: Connection, wanted: Filter) -> list[SelectedRows]:
    """Count the commands that match by what can be decided about them."""
    columns = f"c.store, c.state, {_CONTENT} AS content, count(*) AS found"
    rows = _of_both(connection, wanted, columns, "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return [SelectedRows(*row) for row in rows]


def bulk_rows(connection: Connection, wanted: Filter, limit: int) -> list[BulkRow]:
    """Return commands to decide about, the oldest first."""
    columns = f"c.id, c.state, {_CONTENT} AS content, c.seq"
    rest = "ORDER BY c.seq + 0 LIMIT :limit"
    rows = _of_both(connection, wanted, columns, rest, limit=limit)
    rows.sort(key=lambda row: row[-1])
    return [BulkRow(*row[:-1]) for row in map(tuple, rows[:limit])]


def count_states(connection: Connection) -> dict[str, int]:
    """Count the commands in each state that an index finds."""
    return {state: selection.count(connection, ids) for state, ids in _IDS.items()}


def open_commands(
    connection: Connection, state: str, limit: int
) -> list[ListedCommand]:
    """Return some commands that are planned, sending or uncertain."""
    rows = connection.execute(_OPEN, {"state": state, "limit": limit})
    return _with_asked(connection, rows.fetchall())


def planned(
    connection: Connection, wanted: Filter, limit: int
) -> list[tuple[Command, str]]:
    """Return planned commands with their reason, without damaged ones."""
    values = _values(connection, replace(wanted, state="planned"))
    query = f"""
        SELECT {columns("c")}, c.reason FROM commands c
        WHERE {where(_CONDITIONS, values)} ORDER BY seq LIMIT :limit
    """  # noqa: S608 - constants
    found_rows = connection.execute(query, given(values) | {"limit": limit})
    rows = [tuple(row) for row in found_rows]
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
