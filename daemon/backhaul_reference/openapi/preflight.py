"""What browsers ask before they send a shopper's request across origins."""

from collections.abc import Iterable

from backhaul_reference.documents import Document
from backhaul_reference.openapi.headers import REQUEST_ID
from backhaul_reference.openapi.refusals import NOT_OFFERED, refusal
from backhaul_reference.openapi.shapes import TEXT
from backhaul_reference.storefront.routes import PREFLIGHT

ASKED = ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers")


def preflight(path: str, methods: Iterable[str], places: list[Document]) -> Document:
    """The answer says what the path offers, whichever store is meant."""
    granted = {**PREFLIGHT, "Access-Control-Allow-Methods": ", ".join(sorted(methods))}
    headers = {
        name: {"required": True, "schema": {"type": "string", "const": value}}
        for name, value in granted.items()
    }
    done = {"description": "What a page may send", "headers": headers | REQUEST_ID}
    asked = [{"name": name, "in": "header", "schema": TEXT} for name in ASKED]
    return {
        "operationId": f"preflight.{path}",
        "tags": ["preflight"],
        "summary": "What a browser asks before it sends x-subdomain",
        "parameters": [*places, *asked],
        "responses": {"204": done, "405": refusal(405, *NOT_OFFERED)},
        "security": [],
    }
