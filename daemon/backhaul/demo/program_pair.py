"""Starts the reference server and the daemon as two processes joined by HTTP."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from msgspec import Struct

from backhaul.core.webhook import TOPICS
from backhaul.demo.demo_folder import (
    HOST,
    STORE,
    DemoFolder,
    Ports,
    free_port,
    free_ports,
)
from backhaul.demo.processes import Program, ProgramFailed
from backhaul.demo.workers import Erp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.tryton import TrytonStaff

RETRY_SCHEDULE = "0,0.2,1,5,30"
"""Seconds before each try of a webhook: a demo has no 27 hours."""
ASK_SECONDS = 30.0


class Access(Struct, frozen=True):
    """How to reach the store that the reference server plays."""

    public_url: str
    control_url: str
    control_token: str
    subdomain: str
    api_key: str

    @property
    def shop_url(self) -> str:
        """Where people buy from the store."""
        return f"{self.public_url}/shop/{self.subdomain}"

    @classmethod
    def read(cls, home: DemoFolder) -> Access:
        """Read what the reference server wrote for scripts."""
        found = json.loads((home.reference_data / "access.json").read_text())
        store = found["stores"][0]
        return cls(
            found["public_url"],
            found["control_url"],
            found["control_token"],
            store["subdomain"],
            store["api_key"],
        )


class Pair(Struct, frozen=True):
    """The two running programs. Either may be killed and restarted."""

    home: DemoFolder
    ports: Ports
    reference: Program
    daemon: Program
    access: Access
    device_tokens: Mapping[str, str]
    erp: Erp | None = None
    tryton: TrytonStaff | None = None

    @property
    def programs(self) -> Sequence[Program]:
        """All that run beside each other."""
        more = [self.tryton.program] if self.tryton else []
        return (self.reference, self.daemon, *more)

    @property
    def public_url(self) -> str:
        """Where the daemon receives webhooks and scans."""
        return f"http://{HOST}:{self.ports.public}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.ports.admin}"

    async def server_state(self) -> dict[str, Any]:
        """Return the reference server's own books, whole. Raises httpx.HTTPError."""
        access = self.access
        headers = {"Authorization": f"Bearer {access.control_token}"}
        url = f"{access.control_url}/_control/stores/{access.subdomain}/state"
        async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
            answer = await client.get(url, headers=headers)
            state: dict[str, Any] = answer.raise_for_status().json()
            return state


@asynccontextmanager
async def open_pair(
    folder: Path,
    clock: Clock,
    *,
    limits: bool = False,
    retry_schedule: str = RETRY_SCHEDULE,
    quirks: Sequence[str] = (),
    ports: Ports | None = None,
    with_erp: bool = False,
    tryton_database: Path | None = None,
) -> AsyncIterator[Pair]:
    """Run both in a new folder; at the end stop the daemon first.

    `quirks` are other readings of the platform; `tryton_database` is the folder of a
    database to run a Tryton server on, too.

    Raises ProgramFailed with the last words of the one that does not start.
    """
    home, ports = DemoFolder(folder), ports or free_ports()
    home.prepare()
    erp = Erp(home.erp, clock) if with_erp else None
    if erp is not None:
        erp.set_up()
    reference = _reference(home, ports, clock, limits, retry_schedule, quirks)
    daemon = _daemon(home, ports, clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(reference.stop)
        await reference.start()
        access = Access.read(home)
        tryton = None
        if tryton_database is not None:
            # What it imports need not be installed.
            from backhaul.demo.tryton import open_tryton

            opened = open_tryton(home, free_port(), tryton_database, clock)
            tryton = await stack.enter_async_context(opened)
        stack.push_async_callback(daemon.stop)
        tokens = await _introduce(home, ports, access, erp, tryton)
        await daemon.start()
        yield Pair(home, ports, reference, daemon, access, tokens, erp, tryton)


def _reference(
    home: DemoFolder,
    ports: Ports,
    clock: Clock,
    limits: bool,
    retry_schedule: str,
    quirks: Sequence[str],
) -> Program:
    options = {
        "--data": home.reference_data,
        "--port": ports.reference,
        "--control-port": ports.control,
        # Without orders of its own, so that the comparison knows of every one.
        "--fixture": "fresh",
        "--limits": "on" if limits else "off",
        "--retry-schedule": retry_schedule,
        "--log-level": "warning",
    }
    words = [str(word) for option in options.items() for word in option]
    words += [word for quirk in quirks for word in ("--quirk", quirk)]
    return Program(
        "the reference server",
        ["backhaul_reference", *words],
        home.path / "reference.log",
        f"http://{HOST}:{ports.control}/_control/healthz",
        clock,
    )


def _daemon(home: DemoFolder, ports: Ports, clock: Clock) -> Program:
    return Program(
        "the daemon",
        ["backhaul", "--debug", "run", "--config", str(home.config)],
        home.path / "daemon.log",
        f"http://{HOST}:{ports.admin}/readyz",
        clock,
    )


async def _introduce(
    home: DemoFolder,
    ports: Ports,
    access: Access,
    erp: Erp | None,
    tryton: TrytonStaff | None,
) -> dict[str, str]:
    """Subscribe the daemon to the store, and write all it needs to know."""
    address = f"http://{HOST}:{ports.public}/webhooks/{STORE}"
    home.keep_secret("api_key", [access.api_key])
    home.keep_secret("webhook_secrets", [await _subscribe(access, address)])
    home.write_config(
        ports,
        access.public_url,
        with_erp=erp is not None,
        tryton=tryton.server.port if tryton else None,
    )
    return home.make_device_tokens()


async def _subscribe(access: Access, address: str) -> str:
    """Ask for every topic; return the secret that the deliveries are signed with."""
    headers = {"Authorization": f"Bearer {access.api_key}"}
    body = {"address": address, "topics": list(TOPICS)}
    async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
        url = f"{access.public_url}/api/v1/webhooks"
        answer = await client.post(url, json=body, headers=headers)
    if not answer.is_success:
        raise ProgramFailed(f"the subscription was refused: {answer.status_code}")
    secret: str = answer.json()["data"]["secret"]
    return secret
