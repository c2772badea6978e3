"""Full syncs, polls and repairs with a real platform that loses webhooks."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.webhook import TOPICS
from scenes.daemon import UNUSED_ADDRESS, Office, backhaul, running
from scenes.damaged_rows import copy, overwrite
from scenes.reference_shop import Shop, open_shop
from scenes.stored import count, passes, rows_of
from scenes.syncing import (
    ON_DEMAND,
    differences,
    found_drift,
    full_syncs,
    missed_changes,
    reconcile,
)
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DROP_ALL = {"webhooks": [{"fault": "drop"}]}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


@asynccontextmanager
async def mirrored(
    shop: Shop, *quirks: str, grace: str = "1ms", at_rest: bool = False
) -> AsyncIterator[Office]:
    """Run the daemon until a full sync has ended; with `at_rest`, stop it then."""
    access = shop.running.access
    hook = await shop.v1(
        "POST", "/webhooks", {"address": UNUSED_ADDRESS, "topics": TOPICS}
    )
    secret = hook.data["secret"]
    await set_quirks(shop, *quirks)
    more = ON_DEMAND.replace("1ms", grace)
    office = Office(access.public_url, access.api_key, webhook_secret=secret, more=more)
    try:
        async with AsyncExitStack() as stack:
            daemon = await stack.enter_async_context(running(office))
            address = {"address": f"{daemon.public_url}/webhooks/main"}
            await shop.v1("PUT", f"/webhooks/{hook.data['id']}", address)
            await await_first_sync(office)
            if at_rest:
                await stack.aclose()
            yield office
    finally:
        office.remove()


async def set_quirks(shop: Shop, *quirks: str) -> None:
    """Set quirks of the platform."""
    reply = await shop.control("PUT", "/stores/demo/quirks", {"quirks": quirks})
    assert reply.status == 200, reply.body


async def await_first_sync(office: Office) -> None:
    await until(lambda: full_syncs(office.database) == 4, "the first full sync")
    # Behind the daemon's own poll one more may wait: the first read of each list
    # requests one.
    await reconcile(office, "incremental")
    await reconcile(office, "incremental")


async def lose_webhooks(shop: Shop, plan: Any = DROP_ALL) -> None:
    """Lose all webhooks from now on."""
    reply = await shop.control("PUT", "/stores/demo/faults", plan)
    assert reply.status == 200, reply.body


async def equal(shop: Shop, office: Office) -> list[str]:
    return differences(await shop.state(), office.database)


async def make_changes(shop: Shop, orders: int = 5) -> list[Any]:
    """Create products and place orders; ship one and cancel one."""
    products = [await shop.product(stock=50, sku=f"S{n}") for n in range(3)]
    placed = [await shop.order(products[n % 3]) for n in range(orders)]
    body = {"trackingCompany": "DHL", "trackingNumber": "1"}
    await shop.v1("POST", f"/orders/{placed[0]['id']}/fulfill", body)
    await shop.v1("POST", f"/orders/{placed[1]['id']}/cancel", {"restock": True})
    return products


async def test_a_full_sync_finds_nothing_where_nothing_is_wrong(shop: Shop) -> None:
    await make_changes(shop)
    async with mirrored(shop) as office:
        events = count(office.database, "events")
        runs = await reconcile(office, "full")
        assert found_drift(runs) == {}
        assert sorted(walk["read"] for walk in runs) == [1, 3, 3, 5]
        assert count(office.database, "events") == events


async def test_a_change_without_a_webhook_is_found_and_repaired(shop: Shop) -> None:
    (product, *_) = await make_changes(shop)
    async with mirrored(shop) as office:
        await lose_webhooks(shop)
        other = await shop.product(stock=9)
        await shop.order(product, 2)
        await shop.v1("PUT", f"/products/{product['id']}", {"title": "Renamed"})
        runs = await reconcile(office, "full")
        assert found_drift(runs) == {
            "products": {"missed": 1, "stale": 1},
            "levels": {"missed": 1, "stale": 1},
            "orders": {"missed": 1},
        }
        assert [walk["unrepaired"] for walk in runs] == [0] * 4
        assert await reconcile(office, "incremental")
        assert await equal(shop, office) == []
        assert found_drift(await reconcile(office, "full")) == {}
        assert other["id"]


async def test_a_poll_finds_the_same_and_the_moves_of_stock(shop: Shop) -> None:
    (product, *_) = await make_changes(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        await lose_webhooks(shop)
        await shop.product(stock=9)
        for _ in range(3):
            await shop.order(product, 2)
        await shop.v1("PUT", f"/products/{product['id']}", {"title": "Renamed"})
        runs = await reconcile(office, "incremental")
        assert found_drift(runs) == {
            "products": {"missed": 1, "stale": 1},
            "levels": {"stale": 1},
            "orders": {"missed": 3},
        }
        assert await equal(shop, office) == []
        assert found_drift(await reconcile(office, "incremental")) == {}


async def await_folded(shop: Shop, office: Office) -> None:
    """Wait until all webhooks that were not lost are folded."""

    async def pending() -> bool:
        hooks = (await shop.v1("GET", "/webhooks")).data
        path = f"/webhooks/{hooks[0]['id']}/deliveries?limit=100"
        states = {each["status"] for each in (await shop.v1("GET", path)).data}
        return "PENDING" in states

    for _ in range(200):
        if not await pending():
            break
        await reconcile(office, "incremental", ["customers"])
    await until(
        lambda: count(office.database, "events", state="received") == 0, "all is folded"
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_third_of_the_webhooks_is_lost(seed: int, shop: Shop) -> None:
    products = await make_changes(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        drop = {"fault": "drop", "probability": 0.3, "burst": 4}
        await lose_webhooks(shop, {"seed": seed, "webhooks": [drop]})
        for number in range(20):
            order = await shop.order(products[number % 3])
            if number % 2:
                await shop.v1("POST", f"/orders/{order['id']}/fulfill", {})
        await await_folded(shop, office)
        expected = missed_changes(await shop.state(), office.database)
        runs = await reconcile(office, "incremental")
        assert found_drift(runs) == expected != {}
        assert await equal(shop, office) == []


async def test_an_hour_without_webhooks_is_made_up_for_in_one_poll(shop: Shop) -> None:
    products = await make_changes(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        await lose_webhooks(shop)
        for number in range(12):
            await shop.order(products[number % 3])
            await shop.product(stock=3)
            await shop.control("POST", "/clock", {"advance": 300})
        expected = missed_changes(await shop.state(), office.database)
        assert expected["orders"] == {"missed": 12}
        assert found_drift(await reconcile(office, "incremental")) == expected
        assert await equal(shop, office) == []


@pytest.mark.parametrize("quirks", [(), ("coarse-time",), ("bare-v1",)], ids=str)
async def test_more_than_a_page_of_changes_is_read(
    quirks: tuple[str, ...], shop: Shop
) -> None:
    await make_changes(shop)
    async with mirrored(shop, *quirks) as office:
        await lose_webhooks(shop)
        await set_quirks(shop, *[quirk for quirk in quirks if quirk != "bare-v1"])
        for number in range(230):
            await shop.v1("POST", "/products", {"title": f"P{number}", "price": "5"})
        await set_quirks(shop, *quirks)
        found = found_drift(await reconcile(office, "incremental", ["products"]))
        assert found == {"products": {"missed": 230}}
        assert await compare_basics(shop, office) == []
        assert found_drift(await reconcile(office, "incremental", ["products"])) == {}


async def test_a_change_whose_webhook_is_still_due_is_no_drift(shop: Shop) -> None:
    products = await make_changes(shop)
    async with mirrored(shop, grace="1500ms") as office:
        late = {"fault": "delay", "seconds": 0.4}
        await lose_webhooks(shop, {"webhooks": [late]})
        await shop.order(products[0])
        for job in ("incremental", "full"):
            assert found_drift(await reconcile(office, job, ["orders"])) == {}
            await shop.order(products[0])
        await reconcile(office, "incremental")
        assert await equal(shop, office) == []


async def test_a_deletion_without_a_webhook_is_found_by_the_next_poll(
    shop: Shop,
) -> None:
    products = await make_changes(shop)
    email = {"email": "new@example.com", "name": "New"}
    customer = (await shop.v1("POST", "/customers", email)).data
    async with mirrored(shop) as office:
        await lose_webhooks(shop)
        assert (await shop.v1("DELETE", f"/products/{products[2]['id']}")).status == 200
        path = f"/customers/{customer['id']}"
        assert (await shop.v1("DELETE", path)).status == 200
        await reconcile(office, "incremental")
        await until(lambda: len(deletions(office)) == 2, "both are found")
        assert deletions(office) == [("customers", 1), ("products", 1)]
        await reconcile(office, "full")
        assert await equal(shop, office) == []


def deletions(office: Office) -> list[tuple[str, int]]:
    found = passes(office.database)
    return sorted((one.kind, one.deleted) for one in found if one.deleted)


async def test_an_object_missing_in_a_list_is_requested_before_its_removal(
    shop: Shop,
) -> None:
    await make_changes(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        copy(office.database, "orders", id="ord_never")
        runs = await reconcile(office, "full")
        assert found_drift(runs) == {"orders": {"foreign": 1}}
        assert [walk["unrepaired"] for walk in runs] == [0] * 4
        assert await equal(shop, office) == []


async def test_a_row_that_was_spoilt_is_repaired(shop: Shop) -> None:
    """Same time, different content: only a refetch shows which one is right."""
    await make_changes(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        spoilt = {"status": "CANCELLED", "document": "{}", "digest": b"\0"}
        overwrite(office.database, "orders", spoilt, number=1003)
        runs = await reconcile(office, "full")
        assert found_drift(runs) == {"orders": {"stale": 1}}
        assert [walk["unrepaired"] for walk in runs] == [0] * 4
        assert await equal(shop, office) == []


async def test_a_dry_run_shows_everything_and_changes_nothing(shop: Shop) -> None:
    products = await make_changes(shop)
    async with mirrored(shop, at_rest=True) as office:
        await lose_webhooks(shop)
        order = await shop.order(products[0])
        await shop.v1("DELETE", f"/products/{products[1]['id']}")
        copy(office.database, "orders", id="ord_never")
        before = stored(office)
        said = await asyncio.to_thread(
            backhaul, "reconcile", "--dry-run", "--json", config=office.config
        )
        assert stored(office) == before
        found = {(row["kind"], row["id"]): row["drift"] for row in said.json()}
        assert found["orders", order["id"]] == "missed"
        assert found["orders", "ord_never"] == "foreign"
        assert found["products", products[1]["id"]] == "deleted"
        kinds = Counter((row["kind"], row["drift"]) for row in said.json())
        assert kinds["levels", "deleted"] == 1
        assert kinds["levels", "stale"] == 1
        table = await asyncio.to_thread(
            backhaul, "reconcile", "--dry-run", config=office.config
        )
        assert order["id"] in table.out.replace("\n", "")


def stored(office: Office) -> tuple[bytes, bytes]:
    """Return the bytes of the database, and of its log if there is one."""
    log = office.database.with_name(f"{office.database.name}-wal")
    return office.database.read_bytes(), log.read_bytes() if log.exists() else b""


QUIRKS = {
    "bare-v1": ["bare-v1"],
    "clamp-limit": ["clamp-limit"],
    "ignore-page": ["ignore-page"],
    "bare-ignore-page": ["bare-v1", "ignore-page"],
    "no-levels": ["no-levels"],
    "no-levels-no-history": ["no-levels", "no-history"],
    "no-history": ["no-history"],
    "no-store-endpoint": ["no-store-endpoint"],
    "no-updated-since": ["no-updated-since"],
    "number-money": ["number-money"],
    "coarse-time": ["coarse-time"],
    "lowercase-enums": ["lowercase-enums"],
    "all": [
        *["bare-v1", "bare-webhooks", "number-money", "lowercase-enums"],
        *["plain-errors", "no-updated-since", "coarse-time", "no-sequence"],
        *["no-history", "no-store-endpoint", "no-levels", "ignore-page"],
    ],
}


@pytest.mark.parametrize("name", QUIRKS)
async def test_under_every_quirk_the_mirror_becomes_equal(
    name: str, shop: Shop
) -> None:
    products = await make_changes(shop)
    async with mirrored(shop, *QUIRKS[name]) as office:
        assert await compare_basics(shop, office) == []
        await lose_webhooks(shop)
        await set_quirks(shop)
        await shop.order(products[0], 2)
        await shop.v1("POST", "/products", {"title": "New", "price": "5", "stock": 4})
        await shop.v1("DELETE", f"/products/{products[2]['id']}")
        await set_quirks(shop, *QUIRKS[name])
        await reconcile(office, "incremental")
        runs = await reconcile(office, "full")
        assert [walk["unrepaired"] for walk in runs] == [0] * 4
        assert await compare_basics(shop, office) == []
        assert found_drift(await reconcile(office, "full")) == {}


async def compare_basics(shop: Shop, office: Office) -> list[str]:
    """Compare the members that every platform shows, without times and movements."""
    state = await shop.state()
    mirror = mirror_ids(office)
    theirs = {
        "orders": sorted((o["id"], o["status"]) for o in state["orders"]),
        "products": sorted((p["id"], p["title"]) for p in state["products"]),
        "customers": sorted((c["id"], c["name"]) for c in state["customers"]),
        "levels": sorted((v["variantId"], v["stock"]) for v in state["levels"]),
    }
    return [kind for kind in theirs if theirs[kind] != mirror[kind]]


def mirror_ids(office: Office) -> dict[str, list[Any]]:
    path = office.database
    found = {
        "orders": rows_of(path, "orders", "id", "status"),
        "products": rows_of(path, "products", "id", "title", deleted_at=None),
        "customers": rows_of(path, "customers", "id", "name"),
        "levels": rows_of(path, "inventory_levels", "variant_id", "stock"),
    }
    return {kind: sorted(rows) for kind, rows in found.items()}
