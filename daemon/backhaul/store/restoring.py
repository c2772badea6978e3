"""Putting a backup in the place of the database, and trying out whether one could."""

from __future__ import annotations

import glob
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.core.clock import in_a_name, to_text
from backhaul.store import opening
from backhaul.store.sqlite import copies, tags

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.core.clock import Clock

COUNTED = ("inbox", "orders", "products", "customers", "commands")


@dataclass(frozen=True, slots=True)
class Restored:
    """What is in the backup; `aside` is where the database of before is kept."""

    rows: dict[str, int]
    newest_event_at: str | None
    aside: Path | None = None


def drill(backup: Path, clock: Clock) -> Restored:
    """Restore into a folder that goes again. Raises CorruptData, BackhaulError."""
    with tempfile.TemporaryDirectory(prefix="backhaul-drill-") as folder:
        tried = Path(folder, "backhaul.db")
        copies.copy(backup, tried)
        opening.open_store(tried, clock)
        copies.check(tried)
        return _contents(tried, None)


def restore(
    backup: Path, database: Path, stores: Iterable[str], clock: Clock
) -> Restored:
    """Put the backup in the place of the database. Hold `sole_writer` meanwhile.

    The backup is checked, and brought to this version's schema, before anything is
    touched. Raises CorruptData, BackhaulError.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    now = to_text(clock.now())
    fresh = database.with_name(f".{database.name}.restoring")
    aside = database.with_name(
        f"{database.name}.before-restore-{in_a_name(clock.now())}"
    )
    was_there = database.exists()
    try:
        copies.copy(backup, fresh)
        opening.open_store(fresh, clock)
        with closing(sqlite3.connect(fresh)) as connection, connection:
            for store in stores:
                tags.begin_again(connection, store, now)
            connection.execute("PRAGMA journal_mode=DELETE")
        copies.put_in_place(fresh, database, aside)
    finally:
        # With what the upgrade of an older backup keeps, which is the backup itself.
        for left in fresh.parent.glob(f"{glob.escape(fresh.name)}*"):
            left.unlink(missing_ok=True)
    return _contents(database, aside if was_there else None)


def _contents(database: Path, aside: Path | None) -> Restored:
    with copies.open_to_look(database) as connection:
        rows = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for table in COUNTED
        }
        (newest,) = connection.execute("SELECT max(received_at) FROM inbox").fetchone()
    return Restored(rows, newest, aside)
