"""A daemon process that records what one webhook called and imported.

Its arguments are the configuration and the webhook secret of store `main`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from types import FrameType

WATCHED = ("/backhaul/ingest/", "/backhaul/store/")
"""The modules whose calls are recorded: receiver, fold, and writer thread."""


class Watch:
    """Records the files of the code that watched modules call, while it `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: set[str] = set()

    def start(self) -> None:
        """Watch this thread, and all threads that begin later."""
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call" and frame.f_back is not None:
            caller = frame.f_back.f_code.co_filename
            if any(each in caller for each in WATCHED):
                self.files.add(frame.f_code.co_filename)


async def receive_one(config: Path, secret: bytes, watch: Watch) -> int:
    """Run a daemon until it has folded a webhook; return the webhook's status."""
    from backhaul.app.daemon import Daemon
    from backhaul.cli import context
    from scenes.payloads import envelope, order, signed
    from scenes.waiting import until

    daemon = Daemon(context.settings(config))
    running = asyncio.create_task(daemon.run())
    await until(lambda: daemon.ready.is_set() or running.done(), "the daemon is ready")
    watch.is_on = True
    async with httpx.AsyncClient() as client:
        body = envelope("orders/create", order("ord_1"))
        url = f"{daemon.public_url}/webhooks/main"
        answer = await client.post(url, content=body, headers=signed(body, secret))
    folded = daemon.metrics.counter("events_folded_total")
    await until(lambda: folded[()], "the fold")
    watch.is_on = False
    daemon.stop()
    await running
    return answer.status_code


def main() -> None:
    watch = Watch()
    watch.start()
    config, secret = Path(sys.argv[1]), sys.argv[2].encode()
    status = asyncio.run(receive_one(config, secret, watch))
    told: dict[str, Any] = {"status": status, "called": sorted(watch.files)}
    told["loaded"] = [n for n in sys.modules if n.partition(".")[0] == "opentelemetry"]
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
