"""Scans as lines over TCP: which devices are accepted, and what is answered when."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul_connectors.scanner.settings import Settings
from backhaul_sdk import CheckFailed, Fulfillment, Line, Receipt
from connectors.lining import LINES, as_lines, certificate, wire_to
from connectors.scanning import DEVICES, OTHER_TOKEN, TOKEN, Dock
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul_sdk import Bad, Record

KEEPALIVE = "02"
"""The timer of `/proc/net/tcp` by which the kernel asks who is still there."""


@pytest.fixture
async def dock() -> AsyncIterator[Dock]:
    dock = Dock({**LINES, "first_mode": "receive"})
    yield dock
    await dock.close()


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Dock, ssl.SSLContext]]:
    """A dock with TLS, and what its devices trust."""
    file = await asyncio.to_thread(certificate, tmp_path)
    tls = {"tcp_port": 0, "tcp_certificate": file, "tcp_key": tmp_path / "tls.key"}
    dock = Dock({**tls, "first_mode": "receive"})
    yield dock, ssl.create_default_context(cafile=file)
    await dock.close()


async def test_a_code_alone_and_json_are_answered_in_kind(dock: Dock) -> None:
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        (scan,) = as_lines([{"mode": "pack", "code": "1001", "sequence": 1}])
        plain, told = await wire.say(b"LS-S\r", scan)
    assert plain == "OK 1 x LS-S received"
    assert json.loads(told) == {
        "status": 200,
        "accepted": True,
        "what": "order 1001 packed",
        "sequence": 1,
    }
    assert len(dock.records()) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"4006381333932", "NO the check digit of 4006381333932 is wrong"),
        (b"\xff\xfe", "NO the line is not UTF-8"),
        (b'{"mode": "pack"', '"status": 400'),
        (b'{"mode": "set", "code": "A", "stock": 5}', "mode must be one of"),
        (b"x" * 300, "NO code is too long"),
        (b"x" * 4_097, "NO the line is longer than 4096 bytes"),
        (b"BH-CLOSE", "folder is not set"),
    ],
)
async def test_a_bad_line_is_refused_and_the_next_is_accepted(
    dock: Dock, line: bytes, said: str
) -> None:
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        refusal, taken = await wire.say(line, b"LS-S")
    assert said in refusal
    assert taken == "OK 1 x LS-S received"


async def test_a_line_without_end_is_cut_off(dock: Dock) -> None:
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        wire.writer.write(b"x" * 200_000)
        wire.writer.write_eof()
        assert "longer than 4096 bytes" in await wire.reply()
        assert await wire.reply() == ""


async def test_a_line_is_answered_after_the_commit_only(dock: Dock) -> None:
    asked, committed = asyncio.Event(), asyncio.Event()

    async def slow(record: Record | Bad) -> Receipt:
        asked.set()
        await committed.wait()
        return await dock.host.emit(record)

    dock.emit = slow
    scanner = await dock.open()
    address = scanner.lines.address
    async with wire_to(address) as wire, wire_to(address) as other:
        await wire.send(b"LS-S")
        await asked.wait()
        reply = asyncio.ensure_future(wire.reply())
        # Whoever else is answered meanwhile proves that there was time to answer.
        assert (await other.say(b"\xff"))[0].startswith("NO")
        assert not reply.done()
        assert dock.records() == []
        committed.set()
        assert (await reply).startswith("OK")


async def test_lines_that_come_together_wait_for_one_commit(dock: Dock) -> None:
    together, all_there = 0, asyncio.Event()

    async def gather(record: Record | Bad) -> Receipt:
        nonlocal together
        together += 1
        if together == 200:
            all_there.set()
        await all_there.wait()
        return await dock.host.emit(record)

    dock.emit = gather
    scanner = await dock.open()
    scans = [{"mode": "receive", "code": "A", "sequence": n} for n in range(200)]
    async with wire_to(scanner.lines.address) as wire:
        replies = await wire.say(*as_lines(scans))
    assert {json.loads(reply)["accepted"] for reply in replies} == {True}
    assert len(dock.records()) == 200


async def test_a_scan_that_the_host_cannot_store_is_requested_again(dock: Dock) -> None:
    async def full(record: Record | Bad) -> Receipt:
        raise OSError("no space left on /dev/sda")

    dock.emit = full
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        (reply,) = await wire.say(b"LS-S")
    assert reply == "AGAIN not stored, please try again in a moment"


async def test_lines_may_end_with_a_carriage_return(dock: Dock) -> None:
    """As most scanners end what they read; it may come apart from its line feed."""
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        for part in (b"LS-S\r", b"LS-M\r", b"\nLS-L\r\n"):
            wire.writer.write(part)
            async with asyncio.timeout(HANG_SECONDS):
                assert (await wire.reply()).startswith("OK 1 x LS-")
    assert len(dock.records()) == 3


async def test_a_device_that_was_switched_off_is_found_out(dock: Dock) -> None:
    """It says no goodbye: without being asked it would keep its place for ever."""
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        await wire.say(b"LS-S")
        assert timer_of(scanner.lines.address) == KEEPALIVE


def timer_of(address: tuple[str, int]) -> str:
    """Return which timer the kernel has on the accepted connection."""
    ours = f"0100007F:{address[1]:04X}"
    rows = Path("/proc/net/tcp").read_text("ascii").splitlines()
    (found,) = (row.split() for row in rows if row.split()[1] == ours and " 01 " in row)
    return found[5].partition(":")[0]


async def test_a_line_cut_in_the_middle_is_no_scan(dock: Dock) -> None:
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        assert len(await wire.say(b"LS-S")) == 1
        wire.writer.write(b"LS-")
        wire.writer.write_eof()
        assert await wire.reply() == ""
    assert len(dock.records()) == 1


async def test_only_addresses_that_are_named_are_let_in() -> None:
    dock = Dock({"tcp_port": 0, "tcp_addresses": {"dock": "10.0.0.7"}})
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        told = await wire.say(b"LS-S", b"LS-S")
    assert told == ["NO unknown device: check its token", ""]
    assert dock.records() == []
    await dock.close()


async def test_a_device_shows_its_token_over_tls(
    guarded: tuple[Dock, ssl.SSLContext],
) -> None:
    dock, trust = guarded
    scanner = await dock.open()
    async with wire_to(scanner.lines.address, trust) as wire:
        first, second = await wire.say(b"AUTH " + OTHER_TOKEN.encode(), b"LS-S")
    assert (first, second) == ("OK belt", "OK 1 x LS-S received")
    (record,) = dock.records()
    assert record.locator == "scan of belt"


@pytest.mark.parametrize(
    "greeting",
    [b"LS-S", b"AUTH", b"AUTH wrong", TOKEN.encode(), b"AUTH " + TOKEN[:-1].encode()],
)
async def test_an_unknown_device_is_refused_and_disconnected(
    guarded: tuple[Dock, ssl.SSLContext], greeting: bytes
) -> None:
    dock, trust = guarded
    scanner = await dock.open()
    async with wire_to(scanner.lines.address, trust) as wire:
        told = await wire.say(greeting, b"LS-S")
    assert told == ["NO unknown device: check its token", ""]
    assert dock.records() == []


async def test_a_device_that_starts_no_tls_is_disconnected(
    guarded: tuple[Dock, ssl.SSLContext],
) -> None:
    dock, _ = guarded
    dock.entrance_seconds = 0.05
    scanner = await dock.open()
    reader, writer = await asyncio.open_connection(*scanner.lines.address)
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.read() == b""
    writer.close()


async def test_a_silent_device_is_disconnected(
    guarded: tuple[Dock, ssl.SSLContext],
) -> None:
    dock, trust = guarded
    dock.entrance_seconds = 0.5
    scanner = await dock.open()
    async with wire_to(scanner.lines.address, trust) as wire:
        assert await wire.reply() == ""


async def test_closing_hangs_up_and_the_port_is_free_again(dock: Dock) -> None:
    scanner = await dock.open()
    host, port = scanner.lines.address
    async with wire_to((host, port)) as wire:
        await wire.say(b"LS-S")
        await dock.close()
        assert await wire.reply() == ""
    again = Dock({**LINES, "tcp_port": port})
    assert (await again.open()).lines.address == (host, port)
    await again.close()


async def test_a_port_in_use_is_explained(dock: Dock) -> None:
    scanner = await dock.open()
    other = Dock({**LINES, "tcp_port": scanner.lines.address[1]})
    with pytest.raises(CheckFailed, match=r"cannot listen at 127\.0\.0\.1"):
        await other.open()
    await other.close()


async def test_orders_are_picked_with_bare_codes(tmp_path: Path) -> None:
    dock = Dock({**LINES, "folder": tmp_path})
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        told = await wire.say(b"BH-PICK", b"1001", b"A", b"B", b"1001")
    assert told[-1] == "OK order 1001 finished with 2 units"
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="A", quantity=1), Line(sku="B", quantity=1))
    await dock.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tcp_port": 0}, "need tcp_certificate"),
        ({"tcp_port": 0, "tcp_host": "::", **LINES}, "address of one network"),
        ({"tcp_port": 0, "tcp_host": "0.0.0.0", **LINES}, "address of one network"),  # noqa: S104 - refused
        ({**LINES, "tcp_host": "localhost"}, "must be an address"),
        ({"tcp_addresses": {"dock": "10.0.0.1"}}, "tcp_port is missing"),
        ({**LINES, "tcp_addresses": {"dock": "10.0.0"}}, "IPv4"),
        ({**LINES, "tcp_addresses": {"a": "::1", "b": "0:0::1"}}, "the same address"),
        ({**LINES, "tcp_port": 70_000}, "65535"),
        ({**LINES, "tcp_addresses": {"a b": "::1"}}, "pattern"),
        ({"first_mode": "pick"}, "needs folder"),
    ],
)
def test_unsafe_settings_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings.model_validate({"devices": DEVICES, **options})


@pytest.mark.parametrize("content", [b"", b"no certificate"])
async def test_a_broken_certificate_is_explained(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "tls.pem"
    file.write_bytes(content)
    scanner = Dock({"tcp_port": 0, "tcp_certificate": file}).scanner()
    for step in (scanner.check, scanner.open):
        with pytest.raises(CheckFailed, match="cannot be used for TLS"):
            await step()


async def test_a_scanner_that_beeps_on_bel_hears_the_answer() -> None:
    dock = Dock({**LINES, "first_mode": "receive", "tcp_beeps": True})
    scanner = await dock.open()
    async with wire_to(scanner.lines.address) as wire:
        good, bad, told = await wire.say(b"LS-S", b"4006381333932", b'{"code": "A"}')
    assert good == "OK 1 x LS-S received\a"
    assert bad.startswith("NO the check digit")
    assert bad.endswith("\a\a\a")
    assert not bad.endswith("\a\a\a\a")
    assert json.loads(told)["accepted"]
    await dock.close()
