"""What any member may change: users of the dashboard, their sessions and failures."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import psycopg

from backhaul.errors import Busy
from backhaul.store.logins import (
    MAX_IDLE_SECONDS,
    MAX_SESSION_SECONDS,
    MAX_SESSIONS,
    RESET_SECONDS,
    Failures,
    Notices,
    OpenSession,
)
from backhaul.store.postgres import timeouts
from backhaul.store.postgres.connection import (
    LOCK_MILLISECONDS,
    RECONNECT_SECONDS,
    CommitUnknown,
    Connection,
)
from backhaul.store.sql.family import Family, read, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.logins import Change
    from backhaul.store.postgres.engine import PostgresEngine
    from backhaul.store.sql.family import Connection as AnyConnection
    from backhaul.store.sql.family import Unit

T = TypeVar("T")
SCHEMA = (
    """
    CREATE TABLE dashboard_sessions (
        key text COLLATE "C" PRIMARY KEY, user_name text NOT NULL,
        created_at text NOT NULL, epoch bigint NOT NULL,
        notices text NOT NULL DEFAULT '[]',
        began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        last_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    """
    CREATE TABLE login_failures (
        key text COLLATE "C" PRIMARY KEY, number bigint NOT NULL,
        last_at timestamptz NOT NULL
    )
    """,
)


class OperatorEngine:
    """An engine for the tables that every member may write, owner or not.

    Each write has a connection of its own: on the receiver's, webhooks would wait for
    its locks. `locked` is a table that one unit at a time changes, as with one writer.
    """

    def __init__(self, engine: PostgresEngine, locked: str = "") -> None:
        self._url = engine.url
        self._lock = (
            f"LOCK TABLE {locked} IN SHARE ROW EXCLUSIVE MODE" if locked else ""
        )
        self.read = engine.read
        self.append = engine.append
        self.now = engine.now
        self.sizes = engine.sizes
        self.concerns_the_file = engine.concerns_the_file

    async def write(self, unit: Unit[T]) -> T:
        """Run a unit in a transaction of its own. May raise Busy."""
        return await asyncio.to_thread(self._write, unit)

    async def background(self, unit: Unit[T]) -> T:
        return await self.write(unit)

    def _write(self, unit: Unit[T]) -> T:
        try:
            opened = timeouts.persistently(self._open, RECONNECT_SECONDS)
            with closing(opened) as connection:
                connection.execute("BEGIN")
                if self._lock:
                    connection.execute(self._lock)
                result = unit(connection)
                connection.execute("COMMIT")
                return result
        except CommitUnknown as error:
            raise Busy(f"{error}; check whether the change was made") from error
        except psycopg.Error as error:
            raise Busy(f"the database cannot be written now: {error}") from error

    def _open(self) -> Connection:
        return Connection(self._url, lock_milliseconds=LOCK_MILLISECONDS)


_OVER = """
    (last_at < clock_timestamp() - make_interval(secs => :idle)
    OR began_at < clock_timestamp() - make_interval(secs => :longest))
"""
_LIMITS = {"idle": MAX_IDLE_SECONDS, "longest": MAX_SESSION_SECONDS}
_END_EXPIRED = f"DELETE FROM dashboard_sessions WHERE {_OVER}"  # noqa: S608 - a text
_END_OLDEST = """
    DELETE FROM dashboard_sessions WHERE key IN (
        SELECT key FROM dashboard_sessions ORDER BY last_at DESC OFFSET :most)
"""
_BEGIN = """
    INSERT INTO dashboard_sessions (key, user_name, created_at, epoch)
    VALUES (:key, :user, :created_at, :epoch)
"""
# A session is touched at most once a minute, so that a page is not a write each time.
_FIND = f"""
    SELECT user_name, created_at, epoch, notices,
        last_at < clock_timestamp() - interval '1 minute' AS is_old
    FROM dashboard_sessions WHERE key = :key AND NOT {_OVER}
"""  # noqa: S608 - a text
_TOUCH = "UPDATE dashboard_sessions SET last_at = clock_timestamp() WHERE key = :key"
_SET_NOTICES = "UPDATE dashboard_sessions SET notices = :notices WHERE key = :key"
_END = "DELETE FROM dashboard_sessions WHERE key = :key"
_FAILURES = """
    SELECT key, number, extract(epoch from clock_timestamp() - last_at)::float8 AS age
    FROM login_failures WHERE key = :key
"""
_SET_FAILURES = """
    INSERT INTO login_failures (key, number, last_at)
    VALUES (:key, :number, clock_timestamp() - make_interval(secs => :age))
    ON CONFLICT (key) DO UPDATE SET number = excluded.number, last_at = excluded.last_at
"""
_CLEAR_FAILURES = """
    DELETE FROM login_failures WHERE number = 0
        OR last_at < clock_timestamp() - make_interval(secs => :reset)
"""
_DECODE_NOTICES = msgspec.json.Decoder(Notices).decode


class _Sessions(Family):
    @write
    def begin(self, connection: AnyConnection, key: str, session: OpenSession) -> None:
        connection.execute(_END_EXPIRED, _LIMITS)
        connection.execute(_END_OLDEST, {"most": MAX_SESSIONS - 1})
        values = {"user": session.user, "created_at": session.created_at}
        connection.execute(_BEGIN, {"key": key, "epoch": session.epoch, **values})

    @read
    def find(
        self, connection: AnyConnection, key: str
    ) -> tuple[OpenSession, bool] | None:
        row = connection.execute(_FIND, {"key": key, **_LIMITS}).fetchone()
        if row is None:
            return None
        user, created_at, epoch, notices, is_old = row
        found = OpenSession(user, created_at, epoch, _DECODE_NOTICES(notices))
        return found, bool(is_old)

    @write
    def run(self, connection: AnyConnection, sql: str, values: dict[str, Any]) -> None:
        connection.execute(sql, values)


class _FailedAttempts(Family):
    @write
    def change(
        self, connection: AnyConnection, keys: Sequence[str], change: Change[T]
    ) -> T:
        found = {}
        for key in keys:
            if row := connection.execute(_FAILURES, {"key": key}).fetchone():
                found[row["key"]] = Failures(row["number"], row["age"])
        result, changed = change(found)
        for key, each in changed.items():
            values = {"key": key, "number": each.number, "age": each.age_seconds}
            connection.execute(_SET_FAILURES, values)
        connection.execute(_CLEAR_FAILURES, {"reset": RESET_SECONDS})
        return result


class PostgresLogins:
    """The logins of all members of a cluster, by the clock of the database."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._sessions = _Sessions(OperatorEngine(engine))
        self._failures = _FailedAttempts(OperatorEngine(engine, "login_failures"))

    async def begin(self, key: str, session: OpenSession) -> None:
        await self._sessions.begin(key, session)

    async def find(self, key: str, *, touch: bool) -> OpenSession | None:
        found = await self._sessions.find(key)
        if found is None:
            return None
        session, is_old = found
        if touch and is_old:
            with suppress(Busy):  # pages are shown while nothing can be written
                await self._sessions.run(_TOUCH, {"key": key})
        return session

    async def set_notices(self, key: str, notices: Notices) -> None:
        encoded = msgspec.json.encode(notices).decode()
        await self._sessions.run(_SET_NOTICES, {"key": key, "notices": encoded})

    async def end(self, key: str) -> None:
        await self._sessions.run(_END, {"key": key})

    async def change_failures(self, keys: Sequence[str], change: Change[T]) -> T:
        return await self._failures.change(keys, change)
