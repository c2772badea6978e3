"""Tests of what programs beside the daemon read: tables, events and single facts."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Item
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.database import StoredWebhook
from backhaul.store.export_and_query import EventFilter
from backhaul.store.filters import Filter
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.testing.command_scenes import plan, sent
from backhaul.store.testing.event_scenes import (
    NOON,
    append,
    arrive,
    fold_all_with,
    fold_with,
    webhook,
)
from backhaul.store.testing.mirror_scenes import (
    order,
    rows_of,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import MirrorTests, StoreConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.scenes import TestClock


HOOK = "wh_7"


def found_webhook(store: Store, after: int = 0) -> StoredWebhook | None:
    """Return the test webhook that arrived after an event."""
    names = [HOOK, "evt_9", ""]
    return database_at(store.place).find_test_webhook(after, "main", names)


class DatabaseReadsConformance(StoreConformance):
    """Tests of the reads of `Database`, while a store works on it."""

    async def test_the_last_event_is_the_newest(self, store: Store) -> None:
        assert database_at(store.place).last_event() == 0
        await arrive(store)
        event = await arrive(store, name="other")
        assert database_at(store.place).last_event() == event

    @pytest.mark.parametrize(
        ("topic", "body"),
        [
            ("webhooks/test", b"{}"),
            ("", b'{"webhookId":"wh_7"}'),
            ("orders/create", b'\xff{"eventId":"evt_9"}'),
        ],
    )
    async def test_a_test_webhook_is_known_by_its_topic_or_its_body(
        self, topic: str, body: bytes, store: Store
    ) -> None:
        await arrive(store)
        event = await arrive(store, body, topic=topic)
        await arrive(store)
        assert found_webhook(store) == StoredWebhook(event, topic, is_test=True)

    async def test_any_other_webhook_is_the_first(self, store: Store) -> None:
        first = await arrive(store, b'{"id":"wh_8"}', topic="orders/create")
        await arrive(store, topic="orders/updated")
        found = found_webhook(store)
        assert found == StoredWebhook(first, "orders/create", is_test=False)

    async def test_only_later_webhooks_of_the_store_are_found(
        self, store: Store
    ) -> None:
        before = await arrive(store, topic="webhooks/test")
        await arrive(store, topic="webhooks/test", name="other")
        await arrive(store, topic="webhooks/test", kind="read")
        assert found_webhook(store, before) is None
        event = await arrive(store, topic="webhooks/test")
        found = found_webhook(store, before)
        assert found == StoredWebhook(event, "webhooks/test", is_test=True)

    async def test_kinds_of_commands_that_were_applied_are_known(
        self, store: Store
    ) -> None:
        await sent(store, Cause.CONFIRMED, kind="cancel", target="ord_1")
        await sent(store, Cause.CONFIRMED, kind="fulfill", target="ord_2", name="other")
        await sent(store, Cause.REFUSED, kind="fulfill", target="ord_3")
        await plan(store, "adjust", "prod_1")
        database = database_at(store.place)
        assert database.applied_kinds("main") == {"cancel"}
        assert database.applied_kinds("other") == {"fulfill"}
        assert database.applied_kinds("third") == set()

    async def test_the_rows_of_each_table_are_counted(self, store: Store) -> None:
        database = database_at(store.place)
        before = database.row_counts()
        await show_order(store, "ord_1")
        await show_order(store, "ord_1", 1)
        await show_product(store)
        after = database.row_counts()
        changed = {
            table: after[table] - before[table]
            for table in ("inbox", "orders", "order_items", "products", "customers")
        }
        assert changed == {
            "inbox": 3,
            "orders": 1,
            "order_items": 1,
            "products": 1,
            "customers": 0,
        }

    async def test_orphaned_work_is_that_which_the_store_reports(
        self, store: Store
    ) -> None:
        await plan(store, name="old")
        await arrive(store, name="old")
        await arrive(store)
        found = database_at(store.place).orphaned_work(["main"])
        assert [(each.store, each.commands, each.events) for each in found] == [
            ("old", 1, 1)
        ]
        assert found == await store.orphaned_work(["main"])

    async def test_the_mirror_is_readable_beside_the_daemon(self, store: Store) -> None:
        await show_order(store, "ord_1")
        with database_at(store.place).readable() as beside:
            assert await beside.mirror.count("order", "main") == 1
            found = await beside.mirror.versions("order", "main", ["ord_1"])
            assert found == await store.mirror.versions("order", "main", ["ord_1"])
        with database_at(store.place).reader() as reader:
            (listed,) = reader.events(Filter(), 9)
        assert listed.about == "#1001"


MANY_ROWS = 1_200
"""More rows than one page has."""
LINES = (
    Item("li_1", "prod_1", "var_1", "A", "Lamp", 3, 1, 50),
    Item("li_2", "prod_1", "var_2", "B", "Lamp", 1, 0, 70),
)
CLOSED: dict[str, dict[str, Any]] = {
    "ord_2": {"cancelled_at": NOON},
    "ord_3": {"fulfillment_status": "FULFILLED"},
    "ord_4": {"financial_status": "refunded "},
}
INTERNAL = {"sequence", "delivered", "seen_at", "digest", "standing", "confirmed_at"}


async def show_orders(store: Store, number: int) -> None:
    """Show that many orders of one line."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        id_ = f"ord_{event.id}"
        mirror.put_order("main", order(id_), version(0, event.body))
        mirror.add_change("main", "order", id_, "created", event.id)
        return Folded("folded", event.topic, None, "order", id_)

    await append(store, *["{}" for _ in range(number)])
    await fold_all_with(store, fold)


def pages_of(
    store: Store, clock: TestClock, table: str
) -> Sequence[Sequence[tuple[Any, ...]]]:
    """Return the pages of a table."""
    with database_at(store.place).console(clock) as console:
        return list(console.pages(table))


class PublishedTablesConformance(MirrorTests):
    """Tests of `SqlConsole.pages`, `SqlConsole.columns` and the views."""

    @pytest.mark.parametrize("number", [0, 1, 499, 500, 501, MANY_ROWS])
    async def test_pages_have_every_row_once(
        self, number: int, store: Store, clock: TestClock
    ) -> None:
        await show_orders(store, number)
        for table in ("orders", "order_lines", "changes", "events"):
            pages = pages_of(store, clock, table)
            rows = [row for page in pages for row in page]
            assert len(rows) == len(set(rows)) == number
            assert all(len(page) < MANY_ROWS for page in pages)

    async def test_rows_are_in_the_order_of_their_key(self, store: Store) -> None:
        for name, id_ in (("b", "ord_2"), ("a", "ord_10"), ("b", "ord_1")):
            await show_order(store, id_, name=name)
        assert rows_of(store, "orders", "store", "id") == [
            *(("a", "ord_10"), ("b", "ord_1"), ("b", "ord_2")),
        ]

    async def test_columns_that_only_backhaul_uses_are_left_out(
        self, store: Store, clock: TestClock
    ) -> None:
        tables = ("orders", "products", "customers", "inventory_levels", "commands")
        with database_at(store.place).console(clock) as console:
            for table in tables:
                assert not INTERNAL & set(console.columns(table))
            for name in ("tombstones", "no_table"):
                with pytest.raises(BackhaulError, match="there is no table"):
                    console.columns(name)

    async def test_open_orders_have_units_to_ship(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        for id_, members in CLOSED.items():
            await show_order(store, id_, items=LINES, **members)
        await show_order(store, "ord_5", financial_status="PARTIALLY_REFUNDED")
        columns = ("id", "number", "units_to_ship")
        assert rows_of(store, "open_orders", *columns) == [
            *(("ord_1", 1001, 3), ("ord_5", 1005, 2)),
        ]

    async def test_lines_have_units_to_ship_while_their_order_is_open(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        for id_, members in CLOSED.items():
            await show_order(store, id_, items=LINES, **members)
        columns = ("order_name", "sku", "quantity", "units_to_ship", "currency")
        assert rows_of(store, "order_lines", *columns, order_id="ord_1") == [
            ("#1001", "A", 3, 2, "INR"),
            ("#1001", "B", 1, 1, "INR"),
        ]
        for id_ in ("ord_2", "ord_4"):
            units = rows_of(store, "order_lines", "units_to_ship", order_id=id_)
            assert units == [(0,), (0,)]

    async def test_stock_names_its_article(self, store: Store) -> None:
        await show_product(store)
        await show_product(store, name="other")
        await show_level(store, 5, 2)
        await show_level(store, 7, 3, product="prod_9")
        columns = ("store", "sku", "product", "variant", "stock", "since")
        assert rows_of(store, "stock", *columns) == [
            ("main", "SKU-1", "Lamp", "small", 5, version(2, b"").updated_at),
            ("main", None, None, None, 7, version(3, b"").updated_at),
        ]

    async def test_revenue_is_that_of_a_day_and_a_currency(self, store: Store) -> None:
        next_day = "2026-03-02T00:00:00.000Z"
        orders: dict[str, dict[str, Any]] = {
            "ord_1": {},
            "ord_2": {"total_minor": 250},
            "ord_3": {"cancelled_at": NOON},
            "ord_4": {"currency": "EUR"},
            "ord_5": {"placed_at": next_day},
            "ord_6": {"placed_at": None},
        }
        for id_, members in orders.items():
            await show_order(store, id_, **members)
        await show_order(store, "ord_1", name="other")
        columns = ("store", "day", "currency", "orders", "revenue_minor")
        assert rows_of(store, "revenue_by_day", *columns) == [
            ("main", "2026-03-01", "EUR", 1, 100),
            ("main", "2026-03-01", "INR", 2, 350),
            ("main", "2026-03-02", "INR", 1, 100),
            ("other", "2026-03-01", "INR", 1, 100),
        ]

    async def test_events_show_their_outcome_once_they_are_folded(
        self, store: Store
    ) -> None:
        await show_customer(store, "cus_1", "a@b.example")
        await store.inbox.append(webhook("{}", "other", "orders/paid"))
        columns = ("store", "topic", "source", "state", "kind", "object_id")
        assert rows_of(store, "events", *columns) == [
            ("main", "customers/updated", "delivery", "folded", "customer", "cus_1"),
            ("other", "orders/paid", "delivery", "received", None, None),
        ]

    async def test_the_feed_shows_each_change(self, store: Store) -> None:
        await show_order(store, "ord_1")
        columns = ("store", "kind", "object_id", "change", "waits")
        (row,) = rows_of(store, "feed", *columns)
        assert row == ("main", "order", "ord_1", "updated", 0)


TIMES = [f"2026-03-01T12:00:0{second}.000Z" for second in range(4)]
ARRIVALS = [
    Arrival(
        "main", "delivery", "orders/create", TIMES[0], b'{"a":1}', bytes(range(256))
    ),
    Arrival("other", "delivery", "orders/create", TIMES[1], b"{}", b"second"),
    Arrival("main", "read", "orders/read", TIMES[2], b"{}", b"third"),
    Arrival("main", "delivery", "", TIMES[3], b"{}", b"fourth"),
]
FILTERS = [
    (EventFilter(), [0, 1, 2, 3]),
    (EventFilter(store="main"), [0, 2, 3]),
    (EventFilter(kind="delivery"), [0, 1, 3]),
    (EventFilter(kind="read", store="other"), []),
    (EventFilter(topic="orders/read"), [2]),
    (EventFilter(topic="orders/paid"), [3]),
    (EventFilter(since=TIMES[1]), [1, 2, 3]),
    (EventFilter(until=TIMES[2]), [0, 1]),
    (EventFilter(since=TIMES[1], until=TIMES[3], store="main"), [2]),
]
MANY_EVENTS = 4_100
"""More events than one read of the export scans."""
NAMES = {
    **dict.fromkeys(("ord_1", "1001", "#1001", "POS-1"), "order"),
    **dict.fromkeys(("prod_1", "lamp", "SKU-1", "var_1"), "product"),
    **dict.fromkeys(("cus_1", "asha@example.com"), "customer"),
    "1001abc": None,
}
"""What an object may be named by, and the kind of the object."""


def exported(
    store: Store, wanted: EventFilter | None = None
) -> tuple[list[Arrival], int]:
    """Return the exported events, and how many were left out as pruned."""
    with database_at(store.place).inbox_export() as export:
        arrivals = list(export.arrivals(wanted or EventFilter()))
        return arrivals, export.pruned


def fold_topic(event: StoredEvent, _: MirrorWriter) -> Folded:
    """Fold an event; one without a topic has one in its body."""
    return Folded("folded", event.topic or "orders/paid")


class InboxExportConformance(MirrorTests):
    """Tests of `Database.inbox_export`."""

    async def test_events_are_exported_as_they_arrived_in_order(
        self, store: Store
    ) -> None:
        for arrival in ARRIVALS:
            await store.inbox.append(arrival)
        assert exported(store) == (ARRIVALS, 0)
        await fold_with(store, fold_topic)
        assert exported(store) == (ARRIVALS, 0)

    @pytest.mark.parametrize(("wanted", "expected"), FILTERS)
    async def test_only_wanted_events_are_exported(
        self, wanted: EventFilter, expected: list[int], store: Store
    ) -> None:
        for arrival in ARRIVALS:
            await store.inbox.append(arrival)
        await fold_with(store, fold_topic)
        found, _ = exported(store, wanted)
        assert found == [ARRIVALS[number] for number in expected]

    @pytest.mark.parametrize("name", NAMES)
    async def test_an_object_is_known_by_each_of_its_names(
        self, name: str, store: Store
    ) -> None:
        await show_order(store, "ord_1", external_id="POS-1")
        await show_order(store, "ord_2")
        await show_product(store)
        await show_customer(store, "cus_1", "asha@example.com")
        found, _ = exported(store, EventFilter(object=name))
        kind = NAMES[name]
        assert [each.topic for each in found] == [f"{kind}s/updated"] * bool(kind)

    async def test_an_object_that_is_not_mirrored_is_known_by_its_id(
        self, store: Store
    ) -> None:
        for arrival in ARRIVALS[:2]:
            await store.inbox.append(arrival)

        def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
            id_ = "ord_9" if event.store == "main" else "ord_8"
            return Folded("quarantined", event.topic, None, "order", id_)

        await fold_with(store, fold)
        found, _ = exported(store, EventFilter(object="ord_9"))
        assert found == ARRIVALS[:1]

    async def test_events_far_apart_are_found(self, store: Store) -> None:
        first, last = ARRIVALS[0], ARRIVALS[2]
        await store.inbox.append(first)
        between = [store.inbox.append(ARRIVALS[1]) for _ in range(MANY_EVENTS)]
        for waiting in between:
            await waiting
        await store.inbox.append(last)
        assert exported(store, EventFilter(store="main")) == ([first, last], 0)
        assert len(exported(store)[0]) == MANY_EVENTS + 2

    async def test_pruned_events_are_left_out_and_counted(self, store: Store) -> None:
        for arrival in ARRIVALS:
            await store.inbox.append(arrival)
        await fold_with(store, fold_topic)
        while (await store.retention.prune(TIMES[2], 1.0)).more:
            pass
        assert exported(store) == (ARRIVALS[2:], 2)

    async def test_events_that_arrive_meanwhile_are_not_waited_for(
        self, store: Store
    ) -> None:
        await store.inbox.append(ARRIVALS[0])
        with database_at(store.place).inbox_export() as export:
            arrivals = export.arrivals(EventFilter())
            assert next(arrivals) == ARRIVALS[0]
            await store.inbox.append(ARRIVALS[1])
            assert list(arrivals) == []

    async def test_the_outcomes_and_the_facts_are_exported(self, store: Store) -> None:
        for arrival in ARRIVALS[:3]:
            await store.inbox.append(arrival)

        def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
            return Folded("stale" if event.id == 2 else "folded", event.topic)

        await fold_with(store, fold)
        await store.inbox.append(ARRIVALS[3])
        await store.kv.put("facts:main", '{"currency":"INR"}')
        await store.kv.put("factsheet", "no facts")
        with database_at(store.place).inbox_export() as export:
            assert export.outcomes() == {"folded": 2, "stale": 1}
            assert export.facts() == {"main": '{"currency":"INR"}'}
