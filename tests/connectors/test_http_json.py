"""http_json with a local HTTP server: cursors, records, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from backhaul_connectors.http_json.settings import List, Settings
from backhaul_sdk import (
    Absent,
    Applied,
    Bad,
    Cancellation,
    CheckFailed,
    Found,
    Fulfillment,
    StockAdjustment,
    StockLevel,
    Tracking,
    Uncertain,
    Unknown,
)
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.json_items import ItemParser, text_of
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.backoffice import ORDERS, SHIPMENTS, START, TOKEN, Office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = "2026-01-02T00:00:00.000Z"


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    await office.plug_in()
    yield office
    await office.close()


async def test_a_late_item_is_found_by_the_overlap(office: Office) -> None:
    host = MemoryHost()
    for number in (100, 200):
        office.ship(number)
    await host.pull(office.connector())
    office.ship(150)
    office.ship(300)
    await host.pull(office.connector())
    assert len(host.records) == 4
    assert office.books.asked[0] == {}
    assert office.books.asked[-1] == {"since": "2025-12-31T23:58:20.000Z"}


async def test_a_changed_item_is_returned_again(office: Office) -> None:
    office.ship(1)
    host, connector = MemoryHost(), office.connector()
    await host.pull(connector)
    assert [b async for b in connector.pull(host.cursor)] == []
    office.books.shipments[0] = (1, {"parcel": {"number": "corrected"}})
    (batch,) = [b async for b in connector.pull(host.cursor)]
    (record,) = batch.records
    assert isinstance(record, Fulfillment)
    assert record.tracking_number == "corrected"
    assert record.key in host.records


@pytest.mark.parametrize("to_come", ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_an_item_with_a_future_time_hides_no_later_items(
    office: Office, to_come: str
) -> None:
    host = MemoryHost()
    office.ship(1)
    office.ship(7, changed=to_come)
    await host.pull(office.connector())
    office.ship(2)
    await host.pull(office.connector())
    assert len(host.records) == 3
    assert office.books.asked[-1] == {"since": "2025-12-31T23:55:01.000Z"}


async def test_a_clock_some_minutes_ahead_is_followed(office: Office) -> None:
    host = MemoryHost()
    office.ship(int(seconds_since_1970() - START.timestamp()) + 60)
    await host.pull(office.connector())
    assert [b async for b in office.connector().pull(host.cursor)] == []


async def test_a_stored_future_time_is_ignored(office: Office) -> None:
    kept = {"since": "2999-01-01T00:00:00.000Z", "recent": {}, "etag": "", "url": ""}
    host = MemoryHost(cursor=json.dumps({"shipments": kept}))
    office.ship(1)
    await host.pull(office.connector())
    assert len(host.records) == 1
    await host.pull(office.connector())
    assert [asked.get("since") for asked in office.books.asked] == [
        None,
        "2025-12-31T23:55:01.000Z",
    ]


@pytest.mark.parametrize("lines", [None, [], "all", [{"quantity": 1}], [{"sku": " "}]])
async def test_an_unknown_article_never_ships_the_whole_order(
    office: Office, lines: object
) -> None:
    office.ship(1, lines=lines)
    host = MemoryHost()
    await host.pull(office.connector())
    assert host.records == {}
    (bad,) = host.bad.values()
    assert "Backhaul does not know what was shipped" in bad.reason


def reader_of(kind: str, fields: dict[str, str], **more: Any) -> ItemParser:
    told = {"kind": kind, "path": "/x", "key": "id", "fields": fields, **more}
    return ItemParser("x", List.model_validate(told), NOW)


def test_each_kind_of_record_is_made() -> None:
    item = {"id": "a", "no": 7, "n": "3", "q": 2.0, "when": "2026-01-01T01:00+01:00"}
    item |= {"word": "Zugestellt", "why": "customer", "yes": True}
    text = text_of(item)
    origin = {"locator": "x a", "raw": text}
    listed: dict[str, Any] = {**origin, "listed_at": NOW}
    made = [
        reader_of("cancellation", {"order": "no", "restock": "yes", "reason": "why"}),
        reader_of("stock_adjustment", {"sku": "no", "delta": "n"}),
        reader_of("stock_level", {"sku": "no", "quantity": "q"}),
        reader_of("stock_level", {"sku": "no", "quantity": "q", "as_of": "when"}),
        reader_of(
            "tracking",
            {"tracking_number": "no", "status": "word", "at": "when"},
            statuses={"Zugestellt": "delivered"},
        ),
    ]
    then = "2026-01-01T00:00:00.000Z"
    assert [reader.read(item, text) for reader in made] == [
        Cancellation(key="x:a", order="7", restock=True, reason="CUSTOMER", **origin),
        StockAdjustment(key="x:a", sku="7", delta=3, **origin),
        StockLevel(key=f"x:a:{NOW}:2", sku="7", quantity=2, as_of=NOW, **listed),
        StockLevel(key=f"x:a:{then}:2", sku="7", quantity=2, as_of=then, **listed),
        Tracking(key="x:a", tracking_number="7", status="delivered", at=then, **origin),
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "item", "said"),
    [
        ("fulfillment", {"order": "o"}, {"id": 1}, "the order is empty"),
        ("fulfillment", {"order": "o"}, {"o": 1}, "the key is empty"),
        ("fulfillment", {"order": "o"}, "text", "the key is empty"),
        ("fulfillment", {"order": "o"}, {"id": 1, "o": 4.5}, "text or a whole"),
        ("fulfillment", {"order": "o"}, {"id": 1, "o": "a\0b"}, "control"),
        ("fulfillment", {"order": "abs(o)"}, {"id": 1, "o": "x"}, "cannot be applied"),
        (
            "stock_adjustment",
            {"sku": "s", "delta": "d"},
            {"id": 1, "d": 0},
            "delta is 0",
        ),
        ("stock_adjustment", {"sku": "s", "delta": "d"}, {"id": 1, "d": 0.5}, "whole"),
        ("stock_adjustment", {"sku": "s", "delta": "d"}, {"id": 1, "d": True}, "whole"),
        ("stock_level", {"sku": "s", "quantity": "q"}, {"id": 1, "q": 1e10}, "from 0"),
        ("stock_level", {"sku": "s", "quantity": "q"}, {"id": 1, "q": 2.125}, "whole"),
        (
            "stock_level",
            {"sku": "s", "quantity": "floor(q)"},
            {"id": 1, "q": float("1e999")},
            "the JMESPath expression floor(q) cannot be applied",
        ),
        (
            "tracking",
            {"tracking_number": "n", "status": "w"},
            {"id": 1, "n": "1", "w": "lost"},
            "add it to statuses",
        ),
    ],
)
def test_an_unusable_item_says_why(
    kind: str, fields: dict[str, str], item: object, said: str
) -> None:
    bad = reader_of(kind, fields).read(item, text_of(item))
    assert isinstance(bad, Bad)
    assert said in bad.reason


@pytest.mark.parametrize(
    ("item", "locator"),
    [
        ({"id": "A-17", "s": "LS-S", "q": 2.5}, "x A-17"),
        ({"id": 17, "q": "many"}, "x 17"),
        ({"s": "LS-S", "q": 1}, "x LS-S"),
        ({"id": " ", "s": "LS-S", "q": 1}, "x LS-S"),
        ({"id": "a\nb" + "c" * 200, "q": 0.5}, "x a b" + "c" * 77),
        ({"q": 1}, "x"),
        ([], "x"),
    ],
)
def test_an_unusable_value_names_its_item(item: object, locator: str) -> None:
    reader = reader_of("stock_level", {"sku": "s", "quantity": "q"})
    bad = reader.read(item, text_of(item))
    assert isinstance(bad, Bad)
    assert bad.locator == locator


async def test_an_order_is_found_by_its_key(office: Office) -> None:
    connector, change = office.connector(), sample_change(1)
    assert await connector.lookup(change) == Absent()
    assert await connector.push(change) == Applied("1")
    assert await connector.push(change) == Applied("1"), "the key makes it one order"
    assert await connector.lookup(change) == Found("1")


async def test_an_answer_without_its_number_is_uncertain(office: Office) -> None:
    push = {**ORDERS, "reference": "data.number"}
    connector = office.connector(pushes={"order.placed": push})
    assert isinstance(await connector.push(sample_change(1)), Uncertain)


async def test_a_404_of_a_proxy_proves_nothing(office: Office) -> None:
    push = {**ORDERS, "lookup_path": "/elsewhere/{id}"}
    connector = office.connector(pushes={"order.placed": push})
    assert isinstance(await connector.lookup(sample_change(1)), Unknown)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"data": [], "next": "x"}, None),
        ({"rows": []}, "no list at 'data'"),
        ("[" * 70 + "]" * 70, "nested more than 64 levels deep"),
        ("{'a': 1}", "not JSON"),
        ('{"data": NaN}', "not JSON"),
        ('{"data": "' + "x" * 6_000 + '"}', "longer than 5000 bytes"),
    ],
)
async def test_a_strange_answer_stops_the_pull_and_says_why(
    answer: object, said: str | None
) -> None:
    async def strange(request: web.Request) -> web.Response:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(text=text, content_type="application/json")

    office = Office()
    office.app.router.add_get("/strange", strange)
    await office.plug_in()
    lists = {"shipments": {**SHIPMENTS, "path": "/strange"}}
    connector = office.connector(lists=lists, most_bytes=5_000)
    host = MemoryHost()
    if said is None:
        await host.pull(connector)
    else:
        with pytest.raises(CheckFailed, match=said):
            await host.pull(connector)
    await office.close()
    assert host.records == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": "http://example.com"}, "use https://"),
        ({"base_url": "https://10.0.0.1"}, "network.allow"),
        ({"base_url": "https://example.com/?key=1"}, "end with its path"),
        ({"auth": "none"}, "auth and token"),
        ({"token": ""}, "auth and token"),
        ({"pushes": {"order.lost": ORDERS}}, "no topic is called order.lost"),
        ({"lists": {}, "pushes": {}}, "neither lists nor pushes"),
        ({"lists": {"x": {**SHIPMENTS, "key": "a b"}}}, "not a JMESPath"),
        ({"lists": {"x": {**SHIPMENTS, "path": "https://x"}}}, "must be a path"),
        ({"lists": {"x": {**SHIPMENTS, "path": "//evil/x"}}}, "must be a path"),
        ({"lists": {"x": {**SHIPMENTS, "fields": {}}}}, "lacks the entries order"),
        (
            {"lists": {"x": {**SHIPMENTS, "fields": {"order": "a", "b": "c"}}}},
            "no field b",
        ),
        ({"lists": {"x": {**SHIPMENTS, "since": None}}}, "set both or neither"),
        ({"lists": {"x": {**SHIPMENTS, "next": None}}}, "next must be set too"),
        ({"lists": {"x": {**SHIPMENTS, "keep_cursor": True}}}, "keep_cursor needs"),
        (
            {"pushes": {"order.placed": {**ORDERS, "lookup_path": "/orders"}}},
            "lookup_path must contain",
        ),
    ],
)
def test_a_mistake_is_named_and_no_secret_shows(
    options: dict[str, Any], said: str
) -> None:
    told = {
        "base_url": "https://example.com/api",
        "auth": "bearer",
        "token": TOKEN,
        "lists": {"shipments": SHIPMENTS},
    }
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(told | options)
    assert said in str(caught.value)
    assert TOKEN not in f"{caught.value} {caught.value!r}"
