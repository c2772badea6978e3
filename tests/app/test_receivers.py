"""Separate processes that receive webhooks: `receivers` in `[public]`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

import httpx
import msgspec
import pytest

from backhaul.app import receiver_files, receiver_process, receivers
from backhaul.app.receiver_process import Command
from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import Busy, Fatal
from backhaul.ingest.secret_rings import SecretRings
from backhaul.settings.telemetry import Telemetry
from backhaul.store import INBOX_FILE, open_inbox_file, open_store
from backhaul.store.inbox import Arrival
from scenes.daemon import (
    UNUSED_ADDRESS,
    DaemonProcess,
    Office,
    in_process,
    running,
)
from scenes.loop_guard import on_purpose
from scenes.payloads import STORE_ID, envelope, instant, order, signed
from scenes.stored import rows_of, values_of
from scenes.waiting import await_true, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.app.daemon import Daemon

NUMBER = 2
PUBLIC = f'[public]\nhost = "127.0.0.1"\nreceivers = {NUMBER}'
FACTS = f'{{"store_id":"{STORE_ID}","currency":"INR"}}'


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """Return an office with a known store, whose platform does not answer."""
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    made.write(**{'[public]\nhost = "127.0.0.1"': PUBLIC})
    store = open_store(made.database, SystemClock())
    store.start()
    await store.kv.put("facts:main", FACTS)
    await store.stop()
    yield made
    made.remove()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as opened:
        yield opened


def webhook(number: int) -> bytes:
    found = order(f"ord_{number}", number=number, updatedAt=instant(number % 3_000))
    return envelope("orders/create", found)


async def post(client: httpx.AsyncClient, url: str, office: Office, body: bytes) -> int:
    """Send a webhook; return the status, 0 if the connection broke."""
    headers = signed(body, office.webhook_secret.encode())
    try:
        answer = await client.post(
            f"{url}/webhooks/main", content=body, headers=headers
        )
    except httpx.TransportError:
        return 0
    return answer.status_code


async def kept(
    client: httpx.AsyncClient, daemon: Daemon, office: Office, body: bytes
) -> None:
    """Send as the platform does: retry until the status is 200."""
    for _ in range(1_000):
        if await post(client, daemon.public_url, office, body) == 200:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no process receives any more")


def stored(office: Office) -> Counter[bytes]:
    return stored_in(office.database)


def stored_in(database: Path) -> Counter[bytes]:
    bodies = values_of(database, "events", "body", source="delivery")
    return Counter(b if isinstance(b, bytes) else str(b).encode() for b in bodies)


def folded(office: Office) -> list[str]:
    """Return the states of the webhooks that are folded, the oldest first."""
    states = values_of(office.database, "events", "state", source="delivery")
    return [state for state in states if state in {"folded", "duplicate"}]


def left(office: Office) -> list[Path]:
    return sorted((office.folder / "state").glob("receiver-*"))


def pids(daemon: Daemon) -> list[int]:
    return [each["pid"] for each in daemon._receivers.state()]


async def test_webhooks_of_all_processes_are_in_the_database(
    office: Office, client: httpx.AsyncClient
) -> None:
    bodies = [webhook(number) for number in range(100)]
    async with running(office) as daemon:
        assert len(set(pids(daemon)) - {os.getpid()}) == NUMBER
        url = daemon.public_url
        answers = await asyncio.gather(*(post(client, url, office, b) for b in bodies))
        assert answers == [200] * len(bodies)
        await daemon._receivers.move_all()
        assert stored(office) == Counter(bodies)
        wrong = await client.post(f"{url}/webhooks/main", content=bodies[0])
        assert wrong.status_code == 401
        counted = daemon.metrics.counter("webhooks_total")
        await until(lambda: counted["main", "unsigned"] == 1, "the refusal is counted")
        # Each process sends its counts when it likes.
        await until(lambda: counted["main", "kept"] == len(bodies), "all are counted")
        assert daemon._receiving.answers.refused() == {"main": {"unsigned": 1}}
    assert left(office) == []


async def test_a_killed_process_loses_and_doubles_nothing(
    office: Office, client: httpx.AsyncClient
) -> None:
    acknowledged: set[bytes] = set()
    async with running(office) as daemon:

        async def send(first: int) -> None:
            for number in range(first, 160, 8):
                body = webhook(number)
                await kept(client, daemon, office, body)
                acknowledged.add(body)

        sending = [asyncio.create_task(send(first)) for first in range(8)]
        for kills in range(1, 5):
            await until(lambda n=kills: len(acknowledged) > 30 * n, "some are kept")  # type: ignore[misc]
            os.kill(pids(daemon)[kills % NUMBER], signal.SIGKILL)
        await asyncio.gather(*sending)
        assert daemon.metrics.counter("receiver_restarts_total")[()] > 0
    found = stored(office)
    assert found.keys() == acknowledged
    assert len(acknowledged) == 160
    states = Counter(state for (state,) in rows_of(office.database, "events", "state"))
    assert set(states) <= {"received", "folded", "duplicate"}
    assert left(office) == []


async def test_a_daemon_moves_what_a_killed_one_left(
    office: Office, client: httpx.AsyncClient
) -> None:
    process = DaemonProcess(office)
    url = (await asyncio.to_thread(process.await_ready))["public_url"]
    bodies = [webhook(number) for number in range(40)]
    sending = asyncio.gather(*(post(client, url, office, body) for body in bodies))
    await asyncio.sleep(0)
    with on_purpose():
        children = _children(process.process.pid)
    assert len(children) == NUMBER
    answers = await sending
    process.kill()
    await asyncio.to_thread(
        await_true, lambda: not any(map(_is_alive, children)), "the processes end"
    )
    office.write()  # without receiver processes
    async with running(office) as daemon:
        assert pids(daemon) == []
        kept = {b for b, status in zip(bodies, answers, strict=True) if status == 200}
        assert kept <= stored(office).keys()
    assert left(office) == []


async def receive(office: Office, name: str, bodies: list[bytes]) -> Path:
    """Write webhooks to a file as a process does that was killed; return the file."""
    file = office.folder / "state" / INBOX_FILE.format(name)
    spool = open_inbox_file(file, SystemClock())
    spool.start()
    now = to_text(SystemClock().now())  # or retention deletes the row
    arrivals = [Arrival("main", "delivery", "", now, b"{}", body) for body in bodies]
    await asyncio.gather(*map(spool.append, arrivals))
    await spool.stop()
    return file


async def test_the_file_of_a_process_is_moved_whole(office: Office) -> None:
    """Some events were moved and removed before."""
    office.write()
    bodies = [webhook(number) for number in range(600)]
    file = await receive(office, "0a", bodies)
    spool = open_inbox_file(file, SystemClock())
    spool.start()
    await spool.remove(100)
    await spool.stop()
    async with running(office):
        assert stored(office) == Counter(bodies[100:])
    assert left(office) == []


async def test_webhooks_that_are_moved_twice_count_once(office: Office) -> None:
    """The daemon died between the move and the removal."""
    office.write()
    bodies = [webhook(number) for number in range(20)]
    file = await receive(office, "0a", bodies)
    moved = file.read_bytes()
    for once_or_twice in (1, 2):
        file.write_bytes(moved)
        async with running(office):
            number = 20 * once_or_twice
            await until(lambda: len(folded(office)) == number, "all are folded")  # noqa: B023
    assert folded(office) == [*["folded"] * 20, *["duplicate"] * 20]


async def test_a_restore_keeps_what_was_not_moved_yet(
    office: Office, tmp_path: Path
) -> None:
    office.write()
    copy = tmp_path / "copy.db"
    said = await asyncio.to_thread(in_process, "backup", copy, config=office.config)
    assert said.code == 0, said.err
    bodies = [webhook(number) for number in range(20)]
    await receive(office, "0a", bodies)
    said = await asyncio.to_thread(in_process, "restore", copy, config=office.config)
    assert said.code == 0, said.err
    async with running(office):
        assert stored(office) == Counter(bodies)
    assert left(office) == []


async def test_no_id_of_a_file_is_used_twice(office: Office) -> None:
    """The daemon reads rows after an id, and the process removes moved rows."""
    spool = open_inbox_file(office.folder / "receiver-1.db", SystemClock())
    spool.start()
    arrival = Arrival("main", "delivery", "", instant(0), b"{}", b"{}")
    first = await spool.append(arrival)
    await spool.remove(first)
    assert await spool.clear()
    assert await spool.append(arrival) == first + 1
    assert [id_ for id_, _ in await spool.oldest(first)] == [first + 1]
    await spool.stop()


async def test_a_revoked_secret_is_refused(
    office: Office, client: httpx.AsyncClient
) -> None:
    async with running(office) as daemon:
        signers = daemon._receiving.signers
        assert await post(client, daemon.public_url, office, webhook(1)) == 200
        (name,) = signers.live()["main"]
        await daemon._receivers.move_all()
        await until(lambda: bool(signers._used), "its use is known")
        signers.replace({"main": {}})
        signers.changed.emit()

        for _ in range(1_000):
            status = await post(client, daemon.public_url, office, webhook(2))
            if status == 401:
                break
        assert (status, name) == (401, name)


async def test_requests_for_connections_reach_the_daemon(
    office: Office, client: httpx.AsyncClient
) -> None:
    async with running(office) as daemon:
        url = f"{daemon.public_url}/connect/bench/scan"
        answer = await client.post(url, json={"device": "gun"})
        assert answer.status_code == 401
        headers = {"Authorization": f"Bearer {office.device_token}"}
        headers["Content-Type"] = "application/json"
        answer = await client.post(url, content=b"{", headers=headers)
        assert answer.status_code == 400
        assert (await client.get(f"{daemon.public_url}/nothing")).status_code == 404


async def test_a_process_that_cannot_start_ends_the_daemon(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "MODULE", "backhaul.no_such_module")
    with pytest.raises(BaseExceptionGroup) as raised:
        async with running(office):
            pass
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Fatal)
    assert "Set receivers to 0 in [public]" in str(error)


async def test_a_process_that_hangs_is_replaced(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "SILENT_SECONDS", 5.0)
    monkeypatch.setattr(receivers, "STOP_SECONDS", 0.5)
    async with running(office) as daemon:
        hanging, bodies = pids(daemon)[0], [webhook(1), webhook(2)]
        await kept(client, daemon, office, bodies[0])
        os.kill(hanging, signal.SIGSTOP)
        await until(lambda: hanging not in pids(daemon), "another process runs")
        await kept(client, daemon, office, bodies[1])
    assert stored(office) == Counter(bodies)


async def test_a_backup_has_every_webhook_that_was_answered_before(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, move = asyncio.Event(), receiver_files.ReceiverFile.move

    async def late(received: receiver_files.ReceiverFile) -> int:
        await gate.wait()
        return await move(received)

    monkeypatch.setattr(receiver_files.ReceiverFile, "move", late)
    bodies = [webhook(number) for number in range(5)]
    async with running(office) as daemon:
        for body in bodies:
            await kept(client, daemon, office, body)
        assert not stored(office)
        backing_up = asyncio.create_task(daemon._backer._back_up())
        try:
            await asyncio.wait({backing_up}, timeout=0.3)
            assert not backing_up.done()
        finally:
            gate.set()
        said, failed = await backing_up
    assert not failed
    backup = office.database.parent / "backups" / said.partition(",")[0]
    assert stored_in(backup) == Counter(bodies)


async def test_a_process_goes_on_if_webhooks_cannot_be_removed() -> None:
    """The disk is full: the daemon has the webhooks; the next removal includes them."""
    spool, channel, reader = AsyncMock(), Mock(), asyncio.StreamReader()
    spool.remove.side_effect = [Busy("the disk is full")] * 2 + [None, None]
    spool.clear.return_value = True
    for command in (
        Command(moved_up_to=1),
        Command(moved_up_to=1, clear=1),
        Command(moved_up_to=2),
        Command(moved_up_to=2, clear=2),
        Command(stop=True),
    ):
        reader.feed_data(msgspec.json.encode(command) + b"\n")
    await receiver_process._follow_commands(reader, SecretRings(), spool, channel)
    assert [each.args for each in spool.remove.mock_calls] == [(1,), (1,), (2,), (2,)]
    reports = [each.args[0] for each in channel.send.mock_calls]
    assert [report.cleared for report in reports] == [(1, False), (2, True)]


def test_a_process_exports_spans_as_the_daemon_does() -> None:
    given = Telemetry.model_validate(
        {
            "otlp_endpoint": "http://127.0.0.1:4318",
            "headers": "api-key=k1",
            "resource_attributes": ["deployment.environment.name=test"],
            "sample_ratio": 0.5,
        }
    )
    found = Telemetry.model_validate(receivers._tracing(given))
    assert found == given.model_copy(update={"metrics": False})
    assert receivers._tracing(given.model_copy(update={"traces": False})) == {}


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
