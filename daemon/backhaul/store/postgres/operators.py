"""What any member may write: users, and requests to owners; what these publish.

Only the claims and answers of owners, and what they publish, have the fence.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import psycopg

from backhaul.errors import Busy
from backhaul.store.operators import (
    Claimed,
    Progress,
    PublishedState,
    Request,
    RequestState,
)
from backhaul.store.postgres.connection import (
    LOCK_MILLISECONDS,
    RECONNECT_SECONDS,
    CommitUnknown,
    Connection,
    persistently,
)
from backhaul.store.sql.family import Family, read, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.ownership import Member
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
    """
    CREATE TABLE requests (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        store text COLLATE "C" NOT NULL, verb text NOT NULL, arguments text NOT NULL,
        who text NOT NULL, host text NOT NULL, state text NOT NULL DEFAULT 'waiting',
        asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires_at timestamptz NOT NULL, begun_by text COLLATE "C",
        answer text, done_at timestamptz
    )
    """,
    """
    CREATE INDEX requests_open ON requests (id) WHERE state IN ('waiting', 'begun')
    """,
    """
    CREATE TABLE request_lines (
        request bigint NOT NULL REFERENCES requests ON DELETE CASCADE,
        n bigint NOT NULL, line text NOT NULL, PRIMARY KEY (request, n)
    )
    """,
    """
    CREATE TABLE published_states (
        store text COLLATE "C" PRIMARY KEY, member text COLLATE "C" NOT NULL,
        content text NOT NULL, at timestamptz NOT NULL
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
        self.owned = engine.owned
        self.sizes = engine.sizes
        self.concerns_the_file = engine.concerns_the_file

    async def write(self, unit: Unit[T]) -> T:
        """Run a unit in a transaction of its own. May raise Busy."""
        return await asyncio.to_thread(self._write, unit)

    async def background(self, unit: Unit[T]) -> T:
        return await self.write(unit)

    def _write(self, unit: Unit[T]) -> T:
        try:
            opened = persistently(self._open, RECONNECT_SECONDS)
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


_ASK = """
    INSERT INTO requests (store, verb, arguments, who, host, expires_at)
    VALUES (:store, :verb, :arguments, :who, :host,
        clock_timestamp() + make_interval(secs => :seconds))
    RETURNING id
"""
_IS_ALIVE = "coalesce(m.beat_at > clock_timestamp() - m.ttl, false)"
_FOLLOW = f"""
    SELECT r.state, coalesce(m.host, r.begun_by) AS host, {_IS_ALIVE} AS is_alive,
        r.answer
    FROM requests r LEFT JOIN members m ON m.id = r.begun_by WHERE r.id = :id
"""  # noqa: S608 - a text
_LINES = "SELECT line FROM request_lines WHERE request = :id AND n >= :after ORDER BY n"
_DELETE = "DELETE FROM requests WHERE id = :id"
_CANCEL = "DELETE FROM requests WHERE id = :id AND state = 'waiting'"
_IS_OURS = "store IN (SELECT store FROM owners WHERE member = :member)"
# A begun request of another member has lost its owner, because this member is it.
_IS_OPEN = f"""
    SELECT 1 FROM requests
    WHERE ((state = 'waiting' AND expires_at > clock_timestamp())
        OR (state = 'begun' AND begun_by != :member)) AND {_IS_OURS}
    LIMIT 1
"""  # noqa: S608 - a text
_ORPHANED = f"""
    UPDATE requests SET state = 'unknown', done_at = clock_timestamp(), answer = '{{}}'
    WHERE state = 'begun' AND begun_by != :member AND {_IS_OURS}
"""  # noqa: S608 - a text
_CLAIM = f"""
    UPDATE requests SET state = 'begun', begun_by = :member
    WHERE state = 'waiting' AND expires_at > clock_timestamp() AND {_IS_OURS}
    RETURNING id, store, verb, arguments, who, host
"""  # noqa: S608 - a text
_ADD_LINE = "INSERT INTO request_lines (request, n, line) VALUES (:id, :n, :line)"
_ANSWER = """
    UPDATE requests SET state = :state, answer = :answer, done_at = clock_timestamp()
    WHERE id = :id AND state = 'begun' AND begun_by = :member
"""
# The arguments may name a customer, so nothing stays for long.
_CLEAN = """
    DELETE FROM requests WHERE done_at < clock_timestamp() - interval '10 minutes'
        OR (state = 'waiting' AND expires_at < clock_timestamp() - interval '1 minute')
"""
_PUBLISH = """
    INSERT INTO published_states (store, member, content, at)
    SELECT store, member, :content, clock_timestamp() FROM owners
    WHERE store = :store AND member = :member
    ON CONFLICT (store) DO UPDATE SET member = excluded.member,
        content = excluded.content, at = excluded.at
"""
_PUBLISHED = f"""
    SELECT p.store, p.content, coalesce(m.host, p.member) AS host,
        extract(epoch from clock_timestamp() - p.at)::float8 AS age_seconds,
        {_IS_ALIVE} AS is_alive
    FROM published_states p LEFT JOIN members m ON m.id = p.member
    ORDER BY p.store
"""  # noqa: S608 - a text


class _OfOwner(Family):
    """What the owner writes, in its fenced transactions."""

    def __init__(self, engine: PostgresEngine, member: str) -> None:
        super().__init__(engine)
        self._member = member

    @read
    def is_waiting(self, connection: AnyConnection) -> bool:
        found = connection.execute(_IS_OPEN, {"member": self._member})
        return found.fetchone() is not None

    @write
    def claim(self, connection: AnyConnection) -> list[Claimed]:
        values = {"member": self._member}
        connection.execute(_ORPHANED, values)
        rows = connection.execute(_CLAIM, values).fetchall()
        found = [
            Claimed(
                row["id"],
                Request(
                    row["store"],
                    row["verb"],
                    msgspec.json.decode(row["arguments"]),
                    row["who"],
                    row["host"],
                ),
            )
            for row in rows
        ]
        return sorted(found, key=lambda each: each.id)

    @write
    def add_lines(
        self,
        connection: AnyConnection,
        number: int,
        first: int,
        lines: Sequence[Mapping[str, Any]],
    ) -> None:
        values = [
            {"id": number, "n": n, "line": _text(line)}
            for n, line in enumerate(lines, first)
        ]
        connection.executemany(_ADD_LINE, values)

    @write
    def answer(
        self,
        connection: AnyConnection,
        number: int,
        state: RequestState,
        answer: Mapping[str, Any],
    ) -> None:
        values = {"id": number, "state": state.value, "answer": _text(answer)}
        connection.execute(_ANSWER, {"member": self._member, **values})

    @write
    def publish(self, connection: AnyConnection, states: Mapping[str, bytes]) -> None:
        values = [
            {"store": store, "member": self._member, "content": content.decode()}
            for store, content in states.items()
        ]
        connection.executemany(_PUBLISH, values)
        connection.execute(_CLEAN)


class _OfAsker(Family):
    """What any member reads and writes."""

    @write
    def ask(self, connection: AnyConnection, request: Request, seconds: float) -> int:
        values = {
            "store": request.store,
            "verb": request.verb,
            "arguments": _text(request.arguments),
            "who": request.who,
            "host": request.host,
            "seconds": seconds,
        }
        return int(connection.execute(_ASK, values).fetchone()[0])

    @read
    def follow(
        self, connection: AnyConnection, number: int, after: int
    ) -> Progress | None:
        row = connection.execute(_FOLLOW, {"id": number}).fetchone()
        if row is None:
            return None
        lines = connection.execute(_LINES, {"id": number, "after": after})
        return Progress(
            RequestState(row["state"]),
            row["host"],
            bool(row["is_alive"]),
            msgspec.json.decode(row["answer"] or "{}"),
            [msgspec.json.decode(line) for (line,) in lines],
        )

    @write
    def delete(self, connection: AnyConnection, sql: str, number: int) -> int:
        return connection.execute(sql, {"id": number}).rowcount

    @read
    def published(self, connection: AnyConnection) -> list[PublishedState]:
        return [
            PublishedState(
                row["store"],
                row["content"].encode(),
                row["host"],
                row["age_seconds"],
                bool(row["is_alive"]),
            )
            for row in connection.execute(_PUBLISHED)
        ]


class PostgresRequests(_OfOwner):
    """The requests and published states of one member.

    What a member asks has no fence, and a connection of its own.
    """

    def __init__(self, engine: PostgresEngine, member: Member) -> None:
        super().__init__(engine, member.id)
        self._asker = _OfAsker(OperatorEngine(engine))

    async def ask(self, request: Request, seconds: float) -> int:
        return await self._asker.ask(request, seconds)

    async def follow(self, number: int, after: int) -> Progress:
        found = await self._asker.follow(number, after)
        if found is None:  # it was deleted, so nobody knows its end
            return Progress(RequestState.UNKNOWN, None, False, {}, ())
        return found

    async def delete(self, number: int) -> None:
        await self._asker.delete(_DELETE, number)

    async def cancel(self, number: int) -> bool:
        return await self._asker.delete(_CANCEL, number) > 0

    async def published(self) -> list[PublishedState]:
        return await self._asker.published()


def _text(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
