"""Which daemon may write to a database that several can open."""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING, NoReturn, Protocol

from msgspec import Struct

from backhaul.runtime.signals import Unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from backhaul.runtime.signals import Lease


class Member(Struct, frozen=True):
    """One run of a daemon. `id` is new at each start; the addresses are for people.

    `ttl_seconds` is how long the others wait after its last sign of life, and
    `hold_seconds` how long webhooks wait for a server that is away.
    """

    id: str
    host: str
    version: str
    public_url: str = ""
    admin_url: str = ""
    ttl_seconds: float = 3.0
    hold_seconds: float = 0.0


def new_member(
    public_url: str = "",
    admin_url: str = "",
    ttl_seconds: float = 3.0,
    hold_seconds: float = 0.0,
) -> Member:
    """Return this run of the program as a member; its id has never been before."""
    from importlib.metadata import version  # slow, and not for a file

    host = socket.gethostname()
    return Member(
        f"{host}-{secrets.token_hex(4)}",
        host,
        version("backhaul"),
        public_url,
        admin_url,
        ttl_seconds,
        hold_seconds,
    )


class KnownMember(Struct, frozen=True):
    """What the database knows of a member. `is_owner` says whether it may write.

    `silent_seconds` is the time since its last sign of life; `owner_since` is a time in
    UTC; `epoch` counts the owners that there have been.
    """

    id: str
    host: str
    version: str
    public_url: str
    admin_url: str
    silent_seconds: float
    is_alive: bool
    is_owner: bool
    epoch: int = 0
    owner_since: str | None = None


class Ownership(Protocol):
    """Takes, keeps and gives up the right to write. One member has it at a time."""

    lease: Lease
    """The right to send, which ends before another member can take over."""

    async def take(self, stores: Collection[str]) -> bool:
        """Take the right if nobody has it, or its owner is silent. May raise Busy.

        `stores` are held for an audit if the database turns out to have lost commits.
        """
        ...

    async def keep(self) -> NoReturn:
        """Give signs of life until cancelled, as the owner or as a standby.

        Raises Superseded if another member took over.
        """
        ...

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        """Call `wake` when events wait that another member appended."""
        ...

    async def members(self) -> list[KnownMember]:
        """Return the members that gave a sign of life within a day, the owner first."""
        ...


class SoleOwner:
    """The owner of a file: the lock of the state directory lets in no other."""

    lease: Lease = Unlimited()

    async def take(self, stores: Collection[str]) -> bool:
        return True

    async def keep(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        await self.keep()

    async def members(self) -> list[KnownMember]:
        return []
