"""Login, logout, creation of the first user, the theme, and static files."""

from __future__ import annotations

import hashlib
import math
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import accounts, rendering
from backhaul.admin.accounts import LOGIN_PREFIX, TOKEN_BYTES, throttle_key
from backhaul.admin.auth import (
    OpenRoute,
    Route,
    begun_cookie_name,
    cookie_name,
    form_of,
)
from backhaul.admin.context import local_path
from backhaul.errors import BackhaulError, Busy
from backhaul.store.operators import BEGUN_SECONDS, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.operators import User

YEAR_SECONDS = 365 * 86_400
NO_PASSWORDS = (
    "Login with a password is turned off here: [admin] passwords is false. Use single"
    " sign-on. If it fails, an administrator can set passwords to true, restart the"
    " daemon, and add a user: backhaul users add NAME."
)
DISABLED = "This user is disabled. An administrator can enable the user."
TOO_LATE = "The login took longer than ten minutes, or has ended. Log in again."
WRONG_CODE = "The code is wrong, or was used before. Wait for the next code of the app."
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
        if context.provider is None:
            return web.Response(status=303, headers={"Location": "/first"})
        return _page(context, request, "login", no_users=True)
    with suppress(OSError):  # also for a user who was added on the command line
        context.first_token.delete()
    return show(context, request)


async def log_in(context: PageContext, request: web.Request) -> web.Response:
    """Check name and password; begin a session, or ask for the second factor."""
    if not context.services.settings.admin.passwords:
        return show(context, request, 403, NO_PASSWORDS)
    form = await form_of(request)
    name = form.get("name", "").strip().lower()
    require_secure(context, request)
    address, user = (
        client_key(context, request),
        await context.services.store.users.find(name),
    )
    known = user is not None and await context.past_logins.has(user, address)
    wait = await context.throttle.attempt(name[:64], address, known=known)
    if wait > 0:
        return _too_many_attempts(context, request, wait)
    secret = user.secret if user and not user.identity else None
    if (
        not await context.passwords.verify(secret, form.get("password", ""))
        or user is None
    ):
        logger.bind(action="dashboard.login_failed", address=address).warning(
            "failed login at the dashboard"
        )
        return show(context, request, 401, "The name or the password is wrong.")
    if user.disabled_at:
        return show(context, request, 403, DISABLED)
    path = local_path(form.get("next", "/"))
    if user.totp:
        return await _ask_for_code(context, request, user, path)
    return await _let_in(context, request, user, path)


async def _let_in(
    context: PageContext, request: web.Request, user: User, path: str
) -> web.Response:
    """Forget the failures of a user who has proved who they are; begin a session."""
    address = client_key(context, request)
    await context.throttle.succeeded(user.name, address)
    await context.past_logins.add(user, address)
    answer = web.Response(status=303, headers={"Location": path})
    await begin_session(context, request, user, answer)
    return answer


class _Passed(msgspec.Struct, frozen=True):
    """A login whose password was right, and which waits for a code."""

    user: str
    created_at: str
    epoch: int
    path: str


async def _ask_for_code(
    context: PageContext, request: web.Request, user: User, path: str
) -> web.Response:
    """Remember that the password was right, and lead to the page for the code."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    passed = _Passed(user.name, user.created_at, user.epoch, path)
    client = hashlib.sha256(client_key(context, request).encode()).hexdigest()
    content = msgspec.json.encode(passed).decode()
    await context.services.store.logins.keep_begun(_begun_key(token), client, content)
    answer = web.Response(status=303, headers={"Location": "/login/code"})
    secure = context.origin.is_https(request)
    answer.set_cookie(
        begun_cookie_name(request, secure=secure),
        token,
        path="/",
        max_age=int(BEGUN_SECONDS),
        secure=secure,
        httponly=True,
        samesite="Strict",
    )
    return answer


async def show_code(context: PageContext, request: web.Request) -> web.Response:
    """Show the page for the second factor."""
    if await _waiting(context, request) is None:
        return web.Response(status=303, headers={"Location": "/login"})
    return _page(context, request, "login_code")


async def enter_code(context: PageContext, request: web.Request) -> web.Response:
    """Check the code of a login whose password was right, and begin a session."""
    form = await form_of(request)
    require_secure(context, request)
    waiting = await _waiting(context, request)
    if waiting is None:
        return show(context, request, 401, TOO_LATE)
    user, path, key = waiting
    address = client_key(context, request)
    known = await context.past_logins.has(user, address)
    if wait := await context.throttle.attempt(user.name, address, known=known):
        return _too_many_attempts(context, request, wait, "login_code")
    try:
        is_right = await context.factors.accept(user, form.get("code", ""))
    except Busy:
        raise
    except BackhaulError as error:
        return _page(context, request, "login_code", 503, error=str(error))
    if not is_right:
        logger.bind(action="dashboard.login_failed", address=address).warning(
            "failed login at the dashboard: a wrong one-time code"
        )
        return _page(context, request, "login_code", 401, error=WRONG_CODE)
    if await context.services.store.logins.take_begun(key) is None:
        return show(context, request, 401, TOO_LATE)
    return await _let_in(context, request, user, path)


async def _waiting(
    context: PageContext, request: web.Request
) -> tuple[User, str, str] | None:
    """Return the user of a login that waits for a code, its path and its key."""
    secure = context.origin.is_https(request)
    key = _begun_key(request.cookies.get(begun_cookie_name(request, secure=secure), ""))
    content = await context.services.store.logins.find_begun(key)
    if content is None:
        return None
    passed = msgspec.json.decode(content, type=_Passed)
    user = await context.services.store.users.find(passed.user)
    if user is None or (user.created_at, user.epoch) != (
        passed.created_at,
        passed.epoch,
    ):
        return None
    return user, passed.path, key


def _begun_key(token: str) -> str:
    return hashlib.sha256(f"code:{token}".encode(errors="replace")).hexdigest()


def client_key(context: PageContext, request: web.Request) -> str:
    """Return the address by which failed attempts are counted."""
    return throttle_key(context.origin.address(request))


async def show_first_login(context: PageContext, request: web.Request) -> web.Response:
    """Show the form that creates the first user."""
    has_passwords = context.services.settings.admin.passwords
    if not has_passwords or await context.services.store.users.list():
        return web.Response(status=303, headers={"Location": "/login"})
    try:
        context.first_token.create()
    except OSError as error:
        text = f"the token for the first login cannot be written: {error}"
        raise web.HTTPServiceUnavailable(text=text) from None
    return _page(context, request, "setup", file=context.first_token.file)


async def create_first_user(context: PageContext, request: web.Request) -> web.Response:
    """Create the first user, an admin, if the token is right."""
    if not context.services.settings.admin.passwords:
        return show(context, request, 403, NO_PASSWORDS)
    form = await form_of(request)
    require_secure(context, request)
    address = client_key(context, request)
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
    answer = web.Response(status=303, headers={"Location": "/"})
    await begin_session(context, request, user, answer)
    return answer


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
    """End the session, and lead a user of the identity provider to its logout."""
    request, provider = page_request.request, context.provider
    answer = page_request.redirect("/login")
    known = provider if page_request.user.identity else None
    if known and (address := await known.logout_address()):
        # A form may only lead to this site, so the page itself leads on.
        answer = show_continue(context, request, address, "You are logged out")
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


async def begin_session(
    context: PageContext, request: web.Request, user: User, answer: web.Response
) -> None:
    """Begin a session with a new token and end the browser's previous one."""
    await _audit_login(context, request, user)
    for secure in (False, True):
        if token := request.cookies.get(cookie_name(request, secure=secure)):
            await context.sessions.end(token)
    logger.bind(action="dashboard.login", user=user.name).info(
        "{} logged in at the dashboard", user.name
    )
    secure = context.origin.is_https(request)
    answer.set_cookie(
        cookie_name(request, secure=secure),
        await context.sessions.begin(user),
        path="/",
        secure=secure,
        httponly=True,
        samesite="Strict",
    )


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


def require_secure(context: PageContext, request: web.Request) -> None:
    if not (context.origin.is_https(request) or context.origin.is_local(request)):
        raise web.HTTPForbidden(text=INSECURE_HTTP)


def _too_many_attempts(
    context: PageContext, request: web.Request, wait: float, page: str = "login"
) -> web.Response:
    seconds = math.ceil(wait)
    message = f"Too many failed attempts. Try again in {seconds} s."
    answer = _page(context, request, page, 429, error=message)
    answer.headers["Retry-After"] = str(seconds)
    return answer


def show(
    context: PageContext, request: web.Request, status: int = 200, error: str = ""
) -> web.Response:
    """Show the login page."""
    return _page(context, request, "login", status, error=error)


def show_continue(
    context: PageContext, request: web.Request, address: str, title: str
) -> web.Response:
    """Show a page that leads on to an address, also of another site."""
    return _page(context, request, "login_continue", address=address, title=title)


def next_path(request: web.Request) -> str:
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
        **{
            "error": "",
            "no_users": False,
            "plain": "" if private else INSECURE_HTTP,
            "next": next_path(request),
            "passwords": context.services.settings.admin.passwords,
            "provider": context.provider,
            **values,
        },
    )


OPEN = (
    OpenRoute("GET", "/login", show_login),
    OpenRoute("POST", "/login", log_in),
    OpenRoute("GET", "/login/code", show_code),
    OpenRoute("POST", "/login/code", enter_code),
    OpenRoute("GET", "/first", show_first_login),
    OpenRoute("POST", "/first", create_first_user),
    OpenRoute("GET", "/assets/{name}", send_asset),
)
ROUTES = (
    Route("POST", "/logout", Role.VIEWER, log_out),
    Route("POST", "/theme", Role.VIEWER, choose_theme),
)
