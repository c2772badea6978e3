"""What surrounds every request: its id, its headers, and its failures as problems."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.context import PLATFORM
from backhaul_reference.problems import Problem
from backhaul_reference.web.access_log import template_of
from backhaul_reference.web.answers import problem_answer

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
