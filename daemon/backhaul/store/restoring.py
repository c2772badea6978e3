"""Putting a backup in the place of the database, and trying out whether one could."""

from __future__ import annotations

import glob
import sqlite3
import tempfile
from contextlib import closing
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlite_utils import Database

from backhaul.core.clock import in_a_name, to_text
from backhaul.errors import CorruptData
from backhaul.store import opening, reviving
from backhaul.store.sqlite import copies, tags
from backhaul.store.sqlite.migrations import migrations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.core.clock import Clock

COUNTED = ("inbox", "orders", "products", "customers", "commands")


class Restored(Struct, frozen=True):
    """What is in the backup; `aside` is where the database of before is kept.

    `revived`: what people had taken away or decided since the backup and is back, each
    with the command that takes it away again; None where the database of before cannot
    tell.
    """

    rows: dict[str, int]
    newest_event_at: str | None
    aside: Path | None = None
    revived: tuple[str, ...] | None = None


def drill(backup: Path, clock: Clock) -> Restored:
    """Restore into a folder that goes again. Raises CorruptData, BackhaulError."""
    with tempfile.TemporaryDirectory(prefix="backhaul-drill-") as folder:
        tried = Path(folder, "backhaul.db")
        _open_copy(backup, tried, clock)
        copies.check(tried)
        return Restored(*_contents(tried))


def restore(
    backup: Path, database: Path, stores: Iterable[str], clock: Clock
) -> Restored:
    """Put the backup in the place of the database. Hold `sole_writer` meanwhile.

    The backup is checked, and brought to this version's schema, before anything is
    touched. Raises CorruptData, BackhaulError.
    """
    with opening.told_by("database.url"):
        database.parent.mkdir(opening.OWNER_ONLY, parents=True, exist_ok=True)
    now = to_text(clock.now())
    fresh = database.with_name(f".{database.name}.restoring")
    aside = _free(f"{database}.before-restore-{in_a_name(clock.now())}")
    was_there = database.exists()
    _clear(fresh)  # a restore that was killed left its log, which this one would read
    try:
        _open_copy(backup, fresh, clock)
        with closing(sqlite3.connect(fresh)) as connection, connection:
            for store in stores:
                tags.begin_again(connection, store, now)
            connection.execute("PRAGMA journal_mode=DELETE")
        copies.put_in_place(fresh, database, aside)
    finally:
        _clear(fresh)
    if not was_there:
        return Restored(*_contents(database))
    return Restored(*_contents(database), aside, reviving.revived(aside, database))


def _clear(fresh: Path) -> None:
    """Also of what the upgrade of an older backup keeps, which is the backup itself."""
    for left in fresh.parent.glob(f"{glob.escape(fresh.name)}*"):
        left.unlink(missing_ok=True)


def _open_copy(backup: Path, target: Path, clock: Clock) -> None:
    """Copy a backup and bring it to this version. Raises CorruptData, BackhaulError."""
    try:
        copies.copy(backup, target)
        _require_ours(target, backup)
        opening.open_store(target, clock)
    except copies.Damaged as error:
        raise CorruptData(
            f"{backup}: this backup is damaged ({error.found}); take an older one"
        ) from None
    except CorruptData as error:  # of a newer version: the copy's name tells nobody
        raise CorruptData(str(error).replace(str(target), str(backup))) from None


def _require_ours(copied: Path, backup: Path) -> None:
    """Refuse what opening would make a database of ours of, without a row in it."""
    with copies.open_to_look(copied) as connection:
        if migrations.applied(Database(connection, execute_plugins=False)):
            return
    raise CorruptData(
        f"{backup}: no backup of Backhaul: it is empty, or of another program; name a"
        " file that backhaul backup made"
    )


def _free(name: str) -> Path:
    """Return a path that nothing has: two may be put aside within one second."""
    others = (f"{name}-{number}" for number in count(2))
    return next(path for path in map(Path, chain([name], others)) if not path.exists())


def _contents(database: Path) -> tuple[dict[str, int], str | None]:
    with copies.open_to_look(database) as connection:
        rows = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for table in COUNTED
        }
        (newest,) = connection.execute("SELECT max(received_at) FROM inbox").fetchone()
    return rows, newest
