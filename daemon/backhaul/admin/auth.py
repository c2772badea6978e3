"""Authorization: the role each route needs, CSRF and session checks."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from aiohttp import web
from msgspec import Struct

from backhaul.admin import client_address, rendering
from backhaul.admin.context import Desk, Visit
from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.accounts import Session
    from backhaul.store.users import Role, User

COOKIE = "backhaul_session"
HOST_BOUND = "__Host-"
TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105 - a header's name
SAFE = frozenset({"GET", "HEAD"})
TOO_LARGE = (
    "What was sent is larger than 1 MiB, or has too many fields; nothing was changed. "
    "Go back to the form for what was typed."
)
OTHERWISE_WRITTEN = "a form is sent urlencoded, and in UTF-8"
_UTF_8 = {"utf-8", "utf8"}
_UNREADABLE = (ValueError, web.RequestPayloadError)
"""What aiohttp raises for broken letters, and for what cannot be unpacked."""

Page: TypeAlias = Callable[[Desk, Visit], Awaitable[web.StreamResponse]]
Door: TypeAlias = Callable[[Desk, web.Request], Awaitable[web.StreamResponse]]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Missing(BackhaulError):
    """There is no such thing to be shown."""


class Route(Struct, frozen=True):
    """A page for those with a role; a `polled` one keeps no session alive."""

    method: str
    path: str
    needs: Role
    page: Page
    polled: bool = False


class OpenRoute(Struct, frozen=True):
    """Something for everybody: the way in, and the files that pages are made of."""

    method: str
    path: str
    door: Door


class Guard:
    """Lets those in who may."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def pages(self, route: Route) -> Handler:
        """Return a handler that asks who is there first."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._require_own_page(request)
            known = await self._known(request, touch=not route.polled)
            if known is None:
                return _to_login(request)
            session, user = known
            try:
                form = await form_of(request)
            except web.HTTPRequestEntityTooLarge as error:
                visit = Visit(request, user, session, {})
                return self._told(visit, HTTPStatus(error.status), error.text or "")
            visit = Visit(request, user, session, form)
            if request.method not in SAFE:
                _require_token(request, session, form)
            if user.role < route.needs:
                return self._refused(visit, route.needs)
            return await self._answer(route, visit)

        return handle

    def door(self, route: OpenRoute) -> Handler:
        """Return a handler that asks nobody."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._require_own_page(request)
            try:
                return await route.door(self._desk, request)
            except Busy as error:
                status = HTTPStatus.SERVICE_UNAVAILABLE
                return rendering.page_of_words(status, str(error))

        return handle

    async def _known(
        self, request: web.Request, *, touch: bool
    ) -> tuple[Session, User] | None:
        """Return who is there; what was changed since the login counts at once."""
        secure = self._desk.origin.is_https(request)
        token = request.cookies.get(cookie_name(request, secure=secure))
        session = self._desk.sessions.find(token, touch=touch) if token else None
        if session is None:
            return None
        user = await self._desk.given.users.find(session.user)
        return (session, user) if user and session.is_of(user) else None

    def _require_own_page(self, request: web.Request) -> None:
        if request.method in SAFE or self._desk.origin.is_own_page(request):
            return
        raise web.HTTPForbidden(
            text="this did not come from a page of this dashboard; behind a proxy, set "
            "[admin] url to the address that people open"
        )

    async def _answer(self, route: Route, visit: Visit) -> web.StreamResponse:
        try:
            return await route.page(self._desk, visit)
        except Busy as error:
            return self._told(visit, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Missing as error:
            return self._told(visit, HTTPStatus.NOT_FOUND, str(error))
        except BackhaulError as error:
            return self._told(visit, HTTPStatus.UNPROCESSABLE_ENTITY, str(error))

    def _refused(self, visit: Visit, needs: Role) -> web.Response:
        words = f"You are {visit.user.role.word}; this needs the role {needs.word}."
        return self._told(visit, HTTPStatus.FORBIDDEN, words)

    def _told(self, visit: Visit, status: HTTPStatus, words: str) -> web.Response:
        return self._desk.page(visit, "refused", status, words=words)


def cookie_name(request: web.Request, *, secure: bool) -> str:
    """Return the name of the session's cookie.

    A browser gives cookies to every port of a machine, so the port is in the name: who
    has two dashboards open stays logged in at both. It holds to what __Host- promises.
    """
    port = client_address.port(request)
    return f"{HOST_BOUND if secure else ''}{COOKIE}{f'_{port}' if port else ''}"


async def form_of(request: web.Request) -> Mapping[str, str]:
    """Return the texts of a form; none where nothing is sent. May answer 400 or 413."""
    if request.method in SAFE:
        return {}
    # Of what Python can decode some takes a minute for 1 MiB, and some becomes no text.
    # Each part of a multipart form may name its own; no page of ours sends one.
    is_in_parts = request.content_type == "multipart/form-data"
    if is_in_parts or (request.charset or "utf-8").lower() not in _UTF_8:
        raise web.HTTPBadRequest(text=OTHERWISE_WRITTEN)
    try:
        sent = await request.post()
    except web.HTTPRequestEntityTooLarge as error:
        error.text = TOO_LARGE
        raise
    except _UNREADABLE:
        raise web.HTTPBadRequest(text="the form cannot be read") from None
    return {name: value for name, value in sent.items() if isinstance(value, str)}


def _require_token(
    request: web.Request, session: Session, form: Mapping[str, str]
) -> None:
    given = request.headers.get(TOKEN_HEADER) or form.get("csrf", "")
    if not hmac.compare_digest(given.encode(errors="replace"), session.csrf.encode()):
        raise web.HTTPForbidden(text="this page is out of date; open it again")


def _to_login(request: web.Request) -> web.Response:
    if "HX-Request" in request.headers:
        return web.Response(status=401, headers={"HX-Redirect": "/login"})
    if request.method not in SAFE:
        return rendering.page_of_words(401, "Nobody is logged in here; log in first.")
    asked = quote(request.path_qs, safe="")
    return web.Response(status=303, headers={"Location": f"/login?next={asked}"})
