"""The members of a cluster on one PostgreSQL database, and which of them may write."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from loguru import logger

from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.store.ownership import KnownMember
from backhaul.store.postgres import fence
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.streams import is_waiting, retire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from backhaul.runtime.signals import Lease
    from backhaul.store.postgres.engine import PostgresEngine
    from backhaul.store.postgres.fence import Fence

BEATS_PER_TTL = 3
ARRIVAL_SECONDS = 0.25
"""How often the owner looks for events that other members appended."""
SCHEMA = (
    """
    CREATE TABLE members (
        id text COLLATE "C" PRIMARY KEY, host text NOT NULL, version text NOT NULL,
        public_url text NOT NULL, admin_url text NOT NULL,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        beat_at timestamptz NOT NULL, ttl interval NOT NULL
    ) WITH (fillfactor = 50)
    """,
    *fence.SCHEMA,
)
_BEAT = """
    INSERT INTO members (id, host, version, public_url, admin_url, beat_at, ttl)
    VALUES (:id, :host, :version, :public_url, :admin_url, clock_timestamp(),
        make_interval(secs => :ttl_seconds))
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


class PostgresOwnership:
    """Takes and keeps the right to write, over connections of its own."""

    def __init__(self, url: str, engine: PostgresEngine, fence: Fence) -> None:
        self._url = url
        self._engine = engine
        self._fence = fence
        self.lease: Lease = fence.lease
        self._beat_seconds = fence.member.ttl_seconds / BEATS_PER_TTL

    async def take(self, stores: Collection[str]) -> bool:
        return await asyncio.to_thread(self._use, self._fence.take, stores)

    async def keep(self) -> NoReturn:
        while True:
            try:
                await self._engine.receiver.urgent(self.beat)
                if self._fence.is_held:
                    await self._engine.writer.heartbeat()
            except Busy as error:
                logger.bind(action="owner.busy").warning("{}", error)
            await asyncio.sleep(self._beat_seconds)

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
        connection.execute(_BEAT, values)
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
