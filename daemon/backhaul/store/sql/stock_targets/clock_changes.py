"""Corrects the times of stock targets after the clock was set back.

A count applied while the clock was ahead would be newer than every count until then,
and include every command until then. It is dated just before now, so that a count of
this very millisecond is newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sql.dialect import greatest, later, least

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.sql.family import Connection

_SHIFT = f"""
    UPDATE stock_targets SET created_at = {least("created_at", ":now")},
      due_at = {greatest(":now", later("due_at", ":seconds"))}
    WHERE store = :store AND state IN ('waiting', 'adjusting', 'held')
"""  # noqa: S608 - constants
_CATCH_UP = f"""
    UPDATE stock_targets SET created_at = {least("created_at", ":now")}, due_at = :now
    WHERE store = :store AND state IN ('waiting', 'adjusting', 'held')
      AND (created_at > :now OR due_at > :longest)
"""  # noqa: S608 - constants
# Finding such counts among many takes long. At a start, the newest rows show whether
# there can be any.
_IS_AHEAD = """
    SELECT 1 FROM (SELECT created_at FROM stock_targets ORDER BY seq DESC LIMIT 1000) n
    WHERE n.created_at > :now LIMIT 1
"""
_COUNTED_AHEAD = """
    UPDATE stock_targets SET as_of = :just_before
    WHERE store = :store AND as_of > :now AND state = 'applied'
"""


def shift(connection: Connection, values: Mapping[str, object]) -> None:
    """Move the times of open targets by `seconds`, as the clock went back.

    `values` are also `store`, `now`, and `just_before` it.
    """
    connection.execute(_SHIFT, values)
    connection.execute(_COUNTED_AHEAD, values)


def catch_up(connection: Connection, values: Mapping[str, object]) -> None:
    """Limit the waits of open targets to the time `longest`, as `shift` does."""
    is_ahead = connection.execute(_IS_AHEAD, values).fetchone()
    connection.execute(_CATCH_UP, values)
    if is_ahead:
        connection.execute(_COUNTED_AHEAD, values)
