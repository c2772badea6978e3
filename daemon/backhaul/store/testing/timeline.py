"""Tests of timelines: what happened to an object, in order, and why."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.core.resources import (
    Item,
    Level,
    Product,
    Shipment,
    StockChange,
    StockMove,
    Variant,
)
from backhaul.store.commands import Attempt, Check, Decision, Transition
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.mirror import Parcel
from backhaul.store.records import NewRecord, Tracked, Unmatched
from backhaul.store.testing.command_scenes import at, claimed, plan, sent
from backhaul.store.testing.event_scenes import NOON, arrive, fold_with
from backhaul.store.testing.mirror_scenes import (
    find_objects,
    show,
    show_customer,
    show_order,
    version,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from typing import Any

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.matching import Command
    from backhaul.store.read_records import TimelineEntry
    from backhaul.store.testing.scenes import TestClock

Step = tuple[str, str | None, str | None]
ORDERS = Subscriber(instance="books", store="main", topics=frozenset({"order.placed"}))
LINE = Item("li_1", "prod_1", "var_1", "A", "Lamp", 2, 0, 50)


async def timeline(store: Store, kind: str, name: str) -> list[TimelineEntry]:
    """Return the history of the only object of this name."""
    (found,) = await find_objects(store, kind, name)
    return await store.read(lambda reader: reader.timeline(kind, found))


async def steps(store: Store, kind: str, name: str, *whats: str) -> list[Step]:
    """Return what happened to an object, of these kinds of entries or of all."""
    return [
        (entry.what, entry.name, entry.state)
        for entry in await timeline(store, kind, name)
        if not whats or entry.what.split()[0] in whats
    ]


async def entry(store: Store, kind: str, name: str, what: str) -> TimelineEntry:
    """Return the only entry of an object's history of this kind."""
    found = await timeline(store, kind, name)
    (one,) = (each for each in found if each.what.split()[0] == what)
    return one


async def receive(
    store: Store,
    clock: TestClock,
    state: str = "folded",
    *,
    kind: str = "delivery",
    name: str = "main",
    detail: str | None = "why",
) -> int:
    """Append an event about `ord_1` that folds to a state."""
    folded = Folded(state, "orders/updated", None, "order", "ord_1", detail)
    return await arrive(store, name=name, folded=folded, kind=kind, at=at(clock))


async def end(
    store: Store, clock: TestClock, command: Command, *causes: Cause, effect: str
) -> None:
    """Record an attempt that ends now."""
    attempt = Attempt(at(clock), "confirmed", 200, "200 OK", b"{}")
    change = Transition(causes, "sent", effect_id=effect)
    await store.commands.record_attempt(command, attempt, change)


async def show_product(store: Store, *ids: str) -> None:
    """Let an event show `prod_1` with these variants."""
    variants = tuple(Variant(id_, f"SKU-{id_}", None, id_, 1) for id_ in ids)
    document = json.dumps(ids).encode()
    product = Product(
        "prod_1", "lamp", "Lamp", "active", None, NOON, variants, (), document
    )

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_product("main", product, "INR", version(0, document))

    await show(store, "product", "prod_1", write)


async def move_stock(
    store: Store,
    second: int,
    delta: int,
    *,
    id_: str | None,
    order_id: str | None = None,
    variant: str = "var_1",
) -> None:
    """Let an event show a movement of stock."""
    level = Level("prod_1", variant, 10)
    seen = version(second, b"")
    moves = (StockMove(level, delta, "MANUAL"),)
    change = StockChange(id_, "prod_1", order_id, seen.updated_at, moves)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.add_moves("main", change, f"evt_{second}")
        mirror.put_level("main", level, seen)

    await show(store, "level", "prod_1", write)


class TimelineConformance(StoreConformance):
    """Tests of `Reader.timeline`."""

    async def test_the_life_of_a_command_is_shown_in_order(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        clock.advance(10)
        id_ = await plan(store)
        await plan(store, target="ord_2")
        await plan(store, name="other")
        clock.advance(10)
        (command, *_) = await claimed(store)
        clock.advance(10)
        await end(store, clock, command, Cause.CONFIRMED, effect="shp_1")
        clock.advance(10)
        await show_order(store, "ord_1", 5, effects=["shp_1"])
        _, _, record = await store.read(lambda r: r.last_records("courier", 9))
        short = id_[:8]
        assert await steps(store, "order", "ord_1") == [
            ("event 1", "orders/updated", "folded"),
            ("record", f"courier {record.key.replace('key-', 'file:')}", "accepted"),
            ("fulfill", short, "planned"),
            ("attempt 1", f"of {short}", "confirmed"),
            ("fulfill", short, "applied"),
            ("event 2", "orders/updated", "folded"),
            ("echo", f"of {short}", "confirmed"),
        ]
        found = await timeline(store, "order", "1001")
        assert [each.at for each in found[1:]] == [
            *(at(clock, -30), at(clock, -30), at(clock, -10), at(clock, -10)),
            *(at(clock), at(clock)),
        ]
        details = [each.detail for each in found]
        assert details[2] == f"by record {record.key.replace('key-', 'courier file:')}"
        assert details[3:5] == ["200 OK", "sent"]
        assert details[6] == "by event 2, 20.00 s after it was sent"

    @pytest.mark.parametrize(
        ("seconds", "says"),
        [(1.234, "1.23"), (0, "0.00"), (-0.05, "-0.05"), (-1.5, "-1.50")],
    )
    async def test_the_time_to_an_echo_is_negative_if_the_clock_went_back(
        self, seconds: float, says: str, store: Store, clock: TestClock
    ) -> None:
        await sent(store, Cause.CONFIRMED, change={"effect_id": "shp_1"})
        clock.set_by(seconds)
        await show_order(store, "ord_1", effects=["shp_1"])
        echo = await entry(store, "order", "ord_1", "echo")
        assert (echo.detail or "").endswith(f", {says} s after it was sent")

    async def test_an_attempt_under_way_differs_from_one_that_was_cut_off(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        first = await sent(store)
        stopped = Transition((Cause.UNKNOWN,), "the daemon stopped")
        await store.commands.mark_interrupted_uncertain(stopped)
        (doubt,) = await store.uncertain.due("main", 9)
        absent = Transition((Cause.PROVED_ABSENT,), "not there")
        check = Check(at(clock), "absent", "no parcel")
        await store.uncertain.record_check(doubt, check, absent)
        assert [command.id for command in await claimed(store)] == [first.id]
        short = f"of {first.id[:8]}"
        found = await steps(store, "order", "ord_1", "attempt")
        assert found == [
            ("attempt 1", short, "no answer"),
            ("attempt 2", short, "sending"),
        ]
        seen = await entry(store, "order", "ord_1", "check")
        assert (seen.what, seen.state, seen.detail) == (
            *("check 1", "absent", "no parcel"),
        )

    async def test_a_decision_shows_who_made_it_and_why(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        command = await sent(store, Cause.UNDECIDABLE)
        clock.advance(9)
        decision = Decision(command.id, "resend", "ann", "seen")
        await store.decisions.decide(decision, None)
        found = await entry(store, "order", "ord_1", "commands")
        assert (found.at, found.what) == (at(clock), "commands resend")
        assert (found.name, found.state) == (command.id[:8], "planned")
        assert found.detail == "was parked, by ann: seen"

    async def test_events_are_shown_with_their_body_and_outcome(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1", name="other")
        await show_order(store, "ord_1")
        read = await receive(store, clock, "stale", kind="read")
        bad = await receive(store, clock, "quarantined")
        await receive(store, clock, name="other")
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        (found,) = await store.read(
            lambda reader: [
                each
                for each in reader.find_objects("order", "ord_1")
                if each.store == "main"
            ]
        )
        shown = await store.read(lambda reader: reader.timeline("order", found))
        assert [(each.what, each.state, each.body) for each in shown] == [
            ("event 2", "folded", b"{}"),
            (f"read {read}", "stale", b"body"),
            (f"event {bad}", "quarantined", b"body"),
        ]
        assert shown[1].detail == "why"
        assert shown[2].detail == f"why; see: backhaul quarantine show {row.id}"

    async def test_an_event_without_its_body_says_why(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        pruned = await receive(store, clock, detail=None)
        clock.advance(60)
        while (await store.retention.prune(at(clock, -30), 1.0)).more:
            pass

        def erase(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.replace_body(event.id, b"{}")
            return Folded("folded", "orders/updated", None, "order", "ord_1")

        arrival = Arrival("main", "delivery", "", at(clock), b"{}", b"body")
        await store.inbox.append(arrival)
        await fold_with(store, erase)
        _, second, third = await timeline(store, "order", "ord_1")
        assert (second.what, second.body) == (f"event {pruned}", b"")
        assert second.detail == "body pruned on 2026-03-01"
        assert (third.body, third.detail) == (
            b"{}",
            "a customer was erased on 2026-03-01",
        )

    async def test_records_that_wait_or_are_quarantined_are_shown(
        self, store: Store
    ) -> None:
        parcel = Shipment("shp_1", None, "BD7", None)
        await show_order(store, "ord_1", external_id="POS-1", shipments=(parcel,))
        for key, record, final in (
            ("waits", {"order": "#1001"}, False),
            ("fails", {"order": "01001"}, True),
            ("foreign", {"order": "pos-1"}, True),
            ("parcel", {"tracking_number": "BD7"}, True),
            ("other", {"order": "1002"}, True),
        ):
            payload = json.dumps({"kind": "fulfill", "record": record}).encode()
            row = NewRecord(key, payload, "raw", "", "")
            found = Unmatched("no", final=final)
            await store.records.accept(
                "courier", "main", [row], None, lambda *_, found=found: found
            )
        bad = NewRecord("bad", None, "x;1001;y", "no carrier", "")
        await store.records.accept(
            "courier", "main", [bad], None, lambda *_: Unmatched("no", final=True)
        )
        shown = sorted(await steps(store, "order", "ord_1", "record"))
        assert shown == [
            ("record", "courier bad", "quarantined"),
            ("record", "courier fails", "quarantined"),
            ("record", "courier foreign", "quarantined"),
            ("record", "courier parcel", "quarantined"),
            ("record", "courier waits", "waiting"),
        ]

    async def test_parcels_and_deliveries_are_shown(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(replace(ORDERS, begin="all"))
        await show_order(store, "ord_1")
        await store.deliveries.fan_out(ORDERS, 1.0)
        claimed_ = await store.deliveries.claim(ORDERS)
        assert claimed_ is not None
        done = DeliveryOutcome(cause=Cause.CONFIRMED, reason="taken", reference="R1")
        await store.deliveries.record_outcome("books", claimed_, done)
        parcel = Parcel("shp_1", "ord_1", "#1001", 1001, None, is_cancelled=False)
        tracked = Tracked((parcel,), "BD1", "delivered", 3, at(clock, 60))
        row = NewRecord("scan", b"null", "", "", "")
        await store.records.accept("courier", "main", [row], None, lambda *_: tracked)
        found = await entry(store, "order", "ord_1", "parcel")
        assert (found.at, found.name, found.state) == (
            at(clock, 60),
            "BD1",
            tracked.status,
        )
        assert found.detail == "reported by courier"
        found = await entry(store, "order", "ord_1", "delivery")
        assert (found.what, found.name) == ("delivery order.placed", "to books")
        assert (found.state, found.detail) == ("applied", "taken (R1)")

    async def test_incidents_and_holds_are_shown(self, store: Store) -> None:
        await show_order(store, "ord_1")
        crossed = {"kind": "cancelled", "says": "#1001 was cancelled"}
        await sent(store, Cause.CONFIRMED, change={"evidence": {"crossed": crossed}})
        found = await entry(store, "order", "ord_1", "incident")
        assert (found.state, found.detail) == ("open", "#1001 was cancelled")
        await store.incidents.resolve(int(found.name or ""), "ann", "stopped")
        found = await entry(store, "order", "ord_1", "incident")
        assert found.state == "resolved"
        assert found.detail == "#1001 was cancelled; resolved by ann: stopped"

        def hold(mirror: MirrorWriter, event: int) -> None:
            mirror.hold_order("main", "ord_1", event, "no JSON", NOON)

        event = await show(store, "order", "ord_1", hold)
        found = await entry(store, "order", "ord_1", "hold")
        assert found.state == "waiting"
        assert (found.detail or "").endswith(f"event {event} could not be read")

    async def test_stock_is_shown_with_its_cause(self, store: Store) -> None:
        await show_product(store, "var_1", "var_2")
        await show_order(store, "ord_1", items=(LINE,))
        await move_stock(store, 1, -2, id_="adj_1", order_id="ord_1")
        await move_stock(store, 2, 5, id_=None)
        change: dict[str, Any] = {
            "effect_id": "adj_3",
            "evidence": {"adjustment_id": "adj_3"},
        }
        payload = {"variant_id": "var_1", "delta": 3}
        command = await sent(
            store,
            Cause.CONFIRMED,
            kind="adjust",
            target="prod_1",
            payload=payload,
            change=change,
        )
        await move_stock(store, 3, 3, id_="adj_3")
        found = [
            each
            for each in await timeline(store, "product", "prod_1")
            if each.what == "stock"
        ]
        assert [(each.name, each.state) for each in found] == [
            ("SKU-var_1", "-2"),
            ("SKU-var_1", "+5"),
            ("SKU-var_1", "+3"),
        ]
        assert found[0].at == version(1, b"").updated_at
        assert found[0].detail == "now 10, MANUAL by order #1001"
        assert found[1].detail == "now 10, MANUAL, reported without an id"
        by_command = f"now 10, MANUAL by command {command.id[:8]} ("
        assert (found[2].detail or "").startswith(by_command)
        assert await steps(store, "order", "ord_1", "stock") == [
            ("stock", "SKU-var_1", "-2")
        ]

    async def test_a_variant_shows_nothing_of_another_variant(
        self, store: Store
    ) -> None:
        await show_product(store, "var_1", "var_2")
        for number, variant in ((1, "var_1"), (2, "var_2")):
            await move_stock(store, number, -number, id_=None, variant=variant)
            payload = {"variant_id": variant, "delta": number}
            await plan(store, "adjust", "prod_1", payload=payload)
        first = await steps(store, "sku", "SKU-var_1", "stock", "adjust", "record")
        other = await steps(store, "sku", "SKU-var_2", "stock", "adjust", "record")
        whole = await steps(store, "product", "prod_1", "stock", "adjust", "record")
        assert [step[0] for step in first] == ["record", "adjust", "stock"]
        assert sorted(first + other) == sorted(whole)
        assert await steps(store, "sku", "SKU-var_2", "event") != []

    async def test_a_customer_shows_orders_and_erasure(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_customer(store, "cus_1", "a@b.example")
        gone = version(7, b"").updated_at
        parcel = Shipment("shp_1", "BlueDart", "BD1", version(5, b"").updated_at)
        await show_order(store, "ord_1", customer_id="cus_1", shipments=(parcel,))
        await show_order(store, "ord_2", customer_id="cus_1", cancelled_at=gone)
        await show_order(store, "ord_3", customer_id="cus_2")
        await show_order(store, "ord_4", customer_id="cus_1", name="other")
        (found,) = await store.read(
            lambda reader: [
                each
                for each in reader.find_objects("customer", "cus_1")
                if each.store == "main"
            ]
        )
        shown = await store.read(lambda reader: reader.timeline("customer", found))
        assert [(each.what, each.name, each.state) for each in shown] == [
            ("event 1", "customers/updated", "folded"),
            ("order", "#1001", "placed"),
            ("order", "#1002", "placed"),
            ("order", "#1001", "shipped"),
            ("order", "#1002", "cancelled"),
        ]
        assert shown[1].detail == "now PENDING, PENDING, UNFULFILLED"
        assert shown[3].detail == "BlueDart BD1"
        trace = await store.erasure.find_customer("main", "cus_1", ())
        assert trace is not None
        clock.advance(60)
        await store.erasure.register("main", trace, [])
        shown = await store.read(lambda reader: reader.timeline("customer", found))
        assert (shown[-1].what, shown[-1].state) == ("forgotten", "erased")
        assert shown[-1].at == at(clock)

    async def test_why_a_connection_was_not_notified_of_an_order(
        self, store: Store
    ) -> None:
        old = "2026-02-01T12:00:00.000Z"
        rules = [("paid", "paid", "now"), ("sure", "confirmed", "now")]
        for instance, rule, start in (*rules, ("all", "paid", "all")):
            await store.deliveries.subscribe(
                replace(ORDERS, instance=instance, release_when=rule, begin=start)
            )
        await show_order(store, "ord_1", placed_at=old)
        await show_order(store, "ord_2", awaiting_confirmation=True)
        await show_order(store, "ord_3", cancelled_at=NOON)
        await show_order(store, "ord_4", financial_status="ON_HOLD")
        await show_order(store, "ord_5", financial_status="paid")
        known = {}
        for number in range(1, 6):
            kinds = ("connection", "payment", "confirmation")
            found = await timeline(store, "order", f"ord_{number}")
            known[number] = {
                (each.what, each.name, each.state)
                for each in found
                if each.what in kinds
            }
        both = {("connection", name, "not reported") for name in ("paid", "sure")}
        waits = ("payment", "#1002", "not released")
        assert known == {
            1: both | {("payment", "#1001", "not released")},
            2: {waits, ("confirmation", "#1002", "not released")},
            3: both | {("connection", "all", "not reported")},
            4: {("payment", "#1004", "not released")},
            5: set(),
        }
        found = await timeline(store, "order", "ord_4")
        details = [each.detail or "" for each in found]
        assert any("ON_HOLD is not known: connection paid" in says for says in details)

    async def test_an_order_that_is_not_mirrored_has_the_records_that_name_it(
        self, store: Store
    ) -> None:
        payload = b'{"kind":"fulfill","record":{"order":"4711"}}'
        row = NewRecord("key", payload, "raw", "", "file:1")
        await store.records.accept(
            "courier", "main", [row], None, lambda *_: Unmatched("no", final=False)
        )
        assert await steps(store, "order", "4711") == [
            ("record", "courier file:1", "waiting")
        ]
