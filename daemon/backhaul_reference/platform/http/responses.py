"""Response envelopes, paginated responses and problem responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import web
from yarl import URL

from backhaul_reference.platform.json_codec import Document, encode
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state.database import Listing, Window


def json_answer(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return raw_answer(encode(document), status, headers)


def raw_answer(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=body, status=status, headers=headers, content_type="application/json"
    )


def data_answer(data: Any, status: int = 200) -> web.Response:
    return raw_answer(data_body(data), status)


def data_body(data: Any) -> bytes:
    return encode({"data": data})


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is sent."""

    body: bytes
    links: str

    def answer(self) -> web.Response:
        return raw_answer(self.body, headers={"Link": self.links})


def page_of(url: URL, listing: Listing, window: Window) -> Page:
    document = {"data": listing.rows, "meta": meta(listing.total, window)}
    return Page(encode(document), link_header(url, listing.total, window))


def page_answer(request: web.Request, listing: Listing, window: Window) -> web.Response:
    return page_of(request.rel_url, listing, window).answer()


def last_page(total: int, window: Window) -> int:
    return max(1, -(-total // window.limit))


def meta(total: int, window: Window) -> Document:
    return {
        "page": window.page,
        "limit": window.limit,
        "total": total,
        "totalPages": -(-total // window.limit),
        "hasMore": window.page * window.limit < total,
    }


def link_header(url: URL, total: int, window: Window) -> str:
    """RFC 8288 links, relative to the request."""
    last = last_page(total, window)
    targets = {"first": 1, "last": last}
    if window.page > 1:
        targets["prev"] = min(window.page - 1, last)
    if window.page < last:
        targets["next"] = window.page + 1
    return ", ".join(
        f'<{url.update_query(page=number, limit=window.limit)}>; rel="{name}"'
        for name, number in targets.items()
    )


def problem_answer(problem: Problem, place: str, request_id: str) -> web.Response:
    """Return the response of a problem; `place` is the path or its template."""
    # The braces of a template have no place in a URI reference.
    document = problem.document(instance=quote(place), request_id=request_id)
    return web.Response(
        body=encode(document),
        status=problem.status,
        headers=problem.headers,
        content_type="application/problem+json",
    )
