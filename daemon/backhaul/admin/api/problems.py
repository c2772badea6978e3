"""The errors of the HTTP API, as problem documents (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from loguru import logger
from msgspec import Struct

from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBLEM = "application/problem+json"


class Problem(Struct, frozen=True):
    """What was wrong, where, and what to do about it (RFC 9457)."""

    title: str
    status: int
    detail: str


class ApiError(Exception):
    """A request that gets an answer with a Problem."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        """Return the answer."""
        found = Problem(self.status.phrase, self.status.value, str(self))
        return web.Response(
            body=msgspec.json.encode(found),
            status=self.status.value,
            headers={**self.headers, "Content-Type": PROBLEM},
        )


def later(error: Busy) -> ApiError:
    """Return the answer to a request that can be tried again."""
    retry = {"Retry-After": str(error.retry_after_seconds)}
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), retry)


def failed(request: web.Request, error: Exception) -> ApiError:
    """Return the answer to a request that failed; log an unexpected error."""
    if isinstance(error, Busy):  # the token could not be read
        return later(error)
    logger.bind(action="api.failed").opt(exception=error).error(
        "{} {} failed for a reason that nobody foresaw", request.method, request.path
    )
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"the daemon met an unexpected error ({type(error).__name__}); its log has the"
        " details. Send them to the maintainers",
    )


def unusable(detail: str) -> ApiError:
    """Return the answer to a request with a value that cannot be used."""
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
