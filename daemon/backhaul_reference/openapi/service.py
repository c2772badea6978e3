"""What monitors, robots and generators ask: no store, no key, no limit."""

from backhaul_reference.documents import Document
from backhaul_reference.openapi.headers import REQUEST_ID
from backhaul_reference.openapi.refusals import NOT_OFFERED, refusal
from backhaul_reference.openapi.shapes import ref


def _get(name: str, summary: str, media: str, schema: Document) -> Document:
    done = {
        "description": summary,
        "headers": REQUEST_ID,
        "content": {media: {"schema": schema}},
    }
    return {
        "get": {
            "operationId": f"service.{name}",
            "tags": ["service"],
            "summary": summary,
            "responses": {"200": done, "405": refusal(405, *NOT_OFFERED)},
            "security": [],
        }
    }


SERVICE: Document = {
    "/healthz": _get("health", "It is up", "application/json", ref("Health")),
    "/robots.txt": _get("robots", "No robots", "text/plain", {"type": "string"}),
    "/openapi.json": _get(
        "describe", "This document", "application/json", {"type": "object"}
    ),
}
