"""Real requests and answers of a walk, as the document shows them for examples."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reference_openapi.conversation import Conversation

UNSHOWN = ("service.", "preflight.")
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")
TOKEN = re.compile(r'("trackingToken": ")[\w-]+')


def record(talk: Conversation) -> dict[str, Any]:
    """The first request and answer of each operation, without secrets."""
    found: dict[str, Any] = {}
    for one in talk.exchanges:
        operation = talk.operation(one)
        if one.reply.status >= 300 or operation.startswith(UNSHOWN):
            continue
        example = {"answer": one.reply.body}
        if one.sent is not None:
            example["request"] = one.sent
        found.setdefault(operation, example)
    text = SECRET.sub("whsec_", json.dumps(found))
    redacted: dict[str, Any] = json.loads(TOKEN.sub(r"\1", text))
    return redacted


def shape(value: Any) -> Any:
    """The members of a value, without what differs from run to run."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return None
