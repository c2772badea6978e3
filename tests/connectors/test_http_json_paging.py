"""The requests of http_json with scripted answers: pages, keys, pauses and ETags."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.http_json import HttpJson
from backhaul_connectors.http_json.client import MOST_EMPTY, PageTrail
from backhaul_connectors.http_json.settings import Settings
from backhaul_sdk import CheckFailed, StockLevel
from backhaul_sdk.testing import MemoryHost
from connectors.answering import Script, scripted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BASE = "https://office.example/api"
PLAIN = {"kind": "fulfillment", "path": "/s", "key": "id", "fields": {"order": "o"}}

CURSOR = {
    "paging": "cursor",
    "page_parameter": "after",
    "items": "rows",
    "next": "next",
}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as script:
        yield script


def system(
    options: Mapping[str, Any], seconds: list[float] | None = None, **more: Any
) -> HttpJson:
    told = {"base_url": BASE, "lists": {"s": {**PLAIN, **options}}, **more}
    clock = seconds or [0.0]
    return HttpJson("office", Settings.model_validate(told), clock=lambda: clock[0])


def rows(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number, "o": number} for number in numbers]


async def pull(connector: HttpJson, host: MemoryHost | None = None) -> MemoryHost:
    host = host or MemoryHost()
    try:
        await host.pull(connector)
    finally:
        await connector.close()
    return host


async def test_pages_are_numbered(script: Script) -> None:
    for page in (1, 2, 3):
        found = rows(2 * page, 2 * page + 1) if page < 3 else []
        script.add(f"{BASE}/s?page={page}", found)
    host = await pull(system({"paging": "page"}))
    assert len(host.records) == 4
    assert len(script.asked) == 3


async def test_a_short_page_is_the_last(script: Script) -> None:
    told = {"paging": "offset", "page_parameter": "skip", "size_parameter": "take"}
    script.add(f"{BASE}/s?skip=0&take=2", rows(1, 2))
    script.add(f"{BASE}/s?skip=2&take=2", rows(3))
    host = await pull(system({**told, "page_size": 2}))
    assert len(host.records) == 3
    assert len(script.asked) == 2


async def test_links_are_followed(script: Script) -> None:
    links = '<https://office.example/api/s?p=0>; rel="prev", </api/s?p=2>; rel=next'
    script.add(f"{BASE}/s", rows(1), Link=links)
    script.add(f"{BASE}/s?p=2", rows(2))
    host = await pull(system({"paging": "link"}))
    assert len(host.records) == 2


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/api/s?p=2",
        "//evil.example/api/s",
        "http://office.example/api/s?p=2",
        "https://office.example:8443/api/s?p=2",
    ],
)
async def test_a_link_to_another_system_is_not_followed(
    script: Script, link: str
) -> None:
    script.add(f"{BASE}/s", {"rows": rows(1), "more": link})
    told = {"paging": "link", "items": "rows", "next": "more"}
    with pytest.raises(CheckFailed, match="another host"):
        await pull(system(told))
    assert script.urls == [f"{BASE}/s"]


async def test_a_page_that_follows_itself_ends_the_pull(script: Script) -> None:
    script.add(f"{BASE}/s", {"rows": rows(1), "more": f"{BASE}/s"})
    told = {"paging": "link", "items": "rows", "next": "more"}
    host = MemoryHost()
    with pytest.raises(
        CheckFailed, match="s: page 2 of the list has the same URL as page 1"
    ):
        await pull(system(told), host)
    assert len(host.records) == 1


async def test_cursors_that_go_round_end_the_pull(script: Script) -> None:
    script.add(f"{BASE}/s", {"rows": rows(1), "next": "c0"})
    script.add(f"{BASE}/s?after=c0", {"rows": rows(2), "next": "c1"})
    script.add(f"{BASE}/s?after=c1", {"rows": rows(3), "next": "c0"})
    host = MemoryHost()
    with pytest.raises(
        CheckFailed, match="page 4 of the list has the same URL as page 2"
    ):
        await pull(system(CURSOR), host)
    assert len(host.records) == 3
    assert len(script.asked) == 3


async def test_a_last_page_for_every_number_ends_the_pull(script: Script) -> None:
    script.pages = defaultdict(lambda: (rows(3, 4), 200, {}))
    script.add(f"{BASE}/s?page=1", rows(1, 2))
    host = MemoryHost()
    with pytest.raises(CheckFailed, match="page 3 has the same items as page 2"):
        await pull(system({"paging": "page"}), host)
    assert len(host.records) == 4
    assert len(script.asked) == 3


async def test_a_list_that_fails_holds_up_no_other(script: Script) -> None:
    script.pages = defaultdict(lambda: (rows(1), 200, {}))
    script.add(f"{BASE}/gone", {}, status=404)
    script.add(f"{BASE}/other", rows(7))
    lists = {
        "endless": {**PLAIN, "paging": "page"},
        "gone": {**PLAIN, "path": "/gone"},
        "other": {**PLAIN, "path": "/other"},
    }
    host = MemoryHost()
    with pytest.raises(CheckFailed, match=r"^endless: page 2 has .*; gone: .* 404"):
        await pull(system({}, lists=lists), host)
    assert set(host.records) == {"endless:1", "other:7"}


async def test_an_empty_page_with_another_behind_it_is_not_the_last(
    script: Script,
) -> None:
    script.add(f"{BASE}/s", {"rows": [], "next": "c0"})
    script.add(f"{BASE}/s?after=c0", {"rows": [], "next": "c1"})
    script.add(f"{BASE}/s?after=c1", {"rows": rows(3), "next": "c2"})
    script.add(f"{BASE}/s?after=c2", {"rows": [], "next": "c0"})
    host = await pull(system(CURSOR))
    assert len(host.records) == 1
    assert len(script.asked) == 4


def test_endless_empty_pages_are_reported() -> None:
    trail = PageTrail()
    for _ in range(MOST_EMPTY):
        trail.bring([])
    with pytest.raises(CheckFailed, match="1001 pages of the list in a row are empty"):
        trail.bring([])


async def test_an_empty_page_ends_the_requests_where_the_cursor_is_kept(
    script: Script,
) -> None:
    script.add(f"{BASE}/s", {"rows": [], "next": "c0"})
    host = await pull(system({**CURSOR, "keep_cursor": True}))
    script.add(f"{BASE}/s?after=c0", {"rows": rows(3), "next": None})
    await pull(system({**CURSOR, "keep_cursor": True}), host)
    assert len(host.records) == 1
    assert script.urls == [f"{BASE}/s", f"{BASE}/s?after=c0"]


async def test_the_systems_own_cursor_is_kept(script: Script) -> None:
    told = {
        "paging": "cursor",
        "page_parameter": "c",
        "items": "rows",
        "next": "next",
        "keep_cursor": True,
    }
    script.add(f"{BASE}/s", {"rows": rows(1), "next": "x1"})
    script.add(f"{BASE}/s?c=x1", {"rows": [], "next": "x1"})
    host = await pull(system(told))
    script.add(f"{BASE}/s?c=x1", {"rows": rows(2), "next": "x2"})
    script.add(f"{BASE}/s?c=x2", {"rows": [], "next": "x2"})
    await pull(system(told), host)
    assert len(host.records) == 2
    assert script.urls[-2:] == [f"{BASE}/s?c=x1", f"{BASE}/s?c=x2"]


async def test_an_unchanged_list_is_not_sent_again(script: Script) -> None:
    script.add(f"{BASE}/s", rows(1), ETag='"v1"')
    host = await pull(system({}))
    script.add(f"{BASE}/s", None, status=304)
    await pull(system({}), host)
    assert "If-None-Match" not in script.asked[0][1]
    assert script.asked[1][1]["If-None-Match"] == '"v1"'


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttling_server_is_left_alone_for_the_requested_time(
    script: Script, status: int
) -> None:
    seconds = [100.0]
    script.add(f"{BASE}/s", None, status=status, Retry_After="30")
    connector, host = system({}, seconds), MemoryHost()
    for time, number in ((100.0, 1), (129.0, 1), (131.0, 2)):
        seconds[0] = time
        with pytest.raises(CheckFailed, match=r"ask(s|ed) Backhaul to wait"):
            await host.pull(connector)
        assert len(script.asked) == number
    await connector.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (301, "redirects"),
        (401, "check token"),
        (403, "check token"),
        (404, "check path"),
        (500, "answered 500"),
    ],
)
async def test_a_refusal_of_the_server_is_reported(
    script: Script, status: int, said: str
) -> None:
    script.add(f"{BASE}/s", {}, status=status, Location="https://evil.example/")
    with pytest.raises(CheckFailed, match=said):
        await pull(system({}))
    assert script.urls == [f"{BASE}/s"]


@pytest.mark.parametrize(
    ("options", "header", "value"),
    [
        ({"auth": "bearer", "token": "t0ken"}, "Authorization", "Bearer t0ken"),
        (
            {"auth": "basic", "user": "ann", "token": "t0ken"},
            "Authorization",
            "Basic YW5uOnQwa2Vu",
        ),
        ({"auth": "header", "token": "t0ken"}, "X-API-Key", "t0ken"),
        ({"auth": "header", "header": "Key", "token": "t0ken"}, "Key", "t0ken"),
    ],
)
async def test_the_key_is_shown(
    script: Script, options: dict[str, Any], header: str, value: str
) -> None:
    script.add(f"{BASE}/s", [])
    await pull(system({}, **options))
    assert script.asked[0][1][header] == value


async def test_after_a_restore_lists_of_stock_are_read_from_the_beginning(
    script: Script,
) -> None:
    changed = {"since": "at", "since_parameter": "since"}
    levels = {"sku": "id", "quantity": "o", "as_of": "at"}
    stock = {**PLAIN, **changed, "kind": "stock_level", "path": "/n", "fields": levels}
    lists = {"s": {**PLAIN, **changed}, "stock": stock}
    connector, host = system({}, lists=lists), MemoryHost()
    row = {"id": 7, "o": 5, "at": "2020-01-01T10:00:00Z"}
    for path in ("/s", "/n"):
        for query in ("", "?since=2020-01-01T09:55:00.000Z"):
            script.add(f"{BASE}{path}{query}", [row])
    await host.pull(connector)
    assert len(host.records) == 2
    again = connector.pull(connector.restart_stock(host.cursor))
    (record,) = [record async for batch in again for record in batch.records]
    await connector.close()
    assert isinstance(record, StockLevel)
    urls = [url.removeprefix(BASE) for url in script.urls]
    assert urls[2:] == ["/s?since=2020-01-01T09:55:00.000Z", "/n"]
