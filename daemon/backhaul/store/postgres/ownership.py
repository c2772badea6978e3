"""The members of a cluster on one PostgreSQL database, and which of them may write."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import psycopg
from loguru import logger
from msgspec import Struct

from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import Busy, CommitsLost, Superseded
from backhaul.store.ownership import KnownMember
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.streams import is_waiting, retire
from backhaul.store.sql.commands.reference_tags import mark_restored
from backhaul.store.sql.operations import move_marks
from backhaul.store.sql.schema import newest_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from backhaul.runtime.signals import Lease
    from backhaul.store.ownership import Member
    from backhaul.store.sql.round_writer import RoundWriter


T = TypeVar("T")
SEND_BY_SECONDS = 5.0
"""The longest time from the claim of a command to the first byte of its request."""
MARGIN_SECONDS = 0.5
"""How much earlier than the others an owner stops trusting its own right."""
OWNERS = (
    # Never UNLOGGED: after a crash nobody would own anything, and epochs would repeat.
    """
    CREATE TABLE owners (
        name text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0,
        rounds bigint NOT NULL DEFAULT 0, member text COLLATE "C",
        beat_at timestamptz NOT NULL DEFAULT '-infinity', ttl interval NOT NULL
        DEFAULT '0', since timestamptz
    ) WITH (fillfactor = 50)
    """,
    "INSERT INTO owners (name) VALUES ('all stores')",
)
# A row that is locked belongs to an owner that writes just now: it is alive.
_TAKE = """
    UPDATE owners SET member = :member, epoch = epoch + 1, rounds = rounds + 1,
        beat_at = clock_timestamp(), ttl = make_interval(secs => :ttl),
        since = clock_timestamp()
    WHERE name = (
        SELECT name FROM owners
        WHERE member IS NULL OR member = :member OR beat_at < clock_timestamp() - ttl
        FOR UPDATE SKIP LOCKED)
    RETURNING epoch, rounds
"""
_FENCE = """
    UPDATE owners SET rounds = rounds + 1, beat_at = clock_timestamp()
    WHERE member = :member AND epoch = :epoch RETURNING rounds
"""
_GIVE_UP = """
    UPDATE owners SET member = NULL WHERE member = :member AND epoch = :epoch
"""


def boot_seconds() -> float:
    """Return the seconds since the machine started; they count while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class OwnerLease:
    """The right to send, renewed by each commit of the owner."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._trusted_until = float("-inf")

    def renew(self, before: float) -> None:
        """Extend the right after a commit; `before` is when its transaction began."""
        self._trusted_until = before + self._ttl_seconds - MARGIN_SECONDS

    def end(self) -> None:
        self._trusted_until = float("-inf")

    def now(self) -> float:
        return boot_seconds()

    def allows(self, claimed_at: float) -> bool:
        now = boot_seconds()
        return now < self._trusted_until and now - claimed_at < SEND_BY_SECONDS


class _Right(Struct):
    epoch: int
    rounds: int
    """How many rounds were committed; more are never expected to be missing."""


class Fence:
    """Begins each transaction of the writer, and knows whether it may."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self._right: _Right | None = None
        self._began = 0.0
        self._rounds = 0
        self._stores: Collection[str] = ()
        self.lease = OwnerLease(member.ttl_seconds)

    @property
    def ttl_seconds(self) -> float:
        """How long the others wait for a sign of life."""
        return self.member.ttl_seconds

    @property
    def is_held(self) -> bool:
        return self._right is not None

    def take(self, connection: Connection, stores: Collection[str]) -> bool:
        """Take the right, in a transaction of its own.

        During a live move into the database nobody may take it.
        """
        if move_marks.find(connection, move_marks.MOVING_FROM):
            return False
        before = boot_seconds()
        values = {"member": self.member.id, "ttl": self.member.ttl_seconds}
        row = connection.execute(_TAKE, values).fetchone()
        if row is None:
            return False
        self._right = _Right(*row)
        self._stores = stores
        self.lease.renew(before)
        return True

    def begin(self, connection: Connection) -> None:
        """Begin a transaction of the owner.

        Raises Busy without the right, Superseded if another member has it, and
        CommitsLost if the database lacks transactions that it had confirmed.
        """
        if self._right is None:
            raise Busy("another daemon writes to this database")
        self._began = boot_seconds()
        values = {"member": self.member.id, "epoch": self._right.epoch}
        row = connection.begin(_FENCE, values).fetchone()
        if row is None:
            self.lease.end()
            raise self._replaced(connection)
        self._rounds = row[0]
        if self._rounds <= self._right.rounds:
            self._hold_all(connection)

    def committed(self) -> None:
        """Note that the transaction is durable."""
        if self._right is not None:
            self._right.rounds = self._rounds
            self.lease.renew(self._began)

    def give_up(self, connection: Connection) -> None:
        """End the right; the transactions of this member are refused from now on."""
        right, self._right = self._right, None
        self.lease.end()
        if right is not None:
            values = {"member": self.member.id, "epoch": right.epoch}
            connection.execute(_GIVE_UP, values)

    def _replaced(self, connection: Connection) -> Exception:
        row = connection.execute("SELECT epoch FROM owners").fetchone()
        if self._right is not None and (row is None or row[0] < self._right.epoch):
            return CommitsLost(_LOST)
        return Superseded(
            "another daemon took over this database, because this daemon gave no sign"
            f" of life for more than {self.member.ttl_seconds:g} s; this daemon ends,"
            " and may start again"
        )

    def _hold_all(self, connection: Connection) -> NoReturn:
        """Treat the database as restored: commands may be missing in it."""
        now = to_text(SystemClock().now())
        for store in self._stores:
            mark_restored(connection, store, now)
        connection.execute("COMMIT")
        self.lease.end()
        raise CommitsLost(_LOST)


_LOST = (
    "the database lacks transactions that it had confirmed: a replica without them"
    " became the primary server, or an older state was restored. The daemon ends. After"
    " the next start it sends nothing until it has read what the platform did. See"
    " docs/how-to/run-on-several-machines.md"
)


BEATS_PER_TTL = 3
ARRIVAL_SECONDS = 0.25
"""How often the owner looks for events that other members appended."""
SCHEMA = (
    """
    CREATE TABLE members (
        id text COLLATE "C" PRIMARY KEY, host text NOT NULL, version text NOT NULL,
        schema_known int NOT NULL, public_url text NOT NULL, admin_url text NOT NULL,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        beat_at timestamptz NOT NULL, ttl interval NOT NULL
    ) WITH (fillfactor = 50)
    """,
    *OWNERS,
)
_BEAT = """
    INSERT INTO members (id, host, version, schema_known, public_url, admin_url,
        beat_at, ttl)
    VALUES (:id, :host, :version, :schema_known, :public_url, :admin_url,
        clock_timestamp(), make_interval(secs => :ttl_seconds))
    ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at
"""
_FORGET = "DELETE FROM members WHERE beat_at < clock_timestamp() - interval '1 day'"
_LEAVE = "DELETE FROM members WHERE id = :id"
_MEMBERS = """
    SELECT m.id, m.host, m.version, m.public_url, m.admin_url,
        extract(epoch from clock_timestamp() - m.beat_at)::float8 AS silent_seconds,
        m.beat_at > clock_timestamp() - m.ttl AS is_alive,
        o.member IS NOT NULL AS is_owner, coalesce(o.epoch, 0) AS epoch, o.since
    FROM members m LEFT JOIN owners o ON o.member = m.id
    ORDER BY is_owner DESC, m.host, m.id
"""


class _Engine(Protocol):
    @property
    def writer(self) -> RoundWriter: ...

    @property
    def receiver(self) -> RoundWriter: ...

    async def read(self, unit: Callable[[Any], T]) -> T: ...


class PostgresOwnership:
    """Takes and keeps the right to write, over connections of its own."""

    def __init__(self, url: str, engine: _Engine, fence: Fence) -> None:
        self._url = url
        self._engine = engine
        self._fence = fence
        self.lease: Lease = fence.lease
        self._beat_seconds = fence.member.ttl_seconds / BEATS_PER_TTL

    async def take(self, stores: Collection[str]) -> bool:
        return await asyncio.to_thread(self._use, self._fence.take, stores)

    async def keep(self) -> NoReturn:
        # Each for itself: the receiver may hold its work while the server is away.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self._beat_as_owner))
            await self._repeat(self._beat_as_member)
        raise AssertionError("beats never end")

    async def _repeat(self, beat: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            try:
                await beat()
            except Busy as error:
                logger.bind(action="owner.busy").warning("{}", error)
            await asyncio.sleep(self._beat_seconds)

    async def _beat_as_owner(self) -> None:
        if self._fence.is_held:
            await self._engine.writer.heartbeat()

    async def _beat_as_member(self) -> None:
        await self._engine.receiver.urgent(self.beat)

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        while True:
            with suppress(Busy):
                if await self._engine.read(is_waiting):
                    wake()
            await asyncio.sleep(ARRIVAL_SECONDS)

    async def give_up(self) -> None:
        """Let another member take over at once. Never raises."""
        try:
            await asyncio.to_thread(self._use, self._leave)
        except Busy as error:
            # The others take over once this member has been silent for long enough.
            logger.bind(action="owner.busy").warning("{}", error)

    async def members(self) -> list[KnownMember]:
        return await self._engine.read(known_members)

    def _use(self, work: Any, *arguments: object) -> Any:
        try:
            with closing(Connection(self._url)) as connection:
                return work(connection, *arguments)
        except psycopg.Error as error:
            raise Busy(f"the database cannot be written now: {error}") from error

    def beat(self, connection: Any) -> None:
        member = self._fence.member
        values = {name: getattr(member, name) for name in member.__struct_fields__}
        connection.execute(_BEAT, values | {"schema_known": newest_step()})
        connection.execute(_FORGET)
        retire(connection)

    def _leave(self, connection: Any) -> None:
        self._fence.give_up(connection)
        connection.execute(_LEAVE, {"id": self._fence.member.id})


def known_members(connection: Any) -> list[KnownMember]:
    """Return all members with what the database knows of them."""
    rows = connection.execute(_MEMBERS).fetchall()
    return [
        KnownMember(
            row["id"],
            row["host"],
            row["version"],
            row["public_url"],
            row["admin_url"],
            row["silent_seconds"],
            bool(row["is_alive"]),
            bool(row["is_owner"]),
            row["epoch"],
            row["since"] and to_text(row["since"]),
        )
        for row in rows
    ]
