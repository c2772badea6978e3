"""Reading for people: lists, one object whole, and the life of a thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from backhaul.store.sql.commands import incidents, queries
from backhaul.store.sql.inbox import quarantine_rows, unreadable_orders
from backhaul.store.sql.mirror import payment_states
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.mirror.search_index import CURSOR as SEARCH_CURSOR
from backhaul.store.sql.mirror.sync_progress import sync_states
from backhaul.store.sql.read_models import status_lists, timeline
from backhaul.store.sql.records import unused_of_order
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sqlite import full_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.store.matching import Command
    from backhaul.store.mirror import SyncState
    from backhaul.store.read_models import CommandFilter, Row
    from backhaul.store.sql.family import Connection

_EVENTS = """
    SELECT id, received_at, store, source, topic, state, kind, object_id, coalesce(
             (SELECT name FROM orders WHERE store = e.store AND id = e.object_id),
             (SELECT title FROM products WHERE store = e.store AND id = e.object_id)
           ) AS about, detail
    FROM events e
"""
_DELIVERIES = f"""
    SELECT seq, coalesce(settled_at, sent_at, created_at) AS at, instance, topic,
           coalesce(
             (SELECT name FROM orders WHERE store = d.store AND id = d.object_id),
             (SELECT sku FROM variants v
              WHERE store = d.store AND id = d.object_id AND {NEWEST}),
             (SELECT title FROM products WHERE store = d.store AND id = d.object_id),
             object_id) AS about, state, reason, attempts, object_id, id, reference,
           created_at, due_at, sent_at, settled_at
    FROM deliveries d WHERE (?1 IS NULL OR instance = ?1) AND (?2 IS NULL OR state = ?2)
    ORDER BY seq DESC LIMIT ?3
"""  # noqa: S608 - constants
_STORES = """
    SELECT store FROM commands
    UNION SELECT substr(name, 7) FROM marks WHERE substr(name, 1, 6) = 'facts:'
"""
_WEBHOOK_SECRETS = """
    SELECT store, fingerprint, iif(dropped_at IS NULL, 'accepted', 'dropped') AS state,
           last_used_at, known_since, dropped_at, source
    FROM webhook_secrets ORDER BY store, known_since, fingerprint
"""


class SqlLists:
    """The part of the Reader that the command line uses."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Any = connection

    def events(
        self,
        state: str | None,
        topic: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[Row]:
        """Return the newest events first, from before the one with that number."""
        return self._rows(
            f"{_EVENTS} WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR topic = ?2)"
            " AND (?4 IS NULL OR id < ?4) ORDER BY id DESC LIMIT ?3",
            (state, topic, limit, before),
        )

    def event(self, id_: int) -> Row | None:
        """Return one event with headers and body."""
        rows = self._rows("SELECT * FROM events WHERE id = ?", (id_,))
        return rows[0] if rows else None

    def commands(
        self, wanted: CommandFilter, limit: int, after: str | None = None
    ) -> list[Row]:
        """Return commands: those that wait for a person first, then the newest.

        `after` is the id of the one that the list goes on after.
        """
        return queries.listed(self._connection, wanted, limit, after)

    def count_commands(self, wanted: CommandFilter) -> int:
        """Count the commands that `commands` would return without a limit."""
        return queries.count(self._connection, wanted)

    def plan(self, wanted: CommandFilter, limit: int) -> list[tuple[Command, str]]:
        """Return what is planned, with the reason, in the order of planning."""
        return queries.planned(self._connection, wanted, limit)

    def command(self, prefix: str) -> Row | None:
        """Return the only command whose id begins so, with all that is known of it."""
        return queries.whole(self._connection, prefix)

    def incidents(self) -> list[Row]:
        """Return the incidents that no operator has resolved, the oldest first."""
        return self._rows(incidents.OPEN, ())

    def quarantine(self, limit: int, before: int | None = None) -> list[Row]:
        """Return the newest open rows first, from before the one with that number."""
        return quarantine_rows.list_open(self._connection, limit, before)

    def quarantined(self, id_: int) -> Row | None:
        """Return one quarantined row whole."""
        rows = self._rows("SELECT * FROM quarantine WHERE id = ?", (id_,))
        return rows[0] if rows else None

    def deliveries(
        self, instance: str | None, state: str | None, limit: int
    ) -> list[Row]:
        """Return what instances are told, the newest first."""
        return self._rows(_DELIVERIES, (instance, state, limit))

    def stores(self) -> list[str]:
        """Return the stores that were met, or that something was asked of."""
        return [row["store"] for row in self._rows(_STORES, ())]

    def instances(self) -> list[str]:
        """Return the instances that were told something."""
        query = "SELECT DISTINCT instance FROM deliveries"
        return [row["instance"] for row in self._rows(query, ())]

    def jobs(self) -> dict[tuple[str, str], Row]:
        """Return where each scheduled job stands, by its name and store."""
        rows = self._rows("SELECT * FROM job_state", ())
        return {(row["job"], row["store"]): row for row in rows}

    def find_objects(self, kind: str, name: str) -> list[Row]:
        """Return the orders, products, variants or customers that may be meant.

        An object that is not mirrored is returned where an event or a record names it,
        with the reason as `mirrored`.
        """
        phrase = '"' + name.replace('"', '""').replace("\0", "") + '"'
        values = {"name": name, "number": name.removeprefix("#"), "phrase": phrase}
        found = self._rows(timeline.FIND[kind], values)
        found = found or quarantine_rows.objects_named(self._connection, kind, name)
        if found or kind != "order":
            return found
        return unused_of_order.orders_named(self._connection, name)

    def searched_in(self, kind: str) -> str:
        """Say where `objects` looks, and how much there is."""
        (counts,) = self._rows(_MIRRORED, ())
        return timeline.LOOKED_IN[kind].format(**counts)

    def timeline(self, kind: str, found: Row) -> list[Row]:
        """Return the life of what `objects` found, in order of time."""
        is_variant = kind == "sku"
        values = {
            "store": found["store"],
            "id": found["id"],
            "object": found["product_id"] if is_variant else found["id"],
            "variant": found["id"] if is_variant else None,
        }
        rows = self._rows(timeline.LIFE[kind], values)
        if kind == "order":
            rows += unused_of_order.timeline_rows(self._connection, found)
            rows.sort(key=lambda row: (row["at"] or "", row["turn"]))
        return rows

    def search(
        self, text: str, kind: str | None, limit: int, skip: int = 0
    ) -> list[Row]:
        """Return the objects that have all these words, best first, but for `skip`."""
        rows = full_text.find(self._connection, text, kind, limit, skip)
        if rows or skip:
            return rows
        return quarantine_rows.search(self._connection, text, kind)[:limit]

    def unindexed(self) -> int:
        """Return how many changes the search index does not know yet."""
        (row,) = self._rows(_UNINDEXED, (SEARCH_CURSOR,))
        return int(row["n"])

    def counts(self) -> Row:
        """Return what a person wants to know at a glance."""
        (row,) = self._rows(_COUNTS, ())
        states = "SELECT state, count(*) AS n FROM commands GROUP BY state"
        commands = {r["state"]: r["n"] for r in self._rows(states, ())}
        unread = unreadable_orders.list_all(self._connection)
        unknown = self._rows(_UNKNOWN_TOPICS, ())
        return {
            **row,
            "commands": commands,
            "unreadable_orders": [asdict(order) for order in unread],
            "incidents": self.incidents(),
            "unknown_statuses": [
                asdict(each)
                for each in payment_states.unknown_statuses(self._connection)
            ],
            "unknown_topics": {row["topic"]: row["n"] for row in unknown},
        }

    def overview(self, stores: Iterable[str], instances: Iterable[str]) -> Row:
        """Return of each store and instance what a person looks at first."""
        return {
            "stores": status_lists.stores(self._connection, stores),
            "connectors": status_lists.connectors(self._connection, instances),
            "oldest_planned_at": status_lists.oldest_planned(self._connection),
        }

    def stopped_targets(self) -> dict[str, str]:
        """Return by store why its counts are not made true."""
        return adjustments.stop_reasons(self._connection)

    def confirmations(self) -> Row:
        """Return how long effects took to come back, sent to echo, in the last hour."""
        rows = self._rows(_CONFIRMATIONS, ())
        seconds = [round(row["seconds"], 3) for row in rows]
        if not seconds:
            return {"number": 0, "median_seconds": None, "p99_seconds": None}
        return {
            "number": len(seconds),
            "median_seconds": seconds[(len(seconds) - 1) // 2],
            "p99_seconds": seconds[(len(seconds) - 1) * 99 // 100],
        }

    def webhook_secrets(self) -> list[Row]:
        """Return what is known of each webhook secret, never the secret itself."""
        return self._rows(_WEBHOOK_SECRETS, ())

    def consistency(self) -> dict[str, SyncState]:
        """Return since when each store's mirror is known to be equal, and what not."""
        return sync_states(self._connection)

    def _rows(self, query: str, values: Any) -> list[Row]:
        return [dict(row) for row in self._iterate(query, values)]

    def _iterate(self, query: str, values: Any) -> Iterator[Any]:
        try:
            return iter(self._connection.execute(query, values).fetchall())
        except OverflowError:
            return iter(())  # no row has a number that large


_MIRRORED = """
    SELECT (SELECT count(*) FROM orders) AS orders,
           (SELECT count(*) FROM products) AS products,
           (SELECT count(*) FROM variants) AS variants,
           (SELECT count(*) FROM customers) AS customers
"""
_UNINDEXED = """
    SELECT count(*) AS n FROM changes
    WHERE id > coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0
"""
_CONFIRMATIONS = """
    SELECT (julianday(e.at) - julianday(c.sent_at)) * 86400 AS seconds
    FROM echoes e JOIN commands c ON c.id = e.command_id
    WHERE e.command_id IS NOT NULL AND c.sent_at IS NOT NULL
      AND e.at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour') ORDER BY seconds
"""
RECENT_EVENTS = 20_000
"""Events that are looked through for unknown topics, the newest first."""
_UNKNOWN_TOPICS = f"""
    SELECT topic, count(*) AS n FROM (
        SELECT topic, state, detail, folded_at FROM event_outcomes
        ORDER BY id DESC LIMIT {RECENT_EVENTS})
    WHERE state = 'unhandled' AND detail NOT LIKE 'belongs to%'
      AND folded_at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')
    GROUP BY topic ORDER BY n DESC, topic
"""  # noqa: S608 - constants
_COUNTS = """
    SELECT (SELECT coalesce(max(id), 0) FROM inbox) AS events,
           (SELECT coalesce(max(id), 0) FROM inbox)
             - (SELECT coalesce(max(id), 0) FROM event_outcomes) AS to_fold,
           (SELECT count(*) FROM rereads) AS in_doubt,
           (SELECT received_at FROM inbox ORDER BY id DESC LIMIT 1) AS last_event_at,
           (SELECT count(*) FROM orders) AS orders,
           (SELECT count(*) FROM products WHERE deleted_at IS NULL) AS products,
           (SELECT count(*) FROM records WHERE state = 'waiting') AS waiting_records,
           (SELECT count(*) FROM quarantine WHERE state = 'open') AS quarantined
"""
