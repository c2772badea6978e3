"""Invalid values in the platform's lists stop nothing and hide no other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from loguru import logger

from backhaul.platform.client import PlatformClient
from backhaul.push.stock_targets import StockReader
from scenes import payloads
from scenes.scripted_platform import Connection, Request, document
from scenes.stock_history import HISTORY, move
from scenes.stored import count, rows_of
from scenes.waiting import until
from sync.conftest import reconciling
from sync.test_sync_scheduler import ended, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loguru import Message, Record

    from backhaul.sync.sync_scheduler import Reconciler
    from scenes.stored import Row
    from sync.conftest import Place

ORDERS = [payloads.order(f"ord_{n}", number=n) for n in range(3)]


@pytest.mark.parametrize("total", [-1, 2**63, 2**64 - 1])
async def test_a_total_that_is_no_count_ends_nothing(place: Place, total: int) -> None:
    meta = {"page": 1, "total": total, "hasMore": False}
    place.platform.respond("/orders", document({"data": ORDERS, "meta": meta}))
    async with running(place) as reconciler:
        await until(reconciler.filled.is_set, "the first reading")
    assert count(place.store.place, "orders") == 3


@pytest.mark.parametrize(
    "date",
    [
        "Fri, 31 Dec 9999 23:59:59 -0100",
        "Mon, 01 Jan 0001 00:00:00 +0100",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 23 Nov 2026 00:00:00 -0000",
    ],
)
async def test_an_invalid_date_ends_nothing(place: Place, date: str) -> None:
    place.platform.respond("/orders", document({"data": ORDERS}, Date=date))
    async with running(place) as reconciler:
        await until(reconciler.filled.is_set, "the first reading")
        reconciler.request_poll()
        reconciler.request_full_sync()
        await until(lambda: "orders" in ended(place, "full"), "the walk")
    assert count(place.store.place, "orders") == 3


@pytest.fixture
def failed_syncs() -> Iterator[list[Record]]:
    """Collect the log records of failed syncs."""
    records: list[Record] = []

    def take(line: Message) -> None:
        if line.record["extra"].get("action") == "reconcile.failed":
            records.append(line.record)

    sink = logger.add(take, level="WARNING")
    yield records
    logger.remove(sink)


async def test_an_unexpected_error_is_logged_and_retried(
    place: Place, monkeypatch: pytest.MonkeyPatch, failed_syncs: list[Record]
) -> None:
    page, failures = PlatformClient.page, [IndexError("list index out of range")]

    async def breaking(
        client: PlatformClient, path: str, *args: Any, **options: Any
    ) -> Any:
        if path == "/orders" and failures:
            raise failures.pop()
        return await page(client, path, *args, **options)

    monkeypatch.setattr(PlatformClient, "page", breaking)
    place.platform.respond("/orders", document({"data": ORDERS}))
    async with running(place) as reconciler:
        await until(reconciler.filled.is_set, "the first reading")
    assert count(place.store.place, "orders") == 3
    (record,) = failed_syncs
    assert record["level"].name == "ERROR"
    assert (
        "IndexError: list index out of range; Backhaul keeps retrying"
        in record["message"]
    )
    # the traceback shows where the bug is
    assert record["exception"] is not None


@dataclass(slots=True)
class History:
    """Two pages of movements; one row of the first page has the time `odd`."""

    odd: str

    async def __call__(self, request: Request, connection: Connection) -> None:
        moves = [move(n, "0", note=None) for n in range(150, 0, -1)]
        moves[10]["createdAt"] = self.odd
        page = int(parse_qs(request.query)["page"][0])
        shown = moves[100 * (page - 1) : 100 * page]
        meta = {"page": page, "hasMore": page == 1}
        await connection.send(document({"data": shown, "meta": meta}))


YEAR_ONE = "0001-01-01T00:00:00Z"


@pytest.mark.parametrize("odd", [YEAR_ONE, payloads.instant(140)])
async def test_a_row_of_year_one_hides_no_later_page_from_a_poll(
    place: Place, odd: str
) -> None:
    place.platform.respond(HISTORY, History(odd))
    await place.store.kv.put("polled:main:levels", payloads.instant(0))
    async with reconciling(place) as reconciler:
        await reconciler.poll(["levels"])
        await reconciler.repair.caught_up()
    assert moves_known(place) >= 149


@pytest.mark.parametrize("odd", [YEAR_ONE, payloads.instant(140)])
async def test_nor_from_a_study_of_one_product(place: Place, odd: str) -> None:
    place.platform.respond(HISTORY, History(odd))
    place.platform.respond("/inventory/prod_1", document({"data": []}))
    async with reconciling(place) as reconciler:
        studying = StockReader(
            place.client, reconciler.repair, place.clock, lambda: "INR", no_orders
        )
        await studying.read_with_history("prod_1", payloads.instant(0))
    assert moves_known(place) >= 149


async def no_orders() -> None:
    raise AssertionError("there is a history")


def moves_known(place: Place) -> int:
    return count(place.store.place, "stock_ledger")


FUTURE = "9999-01-01T00:00:00.000Z"


async def test_stock_dated_ahead_goes_with_its_variant(place: Place) -> None:
    both = [payloads.variant("var_1"), payloads.variant("var_2")]
    left = {"productId": "prod_1", "variantId": "var_1", "stock": 12}
    left |= {"updatedAt": payloads.instant(3)}
    change = payloads.stock_change(updatedAt=FUTURE)
    change["levels"][0] |= {"variantId": "var_2"}
    stray = payloads.envelope("inventory/level_update", change)
    product = payloads.product(at=20, variants=both[:1])
    heard = [
        payloads.envelope("products/create", payloads.product(variants=both)),
        stray,
        payloads.envelope("products/update", product),
    ]
    async with reconciling(place) as reconciler:
        for body in heard:
            await place.store.inbox.append(payloads.arrival(body))
        await reconciler.repair.caught_up()
        place.platform.respond("/products", document({"data": [product]}))
        place.platform.respond("/products/prod_1", document({"data": product}))
        place.platform.respond("/inventory", document({"data": [left]}))
        place.platform.respond("/inventory/prod_1", document({"data": [left]}))
        await full_sync(place, reconciler)
        assert levels(place) == [("var_1", 12)]
        # the next confirming read shows the same
        again = payloads.envelope("inventory/level_update", change)
        await place.store.inbox.append(payloads.arrival(again, at=90))
        await reconciler.repair.caught_up()
        assert levels(place) == [("var_1", 12), ("var_2", 10)]
        await full_sync(place, reconciler)
        assert levels(place) == [("var_1", 12)]


async def full_sync(place: Place, reconciler: Reconciler) -> None:
    """Run a full sync, and fold what it requested."""
    await place.clock.sleep(60)
    await reconciler.read_lists("full", ["products", "levels"])
    await reconciler.repair.caught_up()


def levels(place: Place) -> list[Row]:
    return rows_of(place.store.place, "inventory_levels", "variant_id", "stock")
