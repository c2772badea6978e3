"""Headers of requests and answers."""

from backhaul_reference.documents import Document
from backhaul_reference.openapi.shapes import TEXT

IDEMPOTENCY_KEY: Document = {
    "type": "string",
    # Visible characters, quoted or not; only an empty quotation is no key.
    "pattern": "^([!-~]|[!#-~][!-~]|[!-~][!#-~]|[!-~]{3,255})$",
    "description": "Sent again with the same request, it is answered the same.",
}
RATE: Document = {
    "RateLimit-Policy": {
        "description": "The limit: so many requests in a window of seconds",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left, and the seconds until all of it is back",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";r=[0-9]+;t=[0-9]+$'},
    },
}
REQUEST_ID: Document = {
    "X-Request-Id": {"required": True, "schema": {"type": "string"}},
}
RETRY: Document = {
    "Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}},
}
CHALLENGE: Document = {"WWW-Authenticate": {"required": True, "schema": TEXT}}
LOCATION: Document = {
    "Location": {
        "description": "The address of what was made",
        "required": True,
        "schema": TEXT,
    },
}
LINK: Document = {
    "Link": {
        "description": "RFC 8288: first, prev, next and last page",
        "required": True,
        "schema": TEXT,
    },
}
REPLAYED: Document = {
    "Idempotency-Replayed": {
        "description": "The answer was given before",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
ALLOW: Document = {
    "Allow": {
        "description": "The methods that are offered, divided by commas",
        "required": True,
        "schema": TEXT,
    },
}
BY_STATUS = {401: CHALLENGE, 405: ALLOW, 429: RETRY}


def headers(status: int) -> Document:
    """The headers of a refusal."""
    return {**REQUEST_ID, **RATE, **BY_STATUS.get(status, {})}
