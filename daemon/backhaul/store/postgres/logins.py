"""The logins of all members of a cluster: sessions, begun logins, failed attempts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from backhaul.errors import Busy
from backhaul.store.operators import (
    BEGUN_SECONDS,
    MAX_BEGUN,
    MAX_BEGUN_OF_CLIENT,
    MAX_IDLE_SECONDS,
    MAX_SESSION_SECONDS,
    MAX_SESSIONS,
    RESET_SECONDS,
    Failures,
    Notices,
    OpenSession,
)
from backhaul.store.postgres.operators import OperatorEngine
from backhaul.store.sql.family import Family, read, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.operators import Change
    from backhaul.store.postgres.engine import PostgresEngine
    from backhaul.store.sql.family import Connection as AnyConnection

T = TypeVar("T")
BEGUN_LOGINS = (
    """
    CREATE TABLE begun_logins (
        key text COLLATE "C" PRIMARY KEY, client text COLLATE "C" NOT NULL,
        content text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
)


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


_IS_CURRENT = "at > clock_timestamp() - make_interval(secs => :seconds)"
_END_BEGUN = f"DELETE FROM begun_logins WHERE NOT {_IS_CURRENT}"  # noqa: S608 - a text
_DROP_OLDEST = """
    DELETE FROM begun_logins WHERE key IN (
        SELECT key FROM begun_logins WHERE client = :client
        ORDER BY at DESC OFFSET :of_client)
    OR key IN (SELECT key FROM begun_logins ORDER BY at DESC OFFSET :most)
"""
_ADD_BEGUN = """
    INSERT INTO begun_logins (key, client, content) VALUES (:key, :client, :content)
    ON CONFLICT (key) DO UPDATE SET content = excluded.content, at = excluded.at
"""
_FIND_BEGUN = f"SELECT content FROM begun_logins WHERE key = :key AND {_IS_CURRENT}"  # noqa: S608 - a text
_TAKE_BEGUN = f"""
    DELETE FROM begun_logins WHERE key = :key AND {_IS_CURRENT} RETURNING content
"""  # noqa: S608 - a text


class _BegunLogins(Family):
    @write
    def keep(
        self, connection: AnyConnection, key: str, client: str, content: str
    ) -> None:
        connection.execute(_END_BEGUN, {"seconds": BEGUN_SECONDS})
        values = {"key": key, "client": client, "content": content}
        connection.execute(_ADD_BEGUN, values)
        limits = {"of_client": MAX_BEGUN_OF_CLIENT, "most": MAX_BEGUN}
        connection.execute(_DROP_OLDEST, {"client": client, **limits})

    @read
    def find(self, connection: AnyConnection, key: str) -> str | None:
        values = {"key": key, "seconds": BEGUN_SECONDS}
        row = connection.execute(_FIND_BEGUN, values).fetchone()
        return str(row[0]) if row else None

    @write
    def take(self, connection: AnyConnection, key: str) -> str | None:
        values = {"key": key, "seconds": BEGUN_SECONDS}
        row = connection.execute(_TAKE_BEGUN, values).fetchone()
        return str(row[0]) if row else None


class PostgresLogins:
    """The logins of all members of a cluster, by the clock of the database."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._sessions = _Sessions(OperatorEngine(engine))
        self._failures = _FailedAttempts(OperatorEngine(engine, "login_failures"))
        self._begun = _BegunLogins(OperatorEngine(engine))
        self.keep_begun = self._begun.keep
        self.find_begun = self._begun.find
        self.take_begun = self._begun.take

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
