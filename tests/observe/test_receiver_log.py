"""The daemon logs the lines that a receiver process sends to it."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import msgspec
from loguru import logger

from backhaul.app import receiver_process
from backhaul.app.receiver_process import Report
from backhaul.observe import logs


async def test_a_log_line_of_a_thread_keeps_its_traceback() -> None:
    here, there = socket.socketpair()
    reader, daemons = await asyncio.open_connection(sock=here)
    _, writer = await asyncio.open_connection(sock=there)
    logs.send_to(receiver_process.Channel(writer).log, "INFO")

    def fail(shown: str = "canary") -> None:
        try:
            raise ValueError("no disk", len(shown))
        except ValueError:
            logger.bind(action="a.b").exception("it failed")

    await asyncio.to_thread(fail)
    logging.getLogger("aiohttp.server").error("a handler failed")
    logger.remove()
    line = msgspec.json.decode(await reader.readline(), type=Report).line
    assert line is not None
    assert (line.level, line.message) == ("ERROR", "it failed")
    assert line.extra["action"] == "a.b"
    assert "no disk" in line.extra["exception"]
    assert "canary" not in line.extra["exception"]
    line = msgspec.json.decode(await reader.readline(), type=Report).line
    assert line is not None
    assert (line.message, line.extra["action"]) == (
        "a handler failed",
        logs.LIBRARY_ACTION,
    )
    writer.close()
    daemons.close()


def test_a_line_of_another_process_keeps_its_module_and_fields() -> None:
    found: list[Any] = []
    logs.send_to(found.append, "INFO")
    logs.repeat("backhaul.ingest.receiver", "WARNING", "busy {}", {"action": "a.b"})
    (message,) = found
    record = message.record
    assert (record["name"], record["message"]) == (
        "backhaul.ingest.receiver",
        "busy {}",
    )
    assert record["extra"]["action"] == "a.b"
