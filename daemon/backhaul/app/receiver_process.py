"""A process that receives webhooks for the daemon: `python -m` this module.

The daemon starts it with the listening socket, and talks with it over its standard
input, which is a socket. Each webhook is durable in a file of this process before it is
answered. The daemon moves the webhooks from there into its database.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections import Counter
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import aiohttp
import msgspec
import uvloop
from aiohttp import web
from loguru import logger
from msgspec import Struct, field

from backhaul.app import process_tuning, public_http, sockets, telemetry
from backhaul.app.forwarding import client, relay, send
from backhaul.app.public_http import Limits, RequestLimits
from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.ingest.receiver import Receiver, ResponseCounter
from backhaul.ingest.secret_rings import Refusal, SecretRings
from backhaul.observe import logs
from backhaul.observe.metrics import Metrics
from backhaul.store import open_inbox_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loguru import Message as LogMessage

    from backhaul.runtime.tracing import Tracer
    from backhaul.store.inbox import Spool

CLOSED = 3
"""The exit code after the daemon closed the connection without a stop."""
REPORT_SECONDS = 0.5
"""How often the counts of a process reach the daemon."""
ROUTE = "/connect/{path:.*}"
"""What the daemon itself answers; this process passes it on."""
LONGEST_MESSAGE_BYTES = 1 << 24
KEEPALIVE_SECONDS = 5.0
"""Shorter than the daemon keeps idle connections: a request never meets their end."""


class Start(Struct, frozen=True):
    """What a process needs of the settings; `listener` is a number of a descriptor.

    `file` keeps the webhooks. On the socket file `daemon_socket`, the daemon answers
    the requests that are no webhooks. `telemetry` has this section of the settings; it
    is empty if no traces are exported.
    """

    file: str
    listener: int
    daemon_socket: str
    limits: Limits
    telemetry: dict[str, Any]
    secrets: dict[str, dict[str, bytes]]
    log_level: str


class Command(Struct, frozen=True, omit_defaults=True):
    """A message from the daemon: new secrets, or up to which id webhooks are moved.

    `clear` is the number of a request to clear the bytes of moved webhooks from the
    file. With `stop`, the process finishes what is under way, and ends.
    """

    secrets: dict[str, dict[str, bytes]] | None = None
    moved_up_to: int = 0
    clear: int = 0
    stop: bool = False


class Line(Struct, frozen=True):
    """A line for the daemon's log."""

    module: str
    level: str
    message: str
    extra: dict[str, Any]


class Report(Struct, frozen=True, omit_defaults=True):
    """A message to the daemon.

    `ready` comes once, when the process listens. `arrived` says that webhooks are in
    the file. `counts` has what was added to each counter: its name, labels and number.
    `used` has when secrets signed last, by store and fingerprint, and `refused` why
    deliveries of a store were refused since. `cleared` has the number of a request to
    clear bytes, and whether they are gone.
    """

    ready: bool = False
    arrived: bool = False
    counts: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)
    used: list[tuple[str, str, str]] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)
    cleared: tuple[int, bool] | None = None
    line: Line | None = None


class Channel:
    """The way to the daemon: one message a line."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self._is_notified = False

    def send(self, report: Report) -> None:
        """Send a message; the daemon reads faster than this process writes.

        If the daemon ended, the message is of no use, and uvloop would raise an error.
        """
        if not self._writer.is_closing():
            self._writer.write(self._encoder.encode(report) + b"\n")

    def arrived(self) -> None:
        """Say that webhooks arrived, once for all that one commit answered."""
        if not self._is_notified:
            self._is_notified = True
            self._loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._is_notified = False
        self.send(Report(arrived=True))

    def log(self, message: LogMessage) -> None:
        """Send a line of the log, from any thread; a sink of loguru."""
        record = message.record
        line = Line(
            record["name"] or "",
            record["level"].name,
            record["message"],
            dict(record["extra"]),
        )
        self._loop.call_soon_threadsafe(self.send, Report(line=line))


class _Counts:
    """What was counted since the last report."""

    def __init__(self, metrics: Metrics, signers: SecretRings) -> None:
        self._metrics = metrics
        self._signers = signers
        self._sent: dict[str, Counter[tuple[str, ...]]] = {}

    def report(self) -> Report:
        """Return what is new; a report without news says that the process works."""
        counts = []
        for name, counted in self._metrics.counters().items():
            sent = self._sent.setdefault(name, Counter())
            counts += [
                (name, labels, number - sent[labels])
                for labels, number in counted.items()
                if number != sent[labels]
            ]
            self._sent[name] = Counter(counted)
        used, refused = self._signers.take_uses()
        return Report(counts=counts, used=used, refused=refused)


async def _run() -> int:
    process_tuning.start_threads(asyncio.get_running_loop())
    daemon = socket.socket(fileno=sys.stdin.fileno())
    reader, writer = await asyncio.open_connection(
        sock=daemon, limit=LONGEST_MESSAGE_BYTES
    )
    channel, code = Channel(writer), 0
    start = msgspec.json.decode(await reader.readline(), type=Start)
    logs.send_to(channel.log, start.log_level)
    try:
        await _serve(start, channel, reader)
    except Exception:  # noqa: BLE001 - the daemon has the log
        logger.bind(action="receiver.failed").exception("a receiver process failed")
        code = 1
    await asyncio.sleep(0)  # lines of the log are sent after this
    await writer.drain()
    writer.close()
    return code


async def _serve(start: Start, channel: Channel, reader: asyncio.StreamReader) -> None:
    """Receive until the daemon says stop, then finish what is under way."""
    clock, metrics = SystemClock(), Metrics()
    spool = open_inbox_file(Path(start.file), clock)
    spool.start()
    signers = SecretRings(metrics.counter("webhook_verify_total"))
    signers.replace(start.secrets)
    counted = metrics.counter("webhooks_total")
    answers = ResponseCounter(counted, clock, signers.known)
    counts = _Counts(metrics, signers)
    async with _traced(start, metrics) as tracer:
        receiver = Receiver(spool, clock, signers, channel.arrived, answers, tracer)
        async with _listening(start, receiver, answers, metrics):
            channel.send(Report(ready=True))
            async with asyncio.TaskGroup() as group:
                endless = [
                    group.create_task(_report(counts, channel, clock)),
                    group.create_task(spool.watch()),
                ]
                await _follow_commands(reader, signers, spool, channel)
                for task in endless:
                    task.cancel()
        await spool.stop()
        channel.send(counts.report())


async def _report(counts: _Counts, channel: Channel, clock: SystemClock) -> NoReturn:
    while True:
        await clock.sleep(REPORT_SECONDS)
        channel.send(counts.report())


async def _follow_commands(
    reader: asyncio.StreamReader, signers: SecretRings, spool: Spool, channel: Channel
) -> None:
    """Do what the daemon says, until it says stop.

    Without a stop, the daemon was killed: then the process must not answer any more,
    because the next daemon moves its file. What is not answered is sent again.
    """
    try:
        while not await _follow_one(reader, signers, spool, channel):
            pass
    except (OSError, EOFError, msgspec.MsgspecError):
        os._exit(CLOSED)


async def _follow_one(
    reader: asyncio.StreamReader, signers: SecretRings, spool: Spool, channel: Channel
) -> bool:
    """Do the next command; return whether it says stop. Raises EOFError, OSError."""
    command = msgspec.json.decode(await reader.readuntil(), type=Command)
    if command.secrets is not None:
        signers.replace(command.secrets)
    is_cleared = False
    with suppress(Busy):  # the next removal includes these
        if command.moved_up_to:
            await spool.remove(command.moved_up_to)
        is_cleared = bool(command.clear) and await spool.clear()
    if command.clear:
        channel.send(Report(cleared=(command.clear, is_cleared)))
    return command.stop


@asynccontextmanager
async def _traced(start: Start, metrics: Metrics) -> AsyncIterator[Tracer | None]:
    """Export the spans of this process, if the daemon exports its own."""
    if not start.telemetry:
        yield None
        return
    from backhaul.settings.telemetry import Telemetry  # see `Limits`

    settings = Telemetry.model_validate(start.telemetry)
    async with telemetry.exporting(settings, metrics) as exported:
        yield None if exported is None else exported.tracer


@asynccontextmanager
async def _listening(
    start: Start, receiver: Receiver, answers: ResponseCounter, metrics: Metrics
) -> AsyncIterator[None]:
    """Answer webhooks, and pass on what the daemon answers itself."""
    limits = start.limits
    arrivals = RequestLimits.of(limits, answers.add_at)
    sock = socket.socket(fileno=start.listener)
    connector = aiohttp.UnixConnector(
        start.daemon_socket, keepalive_timeout=KEEPALIVE_SECONDS
    )
    async with client(connector) as session:
        passing = web.route("*", ROUTE, partial(_pass_on, session))
        app = public_http.build(
            [*receiver.routes(), passing], limits.max_body_bytes, arrivals
        )
        bad = metrics.counter("bad_requests_total")
        listener = sockets.Listener(app, limits.max_connections, arrivals, bad)
        async with sockets.serving([(listener, sock)]):
            yield


async def _pass_on(
    session: aiohttp.ClientSession, request: web.Request
) -> web.StreamResponse:
    """Return the daemon's answer."""
    try:
        answer = await send(session, "http://backhaul", request)
    except (aiohttp.ClientConnectionError, TimeoutError):
        body = {"accepted": False, "what": "the daemon did not answer; send it again"}
        return web.json_response(body, status=503, headers={"Retry-After": "1"})
    async with answer:
        return await relay(answer, request)


def main() -> None:
    """Receive until the daemon says stop, or ends."""
    # A terminal and systemd signal the whole group; the daemon says when to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    process_tuning.collect_less_often()
    sys.exit(uvloop.run(_run()))


if __name__ == "__main__":
    main()
