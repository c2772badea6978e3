"""Tokens of the HTTP API."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Scope(StrEnum):
    """What a program with a token is allowed to do; `operate` includes `read`."""

    READ = "read"
    OPERATE = "operate"

    def includes(self, needed: Scope) -> bool:
        """Return whether a token with this scope may do what needs the other."""
        return self is Scope.OPERATE or needed is Scope.READ


class ListedToken(Struct, frozen=True):
    """A token of the HTTP API, without its secret; `scope` is `read` or `operate`.

    `expires_at` is None for a token that does not expire. `last_used_at` is at most a
    minute behind.
    """

    name: str
    scope: str
    created_at: str
    created_by: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None


class Tokens(Protocol):
    """Tokens of the HTTP API, by a digest; each change has an audit entry.

    Any member may call these methods, and all of them may raise Busy.
    """

    async def find(self, digest: str) -> ListedToken | None:
        """Return the token with this digest, also if it expired or was revoked."""
        ...

    async def create(
        self, name: str, scope: Scope, digest: str, seconds: float | None, who: str
    ) -> ListedToken:
        """Add a token that expires after `seconds`, None for never.

        Raises BackhaulError if the name was used before, even by a revoked token.
        """
        ...

    async def revoke(self, name: str, who: str) -> None:
        """Refuse a token from now on. Raises BackhaulError if there is none."""
        ...

    async def record_use(self, name: str) -> None:
        """Record that a program used the token now."""
        ...
