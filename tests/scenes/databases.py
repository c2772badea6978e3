"""Real stores for tests, on either engine, and the contents of their databases.

A place is the path of an SQLite file or the URL of a PostgreSQL database.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from backhaul.core import strict_json
from backhaul.core.clock import SystemClock
from backhaul.ingest.topics import decode_event
from backhaul.store import database_at, open_store
from backhaul.store.postgres import connection as postgres
from backhaul.store.sql.mirror.compare_mirrors import MIRROR, table_rows
from backhaul.store.sqlite.connections import Connection
from scenes import postgres_databases
from scenes.payloads import STORE_ID, arrival
from scenes.stored import values_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager

    from backhaul.core.clock import Clock
    from backhaul.store import Place, Store
    from backhaul.store.inbox import Arrival, Decoded, Folded, StoredEvent
    from backhaul.store.sqlite.database import SqliteStore

Row = tuple[Any, ...]
NewDatabase: TypeAlias = "Callable[[], Place]"
"""Returns the place of a new empty database; the fixture `new_database` is one."""
_TABLES = """
    SELECT quote_ident(table_name) FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
"""
_VALUES = """
    SELECT quote_ident(table_name), quote_ident(column_name)
    FROM information_schema.columns JOIN information_schema.tables
      USING (table_schema, table_name)
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
      AND data_type IN ('text', 'bytea')
"""


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a database for reading, as another program would."""
    return Connection(f"{path.absolute().as_uri()}?mode=ro", uri=True)


@contextmanager
def reader(place: Place) -> Iterator[Any]:
    """Open a database of either engine to read it, as another program would."""
    if isinstance(place, str):
        with closing(postgres.Connection(place, read_only=True)) as connection:
            yield connection
    else:
        with closing(open_for_reading(place)) as file:
            yield file


@contextmanager
def writer(place: Place) -> Iterator[Any]:
    """Open a database of either engine to write one transaction directly."""
    if isinstance(place, str):
        with closing(postgres.Connection(place)) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
    else:
        with closing(Connection(place)) as file, file:
            yield file


def rows(place: Place, query: str, *values: object) -> list[Row]:
    """Return the rows of a query on a new connection, as another program would."""
    with reader(place) as connection:
        return list(connection.execute(query, values).fetchall())


def rows_with_names(place: Place, query: str) -> list[dict[str, Any]]:
    """Read rows by the names of their columns."""
    with reader(place) as connection:
        cursor = connection.execute(query)
        names = [entry[0] for entry in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def count(place: Place, table: str) -> int:
    return int(rows(place, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 - ours


def mirror_of(place: Place) -> dict[str, list[Row]]:
    """Return the rows of all mirror tables in a fixed order."""
    return {
        table: sorted(rows(place, f"SELECT {columns} FROM {table}"), key=repr)  # noqa: S608 - constants
        for table, columns in MIRROR.items()
    }


def dump(
    place: Place, tables: Iterable[str] = MIRROR, without: Collection[str] = ()
) -> Iterator[bytes]:
    """Yield the mirror, one JSON array for each row; equal mirrors give equal bytes."""
    with reader(place) as connection:
        for table in tables:
            yield from sorted(
                strict_json.encode([table, *(row[n] for n in row if n not in without)])
                for row in table_rows(connection, table)
            )


def contents(place: Place) -> bytes:
    """Return the bytes of a database's files, or of all texts on a server."""
    if not isinstance(place, str):
        files = place.parent.glob(f"{place.name}*")
        return b"".join(path.read_bytes() for path in files)
    with reader(place) as connection:
        found = [
            connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608 - from the catalog
            for table, column in connection.execute(_VALUES).fetchall()
        ]
        values = [value for rows in found for (value,) in rows if value is not None]
    return b"\n".join(v if isinstance(v, bytes) else v.encode() for v in values)


def write(place: Place, statement: str, *values: object) -> None:
    """Execute a statement, as another program would."""
    with writer(place) as connection:
        connection.execute(statement, values)


def put_target(place: Place, id_: str, **columns: object) -> None:
    """Insert a waiting stock target of variant `var_1` of `prod_1`."""
    payload = '{"variant_id": "var_1", "quantity": 7, "as_of": ""}'
    values: dict[str, object] = {
        "id": id_,
        "store": "main",
        "product_id": "prod_1",
        "variant_id": "var_1",
        "quantity": 7,
        "as_of": "",
        "state": "waiting",
        "payload": payload,
        "cause": "",
        "instance": "books",
        "created_at": "",
        "due_at": "",
        **columns,
    }
    names, places = ", ".join(values), ", ".join("?" * len(values))
    statement = f"INSERT INTO stock_targets ({names}) VALUES ({places})"  # noqa: S608 - ours
    write(place, statement, *values.values())


def put_record(place: Place, key: str, payload: str) -> None:
    """Insert an accepted record without a command."""
    statement = """
        INSERT INTO records (store, instance, key, payload, raw, locator, state,
            received_at, retry_at)
        VALUES ('main', 'courier', ?, ?, '', '', 'accepted', '', '')
    """
    write(place, statement, key, payload)


@contextmanager
def locked(place: Place, mode: str = "EXCLUSIVE") -> Iterator[Any]:
    """Let others read and not write, as a backup or another user may do.

    PostgreSQL still commits units that write no row, unless `mode` locks reads too.
    """
    if isinstance(place, str):
        with closing(postgres.Connection(place)) as connection:
            tables = [name for (name,) in connection.execute(_TABLES)]
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.execute("BEGIN")
            connection.execute(f"LOCK TABLE {', '.join(tables)} IN {mode} MODE")
            yield connection
            connection.execute("ROLLBACK")
        return
    with closing(Connection(place, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Keep a read transaction open, so that SQLite cannot empty the log."""
    with closing(Connection(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield
        connection.execute("ROLLBACK")


@cache
def _new_database() -> bytes:
    """Return the bytes of an empty database with the current schema, made once."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "new.db")
        open_store(path, SystemClock())
        return path.read_bytes()


def make_database(place: Place) -> None:
    """Create a database from a copy: the schema alone takes a tenth of a second.

    Every PostgreSQL database of a test is made with its schema.
    """
    if isinstance(place, str) or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(_new_database())


def back_up(source: Place, target: Place) -> None:
    """Back a database up while its store works, as an operator does."""
    if isinstance(source, str):
        assert isinstance(target, str)
        postgres_databases.copy(source, target)
    else:
        assert not isinstance(target, str)
        target.parent.mkdir(parents=True, exist_ok=True)
        database_at(source).back_up(target, SystemClock())


@overload
def started_store(
    place: Path, clock: Clock | None = None
) -> AbstractAsyncContextManager[SqliteStore]: ...


@overload
def started_store(
    place: Place, clock: Clock | None = None
) -> AbstractAsyncContextManager[Store]: ...


@asynccontextmanager
async def started_store(place: Place, clock: Clock | None = None) -> AsyncIterator[Any]:
    """Open the store of a place; create its file if it is missing."""
    make_database(place)
    store = open_store(place, clock or SystemClock())
    store.start()
    try:
        yield store
    finally:
        await store.stop()


def fold_as_demo(event: StoredEvent) -> Decoded:
    """Decode an event for the store of the tests' payloads."""
    return decode_event(event, store_id=STORE_ID, currency="INR")


async def fold_all(store: Store) -> list[tuple[int, Folded]]:
    """Fold the waiting events; return the problems."""
    problems: list[tuple[int, Folded]] = []
    more = True
    while more:
        report = await store.inbox.fold(fold_as_demo, 1.0)
        problems += report.problems
        more = report.more
    return problems


async def append_and_fold(store: Store, *bodies: bytes) -> list[tuple[int, Folded]]:
    """Append webhook bodies in this order and fold them; return the problems."""
    await append(store, bodies)
    return await fold_all(store)


async def fold_in_turn(store: Store, *arrivals: Arrival) -> None:
    """Append and fold one event after the other."""
    for one in arrivals:
        await store.inbox.append(one)
        assert await fold_all(store) == []


async def append(store: Store, bodies: Iterable[bytes]) -> None:
    waiting = [store.inbox.append(arrival(body)) for body in bodies]
    for future in waiting:
        await future


def event_states(place: Place) -> list[str]:
    """Return the state of each event, in order of arrival."""
    return values_of(place, "events", "state")
