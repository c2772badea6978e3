"""Polls find all changes while the list keeps changing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from scenes import payloads
from scenes.scripted_platform import document, message
from scenes.stored import count, rows_of, value_of, values_of
from sync.conftest import reconciling

if TYPE_CHECKING:
    from scenes.scripted_platform import Connection, Request
    from sync.conftest import Place


class Changing:
    """A list sorted by update, in pages of two; each page changes the first row."""

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
    place.platform.respond("/orders", orders)
    mark = payloads.instant(0)
    await place.store.kv.put("polled:main:orders", mark)
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.poll(["orders"])
    assert ended.missed == 20
    mirrored = rows_of(place.store.place, "orders", "id", "updated_at")
    expected = sorted((row["id"], row["updatedAt"]) for row in orders.listed)
    assert mirrored == expected


async def test_a_poll_continues_where_the_last_one_ended(place: Place) -> None:
    orders = Changing(20, changes=0)
    place.platform.respond("/orders", orders)
    await place.store.kv.put("polled:main:orders", payloads.instant(0))
    async with reconciling(place) as reconciler:
        await reconciler.poll(["orders"])
        asked = len(place.server.requests)
        orders.change(orders.listed[3])
        place.platform.respond("/orders", orders)
        (ended,) = await reconciler.poll(["orders"])
    assert (ended.missed, ended.stale) == (0, 1)
    first = parse_qs(place.server.requests[asked].query)
    # the newest row is from 12:00:19; a poll starts two minutes before it
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


class History:
    """The stock history, the newest row first, in pages of 100."""

    def __init__(self, *listed: Any) -> None:
        self.listed = [*listed]

    async def __call__(self, request: Request, connection: Connection) -> None:
        start = 100 * (int(parse_qs(request.query)["page"][0]) - 1)
        shown = self.listed[::-1][start : start + 100]
        await connection.send(document({"data": shown}))


def entry(number: int) -> payloads.Document:
    text = {"createdAt": payloads.instant(number), "stockAfter": 1_000 - number}
    ids = {"id": f"inv_{number}", "adjustmentId": f"adj_{number}"}
    return ENTRY | ids | text | {"adjustment": -1}


def quarantined(place: Place) -> list[Any]:
    return values_of(place.store.place, "events", "topic", state="quarantined")


async def history_marked(place: Place, *listed: Any) -> History:
    history = History(*listed)
    place.platform.respond("/inventory/history", history)
    await place.store.kv.put("polled:main:levels", payloads.instant(0))
    return history


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_row_of_history_holds_up_no_other(
    name: str, place: Place
) -> None:
    history = await history_marked(place, entry(5), STRANGE[name], entry(6))
    drift = []
    async with reconciling(place) as reconciler:
        for look in range(1, 4):
            await place.clock.sleep(300)
            history.listed += [entry(100 * look + n) for n in range(100)]
            (ended,) = await reconciler.poll(["levels"])
            drift.append((ended.missed, ended.stale))
            newest = payloads.instant(100 * look + 99)
            assert await place.store.kv.get("polled:main:levels") == newest
    assert drift == [(1, 0), (0, 1), (0, 1)]
    stocks = values_of(place.store.place, "stock_ledger", "stock_after")
    assert (len(stocks), min(stocks)) == (302, 1_000 - 399)
    assert quarantined(place) == ["inventory/entry"]


async def test_a_page_of_strange_rows_hides_no_older_one(place: Place) -> None:
    many = [ENTRY | {"id": n, "createdAt": None} for n in range(100)]
    await history_marked(place, entry(5), *many)
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.poll(["levels"])
    assert (ended.read, len(quarantined(place))) == (1, 100)


NOT_WHOLE = ["stockAfter", "adjustment"]


@pytest.mark.parametrize("member", NOT_WHOLE)
async def test_a_history_row_of_half_a_move_is_recorded_once(
    member: str, place: Place
) -> None:
    half = ENTRY | {member: None, "id": "inv_2", "variantId": "var_2"}
    await history_marked(place, ENTRY, half)
    found = []
    async with reconciling(place) as reconciler:
        for _ in range(3):
            (ended,) = await reconciler.poll(["levels"])
            found.append(ended.found)
            await place.clock.sleep(300)
    assert found == [1, 0, 0]
    assert values_of(place.store.place, "stock_ledger", "variant_id") == ["var_1"]
    detail = value_of(place.store.place, "events", "detail", state="quarantined")
    assert "missing or null" in detail


async def test_half_a_move_from_before_the_last_poll_is_known(place: Place) -> None:
    half = ENTRY | {"stockAfter": None, "createdAt": "2026-02-28T12:00:00.000Z"}
    await history_marked(place, half)
    async with reconciling(place) as reconciler:
        await reconciler.poll(["levels"])
    assert quarantined(place) == []


FUTURE = "2099-01-01T00:00:00.000Z"


class Orders:
    """A list sorted by update that a test changes."""

    def __init__(self, *listed: payloads.Document) -> None:
        self.listed = [*listed]
        self.asked: list[str] = []

    async def __call__(self, request: Request, connection: Connection) -> None:
        query = {name: value for name, (value,) in parse_qs(request.query).items()}
        since = query.get("updatedSince", "")
        found = [row for row in self.listed if row["updatedAt"] >= since]
        found.sort(key=lambda row: str(row["updatedAt"]))
        self.asked.append(since)
        await connection.send(document({"data": found if query["page"] == "1" else []}))


def sold(id_: str, at: int) -> payloads.Document:
    return payloads.order(id_, at, customer=None)


async def test_a_poll_that_finds_nothing_is_recorded_too(place: Place) -> None:
    orders = Orders()
    place.platform.respond("/orders", orders)
    async with reconciling(place) as reconciler:
        await reconciler.read_lists("backfill", ["orders"])
        for _ in range(2):
            await reconciler.poll(["orders"])
            await place.clock.sleep(300)
    assert orders.asked[-1] == "2026-03-01T10:58:00.000Z"


async def test_a_row_of_the_future_hides_nothing_that_comes_before_it(
    place: Place,
) -> None:
    orders = Orders(sold("ord_1", 1), sold("ord_far", 0) | {"updatedAt": FUTURE})
    place.platform.respond("/orders", orders)
    await place.store.kv.put("polled:main:orders", payloads.instant(0))
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.poll(["orders"])
        assert ended.missed == 2
        await place.clock.sleep(600)
        orders.listed.append(sold("ord_2", 300))
        (ended,) = await reconciler.poll(["orders"])
        assert (ended.missed, ended.stale) == (1, 0)
    assert await place.store.kv.get("polled:main:orders") == payloads.instant(300)


async def test_a_future_move_hides_no_earlier_one(
    place: Place,
) -> None:
    history = await history_marked(place, entry(5) | {"createdAt": FUTURE})
    async with reconciling(place) as reconciler:
        await reconciler.poll(["levels"])
        history.listed += [entry(n) for n in range(10, 310)]
        await place.clock.sleep(600)
        await reconciler.poll(["levels"])
    assert count(place.store.place, "stock_ledger") == 301
    assert await place.store.kv.get("polled:main:levels") == payloads.instant(309)


@pytest.mark.parametrize("kind", ["full", "backfill"])
async def test_a_poll_mark_of_the_future_yields_to_the_last_clean_full_sync(
    kind: str, place: Place
) -> None:
    """An earlier version may have stored such a mark."""
    orders = Orders()
    async with reconciling(place) as reconciler:
        place.platform.respond("/orders", document({"data": []}))
        await reconciler.read_lists(kind, ["orders"])
        place.platform.respond("/orders", orders)
        await place.clock.sleep(86_400)
        orders.listed = [sold("ord_1", 3_000)]
        await place.store.kv.put("polled:main:orders", FUTURE)
        (ended,) = await reconciler.poll(["orders"])
    assert (ended.missed, orders.asked[0]) == (1, "2026-03-01T11:00:00.000Z")
    assert await place.store.kv.get("polled:main:orders") == payloads.instant(3_000)


async def test_a_full_sync_dated_by_a_fast_clock_hides_nothing(
    place: Place,
) -> None:
    """Otherwise each poll would request changes since tomorrow, and find none."""
    orders = Orders()
    async with reconciling(place) as reconciler:
        place.clock.set_back(-86_400)
        place.platform.respond("/orders", document({"data": []}))
        await reconciler.read_lists("backfill", ["orders"])
        place.clock.set_back(86_400)
        place.platform.respond("/orders", orders)
        await place.clock.sleep(600)
        orders.listed = [sold("ord_1", 300)]
        (ended,) = await reconciler.poll(["orders"])
    assert ended.missed == 1
    assert await place.store.kv.get("polled:main:orders") == payloads.instant(300)


async def test_changes_found_by_an_interrupted_poll_count(place: Place) -> None:
    """The changes are in the mirror: the next poll would find no difference."""
    listed = [payloads.order(f"ord_{n}", n // 100, number=n) for n in range(1_500)]
    broken = [True]

    async def show(request: Request, connection: Connection) -> None:
        since = parse_qs(request.query)["updatedSince"][0]
        found = [row for row in listed if row["updatedAt"] > since][:100]
        late = broken and found and found[0]["id"] == "ord_1400"
        await connection.send(message(500) if late else document({"data": found}))

    place.platform.respond("/orders", show)
    await place.store.kv.put("polled:main:orders", payloads.instant(0))
    async with reconciling(place) as reconciler:
        assert await reconciler.poll(["orders"]) == []
        broken.clear()
        (ended,) = await reconciler.poll(["orders"])
    assert (ended.missed, ended.read) == (1_500, 1_500)


async def test_an_order_of_two_products_moves_the_stock_of_each(place: Place) -> None:
    of_another = {"id": "inv_2", "productId": "prod_2", "variantId": "var_2"}
    history = document({"data": [ENTRY | of_another, ENTRY]})
    place.platform.respond("/inventory/history", history)
    await place.store.kv.put("polled:main:levels", payloads.instant(0))
    async with reconciling(place) as reconciler:
        await reconciler.poll(["levels"])
    for table in ("stock_ledger", "inventory_levels"):
        found = rows_of(place.store.place, table, "product_id", "variant_id")
        assert sorted(found) == [("prod_1", "var_1"), ("prod_2", "var_2")]
