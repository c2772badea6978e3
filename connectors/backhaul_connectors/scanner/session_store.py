"""The SQLite file of open sessions, and the CSV file of a finished count."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backhaul_sdk import Fulfillment, Line, LineInStore

if TYPE_CHECKING:
    from pathlib import Path


FILE = "sessions.db"
KEPT_SESSIONS = 2_000
"""Finished sessions that are remembered, for devices that send a scan again."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS desks (device TEXT PRIMARY KEY, mode TEXT NOT NULL,
    session INTEGER);
CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE, device TEXT NOT NULL, mode TEXT NOT NULL,
    order_name TEXT NOT NULL, order_bare TEXT NOT NULL, tracking_company TEXT,
    tracking_number TEXT, shipped_at TEXT, state TEXT NOT NULL, what TEXT NOT NULL,
    wanted BLOB);
CREATE INDEX IF NOT EXISTS sessions_state ON sessions (state, order_bare);
CREATE TABLE IF NOT EXISTS scans (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    session INTEGER, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
    what TEXT NOT NULL, second REAL NOT NULL);
CREATE INDEX IF NOT EXISTS scans_session ON scans (session);
CREATE TABLE IF NOT EXISTS repeats (identity TEXT PRIMARY KEY, key TEXT NOT NULL,
    until REAL NOT NULL);
"""
_SESSION = """SELECT id, name, device, mode, order_name, tracking_company,
    tracking_number, shipped_at, state, what, wanted FROM sessions"""
FOLDER = "counts"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Session(Struct, frozen=True):
    """A picked order, or a count.

    `state` is `open`, `closed` (complete, not yet stored by the host or in its file),
    `done`, `refused` (quarantined by the host) or `dropped`; `name` is unique forever.
    `wanted` holds the lines of the order as JSON, None if the order was not known.
    """

    id: int
    name: str
    device: str
    mode: str
    order: str
    tracking_company: str | None
    tracking_number: str | None
    shipped_at: str | None
    state: str
    what: str
    wanted: bytes | None = None

    @property
    def lines_in_shop(self) -> tuple[LineInStore, ...] | None:
        """The lines of the order when they were last looked up in the store."""
        if self.wanted is None:
            return None
        return msgspec.json.decode(self.wanted, type=tuple[LineInStore, ...])


def connect(folder: Path) -> sqlite3.Connection:
    """Open the file, create it if missing, and delete old finished sessions."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection = sqlite3.connect(
        folder / FILE, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(_SCHEMA)
    _add_what_is_new(connection)
    _delete_old(connection)
    return connection


def _add_what_is_new(connection: sqlite3.Connection) -> None:
    """Add the columns that a file of an earlier version lacks."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}
    if "wanted" not in columns:
        connection.execute("ALTER TABLE sessions ADD COLUMN wanted BLOB")


def _delete_old(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        """DELETE FROM sessions WHERE state IN ('done', 'dropped', 'refused')
           AND id <= (SELECT max(id) FROM sessions) - ?""",
        (KEPT_SESSIONS,),
    )
    connection.execute(
        """DELETE FROM scans WHERE session IS NOT NULL
           AND session NOT IN (SELECT id FROM sessions)"""
    )
    connection.execute(
        """DELETE FROM scans WHERE session IS NULL
           AND id <= (SELECT max(id) FROM scans) - ?""",
        (KEPT_SESSIONS,),
    )
    connection.execute("COMMIT")


def session(connection: sqlite3.Connection, id_: int) -> Session:
    """Return a session that exists."""
    row = connection.execute(f"{_SESSION} WHERE id = ?", (id_,)).fetchone()
    return Session(*row)


def sessions_in(
    connection: sqlite3.Connection, state: str, condition: str = "1", *values: object
) -> list[Session]:
    """Return sessions in a state, the oldest first."""
    query = f"{_SESSION} WHERE state = ? AND {condition} ORDER BY id"
    return [Session(*row) for row in connection.execute(query, (state, *values))]


def lines_of(connection: sqlite3.Connection, id_: int) -> tuple[Line, ...]:
    """Return the collected units, each article once."""
    rows = connection.execute(
        """SELECT sku, sum(quantity) FROM scans WHERE session = ? AND quantity > 0
           GROUP BY sku ORDER BY min(id)""",
        (id_,),
    )
    return tuple(Line(sku=sku, quantity=quantity) for sku, quantity in rows)


def fulfillment_of(session: Session, lines: tuple[Line, ...]) -> Fulfillment:
    """Return the one shipment of a picked order."""
    return Fulfillment(
        key=f"picked:{session.name}",
        order=session.order,
        tracking_company=session.tracking_company,
        tracking_number=session.tracking_number,
        lines=lines,
        shipped_at=session.shipped_at,
        locator=f"order {session.order} picked with {session.device}",
        raw="\n".join(f"{line.sku} {line.quantity}" for line in lines),
    )


def write_count(folder: Path, session: Session, lines: tuple[Line, ...]) -> str:
    """Write `sku,quantity` atomically; the same count is the same file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("sku", "quantity"))
    writer.writerows((_as_text(line.sku), line.quantity) for line in lines)
    counts = folder / FOLDER
    counts.mkdir(exist_ok=True, mode=0o700)
    file = counts / f"{session.id:06}-{session.device}-{session.name[:8]}.csv"
    _write_durably(file, text.getvalue())
    return f"{FOLDER}/{file.name}"


def _as_text(sku: str) -> str:
    """Return the SKU in a form that no spreadsheet runs as a formula."""
    return f"'{sku}" if sku.startswith(_FORMULA) else sku


def _write_durably(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
