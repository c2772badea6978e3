"""The schema of a database file, as forward-only migrations: the first makes it whole.

A released migration never changes; a later version adds its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlite_utils import Migrations

from backhaul.store.sql.schema import (
    API_TOKENS,
    BASELINE,
    CONNECTOR_DOCUMENTS,
    DELIVERY_ATTEMPTS,
    LIST_INDEXES,
    MAPPINGS,
    METRIC_MINUTES,
    ORDER_LISTS,
    QUARANTINE_REASONS,
    QUARANTINE_STATES,
    SAVED_VIEWS,
    SIGN_IN,
    STEPS,
    STOCK_LISTS,
    TRACEPARENTS,
)
from backhaul.store.sqlite.full_text import create_index

if TYPE_CHECKING:
    from sqlite_utils import Database

migrations = Migrations("backhaul")
BEFORE_RELEASE = "m001_events"
"""The first migration of every database from before version 0.1.0."""

# The first two of an ordering key that may leave in their turn.
_FIRST = """
    SELECT o.seq FROM commands o
    WHERE o.store = {row}.store AND o.lane = {row}.lane
      AND o.state IN ('planned', 'sending', 'uncertain')
      AND o.state = 'planned' AND o.hold_reason IS NULL
    ORDER BY o.seq LIMIT 2
"""
_BLOCKED = """
    (EXISTS (SELECT 1 FROM commands o
       WHERE o.store = commands.store AND o.lane = commands.lane
         AND o.state IN ('sending', 'uncertain'))
     OR EXISTS (SELECT 1 FROM commands o
       WHERE o.store = commands.store AND o.lane = commands.lane
         AND o.state IN ('planned', 'sending', 'uncertain')
         AND o.state = 'planned' AND o.hold_reason IS NULL
         AND o.seq < commands.seq))
"""
# After a change only these rows of the ordering key can have another value.
_ALIGN = f"""
    UPDATE commands SET behind = 1
    WHERE seq IN (SELECT {{row}}.seq UNION ALL SELECT seq FROM ({_FIRST}))
      AND behind = 0 AND state = 'planned' AND hold_reason IS NULL
      AND {_BLOCKED};
    UPDATE commands SET behind = 0
    WHERE seq IN (SELECT {{row}}.seq UNION ALL SELECT seq FROM ({_FIRST}))
      AND behind = 1 AND NOT (state = 'planned' AND hold_reason IS NULL AND {_BLOCKED});
"""  # noqa: S608 - constants
_ORDERING_KEYS = (
    ("planned", "new", "AFTER INSERT ON commands"),
    (
        "moved",
        "new",
        "AFTER UPDATE OF state, hold_reason ON commands"
        " WHEN new.state != old.state OR new.hold_reason IS NOT old.hold_reason",
    ),
    (
        "removed",
        "old",
        "AFTER DELETE ON commands"
        " WHEN old.state IN ('planned', 'sending', 'uncertain')",
    ),
)


@migrations()
def m001_baseline(database: Database) -> None:
    """Everything: tables, indexes, views, full-text search and triggers."""
    _execute(database, BASELINE)
    create_index(database.conn)
    # `behind` marks the commands that wait for another of their ordering key, so that
    # a claim skips them.
    for name, row, event in _ORDERING_KEYS:
        align = _ALIGN.format(row=row)
        database.conn.execute(
            f"CREATE TRIGGER commands_{name} {event} BEGIN {align} END"
        )


@migrations()
def m002_connector_documents(database: Database) -> None:
    """A table of documents that connectors keep."""
    _execute(database, CONNECTOR_DOCUMENTS)


@migrations()
def m003_quarantine_reasons(database: Database) -> None:
    """The class of each reason in quarantine, and what the reason is about."""
    _execute(database, QUARANTINE_REASONS)


@migrations()
def m004_quarantine_states(database: Database) -> None:
    """An index, so that the open rows are found among all that ever were."""
    _execute(database, QUARANTINE_STATES)


@migrations()
def m005_order_lists(database: Database) -> None:
    """Indexes for lists of orders, the newest first, by store and by tab."""
    _execute(database, ORDER_LISTS)


@migrations()
def m006_mappings(database: Database) -> None:
    """A table of what names of the back office mean in the store."""
    _execute(database, MAPPINGS)


@migrations()
def m007_list_indexes(database: Database) -> None:
    """Indexes, so that lists find the few rows in rare states."""
    _execute(database, LIST_INDEXES)


@migrations()
def m008_api_tokens(database: Database) -> None:
    """A table of tokens for programs that use the HTTP API."""
    _execute(database, API_TOKENS)


@migrations()
def m009_sign_in(database: Database) -> None:
    """Users of an identity provider, disabled users, and second factors."""
    _execute(database, SIGN_IN)


@migrations()
def m010_delivery_attempts(database: Database) -> None:
    """The attempts of deliveries."""
    _execute(database, DELIVERY_ATTEMPTS)


@migrations()
def m011_saved_views(database: Database) -> None:
    """Filters of lists that users saved under a name."""
    _execute(database, SAVED_VIEWS)


@migrations()
def m013_metric_minutes(database: Database) -> None:
    """A table of what each daemon counts in a minute, for the charts."""
    _execute(database, METRIC_MINUTES)


@migrations()
def m014_stock_lists(database: Database) -> None:
    """Indexes for lists of stock, by SKU and the lowest stock first."""
    _execute(database, STOCK_LISTS)


@migrations()
def m015_traceparents(database: Database) -> None:
    """The spans from which traces go on, in rows of events, records and commands."""
    _execute(database, TRACEPARENTS)


def _execute(database: Database, step: str) -> None:
    for statement in STEPS[step]:
        database.conn.execute(statement)
