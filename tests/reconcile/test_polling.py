"""Looks for what is new, while it goes on changing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from reconcile.conftest import reconciling
from support import payloads
from support.databases import rows
from support.push_server import document, message

if TYPE_CHECKING:
    from reconcile.conftest import Place
    from support.push_server import Connection, Request


class Changing:
    """A list by update, in pages of two; after each page its first row changes."""

    def __init__(self, count: int, changes: int) -> None:
        self.listed = [payloads.order(f"ord_{n}", n, number=n) for n in range(count)]
        self.changes = changes
        self.now = count

    async def __call__(self, request: Request, connection: Connection) -> None:
        query = {name: value for name, (value,) in parse_qs(request.query).items()}
        since = query["updatedSince"]
        found = [row for row in self.listed if row["updatedAt"] >= since]
        found.sort(key=lambda row: str(row["updatedAt"]))
        start = 2 * (int(query["page"]) - 1)
        page = found[start : start + 2]
        await connection.send(document({"data": page}))
        if self.changes > 0 and page:
            self.change(page[0])

    def change(self, row: dict[str, Any]) -> None:
        self.changes -= 1
        self.now += 1
        self.listed = [each for each in self.listed if each["id"] != row["id"]]
        number = int(row["number"])
        self.listed.append(payloads.order(row["id"], self.now, number=number))


async def test_rows_that_change_meanwhile_hide_no_other(place: Place) -> None:
    orders = Changing(20, changes=6)
    place.platform.says("/orders", orders)
    mark = payloads.instant(0)
    await place.store.marks.put("polled:main:orders", mark)
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.look(["orders"])
    assert ended.missed == 20
    mirrored = rows(place.store.path, "SELECT id, updated_at FROM orders ORDER BY id")
    expected = sorted((row["id"], row["updatedAt"]) for row in orders.listed)
    assert mirrored == expected


async def test_a_look_goes_on_where_the_last_one_ended(place: Place) -> None:
    orders = Changing(20, changes=0)
    place.platform.says("/orders", orders)
    await place.store.marks.put("polled:main:orders", payloads.instant(0))
    async with reconciling(place) as reconciler:
        await reconciler.look(["orders"])
        asked = len(place.server.requests)
        orders.change(orders.listed[3])
        place.platform.says("/orders", orders)
        (ended,) = await reconciler.look(["orders"])
    assert (ended.missed, ended.stale) == (0, 1)
    first = parse_qs(place.server.requests[asked].query)
    # The newest row is of 12:00:19; a look reaches back two minutes behind it.
    assert first["updatedSince"] == ["2026-03-01T11:58:19.000Z"]


ENTRY: payloads.Document = {
    "id": "inv_1",
    "adjustmentId": "adj_1",
    "productId": "prod_1",
    "variantId": "var_1",
    "adjustment": -2,
    "stockAfter": 5,
    "reason": "SOLD",
    "createdAt": payloads.instant(3),
}
STRANGE: dict[str, Any] = {
    "no time": ENTRY | {"createdAt": None},
    "another time": ENTRY | {"createdAt": "yesterday"},
    "no id": ENTRY | {"id": []},
    "no stock": ENTRY | {"stockAfter": "five"},
    "no row": 7,
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_row_of_history_breaks_off_no_more_than_its_look(
    name: str, place: Place
) -> None:
    place.platform.says("/inventory/history", document({"data": [STRANGE[name]]}))
    place.platform.says("/customers", document({"data": [payloads.customer()]}))
    await place.store.marks.put("polled:main:customers", payloads.instant(0))
    async with reconciling(place) as reconciler:
        ended = await reconciler.look(["levels", "customers"])
        assert [(walk.kind, walk.missed) for walk in ended] == [("customers", 1)]
        good = document({"data": [ENTRY, ENTRY | {"id": "inv_0", "orderId": None}]})
        place.platform.says("/inventory/history", good)
        await place.store.marks.put("polled:main:levels", payloads.instant(0))
        (walk,) = await reconciler.look(["levels"])
    stock = rows(place.store.path, "SELECT variant_id, stock FROM inventory_levels")
    assert (walk.missed, stock) == (1, [("var_1", 5)])


async def test_what_a_look_found_that_was_broken_off_counts(place: Place) -> None:
    """It is in the mirror by then: the next look would call it equal."""
    listed = [payloads.order(f"ord_{n}", n // 100, number=n) for n in range(1_500)]
    broken = [True]

    async def show(request: Request, connection: Connection) -> None:
        since = parse_qs(request.query)["updatedSince"][0]
        found = [row for row in listed if row["updatedAt"] > since][:100]
        late = broken and found and found[0]["id"] == "ord_1400"
        await connection.send(message(500) if late else document({"data": found}))

    place.platform.says("/orders", show)
    await place.store.marks.put("polled:main:orders", payloads.instant(0))
    async with reconciling(place) as reconciler:
        assert await reconciler.look(["orders"]) == []
        broken.clear()
        (ended,) = await reconciler.look(["orders"])
    assert (ended.missed, ended.read) == (1_500, 1_500)


async def test_an_order_of_two_products_moves_the_stock_of_each(place: Place) -> None:
    of_another = {"id": "inv_2", "productId": "prod_2", "variantId": "var_2"}
    history = document({"data": [ENTRY | of_another, ENTRY]})
    place.platform.says("/inventory/history", history)
    await place.store.marks.put("polled:main:levels", payloads.instant(0))
    async with reconciling(place) as reconciler:
        await reconciler.look(["levels"])
    for table in ("stock_ledger", "inventory_levels"):
        query = f"SELECT product_id, variant_id FROM {table} ORDER BY 1"  # noqa: S608 - ours
        found = rows(place.store.path, query)
        assert found == [("prod_1", "var_1"), ("prod_2", "var_2")]
