"""Starts the reference server and the daemon as two processes joined by HTTP."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.demo.demo_folder import (
    HOST,
    SCANNER,
    STORE,
    Access,
    DemoFolder,
    Ports,
    free_port,
    free_ports,
)
from backhaul.demo.processes import Program
from backhaul.demo.workers import Erp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.tryton import TrytonStaff

RETRY_SCHEDULE = "0,0.2,1,5,30"
"""Seconds before each try of a webhook: a demo has no 27 hours."""


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

    @property
    def drop(self) -> Path:
        """Where CSV files are read from."""
        return self.home.drop

    @property
    def lines_port(self) -> int:
        return self.ports.lines

    @property
    def scanner(self) -> str:
        return SCANNER

    async def server_state(self) -> dict[str, Any]:
        """Return the reference server's own books, whole. Raises httpx.HTTPError."""
        return await self.access.state()


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
    reference = reference_server(home, ports, clock, limits, retry_schedule, quirks)
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


def reference_server(
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
    home.keep_secret("webhook_secrets", [await access.subscribe(address)])
    home.write_config(
        ports,
        access.public_url,
        with_erp=erp is not None,
        tryton=tryton.server.port if tryton else None,
    )
    return home.make_device_tokens()
