"""Authorization: the role each route needs, CSRF and session checks."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from aiohttp import web
from loguru import logger
from msgspec import Struct

from backhaul.admin import rendering
from backhaul.admin.context import (
    PageContext,
    PageRequest,
    is_refresh,
    local_path,
    parts_of,
)
from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.accounts import Session
    from backhaul.store.operators import Role, User

COOKIE, BEGUN_COOKIE = "backhaul_session", "backhaul_login"
HOST_BOUND = "__Host-"
TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105 - a header's name
SAFE = frozenset({"GET", "HEAD"})
SET_UP = "/account/totp"
SET_UP_PATHS = frozenset({SET_UP, f"{SET_UP}/begin", f"{SET_UP}/confirm", "/logout"})
"""The pages for a user who has to set up a second factor first."""
FORM_TOO_LARGE = (
    "The form is larger than 1 MiB or has too many fields. Nothing was changed. "
    "The Back button of the browser keeps what you typed."
)
ERROR_TITLES = {
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.INTERNAL_SERVER_ERROR: "This page failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not available now",
}
"""Titles of error pages by status; "Not done" for others."""
NOT_URLENCODED = "the form must be urlencoded and in UTF-8"
_UTF_8 = {"utf-8", "utf8"}
_UNREADABLE = (ValueError, web.RequestPayloadError)
"""Errors that aiohttp raises for undecodable form data."""

Page: TypeAlias = Callable[[PageContext, PageRequest], Awaitable[web.StreamResponse]]
OpenPage: TypeAlias = Callable[
    [PageContext, web.Request], Awaitable[web.StreamResponse]
]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NotFound(BackhaulError):
    """The requested object does not exist."""


class Route(Struct, frozen=True):
    """A page that needs a role; a `polled` page does not keep a session alive."""

    method: str
    path: str
    needs: Role
    page: Page
    polled: bool = False


class OpenRoute(Struct, frozen=True):
    """A page or file without login: the login page and the assets."""

    method: str
    path: str
    handler: OpenPage


class Authorizer:
    """Wraps page handlers with checks of session, CSRF token and role."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def page(self, route: Route) -> Handler:
        """Return a handler that requires a login and the route's role."""

        context = self._context

        async def handle(request: web.Request) -> web.StreamResponse:
            self._require_own_page(request)
            touch = not (route.polled or is_refresh(request))
            login = await current_login(context, request, touch=touch)
            if login is None:
                return _to_login(request)
            session, user = login
            if context.factors.must_set_up(user) and route.path not in SET_UP_PATHS:
                return _redirect(request, SET_UP)
            try:
                form = await form_of(request)
            except web.HTTPRequestEntityTooLarge as error:
                page_request = PageRequest(request, user, session, {})
                return self._error_page(
                    page_request, HTTPStatus(error.status), error.text or ""
                )
            page_request = PageRequest(request, user, session, form)
            if request.method not in SAFE:
                _require_token(request, session, form)
            answer = await self._answer(route, page_request)
            with suppress(Busy):  # a notice is lost, and what it says was done
                await self._context.sessions.save(session)
            return answer

        return handle

    def open_page(self, route: OpenRoute) -> Handler:
        """Return a handler that requires no login."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._require_own_page(request)
            try:
                return await route.handler(self._context, request)
            except Busy as error:
                status = HTTPStatus.SERVICE_UNAVAILABLE
                return rendering.plain_text(status, str(error))

        return handle

    def _require_own_page(self, request: web.Request) -> None:
        if request.method in SAFE or self._context.origin.is_own_page(request):
            return
        raise web.HTTPForbidden(
            text="this request did not come from a page of this dashboard. If the"
            " dashboard is behind a proxy, set [admin] url to the address that"
            " browsers open"
        )

    async def _answer(
        self, route: Route, page_request: PageRequest
    ) -> web.StreamResponse:
        if page_request.user.role < route.needs:
            return self._refused(page_request, route.needs)
        try:
            return await route.page(self._context, page_request)
        except Busy as error:
            return self._error_page(
                page_request, HTTPStatus.SERVICE_UNAVAILABLE, str(error)
            )
        except NotFound as error:
            return self._error_page(page_request, HTTPStatus.NOT_FOUND, str(error))
        except BackhaulError as error:
            return self._error_page(
                page_request, HTTPStatus.UNPROCESSABLE_ENTITY, str(error)
            )
        except web.HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - a page must say that it failed
            return self._failed(page_request, error)

    def _failed(self, page_request: PageRequest, error: Exception) -> web.Response:
        request, number = page_request.request, secrets.token_hex(4)
        logger.bind(action="page.failed", error=number).opt(exception=error).error(
            "{} {} failed for a reason that nobody foresaw",
            request.method,
            request.path,
        )
        message = (
            f"The daemon met an unexpected error ({type(error).__name__}). Its log has"
            f" the details under error {number}. If the program was upgraded since the"
            " daemon started, restart the daemon; otherwise send the details to the"
            " maintainers."
        )
        if request.method not in SAFE:
            message += " Check whether the change was made before you repeat it."
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return self._error_page(page_request, status, message)

    def _refused(self, page_request: PageRequest, needs: Role) -> web.Response:
        message = (
            f"Your role is {page_request.user.role.word}; this page needs {needs.word}."
        )
        return self._error_page(page_request, HTTPStatus.FORBIDDEN, message)

    def _error_page(
        self, page_request: PageRequest, status: HTTPStatus, message: str
    ) -> web.Response:
        title = ERROR_TITLES.get(status, "Not done")
        back = _page_before(page_request.request)
        return self._context.page(
            page_request, "refused", status, title=title, message=message, back=back
        )


def _page_before(request: web.Request) -> str:
    """Return the path of the page whose form was sent, empty if it is unknown.

    A page that is the answer to a form cannot be loaded again, so only a page is
    returned that the form's address is below, as `/quarantine/1/edit` is.
    """
    sent_by = parts_of(request.headers.get("Referer", ""))
    is_form = request.method not in SAFE and sent_by.path
    if not is_form or not request.path.startswith(f"{sent_by.path}/"):
        return ""
    return local_path(sent_by._replace(scheme="", netloc="", fragment="").geturl())


async def current_login(
    context: PageContext, request: web.Request, *, touch: bool
) -> tuple[Session, User] | None:
    """Return session and user; a changed password or role counts at once.

    With `touch` the session lives longer. May raise Busy.
    """
    secure = context.origin.is_https(request)
    token = request.cookies.get(cookie_name(request, secure=secure))
    session = await context.sessions.find(token, touch=touch) if token else None
    if session is None:
        return None
    user = await context.services.store.users.find(session.user)
    return (session, user) if user and session.belongs_to(user) else None


def cookie_name(request: web.Request, *, secure: bool) -> str:
    """Return the name of the session's cookie.

    Browsers share cookies among the ports of a host, so the name contains the port and
    two dashboards on one machine do not log each other out. The cookie satisfies the
    rules of the __Host- prefix.
    """
    return _name(COOKIE, request, secure=secure)


def begun_cookie_name(request: web.Request, *, secure: bool) -> str:
    """Return the name of the cookie of a login that has begun."""
    return _name(BEGUN_COOKIE, request, secure=secure)


def _name(cookie: str, request: web.Request, *, secure: bool) -> str:
    port = _port(request)
    return f"{HOST_BOUND if secure else ''}{cookie}{f'_{port}' if port else ''}"


def _port(request: web.Request) -> int | None:
    """Return the port in the Host header; None means the default port."""
    try:
        return parts_of(f"//{request.host}").port
    except ValueError:
        return None


async def form_of(request: web.Request) -> Mapping[str, str]:
    """Return the text fields of a form, {} for GET. Raises HTTP errors 400 and 413."""
    if request.method in SAFE:
        return {}
    # Some Python codecs take a minute for 1 MiB, and some return no text. Each part of
    # a multipart form may name a codec; our pages send no multipart forms.
    is_in_parts = request.content_type == "multipart/form-data"
    if is_in_parts or (request.charset or "utf-8").lower() not in _UTF_8:
        raise web.HTTPBadRequest(text=NOT_URLENCODED)
    try:
        sent = await request.post()
    except web.HTTPRequestEntityTooLarge as error:
        error.text = FORM_TOO_LARGE
        raise
    except _UNREADABLE:
        raise web.HTTPBadRequest(text="the form cannot be decoded") from None
    return {name: value for name, value in sent.items() if isinstance(value, str)}


def _require_token(
    request: web.Request, session: Session, form: Mapping[str, str]
) -> None:
    token = request.headers.get(TOKEN_HEADER) or form.get("csrf", "")
    if not hmac.compare_digest(token.encode(errors="replace"), session.csrf.encode()):
        raise web.HTTPForbidden(text="this page is out of date; reload it")


def _to_login(request: web.Request) -> web.Response:
    if "HX-Request" in request.headers:
        return web.Response(status=401, headers={"HX-Redirect": "/login"})
    if request.method not in SAFE:
        return rendering.plain_text(401, "You are not logged in. Log in first.")
    path = quote(request.path_qs, safe="")
    return web.Response(status=303, headers={"Location": f"/login?next={path}"})


def _redirect(request: web.Request, path: str) -> web.Response:
    """Lead the browser to a page, also from a request of htmx."""
    if "HX-Request" in request.headers:
        return web.Response(status=401, headers={"HX-Redirect": path})
    return web.Response(status=303, headers={"Location": path})
