"""The problems that an operation may answer, by status and code."""

from backhaul_reference.documents import Document
from backhaul_reference.openapi.answers import Success
from backhaul_reference.openapi.headers import headers
from backhaul_reference.openapi.shapes import (
    NUMBER,
    TEXT,
    list_of,
    object_of,
    ref,
)
from backhaul_reference.problems import TITLES
from backhaul_reference.web.endpoint import Endpoint

Codes = dict[int, tuple[str, ...]]
V1 = "/api/v1/"
FLAW = object_of(pointer=TEXT, code=TEXT, detail=TEXT)
PROBLEM = object_of(
    type=TEXT,
    title=TEXT,
    status=NUMBER,
    detail=TEXT,
    instance=TEXT,
    code=TEXT,
    requestId=TEXT,
    errors=list_of(FLAW),
)
UNKNOWN_KEY = ("API_KEY_MISSING", "API_KEY_INVALID")
NOT_OFFERED = ("METHOD_NOT_ALLOWED",)
"""Answered to other methods, which the path does not list; here to say how."""
NOT_ALLOWED = ("INSUFFICIENT_SCOPE", "STORE_INACTIVE")


def refusals(endpoint: Endpoint, success: Success, *, asks: bool) -> Document:
    return {
        str(status): refusal(status, *codes)
        for status, codes in codes_of(endpoint, success, asks=asks).items()
        if codes
    }


def codes_of(endpoint: Endpoint, success: Success, *, asks: bool) -> Codes:
    """Every code, by its status; `asks` says that there are query parameters."""
    keyed = endpoint.path.startswith(V1)
    writes, repeats = endpoint.method != "GET", endpoint.method == "POST"
    body = endpoint.body is not None
    store = () if endpoint.store_in_body else ("STORE_HEADER_REQUIRED",)
    store = ("AMBIGUOUS_CREDENTIALS",) if keyed else store
    return {
        400: (
            *store,
            *(("INVALID_JSON",) if body else ()),
            *(("INVALID_IDEMPOTENCY_KEY",) if repeats else ()),
            *success.bad,
        ),
        401: UNKNOWN_KEY if keyed else ("LOGIN_REQUIRED",) if success.login else (),
        403: NOT_ALLOWED if keyed else (),
        404: _missing(success, keyed=keyed),
        405: NOT_OFFERED,
        408: ("BODY_TIMEOUT",) if writes else (),
        409: tuple(success.conflicts),
        413: ("BODY_TOO_LARGE",) if writes else (),
        415: _media(writes=writes, body=body),
        422: (
            *(("VALIDATION_ERROR",) if body or asks else ()),
            *success.invalid,
            *(("IDEMPOTENCY_KEY_REUSED",) if repeats else ()),
        ),
        429: ("RATE_LIMITED",),
        500: ("INTERNAL_ERROR",),
        503: ("STORAGE_UNAVAILABLE",) if writes else (),
    }


def _missing(success: Success, *, keyed: bool) -> tuple[str, ...]:
    store = () if keyed else ("STORE_NOT_FOUND",)
    return tuple(dict.fromkeys((*store, *success.missing)))


def _media(*, writes: bool, body: bool) -> tuple[str, ...]:
    if not writes:
        return ()
    media = ("UNSUPPORTED_MEDIA_TYPE",) if body else ()
    return (*media, "UNSUPPORTED_ENCODING")


def refusal(status: int, *codes: str) -> Document:
    """Describe the problems of one status.

    Every refusal has the same shape, so that a generated client has one class for
    all. The codes that can occur are listed in the description and in `x-codes`.
    """
    title = TITLES.get(status, "The request failed")
    problem = {"schema": ref("Problem")}
    return {
        "description": f"{title}: {', '.join(codes)}",
        "x-codes": [*codes],
        "headers": headers(status),
        "content": {"application/problem+json": problem},
    }
