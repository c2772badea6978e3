"""Checks whether a database of a server can receive a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.postgres.connection import Connection

OLDEST = 15
_SHOWN = 3
_SERVER = """
    SELECT current_setting('server_version_num')::int / 10000,
           current_setting('server_encoding'),
           pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
           current_schema(), current_user,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
"""
# What an extension made, such as its views, belongs to the extension.
_RELATIONS = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace
      AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
      AND NOT EXISTS (SELECT 1 FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY c.relkind = 'S', c.relname
"""


def require_suitable(connection: Connection, place: str) -> None:
    """Refuse a server or schema that Backhaul cannot use. Raises BackhaulError."""
    ((version, encoding, is_read_only, schema, user, may_create),) = connection.execute(
        _SERVER
    ).fetchall()
    if version < OLDEST:
        raise BackhaulError(
            f"{place}: this is PostgreSQL {version}, and Backhaul needs {OLDEST} or"
            " newer; upgrade the server, or use another one"
        )
    if encoding != "UTF8":
        raise BackhaulError(
            f"{place}: the encoding of this database is {encoding}; create one with"
            " UTF8: createdb --encoding UTF8 --template template0 NAME"
        )
    if is_read_only:
        raise BackhaulError(
            f"{place}: this database can only be read; name the primary server, and a"
            " user whose default_transaction_read_only is off"
        )
    if schema is None:
        raise BackhaulError(
            f"{place}: the user {user} has no schema there; create one:"
            f" CREATE SCHEMA AUTHORIZATION {user}"
        )
    if not may_create:
        raise BackhaulError(
            f"{place}: the user {user} is not allowed to create tables; as the owner of"
            f" the database: GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}"
        )


def require_empty(connection: Connection, place: str) -> None:
    """Refuse a schema with anything in it. Raises BackhaulError."""
    names = [str(name) for (name,) in connection.execute(_RELATIONS)]
    if names:
        raise BackhaulError(
            f"{place}: this database is not empty: it has {_listed(names)}; a move"
            " needs an empty one, so create another: createdb --encoding UTF8 NAME"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
