"""An erased customer is removed from the files of receiver processes too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.test_receiver_files import receive
from app.test_receivers import client, left, office, post
from backhaul.app import receiver_files
from backhaul.maintenance import customer_erasure
from backhaul.store import INBOX_FILE
from scenes.customers import EMAIL, customer, delivery, order
from scenes.daemon import backhaul, in_process, running
from scenes.damaged_rows import write_to_unused_space
from scenes.databases import reading
from scenes.mirror_files import fill, lone_office
from scenes.stored import values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from backhaul.app.daemon import Daemon
    from scenes.daemon import Office

__all__ = ["client", "office"]

BODIES = [
    delivery("customers/create", customer()),
    *(delivery("orders/create", order(number)) for number in range(1, 9)),
]
ERASE = ("customers", "erase", "cus_1", "--yes", "--json")


@pytest.fixture
def lone() -> Iterator[Office]:
    """Return an office with the customer, and without a daemon."""
    with lone_office() as found:
        asyncio.run(fill(found, *BODIES[:2]))
        yield found


def named_in(office: Office) -> list[str]:
    """Return the files of the state directory that contain the e-mail address."""
    files = (path for path in (office.folder / "state").rglob("*") if path.is_file())
    return sorted(
        path.name for path in files if EMAIL.encode() in path.read_bytes().lower()
    )


def receiver_file(office: Office) -> Path:
    return office.folder / "state" / INBOX_FILE.format("0c")


async def receive_all(
    client: httpx.AsyncClient, daemon: Daemon, office: Office
) -> None:
    url = daemon.public_url
    answers = await asyncio.gather(*(post(client, url, office, b) for b in BODIES))
    assert answers == [200] * len(BODIES)
    await until(
        lambda: (
            values_of(office.database, "events", "state").count("folded") == len(BODIES)
        ),
        "the webhooks are folded",
    )


async def test_the_bytes_of_moved_webhooks_are_gone(
    office: Office, client: httpx.AsyncClient
) -> None:
    async with running(office) as daemon:
        await receive_all(client, daemon, office)
        (file, *_) = (path for path in left(office) if path.suffix == ".db")
        write_to_unused_space(file, EMAIL)
        assert [name for name in named_in(office) if name.startswith("receiver-")]
        done = await asyncio.to_thread(backhaul, *ERASE, config=office.config)
        assert (done.json()["left_behind"], done.json()["still_in"]) == ("", [])
        assert left(office)
        assert named_in(office) == []


async def test_webhooks_that_wait_are_moved_before_the_erasure(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, move = asyncio.Event(), receiver_files.ReceiverFile.move

    async def late(received: receiver_files.ReceiverFile) -> int:
        await gate.wait()
        return await move(received)

    async with running(office) as daemon:
        await receive_all(client, daemon, office)
        monkeypatch.setattr(receiver_files.ReceiverFile, "move", late)
        body = delivery("orders/updated", order(1, at=9))
        assert await post(client, daemon.public_url, office, body) == 200
        erasing = asyncio.create_task(
            asyncio.to_thread(backhaul, *ERASE, config=office.config)
        )
        await asyncio.wait({erasing}, timeout=1.0)
        gate.set()
        assert (await erasing).json()["left_behind"] == ""
        assert named_in(office) == []
        assert len(values_of(office.database, "events", "id")) == len(BODIES) + 1


async def test_a_program_that_reads_such_a_file_is_reported(
    office: Office, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(customer_erasure, "LOG_TRIES", 2)
    async with running(office) as daemon:
        await receive_all(client, daemon, office)
        (file, *_) = (path for path in left(office) if path.suffix == ".db")
        with reading(file):
            done = await asyncio.to_thread(backhaul, *ERASE, config=office.config)
        assert done.json()["left_behind"] == "receivers"
        done = await asyncio.to_thread(backhaul, *ERASE, config=office.config)
        assert (done.json()["left_behind"], named_in(office)) == ("", [])


def test_without_a_daemon_files_that_were_left_are_moved_first(lone: Office) -> None:
    file = receiver_file(lone)
    asyncio.run(receive(file, *BODIES[2:]))
    found = in_process(*ERASE, config=lone.config).json()
    assert (found["left_behind"], found["still_in"]) == ("", [])
    assert not file.exists()
    assert named_in(lone) == []
    assert len(values_of(lone.database, "events", "id")) == len(BODIES)


def test_a_damaged_file_is_named(lone: Office) -> None:
    file = receiver_file(lone)
    file.write_bytes(b"no database" * 1_000)
    found = in_process(*ERASE, config=lone.config).json()
    (named,) = found["still_in"]
    assert f"{file.name}.damaged (maybe other data: the file is damaged" in named
