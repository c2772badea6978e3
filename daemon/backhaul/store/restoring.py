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

from backhaul.core.clock import in_a_name, to_text
from backhaul.store import opening
from backhaul.store.sqlite import copies, tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.core.clock import Clock

COUNTED = ("inbox", "orders", "products", "customers", "commands")
_USERS = "SELECT name, role, secret FROM users"
_DROPPED = "SELECT store, fingerprint FROM webhook_secrets WHERE dropped_at IS NOT NULL"
_FORGOTTEN = "SELECT store, customer_id FROM forgotten"


class Restored(Struct, frozen=True):
    """What is in the backup; `aside` is where the database of before is kept.

    `revived`: what people had taken away since the backup and is back, each with the
    command that takes it away again; None where the database of before cannot tell.
    """

    rows: dict[str, int]
    newest_event_at: str | None
    aside: Path | None = None
    revived: tuple[str, ...] | None = None


def drill(backup: Path, clock: Clock) -> Restored:
    """Restore into a folder that goes again. Raises CorruptData, BackhaulError."""
    with tempfile.TemporaryDirectory(prefix="backhaul-drill-") as folder:
        tried = Path(folder, "backhaul.db")
        copies.copy(backup, tried)
        opening.open_store(tried, clock)
        copies.check(tried)
        return Restored(*_contents(tried))


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
    aside = _free(f"{database}.before-restore-{in_a_name(clock.now())}")
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
    if not was_there:
        return Restored(*_contents(database))
    return Restored(*_contents(database), aside, _revived(aside, database))


def _free(name: str) -> Path:
    """Return a path that nothing has: two may be put aside within one second."""
    others = (f"{name}-{number}" for number in count(2))
    return next(path for path in map(Path, chain([name], others)) if not path.exists())


def _revived(before: Path, restored: Path) -> tuple[str, ...] | None:
    try:
        with copies.open_to_look(before) as old, copies.open_to_look(restored) as new:
            users = [*_users(old, new)]
            dropped = _missing(_DROPPED, old, new)
            forgotten = _missing(_FORGOTTEN, old, new)
    except sqlite3.Error:  # it is damaged, or older than these tables
        return None
    return (
        *users,
        *(
            f"webhooks of {store} may be signed with a dropped secret again:"
            f" backhaul secrets drop {fingerprint}"
            for store, fingerprint in dropped
        ),
        *(
            f"a person who was erased is back:"
            f" backhaul forget customer {customer} --store {store}"
            for store, customer in forgotten
        ),
    )


def _users(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    before = {name: rest for name, *rest in old.execute(_USERS)}
    for name, role, secret in sorted(new.execute(_USERS)):
        was_role, was_secret = before.get(name, (None, secret))
        if was_role is None:
            yield f"dashboard user {name} is {role} again: backhaul users remove {name}"
        elif role != was_role:
            fix = f"backhaul users role {name} {was_role}"
            yield f"dashboard user {name} is {role} again: {fix}"
        if secret != was_secret:
            fix = f"backhaul users password {name}"
            yield f"dashboard user {name} has the password of then again: {fix}"


def _missing(
    query: str, there: sqlite3.Connection, here: sqlite3.Connection
) -> list[tuple[str, ...]]:
    """Return the rows of `there` that `here` lacks."""
    return sorted({*there.execute(query)} - {*here.execute(query)})


def _contents(database: Path) -> tuple[dict[str, int], str | None]:
    with copies.open_to_look(database) as connection:
        rows = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for table in COUNTED
        }
        (newest,) = connection.execute("SELECT max(received_at) FROM inbox").fetchone()
    return rows, newest
