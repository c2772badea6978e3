"""Login, logout, creation of the first user, and static files."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web
from loguru import logger

from backhaul.admin import accounts, rendering
from backhaul.admin.auth import (
    OpenRoute,
    Route,
    cookie_name,
    form_of,
)
from backhaul.admin.throttle import LOGIN_WORDS, counted
from backhaul.errors import BackhaulError, Busy
from backhaul.store.users import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.context import Desk, Visit
    from backhaul.store.users import User

FOREVER = "public, max-age=31536000, immutable"
PLAIN = (
    "Over plain http a password is read by whoever listens. Open this page on the"
    " machine itself (an SSH tunnel does), or by https: set [admin] url to its address,"
    " or [admin] trusted_proxies to your proxy."
)


async def show_login(desk: Desk, request: web.Request) -> web.Response:
    """Ask who is there; where nobody can be, lead to the first login."""
    if not await desk.given.users.list():
        return web.Response(status=303, headers={"Location": "/first"})
    with suppress(OSError):  # whoever was added, and in whatever way
        desk.first_token.spend()
    return _login(desk, request)


async def log_in(desk: Desk, request: web.Request) -> web.Response:
    """Check name and password; a success gives the browser a new session."""
    form = await form_of(request)
    name = form.get("name", "").strip().lower()
    _require_private(desk, request)
    address, user = _address(desk, request), await desk.given.users.find(name)
    known = user is not None and await desk.past_logins.has(user, address)
    if (wait := desk.throttle.wait(name[:64], address, known=known)) > 0:
        return _slowed(desk, request, wait)
    secret = user.secret if user else None
    # Counted before it is known to fail: guesses that come at once count as well.
    desk.throttle.failed(name[:64], address)
    if not await desk.passwords.fits(secret, form.get("password", "")) or user is None:
        logger.bind(action="dashboard.refused", address=address).warning(
            "somebody failed to log in at the dashboard"
        )
        return _login(desk, request, 401, "No user has this name and password.")
    desk.throttle.succeeded(name, address)
    await desk.past_logins.add(user, address)
    return await _welcome(desk, request, user, form.get("next", "/"))


def _address(desk: Desk, request: web.Request) -> str:
    """Return the address that failures of this request count for."""
    return counted(desk.origin.address(request))


async def show_first(desk: Desk, request: web.Request) -> web.Response:
    """Ask for the token that makes the first user."""
    if await desk.given.users.list():
        return web.Response(status=303, headers={"Location": "/login"})
    try:
        desk.first_token.make()
    except OSError as error:
        text = f"the token for the first login cannot be written: {error}"
        raise web.HTTPServiceUnavailable(text=text) from None
    return _page(desk, request, "setup", file=desk.first_token.file)


async def make_first(desk: Desk, request: web.Request) -> web.Response:
    """Make the first user, an admin, for whoever can read the token's file."""
    form = await form_of(request)
    _require_private(desk, request)
    address = _address(desk, request)
    if (wait := desk.throttle.wait("", address)) > 0:
        return _slowed(desk, request, wait)
    file = desk.first_token.file
    if not desk.first_token.fits(form.get("token", "").strip()):
        desk.throttle.failed("", address)
        words = f"That is not the token in {file}."
        return _page(desk, request, "setup", 401, file=file, error=words)
    try:
        user = await _first_user(desk, form)
    except Busy:
        raise
    except BackhaulError as error:
        return _page(desk, request, "setup", 422, file=file, error=str(error))
    return await _welcome(desk, request, user, "/")


async def _first_user(desk: Desk, form: Mapping[str, str]) -> User:
    name = form.get("name", "").strip().lower()
    password = form.get("password", "")
    if password != form.get("again", ""):
        raise BackhaulError("the two passwords differ")
    users = desk.given.users
    asked = {"password": password, "who": name}
    await accounts.create(users, desk.passwords, name, Role.ADMIN, asked, first=True)
    desk.first_token.spend()
    user = await users.find(name)
    if user is None:
        raise BackhaulError("somebody took the user away at once")
    return user


async def log_out(desk: Desk, visit: Visit) -> web.Response:
    """End the session."""
    answer = visit.back_to("/login")
    for secure in (False, True):
        name = cookie_name(visit.request, secure=secure)
        if token := visit.request.cookies.get(name):
            desk.sessions.end(token)
            answer.del_cookie(name, secure=secure, path="/")
    return answer


async def send_asset(_: Desk, request: web.Request) -> web.StreamResponse:
    """Send one of our own files, which browsers may keep: its address is its digest."""
    name = request.match_info["name"]
    file = rendering.ASSETS / name
    kind = rendering.TYPES.get(file.suffix)
    if kind is None or name not in {known.name for known in rendering.ASSETS.iterdir()}:
        raise web.HTTPNotFound
    headers = {"Cache-Control": FOREVER, "Content-Type": f"{kind}; charset=utf-8"}
    return web.Response(body=file.read_bytes(), headers=headers)


async def _welcome(
    desk: Desk, request: web.Request, user: User, wanted: str
) -> web.Response:
    """Begin a session of a new token; one that the browser had before is over."""
    await _note(desk, request, user)
    for secure in (False, True):
        if token := request.cookies.get(cookie_name(request, secure=secure)):
            desk.sessions.end(token)
    logger.bind(action="dashboard.login", user=user.name).info(
        "{} logged in at the dashboard", user.name
    )
    answer = web.Response(status=303, headers={"Location": _inside(wanted)})
    secure = desk.origin.is_https(request)
    answer.set_cookie(
        cookie_name(request, secure=secure),
        desk.sessions.begin(user),
        path="/",
        secure=secure,
        httponly=True,
        samesite="Strict",
    )
    return answer


async def _note(desk: Desk, request: web.Request, user: User) -> None:
    """Write the login down, where that can be written.

    It changes nothing, and whoever comes while the disk is full comes to see why: all
    that could be changed then has its own line in the audit, and is refused without.
    """
    try:
        await desk.given.users.came(
            user.name, f"{LOGIN_WORDS}{desk.origin.address(request)}"
        )
    except Busy as error:
        logger.bind(action="dashboard.unnoted", user=user.name).warning(
            "{} logged in at the dashboard, and the audit has no line of it: {}",
            user.name,
            error,
        )


def _inside(wanted: str) -> str:
    """Return a path of ours: nobody is sent to where a link told us to."""
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_ours and wanted.isprintable() else "/"


def _require_private(desk: Desk, request: web.Request) -> None:
    if not (desk.origin.is_https(request) or desk.origin.is_local(request)):
        raise web.HTTPForbidden(text=PLAIN)


def _slowed(desk: Desk, request: web.Request, wait: float) -> web.Response:
    seconds = math.ceil(wait)
    words = f"Too many failed attempts; try again in {seconds} s."
    answer = _page(desk, request, "login", 429, error=words, next=_next(request))
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _login(
    desk: Desk, request: web.Request, status: int = 200, error: str = ""
) -> web.Response:
    return _page(desk, request, "login", status, error=error, next=_next(request))


def _next(request: web.Request) -> str:
    return _inside(request.query.get("next", "/"))


def _page(
    desk: Desk, request: web.Request, name: str, status: int = 200, **values: Any
) -> web.Response:
    private = desk.origin.is_https(request) or desk.origin.is_local(request)
    return rendering.page(
        f"{name}.html",
        desk.given.clock.now(),
        status,
        **{"error": "", "plain": "" if private else PLAIN, **values},
    )


OPEN = (
    OpenRoute("GET", "/login", show_login),
    OpenRoute("POST", "/login", log_in),
    OpenRoute("GET", "/first", show_first),
    OpenRoute("POST", "/first", make_first),
    OpenRoute("GET", "/assets/{name}", send_asset),
)
ROUTES = (Route("POST", "/logout", Role.VIEWER, log_out),)
