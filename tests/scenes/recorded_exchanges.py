"""Records the exchanges with reference servers, once for each shape."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.http.test_controls import ADMITTED, PROXY_PAGE
from scenes import leftovers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator

    from aiohttp.typedefs import Middleware

VARIABLE = "TEST_EXCHANGES_FILE"
ACCEPTED = (*range(200, 300), 409)
"""Statuses of requests that conform to the OpenAPI document."""
FOR_PEOPLE = ("/shop/", "/shop-files/")
WORD = re.compile(r"[A-Z][A-Z_]*|[a-z]{1,12}")
MIXED = re.compile(r"[A-Za-z0-9]*[A-Za-z][A-Za-z0-9]*")
WHOLE = re.compile(r"[0-9]+(?=\.)")
LONGEST_TEXT = 60


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response, with bodies decoded as Latin-1."""

    method: str
    path: str
    template: str
    query: list[tuple[str, str]]
    headers: list[tuple[str, str]]
    body: str
    status: int
    reply_headers: list[tuple[str, str]]
    reply_body: str

    def shape(self) -> Hashable:
        """Return a key; exchanges with equal keys are equal for a schema."""
        return (
            *(self.method, self.template, self.status),
            *(_pairs(self.query), _pairs(self.headers), _pairs(self.reply_headers)),
            *(_body(self.body), _body(self.reply_body)),
        )


@dataclass(slots=True)
class Recorder:
    """Passes the first exchange of each shape to `tell`."""

    tell: Callable[[Exchange], None]
    seen: set[Hashable] = field(default_factory=set)

    def note(self, exchange: Exchange) -> None:
        shape = exchange.shape()
        if shape not in self.seen:
            self.seen.add(shape)
            self.tell(exchange)


@dataclass(slots=True)
class ExchangeFiles:
    """The files with the exchanges of this process and of the servers it started."""

    here: list[Exchange] = field(default_factory=list)
    files: dict[Path, int] = field(default_factory=dict)

    def file(self) -> Path:
        """Return a new file for a server's exchanges."""
        handle, name = tempfile.mkstemp(dir=leftovers.folder("exchanges"))
        os.close(handle)
        self.files[Path(name)] = 0
        return Path(name)

    def read_new(self) -> Iterator[Exchange]:
        """Yield the exchanges that were not read before."""
        while self.here:
            yield self.here.pop(0)
        for file, offset in self.files.items():
            content = file.read_bytes()[offset:]
            whole = content[: content.rfind(b"\n") + 1]
            self.files[file] = offset + len(whole)
            yield from (Exchange(**json.loads(line)) for line in whole.splitlines())


EXCHANGE_FILES = ExchangeFiles()
HERE = Recorder(EXCHANGE_FILES.here.append)


def recorder_to(file: Path) -> Recorder:
    """Return a recorder that writes each exchange to a file at once, unbuffered."""
    log = file.open("ab", buffering=0)
    return Recorder(lambda one: _write(log.write, one))


def _write(write: Callable[[bytes], Any], exchange: Exchange) -> None:
    write(json.dumps(asdict(exchange)).encode() + b"\n")


def recording(recorder: Recorder) -> Middleware:
    """Return a middleware that records exchanges."""

    @web.middleware
    async def record(
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        response = await handler(request)
        if isinstance(response, web.Response) and _is_described(request, response):
            recorder.note(await _exchange(request, response))
        return response

    return record


def _is_described(request: web.Request, response: web.Response) -> bool:
    """Return True if the OpenAPI document describes this response.

    It does not describe responses that a fault changed or withheld, responses of stores
    with quirks, and pages for people.
    """
    store = request.get(ADMITTED)
    quirks = request.app[PLATFORM].quirks if store is None else store.quirks
    hung_up = request.transport is None or request.transport.is_closing()
    garbled = response.prepared or response.text == PROXY_PAGE
    for_people = request.path.startswith(FOR_PEOPLE)
    return not (quirks or hung_up or garbled or for_people or request.method == "HEAD")


async def _exchange(request: web.Request, response: web.Response) -> Exchange:
    # Only the body of an accepted request was certainly read completely.
    sent = await request.read() if response.status in ACCEPTED else b""
    answered = response.body if isinstance(response.body, bytes) else b""
    return Exchange(
        method=request.method,
        path=request.rel_url.raw_path,
        template=template_of(request),
        query=list(request.query.items()),
        headers=list(request.headers.items()),
        body=sent.decode("latin-1"),
        status=response.status,
        reply_headers=list(response.headers.items()),
        reply_body=answered.decode("latin-1"),
    )


def _pairs(pairs: list[tuple[str, str]]) -> Hashable:
    return tuple((name.lower(), _text(value)) for name, value in pairs)


def _body(text: str) -> Hashable:
    try:
        return shape_of(json.loads(text.encode("latin-1")))
    except ValueError:
        return _text(text)


def shape_of(value: Any) -> Hashable:
    """Return the structure of a value without its details."""
    if isinstance(value, dict):
        return tuple((name, shape_of(value[name])) for name in sorted(value))
    if isinstance(value, list):
        return frozenset(shape_of(one) for one in value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return type(value).__name__, value < 0
    return str(value)


@lru_cache(maxsize=50_000)
def _text(text: str) -> str:
    """Return the words of enumerations as they are, and a pattern of other texts."""
    if WORD.fullmatch(text):
        return text
    # Truncate first: the pattern takes quadratic time on long runs of digits.
    return WHOLE.sub("0", re.sub("[0-9]", "0", MIXED.sub("a", text[:LONGEST_TEXT])))
