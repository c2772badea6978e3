"""Which members of the platform's objects are searched, and which tell of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core import strict_json
from backhaul.errors import Unusable
from backhaul.store.upkeep import Words

if TYPE_CHECKING:
    from collections.abc import Iterator

_TITLES = {"order": "name", "product": "title", "customer": "name"}
_SEARCHED = frozenset(
    {
        *("name", "firstName", "lastName", "company", "email", "phone"),
        *("address1", "address2", "city", "province", "zip"),
        *("number", "externalId", "note", "tags", "discountCode"),
        *("trackingNumber", "trackingCompany", "transactionId"),
        *("title", "variantTitle", "sku", "barcode", "handle", "vendor"),
    }
)
_TOLD = {
    "orders": ("status", "financialStatus", "fulfillmentStatus"),
    "products": ("status",),
    "inventory": ("reason", "stock"),
}


def describe(kind: str, document: str) -> Words:
    """Return what an object can be found by."""
    tree = msgspec.json.decode(document)
    title = tree.get(_TITLES[kind]) or tree.get("number") or tree.get("email") or ""
    # Each word once: an order of ten shirts is not ten times as much about shirts.
    words = dict.fromkeys(_words(tree, is_searched=False))
    return Words(str(title), "\n".join(words))


def told(topic: str, body: bytes) -> str:
    """Return in a few words what a delivery or read says, or nothing."""
    try:
        document = strict_json.decode_object(body)
    except Unusable:
        return ""
    inner = document.get("data")
    data = inner if isinstance(inner, dict) else document
    family = topic.partition("/")[0]
    values = [data.get(name) for name in _TOLD.get(family, ())]
    return ", ".join(str(value) for value in values if isinstance(value, str | int))


def _words(node: Any, *, is_searched: bool) -> Iterator[str]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from _words(inner, is_searched=name in _SEARCHED)
    elif isinstance(node, list):
        for inner in node:
            yield from _words(inner, is_searched=is_searched)
    elif is_searched and isinstance(node, str | int):
        yield str(node)
