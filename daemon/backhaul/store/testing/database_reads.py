"""Tests of what programs beside the daemon read of its database."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.lifecycle import Cause
from backhaul.store import database_at
from backhaul.store.database import StoredWebhook
from backhaul.store.inbox import Arrival
from backhaul.store.testing.command_scenes import plan, sent
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import NOON, show_order, show_product

if TYPE_CHECKING:
    from backhaul.store import Store

HOOK = "wh_7"


async def arrive(
    store: Store,
    topic: str = "orders/create",
    body: bytes = b"{}",
    *,
    name: str = "main",
    kind: str = "delivery",
) -> int:
    """Append an event; return its id."""
    return await store.inbox.append(Arrival(name, kind, topic, NOON, b"{}", body))


def found_webhook(store: Store, after: int = 0) -> StoredWebhook | None:
    """Return the test webhook that arrived after an event."""
    names = [HOOK, "evt_9", ""]
    return database_at(store.place).find_test_webhook(after, "main", names)


class DatabaseReadsConformance(FamilyTests):
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
        event = await arrive(store, topic, body)
        await arrive(store)
        assert found_webhook(store) == StoredWebhook(event, topic, is_test=True)

    async def test_any_other_webhook_is_the_first(self, store: Store) -> None:
        first = await arrive(store, "orders/create", b'{"id":"wh_8"}')
        await arrive(store, "orders/updated")
        found = found_webhook(store)
        assert found == StoredWebhook(first, "orders/create", is_test=False)

    async def test_only_later_webhooks_of_the_store_are_found(
        self, store: Store
    ) -> None:
        before = await arrive(store, "webhooks/test")
        await arrive(store, "webhooks/test", name="other")
        await arrive(store, "webhooks/test", kind="read")
        assert found_webhook(store, before) is None
        event = await arrive(store, "webhooks/test")
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
            (listed,) = reader.events(None, None, 9)
        assert listed.about == "#1001"
