"""Tokens of the HTTP API, in a table beside the users."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text, to_text
from backhaul.errors import BackhaulError
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.family import Family, read, write
from backhaul.store.sql.operations.operators import add_entry
from backhaul.store.tokens import ListedToken

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection
    from backhaul.store.tokens import Scope

_TOKEN = f"SELECT {', '.join(ListedToken.__struct_fields__)} FROM api_tokens"  # noqa: S608 - constants
_ADD = """
    INSERT INTO api_tokens (name, digest, scope, created_at, created_by, expires_at)
    VALUES (:name, :digest, :scope, :now, :who, :expires_at)
"""
_REVOKE = """
    UPDATE api_tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL
"""
_USED = "UPDATE api_tokens SET last_used_at = :now WHERE name = :name"


def listed(connection: Connection) -> list[ListedToken]:
    """Return all tokens by name, also those that are refused."""
    return [ListedToken(*row) for row in connection.execute(f"{_TOKEN} ORDER BY name")]


class SqlTokens(Family):
    """Tokens in a table of a few rows; a revoked one stays, so that it has a name."""

    @read
    def find(self, connection: Connection, digest: str) -> ListedToken | None:
        row = connection.execute(
            f"{_TOKEN} WHERE digest = :digest", {"digest": digest}
        ).fetchone()
        return ListedToken(*row) if row else None

    @write
    def create(
        self,
        connection: Connection,
        name: str,
        scope: Scope,
        digest: str,
        seconds: float | None,
        who: str,
    ) -> ListedToken:
        if _named(connection, name) is not None:
            raise BackhaulError(
                f"a token is or was called {name}; choose another name, so that the"
                " audit log stays clear"
            )
        now, expires_at = self._now(), None
        if seconds is not None:
            expires_at = to_text(from_text(now) + timedelta(seconds=seconds))
        values = {"name": name, "digest": digest, "scope": scope.value, "now": now}
        connection.execute(_ADD, {**values, "who": who, "expires_at": expires_at})
        until = f" until {expires_at}" if expires_at else ""
        said = f"{name} with the scope {scope.value}{until}"
        add_entry(connection, now, AuditEntry(who, "tokens create", said))
        return ListedToken(name, scope.value, now, who, expires_at, None, None)

    @write
    def revoke(self, connection: Connection, name: str, who: str) -> None:
        found = _named(connection, name)
        if found is None:
            raise BackhaulError(f"no token is called {name}; see: backhaul tokens list")
        if found.revoked_at is not None:
            raise BackhaulError(
                f"the token {name} was already revoked at {found.revoked_at}"
            )
        now = self._now()
        connection.execute(_REVOKE, {"name": name, "now": now})
        add_entry(connection, now, AuditEntry(who, "tokens revoke", name))

    @write
    def record_use(self, connection: Connection, name: str) -> None:
        connection.execute(_USED, {"name": name, "now": self._now()})


def _named(connection: Connection, name: str) -> ListedToken | None:
    query = f"{_TOKEN} WHERE name = :name"
    row = connection.execute(query, {"name": name}).fetchone()
    return ListedToken(*row) if row else None
