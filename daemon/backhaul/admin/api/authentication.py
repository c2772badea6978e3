"""Which token a request has, and what the token allows."""

from __future__ import annotations

import math
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct

from backhaul.admin.accounts import throttle_key
from backhaul.admin.api.problems import ApiError
from backhaul.admin.login import INSECURE_HTTP
from backhaul.admin.tokens import PREFIX, digest_of, who
from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.store.tokens import Scope

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext
    from backhaul.store.tokens import ListedToken

CHALLENGE = 'Bearer realm="backhaul"'
USE_SECONDS = 60.0
"""A token's use is written at most once in this time."""
MAX_LENGTH = 256


class Caller(Struct, frozen=True):
    """The program that sent a request; the audit log has its name as `who`."""

    who: str
    scope: Scope

    def require(self, needed: Scope) -> None:
        """Raise ApiError unless the token may do what needs this scope."""
        if self.scope.includes(needed):
            return
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"the token has the scope {self.scope.value}, and this request needs"
            f" {needed.value}; use a token from: backhaul tokens create NAME --scope"
            f" {needed.value}",
            {"WWW-Authenticate": f'{CHALLENGE}, error="insufficient_scope"'},
        )


class TokenCheck:
    """Finds the token of each request. Cookies count for nothing here."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._used: dict[str, float] = {}

    async def caller(self, request: web.Request) -> Caller:
        """Return who sends a request. Raises ApiError, and Busy."""
        origin = self._context.origin
        if not (origin.is_https(request) or origin.is_local(request)):
            raise ApiError(HTTPStatus.FORBIDDEN, INSECURE_HTTP)
        token = _token_of(request)
        if token is None:
            raise _unknown(
                "the request has no token; send the header Authorization: Bearer"
                f" {PREFIX}…, with a token from: backhaul tokens create NAME"
            )
        found = await self._context.services.store.tokens.find(digest_of(token))
        if (reason := self._refusal(found)) or found is None:
            await self._count_failure(request, found)
            raise _unknown(reason)
        await self._record_use(found.name)
        return Caller(who(found), Scope(found.scope))

    def _refusal(self, found: ListedToken | None) -> str:
        """Return why a token is refused, empty if it is valid."""
        instead = "use a token from: backhaul tokens create NAME"
        if found is None:
            return f"Backhaul does not know the token; {instead}"
        if found.revoked_at is not None:
            return (
                f"the token {found.name} was revoked at {found.revoked_at}; {instead}"
            )
        now = to_text(self._context.services.clock.now())
        if found.expires_at is not None and found.expires_at <= now:
            return f"the token {found.name} expired at {found.expires_at}; {instead}"
        return ""

    async def _count_failure(
        self, request: web.Request, found: ListedToken | None
    ) -> None:
        """Count a failed attempt of an address. Raises ApiError if it must wait.

        The failures are not those of logins: a program with an old token must not lock
        out the people behind the same proxy.
        """
        address = throttle_key(self._context.origin.address(request))
        wait = await self._context.throttle.attempt("", f"api {address}")
        if wait > 0:
            seconds = str(math.ceil(wait))
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many requests with a wrong token; try again in {seconds} s",
                {"Retry-After": seconds},
            )
        logger.bind(action="api.token_refused", address=address).warning(
            "a request to the API had {}",
            f"the refused token {found.name}" if found else "an unknown token",
        )

    async def _record_use(self, name: str) -> None:
        now = self._context.services.clock.monotonic()
        if now - self._used.get(name, -USE_SECONDS) < USE_SECONDS:
            return
        self._used[name] = now
        with suppress(Busy):  # what may be read is shown while nothing can be written
            await self._context.services.store.tokens.record_use(name)


def _token_of(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    return token[:MAX_LENGTH] if scheme.lower() == "bearer" and token else None


def _unknown(detail: str) -> ApiError:
    headers = {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'}
    return ApiError(HTTPStatus.UNAUTHORIZED, detail, headers)
