"""Rows `overview` and `pages`: the dashboard's pages, over a mirror of many orders."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from backhaul.admin.accounts import Passwords
from backhaul.core.clock import SystemClock
from backhaul.store.operators import Role
from backhaul.store.sql.mirror.search_index import CURSOR
from backhaul.store.sqlite.opening import open_store
from bench import large, load, orders
from bench.daemon import Daemon
from bench.fold_large import FEWER
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.load import Loaded
    from bench.results import Scale

NAME, PASSWORD = "vera", "correct horse battery staple"
ORDER = f"ord_{orders.FIRST}"
PAGES = (
    *("/", "/orders", "/orders?tab=unfulfilled", "/orders?tab=cancelled"),
    *("/orders?tab=waiting", f"/mirror/order/{orders.STORE}/{ORDER}"),
    *("/products", "/stock", "/stock?sort=lowest", "/stock?where=nothing"),
    *(
        "/stock?where=sku%3DSKU-1",
        "/customers",
        "/targets",
        "/mirror",
        f"/mirror?q={ORDER}",
    ),
    *("/drift", "/commands", "/commands?where=state%3Dparked", "/incidents"),
    *(
        "/commands?where=order%3D1",
        "/quarantine",
        "/records",
        "/mappings",
        "/deliveries",
    ),
    *("/events", "/events/1", "/events?where=state%3Dquarantined"),
    *("/events?where=nothing", "/stores", "/connectors", "/jobs", "/audit"),
    *("/charts", "/users", "/tokens", "/account"),
)
"""The pages of the dashboard, and lists under filters that find nothing."""
SIZES = ("at few", "at many")
REQUESTS = 40
"""How often a page is requested in a round; its slowest answer counts."""


def overview(scale: Scale) -> Rounds:
    """Request the first page over a large mirror and a small one, in turns."""
    rounds = Rounds()
    with _daemons(scale) as daemons:
        for _ in range(scale.rounds):
            loads = {name: _load(daemon, scale) for name, daemon in daemons.items()}
            few, many = loads["at few"], loads["at many"]
            ratio = few.percentile_ms(0.5) / many.percentile_ms(0.5)
            rounds.add("p50 at few to p50 at many", "x", ratio)
            for name, loaded in loads.items():
                rounds.add(f"p50 {name}", "ms", loaded.percentile_ms(0.5))
                rounds.add(f"p99 {name}", "ms", loaded.percentile_ms(0.99))
    return rounds


def pages(scale: Scale) -> Rounds:
    """Request every page over a large mirror and a small one, in turns."""
    rounds = Rounds()
    with _daemons(scale) as daemons, ExitStack() as running:
        visits = {name: running.enter_context(_visit(daemons[name])) for name in SIZES}
        for page in PAGES:  # a daemon that has just started counts all objects
            for visit in visits.values():
                visit(page)
        for _ in range(scale.rounds):
            for page in PAGES:
                slowest = {name: visit(page) for name, visit in visits.items()}
                ratio = slowest["at many"] / slowest["at few"]
                rounds.add(f"{page}, p99 at many to p99 at few", "x", ratio)
                rounds.add(f"{page}, p99 at many", "ms", slowest["at many"])
    return rounds


@contextmanager
def _daemons(scale: Scale) -> Iterator[dict[str, Daemon]]:
    """Make a daemon with few orders and one with many; neither runs yet."""
    sizes = dict(zip(SIZES, (scale.mirrored // FEWER, scale.mirrored), strict=True))
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        daemons = {name: Daemon(Path(folder, name[-4:].strip())) for name in sizes}
        for name, daemon in daemons.items():
            large.fill(daemon.database, sizes[name])
            asyncio.run(_add_user(daemon.database, str(sizes[name])))
        yield daemons


async def _add_user(database: Path, last: str) -> None:
    """Add a user who is allowed to read all pages.

    The last change is marked as done: otherwise the daemon would index all objects, and
    fetch the customer of each order, for longer than the row takes.
    """
    store = open_store(database, SystemClock())
    store.start()
    hashed = await Passwords().hash(PASSWORD)
    await store.users.add(NAME, Role.ADMIN, hashed, "bench")
    await store.kv.put(CURSOR, last)
    await store.kv.put(f"parents:{orders.STORE}", last)
    await store.stop()


def _load(daemon: Daemon, scale: Scale) -> Loaded:
    """Request the first page repeatedly, as one user who reloads it."""
    daemon.start()
    try:
        request = _request("/", daemon.admin_port, _cookie(daemon.admin_port))
        load.send(daemon.admin_port, [request] * 3, 1)
        loaded = load.send_for(scale.seconds, daemon.admin_port, repeat(request), 1)
    finally:
        daemon.stop()
    agree("pages", {200: len(loaded.latencies)}, loaded.statuses)
    return loaded


@contextmanager
def _visit(daemon: Daemon) -> Iterator[Callable[[str], float]]:
    """Run a daemon; yield what requests a page and returns its p99 in milliseconds."""
    daemon.start()
    try:
        cookie = _cookie(daemon.admin_port)

        def visit(page: str) -> float:
            request = _request(page, daemon.admin_port, cookie)
            load.send(daemon.admin_port, [request] * 3, 1)
            loaded = load.send(daemon.admin_port, [request] * REQUESTS, 1)
            agree(page, {200: REQUESTS}, loaded.statuses)
            return loaded.percentile_ms(0.99)

        yield visit
    finally:
        daemon.stop()


def _cookie(port: int) -> str:
    origin = f"http://127.0.0.1:{port}"
    form = {"name": NAME, "password": PASSWORD}
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=origin, trust_env=False, headers=headers) as browser:
        agree("answer to the login", 303, browser.post("/login", data=form).status_code)
        ((name, value),) = browser.cookies.items()
    return f"{name}={value}"


def _request(page: str, port: int, cookie: str) -> bytes:
    lines = (f"GET {page} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: {cookie}")
    return "\r\n".join((*lines, "", "")).encode()
