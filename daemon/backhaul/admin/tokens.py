"""Tokens with which programs use the HTTP API: how they are made, and their actions."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

from backhaul.admin.accounts import USER_NAME
from backhaul.errors import BackhaulError
from backhaul.settings.values import parse_duration
from backhaul.store.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.store.tokens import ListedToken, Tokens

PREFIX = "bh_"
"""Marks a token, so that people and secret scanners recognise one."""
SECRET_BYTES = 32
SCOPES = tuple(scope.value for scope in Scope)


def new_token() -> str:
    """Return a new token: the prefix, and 256 random bits as text."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(token: str) -> str:
    """Return the digest under which a token is stored.

    A token has 256 random bits, so nobody can guess it from a fast hash.
    """
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def who(token: ListedToken) -> str:
    """Return how the audit log names a program; no user can have such a name."""
    return f"token {token.name}"


def state_of(token: ListedToken, now: str) -> str:
    """Return whether a token is `valid`, `expired` or `revoked`."""
    if token.revoked_at is not None:
        return "revoked"
    is_over = token.expires_at is not None and token.expires_at <= now
    return "expired" if is_over else "valid"


def token_actions(
    tokens: Tokens,
) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
    """Return the actions on tokens by name; `who` of each is the acting user."""

    async def create(values: Mapping[str, Any]) -> dict[str, Any]:
        name, scope = values["name"], _scope_of(values["scope"])
        if not USER_NAME.fullmatch(name):
            raise BackhaulError(
                "the name of a token must have 1 to 64 of the characters a-z, 0-9 and"
                " . _ @ - and begin with a letter or digit"
            )
        seconds = _seconds(values.get("expires"))
        token = new_token()
        made = await tokens.create(
            name, scope, digest_of(token), seconds, values["who"]
        )
        shown = {"name": name, "scope": scope.value, "expires_at": made.expires_at}
        return {**shown, "token": token}

    async def revoke(values: Mapping[str, Any]) -> dict[str, Any]:
        await tokens.revoke(values["name"], values["who"])
        return {"name": values["name"]}

    return {"tokens/create": create, "tokens/revoke": revoke}


def _scope_of(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        raise BackhaulError(
            f"no scope is called {word!r}; the scopes are {', '.join(SCOPES)}"
        ) from None


def _seconds(expires: str | None) -> float | None:
    """Return after how many seconds a token expires, None for never."""
    if not expires:
        return None
    try:
        return parse_duration(expires)
    except ValueError as error:
        raise BackhaulError(f"the time until the token expires {error}") from None
