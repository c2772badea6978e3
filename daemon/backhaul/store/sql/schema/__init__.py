"""The schema: the statements that make all tables, indexes and views, in their order.

The text is common to all engines, as docs/decisions/0023-one-sql-text.md describes. An
engine adds what only it has, such as full text, and maps the names of the types.
"""

from __future__ import annotations

from backhaul.store.sql.schema import commands, inbox, mirror, operations, views

STATEMENTS: tuple[str, ...] = (
    *inbox.STATEMENTS,
    *mirror.STATEMENTS,
    *commands.STATEMENTS,
    *operations.STATEMENTS,
    *views.STATEMENTS,
)
