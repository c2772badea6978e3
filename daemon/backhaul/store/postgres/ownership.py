"""The members of a cluster on one PostgreSQL database, which share its stores."""

from __future__ import annotations

import asyncio
import json
import math
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import psycopg
from loguru import logger

from backhaul.errors import Busy, CommitsLost
from backhaul.store.ownership import (
    DATABASE,
    KnownMember,
    Peer,
    Peers,
    Shift,
)
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.fence import (
    FORGET_SECONDS,
    FREE_ALL,
    NAMES,
    SET_FENCED,
    end_stuck,
    known_owners,
)
from backhaul.store.postgres.streams import retire
from backhaul.store.sql.family import Idempotent
from backhaul.store.sql.operations import move_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from backhaul.runtime.signals import Lease
    from backhaul.store.ownership import StoreOwner
    from backhaul.store.postgres.fence import Fence
    from backhaul.store.sql.round_writer import RoundWriter


T = TypeVar("T")
# A row that is locked belongs to a member that writes just now: it is alive.
_LOCK_SILENT = """
    SELECT id FROM members
    WHERE id != :member AND fenced_at IS NULL
      AND beat_at < clock_timestamp() - ttl
    FOR UPDATE SKIP LOCKED
"""
_TAKE = f"""
    UPDATE owners SET member = :member, epoch = epoch + 1, since = clock_timestamp()
    WHERE store IN (
        SELECT store FROM owners
        WHERE member IS NULL AND store IN ({NAMES}) AND {{which}}
        ORDER BY store LIMIT :room FOR UPDATE SKIP LOCKED)
"""  # noqa: S608 - constants
_TAKE_PINNED = _TAKE.format(which="pinned = :host")
_TAKE_OTHERS = _TAKE.format(which="pinned IS NULL")
_OWNED = "SELECT store FROM owners WHERE member = :member"
_OTHERS = "SELECT 1 FROM members WHERE id != :member AND fenced_at IS NULL"
_TAKE_ALL = """
    UPDATE owners SET member = :member, epoch = epoch + 1, since = clock_timestamp()
    WHERE member IS NULL RETURNING store
"""
_COUNT_OWNED = f"""
    UPDATE members SET stores = (
        SELECT count(*) FROM owners
        WHERE member = :member AND pinned IS NULL AND store != '{DATABASE}')
    WHERE id = :member
"""  # noqa: S608 - a constant
_SURPLUS = f"""
    SELECT store FROM owners
    WHERE member = :member AND pinned IS NULL AND store != '{DATABASE}'
    ORDER BY since DESC, store DESC LIMIT :surplus
"""  # noqa: S608 - a constant
_GIVE_UP = """
    UPDATE owners SET member = NULL WHERE member = :member AND store = :store
"""
_FORGET = """
    DELETE FROM members WHERE fenced_at < clock_timestamp() - :seconds * interval '1 s'
"""
_PEERS = """
    SELECT id, stores, roles, shares,
        extract(epoch FROM beat_at + ttl - clock_timestamp())::float8 AS seconds_left
    FROM members WHERE fenced_at IS NULL
"""
# Also the stores that are pinned to this host, and the duties of the whole database,
# which nobody has a share of.
_FREE = f"""
    SELECT store, pinned IS NULL AND store != '{DATABASE}' AS is_shared
    FROM owners WHERE member IS NULL AND (pinned IS NULL OR pinned = :host)
"""  # noqa: S608 - a constant
_MEMBERS = f"""
    SELECT m.id, m.host, m.version, m.public_url, m.admin_url,
        extract(epoch from clock_timestamp() - m.beat_at)::float8 AS silent_seconds,
        m.fenced_at IS NULL AND m.beat_at > clock_timestamp() - m.ttl AS is_alive,
        m.fenced_at IS NOT NULL AS is_fenced, m.roles, coalesce(o.stores, 0) AS stores,
        coalesce(o.runs_database, false) AS runs_database
    FROM members m LEFT JOIN (
        SELECT member, count(*) FILTER (WHERE store != '{DATABASE}') AS stores,
            bool_or(store = '{DATABASE}') AS runs_database
        FROM owners GROUP BY member) o ON o.member = m.id
    ORDER BY stores DESC, runs_database DESC, m.host, m.id
"""  # noqa: S608 - a constant
BEATS_PER_TTL = 3
ARRIVAL_SECONDS = 0.25
"""How often a member looks for events that other members appended."""
RETRY_SECONDS = 10.0
"""How often a member tries to take stores that nobody could take before."""
TIDY_SECONDS = 60.0
"""How often old members and streams are deleted."""


class _Engine(Protocol):
    @property
    def writer(self) -> RoundWriter: ...

    async def read(self, unit: Callable[[Any], T]) -> T: ...


class _Streams(Protocol):
    def has_news(self, connection: Any) -> bool: ...

    def invalidate(self) -> None: ...


class PostgresOwnership:
    """Takes, keeps and gives up stores, in transactions of the member's writer."""

    is_shared = True

    def __init__(
        self, url: str, engine: _Engine, fence: Fence, streams: _Streams
    ) -> None:
        self._url = url
        self._engine = engine
        self._fence = fence
        self._streams = streams
        self.lease: Lease = fence.lease
        self._beat_seconds = fence.member.ttl_seconds / BEATS_PER_TTL
        self._known: frozenset[str] = frozenset()
        """The stores of the settings, and the duties of the whole database."""
        self._shares = ""
        self._left: set[str] = set()
        """The stores that had no owner when the last take left them to others."""
        self._took_at = float("-inf")
        self._is_unsure = False
        """Whether nobody knows if the last take was committed."""

    async def join(
        self, stores: Collection[str], pins: Mapping[str, str] | None = None
    ) -> None:
        self._known = frozenset((DATABASE, *stores))
        await asyncio.to_thread(self._use, self._fence.join, stores, pins or {})

    def owns(self, store: str) -> bool:
        return store in self._fence.owned

    def owned(self) -> frozenset[str] | None:
        return self._fence.owned

    def begin_folding(self, store: str) -> None:
        self._fence.begin_folding(store)

    async def balance(self) -> Shift:
        peers, silent_seconds, free = await self._engine.read(self._peers)
        wait = max(silent_seconds, self._fence.until_may_fence)
        mine = next((p.stores for p in peers.peers if p.id == self._id), None)
        if mine is None:
            return Shift()  # not a worker, or the beat of the join is not visible yet
        room = peers.share(self._id) - mine
        is_free = len(free) > peers.free or (peers.free and room > 0)
        # What it left to another member may have had an owner since.
        self._left &= free
        is_new = free > self._left
        is_old = time.monotonic() - self._took_at > RETRY_SECONDS
        if self._is_unsure or wait <= 0 or (is_free and (is_new or is_old)):
            self._is_unsure = True
            shift = await self._engine.writer.urgent(Idempotent(self._take))
            self._is_unsure = False
            return shift
        if room < 0:
            return Shift((), await self._engine.read(self._surplus(-room)), wait)
        return Shift(silent_seconds=wait)

    @property
    def _id(self) -> str:
        return self._fence.member.id

    def _peers(self, connection: Any) -> tuple[Peers, float, set[str]]:
        """Return the live workers, when a member is silent, and what nobody owns.

        That is in how many seconds another member is silent, at most 0 if it is.
        """
        rows = connection.execute(_PEERS, {"member": self._id}).fetchall()
        self._shares = next((r["shares"] for r in rows if r["id"] == self._id), "")
        host = {"host": self._fence.member.host}
        free = [
            row
            for row in connection.execute(_FREE, host).fetchall()
            if row["store"] in self._known  # else the settings have it no longer
        ]
        shared = sum(row["is_shared"] for row in free)
        peers = [
            Peer(row["id"], row["stores"])
            for row in rows
            if "worker" in row["roles"].split(",")
            and row["shares"] == self._shares
            and (row["seconds_left"] > 0 or row["id"] == self._id)
        ]
        left = [row["seconds_left"] for row in rows if row["id"] != self._id]
        names = {row["store"] for row in free}
        return Peers(peers, shared), min(left, default=math.inf), names

    def _take(self, connection: Any) -> Shift:
        """Fence the silent members; take this member's share of what nobody owns.

        During a live move into the database nobody takes anything.
        """
        if move_marks.find(connection, move_marks.MOVING_FROM):
            return Shift()
        fence, me = self._fence, {"member": self._id}
        if fence.until_may_fence <= 0:
            end_stuck(connection, self._id)
            for (silent,) in connection.execute(_LOCK_SILENT, me).fetchall():
                connection.execute(FREE_ALL, {"member": silent})
                connection.execute(SET_FENCED, {"member": silent})
                logger.bind(action="member.silent", member=silent).warning(
                    "member {} is silent; the other members take its stores", silent
                )
        names = json.dumps(sorted(self._known))
        values = {**me, "stores": names, "host": fence.member.host}
        connection.execute(_TAKE_PINNED, values | {"room": 10**9})
        taken = True
        while taken:
            # Who owns as much as others now may have the larger share of the rest.
            peers, _, free = self._peers(connection)
            mine = next(p.stores for p in peers.peers if p.id == self._id)
            room = peers.share(self._id) - mine
            taken = self._take_others(connection, values, room)
            connection.execute(_COUNT_OWNED, me)
        # Those of an earlier take, whose commit was unknown, are among them.
        owned = {row[0] for row in connection.execute(_OWNED, me).fetchall()}
        # Not what is free by now: others may give up more while this take goes on.
        self._left = free - owned
        self._took_at = time.monotonic()
        fence.own(owned)
        return Shift(tuple(sorted(owned - fence.owned)))

    async def take_all(self) -> bool:
        return await self._engine.writer.urgent(self._take_all)

    def _take_all(self, connection: Any) -> bool:
        if move_marks.find(connection, move_marks.MOVING_FROM):
            return False
        me = {"member": self._id}
        end_stuck(connection, self._id)
        for (silent,) in connection.execute(_LOCK_SILENT, me).fetchall():
            connection.execute(FREE_ALL, {"member": silent})
            connection.execute(SET_FENCED, {"member": silent})
        if connection.execute(_OTHERS, me).fetchone() is not None:
            return False
        taken = connection.execute(_TAKE_ALL, me).fetchall()
        self._fence.own(row[0] for row in taken)
        return True

    def _take_others(self, connection: Any, values: Any, room: int) -> bool:
        """Take the duties of the whole database, and at most `room` stores.

        Returns whether any store was taken.
        """
        duties = {**values, "stores": json.dumps([DATABASE]), "room": 1}
        connection.execute(_TAKE_OTHERS, duties)
        if room <= 0:
            return False
        names = json.dumps(sorted(self._known - {DATABASE}))
        values = {**values, "stores": names, "room": room}
        return bool(connection.execute(_TAKE_OTHERS, values).rowcount)

    def _surplus(self, count: int) -> Callable[[Any], tuple[str, ...]]:
        values = {"member": self._id, "surplus": count}
        return lambda connection: tuple(
            row[0] for row in connection.execute(_SURPLUS, values).fetchall()
        )

    async def give_up(self, store: str) -> None:
        writer = self._engine.writer
        self._fence.end_folding(store)
        # First what was handed to the writer before: it ends this member's work.
        await writer.background(lambda _: None)
        give_up = Idempotent(lambda connection: self._give_up(connection, store))
        await writer.urgent(give_up)
        # The next owner folds what is noted here as waiting.
        self._streams.invalidate()

    def _give_up(self, connection: Any, store: str) -> None:
        connection.execute(_GIVE_UP, {"member": self._id, "store": store})
        connection.execute(_COUNT_OWNED, {"member": self._id})
        self._fence.disown(store)

    async def keep(self) -> NoReturn:
        tidied = time.monotonic()
        while True:
            try:
                await self._engine.writer.heartbeat()
                if time.monotonic() - tidied > TIDY_SECONDS and self.owns(DATABASE):
                    tidied = time.monotonic()
                    await self._engine.writer.background(_tidy)
            except Busy as error:
                logger.bind(action="owner.busy").warning("{}", error)
            await asyncio.sleep(self._beat_seconds)

    async def watch_arrivals(self, wake: Callable[[], None]) -> NoReturn:
        while True:
            with suppress(Busy):
                if await self._engine.read(self._streams.has_news):
                    wake()
            await asyncio.sleep(ARRIVAL_SECONDS)

    async def leave(self) -> None:
        """Let other members take all stores at once. Never raises."""
        try:
            await asyncio.to_thread(self._use, self._fence.leave)
        except CommitsLost as error:
            logger.bind(action="database.commits_lost").error("{}", error)
        except Busy as error:
            # The others take over once this member has been silent for long enough.
            logger.bind(action="owner.busy").warning("{}", error)

    async def members(self) -> list[KnownMember]:
        return await self._engine.read(known_members)

    async def owners(self, stores: Collection[str] = ()) -> list[StoreOwner]:
        return await self._engine.read(lambda c: known_owners(c, stores))

    def _use(self, work: Any, *arguments: object) -> Any:
        try:
            with closing(Connection(self._url)) as connection:
                return work(connection, *arguments)
        except psycopg.Error as error:
            raise Busy(f"the database cannot be written now: {error}") from error


def _tidy(connection: Any) -> None:
    """Delete what is of no use any more: fenced members, and streams that ended."""
    connection.execute(_FORGET, {"seconds": FORGET_SECONDS})
    retire(connection)


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
            bool(row["is_fenced"]),
            tuple(row["roles"].split(",")),
            row["stores"],
            bool(row["runs_database"]),
        )
        for row in rows
    ]
