"""Runs the processes that receive webhooks, and moves what they received."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from loguru import logger
from msgspec import Struct

from backhaul.app import receiver_files, sockets
from backhaul.app.public_http import Limits
from backhaul.app.receiver_files import ReceiverFile
from backhaul.app.receiver_process import (
    LONGEST_MESSAGE_BYTES,
    Command,
    Report,
    Start,
)
from backhaul.errors import Busy, CorruptData, Fatal
from backhaul.observe import logs
from backhaul.runtime.loop import Loop, unless, wait_for_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.app.wiring import Receiving
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.settings.telemetry import Telemetry
    from backhaul.store.inbox import Inbox

T = TypeVar("T")
MODULE = "backhaul.app.receiver_process"
SOCKET_NAME = "public.sock"
"""The socket file on which the daemon answers what its receivers pass on."""
SILENT_SECONDS = 60.0
"""A process reports twice a second. One that is silent for so long hangs."""
STOP_SECONDS = 10.0
"""How long a process may take to finish its requests after a stop."""
END_SECONDS = 1.0
"""How long a process may take to end after that; then it is killed."""
RESTART_SECONDS = 0.1
LONGEST_RESTART_SECONDS = 5.0
STEADY_SECONDS = 60.0
"""A process that ran for so long is started again at once."""
RETRY_SECONDS = 0.5
"""How soon webhooks are moved again that the database refused."""
CLEAR_SECONDS = 5.0
"""How long a process may take to clear the bytes of moved webhooks."""


class _Context(Struct, frozen=True):
    """What the daemon's side of all processes uses; `port` is the bound listener."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    inbox: Inbox
    receiving: Receiving
    port: socket.socket


class Receivers:
    """The processes that receive for one daemon; there may be none."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._clock = clock
        self._metrics = metrics
        self._inbox: Inbox | None = None
        self._port: socket.socket | None = None
        self._every: list[_Receiver] = []

    async def end_orphans(self) -> None:
        """End the processes of a daemon that was killed. Raises AlreadyRunning."""
        await receiver_files.end_orphans(self._settings.state_dir, self._clock)

    async def move_left(self, inbox: Inbox) -> None:
        """Move the webhooks that an earlier run of the daemon left behind.

        Later webhooks are moved to this inbox too.
        """
        self._inbox = inbox
        await receiver_files.move_left(self._settings.state_dir, inbox, self._clock)

    def take_public_socket(self, public: socket.socket | None) -> socket.socket | None:
        """Take the public listener for the processes, if there are to be any.

        Returns the listener for the requests that remain for the daemon itself. Raises
        PortInUse.
        """
        if public is None or not self._settings.public.receivers:
            return public
        self._port = public
        return sockets.bind_unix(self._settings.state_dir / SOCKET_NAME)

    @asynccontextmanager
    async def running(self, receiving: Receiving) -> AsyncIterator[None]:
        """Run the processes meanwhile, once all of them listen.

        At the end they finish the requests that have begun, and all that they received
        is moved. Raises Fatal if a process cannot be started.
        """
        if self._port is None or self._inbox is None:
            yield
            return
        settings, inbox = self._settings, self._inbox
        parts = settings, self._clock, self._metrics, inbox, receiving, self._port
        context = _Context(*parts)
        self._every = [_Receiver(context) for _ in range(settings.public.receivers)]
        try:
            async with asyncio.TaskGroup() as group:
                for each in self._every:
                    group.create_task(each.run())
                try:
                    await unless(self._stopping, self._all_listen())
                    yield
                finally:
                    for each in self._every:
                        each.stop()
        finally:
            (settings.state_dir / SOCKET_NAME).unlink(missing_ok=True)

    async def _all_listen(self) -> None:
        for each in self._every:
            await each.listened.wait()

    def state(self) -> list[dict[str, int]]:
        """Return the process id of each, and how often it was started again."""
        return [{"pid": each.pid, "restarts": each.restarts} for each in self._every]

    async def move_all(self) -> None:
        """Wait until all webhooks that are answered by now are in the database."""
        for each in self._every:
            await each.move_all()

    async def clear(self) -> bool:
        """Clear the bytes of moved webhooks from all files.

        Returns False if a process cannot do so now, as when a program reads its file.
        """
        return all(await asyncio.gather(*(each.clear() for each in self._every)))


class _Receiver:
    """One process, which is started again whenever it ends."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._stopping = asyncio.Event()
        self._file: ReceiverFile | None = None
        self._moving = Loop(context.clock, self._log_busy)
        self._writer: asyncio.StreamWriter | None = None
        self._clears = 0
        self._cleared = 0, True
        self._was_busy = False
        self._listens = False
        self.listened = asyncio.Event()
        """A process has listened once."""
        self.restarts = 0
        self.pid = 0

    def stop(self) -> None:
        """End the process once its requests are finished."""
        self._stopping.set()

    async def run(self) -> None:
        """Run processes, one after the other, until the stop."""
        clock, wait = self._context.clock, RESTART_SECONDS
        while True:
            began = clock.monotonic()
            said = await self._run_once()
            if self._stopping.is_set():
                return
            if not self.listened.is_set():
                raise Fatal(
                    f"a receiver process {said} before it could receive; the log says"
                    " why. Set receivers to 0 in [public] to receive without such"
                    " processes"
                )
            self.restarts += 1
            self._context.metrics.counter("receiver_restarts_total")[()] += 1
            if clock.monotonic() - began > STEADY_SECONDS:
                wait = RESTART_SECONDS
            logger.bind(action="receiver.ended", pid=self.pid).error(
                "receiver process {} {}; it is started again in {:.1f} s",
                *(self.pid, said, wait),
            )
            await wait_for_event(self._stopping, wait, clock)
            wait = min(2 * wait, LONGEST_RESTART_SECONDS)

    async def _run_once(self) -> str:
        """Run a process to its end, and move all that it received; say how it ended."""
        context = self._context
        folder = context.settings.state_dir
        file = self._file = ReceiverFile.new(folder, context.inbox, context.clock)
        self._listens = False
        try:
            process, here = await self._spawn(file)
        except OSError as error:
            file.path.with_suffix(receiver_files.LOCK).unlink(missing_ok=True)
            return f"could not be started: {error}"
        self.pid = process.pid
        reader, writer = await asyncio.open_connection(
            sock=here, limit=LONGEST_MESSAGE_BYTES
        )
        self._writer = writer
        try:
            _send(writer, self._start(file.path))
            with context.receiving.signers.changed.connected(
                lambda: _send(writer, Command(secrets=self._secrets()))
            ):
                await self._follow(reader, writer)
        finally:
            writer.close()
            await _end(process)
        await self._move_rest(file)
        context.receiving.arrived.emit()
        return f"ended with {process.returncode}"

    async def _spawn(
        self, file: ReceiverFile
    ) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """Start a process that holds the lock of its file. Raises OSError."""
        here, there = socket.socketpair()
        lock = file.lock()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # modules of the working directory are not imported
                "-m",
                MODULE,
                stdin=there.fileno(),
                pass_fds=[self._context.port.fileno(), lock],
            )
            os.pwrite(lock, b"%d" % process.pid, 0)
        except OSError:
            here.close()
            raise
        finally:
            there.close()
            os.close(lock)
        return process, here

    async def _move_rest(self, file: ReceiverFile) -> None:
        """Move the rest of a file; at a stop it may stay for the next start."""
        while True:
            try:
                await file.end()
            except Busy as error:
                self._log_busy(error)
            if file.is_ended or self._stopping.is_set():
                return
            await wait_for_event(self._stopping, RETRY_SECONDS, self._context.clock)

    def _start(self, file: Path) -> Start:
        settings, public = self._context.settings, self._context.settings.public
        return Start(
            str(file),
            self._context.port.fileno(),
            str(settings.state_dir / SOCKET_NAME),
            Limits(*(getattr(public, name) for name in Limits.__struct_fields__)),
            _tracing(settings.telemetry),
            self._secrets(),
            settings.log.level,
        )

    def _secrets(self) -> dict[str, dict[str, bytes]]:
        return self._context.receiving.signers.rings()

    async def _follow(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take the messages of the process, and move its webhooks, until the stop."""

        async def move() -> float | None:
            return await self._move(writer)

        async def read() -> None:
            try:
                while True:
                    self._take(await _next_message(reader))
            except (ConnectionError, EOFError):
                pass  # a process that is killed breaks off, perhaps amid a message
            except (msgspec.MsgspecError, LookupError, ValueError) as error:
                logger.bind(action="receiver.unreadable", pid=self.pid).error(
                    "receiver process {} sent a message that cannot be read, perhaps"
                    " because another version was installed; restart Backhaul: {}",
                    self.pid,
                    error,
                )

        self._moving = Loop(self._context.clock, self._log_busy)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            moving = group.create_task(self._moving.run(move))
            stopping = group.create_task(self._stopping.wait())
            tasks = {reading, moving, stopping}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # A move that is cut off would be done again, and its webhooks repeat.
            self._moving.stop()
            await asyncio.wait({moving})
            if stopping.done():
                _send(writer, Command(stop=True))
                await asyncio.wait({reading}, timeout=STOP_SECONDS)  # the last counts
            reading.cancel()
            stopping.cancel()

    async def _move(self, writer: asyncio.StreamWriter) -> float | None:
        """Move what arrived; return in how many seconds more is due."""
        file = self._file
        if file is None or not self._listens:
            return None
        try:
            number = await file.move()
        except CorruptData:  # the end of the process says so, and keeps the file
            writer.close()
            return None
        self._was_busy = False
        if number:
            _send(writer, Command(moved_up_to=file.moved))
            self._context.receiving.arrived.emit()
        return 0.0 if number else None

    async def move_all(self) -> None:
        """Wait until all webhooks that are answered by now are in the database.

        May raise Busy.
        """
        file = self._file
        if file is None or not self._listens:
            return
        newest = 0
        with suppress(Busy):  # its process ended: the rest of the file is moved first
            newest = await file.newest()
        while file.moved < newest and not (file.is_ended or self._stopping.is_set()):
            self._moving.wake()
            await self._context.clock.sleep(RETRY_SECONDS / 10)

    async def clear(self) -> bool:
        """Let the process clear the bytes of moved webhooks; return whether it did.

        A file that is deleted, because its process ended, has no bytes any more.
        """
        file, clock = self._file, self._context.clock
        if file is None:
            return True
        self._clears = number = self._clears + 1
        if self._writer is not None:
            _send(self._writer, Command(moved_up_to=file.moved, clear=number))
        until = clock.monotonic() + CLEAR_SECONDS
        while file.path.exists():
            answered, is_cleared = self._cleared
            if answered >= number:  # an answer to a later request includes this one
                return is_cleared
            if clock.monotonic() > until or self._stopping.is_set():
                return False
            await clock.sleep(RETRY_SECONDS / 10)
        return True

    def _take(self, report: Report) -> None:
        context = self._context
        if report.ready:
            self._listens = True
            self.listened.set()
        if report.arrived:
            self._moving.wake()
        for name, labels, number in report.counts:
            if name == "webhooks_total":
                store, answer = labels
                context.receiving.answers.count(store, answer, number)
            else:
                context.metrics.counter(name)[labels] += number
        if report.used or report.refused:
            context.receiving.signers.add_uses(report.used, report.refused)
        if report.cleared is not None:
            self._cleared = report.cleared
        if (line := report.line) is not None:
            logs.repeat(line.module, line.level, line.message, line.extra)

    def _log_busy(self, error: Exception) -> None:
        if not self._was_busy:
            self._was_busy = True
            logger.bind(action="receiver.busy").warning(
                "received webhooks wait in a file, because they cannot be moved into"
                " the database now: {}",
                error,
            )


async def _next_message(reader: asyncio.StreamReader) -> Report:
    """Return the next message. Raises EOFError if the process ended, or hangs.

    The wait has two parts: after a pause of the daemon itself, the first one ends
    before the messages of the meantime are read.
    """
    for _ in range(2):
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENT_SECONDS / 2):
                line = await reader.readuntil()
                return msgspec.json.decode(line, type=Report)
    logger.bind(action="receiver.silent").error(
        "a receiver process has sent no report for {:.0f} s; it is ended",
        SILENT_SECONDS,
    )
    raise EOFError


def _tracing(telemetry: Telemetry) -> dict[str, Any]:
    """Return the settings to export spans by; empty if a process exports none."""
    if not (telemetry.is_on and telemetry.traces):
        return {}
    plain = {"otlp_endpoint", "service_name", "resource_attributes", "sample_ratio"}
    found = telemetry.model_dump(mode="json", include=plain) | {"metrics": False}
    if telemetry.headers is not None:
        found["headers"] = telemetry.headers.get_secret_value()
    return found


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that has nothing to do, and kill it if it hangs."""
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


def _send(writer: asyncio.StreamWriter, message: Start | Command) -> None:
    """Send a message, unless the process ended: uvloop then raises RuntimeError."""
    if not writer.is_closing():
        writer.write(msgspec.json.encode(message) + b"\n")
