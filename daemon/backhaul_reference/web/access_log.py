"""What is logged of requests: never a path, because paths hold tracking tokens."""

import logging
from collections.abc import MutableMapping
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import HttpProcessingError


def template_of(request: web.BaseRequest) -> str:
    """The route's template, or a dash where no route answered."""
    try:
        match = getattr(request, "match_info", None)
    except AssertionError:
        # So aiohttp says that it never routed this, for it was no HTTP.
        return "-"
    resource = match.route.resource if match is not None else None
    return resource.canonical if resource is not None else "-"


class TemplateAccessLogger(AbstractAccessLogger):
    """One line for each answer: method, template, status, milliseconds."""

    def log(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float
    ) -> None:
        self.logger.info(
            "request method=%s route=%s status=%d ms=%.1f",
            request.method,
            template_of(request),
            response.status,
            time * 1000,
        )


class DiscreetLogger(logging.LoggerAdapter[logging.Logger]):
    """Names an exception's type only: aiohttp's own show the line they cannot read.

    A request that is no HTTP, or was cut off, is the client's fault and no error.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if isinstance(kwargs.get("exc_info"), HttpProcessingError | ConnectionError):
            level = logging.INFO
        super().log(level, msg, *args, **kwargs)

    def process(
        self, msg: str, kwargs: MutableMapping[str, Any]
    ) -> tuple[str, MutableMapping[str, Any]]:
        error = kwargs.pop("exc_info", None)
        if isinstance(error, BaseException):
            msg = f"{msg} error={type(error).__name__}"
        return msg, kwargs
