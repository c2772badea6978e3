"""Login, logout, creation of the first user, the theme, and static files."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web
from loguru import logger

from backhaul.admin import accounts, rendering
from backhaul.admin.accounts import LOGIN_PREFIX, throttle_key
from backhaul.admin.auth import (
    OpenRoute,
    Route,
    cookie_name,
    form_of,
)
from backhaul.admin.context import local_path
from backhaul.errors import BackhaulError, Busy
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.operators import User

YEAR_SECONDS = 365 * 86_400
CACHE_FOREVER = "public, max-age=31536000, immutable"
INSECURE_HTTP = (
    "Login over plain http is disabled, because others could read the password. Open"
    " this page on the machine itself, for example through an SSH tunnel, or over"
    " https: set [admin] url to its https address, or [admin] trusted_proxies to your"
    " proxy."
)


async def show_login(context: PageContext, request: web.Request) -> web.Response:
    """Show the login page, or the first login if there are no users."""
    if not await context.services.store.users.list():
        return web.Response(status=303, headers={"Location": "/first"})
    with suppress(OSError):  # also for a user who was added on the command line
        context.first_token.delete()
    return _login(context, request)


async def log_in(context: PageContext, request: web.Request) -> web.Response:
    """Check name and password, and begin a session if they are right."""
    form = await form_of(request)
    name = form.get("name", "").strip().lower()
    _require_secure(context, request)
    address, user = (
        _client_key(context, request),
        await context.services.store.users.find(name),
    )
    known = user is not None and await context.past_logins.has(user, address)
    wait = await context.throttle.attempt(name[:64], address, known=known)
    if wait > 0:
        return _too_many_attempts(context, request, wait)
    secret = user.secret if user else None
    if (
        not await context.passwords.verify(secret, form.get("password", ""))
        or user is None
    ):
        logger.bind(action="dashboard.login_failed", address=address).warning(
            "failed login at the dashboard"
        )
        return _login(context, request, 401, "The name or the password is wrong.")
    await context.throttle.succeeded(name[:64], address)
    await context.past_logins.add(user, address)
    return await _start_session(context, request, user, form.get("next", "/"))


def _client_key(context: PageContext, request: web.Request) -> str:
    """Return the address by which failed attempts are counted."""
    return throttle_key(context.origin.address(request))


async def show_first_login(context: PageContext, request: web.Request) -> web.Response:
    """Show the form that creates the first user."""
    if await context.services.store.users.list():
        return web.Response(status=303, headers={"Location": "/login"})
    try:
        context.first_token.create()
    except OSError as error:
        text = f"the token for the first login cannot be written: {error}"
        raise web.HTTPServiceUnavailable(text=text) from None
    return _page(context, request, "setup", file=context.first_token.file)


async def create_first_user(context: PageContext, request: web.Request) -> web.Response:
    """Create the first user, an admin, if the token is right."""
    form = await form_of(request)
    _require_secure(context, request)
    address = _client_key(context, request)
    if (wait := await context.throttle.attempt("", address)) > 0:
        return _too_many_attempts(context, request, wait)
    file = context.first_token.file
    if not context.first_token.verify(form.get("token", "").strip()):
        message = f"The token is wrong. Copy it from {file}."
        return _page(context, request, "setup", 401, file=file, error=message)
    await context.throttle.succeeded("", address)
    try:
        user = await _first_user(context, form)
    except Busy:
        raise
    except BackhaulError as error:
        return _page(context, request, "setup", 422, file=file, error=str(error))
    return await _start_session(context, request, user, "/")


async def _first_user(context: PageContext, form: Mapping[str, str]) -> User:
    name = form.get("name", "").strip().lower()
    password = form.get("password", "")
    if password != form.get("again", ""):
        raise BackhaulError("the two passwords differ; type the same password twice")
    users = context.services.store.users
    asked = {"password": password, "who": name}
    await accounts.create_user(
        users, context.passwords, name, Role.ADMIN, asked, first=True
    )
    context.first_token.delete()
    user = await users.find(name)
    if user is None:
        raise BackhaulError(
            "another user has removed the new user in the meantime; ask an"
            " administrator to add the user again"
        )
    return user


async def log_out(context: PageContext, page_request: PageRequest) -> web.Response:
    """End the session."""
    answer = page_request.redirect("/login")
    for secure in (False, True):
        name = cookie_name(page_request.request, secure=secure)
        if token := page_request.request.cookies.get(name):
            await context.sessions.end(token)
            answer.del_cookie(name, secure=secure, path="/")
    return answer


async def choose_theme(context: PageContext, page_request: PageRequest) -> web.Response:
    """Set the theme for this browser, and show the page again."""
    theme = page_request.form.get("theme", "")
    if theme not in rendering.THEMES:
        names = ", ".join(rendering.THEMES)
        raise BackhaulError(f"there is no theme {theme!r}; choose one of: {names}")
    answer = page_request.redirect(local_path(page_request.form.get("next", "/")))
    answer.set_cookie(
        rendering.THEME_COOKIE,
        theme,
        path="/",
        max_age=YEAR_SECONDS,
        secure=context.origin.is_https(page_request.request),
        httponly=True,
        samesite="Strict",
    )
    return answer


async def send_asset(_: PageContext, request: web.Request) -> web.StreamResponse:
    """Send an asset; browsers may cache it, because its URL contains its digest."""
    name = request.match_info["name"]
    file = rendering.ASSETS / name
    kind = rendering.TYPES.get(file.suffix)
    if kind is None or name not in {known.name for known in rendering.ASSETS.iterdir()}:
        raise web.HTTPNotFound
    headers = {"Cache-Control": CACHE_FOREVER, "Content-Type": f"{kind}; charset=utf-8"}
    return web.Response(body=file.read_bytes(), headers=headers)


async def _start_session(
    context: PageContext, request: web.Request, user: User, path: str
) -> web.Response:
    """Begin a session with a new token and end the browser's previous one."""
    await _audit_login(context, request, user)
    for secure in (False, True):
        if token := request.cookies.get(cookie_name(request, secure=secure)):
            await context.sessions.end(token)
    logger.bind(action="dashboard.login", user=user.name).info(
        "{} logged in at the dashboard", user.name
    )
    answer = web.Response(status=303, headers={"Location": local_path(path)})
    secure = context.origin.is_https(request)
    answer.set_cookie(
        cookie_name(request, secure=secure),
        await context.sessions.begin(user),
        path="/",
        secure=secure,
        httponly=True,
        samesite="Strict",
    )
    return answer


async def _audit_login(context: PageContext, request: web.Request, user: User) -> None:
    """Add the login to the audit log, if the database can be written.

    A login succeeds without its entry, so that operators can see why the disk is full.
    Every change needs an audit entry of its own and is refused without one.
    """
    try:
        await context.services.store.users.record_login(
            user.name, f"{LOGIN_PREFIX}{context.origin.address(request)}"
        )
    except Busy as error:
        logger.bind(action="dashboard.login_not_audited", user=user.name).warning(
            "{} logged in at the dashboard, but the audit log has no entry of it: {}",
            user.name,
            error,
        )


def _require_secure(context: PageContext, request: web.Request) -> None:
    if not (context.origin.is_https(request) or context.origin.is_local(request)):
        raise web.HTTPForbidden(text=INSECURE_HTTP)


def _too_many_attempts(
    context: PageContext, request: web.Request, wait: float
) -> web.Response:
    seconds = math.ceil(wait)
    message = f"Too many failed attempts. Try again in {seconds} s."
    answer = _page(context, request, "login", 429, error=message, next=_next(request))
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _login(
    context: PageContext, request: web.Request, status: int = 200, error: str = ""
) -> web.Response:
    return _page(context, request, "login", status, error=error, next=_next(request))


def _next(request: web.Request) -> str:
    return local_path(request.query.get("next", "/"))


def _page(
    context: PageContext,
    request: web.Request,
    name: str,
    status: int = 200,
    **values: Any,
) -> web.Response:
    private = context.origin.is_https(request) or context.origin.is_local(request)
    return rendering.page(
        f"{name}.html",
        context.services.clock.now(),
        status,
        theme=rendering.theme_of(request),
        **{"error": "", "plain": "" if private else INSECURE_HTTP, **values},
    )


OPEN = (
    OpenRoute("GET", "/login", show_login),
    OpenRoute("POST", "/login", log_in),
    OpenRoute("GET", "/first", show_first_login),
    OpenRoute("POST", "/first", create_first_user),
    OpenRoute("GET", "/assets/{name}", send_asset),
)
ROUTES = (
    Route("POST", "/logout", Role.VIEWER, log_out),
    Route("POST", "/theme", Role.VIEWER, choose_theme),
)
