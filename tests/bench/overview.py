"""Row `overview`: the dashboard's first page, over a mirror of a million orders."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from backhaul.admin.accounts import Passwords
from backhaul.core.clock import SystemClock
from backhaul.store.operators import Role
from backhaul.store.sqlite.opening import open_store
from bench import large, load
from bench.daemon import Daemon
from bench.fold_large import FEWER
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from bench.load import Loaded
    from bench.results import Scale

NAME, PASSWORD = "vera", "correct horse battery staple"


def overview(scale: Scale) -> Rounds:
    """Request the page over a large mirror and a small one, in turns."""
    rounds = Rounds()
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        sizes = {"at few": scale.mirrored // FEWER, "at many": scale.mirrored}
        daemons = {name: Daemon(Path(folder, name[-4:].strip())) for name in sizes}
        for name, daemon in daemons.items():
            large.fill(daemon.database, sizes[name])
            asyncio.run(_add_viewer(daemon.database))
        for _ in range(scale.rounds):
            loads = {name: _load(daemons[name], scale) for name in sizes}
            few, many = loads["at few"], loads["at many"]
            ratio = few.percentile_ms(0.5) / many.percentile_ms(0.5)
            rounds.add("p50 at few to p50 at many", "x", ratio)
            for name, loaded in loads.items():
                rounds.add(f"p50 {name}", "ms", loaded.percentile_ms(0.5))
                rounds.add(f"p99 {name}", "ms", loaded.percentile_ms(0.99))
    return rounds


async def _add_viewer(database: Path) -> None:
    """Add a user who is allowed to read the page."""
    store = open_store(database, SystemClock())
    store.start()
    hashed = await Passwords().hash(PASSWORD)
    await store.users.add(NAME, Role.VIEWER, hashed, "bench")
    await store.stop()


def _load(daemon: Daemon, scale: Scale) -> Loaded:
    """Request the page repeatedly, as one user who reloads it."""
    daemon.start()
    try:
        request = _request(daemon.admin_port)
        load.send(daemon.admin_port, [request] * 3, 1)
        loaded = load.send_for(scale.seconds, daemon.admin_port, repeat(request), 1)
    finally:
        daemon.stop()
    agree("pages", {200: len(loaded.latencies)}, loaded.statuses)
    return loaded


def _request(port: int) -> bytes:
    origin = f"http://127.0.0.1:{port}"
    form = {"name": NAME, "password": PASSWORD}
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=origin, trust_env=False, headers=headers) as browser:
        agree("answer to the login", 303, browser.post("/login", data=form).status_code)
        ((name, value),) = browser.cookies.items()
    lines = ("GET / HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: {name}={value}")
    return "\r\n".join((*lines, "", "")).encode()
