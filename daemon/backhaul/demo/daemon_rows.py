"""What the comparison works on: the daemon's rows, causes, and findings."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.core.clock import from_text
from backhaul.store import database_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backhaul.store import Place


Row: TypeAlias = "dict[str, Any]"


class DaemonRows(Struct, frozen=True, kw_only=True):
    """One store's rows as the daemon keeps them, columns by name.

    `adopted` are effects that a restored database forgot to have asked for, `set_aside`
    events and records in quarantine or not handled, `replaced` the causes that commands
    would have of counts in whose place a newer one was put before their article was
    known, `sightings` when each order was first folded, `scans` how long each applied
    command of a scanner took from the receipt (`began`) to the store's answer
    (`ended`).
    """

    orders: Sequence[Row] = ()
    order_items: Sequence[Row] = ()
    shipments: Sequence[Row] = ()
    products: Sequence[Row] = ()
    variants: Sequence[Row] = ()
    customers: Sequence[Row] = ()
    inventory_levels: Sequence[Row] = ()
    stock_ledger: Sequence[Row] = ()
    commands: Sequence[Row] = ()
    adopted: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    set_aside: Sequence[Row] = ()
    replaced: Sequence[Row] = ()
    recognized: Sequence[Row] = ()
    sightings: Sequence[Row] = ()
    scans: Sequence[Row] = ()


class Progress(Struct, frozen=True):
    """How much has come through, and how much waits.

    `backfills` is the number of stores whose backfill has ended.
    """

    mirrored: int
    fulfilled: int
    cancelled: int
    adjusted: int
    parked: int
    to_fold: int
    open_commands: int
    waiting_records: int
    untold: int
    newest_event: int
    in_doubt: int
    backfills: int

    @property
    def waiting(self) -> int:
        moving = self.to_fold + self.open_commands + self.waiting_records
        return moving + self.untold


def read_daemon_rows(database: Place, store: str, scanner: str) -> DaemonRows:
    """Read everything in one transaction. Raises BackhaulError."""
    with database_at(database).connection() as connection:
        connection.execute("BEGIN")
        values = {"store": store, "scanner": scanner}
        tables = {
            name: [dict(row) for row in connection.execute(query, values)]
            for name, query in _TABLES.items()
        }
    tables["recognized"] = list(map(_parcel, tables["recognized"]))
    tables["recognized"] = [each for each in tables["recognized"] if each]
    return DaemonRows(**tables)


def _parcel(row: Row) -> Row:
    """Return carrier and number of a fulfillment's record; nothing of other kinds."""
    payload = json.loads(row["payload"])
    if payload.get("kind") != "fulfill":
        return {}
    record = payload["record"]
    names = {"company": "tracking_company", "number": "tracking_number"}
    return {name: record.get(key) for name, key in names.items()}


def read_progress(database: Place) -> Progress:
    """Count, on a connection of its own. Raises BackhaulError."""
    with database_at(database).connection() as connection:
        return Progress(*connection.execute(_PROGRESS).fetchone())


def read_totals(database: Place) -> tuple[int, int]:
    """Return how many webhooks were accepted, and how many commands were confirmed."""
    with database_at(database).connection() as connection:
        webhooks, commands = connection.execute(_TOTALS).fetchone()
    return webhooks, commands


def read_owners(database: Place) -> dict[str, str]:
    """Return the address of the owner's dashboard, by store."""
    with database_at(database).connection() as connection:
        return {row[0]: row["admin_url"] for row in connection.execute(_OWNERS)}


def counted_since(database: Path, instance: str, at: str) -> int:
    """Return of how many articles a back office has counted again since the end.

    That is what the store knows of, and what the back office did itself until `at`.
    """
    values = {"causes": f"record {instance} %", "at": at}
    with database_at(database).connection() as connection:
        return int(connection.execute(_COUNTED, values).fetchone()[0])


def records_from(database: Path, instance: str, locator: str) -> int:
    """Return how many records a back office handed in; `locator` is a LIKE pattern."""
    values = {"instance": instance, "locator": locator}
    with database_at(database).connection() as connection:
        return int(connection.execute(_RECORDS, values).fetchone()[0])


def recent_latency_seconds(database: Place) -> float | None:
    """Return the median time from placed to mirrored of the last orders."""
    with database_at(database).connection() as connection:
        spans = [map(from_text, row) for row in connection.execute(_RECENT)]
    taken = sorted((folded - placed).total_seconds() for placed, folded in spans)
    return taken[len(taken) // 2] if taken else None


def damage(database: Path) -> list[str]:
    """Return what SQLite finds wrong with the file: nothing, if all is well."""
    return database_at(database).faults(deep=True)


_MIRROR = (
    "orders",
    "order_items",
    "shipments",
    "products",
    "variants",
    "customers",
    "inventory_levels",
    "stock_ledger",
    "deliveries",
)
_TABLES = {
    **{name: f"SELECT * FROM {name} WHERE store = :store" for name in _MIRROR},  # noqa: S608 - constants
    "commands": "SELECT * FROM commands_and_targets WHERE store = :store",
    "adopted": "SELECT * FROM adopted_effects WHERE store = :store",
    "set_aside": """
        SELECT 'event ' || id AS name, state, coalesce(detail, '') AS reason
        FROM events WHERE state IN ('quarantined', 'unhandled') AND store = :store
        UNION ALL
        SELECT source || ' ' || coalesce(nullif(locator, ''), key), 'quarantined',
               reason FROM quarantine WHERE source = 'record'
    """,
    "replaced": """
        SELECT 'record ' || instance || ' ' || locator AS cause
        FROM records WHERE state = 'replaced' AND store = :store
    """,
    "recognized": """
        SELECT payload FROM records
        WHERE state = 'accepted' AND command_id IS NULL AND store = :store
    """,
    "sightings": """
        SELECT object_id AS order_id, min(folded_at) AS folded_at FROM event_outcomes
        WHERE kind = 'order' AND state = 'folded' GROUP BY object_id
    """,
    "scans": """
        SELECT r.received_at AS began, c.settled_at AS ended
        FROM records r JOIN commands_and_targets c ON c.id = r.command_id
        WHERE r.store = :store AND r.instance = :scanner AND c.state = 'applied'
    """,
}
_PROGRESS = """
    SELECT (SELECT count(*) FROM orders),
           (SELECT count(*) FROM commands WHERE kind = 'fulfill' AND state = 'applied'),
           (SELECT count(*) FROM commands WHERE kind = 'cancel' AND state = 'applied'),
           (SELECT count(*) FROM commands WHERE kind = 'adjust' AND state = 'applied'),
           (SELECT count(*) FROM commands_and_targets WHERE state = 'parked'),
           (SELECT count(*) FROM inbox) - (SELECT count(*) FROM event_outcomes),
           (SELECT count(*) FROM commands_and_targets
             WHERE state IN ('planned', 'sending', 'uncertain')),
           (SELECT count(*) FROM records WHERE state = 'waiting'),
           (SELECT count(*) FROM deliveries
             WHERE state IN ('planned', 'sending', 'uncertain'))
             + (SELECT count(*) FROM change_subscribers s WHERE EXISTS (
                 SELECT 1 FROM changes c
                 WHERE c.store = s.store AND c.id > s."cursor")),
           (SELECT coalesce(max(id), 0) FROM inbox),
           (SELECT count(*) FROM refetch_queue),
           (SELECT count(*) FROM kv WHERE name LIKE 'backfill:%')
"""
_OWNERS = """
    SELECT o.*, m.admin_url FROM owners o JOIN members m ON m.id = o.member
"""
_TOTALS = """
    SELECT (SELECT count(*) FROM inbox WHERE kind = 'delivery'),
           (SELECT count(*) FROM commands WHERE state = 'applied')
"""
_RECORDS = """
    SELECT count(*) FROM records WHERE instance = :instance AND locator LIKE :locator
"""
_COUNTED = """
    WITH moved AS (
      SELECT max(at) AS at FROM (SELECT :at AS at UNION ALL SELECT at FROM stock_ledger
        UNION ALL SELECT placed_at FROM orders UNION ALL SELECT cancelled_at FROM orders
        UNION ALL SELECT shipped_at FROM shipments))
    SELECT count(DISTINCT payload ->> 'variant_id') FROM commands_and_targets, moved
    WHERE kind = 'target' AND state = 'applied' AND cause LIKE :causes
      AND payload ->> 'as_of' > moved.at
"""
_RECENT = """
    SELECT o.placed_at, min(e.folded_at)
    FROM (SELECT id, placed_at FROM orders ORDER BY number DESC LIMIT 50) o
    JOIN event_outcomes e ON e.object_id = o.id GROUP BY o.id, o.placed_at
"""


class Kind(StrEnum):
    """How the two sides disagree."""

    LOST = "lost"
    """Acknowledged, yet without effect and without a command that still owes it."""
    DOUBLED = "doubled"
    """In effect more than once."""
    UNEXPECTED = "unexpected"
    """In effect although nobody asked for it."""
    DIFFERING = "differing"
    """On both sides, but not the same."""
    PARKED = "parked"
    """Waits for a person: it may have had its effect once, or not at all."""


class Finding(Struct, frozen=True):
    """One disagreement: about what, and in which way."""

    kind: Kind
    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.what}"


class Placement(Struct, frozen=True):
    """An order that a shopper placed; `lines` are units by variant id."""

    order_id: str
    number: int
    lines: Mapping[str, int]


class Cause(Struct, frozen=True, kw_only=True):
    """Something the back office said, which must become one command.

    A fulfillment is known by its order and tracking number, a cancellation by its
    order, an adjustment and a count (`target`) by where they stand (`instance` and
    `locator`). `acknowledged` is whether the back office knows that it was heard.
    """

    kind: str
    instance: str
    locator: str
    order_id: str = ""
    tracking_company: str = ""
    tracking_number: str = ""
    restock: bool = True
    sku: str = ""
    delta: int = 0
    quantity: int = 0
    counted_at: str = ""
    acknowledged: bool = True

    def __str__(self) -> str:
        return f"{self.kind} by {self.instance}, {self.locator}"
