"""A real MQTT broker: started, killed and started again on its port."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenes.ports import accepts, free_port, unless_ended
from scenes.requirements import require
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIMITS = """
persistence true
persistence_location {folder}/
autosave_interval 1
autosave_on_changes true
max_queued_messages 0
log_type none
"""


@dataclass(slots=True)
class Mosquitto:
    """The broker of one folder and port; `settings` are lines of its file."""

    folder: Path
    port: int
    settings: str = "allow_anonymous true"
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        program = require("mosquitto")
        file = self.folder / "mosquitto.conf"
        # Root would start it as another user, who cannot write here.
        user = "user root\n" if os.getuid() == 0 else ""
        lines = f"{user}listener {self.port} 127.0.0.1\n{self.settings}\n"
        file.write_text(lines + LIMITS.format(folder=self.folder))
        started = await asyncio.create_subprocess_exec(program, "-c", str(file))
        self._process = started
        ready = unless_ended(lambda: started.returncode, lambda: accepts(self.port))
        await until(ready, "the broker listens")

    async def kill(self) -> None:
        """Kill the broker, as a power cut does: nothing is saved."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def mosquitto(folder: Path, settings: str = "") -> AsyncIterator[Mosquitto]:
    broker = Mosquitto(folder, free_port(), settings or "allow_anonymous true")
    await broker.start()
    try:
        yield broker
    finally:
        await broker.kill()
