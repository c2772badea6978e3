"""Receiver processes that are killed, hang, or cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from app.test_receivers import (
    FACTS,
    PUBLIC,
    client,
    kept,
    office,
    pids,
    stored,
    webhook,
)
from backhaul.app import receiver_files, receivers
from backhaul.app.daemon import Daemon
from backhaul.app.receiver_process import Channel, Command, Report
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.store import INBOX_FILE, open_inbox_file
from scenes.daemon import DaemonProcess, running
from scenes.loop_guard import on_purpose
from scenes.payloads import signed
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from backhaul.store.inbox import Inbox
    from scenes.daemon import Office

__all__ = ["FACTS", "PUBLIC", "client", "office"]


def request(office: Office, body: bytes) -> bytes:
    headers = signed(body, office.webhook_secret.encode())
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = ["POST /webhooks/main HTTP/1.1", "Host: x", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


@pytest.mark.parametrize("is_paused", [True, False])
async def test_a_killed_daemon_leaves_no_process_that_answers(
    office: Office, client: httpx.AsyncClient, *, is_paused: bool
) -> None:
    """A webhook that arrives then would be written to a file that was moved."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    office.write(
        **{'[public]\nhost = "127.0.0.1"\nport = 0': f"{PUBLIC}\nport = {port}"}
    )
    first, late = webhook(1), request(office, webhook(2))
    process = DaemonProcess(office)
    live = await asyncio.to_thread(process.await_ready)
    if is_paused:  # so that it has unread reports
        os.kill(process.process.pid, signal.SIGSTOP)
    assert (
        await client.post(**_post(live["public_url"], office, first))
    ).status_code == 200
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(late[:200])
    await writer.drain()
    process.kill()
    async with running(office):
        answer = b""
        with suppress(ConnectionError):
            writer.write(late[200:])
            answer = await reader.read()
        assert answer == b""
        assert first in stored(office)
    writer.close()


def _post(url: str, office: Office, body: bytes) -> dict[str, Any]:
    headers = signed(body, office.webhook_secret.encode())
    return {"url": f"{url}/webhooks/main", "content": body, "headers": headers}


async def test_a_process_that_holds_a_lock_is_ended(tmp_path: Path) -> None:
    file = receiver_files.ReceiverFile.new(tmp_path, _no_inbox(), SystemClock())
    lock = file.lock()
    with on_purpose():
        process = _inheritor(lock)
    os.pwrite(lock, b"%d" % process.pid, 0)
    os.close(lock)
    await receiver_files.end_orphans(tmp_path, SystemClock())
    with on_purpose():
        assert process.wait(HANG_SECONDS) == -signal.SIGKILL


def _inheritor(lock: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], pass_fds=[lock])


def _no_inbox() -> Inbox:
    return None  # type: ignore[return-value]  # nothing is moved


async def test_a_message_that_breaks_off_is_the_end() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b'{"ready":true}\n{"arrived":tr')
    reader.feed_eof()
    assert (await receivers._next_message(reader)).ready
    with pytest.raises(EOFError):
        await receivers._next_message(reader)


@pytest.mark.parametrize(
    "send",
    [
        lambda writer: receivers._send(writer, Command(moved_up_to=1)),
        lambda writer: Channel(writer).send(Report(arrived=True)),
    ],
    ids=["daemon", "process"],
)
def test_nothing_is_sent_to_the_other_side_after_it_ended(
    send: Callable[[asyncio.StreamWriter], None],
) -> None:
    async def run() -> None:
        here, there = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=here)
        there.close()
        writer.write(b"first")
        await until(writer.is_closing, "the end is noticed")
        for _ in range(10):  # then the socket is closed as well
            await asyncio.sleep(0)
        send(writer)

    uvloop.run(run())


def test_a_full_disk_refuses_a_file_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    # by path, so that modules with it as a default are imported before
    monkeypatch.setattr(
        "backhaul.store.sqlite.database.connections.open_writer", refuse
    )
    with pytest.raises(Busy, match="disk is full"):
        open_inbox_file(tmp_path / "receiver-0a.db", SystemClock())


async def test_a_restart_that_cannot_fork_is_tried_again(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = asyncio.create_subprocess_exec, 0

    async def refuse(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise BlockingIOError("no more processes")
        return await start(*command, **options)

    async with running(office) as daemon:
        before = pids(daemon)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: refused == 2, "it is tried twice")
        await until(lambda: before[0] not in pids(daemon), "another process runs")
        await kept(client, daemon, office, webhook(1))


async def test_a_damaged_file_is_kept_and_the_daemon_starts(office: Office) -> None:
    file = office.folder / "state" / INBOX_FILE.format("0b")
    file.write_bytes(b"no database" * 1_000)
    log = file.with_name(f"{file.name}-wal")
    log.write_bytes(b"its log")
    async with running(office):
        pass
    kept_file = file.with_name(f"{file.name}{receiver_files.DAMAGED}")
    assert kept_file.read_bytes() == b"no database" * 1_000
    assert kept_file.with_name(f"{kept_file.name}-wal").read_bytes() == b"its log"
    assert not file.exists()


async def test_a_start_with_a_process_that_hangs_can_be_stopped(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "MODULE", "scenes.hanging_program")
    monkeypatch.setattr(receivers, "STOP_SECONDS", 0.2)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    daemon = Daemon(context.settings(office.config))
    run = asyncio.create_task(daemon.run())
    await until(lambda: len(pids(daemon)) == 2 and all(pids(daemon)), "they run")
    daemon.stop()
    async with asyncio.timeout(HANG_SECONDS):
        await run


async def test_a_module_of_the_working_directory_is_not_imported(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    async with running(office) as daemon:
        assert all(pids(daemon))


async def test_a_request_in_absolute_form_reaches_the_daemon(office: Office) -> None:
    async with running(office) as daemon:
        host, _, port = daemon.public_url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        path = f"{daemon.public_url}/connect/bench/scan"
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()
