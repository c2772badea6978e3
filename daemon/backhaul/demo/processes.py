"""Starts, stops, kills and restarts a program; a load balancer before several."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx

from backhaul.demo.demo_folder import HOST, free_port
from backhaul.errors import BackhaulError
from backhaul.settings import bare_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock

START_SECONDS = 90.0
"""A disk may hang for half a minute; a program that ended is reported at once."""
STOP_SECONDS = 2.0
POLL_SECONDS = 0.05


class ProgramFailed(BackhaulError):
    """A program did not start, or ended without being told to."""


class Program:
    """`python -m …` in a process and session of its own, writing to a log file.

    The session keeps Ctrl-C from reaching it: who started it says when it stops.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        ready_url: str,
        clock: Clock,
    ) -> None:
        self.name = name
        self.log = log
        self._arguments = arguments
        self._ready_url = ready_url
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._wanted = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether it is meant to run; it may have ended a moment ago."""
        return self._wanted.is_set()

    @property
    def pid(self) -> int:
        """The id of its last process; 0 before the first."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it and return once it answers. Raises ProgramFailed."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=bare_environment(),
                start_new_session=True,
            )
        self._wanted.set()
        await self._answers(self._process)

    async def stop(self) -> None:
        """Ask it to end, and end it if it takes too long. Safe to call twice."""
        process = self._unwanted()
        if process is None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def kill(self) -> None:
        """SIGKILL: nothing gets a chance to be written."""
        if (process := self._unwanted()) is not None:
            process.kill()
            await process.wait()

    async def restart(self) -> None:
        """Start it again on the same data and the same ports."""
        await self.stop()
        await self.start()

    async def watch(self) -> None:
        """Run until it ends without being told to. Raises ProgramFailed then."""
        while True:
            await self._wanted.wait()
            process = self._process
            if process is None:
                continue
            await process.wait()
            if self._wanted.is_set() and process is self._process:
                raise self._failure(process)

    def _unwanted(self) -> asyncio.subprocess.Process | None:
        self._wanted.clear()
        process = self._process
        return process if process and process.returncode is None else None

    async def _answers(self, process: asyncio.subprocess.Process) -> None:
        until = self._clock.monotonic() + START_SECONDS
        async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
            while not await _is_ready(client, self._ready_url):
                if process.returncode is not None:
                    raise self._failure(process)
                if self._clock.monotonic() > until:
                    await self.stop()
                    raise ProgramFailed(
                        f"{self.name} does not answer; its log says why: {self.log}"
                    )
                await self._clock.sleep(POLL_SECONDS)
        # Another program may have answered in its place: then it ended at once.
        if process.returncode is not None:
            raise self._failure(process)

    def _failure(self, process: asyncio.subprocess.Process) -> ProgramFailed:
        self._wanted.clear()
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "no word")
        return ProgramFailed(
            f"{self.name} ended with exit code {process.returncode}: {last} "
            f"(see {self.log})"
        )


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).is_success
    except httpx.HTTPError:
        return False


class Balancer:
    """Passes connections on to the replicas in turn, past those that do not answer."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = free_port()
        self._ports = list(ports)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Accept connections; end all at the end."""
        served: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:

            def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter
            ) -> None:
                task = group.create_task(self._serve(reader, writer))
                served.add(task)
                task.add_done_callback(served.discard)

            server = await asyncio.start_server(accept, HOST, self.port)
            try:
                yield
            finally:
                server.close()
                for each in served:
                    each.cancel()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_hang_up, writer)
            upstream = await self._connect()
            if upstream is None:
                return
            stack.push_async_callback(_hang_up, upstream[1])
            async with asyncio.TaskGroup() as group:
                ways = (_pass_on(reader, upstream[1]), _pass_on(upstream[0], writer))
                tasks = [group.create_task(each) for each in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in tasks:
                    each.cancel()

    async def _connect(
        self,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        self._ports.append(self._ports.pop(0))
        for port in self._ports:
            with suppress(OSError):
                return await asyncio.open_connection(HOST, port)
        return None


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
