"""Walks, looks and repairs beside a real platform whose webhooks get lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.webhook import TOPICS
from scenes.daemon import NOBODY, Office, backhaul, running
from scenes.databases import count, rows
from scenes.reference_shop import Shop, open_shop
from scenes.syncing import ON_DEMAND, differences, drift, reconcile, untold
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
    """Run the daemon until a full sync has ended; `at_rest`, stop it then."""
    access = shop.running.access
    hook = await shop.v1("POST", "/webhooks", {"address": NOBODY, "topics": TOPICS})
    secret = hook.data["secret"]
    await twisted(shop, *quirks)
    more = ON_DEMAND.replace("1ms", grace)
    office = Office(access.public_url, access.api_key, webhook_secret=secret, more=more)
    try:
        async with AsyncExitStack() as stack:
            daemon = await stack.enter_async_context(running(office))
            address = {"address": f"{daemon.public_url}/webhooks/main"}
            await shop.v1("PUT", f"/webhooks/{hook.data['id']}", address)
            await walked(office)
            if at_rest:
                await stack.aclose()
            yield office
    finally:
        office.remove()


async def twisted(shop: Shop, *quirks: str) -> None:
    """Let the platform answer by these readings from now on."""
    reply = await shop.control("PUT", "/stores/demo/quirks", {"quirks": quirks})
    assert reply.status == 200, reply.body


async def walked(office: Office) -> None:
    done = "SELECT count(*) FROM passes WHERE job = 'full' AND ended_at IS NOT NULL"
    await until(lambda: rows(office.database, done) == [(4,)], "the first full walk")
    # Behind a look of its own there may be one more that waits: each list that was
    # read first calls for one.
    await reconcile(office, "incremental")
    await reconcile(office, "incremental")


async def deaf(shop: Shop, plan: Any = DROP_ALL) -> None:
    """Let webhooks get lost from now on."""
    reply = await shop.control("PUT", "/stores/demo/faults", plan)
    assert reply.status == 200, reply.body


async def equal(shop: Shop, office: Office) -> list[str]:
    return differences(await shop.state(), office.database)


async def busy(shop: Shop, orders: int = 5) -> list[Any]:
    """Make products and place orders; ship one and cancel one."""
    products = [await shop.product(stock=50, sku=f"S{n}") for n in range(3)]
    placed = [await shop.order(products[n % 3]) for n in range(orders)]
    body = {"trackingCompany": "DHL", "trackingNumber": "1"}
    await shop.v1("POST", f"/orders/{placed[0]['id']}/fulfill", body)
    await shop.v1("POST", f"/orders/{placed[1]['id']}/cancel", {"restock": True})
    return products


async def test_a_walk_finds_nothing_where_nothing_is_wrong(shop: Shop) -> None:
    await busy(shop)
    async with mirrored(shop) as office:
        events = count(office.database, "inbox")
        walks = await reconcile(office, "full")
        assert drift(walks) == {}
        assert sorted(walk["read"] for walk in walks) == [1, 3, 3, 5]
        assert count(office.database, "inbox") == events


async def test_what_no_webhook_told_is_found_and_repaired(shop: Shop) -> None:
    (product, *_) = await busy(shop)
    async with mirrored(shop) as office:
        await deaf(shop)
        other = await shop.product(stock=9)
        await shop.order(product, 2)
        await shop.v1("PUT", f"/products/{product['id']}", {"title": "Renamed"})
        walks = await reconcile(office, "full")
        assert drift(walks) == {
            "products": {"missed": 1, "stale": 1},
            "levels": {"missed": 1, "stale": 1},
            "orders": {"missed": 1},
        }
        assert [walk["unrepaired"] for walk in walks] == [0] * 4
        assert await reconcile(office, "incremental")
        assert await equal(shop, office) == []
        assert drift(await reconcile(office, "full")) == {}
        assert other["id"]


async def test_a_look_finds_the_same_and_the_moves_of_stock(shop: Shop) -> None:
    (product, *_) = await busy(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        await deaf(shop)
        await shop.product(stock=9)
        for _ in range(3):
            await shop.order(product, 2)
        await shop.v1("PUT", f"/products/{product['id']}", {"title": "Renamed"})
        walks = await reconcile(office, "incremental")
        assert drift(walks) == {
            "products": {"missed": 1, "stale": 1},
            "levels": {"stale": 1},
            "orders": {"missed": 3},
        }
        assert await equal(shop, office) == []
        assert drift(await reconcile(office, "incremental")) == {}


async def settled(shop: Shop, office: Office) -> None:
    """Wait until every webhook that was not dropped is folded."""

    async def pending() -> bool:
        hooks = (await shop.v1("GET", "/webhooks")).data
        path = f"/webhooks/{hooks[0]['id']}/deliveries?limit=100"
        states = {each["status"] for each in (await shop.v1("GET", path)).data}
        return "PENDING" in states

    for _ in range(200):
        if not await pending():
            break
        await reconcile(office, "incremental", ["customers"])
    unfolded = "SELECT count(*) FROM events WHERE state = 'received'"
    await until(lambda: rows(office.database, unfolded) == [(0,)], "all is folded")


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_third_of_the_webhooks_is_lost(seed: int, shop: Shop) -> None:
    products = await busy(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        drop = {"fault": "drop", "probability": 0.3, "burst": 4}
        await deaf(shop, {"seed": seed, "webhooks": [drop]})
        for number in range(20):
            order = await shop.order(products[number % 3])
            if number % 2:
                await shop.v1("POST", f"/orders/{order['id']}/fulfill", {})
        await settled(shop, office)
        expected = untold(await shop.state(), office.database)
        walks = await reconcile(office, "incremental")
        assert drift(walks) == expected != {}
        assert await equal(shop, office) == []


async def test_an_hour_without_webhooks_is_made_up_for_in_one_look(shop: Shop) -> None:
    products = await busy(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        await deaf(shop)
        for number in range(12):
            await shop.order(products[number % 3])
            await shop.product(stock=3)
            await shop.control("POST", "/clock", {"advance": 300})
        expected = untold(await shop.state(), office.database)
        assert expected["orders"] == {"missed": 12}
        assert drift(await reconcile(office, "incremental")) == expected
        assert await equal(shop, office) == []


@pytest.mark.parametrize("quirks", [(), ("coarse-time",), ("bare-v1",)], ids=str)
async def test_more_than_a_page_of_changes_is_read(
    quirks: tuple[str, ...], shop: Shop
) -> None:
    await busy(shop)
    async with mirrored(shop, *quirks) as office:
        await deaf(shop)
        await twisted(shop, *[quirk for quirk in quirks if quirk != "bare-v1"])
        for number in range(230):
            await shop.v1("POST", "/products", {"title": f"P{number}", "price": "5"})
        await twisted(shop, *quirks)
        found = drift(await reconcile(office, "incremental", ["products"]))
        assert found == {"products": {"missed": 230}}
        assert await likeness(shop, office) == []
        assert drift(await reconcile(office, "incremental", ["products"])) == {}


async def test_what_a_webhook_still_tells_is_no_drift(shop: Shop) -> None:
    products = await busy(shop)
    async with mirrored(shop, grace="1500ms") as office:
        late = {"fault": "delay", "seconds": 0.4}
        await deaf(shop, {"webhooks": [late]})
        await shop.order(products[0])
        for job in ("incremental", "full"):
            assert drift(await reconcile(office, job, ["orders"])) == {}
            await shop.order(products[0])
        await reconcile(office, "incremental")
        assert await equal(shop, office) == []


async def test_a_deletion_that_nobody_told_is_found_by_the_next_look(
    shop: Shop,
) -> None:
    products = await busy(shop)
    email = {"email": "new@example.com", "name": "New"}
    customer = (await shop.v1("POST", "/customers", email)).data
    async with mirrored(shop) as office:
        await deaf(shop)
        assert (await shop.v1("DELETE", f"/products/{products[2]['id']}")).status == 200
        path = f"/customers/{customer['id']}"
        assert (await shop.v1("DELETE", path)).status == 200
        await reconcile(office, "incremental")
        gone = "SELECT kind, deleted FROM passes WHERE deleted > 0 ORDER BY kind"
        await until(lambda: len(rows(office.database, gone)) == 2, "both are found")
        assert rows(office.database, gone) == [("customers", 1), ("products", 1)]
        await reconcile(office, "full")
        assert await equal(shop, office) == []


async def test_what_a_list_does_not_show_is_asked_for_before_it_goes(
    shop: Shop,
) -> None:
    await busy(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        copy(office, "orders", "ord_never")
        walks = await reconcile(office, "full")
        assert drift(walks) == {"orders": {"foreign": 1}}
        assert [walk["unrepaired"] for walk in walks] == [0] * 4
        assert await equal(shop, office) == []


def copy(office: Office, table: str, new_id: str) -> None:
    """Put a row into the mirror that no platform ever had."""
    with closing(sqlite3.connect(office.database)) as connection, connection:
        names = [r[1] for r in connection.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(name for name in names if name != "id")
        connection.execute(
            f"INSERT INTO {table} (id, {columns}) SELECT ?, {columns}"  # noqa: S608 - ours
            f" FROM {table} LIMIT 1",
            (new_id,),
        )


async def test_a_row_that_was_spoilt_is_repaired(shop: Shop) -> None:
    """Same time, other content: no order of versions can tell, a re-read does."""
    await busy(shop)
    async with mirrored(shop) as office:
        await reconcile(office, "incremental")
        with closing(sqlite3.connect(office.database)) as connection, connection:
            spoil = "SET status = 'CANCELLED', document = '{}', digest = x'00'"
            connection.execute(f"UPDATE orders {spoil} WHERE number = 1003")
        walks = await reconcile(office, "full")
        assert drift(walks) == {"orders": {"stale": 1}}
        assert [walk["unrepaired"] for walk in walks] == [0] * 4
        assert await equal(shop, office) == []


async def test_a_dry_run_shows_everything_and_changes_nothing(shop: Shop) -> None:
    products = await busy(shop)
    async with mirrored(shop, at_rest=True) as office:
        await deaf(shop)
        order = await shop.order(products[0])
        await shop.v1("DELETE", f"/products/{products[1]['id']}")
        copy(office, "orders", "ord_never")
        before = await asyncio.to_thread(dump, office)
        said = await asyncio.to_thread(
            backhaul, "reconcile", "--dry-run", "--json", config=office.config
        )
        assert await asyncio.to_thread(dump, office) == before
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


def dump(office: Office) -> list[Any]:
    tables = rows(office.database, "SELECT name FROM sqlite_master WHERE type='table'")
    return [rows(office.database, f"SELECT * FROM {name}") for (name,) in tables]  # noqa: S608 - ours


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
    products = await busy(shop)
    async with mirrored(shop, *QUIRKS[name]) as office:
        assert await likeness(shop, office) == []
        await deaf(shop)
        await twisted(shop)
        await shop.order(products[0], 2)
        await shop.v1("POST", "/products", {"title": "New", "price": "5", "stock": 4})
        await shop.v1("DELETE", f"/products/{products[2]['id']}")
        await twisted(shop, *QUIRKS[name])
        await reconcile(office, "incremental")
        walks = await reconcile(office, "full")
        assert [walk["unrepaired"] for walk in walks] == [0] * 4
        assert await likeness(shop, office) == []
        assert drift(await reconcile(office, "full")) == {}


async def likeness(shop: Shop, office: Office) -> list[str]:
    """Compare what every platform tells; times and moves only some do."""
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
    queries = {
        "orders": "SELECT id, status FROM orders",
        "products": "SELECT id, title FROM products WHERE deleted_at IS NULL",
        "customers": "SELECT id, name FROM customers",
        "levels": "SELECT variant_id, stock FROM inventory_levels",
    }
    return {kind: sorted(rows(office.database, q)) for kind, q in queries.items()}
