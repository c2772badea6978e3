"""Endpoints: one row per operation, and the request steps they share."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from backhaul_reference.platform import json_codec
from backhaul_reference.platform.context import PLATFORM, Platform
from backhaul_reference.platform.http import request_bodies, responses, test_controls
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.http.query_params import Query
from backhaul_reference.platform.http.test_controls import (
    ADMITTED,
    TEST_CONTROLS,
    quirks_of,
)
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.idempotency import Claim, Kept, keep, recall
from backhaul_reference.platform.state.inventory import Source
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

T = TypeVar("T")
MAX_BODY_BYTES = 1024 * 1024
BODY_DEADLINE_SECONDS = 10
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request: its store, its key and its scopes."""

    store: Store
    principal: str
    source: Source
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a mutation; a tracking token is added only when it is sent."""

    data: Any
    status: int = 200
    location: str | None = None
    token_order_id: str | None = None
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One admitted request."""

    request: web.Request
    platform: Platform
    caller: Caller
    raw: bytes
    body: Any

    @property
    def store(self) -> Store:
        return self.caller.store

    @property
    def query(self) -> Query:
        """Return the query parameters that the store's quirks support."""
        request = self.request
        quirks = quirks_of(request)
        return test_controls.query_by_quirks(
            quirks, template_of(request), request.query
        )

    def path(self, name: str) -> str:
        return self.request.match_info[name]

    def read(self, question: Callable[[Rows], T]) -> T:
        return self.platform.reader.read(question)

    async def evaluate(self, question: Callable[[Rows], Any]) -> web.Response:
        """Answer a POST that changes nothing, without an envelope."""
        if "Idempotency-Key" in self.request.headers:
            return await self.mutate(lambda tx: Answer(question(tx), bare=True))
        return responses.json_answer(self.read(question))

    async def mutate(self, operation: Callable[[Tx], Answer]) -> web.Response:
        """Commit a change and answer; a repeated Idempotency-Key repeats the answer."""
        claim = _claim(self)
        kept = await self.platform.writer.run(lambda tx: _once(tx, claim, operation))
        self.platform.wake_dispatcher()
        headers = {"Location": kept.location} if kept.location else {}
        if kept.replayed:
            headers["Idempotency-Replayed"] = "true"
        body = _with_token(self.platform, kept)
        return responses.raw_answer(body, kept.status, headers)


Handler = Callable[[Call], Awaitable[web.StreamResponse]]
Admit = Callable[[web.Request, "Endpoint"], Caller]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation of a surface."""

    method: str
    path: str
    handle: Handler
    scope: str | None = None
    body: type[request_bodies.Body] | None = None
    body_optional: bool = False
    store_in_body: bool = False
    gate: Callable[[Caller], None] | None = None


def mount(app: web.Application, endpoints: Sequence[Endpoint], admit: Admit) -> None:
    for endpoint in endpoints:
        serve = _serving(endpoint, admit)
        if endpoint.method == "GET":
            app.router.add_get(endpoint.path, serve)
        else:
            app.router.add_route(endpoint.method, endpoint.path, serve)


def _serving(
    endpoint: Endpoint, admit: Admit
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(request: web.Request) -> web.StreamResponse:
        caller = admit(request, endpoint)
        if TEST_CONTROLS in request.app:
            request[ADMITTED] = caller.store
            test_controls.check_offered(caller.store.quirks, endpoint.path)
            if (failed := await test_controls.inject_refusal(request)) is not None:
                return failed
        if endpoint.gate is not None:
            endpoint.gate(caller)
        raw = await read_raw(request) if endpoint.method != "GET" else b""
        body = _body(request, endpoint, caller, raw)
        platform = request.app[PLATFORM]
        return await endpoint.handle(Call(request, platform, caller, raw, body))

    return serve


async def read_raw(request: web.Request) -> bytes:
    """Return the raw body; enforces the size and time limits."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(415, "UNSUPPORTED_ENCODING", "content encodings are not accepted")
    try:
        async with asyncio.timeout(BODY_DEADLINE_SECONDS):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "BODY_TIMEOUT", "the body came too slowly") from None


def _body(
    request: web.Request, endpoint: Endpoint, caller: Caller, raw: bytes
) -> request_bodies.Body | None:
    if endpoint.body is None:
        return None
    if not raw and endpoint.body_optional:
        return request_bodies.parse(endpoint.body, {}, caller.store.exponent)
    if request.content_type != "application/json":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON")
    document = json_codec.decode_object(raw)
    document = test_controls.body_by_quirks(quirks_of(request), endpoint.path, document)
    return request_bodies.parse(endpoint.body, document, caller.store.exponent)


def _claim(call: Call) -> Claim | None:
    header = call.request.headers.get("Idempotency-Key")
    ignored = "no-idempotency" in quirks_of(call.request)
    if header is None or ignored or call.request.method != "POST":
        return None
    key = header[1:-1] if len(header) > 1 and header[0] == header[-1] == '"' else header
    if not 1 <= len(key) <= 255 or not all(33 <= ord(one) <= 126 for one in key):
        raise Problem(
            400, "INVALID_IDEMPOTENCY_KEY", "must be 1 to 255 visible characters"
        )
    # The concrete path, not its template: the same key on another order is reuse.
    digest = hashlib.sha256(call.request.path.encode() + b"\n" + call.raw)
    return Claim(
        store_id=call.store.id,
        principal=call.caller.principal,
        route=f"{call.request.method} {template_of(call.request)}",
        key=key,
        fingerprint=digest.hexdigest(),
    )


def _once(tx: Tx, claim: Claim | None, operation: Callable[[Tx], Answer]) -> Kept:
    earlier = recall(tx, claim) if claim is not None else None
    if earlier is not None:
        return earlier
    answer = operation(tx)
    body = json_codec.encode(answer.data if answer.bare else {"data": answer.data})
    kept = Kept(answer.status, body, answer.location, answer.token_order_id)
    if claim is not None:
        keep(tx, claim, kept)
    return kept


def _with_token(platform: Platform, kept: Kept) -> bytes:
    if kept.token_order_id is None:
        return kept.body
    document = json_codec.decode_stored(kept.body)
    document["data"]["trackingToken"] = platform.tokens.token(kept.token_order_id)
    return json_codec.encode(document)
