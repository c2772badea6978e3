"""Moves the sessions of version 0.1.0 out of their own SQLite file, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from backhaul_connectors.scanner.deduplication import IssuedKey, put_issued
from backhaul_connectors.scanner.session_store import (
    CollectedArticle,
    DeviceState,
    KnownScan,
    Session,
    Sessions,
)
from backhaul_sdk import LineInStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backhaul_sdk import Documents, DocumentStore
    from backhaul_sdk.database import ReadSqlite

    Put: TypeAlias = Callable[[Documents, Any], None]

FILE = "sessions.db"
MOVED = "sessions.db.moved"
"""The name of the file once its sessions are in the documents."""
DONE = "moved-from-file"
"""The key of a document that says so."""
AT_ONCE = 100


async def move_old_sessions(
    folder: Path, documents: DocumentStore, read: ReadSqlite
) -> None:
    """Store what a file of version 0.1.0 holds as documents, then rename the file.

    Nobody scans meanwhile. If it is interrupted, it begins again: the same rows make
    the same documents.
    """
    file = folder / FILE
    if not await asyncio.to_thread(file.exists):
        return
    if await documents.transact(lambda each: each.get(DONE)) is None:
        for query, put in _TABLES:
            await _move(documents, put, partial(read, file, query))
        await documents.transact(lambda each: each.put(DONE, b""))
    await asyncio.to_thread(_rename, folder)


async def _move(
    documents: DocumentStore,
    put: Put,
    read: Callable[[Sequence[Any]], Any],
) -> None:
    """Store the rows of a query page by page; the first column is the row's number."""
    after = 0
    while rows := await read((after, AT_ONCE)):
        await documents.transact(partial(_put_all, put=put, rows=rows))
        after = rows[-1][0]


def _put_all(documents: Documents, *, put: Put, rows: Sequence[Any]) -> None:
    for row in rows:
        put(documents, row[1:])


def _rename(folder: Path) -> None:
    """Rename the log beside the file before the file, which it belongs to."""
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            (folder / f"{FILE}{suffix}").rename(folder / f"{MOVED}{suffix}")


def _put_session(documents: Documents, row: Any) -> None:
    *columns, wanted = row
    session = Session(*columns)
    if wanted is not None:
        lines = msgspec.json.decode(wanted, type=tuple[LineInStore, ...])
        session = replace(session, lines_in_store=lines)
    Sessions(documents).adopt(session)


def _put_article(documents: Documents, row: Any) -> None:
    id_, sku, units = row
    sessions = Sessions(documents)
    session = sessions.get(id_)
    known = sessions.article(session, sku)
    place = session.articles if known is None else known.place
    sessions.put_article(session, sku, CollectedArticle(units, place))


def _put_scan(documents: Documents, row: Any) -> None:
    key, session, what = row
    Sessions(documents).remember(key, KnownScan(what, session))


def _put_device(documents: Documents, row: Any) -> None:
    device, mode, session = row
    Sessions(documents).put_device(device, DeviceState(mode, session))


def _put_repeat(documents: Documents, row: Any) -> None:
    identity, key, until = row
    put_issued(documents, identity, IssuedKey(key, until))


_TABLES: tuple[tuple[str, Put], ...] = (
    (
        """SELECT id, id, name, device, mode, order_name, tracking_company,
        tracking_number, shipped_at, state, what, wanted FROM sessions
        WHERE id > ? ORDER BY id LIMIT ?""",
        _put_session,
    ),
    (
        """SELECT min(scans.id), session, sku, sum(quantity) FROM sessions
        JOIN scans ON session = sessions.id
        WHERE state IN ('open', 'closed') AND quantity > 0
        GROUP BY session, sku HAVING min(scans.id) > ? ORDER BY 1 LIMIT ?""",
        _put_article,
    ),
    (
        """SELECT id, key, session, what FROM scans
        WHERE key NOT LIKE 'once:%' AND id > ? ORDER BY id LIMIT ?""",
        _put_scan,
    ),
    (
        """SELECT rowid, device, mode, session FROM desks
        WHERE rowid > ? ORDER BY rowid LIMIT ?""",
        _put_device,
    ),
    (
        """SELECT rowid, identity, key, until FROM repeats
        WHERE rowid > ? ORDER BY rowid LIMIT ?""",
        _put_repeat,
    ),
)
