"""What the API returns: pages of lists, single objects, and their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backhaul.admin.api.routes import ENDPOINTS
from backhaul.store.records import NewRecord
from backhaul.store.testing.delivery_scenes import NOW, fan_out
from backhaul.store.testing.event_scenes import arrive
from backhaul.store.testing.mirror_scenes import show_level, show_order, show_product

if TYPE_CHECKING:
    from backhaul.admin.api.endpoint import Endpoint
    from scenes.api import Program
    from scenes.dashboard import Office

ROWS = 5


async def fill(office: Office) -> None:
    """Put some of everything into the store."""
    await office.store.deliveries.subscribe(NOW)
    for number in range(1, ROWS + 1):
        await show_order(office.store, f"ord_{number}")
        await show_product(office.store, f"prod_{number}")
        await show_level(office.store, number, product=f"prod_{number}")
        await office.plan(f"ord_{number}")
        bad = NewRecord(f"bad-{number}", None, "a;b", "no order", f"file:{number}")
        await office.store.records.accept("courier", "main", [bad], None, _unmatched)
    await fan_out(office.store)
    await arrive(office.store, b"{}", "main")


def _unmatched(*_: object) -> Any:
    raise AssertionError("a bad row is not matched")


async def pages(program: Program, path: str, limit: int = 2) -> list[Any]:
    """Return the items of all pages of a list."""
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        page = await program.get(path, params=query)
        assert len(page["items"]) <= limit
        found += page["items"]
        cursor = page["next"]
    return found


@pytest.mark.parametrize(
    ("path", "key", "number"),
    [
        ("/orders", "id", ROWS),
        ("/orders?q=ord", "id", 0),
        ("/stock", "variant_id", ROWS),
        ("/commands", "id", ROWS),
        ("/events", "id", 3 * ROWS + 1),
        ("/quarantine", "id", ROWS),
        ("/deliveries", "seq", 2 * ROWS),
    ],
)
async def test_pages_follow_each_other(
    office: Office, program: Program, path: str, key: str, number: int
) -> None:
    await fill(office)
    await office.index()
    whole = (await program.get(path))["items"]
    assert len({each[key] for each in whole}) == number
    assert await pages(program, path) == whole


def plain_get(endpoint: Endpoint) -> bool:
    return endpoint.method == "GET" and endpoint.media == "application/json"


PLACES = {
    "/orders/{order}": "/orders/1001",
    "/events/{id}": "/events/1",
    "/records/{id}": "/records/1",
    "/quarantine/{id}": "/quarantine/1",
}


@pytest.mark.parametrize(
    "endpoint", [*filter(plain_get, ENDPOINTS)], ids=lambda each: each.path
)
async def test_an_answer_has_the_shape_of_the_document(
    office: Office, program: Program, endpoint: Endpoint
) -> None:
    await fill(office)
    path = PLACES.get(endpoint.path, endpoint.path)
    if "{id}" in path:
        command = await office.plan(state="parked")
        path = path.replace("{id}", command)
    found = await program.get(path)
    if endpoint.path == "/openapi.json":
        return
    shaped = msgspec.to_builtins(msgspec.convert(found, endpoint.answer))
    assert shaped == found


async def test_an_order_is_found_by_its_name_and_has_its_history(
    office: Office, program: Program
) -> None:
    await fill(office)
    found = await program.get("/orders/%231002")
    assert (found["id"], found["store"]) == ("ord_2", "main")
    assert [entry["what"].partition(" ")[0] for entry in found["timeline"]][:2]
    assert any(entry["what"] == "fulfill" for entry in found["timeline"])


async def test_an_order_of_several_stores_needs_the_store(
    office: Office, program: Program
) -> None:
    for id_, name in (("ord_1", "main"), ("ord_2", "second")):
        await show_order(office.store, id_, number=1001, name=name)
    refused = await program.get("/orders/1001", 422)
    assert "several orders are called '1001'" in refused["detail"]
    found = await program.get("/orders/1001?store=second")
    assert found["id"] == "ord_2"


async def test_commands_are_filtered(office: Office, program: Program) -> None:
    await fill(office)
    command = await office.plan("ord_2", "parked")
    found = await program.get("/commands", params={"where": "state=parked order=1002"})
    assert [each["id"] for each in found["items"]] == [command]
    late = {"where": "since=2099-01-01T00:00:00Z"}
    assert (await program.get("/commands", params=late))["items"] == []
    parked = {"where": "state=parked"}
    assert (await program.get("/deliveries", params=parked))["items"] == []
    assert (await program.get("/deliveries"))["items"]


async def test_a_search_in_a_long_list_goes_on_from_page_to_page(
    office: Office, program: Program
) -> None:
    await fill(office)
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        asked = {"where": "kind=order", "sort": "oldest", "limit": "1"}
        page = await program.get(
            "/events", params=asked | ({"cursor": cursor} if cursor else {})
        )
        seen += [event["id"] for event in page["items"]]
        cursor = page["next"]
    assert seen == sorted(set(seen))
    assert len(seen) > 1


async def test_stock_is_found_by_sku(office: Office, program: Program) -> None:
    await fill(office)
    (level,) = (await program.get("/stock?sku=SKU-3"))["items"]
    assert (level["sku"], level["stock"], level["store"]) == ("SKU-3", 3, "main")


async def test_the_quarantine_is_filtered_and_counted(
    office: Office, program: Program
) -> None:
    await fill(office)
    found = await program.get("/quarantine", params={"where": "id=1,2 state=any"})
    assert [row["id"] for row in found["items"]] == [2, 1]
    counts = await program.get("/quarantine/counts")
    assert counts["states"] == {"open": ROWS}
    assert counts["reasons"] == {"value": ROWS}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/orders?limit=0", "`int` >= 1"),
        ("/orders?limit=501", "`int` <= 500"),
        ("/orders?limit=two", "Expected `int`"),
        ("/orders?cursor=x", "is not one of this list"),
        ("/orders?colour=red", "unknown field `colour`"),
        ("/orders?q=a&q=b", "several values of q"),
        ("/orders?q=a%00b", "NUL character"),
        ("/stock?cursor=x", "is not one of this list"),
        ("/commands?where=state%3Dlost", "lost"),
        ("/commands?where=since%3Dsoon", "soon"),
        ("/events?where=colour%3Dred", "colour"),
        ("/events?cursor=x", "is not one of this list"),
        ("/deliveries?sort=best", "Invalid enum value 'best'"),
        ("/events/x", "Expected `int`"),
        ("/events/99999999999999999999", "a parameter of the URL cannot be used"),
        ("/quarantine?where=colour%3Dred", "colour"),
    ],
)
async def test_a_wrong_parameter_is_refused(
    office: Office, program: Program, path: str, reason: str
) -> None:
    await fill(office)
    refused = await program.get(path, 422)
    assert reason in refused["detail"]


async def test_another_method_is_refused(program: Program) -> None:
    answer = await program.ask("DELETE", "/commands")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    assert answer.content_type == "application/problem+json"
