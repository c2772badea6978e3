"""Which daemon may write for which store of a database that several can open."""

from __future__ import annotations

import asyncio
import math
import secrets
import socket
from typing import TYPE_CHECKING, NoReturn, Protocol

from msgspec import Struct, field

from backhaul.runtime.signals import Unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from backhaul.runtime.signals import Lease

DATABASE = "*"
"""Stands among the stores for the duties of the whole database, such as its alerts."""
ROLES = ("receiver", "worker", "admin")
"""What a daemon may do. Only a worker takes stores."""
REPLICAS, IS_REPLICA = "pg_stat_replication", "pg_is_in_recovery()"
PASSING = frozenset({REPLICAS, IS_REPLICA})
"""What may be wrong with a PostgreSQL server for a moment. Commits wait while no
replica confirms, and lose nothing; during a failover a server may be a replica."""


class Member(Struct, frozen=True):
    """One run of a daemon. `id` is new at each start; the addresses are for people.

    `ttl_seconds` is how long the others wait after its last sign of life, and
    `hold_seconds` how long webhooks wait for a server that is away. `witness` is the
    file in which it keeps how many rounds it confirmed, if it does. With `quorum` it
    writes only to a server that waits for a replica at each commit.
    """

    id: str
    host: str
    version: str
    public_url: str = ""
    admin_url: str = ""
    ttl_seconds: float = 3.0
    hold_seconds: float = 0.0
    roles: tuple[str, ...] = ROLES
    witness: Path | None = None
    quorum: bool = False


def new_member(
    public_url: str = "",
    admin_url: str = "",
    ttl_seconds: float = 3.0,
    hold_seconds: float = 0.0,
    roles: tuple[str, ...] = ROLES,
    witness: Path | None = None,
    *,
    quorum: bool = False,
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
        roles,
        witness,
        quorum,
    )


class KnownMember(Struct, frozen=True):
    """What the database knows of a member.

    `silent_seconds` is the time since its last sign of life. `stores` is how many
    stores it owns, and `runs_database` whether it has the duties of the whole database.
    A fenced member lost its stores to the others, and ends.
    """

    id: str
    host: str
    version: str
    public_url: str
    admin_url: str
    silent_seconds: float
    is_alive: bool
    is_fenced: bool
    roles: tuple[str, ...]
    stores: int
    runs_database: bool

    @property
    def is_owner(self) -> bool:
        """Whether it works for anything but the receiving of webhooks."""
        return self.stores > 0 or self.runs_database


class StoreOwner(Struct, frozen=True):
    """Who owns a store. `member` is None while nobody does.

    `is_alive` tells whether the member gives signs of life. `epoch` counts the owners
    that there have been; `since` is a time in UTC. `pinned` is the only host that may
    own the store, if there is one.
    """

    store: str
    member: str | None
    host: str | None
    admin_url: str | None
    public_url: str | None
    is_alive: bool
    epoch: int
    since: str | None
    pinned: str | None = None


class Shift(Struct, frozen=True):
    """What one balancing of the stores changed.

    `taken` are the stores that this member owns from now on, DATABASE among them.
    `surplus` are those that it should give up, because others have fewer. Another
    member is silent in `silent_seconds`, unless it gives a sign of life until then.
    """

    taken: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    silent_seconds: float = math.inf


class Ownership(Protocol):
    """Takes, keeps and gives up stores. One member at a time owns a store."""

    lease: Lease
    """The right to send, which ends before another member can take over."""
    is_shared: bool
    """Whether other daemons may use the same database."""

    async def join(
        self, stores: Collection[str], pins: Mapping[str, str] | None = None
    ) -> None:
        """Become a member that may own these stores. May raise Busy.

        `pins` has the only host that may own a store, for some of them.
        """
        ...

    async def balance(self) -> Shift:
        """Fence the silent members, and take what is missing to this member's share.

        May raise Busy. Call it again and again.
        """
        ...

    async def take_all(self) -> bool:
        """Take all stores; return False if another member is alive. May raise Busy.

        For a command that changes the database while no daemon runs.
        """
        ...

    def owns(self, store: str) -> bool:
        """Return whether this member owns a store, or DATABASE."""
        ...

    def owned(self) -> frozenset[str] | None:
        """Return the stores that this member owns; None for all, whatever they are."""
        ...

    def begin_folding(self, store: str) -> None:
        """Let the events of a store that was taken be folded from now on."""
        ...

    async def give_up(self, store: str) -> None:
        """Let another member take a store, for which nothing is under way any more.

        May raise Busy.
        """
        ...

    async def keep(self) -> NoReturn:
        """Give signs of life until cancelled.

        Raises Superseded if another member fenced this one.
        """
        ...

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        """Call `wake` when events wait that another member appended."""
        ...

    async def members(self) -> list[KnownMember]:
        """Return the members of the last day, those with the most stores first."""
        ...

    async def owners(self, stores: Collection[str] = ()) -> list[StoreOwner]:
        """Return who owns these stores, or else all of them, by name."""
        ...


class SoleOwner:
    """The owner of a file: the lock of the state directory lets in no other."""

    lease: Lease = Unlimited()
    is_shared = False

    def __init__(self) -> None:
        self._left: list[str] = []
        self._stores: frozenset[str] = frozenset()

    async def join(
        self, stores: Collection[str], pins: Mapping[str, str] | None = None
    ) -> None:
        self._left = [DATABASE, *stores]
        self._stores = frozenset(self._left)

    async def balance(self) -> Shift:
        taken, self._left = tuple(self._left), []
        return Shift(taken)

    async def take_all(self) -> bool:
        return True

    def owns(self, store: str) -> bool:
        return store in self._stores

    def owned(self) -> frozenset[str] | None:
        return None

    def begin_folding(self, store: str) -> None:
        """Do nothing: all events are folded here."""

    async def give_up(self, store: str) -> None:
        self._stores -= {store}

    async def keep(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        await self.keep()

    async def members(self) -> list[KnownMember]:
        return []

    async def owners(self, stores: Collection[str] = ()) -> list[StoreOwner]:
        return []


class Peer(Struct, frozen=True):
    """A live worker with the same stores in its settings, and how many it owns."""

    id: str
    stores: int


class Peers(Struct):
    """The live workers that share the stores, and how many stores nobody owns."""

    peers: list[Peer] = field(default_factory=list)
    free: int = 0

    def share(self, member: str) -> int:
        """Return how many stores a member should own.

        The shares differ by at most one; those that own the most keep the larger ones,
        so that no store moves without need.
        """
        total = self.free + sum(peer.stores for peer in self.peers)
        least, larger = divmod(total, max(len(self.peers), 1))
        order = sorted(self.peers, key=lambda peer: (-peer.stores, peer.id))
        first = [peer.id for peer in order[:larger]]
        return least + (member in first)
