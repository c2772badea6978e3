"""Sessions: login and logout, cookies, and the checks of who sent a form."""

import asyncio
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import MultiDict

from backhaul_reference.control.routes import CONTROL_TOKEN
from backhaul_reference.dashboard import rendering
from backhaul_reference.dashboard.forms import Form
from backhaul_reference.data_folder import ACCESS_FILE
from backhaul_reference.platform.clock import SystemClock
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.formats import bytes_sent, sha256_hex
from backhaul_reference.platform.http.endpoint import (
    BODY_DEADLINE_SECONDS,
    MAX_BODY_BYTES,
)
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.rate_limits import Limits, PerMinute

COOKIE = "backhaul_reference_session"
"""Differs from the daemon's cookie: browsers share cookies among ports."""
PATH = "/dashboard"
LOGIN = PATH + "/login"
LASTS_SECONDS = 12 * 3600
MOST = 200
TRIES = PerMinute("logins", 10)
NONCE = "backhaul_login"
THROTTLE: web.AppKey[Limits] = web.AppKey("throttle", Limits)
FORM_BYTES = 16 * MAX_BODY_BYTES
"""Read limit above every field's limit, so that the field shows its own error."""
UNREADABLE = (ValueError, LookupError, RuntimeError, HttpProcessingError)
"""Errors that aiohttp raises for undecodable form data."""
URLENCODED = "application/x-www-form-urlencoded"
MOST_FIELDS = 5_000
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: https:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
# Under no-referrer a browser would send its forms with the origin "null".
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}


@dataclass(slots=True)
class Session:
    """One logged-in browser; the next page shows the notice."""

    ends: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notice: str | None = None

    def take_notice(self) -> str | None:
        notice, self.notice = self.notice, None
        return notice


@dataclass(slots=True)
class Sessions:
    """All sessions, by the hash of their cookie; a restart ends them."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    live: dict[str, Session] = field(default_factory=dict)

    def open(self, response: web.Response) -> Session:
        """Begin a session; the response carries its cookie."""
        now = time.monotonic()
        self.live = {name: one for name, one in self.live.items() if one.ends > now}
        while len(self.live) >= MOST:
            del self.live[next(iter(self.live))]
        secret = secrets.token_urlsafe(32)
        session = self.live[sha256_hex(secret)] = Session(now + LASTS_SECONDS)
        set_cookie(response, COOKIE, secret)
        return session

    def find(self, request: web.Request) -> Session | None:
        session = self.live.get(sha256_hex(request.cookies.get(COOKIE, "")))
        if session is None or session.ends <= time.monotonic():
            return None
        return session

    def close(self, request: web.Request, response: web.Response) -> None:
        self.live.pop(sha256_hex(request.cookies.get(COOKIE, "")), None)
        response.del_cookie(COOKIE, path=PATH)

    def login_token(self, nonce: str) -> str:
        """The login form's token, bound to the nonce in the visitor's cookie."""
        return hmac.digest(self.key, bytes_sent(nonce), hashlib.sha256).hex()


SESSIONS: web.AppKey[Sessions] = web.AppKey("sessions", Sessions)


def set_cookie(response: web.Response, name: str, value: str) -> None:
    response.set_cookie(name, value, path=PATH, httponly=True, samesite="Strict")


def throttle() -> Limits:
    """The login throttle; always on and in real time, because it guards a secret."""
    return Limits(SystemClock(), enabled=True)


def _login_page(request: web.Request, problem: Problem | None = None) -> web.Response:
    nonce = secrets.token_urlsafe(16)
    values = {
        "csrf": request.app[SESSIONS].login_token(nonce),
        "file": request.app[PLATFORM].database.with_name(ACCESS_FILE),
        "problem": problem,
    }
    status = problem.status if problem else 200
    response = rendering.page(request, "login.html", values, status)
    response.headers.update(problem.headers if problem else {})
    set_cookie(response, NONCE, nonce)
    return response


async def show_login(request: web.Request) -> web.Response:
    return _login_page(request)


async def log_in(request: web.Request) -> web.Response:
    nonce = request.cookies.get(NONCE, "")
    try:
        form = await checked_form(request, request.app[SESSIONS].login_token(nonce))
        request.app[THROTTLE].count(TRIES, request.remote or "")
        expected = request.app[CONTROL_TOKEN].encode()
        token = str(form.get("token", "")).strip().encode()
        if not hmac.compare_digest(token, expected):
            raise Problem(401, "CONTROL_TOKEN_INVALID", "that is not the control token")
    except Problem as problem:
        return _login_page(request, problem)
    response = redirect(PATH)
    request.app[SESSIONS].close(request, response)
    request.app[SESSIONS].open(response)
    return response


async def log_out(request: web.Request) -> web.Response:
    sessions = request.app[SESSIONS]
    session = sessions.find(request)
    response = redirect(LOGIN)
    if session is not None:
        try:
            await checked_form(request, session.csrf)
        except Problem as problem:
            return rendering.error_page(request, problem)
        sessions.close(request, response)
    return response


def redirect(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


async def checked_form(request: web.Request, token: str) -> Form:
    """Return the form, after the check that it came from our page."""
    if request.method != "POST":
        return MultiDict()
    _check_origin(request)
    try:
        async with asyncio.timeout(BODY_DEADLINE_SECONDS):
            form = await _form_of(request.clone(client_max_size=FORM_BYTES))
    except web.HTTPRequestEntityTooLarge:
        size = f"larger than {FORM_BYTES >> 20} MiB"
        detail = f"what was sent is {size}, or has too many fields: go back to what you"
        detail += " typed, and send less"
        raise Problem(413, "BODY_TOO_LARGE", detail) from None
    except TimeoutError:
        raise Problem(408, "BODY_TIMEOUT", "the form came too slowly") from None
    except UNREADABLE:
        raise Problem(400, "INVALID_FORM", "the form cannot be read") from None
    _check_token(form.get("csrf"), token)
    return form


async def _form_of(request: web.Request) -> Form:
    """Return the form; undecodable characters become replacement characters."""
    try:
        return await request.post()
    except UNREADABLE:
        if request.content_type != URLENCODED:
            raise
    text = (await request.read()).decode("utf-8", "replace")
    return MultiDict(
        parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    )


def _check_origin(request: web.Request) -> None:
    """Reject a form that another site sent."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    own = f"{request.scheme}://{request.host}"
    origin = request.headers.get("Origin", own)
    if site not in {"same-origin", "none"} or origin != own:
        raise Problem(403, "FOREIGN_ORIGIN", "the form came from another site")


def _check_token(sent: object, expected: str) -> None:
    text = sent if isinstance(sent, str) else ""
    if not hmac.compare_digest(text.encode(), expected.encode()):
        detail = "the form is out of date: load the page again"
        raise Problem(403, "CSRF_TOKEN_INVALID", detail)
