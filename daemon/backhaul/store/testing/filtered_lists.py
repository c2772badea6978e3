"""Tests of the filters of commands, events and deliveries."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome
from backhaul.store.filters import Filter, Sort, Span
from backhaul.store.inbox import Arrival
from backhaul.store.testing.command_scenes import at, plan, sent
from backhaul.store.testing.delivery_scenes import claim, fan_out, listed
from backhaul.store.testing.lists import BOOKS, command_ids, event_ids, receive
from backhaul.store.testing.mirror_scenes import show_order, show_product
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.read_models import Reader
    from backhaul.store.testing.scenes import TestClock

LAST = 2**63 - 1


async def delivery_seqs(store: Store, /, **terms: Any) -> list[int]:
    """Return the numbers of the deliveries that a filter selects."""
    wanted = Filter(**terms)
    rows = await store.read(lambda reader: reader.deliveries(wanted, 99))
    return [row.seq for row in rows]


async def searched(
    store: Store, rows: str, after: str | None = None, /, **terms: Any
) -> Span:
    """Return the numbers that a page searches, in the usual order."""
    wanted = Filter(**terms)
    return await store.read(
        lambda reader: reader.searched(rows, wanted, after, Sort.USUAL)
    )


def _read_commands(after: str | None, sort: Sort, reader: Reader) -> list[Any]:
    return list(reader.commands(Filter(), 9, after, sort))


def _read_counts(rows: str, reader: Reader) -> dict[str, int]:
    return reader.state_counts(rows)


class FilteredListsConformance(StoreConformance):
    """Each term selects, in each order, and counts are those of the states."""

    async def test_each_term_selects_commands(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        parcel = {"tracking_number": "T-77"}
        parked = await sent(store, Cause.UNDECIDABLE, payload=parcel)
        done = await sent(store, Cause.CONFIRMED, target="ord_2", payload=parcel)
        refused = await sent(store, Cause.REFUSED, target="ord_3")
        clock.advance(60)
        mine = {"variant_id": "var_1", "delta": 1}
        other = {"variant_id": "var_9", "delta": 1}
        lamp = await plan(store, "adjust", "prod_1", payload=mine, instance="erp")
        await plan(store, "adjust", "prod_1", payload=other, name="second")
        counted = await count(store, 7, 7)
        every = await command_ids(store)
        sibling = next(id_ for id_ in every[1:] if id_ not in {lamp, counted})
        assert len(every) == 6
        for terms, expected in (
            ({"keys": (parked.id[:31],)}, None),
            ({"keys": (parked.id, done.id)}, [parked.id, done.id]),
            ({"keys": ("ff",)}, []),
            ({"state": "applied"}, [done.id]),
            ({"state": "rejected"}, [refused.id]),
            ({"state": "planned"}, [counted, sibling, lamp]),
            ({"state": "sending"}, []),
            ({"kind": "target"}, [counted]),
            ({"store": "second"}, [sibling]),
            ({"connector": "erp"}, [counted, lamp]),
            ({"order": "1001"}, [parked.id]),
            ({"order": "#1001"}, [parked.id]),
            ({"order": "ord_2"}, [done.id]),
            ({"order": "4711"}, []),
            ({"object": "prod_1"}, [counted, sibling, lamp]),
            ({"sku": "SKU-1"}, [counted, lamp]),
            ({"sku": "NONE"}, []),
            ({"reason": "WHY"}, [parked.id, refused.id, done.id]),
            ({"since": at(clock)}, [counted, sibling, lamp]),
            ({"until": at(clock)}, [parked.id, refused.id, done.id]),
            ({"words": ("t-77",)}, [parked.id]),
            ({"words": ("courier", "why")}, [parked.id, refused.id, done.id]),
            ({"state": "parked", "kind": "cancel"}, []),
        ):
            found = await command_ids(store, Filter(**terms))
            if expected is None:
                assert parked.id in found
            else:
                assert found == expected, terms

    async def test_commands_are_listed_in_each_order(self, store: Store) -> None:
        first = await sent(store, target="ord_1")
        parked = await sent(store, Cause.UNDECIDABLE, target="ord_2")
        last = await plan(store, target="ord_3")
        planned = [first.id, parked.id, last]
        for sort, expected in (
            (Sort.USUAL, [parked.id, last, first.id]),
            (Sort.NEWEST, planned[::-1]),
            (Sort.OLDEST, planned),
        ):
            for place in range(3):
                after = expected[place - 1] if place else None
                rows = await store.read(partial(_read_commands, after, sort))
                assert [row.id for row in rows] == expected[place:], (sort, place)

    async def test_each_term_selects_events(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        others = await event_ids(store)
        folded = await receive(store, clock)
        about = ("order", "ord_1")
        paid = await receive(store, clock, topic="orders/paid", about=about)
        clock.advance(60)
        failed = await receive(store, clock, "unhandled")
        arrival = Arrival("main", "delivery", "orders/paid", at(clock), b"{}", b"Gift")
        waiting = await store.inbox.append(arrival)
        there = Arrival("second", "delivery", "orders/paid", at(clock), b"{}", b"Gift")
        elsewhere = await store.inbox.append(there)
        for terms, expected in (
            ({"ids": (folded, paid, 99_999)}, [paid, folded]),
            ({"state": "unhandled"}, [failed]),
            ({"state": "received"}, [elsewhere, waiting]),
            ({"kind": "order"}, [paid]),
            ({"kind": "customer"}, []),
            ({"store": "second"}, [elsewhere]),
            ({"order": "1001"}, [paid]),
            ({"order": "4711"}, []),
            ({"object": "ord_1"}, [paid]),
            ({"since": at(clock)}, [elsewhere, waiting, failed]),
            ({"until": at(clock)}, [paid, folded]),
            ({"words": ("gift",)}, [elsewhere, waiting]),
            ({"words": ("BODY",)}, [failed]),
            ({"words": ("evt_1", "why")}, [failed, paid, folded]),
        ):
            found = await event_ids(store, **terms)
            assert [id_ for id_ in found if id_ not in others] == expected, terms
        rows = await store.read(
            lambda reader: reader.events(Filter(), 2, folded, Sort.OLDEST)
        )
        assert [row.id for row in rows] == [paid, failed]

    async def test_each_term_selects_deliveries(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await show_order(store, "ord_1")
        first = await claim(store, BOOKS)
        outcome = DeliveryOutcome(cause=Cause.UNDECIDABLE, reason="no answer")
        await store.deliveries.record_outcome("books", first, outcome)
        clock.advance(60)
        await show_product(store, "prod_1")
        await fan_out(store, BOOKS)
        order, product = [row.seq for row in await listed(store)]
        assert order == first.seq
        for terms, expected in (
            ({}, [product, order]),
            ({"ids": (order, 99_999)}, [order]),
            ({"state": "parked"}, [order]),
            ({"state": "planned"}, [product]),
            ({"state": "applied"}, []),
            ({"topic": "order.placed"}, [order]),
            ({"kind": "product"}, [product]),
            ({"kind": "prod"}, []),
            ({"store": "main"}, [product, order]),
            ({"store": "second"}, []),
            ({"connector": "books"}, [product, order]),
            ({"order": "#1001"}, [order]),
            ({"object": "prod_1"}, [product]),
            ({"reason": "NO ANSWER"}, [order]),
            ({"since": at(clock)}, [product]),
            ({"until": at(clock)}, [order]),
            ({"words": ("ord_1", "answer")}, [order]),
        ):
            assert await delivery_seqs(store, **terms) == expected, terms

    async def test_a_delivery_has_its_attempts(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await show_order(store, "ord_1")
        sent = await claim(store, BOOKS)
        clock.advance(2)
        doubt = DeliveryOutcome(cause=Cause.UNKNOWN, reason="timeout", checks=0)
        await store.deliveries.record_outcome("books", sent, doubt)
        clock.advance(2)
        lost = DeliveryOutcome(cause=Cause.UNDECIDABLE, reason="not found", checks=1)
        await store.deliveries.record_outcome("books", sent, lost)
        found = await store.read(lambda reader: reader.delivery(sent.seq))
        assert found is not None
        assert (found.row.state, found.row.store) == ("parked", "main")
        assert [(each.kind, each.number, each.state) for each in found.attempts] == [
            ("attempt", 1, "uncertain"),
            ("check", 1, "parked"),
        ]
        first, check = found.attempts
        assert (first.started_at, first.finished_at) == (at(clock, -4), at(clock, -2))
        assert (first.reason, check.reason) == ("timeout", "not found")
        assert check.started_at is None
        assert found.document is not None
        assert found.document["id"] == "ord_1"
        assert await store.read(lambda reader: reader.delivery(99_999)) is None

    async def test_records_of_a_connection_are_counted_by_file(
        self, store: Store, clock: TestClock
    ) -> None:
        for number, cause in enumerate((Cause.CONFIRMED, Cause.REFUSED, Cause.UNKNOWN)):
            await sent(store, cause, target=f"ord_{number}")
        await plan(store, instance="books")
        (run,) = await store.read(lambda reader: reader.source_runs("courier"))
        assert (run.source, run.last_at) == ("file", at(clock))
        assert (run.submitted, run.applied, run.failed, run.open) == (3, 1, 1, 1)
        assert await store.read(lambda reader: reader.source_runs("none")) == []

    async def test_old_attempts_are_deleted(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await show_order(store, "ord_1")
        sent = await claim(store, BOOKS)
        outcome = DeliveryOutcome(cause=Cause.NOT_SENT, reason="refused")
        await store.deliveries.record_outcome("books", sent, outcome)
        clock.advance(10)
        for before, left in ((at(clock, -10), 1), (at(clock), 0)):
            while (await store.retention.prune(before, 1.0)).more:
                pass
            found = await store.read(lambda reader: reader.delivery(sent.seq))
            assert found is not None
            assert len(found.attempts) == left

    async def test_many_rows_are_counted_by_what_can_be_decided(
        self, store: Store
    ) -> None:
        parked = await sent(store, Cause.UNDECIDABLE, target="ord_1")
        planned = await plan(store, target="ord_2")
        counted = await count(store, 7, 7)
        found = await store.read(lambda r: r.bulk_selected("commands", Filter()))
        assert [(each.state, each.content, each.rows) for each in found] == [
            ("parked", "sent", 1),
            ("planned", "unsent", 1),
            ("planned", "target", 1),
        ]
        rows = await store.read(lambda r: r.bulk_rows("commands", Filter(), 2))
        assert [row.id for row in rows] == [parked.id, planned]
        rows = await store.read(lambda r: r.bulk_rows("commands", Filter(), 9))
        assert [row.id for row in rows] == [parked.id, planned, counted]

    async def test_the_states_with_few_rows_are_counted(
        self, store: Store, clock: TestClock
    ) -> None:
        await sent(store, Cause.UNDECIDABLE, target="ord_1")
        await sent(store, Cause.REFUSED, target="ord_2")
        await sent(store, Cause.CONFIRMED, target="ord_3")
        await count(store, 7, 7)
        await receive(store, clock, "unhandled")
        await receive(store, clock)
        found = [
            await store.read(partial(_read_counts, rows))
            for rows in ("commands", "events", "deliveries")
        ]
        none = dict.fromkeys(("planned", "sending", "uncertain", "parked"), 0)
        none |= {"rejected": 0}
        assert found == [
            none | {"planned": 1, "parked": 1, "rejected": 1},
            {"quarantined": 0, "unhandled": 1},
            none,
        ]

    async def test_a_short_list_is_searched_to_its_end(
        self, store: Store, clock: TestClock
    ) -> None:
        await receive(store, clock)
        for rows in ("commands", "events", "deliveries"):
            assert not (await searched(store, rows, topic="x")).more
        assert (await searched(store, "events", "5")).last == 4
        assert (await searched(store, "events", str(LAST))).last == LAST - 2
