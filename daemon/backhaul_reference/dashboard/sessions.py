"""Sessions, cookies, security headers and CSRF checks."""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field

from aiohttp import web

from backhaul_reference.platform.formats import bytes_sent, sha256_hex
from backhaul_reference.platform.problems import Problem

COOKIE = "backhaul_reference_session"
"""Differs from the daemon's cookie: browsers share cookies among ports."""
PATH = "/dashboard"
LASTS_SECONDS = 12 * 3600
MOST = 200


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


def set_cookie(response: web.Response, name: str, value: str) -> None:
    response.set_cookie(name, value, path=PATH, httponly=True, samesite="Strict")


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


def check_origin(request: web.Request) -> None:
    """Reject a form that another site sent."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    own = f"{request.scheme}://{request.host}"
    origin = request.headers.get("Origin", own)
    if site not in {"same-origin", "none"} or origin != own:
        raise Problem(403, "FOREIGN_ORIGIN", "the form came from another site")


def check_token(sent: object, expected: str) -> None:
    text = sent if isinstance(sent, str) else ""
    if not hmac.compare_digest(text.encode(), expected.encode()):
        detail = "the form is out of date: load the page again"
        raise Problem(403, "CSRF_TOKEN_INVALID", detail)
