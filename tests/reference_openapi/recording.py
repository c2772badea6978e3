"""Real requests, answers, refusals and deliveries, as the document shows them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference_openapi.conversation import Conversation, Exchange
    from scenes.reference_shop import Received

UNSHOWN = ("service.", "preflight.")
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")
TOKEN = re.compile(r'("trackingToken": ")[\w-]+')


def record(talk: Conversation, deliveries: Iterable[Received]) -> dict[str, Any]:
    """The first of each kind, without secrets."""
    found: dict[str, Any] = {}
    for one in talk.exchanges:
        if one.reply.status >= 400:
            _refused(found, talk, one)
        elif not talk.operation(one).startswith(UNSHOWN):
            _answered(found.setdefault(talk.operation(one), {}), one)
    for delivery in deliveries:
        body = json.loads(delivery.body)
        found.setdefault(body["topic"], body)
    text = SECRET.sub("whsec_", json.dumps(found))
    redacted: dict[str, Any] = json.loads(TOKEN.sub(r"\1", text))
    return redacted


def _answered(example: dict[str, Any], one: Exchange) -> None:
    """Rows say more than an empty list does."""
    if "answer" in example and example["answer"].get("data") != []:
        return
    example["answer"] = one.reply.body
    if one.sent is not None:
        example["request"] = one.sent


def _refused(found: dict[str, Any], talk: Conversation, one: Exchange) -> None:
    offered = talk.offered(one.path)
    concerned = offered.values() if one.reply.status == 405 else [_asked(offered, one)]
    for operation in concerned:
        example = found.setdefault(operation["operationId"], {})
        by_code = example.setdefault("refusals", {}).setdefault(
            str(one.reply.status), {}
        )
        by_code.setdefault(one.reply.code, one.reply.body)


def _asked(offered: Any, one: Exchange) -> Any:
    return offered[one.method.lower()]


def shape(value: Any) -> Any:
    """The members of a value, without what differs from run to run."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return None
