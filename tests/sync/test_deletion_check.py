"""Objects that a pass did not show are read one by one, also in a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from backhaul.platform.client import ReadRefused
from backhaul.sync.diff_repair import Comparison
from backhaul.sync.on_demand import SyncDryRun
from scenes import payloads
from scenes.databases import fold_all
from scenes.scripted_platform import Connection, Request, document, message, problem
from scenes.stored import bodies, rows_of
from sync.conftest import reconciling

if TYPE_CHECKING:
    from backhaul.store.mirror import Pass
    from sync.conftest import Place

GONE = problem(404, "NOT_FOUND")


def listed(*shown: dict[str, Any]) -> bytes:
    more = {"total": len(shown), "hasMore": False}
    return document({"data": shown, "meta": more})


async def mirror_orders(place: Place, *ids: str) -> None:
    """Mirror orders that are missing in the platform's list."""
    for id_ in ids:
        await place.store.inbox.append(
            payloads.read("orders/read", payloads.order(id_, customer=None))
        )
    await fold_all(place.store)
    await place.clock.sleep(60)
    place.platform.respond("/orders", listed())


async def full_sync(place: Place, kind: str = "orders") -> Pass:
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", [kind])
    return ended


async def run_dry(place: Place, kind: str = "orders") -> list[tuple[str, str]]:
    async def nothing() -> None:
        """Fold nothing."""

    mirror = Comparison("main", place.store.mirror, lambda: "INR", nothing)
    dry_run = SyncDryRun(place.client, mirror, place.clock, 0.0)
    return [(found.id, found.drift) async for found in dry_run.run(kind)]


def asked(place: Place) -> list[str]:
    return [request.path for request in place.server.requests]


@pytest.mark.parametrize("answer", [problem(403, "NO"), GONE, message(500)])
async def test_a_refused_object_does_not_end_the_full_sync(
    answer: bytes, place: Place
) -> None:
    await mirror_orders(place, "ord_1", "ord_2", "ord_3")
    place.platform.respond("/orders/ord_2", answer)
    if answer is GONE:
        place.platform.respond("/orders", listed(), listed(), GONE, listed())
    ended = await full_sync(place)
    assert (ended.note, ended.foreign, ended.unrepaired) == ("", 2, 1)
    assert {"/orders/ord_1", "/orders/ord_2", "/orders/ord_3"} <= set(asked(place))


@pytest.mark.parametrize("answer", [problem(403, "NO"), message(500)])
async def test_a_dry_run_reports_an_undecided_absence(
    answer: bytes, place: Place
) -> None:
    await mirror_orders(place, "ord_1", "ord_2")
    place.platform.respond("/orders/ord_1", answer)
    found = [("ord_1", "unjudged"), ("ord_2", "foreign")]
    assert sorted(await run_dry(place)) == found


@pytest.mark.parametrize("id_", ["a?b", "a#b", "a/b", "a\x01b", "a%2Fb"])
async def test_an_id_cannot_lead_elsewhere(id_: str, place: Place) -> None:
    await mirror_orders(place, id_)
    found = document({"data": payloads.order(id_, customer=None)})
    requests: list[Request] = []

    async def show(request: Request, connection: Connection) -> None:
        requests.append(request)
        await connection.send(found)

    for path in ("/orders/a", f"/orders/{id_}"):
        place.platform.respond(path, show)
    assert await run_dry(place) == [(id_, "foreign")]
    ended = await full_sync(place)
    assert (ended.foreign, ended.unrepaired) == (1, 0)
    assert requests == []


async def test_a_page_of_a_proxy_is_no_proof(place: Place) -> None:
    """The proxy answers 404 to everything, also to the list: nothing was deleted."""
    await mirror_orders(place, "ord_1")
    away = message(404, b"<html>", "text/html")
    place.platform.respond("/orders", listed(), listed(), away)
    ended = await full_sync(place)
    assert (ended.foreign, ended.unrepaired) == (0, 1)


async def test_a_dry_run_does_not_call_an_unread_list_equal(place: Place) -> None:
    await mirror_orders(place, "ord_1")
    place.platform.respond("/orders", problem(403, "INSUFFICIENT_SCOPE"))
    assert await run_dry(place) == [("", "unread")]
    place.platform.respond("/orders", message(500))
    with pytest.raises(ReadRefused, match="500"):
        await run_dry(place)


async def test_a_dry_run_of_levels_goes_by_products_where_there_is_no_list(
    place: Place,
) -> None:
    place.platform.respond("/inventory", message(404))
    place.platform.respond("/products", listed(payloads.product()))
    assert await run_dry(place, "levels") == [("var_1", "missed")]
    place.platform.respond("/inventory", message(500))
    with pytest.raises(ReadRefused, match="/inventory"):
        await run_dry(place, "levels")


async def test_a_second_list_is_read_from_its_first_page(place: Place) -> None:
    asked_for: list[str] = []

    async def shown(request: Request, connection: Connection) -> None:
        (number,) = parse_qs(request.query)["page"]
        asked_for.append(number)
        products = [payloads.product()] if number == "1" else []
        more = {"total": 9, "hasMore": False}
        await connection.send(document({"data": products, "meta": more}))

    begun = await place.store.passes.begin("main", "backfill", "levels")
    await place.store.passes.advance(replace(begun, page=3, total=9), [], {})
    place.platform.respond("/inventory", problem(403, "INSUFFICIENT_SCOPE"))
    place.platform.respond("/products", shown)
    async with reconciling(place) as reconciler:
        await reconciler.read_lists("backfill", ["levels"])
    assert asked_for[0] == "1"
    assert stocks(place) == [("var_1", 12)]


def stocks(place: Place) -> list[tuple[str, int]]:
    found = rows_of(place.store.place, "inventory_levels", "variant_id", "stock")
    return [(str(id_), int(stock)) for id_, stock in found]


@pytest.mark.parametrize(
    ("shown", "kept"), [(7, 7), (12, 12), (None, 12)], ids=["moved", "same", "no-stock"]
)
async def test_a_level_that_its_list_leaves_out_is_compared_too(
    shown: int | None, kept: int, place: Place
) -> None:
    """The product shows the level; other variants of the product are not affected."""
    variants = [payloads.variant("var_1", 12), payloads.variant("var_2", 5)]
    body = payloads.product("prod_1", variants=variants)
    await place.store.inbox.append(payloads.read("inventory/shown/reread", body))
    await fold_all(place.store)
    await place.clock.sleep(60)
    assert stocks(place) == [("var_1", 12), ("var_2", 5)]

    variants = [payloads.variant("var_1", shown), payloads.variant("var_2", 5)]
    now = payloads.product("prod_1", variants=variants)
    place.platform.respond("/inventory", listed())
    place.platform.respond("/products/prod_1", document({"data": now}))
    before = len(bodies(place.store.place))
    ended = await full_sync(place, "levels")
    assert (ended.deleted, ended.unrepaired) == (0, 0)
    assert stocks(place) == [("var_1", kept), ("var_2", 5)]
    after = len(bodies(place.store.place))
    assert after - before == (1 if shown == 7 else 0)
