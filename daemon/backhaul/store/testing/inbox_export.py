"""Tests of the export of the inbox: the events exactly as they arrived, filtered."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store import database_at
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.read_models import EventFilter
from backhaul.store.testing.contract import MirrorTests
from backhaul.store.testing.mirror_scenes import show_customer, show_order, show_product
from backhaul.store.testing.transactions import fold_with

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent

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
MANY = 4_100
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
        between = [store.inbox.append(ARRIVALS[1]) for _ in range(MANY)]
        for waiting in between:
            await waiting
        await store.inbox.append(last)
        assert exported(store, EventFilter(store="main")) == ([first, last], 0)
        assert len(exported(store)[0]) == MANY + 2

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
