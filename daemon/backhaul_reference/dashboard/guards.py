"""Guards: what every answer tells the browser, and which forms are believed."""

import hmac

from aiohttp import web

from backhaul_reference.problems import Problem

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
    """Refuse a form that another site sent."""
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
