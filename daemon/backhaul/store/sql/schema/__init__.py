"""The schema: the statements that make all tables, indexes and views, in their order.

The text is common to all engines, as docs/decisions/0023-one-sql-text.md describes. An
engine adds what only it has, such as full text, and maps the names of the types.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from backhaul.store.sql.schema import commands, inbox, mirror, operations, views

if TYPE_CHECKING:
    from collections.abc import Mapping

BASELINE = "m001_baseline"
CONNECTOR_DOCUMENTS = "m002_connector_documents"
STEPS: Mapping[str, tuple[str, ...]] = {
    BASELINE: (
        *inbox.STATEMENTS,
        *mirror.STATEMENTS,
        *commands.STATEMENTS,
        *operations.STATEMENTS,
        *views.STATEMENTS,
    ),
    CONNECTOR_DOCUMENTS: operations.CONNECTOR_DOCUMENTS,
}
"""The statements of each migration, the oldest first. Those of a released migration
never change."""
STATEMENTS: tuple[str, ...] = tuple(chain.from_iterable(STEPS.values()))
