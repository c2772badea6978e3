"""The stream of a live page: its messages, its readers, and when it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.admin.following import Follower
from backhaul.admin.live import MOST_OF_SESSION
from backhaul.store.operators import MAX_IDLE_SECONDS
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    import pytest
    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office


async def open_stream(browser: Browser) -> ClientResponse:
    answer = await browser.get("/live", headers={"Accept": "text/event-stream"})
    assert answer.status == 200
    assert answer.content_type == "text/event-stream"
    return answer


async def hear(stream: ClientResponse, words: str) -> None:
    """Read the stream until a line has these words."""
    async with asyncio.timeout(HANG_SECONDS):
        async for line in stream.content:
            if words in line.decode():
                return
    raise AssertionError(f"the stream ended without {words!r}")


async def ends(stream: ClientResponse) -> bool:
    async with asyncio.timeout(HANG_SECONDS):
        return b"ended" in await stream.content.read()


async def test_a_stream_says_which_kinds_have_changed(office: Office) -> None:
    stream = await open_stream(await office.browser("vera"))
    await hear(stream, "data: begin")
    await office.plan()
    await hear(stream, "command")
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    await hear(stream, "event")
    stream.close()


async def test_every_stream_hears_and_the_first_page_too(office: Office) -> None:
    streams = [await open_stream(await office.browser(n)) for n in ("vera", "ada")]
    for stream in streams:
        await hear(stream, "data: begin")
    await office.plan()
    for stream in streams:
        await hear(stream, "command")
        stream.close()


async def test_a_stream_goes_on_after_a_bug_in_what_it_reads(
    office: Office, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    stream = await open_stream(await office.browser("vera"))
    await hear(stream, "data: begin")
    failed = asyncio.Event()

    def take_nothing(*_: object) -> None:
        monkeypatch.undo()
        failed.set()
        raise ValueError("a bug")

    monkeypatch.setattr(Follower, "take", take_nothing)
    await office.plan()
    await failed.wait()
    await hear(stream, "data: begin")
    await office.plan("ord_2")
    await hear(stream, "command")
    assert any("dashboard.live_failed" in line for line in lines)
    stream.close()


async def test_a_stream_reveals_no_content(office: Office) -> None:
    stream = await open_stream(await office.browser("vera"))
    await hear(stream, "data: begin")
    command = await office.plan("ord_secret")
    async with asyncio.timeout(HANG_SECONDS):
        line = b""
        while b"command" not in line:
            line = await stream.content.readline()
            assert command.encode() not in line
            assert b"ord_secret" not in line
    stream.close()


async def test_a_stream_ends_with_the_session(office: Office) -> None:
    browser = await office.browser("vera")
    stream = await open_stream(browser)
    assert (await browser.post("/logout")).status == 303
    assert await ends(stream)


async def test_a_stream_ends_when_its_user_is_removed(office: Office) -> None:
    stream = await open_stream(await office.browser("vera"))
    await office.store.users.remove("vera", "ada")
    assert await ends(stream)


async def test_the_streams_of_a_session_are_limited(office: Office) -> None:
    browser, other = await office.browser("vera"), await office.browser("vera")
    streams = [await open_stream(browser) for _ in range(MOST_OF_SESSION)]
    assert (await browser.get("/live")).status == 429
    (await open_stream(other)).close()
    for stream in streams:
        stream.close()


async def test_the_listener_stops_beside_open_streams(office: Office) -> None:
    stream = await open_stream(await office.browser("vera"))
    await hear(stream, "data: begin")
    async with asyncio.timeout(HANG_SECONDS):
        await office.server.close()
    assert not await ends(stream)


async def test_a_refresh_ignores_the_next_page(office: Office) -> None:
    browser = await office.browser("otto")
    await browser.post("/jobs/pause", job="prune", store="")
    refreshed = await browser.get("/jobs", headers={"X-Refresh": "live"})
    assert "prune is paused." not in await refreshed.text()
    assert "prune is paused." in await browser.read("/jobs")


async def test_a_live_page_keeps_no_session_alive(office: Office) -> None:
    browser = await office.browser("vera")
    await office.clock.advance(MAX_IDLE_SECONDS - 1)
    refreshed = await browser.get("/commands", headers={"X-Refresh": "live"})
    assert refreshed.status == 200
    await office.clock.advance(2)
    assert (await browser.get("/commands")).status == 303
