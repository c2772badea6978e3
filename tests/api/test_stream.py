"""The stream of changes: what it shows, where it continues, and when it ends."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.admin.api import stream
from backhaul.admin.following import LATE_SECONDS, ROWS, Follower
from backhaul.store.read_records import RecentChange
from backhaul.store.testing.mirror_scenes import show_order
from scenes.api import API, issue
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from scenes.dashboard import Office


class Reader:
    """Reads a stream, event by event."""

    def __init__(self, answer: ClientResponse) -> None:
        self._answer = answer
        self.last_id = ""

    async def next(self) -> dict[str, Any] | None:
        """Return the data of the next event, None at the end of the stream."""
        data = None
        async with asyncio.timeout(HANG_SECONDS):
            async for line in self._answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "data":
                    data = json.loads(value)
                elif not name and data is not None:
                    found: dict[str, Any] = data
                    return found
        return None

    async def until(self, type_: str, state: str) -> dict[str, Any]:
        """Return the next change of a type to a state."""
        while (found := await self.next()) is not None:
            if (found["type"], found["state"]) == (type_, state):
                return found
        pytest.fail("the stream ended")


async def open_stream(
    office: Office, token: str, last_id: str = "", status: int = 200
) -> Reader:
    """Open a stream, and wait until it has begun."""
    client = (await office.browser()).client
    headers = {"Authorization": f"Bearer {token}"}
    if last_id:
        headers["Last-Event-ID"] = last_id
    answer = await client.get(f"{API}/stream", headers=headers)
    assert answer.status == status, await answer.text()
    reader = Reader(answer)
    if status == 200:
        assert answer.content_type == "text/event-stream"
        await answer.content.readuntil(b"\n\n")
    return reader


async def test_changes_are_streamed(office: Office) -> None:
    token = await issue(office.store)
    reader = await open_stream(office, token)
    await show_order(office.store, "ord_1")
    event = await reader.until("event", "folded")
    assert event == {"type": "event", "id": "1", "state": "folded", "store": "main"}
    command = await office.plan("ord_1")
    assert (await reader.until("command", "planned"))["id"] == command


async def test_a_stream_continues_behind_its_last_event(office: Office) -> None:
    token = await issue(office.store)
    first = await open_stream(office, token)
    await office.plan("ord_1")
    await first.until("command", "planned")
    missed = await office.plan("ord_2")
    second = await open_stream(office, token, first.last_id)
    while (await second.until("command", "planned"))["id"] != missed:
        pass


async def test_a_new_stream_shows_only_new_changes(office: Office) -> None:
    await office.plan("ord_1")
    reader = await open_stream(office, await issue(office.store))
    second = await office.plan("ord_2")
    assert (await reader.until("command", "planned"))["id"] == second


@pytest.mark.parametrize("last_id", ["x", "1.2", "1.2.3.4.5.6.7.-8", "9" * 200])
async def test_a_strange_id_is_refused(office: Office, last_id: str) -> None:
    await open_stream(office, await issue(office.store), last_id, 422)


async def test_a_stream_ends_with_its_token(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHECK_SECONDS", 0.0)
    token = await issue(office.store, name="app")
    reader = await open_stream(office, token)
    await office.store.tokens.revoke("app", "the test")
    while await reader.next() is not None:
        pass


async def test_streams_end_with_the_listener(office: Office) -> None:
    reader = await open_stream(office, await issue(office.store))
    await office.app.shutdown()
    assert await reader.next() is None


async def test_a_reader_that_reads_nothing_is_disconnected(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection takes no more, so the stream ends; nobody else waits for it."""
    monkeypatch.setattr(stream, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 0.0)
    large = b": " + b"x" * (1 << 20) + b"\n\n"
    monkeypatch.setattr(stream, "KEPT_ALIVE", large)
    token = await issue(office.store)
    port = office.server.port
    assert port is not None
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    request = f"GET {API}/stream HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{request}Authorization: Bearer {token}\r\n\r\n".encode())
    await writer.drain()
    api = office.app[stream.STREAMS]
    async with asyncio.timeout(HANG_SECONDS):
        await api.has_ended.wait()
    assert api.open == 0
    writer.close()


async def test_there_are_not_too_many_streams(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backhaul.admin.api import streams

    monkeypatch.setattr(streams, "MOST_STREAMS", 1)
    token = await issue(office.store)
    await open_stream(office, token)
    await open_stream(office, token, status=503)


def row(number: int, state: str = "done", *, is_open: bool = False) -> RecentChange:
    return RecentChange(number, "command", f"c{number}", "main", state, int(is_open))


def take(follower: Follower, now: float, *rows: RecentChange) -> list[str]:
    return [f"{c.id} {c.state}" for c in follower.take({"commands": rows}, now)]


def test_each_state_is_shown_once() -> None:
    follower = Follower({"commands": 0})
    assert take(follower, 0.0, row(1, "sending")) == ["c1 sending"]
    assert take(follower, 1.0, row(1, "sending"), row(2)) == ["c2 done"]
    assert take(follower, 2.0, row(1, "applied"), row(2)) == ["c1 applied"]


def test_the_place_waits_for_numbers_that_may_still_appear() -> None:
    follower = Follower({"commands": 0})
    take(follower, 0.0, row(2))
    assert follower.places == {"commands": 0}
    assert take(follower, 1.0, row(1), row(2)) == ["c1 done"]
    take(follower, 1.0 + LATE_SECONDS, row(1), row(2))
    assert follower.places == {"commands": 2}


def test_the_place_waits_for_a_row_that_is_open() -> None:
    follower = Follower({"commands": 0})
    rows = row(1, is_open=True), row(2)
    take(follower, 0.0, *rows)
    take(follower, 2 * LATE_SECONDS, *rows)
    assert follower.places == {"commands": 0}
    take(follower, 3 * LATE_SECONDS, row(1), row(2))
    assert follower.places == {"commands": 2}


def test_the_place_goes_on_through_a_backlog() -> None:
    follower = Follower({"commands": 0})
    take(follower, 0.0, *(row(n, is_open=True) for n in range(1, ROWS + 1)))
    assert follower.places == {"commands": ROWS // 2}
