"""Lists of events, quarantine, deliveries, jobs, operators' actions and the mirror."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import asdict, replace

from backhaul.store.command_records import CommandDetail, ListedCommand, ListedTarget
from backhaul.store.filters import (
    ANY,
    NO_FILTER,
    QuarantineCounts,
    QuarantineGroup,
    SelectedRows,
    Sort,
)
from backhaul.store.mirror import Pass
from backhaul.store.operations import MetricSample, TrafficHour
from backhaul.store.operators import SavedView
from backhaul.store.read_records import (
    ChangedObject,
    DeliveryDetail,
    EventDetail,
    JobStatus,
    ListedAuditEntry,
    ListedDelivery,
    ListedEvent,
    ListedQuarantine,
    ListedRecord,
    ListedRun,
    ListedSecret,
    ListedUser,
    ListedWaitingRecord,
    OpenIncident,
    QuarantineDetail,
)
from backhaul.store.sql.commands import incidents, queries
from backhaul.store.sql.dialect import ascii_text, elements, member
from backhaul.store.sql.inbox import quarantine
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.mirror.sync_progress import COLUMNS as PASS_COLUMNS
from backhaul.store.sql.operations import kv, tokens
from backhaul.store.sql.read_models import filtered, recent_changes, record_runs, stock
from backhaul.store.sql.records import submission
from backhaul.store.sql.selection import NO_END, all_words, as_list, given, where
from backhaul.store.sql.stock_targets import adjustments, held_targets
from backhaul.store.sql.stock_targets.rows import SHOWN_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.bulk import BulkRow
    from backhaul.store.filters import Filter, Span
    from backhaul.store.matching import Command
    from backhaul.store.operations import HeldTargets
    from backhaul.store.records import RecordDetail, SourceRun
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_targets import HeldFilter
    from backhaul.store.tokens import ListedToken

T = TypeVar("T")

_EVENT = f"""
    SELECT {", ".join(EventDetail.__struct_fields__)} FROM events WHERE id = :id
"""  # noqa: S608 - constants
_STORE = "CASE WHEN q.source = 'event' THEN q.name ELSE coalesce(r.store, '') END"
_RECORD_KIND = member("r.payload", "$.kind")
_ROW_KIND = f"coalesce({_RECORD_KIND}, {member('r.payload', '$.read.kind')}, o.kind)"


def _named(field: str) -> str:
    """Return SQL for a value of a record, or of a row that never became one."""
    read = member("r.payload", f"$.read.values.{field}[0]")
    return f"coalesce({member('r.payload', f'$.record.{field}')}, nullif({read}, ''))"


_RECORD_ORDER, _RECORD_SKU = _named("order"), _named("sku")
# Only what failed is searched word by word. An event's body is bytes.
_TEXT = f"""
    q.reason || ' ' || q.name || ' ' || q.locator || ' '
    || CASE WHEN q.source = 'record' THEN coalesce(r.raw, '')
       ELSE {ascii_text("q.raw")} END
"""
_SELECTED_ROWS = f"""
    FROM quarantine q
    LEFT JOIN event_outcomes o ON o.id = {quarantine.EVENT_ID}
    LEFT JOIN records r
      ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
"""
_CONDITIONS: Mapping[str, str] = {
    "ids": f"""
        q.id IN (SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
    "state": "q.state = :state",
    "kind": f"{_ROW_KIND} = :kind",
    "store": f"{_STORE} = :store",
    "connector": "q.source = 'record' AND q.name = :connector",
    "order": f"""
        (ltrim({_RECORD_ORDER}, '#') = :order
         OR (o.kind = 'order' AND (o.object_id = :order OR EXISTS (
           SELECT 1 FROM orders m WHERE m.store = q.name AND m.id = o.object_id
           AND ltrim(m.name, '#') = :order))))
    """,  # noqa: S608 - constants
    "sku": f"""
        ({_RECORD_SKU} = :sku
         OR (q.reason_class = 'unknown_sku' AND q.subject = :sku)
         OR EXISTS (
           SELECT 1 FROM {elements("r.payload", "$.record.lines")} l
           WHERE {member("l.value", "$.sku")} = :sku))
    """,  # noqa: S608 - constants
    "reason": "q.reason_class = :reason",
    "subject": "q.subject = :subject",
    "like": """
        (q.reason_class, q.subject, q.reason) =
        (SELECT k.reason_class, k.subject, k.reason FROM quarantine k
         WHERE k.id = CAST(:like AS BIGINT))
    """,
    "since": "q.at >= :since",
    "until": "q.at < :until",
    "words": all_words(_TEXT),
    "before": "q.id < :before",
}
"""The condition of each term. A query has those of its filter alone, so that the engine
reads no joined table and parses no document without need."""
_QUARANTINE_ROWS = f"""
    SELECT q.id, q.at, q.source, q.name, q.locator, q.reason, q.reason_class, q.subject,
           q.state, {_STORE} AS store, {_ROW_KIND} AS kind,
           o.object_id, CASE WHEN o.object_id IS NOT NULL THEN q.raw END AS raw,
           (SELECT name FROM orders WHERE store = q.name AND id = o.object_id
            AND o.kind = 'order') AS mirrored,
           coalesce('order ' || {_RECORD_ORDER}, 'sku ' || {_RECORD_SKU}) AS named
    {_SELECTED_ROWS} WHERE {{where}} ORDER BY q.id DESC LIMIT :most
"""  # noqa: S608 - constants
_QUARANTINE_STATES = """
    SELECT state, count(*) FROM quarantine GROUP BY state ORDER BY state
"""
_QUARANTINE_GROUPS = f"""
    SELECT q.reason_class, q.subject,
           CASE q.reason_class WHEN 'value' THEN q.reason ELSE '' END AS cause,
           max(q.id), count(*) AS found, max(q.at) AS last_at
    {_SELECTED_ROWS} WHERE {{where}} GROUP BY 1, 2, 3
    ORDER BY found DESC, 1, 2, 3
"""
_QUARANTINE_IDS = f"SELECT q.id {_SELECTED_ROWS} WHERE {{where}} ORDER BY q.id"
_QUARANTINE_SELECTED = f"""
    SELECT {_STORE} AS at,
           CASE WHEN r.command_id IS NULL THEN q.state ELSE 'retried' END AS state,
           CASE WHEN q.source = 'event' THEN 'event'
                WHEN {member("r.payload", "$.read.kind")} IS NOT NULL THEN 'read'
                WHEN {_RECORD_KIND} IS NULL THEN 'bad'
                WHEN {_RECORD_KIND} IN ('kept', 'list') THEN {_RECORD_KIND}
                WHEN q.reason_class = 'needs_decision' THEN 'question'
                ELSE 'record' END
             AS content,
           count(*) AS found
    {_SELECTED_ROWS} WHERE {{where}} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_QUARANTINED = """
    SELECT q.id, q.source, q.name, q.key, q.raw, q.reason, q.locator, q.state, q.at,
           q.reported, r.payload, r.store, q.reason_class, q.subject, r.command_id,
           r.state
    FROM quarantine q LEFT JOIN records r
      ON q.source = 'record' AND r.instance = q.name AND r.key = q.key
    WHERE q.id = :id
"""
_STORE_OF_DELIVERY = "SELECT store FROM deliveries WHERE seq = :seq"
_WAITING_RECORDS = f"""
    SELECT id, received_at, store, instance, {member("payload", "$.kind")} AS kind,
           locator, reason, retry_at, key
    FROM records WHERE state = 'waiting' ORDER BY received_at, id LIMIT :limit
"""  # noqa: S608 - constants
_WEBHOOK_SECRETS = """
    SELECT store, fingerprint, CASE WHEN dropped_at IS NULL THEN 'accepted'
           ELSE 'dropped' END AS state, last_used_at, known_since, dropped_at, source
    FROM webhook_secrets ORDER BY store, known_since, fingerprint
"""
_USERS = """
    SELECT name, role, last_login_at, created_at,
        CASE WHEN identity IS NULL THEN 'password' ELSE 'oidc' END,
        CASE WHEN totp IS NULL THEN 0 ELSE 1 END, disabled_at
    FROM users ORDER BY name
"""
_SAVED_VIEWS = """
    SELECT id, name, filter, sort FROM saved_views
    WHERE who = :who AND list = :list ORDER BY name
"""
_SAMPLES = f"""
    SELECT {", ".join(MetricSample.__struct_fields__)} FROM metric_minutes
    WHERE at >= :since ORDER BY at, member
"""  # noqa: S608 - constants
_COUNTED = ", ".join(
    f"CAST(sum({name}) AS BIGINT)" for name in TrafficHour.__struct_fields__[1:]
)
_TRAFFIC = f"""
    SELECT substr(at, 1, 13) AS hour, {_COUNTED} FROM metric_minutes
    WHERE at >= :since GROUP BY 1 ORDER BY 1
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


class SqlLists:
    """The lists of the Reader, on a connection that only reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def events(
        self,
        wanted: Filter,
        limit: int,
        before: int | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedEvent]:
        return filtered.events(self._connection, wanted, limit, before, sort, within)

    def event(self, id_: int) -> EventDetail | None:
        rows = self._rows(_EVENT, {"id": id_})
        return EventDetail(*rows[0]) if rows else None

    def commands(
        self,
        wanted: Filter,
        limit: int,
        after: str | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedCommand]:
        return queries.list_commands(
            self._connection, wanted, limit, after, sort, within
        )

    def searched(
        self, rows: str, wanted: Filter, after: str | None, sort: Sort
    ) -> Span:
        if rows == "commands":
            return queries.searched(self._connection, wanted, after, sort)
        number = int(after) if after else None
        return filtered.searched(self._connection, rows, wanted, number, sort)

    def state_counts(self, rows: str) -> dict[str, int]:
        if rows == "commands":
            return queries.count_states(self._connection)
        if rows == "stock":
            return stock.count_states(self._connection)
        return filtered.count_states(self._connection, rows)

    def bulk_selected(self, rows: str, wanted: Filter) -> list[SelectedRows]:
        if rows == "commands":
            return queries.bulk_selected(self._connection, wanted)
        return filtered.bulk_selected(self._connection, wanted)

    def bulk_rows(self, rows: str, wanted: Filter, limit: int) -> list[BulkRow]:
        if rows == "commands":
            return queries.bulk_rows(self._connection, wanted, limit)
        return filtered.bulk_rows(self._connection, wanted, limit)

    def count_commands(self, wanted: Filter) -> int:
        return queries.count(self._connection, wanted)

    def plan(self, wanted: Filter, limit: int) -> list[tuple[Command, str]]:
        return queries.planned(self._connection, wanted, limit)

    def open_commands(self, state: str, limit: int) -> list[ListedCommand]:
        return queries.open_commands(self._connection, state, limit)

    def command(self, prefix: str) -> CommandDetail | None:
        return queries.detail(self._connection, prefix)

    def incidents(self) -> list[OpenIncident]:
        return [OpenIncident(*row) for row in self._rows(incidents.OPEN)]

    def quarantine(
        self, limit: int, before: int | None = None, wanted: Filter = NO_FILTER
    ) -> list[ListedQuarantine]:
        rows = self._selected(_QUARANTINE_ROWS, wanted, before=before, most=limit)
        return [ListedQuarantine(**_with_about(dict(row))) for row in rows]

    def quarantine_counts(self, wanted: Filter, most_groups: int) -> QuarantineCounts:
        rows = self._selected(_QUARANTINE_GROUPS, wanted)
        groups = [QuarantineGroup(*row) for row in rows]
        reasons: Counter[str] = Counter()
        for group in groups:
            reasons[group.reason_class] += group.rows
        states = dict(map(tuple, self._rows(_QUARANTINE_STATES)))
        return QuarantineCounts(
            states, dict(reasons.most_common()), groups[:most_groups]
        )

    def quarantine_ids(self, wanted: Filter) -> list[int]:
        return [row[0] for row in self._selected(_QUARANTINE_IDS, wanted)]

    def quarantine_selected(self, wanted: Filter) -> list[SelectedRows]:
        rows = self._selected(_QUARANTINE_SELECTED, wanted)
        return [SelectedRows(*row) for row in rows]

    def _selected(self, query: str, wanted: Filter, **more: int | None) -> list[Any]:
        """Return the rows of a query on the quarantine, with the terms of a filter."""
        values = given({**_values_of(wanted), **more})
        return self._rows(query.format(where=where(_CONDITIONS, values)), values)

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
        self,
        wanted: Filter,
        limit: int,
        before: int | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedDelivery]:
        return filtered.deliveries(
            self._connection, wanted, limit, before, sort, within
        )

    def delivery(self, seq: int) -> DeliveryDetail | None:
        return filtered.delivery(self._connection, seq)

    def store_of_delivery(self, seq: int) -> str | None:
        rows = self._rows(_STORE_OF_DELIVERY, {"seq": seq})
        return str(rows[0][0]) if rows else None

    def last_records(self, instance: str, limit: int) -> list[ListedRecord]:
        return record_runs.last_records(self._connection, instance, limit)

    def source_runs(self, instance: str) -> list[SourceRun]:
        return record_runs.source_runs(self._connection, instance)

    def record(self, id_: int) -> RecordDetail | None:
        try:
            return submission.detail(self._connection, id_)
        except OverflowError:
            return None

    def waiting_records(self, limit: int) -> list[ListedWaitingRecord]:
        rows = self._rows(_WAITING_RECORDS, {"limit": limit})
        return [ListedWaitingRecord(*row) for row in rows]

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
        return [
            replace(found, second_factor=bool(found.second_factor))
            for found in (ListedUser(*row) for row in self._rows(_USERS))
        ]

    def tokens(self) -> list[ListedToken]:
        return tokens.listed(self._connection)

    def saved_views(self, who: str, list_: str) -> list[SavedView]:
        rows = self._rows(_SAVED_VIEWS, {"who": who, "list": list_})
        return [SavedView(*row) for row in rows]

    def samples(self, since: str) -> list[MetricSample]:
        return [MetricSample(*row) for row in self._rows(_SAMPLES, {"since": since})]

    def traffic(self, since: str) -> list[TrafficHour]:
        return [TrafficHour(*row) for row in self._rows(_TRAFFIC, {"since": since})]

    def latest_changes(
        self, kind: str | None, limit: int, before: int | None = None
    ) -> list[ChangedObject]:
        return recent_changes.latest(self._connection, kind, limit, _end(before))

    def not_searched(self, before: int | None) -> int | None:
        return recent_changes.not_searched(self._connection, _end(before))

    def _rows(self, query: str, values: dict[str, Any] | None = None) -> list[Any]:
        try:
            return self._connection.execute(query, values or {}).fetchall()
        except OverflowError:
            return []  # no row has a number that is so large


def _values_of(wanted: Filter) -> dict[str, Any]:
    """Return the values of the terms of a filter; None for a term without condition."""
    state = wanted.state or (ANY if wanted.ids else "open")
    return {
        **asdict(wanted),
        "ids": as_list(wanted.ids),
        "words": as_list(wanted.words),
        "order": wanted.order and wanted.order.removeprefix("#"),
        "state": None if state == ANY else state,
    }


def _with_about(row: dict[str, Any]) -> dict[str, Any]:
    id_, raw, named = row.pop("object_id"), row.pop("raw"), row.pop("named")
    name = row.pop("mirrored") or (
        quarantine.name_in(quarantine.data_of(raw), id_) if raw else id_
    )
    return row | {"about": f"{row['kind']} {name}" if id_ else named or ""}


def _end(before: int | None) -> int:
    """Return a bound for ids; a condition for None would read all newer rows."""
    return NO_END if before is None else before
