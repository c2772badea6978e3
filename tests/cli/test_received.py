"""Commands see the webhooks that are still in a file of a receiver process."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from app.test_receiver_files import receive
from app.test_receivers import client, left, office, post, webhook
from backhaul.app import receiver_files
from backhaul.cli import received
from backhaul.store import INBOX_FILE, database_at
from scenes.daemon import in_process, running
from scenes.later_steps import later_version
from scenes.mirror_files import fill, lone_office
from scenes.postgres import postgres
from scenes.stored import values_of
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from scenes.daemon import CommandResult, Office

__all__ = ["client", "office"]

COUNT = 5
NEEDLE = "ord_7"


@pytest.fixture
def lone() -> Iterator[Office]:
    """Return an office without a daemon, with a file that a killed one left."""
    with lone_office() as found:
        asyncio.run(fill(found, webhook(1)))
        asyncio.run(receive(file_of(found), *map(webhook, range(2, 2 + COUNT))))
        yield found


def file_of(office: Office) -> Path:
    return office.folder / "state" / INBOX_FILE.format("0a")


def events_in(database: Path) -> int:
    return len(values_of(database, "events", "id"))


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """Let no webhook reach the database until the event is set, or the block ends."""
    gate, move = asyncio.Event(), receiver_files.ReceiverFile.move

    async def late(file: receiver_files.ReceiverFile) -> int:
        await gate.wait()
        return await move(file)

    monkeypatch.setattr(receiver_files.ReceiverFile, "move", late)
    try:
        yield gate
    finally:
        gate.set()


READS = [
    ("export", "events", "--json"),
    ("events", "list", "--json"),
    ("capture", "-"),
    ("backup", "copy.db"),
]


@pytest.mark.parametrize("command", READS, ids=lambda command: command[0])
async def test_what_is_answered_is_seen(
    command: tuple[str, ...],
    office: Office,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The daemon moves the webhook only after the command has begun."""
    monkeypatch.chdir(office.folder)
    monkeypatch.setattr(received, "MOVE_SECONDS", HANG_SECONDS)
    async with running(office) as daemon:
        with held(monkeypatch) as gate:
            assert await post(client, daemon.public_url, office, webhook(7)) == 200
            reading = asyncio.create_task(
                asyncio.to_thread(in_process, *command, config=office.config)
            )
            await asyncio.wait({reading}, timeout=0.5)
            gate.set()
        said = await reading
    assert (said.code, said.err) == (0, "")
    if command[0] == "backup":
        assert events_in(office.folder / "copy.db") == 1
    elif command[0] == "events":
        assert [each["topic"] for each in said.json()] == ["orders/create"]
    else:
        assert NEEDLE in said.out


async def test_a_daemon_that_does_not_answer_hinders_no_command(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "MOVE_SECONDS", 0.3)
    copy = office.folder / "copy.db"
    async with running(office) as daemon:
        with held(monkeypatch):
            assert await post(client, daemon.public_url, office, webhook(7)) == 200
            listing = await asyncio.to_thread(
                in_process, "events", "list", config=office.config
            )
            copying = await asyncio.to_thread(
                in_process, "backup", copy, config=office.config
            )
    assert (listing.code, copying.code) == (0, 0)
    # The warning comes once in a process.
    late = "webhooks that were answered a moment ago may be missing: the connection"
    assert late in " ".join(listing.err.split())
    assert events_in(copy) == 0
    assert events_in(office.database) == 1


def test_a_read_without_a_daemon_names_the_files(lone: Office) -> None:
    said = in_process("events", "list", config=lone.config)
    assert said.code == 0
    assert said.err == (
        f"warning: webhooks in {file_of(lone).name} may not be in the database. The"
        " next start of the daemon moves them\n"
    )
    assert events_in(lone.database) == 1
    assert file_of(lone).exists()


def test_a_backup_without_a_daemon_has_them(lone: Office) -> None:
    copy = lone.folder / "copy.db"
    said = in_process("backup", copy, config=lone.config)
    assert (said.code, said.err) == (0, "")
    assert events_in(copy) == 1 + COUNT
    assert left(lone) == []


def test_a_backup_before_an_upgrade_names_the_files(lone: Office) -> None:
    """A backup never upgrades the schema."""
    with later_version() as later:
        said = in_process("backup", lone.folder / "copy.db", config=lone.config)
        assert database_at(lone.database).pending_migrations() == later
    assert said.code == 0
    assert f"webhooks in {file_of(lone).name} may not be in the database" in said.err
    assert file_of(lone).exists()


@pytest.mark.programs
def test_a_move_to_postgresql_takes_them_along(lone: Office) -> None:
    with postgres() as server:
        url = server.empty()
        said: CommandResult = in_process("migrate", "--to", url, config=lone.config)
        assert (said.code, said.err) == (0, "")
        assert database_at(url).row_counts()["inbox"] == 1 + COUNT
    assert left(lone) == []
