"""Request ids, error handling and access logs without paths."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import HttpProcessingError

from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.http.responses import problem_answer
from backhaul_reference.platform.problems import Problem


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

    A malformed or truncated request is the client's fault and is not an error.
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


log = logging.getLogger(__name__)
EXTRA_HEADERS = web.RequestKey("extra_headers", dict[str, str])
KEYED = "/api/v1/"
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

BY_STATUS = {
    404: ("NOT_FOUND", "there is nothing here"),
    405: ("METHOD_NOT_ALLOWED", "the method is not offered here"),
    413: ("BODY_TOO_LARGE", "the body is larger than 1 MiB"),
}


@web.middleware
async def answer_problems(request: web.Request, handler: Next) -> web.StreamResponse:
    request_id = request.app[PLATFORM].ids.new("req")
    extra = request[EXTRA_HEADERS] = {"X-Request-Id": request_id}
    try:
        response = await handler(request)
    except Exception as error:  # noqa: BLE001  - every failure becomes a problem
        problem = _problem_of(error, request, request_id)
        response = problem_answer(problem, _place_of(request), request_id)
    for name, value in extra.items():
        response.headers.setdefault(name, value)
    return response


def _place_of(request: web.Request) -> str:
    """Return the path of the keyed API; other paths may hold tracking tokens."""
    template = template_of(request)
    return request.path if template.startswith(KEYED) else template


def _problem_of(error: Exception, request: web.Request, request_id: str) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, web.HTTPException):
        return _of_http(error)
    log.error(
        "failed route=%s request=%s", template_of(request), request_id, exc_info=error
    )
    return Problem(500, "INTERNAL_ERROR", "the failure was logged")


def _of_http(error: web.HTTPException) -> Problem:
    code, detail = BY_STATUS.get(error.status, ("HTTP_ERROR", "the request failed"))
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return Problem(error.status, code, detail, headers=headers)
