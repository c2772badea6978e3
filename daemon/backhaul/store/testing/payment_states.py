"""Tests of payment states: unknown ones, and orders that are not reported yet."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.store.deliveries import Subscriber
from backhaul.store.mirror import UnknownStatus
from backhaul.store.testing.delivery_scenes import take
from backhaul.store.testing.mirror_scenes import rows_of, show_order
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from backhaul.store import Store

AFTER = "2026-03-01T14:00:00.000Z"
"""Later than the connections of these tests began."""
BOOKS = Subscriber(instance="books", store="main", topics=frozenset({"order.placed"}))
PAYING = replace(BOOKS, release_when="paid")
KNOWN = ["PENDING", "PAID", "PARTIALLY_REFUNDED", "VOIDED", "REFUNDED"]


async def unknown_statuses(store: Store) -> list[UnknownStatus]:
    """Return the unknown financial statuses, as operators see them."""
    counts = await store.read(lambda reader: reader.counts())
    conditions = await store.alert_conditions.current([])
    assert list(conditions.unknown_statuses) == list(counts.unknown_statuses)
    return list(counts.unknown_statuses)


async def unreported(store: Store, id_: str = "ord_1") -> list[tuple[str, str]]:
    """Return why connections are not notified of an order: what, and in words."""
    found = await store.read(lambda reader: reader.object("order", "main", id_))
    assert found is not None
    entries = await store.read(lambda reader: reader.timeline("order", found))
    words = ("connection", "payment", "confirmation")
    return [(each.what, str(each.detail)) for each in entries if each.what in words]


async def notify(store: Store, subscriber: Subscriber) -> list[str]:
    """Deliver every change to a connection; return the topics."""
    return [topic for topic, _ in await take(store, subscriber)]


class PaymentStatesConformance(MirrorTests):
    """Tests of financial statuses in `Counts`, alert conditions and timelines."""

    async def test_an_unknown_status_that_keeps_orders_is_listed(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_new(store, "ord_2", financial_status="ODD")
        await show_new(store, "ord_1", financial_status="ODD")
        await show_new(store, "ord_3", financial_status="authorized")
        await show_new(store, "ord_4", name="other", financial_status="ODD")
        assert await unknown_statuses(store) == [
            UnknownStatus("main", "ODD", 2, "#1001"),
            UnknownStatus("main", "authorized", 1, "#1003"),
        ]

    @pytest.mark.parametrize("status", [*KNOWN, "paid", " Refunded ", "voided"])
    async def test_a_known_status_is_known_in_any_case(
        self, status: str, store: Store
    ) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_new(store, "ord_1", financial_status=status)
        assert await unknown_statuses(store) == []

    @pytest.mark.parametrize(
        "members",
        [{"cancelled_at": AFTER}, {"fulfillment_status": "FULFILLED"}],
    )
    async def test_an_order_without_open_work_keeps_no_status(
        self, members: dict[str, Any], store: Store
    ) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_new(store, "ord_1", financial_status="ODD")
        assert len(await unknown_statuses(store)) == 1
        await show_new(store, "ord_1", 1, financial_status="ODD", **members)
        assert await unknown_statuses(store) == []

    @pytest.mark.parametrize(
        "subscriber",
        [
            BOOKS,
            replace(PAYING, release_when="confirmed"),
            replace(PAYING, store="other"),
            replace(PAYING, topics=frozenset({"order.updated"})),
        ],
    )
    async def test_a_connection_that_does_not_wait_for_payment_keeps_nothing(
        self, subscriber: Subscriber, store: Store
    ) -> None:
        await store.deliveries.subscribe(subscriber)
        await show_new(store, "ord_1", financial_status="ODD")
        assert await unknown_statuses(store) == []
        assert await unreported(store) == []

    async def test_a_removed_connection_keeps_nothing(self, store: Store) -> None:
        await store.deliveries.subscribe(PAYING)
        await store.deliveries.subscribe(replace(BOOKS, instance="courier"))
        await show_new(store, "ord_1", financial_status="ODD")
        assert len(await unknown_statuses(store)) == 1
        await store.deliveries.retire(["courier"])
        assert await unknown_statuses(store) == []
        assert await unreported(store) == []

    async def test_an_order_that_was_reported_keeps_nothing(self, store: Store) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_new(store, "ord_1", financial_status="PAID")
        assert await notify(store, PAYING) == ["order.placed"]
        await show_new(store, "ord_1", 1, financial_status="ODD")
        assert await unknown_statuses(store) == []
        assert await unreported(store) == []

    @pytest.mark.parametrize(
        ("status", "says"),
        [
            ("PENDING", "financial status PENDING: connection books waits for payment"),
            ("voided", "financial status voided: connection books waits for payment"),
            ("ODD", "financial status ODD is not known: connection books waits"),
            ("REFUNDED", "financial status REFUNDED: connection books is not"),
            ("PAID", None),
            ("partially_refunded", None),
        ],
    )
    async def test_the_timeline_says_which_payment_is_waited_for(
        self, status: str, says: str | None, store: Store
    ) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_new(store, "ord_1", financial_status=status)
        found = await unreported(store)
        assert [what for what, _ in found] == ["payment"] * (says is not None)
        assert all(text.startswith(str(says)) for _, text in found)

    async def test_a_refunded_order_is_explained_to_every_connection(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await show_new(store, "ord_1", financial_status="REFUNDED")
        ((what, text),) = await unreported(store)
        assert (what, "waits for payment" in text) == ("payment", False)
        whole = {"financial_status": "REFUNDED", "fulfillment_status": "FULFILLED"}
        await show_new(store, "ord_1", 1, **whole)
        assert await unreported(store) == []

    async def test_an_order_that_awaits_its_confirmation_is_explained(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(replace(BOOKS, release_when="confirmed"))
        await show_new(store, "ord_1", awaiting_confirmation=True)
        ((what, text),) = await unreported(store)
        assert what == "confirmation"
        assert "connection books waits for that" in text
        await show_new(store, "ord_1", 1, awaiting_confirmation=False)
        assert await unreported(store) == []

    async def test_an_order_from_before_the_connection_is_explained(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(PAYING)
        await show_order(store, "ord_1", financial_status="ODD")
        says = "placed before connection books began; not reported to it"
        assert await unreported(store) == [("connection", says)]
        assert await unknown_statuses(store) == []

    async def test_a_connection_from_the_first_order_on_waits_for_old_orders_too(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(replace(PAYING, begin="all"))
        await show_order(store, "ord_1", financial_status="ODD")
        assert len(await unknown_statuses(store)) == 1

    async def test_an_order_cancelled_before_it_was_reported_is_explained(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await show_new(store, "ord_1", cancelled_at=AFTER)
        says = (
            "cancelled before it was reported to connection books; not reported to it"
        )
        assert await unreported(store) == [("connection", says)]

    @pytest.mark.parametrize("status", ["REFUNDED", "Refunded", " refunded "])
    async def test_a_refunded_order_is_not_open(
        self, status: str, store: Store
    ) -> None:
        await show_order(store, "ord_1", financial_status=status)
        await show_order(store, "ord_2", financial_status="PARTIALLY_REFUNDED")
        await show_order(store, "ord_3", financial_status="ODD")
        assert rows_of(store, "open_orders", "id") == [("ord_2",), ("ord_3",)]


async def show_new(
    store: Store, id_: str, second: int = 0, *, name: str = "main", **members: Any
) -> None:
    """Show an order that was placed after the connections began."""
    await show_order(store, id_, second, name=name, placed_at=AFTER, **members)
