"""Tests of the lists for operators: filters, pages, and the names of objects."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.operations import AuditEntry, JobRun, Trigger
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, plan
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import (
    show,
    show_customer,
    show_level,
    show_order,
    show_product,
)
from backhaul.store.testing.stock_targets import count
from backhaul.store.testing.transactions import fold_with

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.read_records import (
        ChangedObject,
        ListedEvent,
    )
    from backhaul.store.testing.contract import MovableClock

MANY = 6_000
ORDERS = frozenset({"order.placed"})
BOOKS = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"order.placed", "product.updated", "stock.changed"}),
    begin="all",
)


async def receive(
    store: Store,
    clock: MovableClock,
    state: str = "folded",
    topic: str = "orders/updated",
    about: tuple[str, str] | None = None,
    name: str = "main",
) -> int:
    """Append an event that folds to a state, and may be about an object."""
    event = await store.inbox.append(
        Arrival(name, "delivery", topic, at(clock), b'{"a":1}', b"body")
    )
    kind, id_ = about or (None, None)
    folded = Folded(state, topic, "evt_1", kind, id_, "why")
    await fold_with(store, lambda *_: folded)
    return event


async def events(
    store: Store,
    state: str | None = None,
    topic: str | None = None,
    limit: int = 99,
    before: int | None = None,
) -> list[ListedEvent]:
    """Return events as operators see them."""
    return await store.read(lambda reader: reader.events(state, topic, limit, before))


async def event_ids(
    store: Store,
    state: str | None = None,
    topic: str | None = None,
    limit: int = 99,
    before: int | None = None,
) -> list[int]:
    """Return the ids of events as operators see them."""
    return [row.id for row in await events(store, state, topic, limit, before)]


async def changes_before(
    store: Store, before: int | None
) -> tuple[list[ChangedObject], int | None]:
    """Return the objects that changed last, and the change to continue before."""
    rows = await store.read(lambda reader: reader.latest_changes(None, MANY, before))
    return rows, await store.read(lambda reader: reader.not_searched(before))


class EventListsConformance(FamilyTests):
    """Tests of the lists of events, changes and the quarantine."""

    async def test_events_are_listed_page_by_page_the_newest_first(
        self, store: Store, clock: MovableClock
    ) -> None:
        ids = [await receive(store, clock) for _ in range(5)]
        assert await event_ids(store, limit=2) == [ids[4], ids[3]]
        assert await event_ids(store, limit=2, before=ids[3]) == [ids[2], ids[1]]
        assert await event_ids(store, limit=9, before=ids[1]) == [ids[0]]
        assert await event_ids(store, before=ids[0]) == []

    async def test_events_are_filtered_by_state_and_topic(
        self, store: Store, clock: MovableClock
    ) -> None:
        folded = await receive(store, clock)
        paid = await receive(store, clock, topic="orders/paid")
        stale = await receive(store, clock, "stale")
        waiting = await store.inbox.append(
            Arrival("main", "delivery", "orders/paid", at(clock), b"{}", b"{}")
        )
        assert await event_ids(store, "folded") == [paid, folded]
        assert await event_ids(store, "received") == [waiting]
        assert await event_ids(store, topic="orders/paid") == [waiting, paid]
        assert await event_ids(store, "folded", "orders/paid") == [paid]
        assert await event_ids(store, "folded", before=paid) == [folded]
        assert await event_ids(store) == [waiting, stale, paid, folded]

    async def test_an_event_is_listed_with_its_object(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await show_order(store, "ord_2", name="other")
        for about in (("order", "ord_1"), ("product", "prod_1"), ("order", "ord_2")):
            await receive(store, clock, about=about)
        unknown, product, order = (await events(store))[:3]
        assert (order.about, product.about, unknown.about) == ("#1001", "Lamp", None)
        assert (unknown.kind, unknown.object_id) == ("order", "ord_2")
        assert (order.received_at, order.store) == (at(clock), "main")
        assert (order.source, order.topic) == ("delivery", "orders/updated")
        assert (order.state, order.detail) == ("folded", "why")

    async def test_one_event_is_shown_as_it_arrived(
        self, store: Store, clock: MovableClock
    ) -> None:
        id_ = await receive(store, clock, about=("order", "ord_1"))
        shown = await store.read(lambda reader: reader.event(id_))
        assert shown is not None
        assert (shown.body, shown.headers) == (b"body", b'{"a":1}')
        assert (shown.event_id, shown.folded_at) == ("evt_1", at(clock))
        assert (shown.kind, shown.object_id) == ("order", "ord_1")
        assert await store.read(lambda reader: reader.event(id_ + 1)) is None
        assert await store.read(lambda reader: reader.event(2**63)) is None

    async def test_the_objects_that_changed_last_are_listed_once(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await show_customer(store, "cus_1", "a@b.example")
        await show_order(store, "ord_1", 1)
        await show_level(store, 7)
        rows = await store.read(lambda reader: reader.latest_changes(None, 9))
        assert [(row.kind, row.id, row.title) for row in rows] == [
            ("level", "prod_1", "Lamp"),
            ("order", "ord_1", "#1001"),
            ("customer", "cus_1", "Asha"),
            ("product", "prod_1", "Lamp"),
        ]
        (order,) = await store.read(lambda reader: reader.latest_changes("order", 9))
        assert order == rows[1]
        older = await store.read(
            lambda reader: reader.latest_changes(None, 1, rows[1].change)
        )
        assert older == [rows[2]]
        assert await store.read(lambda reader: reader.not_searched(None)) is None

    async def test_all_changes_are_reached_though_not_at_once(
        self, store: Store
    ) -> None:
        def write(mirror: MirrorWriter, event: int) -> None:
            for number in range(MANY):
                mirror.add_change("main", "none", str(number), "updated", event)

        await show(store, "order", "ord_1", write)
        found: list[str] = []
        before: int | None = None
        while before is not None or not found:
            rows, before = await changes_before(store, before)
            found += [row.id for row in rows]
        assert found == [str(number) for number in reversed(range(MANY))]

    async def test_the_quarantine_is_listed_page_by_page(
        self, store: Store, clock: MovableClock
    ) -> None:
        await receive(store, clock, "quarantined", about=("order", "ord_7"))
        payload = b'{"kind":"fulfill","record":{"order":"1001"}}'
        rows = [
            NewRecord("named", payload, "1001;BD1", "", "file:1"),
            NewRecord("bad", None, "a;b", "no order", "file:2"),
        ]
        await store.records.accept(
            "courier", "main", rows, None, lambda *_: Unmatched("unknown", final=True)
        )
        found = await store.read(lambda reader: reader.quarantine(9))
        assert [(row.source, row.name, row.locator, row.about) for row in found] == [
            ("record", "courier", "file:2", ""),
            ("record", "courier", "file:1", "order 1001"),
            ("event", "main", "event 1", "order ord_7"),
        ]
        assert [row.reason for row in found] == ["no order", "unknown", "why"]
        assert {row.at for row in found} == {at(clock)}
        first = await store.read(lambda reader: reader.quarantine(1))
        rest = await store.read(lambda reader: reader.quarantine(9, first[0].id))
        assert first + rest == found

    async def test_a_row_of_the_quarantine_is_shown_with_its_record(
        self, store: Store, clock: MovableClock
    ) -> None:
        payload = b'{"kind":"note"}'
        row = NewRecord("key", payload, "1001;BD1", "", "file:1")
        await store.records.accept(
            "courier", "main", [row], None, lambda *_: Unmatched("no", final=True)
        )
        await receive(store, clock, "quarantined")
        event, record = await store.read(lambda reader: reader.quarantine(9))
        shown = await store.read(lambda reader: reader.quarantined(record.id))
        assert shown is not None
        assert (str(shown.raw), shown.payload) == ("1001;BD1", payload.decode())
        assert (shown.store, shown.key, shown.state) == ("main", "key", "open")
        shown = await store.read(lambda reader: reader.quarantined(event.id))
        assert shown is not None
        assert (shown.raw, shown.payload, shown.store) == (b"body", None, None)
        await store.quarantine.drop(record.id, "ann", "seen")
        left = await store.read(lambda reader: reader.quarantine(9))
        assert [each.id for each in left] == [event.id]
        shown = await store.read(lambda reader: reader.quarantined(record.id))
        assert shown is not None
        assert shown.state == "dropped"


class OperationListsConformance(FamilyTests):
    """Tests of the lists of deliveries, records, runs, the audit log and stores."""

    async def test_deliveries_are_filtered_and_have_the_name_of_their_object(
        self, store: Store, clock: MovableClock
    ) -> None:
        shop = replace(BOOKS, instance="shop")
        for subscriber in (BOOKS, shop):
            await store.deliveries.subscribe(subscriber)
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await store.deliveries.fan_out(BOOKS, 1.0)
        await show_level(store, 7)
        await store.deliveries.fan_out(BOOKS, 1.0)
        await store.deliveries.fan_out(replace(shop, topics=ORDERS), 1.0)
        claimed = await store.deliveries.claim(BOOKS)
        assert claimed is not None
        clock.advance(60)
        outcome = DeliveryOutcome(cause=Cause.CONFIRMED, reason="taken", reference="R1")
        await store.deliveries.record_outcome("books", claimed, outcome)
        rows = await store.read(lambda reader: reader.deliveries("books", None, 9))
        assert [(row.topic, row.about, row.state) for row in rows] == [
            ("stock.changed", "SKU-1", "planned"),
            ("product.updated", "Lamp", "planned"),
            ("order.placed", "#1001", "applied"),
        ]
        assert (rows[2].at, rows[2].sent_at) == (at(clock), at(clock, -60))
        assert (rows[2].reference, rows[1].at) == ("R1", at(clock, -60))
        planned = await store.read(lambda r: r.deliveries("books", "planned", 9))
        assert planned == rows[:2]
        assert await store.read(lambda r: r.deliveries("books", "planned", 1)) == [
            rows[0]
        ]
        all_ = await store.read(lambda reader: reader.deliveries(None, None, 9))
        assert [row.instance for row in all_] == ["shop", *["books"] * 3]
        found = await store.read(lambda reader: reader.instances())
        assert sorted(found) == ["books", "shop"]

    async def test_the_last_records_of_a_connection_are_listed(
        self, store: Store, clock: MovableClock
    ) -> None:
        ids = [await plan(store, target=f"ord_{number}") for number in (1, 2, 3)]
        await plan(store, instance="books")
        rows = await store.read(lambda reader: reader.last_records("courier", 2))
        assert [row.command_id for row in rows] == [ids[2], ids[1]]
        assert (rows[0].state, rows[0].received_at) == ("accepted", at(clock))
        assert await store.read(lambda reader: reader.last_records("none", 2)) == []

    async def test_runs_of_jobs_are_listed_page_by_page(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.job_runs.register({("poll", "main"): "", ("poll", "other"): ""})
        for name in ("main", "other", "main"):
            run = JobRun(("poll", name), Trigger.SCHEDULE, at(clock), at(clock))
            await store.job_runs.record(run, at(clock), "")
        rows = await store.read(lambda reader: reader.job_runs(9))
        assert [row.store for row in rows] == ["main", "other", "main"]
        assert await store.read(lambda r: r.job_runs(1, rows[0].id)) == [rows[1]]
        assert await store.read(lambda r: r.job_runs(9, rows[2].id)) == []

    async def test_audit_entries_are_listed_page_by_page_and_by_user(
        self, store: Store, clock: MovableClock
    ) -> None:
        for who, action in (("ann", "a"), ("bob", "b"), ("ann", "c")):
            await store.users.record_action(AuditEntry(who, action, "detail"))
            clock.advance(1)
        rows = await store.read(lambda reader: reader.audit_entries(None, 9))
        assert [(row.who, row.action) for row in rows] == [
            ("ann", "c"),
            ("bob", "b"),
            ("ann", "a"),
        ]
        assert (rows[0].at, rows[0].detail) == (at(clock, -1), "detail")
        assert await store.read(lambda r: r.audit_entries("ann", 9)) == [
            rows[0],
            rows[2],
        ]
        before = rows[0].id
        assert await store.read(lambda r: r.audit_entries(None, 1, before)) == [rows[1]]
        assert await store.read(lambda r: r.audit_entries("ann", 9, before)) == [
            rows[2]
        ]

    async def test_stores_are_those_with_commands_or_a_first_contact(
        self, store: Store
    ) -> None:
        await plan(store, name="second")
        await count(store, 7, 10, name="third")
        await store.kv.put("facts:first", "{}")
        await store.kv.put("facts:second", "{}")
        assert await store.read(lambda r: r.stores()) == ["first", "second", "third"]
