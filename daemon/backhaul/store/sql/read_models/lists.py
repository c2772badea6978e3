"""Lists of events, quarantine, deliveries, jobs, operators' actions and the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import asdict, replace

from backhaul.store.mirror import Pass
from backhaul.store.operations import MetricSample
from backhaul.store.read_records import (
    ChangedObject,
    CommandDetail,
    EventDetail,
    JobStatus,
    ListedAuditEntry,
    ListedCommand,
    ListedDelivery,
    ListedEvent,
    ListedQuarantine,
    ListedRecord,
    ListedRun,
    ListedSecret,
    ListedTarget,
    ListedUser,
    OpenIncident,
    QuarantineDetail,
)
from backhaul.store.sql.commands import incidents, queries
from backhaul.store.sql.commands.queries import NO_END
from backhaul.store.sql.inbox import quarantine
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.mirror.sync_progress import COLUMNS as PASS_COLUMNS
from backhaul.store.sql.operations import kv
from backhaul.store.sql.read_models.timeline import ORDER_NAME
from backhaul.store.sql.stock_targets import adjustments, held_targets
from backhaul.store.sql.stock_targets.rows import SHOWN_STATE

if TYPE_CHECKING:
    from backhaul.store.matching import Command
    from backhaul.store.operations import HeldTargets
    from backhaul.store.read_models import CommandFilter
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_targets import HeldFilter

T = TypeVar("T")

_EVENTS = """
    SELECT id, received_at, store, source, topic, state, kind, object_id, coalesce(
             (SELECT name FROM orders WHERE store = e.store AND id = e.object_id),
             (SELECT title FROM products WHERE store = e.store AND id = e.object_id)
           ) AS about, detail
    FROM events e
    WHERE (:state IS NULL OR state = :state) AND (:topic IS NULL OR topic = :topic)
      AND id < :before ORDER BY id DESC LIMIT :limit
"""
_EVENT = f"""
    SELECT {", ".join(EventDetail.__struct_fields__)} FROM events WHERE id = :id
"""  # noqa: S608 - constants
_QUARANTINED = """
    SELECT q.id, q.source, q.name, q.key, q.raw, q.reason, q.locator, q.state, q.at,
           q.reported, r.payload, r.store
    FROM quarantine q LEFT JOIN records r
      ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
    WHERE q.id = :id
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
    FROM deliveries d WHERE (:instance IS NULL OR instance = :instance)
      AND (:state IS NULL OR state = :state)
    ORDER BY seq DESC LIMIT :limit
"""  # noqa: S608 - constants
_STORE_OF_DELIVERY = "SELECT store FROM deliveries WHERE seq = :seq"
_LAST_RECORDS = """
    SELECT received_at, key, state, reason, command_id FROM records
    WHERE instance = :instance ORDER BY id DESC LIMIT :limit
"""
_WEBHOOK_SECRETS = """
    SELECT store, fingerprint, CASE WHEN dropped_at IS NULL THEN 'accepted'
           ELSE 'dropped' END AS state, last_used_at, known_since, dropped_at, source
    FROM webhook_secrets ORDER BY store, known_since, fingerprint
"""
_USERS = "SELECT name, role, last_login_at, created_at FROM users ORDER BY name"
_SAMPLES = f"""
    SELECT {", ".join(MetricSample.__struct_fields__)} FROM metric_samples
    WHERE at >= :since ORDER BY at
"""  # noqa: S608 - constants
_PASSES = f"""
    SELECT {PASS_COLUMNS} FROM passes WHERE id < :before
    ORDER BY id DESC LIMIT :limit
"""  # noqa: S608 - constants
_AUDIT = """
    SELECT id, at, who, action, detail, command_id, state_before, state_after
    FROM audit
    WHERE (:who IS NULL OR who = :who
           OR substr(who, 1, length(:who) + 4) = :who || ' on ')
      AND id < :before
    ORDER BY id DESC LIMIT :limit
"""
_JOBS = f"SELECT {', '.join(JobStatus.__struct_fields__)} FROM job_state"  # noqa: S608 - constants
_RUNS = f"""
    SELECT {", ".join(ListedRun.__struct_fields__)} FROM job_runs
    WHERE id < :before ORDER BY id DESC LIMIT :limit
"""  # noqa: S608 - constants
_TARGET_ROWS = f"""
    SELECT t.seq, t.id, t.store, t.product_id, {SHOWN_STATE}, t.reason, t.created_at,
           t.quantity, t.as_of, t.variant_id, v.sku, l.stock
    FROM stock_targets t
    LEFT JOIN variants v
      ON v.store = t.store AND v.id = t.variant_id AND {NEWEST}
    LEFT JOIN inventory_levels l ON l.store = t.store AND l.variant_id = t.variant_id
"""  # noqa: S608 - constants
_TARGETS = f"""
    {_TARGET_ROWS}
    WHERE (:state IS NULL OR {SHOWN_STATE} = :state)
      AND (:store IS NULL OR t.store = :store) AND t.seq < :before
    ORDER BY t.seq DESC LIMIT :limit
"""
_HELD = f"{_TARGET_ROWS} WHERE {held_targets.MATCHES} ORDER BY t.seq"
SCANNED = 5_000
"""The changes that one page reads at most: some milliseconds."""
_LATEST_CHANGES = f"""
    SELECT max(id) AS change, kind, store, object_id FROM (
        SELECT id, kind, store, object_id FROM changes
        WHERE id < :before ORDER BY id DESC LIMIT {SCANNED}) latest
    WHERE :kind IS NULL OR kind = :kind
    GROUP BY kind, store, object_id ORDER BY change DESC LIMIT :limit
"""  # noqa: S608 - constants
_NOT_SEARCHED = f"""
    SELECT id + 1 FROM changes
    WHERE id < :before ORDER BY id DESC LIMIT 1 OFFSET {SCANNED}
"""  # noqa: S608 - constants
_PRODUCT_TITLE = "SELECT title FROM products WHERE store = :store AND id = :id"
_TITLES = {
    "level": _PRODUCT_TITLE,  # a change of stock names its product
    "order": f"SELECT {ORDER_NAME} FROM orders WHERE store = :store AND id = :id",  # noqa: S608 - constants
    "product": _PRODUCT_TITLE,
    "customer": "SELECT coalesce(name, email, id) FROM customers"
    " WHERE store = :store AND id = :id",
}


class SqlLists:
    """The lists of the Reader, on a connection that only reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def events(
        self,
        state: str | None,
        topic: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[ListedEvent]:
        values = {
            "state": state,
            "topic": topic,
            "limit": limit,
            "before": _end(before),
        }
        return [ListedEvent(*row) for row in self._rows(_EVENTS, values)]

    def event(self, id_: int) -> EventDetail | None:
        rows = self._rows(_EVENT, {"id": id_})
        return EventDetail(*rows[0]) if rows else None

    def commands(
        self, wanted: CommandFilter, limit: int, after: str | None = None
    ) -> list[ListedCommand]:
        return queries.list_commands(self._connection, wanted, limit, after)

    def count_commands(self, wanted: CommandFilter) -> int:
        return queries.count(self._connection, wanted)

    def plan(self, wanted: CommandFilter, limit: int) -> list[tuple[Command, str]]:
        return queries.planned(self._connection, wanted, limit)

    def open_commands(self, state: str, limit: int) -> list[ListedCommand]:
        return queries.open_commands(self._connection, state, limit)

    def command(self, prefix: str) -> CommandDetail | None:
        return queries.detail(self._connection, prefix)

    def incidents(self) -> list[OpenIncident]:
        return [OpenIncident(*row) for row in self._rows(incidents.OPEN)]

    def quarantine(
        self, limit: int, before: int | None = None
    ) -> list[ListedQuarantine]:
        rows = quarantine.list_open(self._connection, limit, before)
        return [ListedQuarantine(**row) for row in rows]

    def quarantined(self, id_: int) -> QuarantineDetail | None:
        rows = self._rows(_QUARANTINED, {"id": id_})
        if not rows:
            return None
        found = QuarantineDetail(*rows[0])
        if found.source != "record":
            return found
        return replace(found, raw=quarantine.text_of(found.raw))

    def can_correct(self, id_: int) -> bool:
        return quarantine.may_correct(self._connection, id_)

    def deliveries(
        self, instance: str | None, state: str | None, limit: int
    ) -> list[ListedDelivery]:
        values = {"instance": instance, "state": state, "limit": limit}
        return [ListedDelivery(*row) for row in self._rows(_DELIVERIES, values)]

    def store_of_delivery(self, seq: int) -> str | None:
        rows = self._rows(_STORE_OF_DELIVERY, {"seq": seq})
        return str(rows[0][0]) if rows else None

    def last_records(self, instance: str, limit: int) -> list[ListedRecord]:
        values = {"instance": instance, "limit": limit}
        return [ListedRecord(*row) for row in self._rows(_LAST_RECORDS, values)]

    def stores(self) -> list[str]:
        found = {
            row[0]
            for row in self._rows("SELECT DISTINCT store FROM commands_and_targets")
        }
        return sorted(found | kv.with_prefix(self._connection, "facts:").keys())

    def instances(self) -> list[str]:
        query = "SELECT DISTINCT instance FROM deliveries"
        return [row[0] for row in self._rows(query)]

    def jobs(self) -> dict[tuple[str, str], JobStatus]:
        found = [JobStatus(*row) for row in self._rows(_JOBS)]
        return {(each.job, each.store): each for each in found}

    def job_runs(self, limit: int, before: int | None = None) -> list[ListedRun]:
        values = {"limit": limit, "before": _end(before)}
        return [ListedRun(*row) for row in self._rows(_RUNS, values)]

    def passes(self, limit: int, before: int | None = None) -> list[Pass]:
        values = {"limit": limit, "before": _end(before)}
        return [Pass(*row) for row in self._rows(_PASSES, values)]

    def audit_entries(
        self, who: str | None, limit: int, before: int | None = None
    ) -> list[ListedAuditEntry]:
        values = {"who": who, "limit": limit, "before": _end(before)}
        return [ListedAuditEntry(*row) for row in self._rows(_AUDIT, values)]

    def stock_targets(
        self,
        state: str | None,
        store: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[ListedTarget]:
        values = {
            "state": state,
            "store": store,
            "limit": limit,
            "before": _end(before),
        }
        return [ListedTarget(*row) for row in self._rows(_TARGETS, values)]

    def held_targets(self, wanted: HeldFilter) -> list[ListedTarget]:
        return [ListedTarget(*row) for row in self._rows(_HELD, asdict(wanted))]

    def held_by_store(self) -> list[HeldTargets]:
        return held_targets.summary(self._connection)

    def stopped_targets(self) -> dict[str, str]:
        return adjustments.stop_reasons(self._connection)

    def webhook_secrets(self) -> list[ListedSecret]:
        return [ListedSecret(*row) for row in self._rows(_WEBHOOK_SECRETS)]

    def users(self) -> list[ListedUser]:
        return [ListedUser(*row) for row in self._rows(_USERS)]

    def samples(self, since: str) -> list[MetricSample]:
        return [MetricSample(*row) for row in self._rows(_SAMPLES, {"since": since})]

    def latest_changes(
        self, kind: str | None, limit: int, before: int | None = None
    ) -> list[ChangedObject]:
        values = {"kind": kind, "limit": limit, "before": _end(before)}
        return [
            ChangedObject(change, kind, store, id_, self._title(kind, store, id_))
            for change, kind, store, id_ in self._rows(_LATEST_CHANGES, values)
        ]

    def not_searched(self, before: int | None) -> int | None:
        rows = self._rows(_NOT_SEARCHED, {"before": _end(before)})
        return int(rows[0][0]) if rows else None

    def _title(self, kind: str, store: str, id_: str) -> str:
        query = _TITLES.get(kind)
        rows = self._rows(query, {"store": store, "id": id_}) if query else []
        return str(rows[0][0]) if rows else id_

    def _rows(self, query: str, values: dict[str, Any] | None = None) -> list[Any]:
        try:
            return self._connection.execute(query, values or {}).fetchall()
        except OverflowError:
            return []  # no row has a number that is so large


def _end(before: int | None) -> int:
    """Return a bound for ids; a condition for None would read all newer rows."""
    return NO_END if before is None else before
