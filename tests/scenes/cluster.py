"""Whole daemons on three PostgreSQL servers, between a platform and a shop floor.

The platform is a process outside of the cluster: what it did stays done, whatever the
database forgets. Each daemon reaches each server through a relay that can break the
link, and the platform through a proxy that counts what was sent.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from backhaul.core.webhook import TOPICS
from backhaul.demo.demo_folder import Access, free_port
from backhaul.demo.runner import beside
from backhaul.demo.workers import Erp
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from scenes.balancer import balancer
from scenes.daemon import Office
from scenes.fault_proxy import fault_proxy
from scenes.postgres import PASSWORD, USER
from scenes.postgres_nodes import postgres_nodes
from scenes.reference_process import reference
from scenes.replicas import Replica
from scenes.tcp_relay import tcp_relay
from scenes.waiting import PAUSE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from scenes.balancer import Balancer
    from scenes.fault_proxy import FaultProxy
    from scenes.postgres_nodes import Nodes
    from scenes.reference_process import ReferenceProcess
    from scenes.tcp_relay import Relay

TTL_SECONDS, HOLD_SECONDS = float(os.environ.get("TTL", "3")), 8.0
"""The defaults of `[cluster]`. A busy machine needs a longer TTL: else its daemons are
silent for so long that they take over from each other all the time."""
RESTART_SECONDS = 0.2
"""As `RestartSec` of a service manager."""
RETRIES = f"0,0.2,0.5,1,2{',5' * 60}"
"""The platform gives no webhook up meanwhile."""
CONFIGURATION_ERROR = 78
_CONNECTORS = """
[connectors.scanner]
type = "scanner"
[connectors.scanner.devices]
handheld = "{token}"
[connectors.erp]
type = "sql"
url = "sqlite:///{erp}"
every = "250ms"
begin = "all"
[connectors.erp.fulfillments]
table = "shipments"
processed_at = "taken_at"
[[connectors.erp.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_orders"
object_column = "order_id"
columns = {{ number = "number", status = "status" }}
[[connectors.erp.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_news"
columns = {{ topic = "@topic", order_id = "@object" }}
"""
_FASTER = (
    'retry_base = "50ms"\nretry_cap = "2s"\nread_seconds = 3\n'
    'check_after = ["0s", "2s", "9s"]'
)
"""Nothing is under way for longer than a claim may wait and an answer may take."""


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
            relay.is_silent = False  # its lines have lost bytes: they are reset
            await relay.down()
            await relay.up()

    def silence(self) -> None:
        """Keep the connections open, and let nothing pass."""
        for relay in self.relays.values():
            relay.is_silent = True


@dataclass(slots=True)
class Cluster:
    """Everything that runs, and what was seen of it."""

    platform: ReferenceProcess
    nodes: Nodes
    proxy: FaultProxy
    balancer: Balancer
    members: list[Member]
    folder: Path
    erp: Erp
    device_token: str = field(default_factory=lambda: secrets.token_hex(16))
    exits: Counter[str] = field(default_factory=Counter)
    """How often a daemon ended by itself, by its exit code and last words."""
    _session: aiohttp.ClientSession | None = None

    @property
    def drop(self) -> Path:
        """The folder that the daemons share."""
        return self.folder / "drop"

    @property
    def url(self) -> str:
        return self.nodes.url

    @property
    def access(self) -> Access:
        store = self.platform.store()
        return Access(
            self.platform.public_url,
            self.platform.control_url,
            self.platform.control_token,
            store.subdomain,
            store.api_key,
        )

    async def supervise(self) -> None:
        """Start each daemon again that has ended, as a service manager does."""
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
        if code >= 0:  # else a signal of ours has ended it
            self.exits[f"{code}: {said[:90]}"] += 1

    async def status(self, member: Member) -> str | None:
        """Return what a daemon says of itself, None while it does not answer."""
        assert self._session is not None
        limit = aiohttp.ClientTimeout(5)
        try:
            async with self._session.get(member.serves_url, timeout=limit) as answer:
                found = await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            return None
        return str(found["status"]) if answer.status == 200 else None

    async def owner(self) -> Member:
        """Return the daemon that owns the store, once there is one that is not frozen.

        One that was killed and runs again does not say that it is ready yet, though the
        database still names it.
        """
        while True:
            asked = [m for m in self.members if m.runs() and not m.is_held_down]
            found = await asyncio.gather(*map(self.status, asked))
            owners = await asyncio.to_thread(self._owners) if "ready" in found else ()
            for member, status in zip(asked, found, strict=True):
                if status == "ready" and member.replica.admin_port in owners:
                    return member
            await asyncio.sleep(PAUSE_SECONDS)

    def _owners(self) -> set[int | None]:
        """Return the admin ports of the daemons that own a store."""
        with suppress(BackhaulError):
            known = database_at(self.url).members()
            return {urlsplit(each.admin_url).port for each in known if each.stores}
        return set()

    async def until_serving(self) -> None:
        """Wait until every daemon answers, and one of them owns the store."""
        for member in self.members:
            await self._until_answers(member)
        await self.owner()

    async def until_whole(self) -> None:
        """Wait until all daemons serve, webhooks are kept and commands are sent."""
        await self.until_serving()
        kept = len(self.balancer.kept)
        await until(lambda: len(self.balancer.kept) > kept, "a webhook is kept")
        await self.sent_after(time.monotonic())

    async def _until_answers(self, member: Member) -> None:
        while await self.status(member) is None:  # noqa: ASYNC110 - of a process
            await asyncio.sleep(PAUSE_SECONDS)

    async def sent_after(self, moment: float) -> float:
        """Return when the first command after this moment reached the platform."""

        def found() -> float | None:
            sent = (each.at for each in self.proxy.requests("POST"))
            return next((at for at in sent if at > moment), None)

        at = await until(found, "a command is sent")
        assert at is not None
        return at

    def forget_requests(self) -> None:
        """Forget what was sent: an hour of it is much."""
        self.proxy.log.clear()


@asynccontextmanager
async def cluster(
    folder: Path,
    daemons: int,
    clock: Clock,
    nodes: Nodes | None = None,
    environ: Mapping[str, str] | None = None,
    quirks: Sequence[str] = (),
) -> AsyncIterator[Cluster]:
    """Start everything; the daemons serve, and one of them owns the store.

    `nodes` are database servers that run already, `environ` is for each daemon, and
    `quirks` are other readings of the platform.
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
        address = f"{made.url}/webhooks/main"
        body = {"address": address, "topics": list(TOPICS)}
        hook = platform.v1("POST", "/webhooks", body).data()
        (folder / "drop").mkdir()
        erp = Erp(folder / "erp.db", clock)
        erp.set_up()
        found = Cluster(platform, nodes, proxy, made, [], folder, erp)
        for port in ports:
            member = await _member(stack, found, port, hook["secret"])
            member.replica.environ |= environ or {}
            stack.push_async_callback(_end, member)
            found.members.append(member)
        found._session = await stack.enter_async_context(aiohttp.ClientSession())
        for member in found.members:
            member.replica.launch()
        async with beside(found.supervise()):
            await found.until_serving()
            yield found


async def _member(
    stack: AsyncExitStack, found: Cluster, port: int, secret: str
) -> Member:
    relays = {
        name: await stack.enter_async_context(tcp_relay(server.port))
        for name, server in found.nodes.servers.items()
    }
    hosts = ",".join(f"127.0.0.1:{relay.port}" for relay in relays.values())
    wanted = "target_session_attrs=read-write"
    url = f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres?{wanted}"
    key = found.platform.store().api_key
    more = _CONNECTORS.format(token=found.device_token, erp=found.folder / "erp.db")
    office = Office(found.proxy.url, key, webhook_secret=secret, more=more)
    shared = f'path = "{found.drop}"\nkey_columns = ["document"]'
    office.write(
        **{
            f'path = "{office.folder}/drop"': shared,
            'retry_base = "50ms"': _FASTER,
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
