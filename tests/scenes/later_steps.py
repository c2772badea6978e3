"""Steps of the schema as a later version may bring them, for tests of upgrades."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sqlite_utils import Database

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.migrations import migrations
from scenes.databases import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def m900_note(database: Database) -> None:
    """A new column."""
    database.execute("ALTER TABLE orders ADD COLUMN note TEXT NOT NULL DEFAULT ''")


def m901_notes(database: Database) -> None:
    """A value in every row of it, and an index."""
    database.execute("UPDATE orders SET note = 'order ' || id WHERE note = ''")
    database.execute("CREATE INDEX orders_note ON orders(note)")


def m902_digests(database: Database) -> None:
    """A table that is made again, with a column more."""
    database.execute(
        "CREATE TABLE digests_again (digest BLOB PRIMARY KEY, id INTEGER NOT NULL,"
        " at TEXT) WITHOUT ROWID"
    )
    database.execute("INSERT INTO digests_again SELECT *, '' FROM delivery_digests")
    database.execute("DROP TABLE delivery_digests")
    database.execute("ALTER TABLE digests_again RENAME TO delivery_digests")


def m903_view(database: Database) -> None:
    """A view that reads what the steps before brought."""
    database.execute("CREATE VIEW notes AS SELECT store, id, note FROM orders")


LATER = (m900_note, m901_notes, m902_digests, m903_view)
STEPS = [step.__name__ for step in LATER]


def register() -> None:
    """Let this process be the later version, to its end."""
    for step in LATER:
        migrations()(step)


@contextmanager
def later_version() -> Iterator[list[str]]:
    """Be the later version meanwhile; give the names of its steps."""
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
