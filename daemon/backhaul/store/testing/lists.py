"""Tests of the lists for operators: filters, pages, and the names of objects."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.filters import Filter
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.operations import AuditEntry, JobRun, Trigger
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, claimed_ids, detail, plan, sent
from backhaul.store.testing.event_scenes import HEADERS, arrive
from backhaul.store.testing.mirror_scenes import (
    show,
    show_customer,
    show_level,
    show_order,
    show_product,
)
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.command_records import CommandDetail, ListedTarget
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.read_records import ChangedObject, ListedEvent
    from backhaul.store.testing.scenes import TestClock


MANY = 6_000
ORDERS = frozenset({"order.placed"})
ALL = Filter()
TO_BOOKS = Filter(connector="books")
BOOKS = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"order.placed", "product.updated", "stock.changed"}),
    begin="all",
)


async def receive(
    store: Store,
    clock: TestClock,
    state: str = "folded",
    topic: str = "orders/updated",
    about: tuple[str, str] | None = None,
) -> int:
    """Append an event that folds to a state, and may be about an object."""
    kind, id_ = about or (None, None)
    folded = Folded(state, topic, "evt_1", kind, id_, "why")
    return await arrive(store, folded=folded, topic=topic, at=at(clock))


async def events(
    store: Store, /, limit: int = 99, before: int | None = None, **wanted: Any
) -> list[ListedEvent]:
    """Return events as operators see them."""
    wish = Filter(**wanted)
    return await store.read(lambda reader: reader.events(wish, limit, before))


async def event_ids(
    store: Store, /, limit: int = 99, before: int | None = None, **wanted: Any
) -> list[int]:
    """Return the ids of events as operators see them."""
    return [row.id for row in await events(store, limit, before, **wanted)]


async def changes_before(
    store: Store, before: int | None
) -> tuple[list[ChangedObject], int | None]:
    """Return the objects that changed last, and the change to continue before."""
    rows = await store.read(lambda reader: reader.latest_changes(None, MANY, before))
    return rows, await store.read(lambda reader: reader.not_searched(before))


class EventListsConformance(StoreConformance):
    """Tests of the lists of events, changes and the quarantine."""

    async def test_events_are_listed_page_by_page_the_newest_first(
        self, store: Store, clock: TestClock
    ) -> None:
        ids = [await receive(store, clock) for _ in range(5)]
        assert await event_ids(store, limit=2) == [ids[4], ids[3]]
        assert await event_ids(store, limit=2, before=ids[3]) == [ids[2], ids[1]]
        assert await event_ids(store, limit=9, before=ids[1]) == [ids[0]]
        assert await event_ids(store, before=ids[0]) == []

    async def test_events_are_filtered(self, store: Store, clock: TestClock) -> None:
        folded = await receive(store, clock)
        about = ("order", "ord_1")
        paid = await receive(store, clock, topic="orders/paid", about=about)
        clock.advance(60)
        stale = await receive(store, clock, "stale")
        waiting = await store.inbox.append(
            Arrival("main", "delivery", "orders/paid", at(clock), b"{}", b"{}")
        )
        assert await event_ids(store, state="folded") == [paid, folded]
        assert await event_ids(store, state="received") == [waiting]
        assert await event_ids(store, topic="orders/paid") == [waiting, paid]
        assert await event_ids(store, state="folded", topic="orders/paid") == [paid]
        assert await event_ids(store, before=paid, state="folded") == [folded]
        assert await event_ids(store, since=at(clock)) == [waiting, stale]
        assert await event_ids(store, object="ord_1") == [paid]
        assert await event_ids(store) == [waiting, stale, paid, folded]

    async def test_an_event_is_listed_with_its_object(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        id_ = await receive(store, clock, about=("order", "ord_1"))
        shown = await store.read(lambda reader: reader.event(id_))
        assert shown is not None
        assert (shown.body, shown.headers) == (b"body", HEADERS)
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
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
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
        await store.quarantine.discard(record.id, "ann", "seen")
        left = await store.read(lambda reader: reader.quarantine(9))
        assert [each.id for each in left] == [event.id]
        shown = await store.read(lambda reader: reader.quarantined(record.id))
        assert shown is not None
        assert shown.state == "dropped"


class OperationListsConformance(StoreConformance):
    """Tests of the lists of deliveries, records, runs, the audit log and stores."""

    async def test_deliveries_are_filtered_and_have_the_name_of_their_object(
        self, store: Store, clock: TestClock
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
        rows = await store.read(lambda reader: reader.deliveries(TO_BOOKS, 9))
        assert [(row.topic, row.about, row.state) for row in rows] == [
            ("stock.changed", "SKU-1", "planned"),
            ("product.updated", "Lamp", "planned"),
            ("order.placed", "#1001", "applied"),
        ]
        assert (rows[2].at, rows[2].sent_at) == (at(clock), at(clock, -60))
        assert (rows[2].reference, rows[1].at) == ("R1", at(clock, -60))
        wish = Filter(connector="books", state="planned")
        planned = await store.read(lambda r: r.deliveries(wish, 9))
        assert planned == rows[:2]
        assert await store.read(lambda r: r.deliveries(wish, 1)) == [rows[0]]
        all_ = await store.read(lambda reader: reader.deliveries(ALL, 9))
        assert [row.instance for row in all_] == ["shop", *["books"] * 3]
        found = await store.read(lambda reader: reader.instances())
        assert sorted(found) == ["books", "shop"]
        last = rows[0].seq
        assert await store.read(lambda r: r.store_of_delivery(last)) == "main"
        assert await store.read(lambda r: r.store_of_delivery(last + 1_000)) is None

    async def test_the_last_records_of_a_connection_are_listed(
        self, store: Store, clock: TestClock
    ) -> None:
        ids = [await plan(store, target=f"ord_{number}") for number in (1, 2, 3)]
        await plan(store, instance="books")
        rows = await store.read(lambda reader: reader.last_records("courier", 2))
        assert [row.command_id for row in rows] == [ids[2], ids[1]]
        assert (rows[0].state, rows[0].received_at) == ("accepted", at(clock))
        assert await store.read(lambda reader: reader.last_records("none", 2)) == []

    async def test_runs_of_jobs_are_listed_page_by_page(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
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

    async def test_audit_entries_of_a_user_are_those_of_every_machine(
        self, store: Store
    ) -> None:
        for who in ("ann", "ann on host-b", "anna", "an", "ann on", "bob"):
            await store.users.record_action(AuditEntry(who, "a", "detail"))
        rows = await store.read(lambda reader: reader.audit_entries("ann", 9))
        assert [row.who for row in rows] == ["ann on host-b", "ann"]
        rows = await store.read(lambda reader: reader.audit_entries("ann on host-b", 9))
        assert [row.who for row in rows] == ["ann on host-b"]

    async def test_stores_are_those_with_commands_or_a_first_contact(
        self, store: Store
    ) -> None:
        await plan(store, name="second")
        await count(store, 7, 10, name="third")
        await store.kv.put("facts:first", "{}")
        await store.kv.put("facts:second", "{}")
        assert await store.read(lambda r: r.stores()) == ["first", "second", "third"]


async def command_ids(
    store: Store,
    wanted: Filter = ALL,
    limit: int = 99,
    after: str | None = None,
) -> list[str]:
    """Return the ids of commands as operators see them."""
    rows = await store.read(lambda reader: reader.commands(wanted, limit, after))
    count = await store.read(lambda reader: reader.count_commands(wanted))
    assert after is not None or len(rows) == min(count, limit)
    return [row.id for row in rows]


async def open_ids(store: Store, state: str, limit: int = 9) -> list[str]:
    """Return the ids of some open commands."""
    rows = await store.read(lambda reader: reader.open_commands(state, limit))
    return [row.id for row in rows]


async def command(store: Store, prefix: str) -> CommandDetail | None:
    """Return the only command whose id begins so."""
    return await store.read(lambda reader: reader.command(prefix))


async def targets(
    store: Store,
    state: str | None = None,
    name: str | None = None,
    limit: int = 99,
    before: int | None = None,
) -> list[ListedTarget]:
    """Return stock targets as operators see them."""
    return await store.read(
        lambda reader: reader.stock_targets(state, name, limit, before)
    )


class CommandListsConformance(StoreConformance):
    """Tests of the lists of commands and stock targets."""

    async def test_parked_commands_come_first_then_the_newest(
        self, store: Store
    ) -> None:
        parked = await sent(store, Cause.UNDECIDABLE, target="ord_1")
        done = await sent(store, Cause.CONFIRMED, target="ord_2")
        late = await sent(store, Cause.UNDECIDABLE, target="ord_3")
        open_ = await plan(store, target="ord_4")
        expected = [late.id, parked.id, open_, done.id]
        assert await command_ids(store) == expected
        for place, id_ in enumerate(expected):
            assert await command_ids(store, ALL, 2, id_) == expected[place + 1 :][:2]

    async def test_commands_are_filtered(self, store: Store, clock: TestClock) -> None:
        parked = (await sent(store, Cause.UNDECIDABLE, target="ord_1")).id
        clock.advance(60)
        cancel = await plan(store, "cancel", "ord_2")
        other = await plan(store, target="ord_3", name="other")
        for wanted, expected in (
            (Filter(state="parked"), [parked]),
            (Filter(state="planned"), [other, cancel]),
            (Filter(kind="cancel"), [cancel]),
            (Filter(store="other"), [other]),
            (Filter(store="main", state="planned"), [cancel]),
            (Filter(state="applied"), []),
            (Filter(since=at(clock)), [other, cancel]),
            (Filter(object="ord_2"), [cancel]),
        ):
            assert await command_ids(store, wanted) == expected

    async def test_a_command_is_listed_with_its_object(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await sent(store, Cause.REFUSED, target="ord_1")
        await plan(store, "adjust", "prod_1")
        await plan(store, target="ord_1", name="other")
        other, adjust, refused = await store.read(lambda r: r.commands(ALL, 9))
        assert (other.about, adjust.about, refused.about) == (None, "Lamp", "#1001")
        assert (refused.state, refused.reason) == ("rejected", "why")
        assert (refused.attempts, refused.settled_at) == (1, at(clock))
        assert (adjust.created_at, adjust.settled_at) == (at(clock), None)
        assert adjust.instance == "courier"
        assert adjust.cause.startswith("record courier file:")

    async def test_the_plan_is_in_the_order_of_planning(self, store: Store) -> None:
        ids = [await plan(store, target=f"ord_{number}") for number in (1, 2, 3)]
        await plan(store, target="ord_4", name="other")
        await claimed_ids(store, limit=1)
        wish = Filter(store="main")
        found = await store.read(lambda reader: reader.plan(wish, 9))
        assert [command.id for command, _ in found] == ids[1:]
        assert found[0][0].payload == {"n": 1}
        first = await store.read(lambda reader: reader.plan(wish, 1))
        assert first == found[:1]

    async def test_open_commands_are_those_of_a_state_that_is_not_final(
        self, store: Store
    ) -> None:
        doubt = (await sent(store, Cause.UNKNOWN, target="ord_1")).id
        await sent(store, Cause.UNDECIDABLE, target="ord_2")
        gone = (await sent(store, target="ord_3")).id
        wait = await plan(store, target="ord_4")
        counted = await count(store, 7, 7)
        for state, expected in (
            ("uncertain", [doubt]),
            ("sending", [gone]),
            ("planned", sorted([wait, counted])),
            ("parked", []),
        ):
            assert sorted(await open_ids(store, state)) == expected
        assert len(await open_ids(store, "planned", 1)) == 1

    async def test_a_command_is_found_by_the_beginning_of_its_id(
        self, store: Store
    ) -> None:
        for id_ in ("ab" * 16, "ac" * 16):
            await plan(store, id_=id_)
        assert (await detail(store, "ab")).id == "ab" * 16
        assert (await detail(store, "ac" * 16)).id == "ac" * 16
        for prefix in ("a", "b", "%", "ab" * 16 + "0"):
            assert await command(store, prefix) is None

    async def test_a_stock_target_is_listed_beside_commands(self, store: Store) -> None:
        await show_product(store, "prod_1")
        id_ = await count(store, 7, 7)
        wanted = Filter(kind="target", state="planned")
        assert await command_ids(store, wanted) == [id_]
        shown = await detail(store, id_)
        assert (shown.kind, shown.target, shown.about) == ("target", "prod_1", "Lamp")
        assert shown.target_of is not None
        assert (shown.target_of.variant_id, shown.target_of.quantity) == ("var_1", 7)
        assert shown.wanted["quantity"] == 7

    async def test_stock_targets_are_listed_page_by_page(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_product(store, "prod_1")
        await show_level(store, 3)
        first = await count(store, 7, 7)
        second = await count(store, 8, 8, variant="var_2", product="prod_2")
        third = await count(store, 9, 9, name="other")
        found = await targets(store)
        assert [row.id for row in found] == [third, second, first]
        assert [(row.sku, row.stock) for row in found] == [
            (None, None),
            (None, None),
            ("SKU-1", 3),
        ]
        oldest = found[2]
        assert (oldest.quantity, oldest.variant_id, oldest.target) == (
            7,
            "var_1",
            "prod_1",
        )
        assert (oldest.state, oldest.created_at) == ("planned", at(clock))
        assert await targets(store, limit=1, before=found[0].seq) == [found[1]]
        assert await targets(store, name="other") == [found[0]]
        assert await targets(store, "applied") == []
        assert await targets(store, "planned", "main", 9, found[1].seq) == [oldest]
