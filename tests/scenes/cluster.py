"""Whole daemons on three PostgreSQL servers, with a platform and a warehouse.

The platform is a process outside of the cluster: it keeps its state if the database
loses data. Each daemon reaches each server through a relay that can break the
link, and the platform through a proxy that counts what was sent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from backhaul.demo.daemon_rows import read_owners
from backhaul.demo.runner import beside
from backhaul.errors import BackhaulError
from scenes.balancer import balancer
from scenes.cluster_stores import MAIN, POLLS, open_stores
from scenes.daemon import Office
from scenes.fault_proxy import fault_proxy
from scenes.ports import free_port
from scenes.postgres import PASSWORD, USER
from scenes.postgres_nodes import postgres_nodes
from scenes.reference_process import reference
from scenes.replicas import Replica
from scenes.tcp_relay import tcp_relay
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from scenes.balancer import Balancer
    from scenes.cluster_stores import ClusterStore
    from scenes.fault_proxy import FaultProxy
    from scenes.postgres_nodes import Nodes
    from scenes.reference_process import ReferenceProcess
    from scenes.tcp_relay import Relay

TTL_SECONDS, HOLD_SECONDS = float(os.environ.get("TTL", "3")), 8.0
"""The defaults of `[cluster]`. A busy machine needs a longer TTL, because slow
daemons would take over from each other all the time."""
RESTART_SECONDS = 0.2
"""As `RestartSec` of a service manager."""
POLL_SECONDS = 0.1
"""How often the owner is polled; each poll opens a connection to the database."""
RETRIES = f"0,0.2,0.5,1,2{',5' * 60}"
"""Enough retries, so that the platform gives no webhook up during the test."""
CONFIGURATION_ERROR = 78
_FASTER = (
    'retry_base = "50ms"\nretry_cap = "2s"\nread_seconds = 3\n'
    'check_after = ["0s", "2s", "9s"]'
)
"""Shorter timeouts of claims and responses."""


@dataclass(slots=True)
class Member:
    """A daemon, and its links to the servers by name."""

    replica: Replica
    relays: Mapping[str, Relay]
    is_held_down: bool = False

    @property
    def serves_url(self) -> str:
        return f"http://127.0.0.1:{self.replica.admin_port}/readyz"

    def runs(self) -> bool:
        return self.replica.process is not None and self.replica.ended() is None

    async def cut(self) -> None:
        """Reset the connections to all servers, and refuse new ones."""
        for relay in self.relays.values():
            await relay.down()

    async def restore_link(self) -> None:
        for relay in self.relays.values():
            relay.is_silent = False  # the connections lost bytes, so reset them
            await relay.down()
            await relay.up()

    def silence(self) -> None:
        """Keep the connections open, and forward nothing."""
        for relay in self.relays.values():
            relay.is_silent = True


@dataclass(slots=True)
class Cluster:
    """The parts of the cluster, and the exits of its daemons."""

    platform: ReferenceProcess
    nodes: Nodes
    proxy: FaultProxy
    balancer: Balancer
    members: list[Member]
    stores: list[ClusterStore]
    exits: Counter[str] = field(default_factory=Counter)
    """How often a daemon exited, by its exit code and last output."""
    _session: aiohttp.ClientSession | None = None

    @property
    def drop(self) -> Path:
        """The folder of the first store, which the daemons share."""
        return self.stores[0].drop

    @property
    def url(self) -> str:
        return self.nodes.url

    async def supervise(self) -> None:
        """Restart each daemon that ended, as a service manager does."""
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            for member in self.members:
                replica = member.replica
                if member.is_held_down or replica.process is None:
                    continue
                if (code := replica.ended()) is not None:
                    self._note_end(code, replica.log())
                    replica.launch()

    def _note_end(self, code: int, log: str) -> None:
        assert code != CONFIGURATION_ERROR, log[-3_000:]
        words = [line for line in log.splitlines() if not line.startswith("{")]
        said = words[-1] if words else "no words"
        if code >= 0:  # else a signal of this test ended it
            self.exits[f"{code}: {said[:90]}"] += 1

    async def status(self, member: Member) -> str | None:
        """Return the status of a daemon, None while it does not answer."""
        assert self._session is not None
        limit = aiohttp.ClientTimeout(5)
        try:
            async with self._session.get(member.serves_url, timeout=limit) as answer:
                found = await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            return None
        return str(found["status"]) if answer.status == 200 else None

    async def owner(self, store: str = MAIN) -> Member:
        """Wait for an owner of a store that is not frozen; return it.

        A daemon that was killed and restarted is not ready yet, although the database
        still names it as the owner.
        """
        while True:
            asked = [m for m in self.members if m.runs() and not m.is_held_down]
            found = await asyncio.gather(*map(self.status, asked))
            owners = await asyncio.to_thread(self.owners) if "ready" in found else {}
            for member, status in zip(asked, found, strict=True):
                if status == "ready" and member.replica.admin_port == owners.get(store):
                    return member
            await asyncio.sleep(POLL_SECONDS)

    def owners(self) -> dict[str, int | None]:
        """Return the admin port of each store's owner from the database."""
        with suppress(BackhaulError):
            found = read_owners(self.url)
            return {store: urlsplit(url).port for store, url in found.items()}
        return {}

    async def until_serving(self) -> None:
        """Wait until every daemon answers, and each store has an owner."""
        for member in self.members:
            await self._until_answers(member)
        for store in self.stores:
            await self.owner(store.name)

    async def until_whole(self) -> None:
        """Wait until all daemons serve, and every store can receive and send."""
        await self.until_serving()
        now = time.monotonic()
        for store in self.stores:
            await until(
                partial(self.balancer.has_kept, store.name, now), "a webhook is kept"
            )
            await self.sent_after(now, store)

    async def _until_answers(self, member: Member) -> None:
        while await self.status(member) is None:  # noqa: ASYNC110 - of a process
            await asyncio.sleep(POLL_SECONDS)

    async def sent_after(
        self, moment: float, store: ClusterStore | None = None
    ) -> float:
        """Return when the first command after this moment reached the platform.

        With `store` it is the first one of this store.
        """

        def found() -> float | None:
            sent = reversed(self.proxy.requests("POST"))
            later = takewhile(lambda each: each.at > moment, sent)
            of = [each.at for each in later if store is None or store.sent(each)]
            return of[-1] if of else None

        at = await until(found, "a command is sent")
        assert at is not None
        return at

    def clear_requests(self) -> None:
        """Clear the log of requests, which grows large in an hour."""
        self.proxy.log.clear()


@asynccontextmanager
async def cluster(
    folder: Path,
    daemons: int,
    clock: Clock,
    nodes: Nodes | None = None,
    environ: Mapping[str, str] | None = None,
    quirks: Sequence[str] = (),
    stores: int = 1,
) -> AsyncIterator[Cluster]:
    """Start everything; the daemons serve, and each store has an owner.

    `nodes` are running database servers, `environ` is for each daemon, and `quirks`
    change the platform's behaviour.
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_context
        extra = [word for quirk in quirks for word in ("--quirk", quirk)]
        options = {"fixture": "fresh", "retry_schedule": RETRIES, "extra": extra}
        platform = enter(reference(folder / "platform", **options))
        nodes = nodes or enter(postgres_nodes())
        proxy = await stack.enter_async_context(fault_proxy(platform.public_url))
        ports = [free_port() for _ in range(daemons)]
        made = await stack.enter_async_context(balancer(free_port(), ports))
        shops = await open_stores(platform, folder, made.url, stores, clock)
        found = Cluster(platform, nodes, proxy, made, [], shops)
        for port in ports:
            member = await _member(stack, found, port)
            member.replica.environ |= environ or {}
            stack.push_async_callback(_end, member)
            found.members.append(member)
        found._session = await stack.enter_async_context(aiohttp.ClientSession())
        for member in found.members:
            member.replica.launch()
        async with beside(found.supervise()):
            await found.until_serving()
            yield found


async def _member(stack: AsyncExitStack, found: Cluster, port: int) -> Member:
    relays = {
        name: await stack.enter_async_context(tcp_relay(server.port))
        for name, server in found.nodes.servers.items()
    }
    hosts = ",".join(f"127.0.0.1:{relay.port}" for relay in relays.values())
    wanted = "target_session_attrs=read-write"
    url = f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres?{wanted}"
    main, proxy = found.stores[0], found.proxy.url
    secret, key = main.webhook_secret, main.access.api_key
    more = "".join(each.settings(proxy) for each in found.stores)
    office = Office(proxy, key, webhook_secret=secret, more=more)
    office.write(
        **{
            f'path = "{office.folder}/drop"': main.drop_settings,
            'type = "file_drop"': f'type = "file_drop"\nstore = "{MAIN}"',
            'type = "scanner"': f'type = "scanner"\nstore = "{MAIN}"',
            'retry_base = "50ms"': _FASTER,
            'every = "50ms"': f'every = "{POLLS}"',
            'level = "TRACE"': 'level = "INFO"',
        }
    )
    environ = {
        "BACKHAUL_CLUSTER__DURABILITY": "quorum",
        "BACKHAUL_CLUSTER__TTL": f"{TTL_SECONDS:g}s",
    }
    return Member(Replica(office, url, port, free_port(), environ), relays)


async def _end(member: Member) -> None:
    member.is_held_down = True
    member.replica.stop()
    member.replica.office.remove()
