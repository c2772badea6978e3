"""Real stores for tests, and what stands in their files."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from backhaul.core import strict_json
from backhaul.core.clock import SystemClock
from backhaul.ingest.topics import decode_event
from backhaul.store.sql.mirror.compare_mirrors import MIRROR, table_rows
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.opening import open_store
from scenes.payloads import STORE_ID, arrival
from scenes.stored import values_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Arrival, Decoded, Folded, StoredEvent
    from backhaul.store.sqlite.database import SqliteStore

Row = tuple[Any, ...]


def opened(path: Path) -> sqlite3.Connection:
    """Open a database as another program would, to be read."""
    return Connection(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def rows(path: Path, query: str, *values: object) -> list[Row]:
    """Read with a connection of its own, as another program would."""
    with closing(opened(path)) as connection:
        return connection.execute(query, values).fetchall()


def rows_with_names(path: Path, query: str) -> list[dict[str, Any]]:
    """Read rows by the names of their columns."""
    with closing(opened(path)) as connection:
        cursor = connection.execute(query)
        names = [entry[0] for entry in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def count(path: Path, table: str) -> int:
    return int(rows(path, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 - ours


def mirror_of(path: Path) -> dict[str, list[Row]]:
    """Return the whole mirror in an order of its own."""
    return {
        table: sorted(rows(path, f"SELECT {columns} FROM {table}"), key=repr)  # noqa: S608 - constants
        for table, columns in MIRROR.items()
    }


def dump(
    path: Path, tables: Iterable[str] = MIRROR, without: Collection[str] = ()
) -> Iterator[bytes]:
    """Yield the mirror, one JSON array for each row; equal mirrors give equal bytes."""
    with closing(opened(path)) as connection:
        for table in tables:
            yield from sorted(
                strict_json.encode([table, *(row[n] for n in row if n not in without)])
                for row in table_rows(connection, table)
            )


def write(path: Path, statement: str, *values: object) -> None:
    """Write by hand, as another program would."""
    with closing(Connection(path)) as connection, connection:
        connection.execute(statement, values)


def put_target(path: Path, id_: str, **columns: object) -> None:
    """Write a stock target of variant `var_1` of `prod_1`, as it waits for its turn."""
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
    write(path, statement, *values.values())


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the write lock, as a backup or a curious person may do."""
    with closing(Connection(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Keep a read open, so that the log cannot be emptied."""
    with closing(Connection(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM orders").fetchone()
        yield
        connection.execute("ROLLBACK")


@cache
def _new_database() -> bytes:
    """Return a database as every step of the schema made it, once for all tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "new.db")
        open_store(path, SystemClock())
        return path.read_bytes()


def make_database(path: Path) -> None:
    """Make a database where none is, at once: the schema takes a tenth of a second."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_new_database())


@asynccontextmanager
async def started_store(
    path: Path, clock: Clock | None = None
) -> AsyncIterator[SqliteStore]:
    make_database(path)
    store = open_store(path, clock or SystemClock())
    store.start()
    try:
        yield store
    finally:
        await store.stop()


def fold_as_demo(event: StoredEvent) -> Decoded:
    """Decode for the store that the payloads of tests belong to."""
    return decode_event(event, store_id=STORE_ID, currency="INR")


async def fold_all(store: SqliteStore) -> list[tuple[int, Folded]]:
    """Fold what waits; return the problems."""
    problems: list[tuple[int, Folded]] = []
    more = True
    while more:
        report = await store.inbox.fold(fold_as_demo, 1.0)
        problems += report.problems
        more = report.more
    return problems


async def take(store: SqliteStore, *bodies: bytes) -> list[tuple[int, Folded]]:
    """Append deliveries in this order and fold them."""
    await append(store, bodies)
    return await fold_all(store)


async def arrive(store: SqliteStore, *arrivals: Arrival) -> None:
    """Append and fold one after the other, as when nothing is in a hurry."""
    for one in arrivals:
        await store.inbox.append(one)
        assert await fold_all(store) == []


async def append(store: SqliteStore, bodies: Iterable[bytes]) -> None:
    waiting = [store.inbox.append(arrival(body)) for body in bodies]
    for future in waiting:
        await future


def states(path: Path) -> list[str]:
    """Return what became of each event, in order of arrival."""
    return values_of(path, "events", "state")
