"""Starts, stops, kills and restarts one of the two programs."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import httpx

from backhaul.errors import BackhaulError
from backhaul.settings import bare_environment

if TYPE_CHECKING:
    from collections.abc import Sequence
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
                    raise ProgramFailed(f"{self.name} does not answer: see {self.log}")
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
