"""What the fuzzer must know that no schema can say; each departure with its reason.

A repeated `Idempotency-Key` with another body is refused by contract (422), so each
request has a key of its own. A reference inside a body to something that does not
exist is refused with 422 too, and the fuzzer cannot know what exists: such members
are left out of valid bodies, or get what the store has. What the lines of an order
cost together is bounded, which no schema can say of a sum of products.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

import schemathesis

STORE_ID = "REFERENCE_STORE_ID"
REFERENCES = ("collectionIds", "currency", "topics")
KEY = "Idempotency-Key"
CHEAP_DIGITS = 6


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if case.meta is not None and not case.meta.generation.mode.is_positive:
        return
    if case.headers and KEY in case.headers:
        case.headers[KEY] = str(uuid.uuid4())
    if isinstance(case.body, dict) and case.method == "PUT":
        # A change may clear either, but not the last of the two.
        cleared = (("email", None), ("phone", None))
        kept = (one for one in case.body.items() if one not in cleared)
        case.body = dict(kept)
    if isinstance(case.body, dict):
        case.body = _resolved(case.operation.path, case.body)


def _resolved(path: str, body: dict[str, Any]) -> dict[str, Any]:
    kept = "topics" if path.endswith(("/webhooks", "{id}")) else ""
    found = {
        name: value
        for name, value in body.items()
        if name not in REFERENCES or name == kept
    }
    if path.endswith("/fulfill"):
        found.pop("items", None)
    if "storeId" in found:
        found["storeId"] = os.environ[STORE_ID]
    for name, member in (("addresses", "isDefault"), ("variants", "id")):
        if isinstance(found.get(name), list):
            found[name] = [_anonymous(one, member) for one in found[name]]
    if path == "/api/v1/orders":
        found["items"] = [_affordable(one) for one in found["items"]]
    return found


def _affordable(one: Any) -> Any:
    found = {**one, "title": one.get("title") or "Lamp"}
    dear = len(str(one["price"])) > CHEAP_DIGITS
    return found | {"quantity": 1, "price": "1"} if dear else found


def _anonymous(one: Any, member: str) -> Any:
    found = {name: value for name, value in one.items() if name not in ("id", member)}
    return {"price": "1", **found} if member == "id" else found
