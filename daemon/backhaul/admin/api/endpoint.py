"""An endpoint of the HTTP API: how its request is read, and how it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from backhaul.admin.api.problems import ApiError, failed, later, unusable
from backhaul.admin.auth import NotFound
from backhaul.errors import BackhaulError, Busy
from backhaul.store.tokens import Scope

if TYPE_CHECKING:
    from backhaul.admin.api.authentication import Caller, TokenCheck
    from backhaul.admin.api.streams import Streams
    from backhaul.admin.context import PageContext, Services
    from backhaul.store.read_models import Reader

T = TypeVar("T")
PREFIX = "/backhaul/v1"
KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
SHORTEST_KEY, LONGEST_KEY = 8, 255
LARGEST = 2**63 - 1
Number = Annotated[int, Meta(ge=1, le=LARGEST)]
"""A number of a row."""
Limit = Annotated[int, Meta(ge=1, le=500, description="Most items of the answer.")]
Cursor = Annotated[
    str,
    Meta(max_length=64, description="`next` of the page before, to continue there."),
]
Reason = Annotated[
    str, Meta(min_length=1, max_length=500, description="For the audit log.")
]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without parameters."""


class Api(Struct, frozen=True):
    """What the endpoints work on."""

    context: PageContext
    tokens: TokenCheck
    streams: Streams

    @property
    def services(self) -> Services:
        """Return the services of the daemon."""
        return self.context.services

    async def read(self, query: Callable[[Reader], T]) -> T:
        """Run a query of people. Raises ReadFailed."""
        return await self.services.store.read(query)

    async def change(self, call: Call, action: str, /, **values: Any) -> dict[str, Any]:
        """Carry out an action in the name of the caller's token."""
        return await self.services.changes[action]({**values, "who": call.who})


class Call(Struct, frozen=True):
    """One request: its parameters, its body, its key, and who the audit log names."""

    request: web.Request
    asked: Any
    body: Any
    who: str
    key: str


class Answer(Struct, frozen=True):
    """An answer with another status than its endpoint usually has."""

    status: HTTPStatus
    content: Any
    headers: dict[str, str] = {}


Handler: TypeAlias = Callable[[Api, Call], Awaitable[Any]]


class Endpoint(Struct, frozen=True, kw_only=True):
    """One line of the table of routes: it is served, and it is in the document.

    `asked` has the parameters of the path and of the query. `needs` is None for a
    public endpoint. With `keyed` the request must have an Idempotency-Key. `also` are
    further statuses of success.
    """

    method: str
    path: str
    needs: Scope | None
    handler: Handler
    answer: Any
    asked: type[Struct] = Nothing
    body: type[Struct] | None = None
    keyed: bool = False
    also: tuple[HTTPStatus, ...] = ()
    media: str = "application/json"

    @property
    def name(self) -> str:
        """Return the name of the operation."""
        return self.handler.__name__

    def served_by(self, api: Api) -> Callable[[web.Request], Awaitable[Any]]:
        """Return the handler for the listener."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await self._answer(api, request)
            except ApiError as error:
                return error.response()
            except Exception as error:  # noqa: BLE001 - a request must get an answer
                return failed(request, error).response()

        return handle

    async def _answer(self, api: Api, request: web.Request) -> web.StreamResponse:
        who = "nobody"
        if self.needs is not None:
            caller: Caller = await api.tokens.caller(request)
            caller.require(self.needs)
            who = caller.who
        asked = _parameters(request, self.asked)
        body = await _body(request, self.body) if self.body else None
        key = _key(request) if self.keyed else ""
        try:
            found = await self.handler(api, Call(request, asked, body, who, key))
        except Busy as error:
            raise later(error) from None
        except NotFound as error:
            raise ApiError(HTTPStatus.NOT_FOUND, str(error)) from None
        except BackhaulError as error:
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        if isinstance(found, web.StreamResponse):
            return found
        if not isinstance(found, Answer):
            found = Answer(HTTPStatus.OK, found)
        return web.Response(
            body=msgspec.json.encode(found.content),
            status=found.status.value,
            headers={**found.headers, "Content-Type": self.media},
        )


def _parameters(request: web.Request, kind: type[Struct]) -> Any:
    """Return the parameters of the path and of the query. Raises ApiError."""
    query = request.query
    if repeated := sorted({name for name in query if len(query.getall(name)) > 1}):
        raise unusable(f"the URL has several values of {', '.join(repeated)}")
    try:
        values = {**query, **request.match_info}
        return _checked(msgspec.convert(values, kind, strict=False))
    except msgspec.ValidationError as error:
        raise unusable(
            f"a parameter of the URL cannot be used: {error}; {PREFIX}/openapi.json"
            " describes the parameters"
        ) from None


async def _body(request: web.Request, kind: type[Struct]) -> Any:
    """Return the body of a request. Raises ApiError."""
    try:
        text = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "the body is larger than 1 MiB; send less at once",
        ) from None
    except (web.RequestPayloadError, ValueError):
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "the body cannot be read; send it again"
        ) from None
    if text and request.content_type != "application/json":
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body has the type {request.content_type}; send JSON with the header"
            " Content-Type: application/json",
        )
    try:
        return _checked(msgspec.json.decode(text or b"{}", type=kind))
    except msgspec.ValidationError as error:
        raise unusable(
            f"the body cannot be used: {error}; {PREFIX}/openapi.json describes the"
            " fields"
        ) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, f"the body is not JSON in UTF-8: {error}"
        ) from None


def _checked(found: Any) -> Any:
    """Return what was sent. Raises ApiError for text that no database stores."""
    if any(_is_unstorable(text) for text in _texts(msgspec.to_builtins(found))):
        raise unusable(
            "a text has a NUL character or half of a surrogate pair, which cannot be"
            " stored; remove it"
        )
    return found


def _is_unstorable(text: str) -> bool:
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return []


def _key(request: web.Request) -> str:
    """Return the key of a submission. Raises ApiError."""
    key = request.headers.get(KEY_HEADER, "")
    is_usable = key.isascii() and key.isprintable() and key == key.strip()
    if not (SHORTEST_KEY <= len(key) <= LONGEST_KEY and is_usable):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"the request needs the header {KEY_HEADER} with {SHORTEST_KEY} to"
            f" {LONGEST_KEY} printable ASCII characters, such as the number of the"
            " delivery note. Send the same key whenever you repeat this request",
        )
    return key


def reads(
    path: str, handler: Handler, answer: Any, asked: type[Struct] = Nothing
) -> Endpoint:
    """Return an endpoint that changes nothing."""
    return Endpoint(
        method="GET",
        path=path,
        needs=Scope.READ,
        handler=handler,
        asked=asked,
        answer=answer,
    )


def operates(path: str, handler: Handler, answer: Any, **more: Any) -> Endpoint:
    """Return an endpoint that changes something; `more` are fields of Endpoint."""
    return Endpoint(
        method="POST",
        path=path,
        needs=Scope.OPERATE,
        handler=handler,
        answer=answer,
        **more,
    )


def page(
    items: list[Any], limit: int, place: Callable[[Any], object]
) -> dict[str, Any]:
    """Return one page of `limit` + 1 rows, and the place where the next one begins."""
    more = len(items) > limit
    shown = items[:limit]
    return {"items": shown, "next": str(place(shown[-1])) if more else None}


def number_of(cursor: str | None) -> int | None:
    """Return the number in a cursor. Raises ApiError."""
    if cursor is None:
        return None
    if cursor.isascii() and cursor.isdigit() and int(cursor) <= LARGEST:
        return int(cursor)
    raise unusable(
        f"the cursor {cursor!r} is not one of this list; use `next` of the page before"
    )
