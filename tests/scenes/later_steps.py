"""Migrations of a possible later version, for tests of upgrades."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlite_utils import Database

from backhaul.store.sql import schema
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.migrations import migrations
from scenes.databases import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def m900_note(database: Database) -> None:
    """A new column."""
    database.execute("ALTER TABLE orders ADD COLUMN note TEXT NOT NULL DEFAULT ''")


def m901_notes(database: Database) -> None:
    """A value in every row of it, and an index."""
    database.execute("UPDATE orders SET note = 'order ' || id WHERE note = ''")
    database.execute("CREATE INDEX orders_note ON orders(note)")


def m902_digests(database: Database) -> None:
    """A table that is rebuilt with one more column."""
    database.execute(
        "CREATE TABLE digests_again (digest BLOB PRIMARY KEY, id INTEGER NOT NULL,"
        " at TEXT) WITHOUT ROWID"
    )
    database.execute("INSERT INTO digests_again SELECT *, '' FROM delivery_digests")
    database.execute("DROP TABLE delivery_digests")
    database.execute("ALTER TABLE digests_again RENAME TO delivery_digests")


def m903_view(database: Database) -> None:
    """A view over the columns of the migrations before."""
    database.execute("CREATE VIEW notes AS SELECT store, id, note FROM orders")


LATER = (m900_note, m901_notes, m902_digests, m903_view)
STEPS = [step.__name__ for step in LATER]


def register() -> None:
    """Make this process the later version, until it ends."""
    for step in LATER:
        migrations()(step)


@contextmanager
def later_version() -> Iterator[list[str]]:
    """Make this process the later version within the block; yield its migrations."""
    register()
    try:
        yield STEPS
    finally:
        del migrations._migrations[-len(LATER) :]


def make_older(path: Path) -> None:
    """Make a database of this version, also while this process is the later one."""
    with closing(connections.open_writer(path)) as connection:
        migrations.apply(Database(connection), stop_before=STEPS[0])


def make_lacking(path: Path, table: str) -> None:
    """Make a database of this version without a table."""
    make_older(path)
    write(path, f"ALTER TABLE {table} RENAME TO missing")


EXPAND, INDEX, CONTRACT = "m900_column", "m901_index", "m902_not_null"
ON_SERVERS = {
    EXPAND: ("ALTER TABLE orders ADD COLUMN note TEXT DEFAULT ''",),
    INDEX: ("CREATE INDEX orders_note ON orders(note)",),
    CONTRACT: ("ALTER TABLE orders ALTER COLUMN note SET NOT NULL",),
}
"""The migrations of a later version on a shared PostgreSQL database."""


def register_on_servers(steps: Iterable[str] = tuple(ON_SERVERS)) -> None:
    """Make this process the later version on PostgreSQL, until it ends."""
    for step in steps:
        cast("Any", schema.STEPS)[step] = ON_SERVERS[step]
        if step == CONTRACT:
            cast("Any", schema.CONTRACTS)[CONTRACT] = EXPAND


@contextmanager
def later_on_servers(*steps: str) -> Iterator[None]:
    """Make this process the later version within the block, with these migrations."""
    register_on_servers(steps or tuple(ON_SERVERS))
    try:
        yield
    finally:
        for step in ON_SERVERS:
            cast("Any", schema.STEPS).pop(step, None)
            cast("Any", schema.CONTRACTS).pop(step, None)


_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from scenes import later_steps
later_steps.register_on_servers()
from backhaul.__main__ import main
del sys.argv[1:5]  # the command that this program replaces
main()
"""
PROGRAM = (sys.executable, "-c", _PROGRAM, str(Path(__file__).resolve().parents[1]))
"""A prefix that runs the later version in place of `python -m backhaul`."""
