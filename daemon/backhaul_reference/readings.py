"""Documents as a store's quirks word them: money, enums, instants, member names."""

import re
from typing import Any

import msgspec

from backhaul_reference import instants
from backhaul_reference.documents import Document
from backhaul_reference.quirks import NONE, Quirks

MONEY_NAMES = {
    "price",
    "compareAtPrice",
    "min",
    "max",
    "unitPrice",
    "subtotal",
    "discount",
    "shipping",
    "paymentFee",
    "tax",
    "total",
    "amountDue",
    "totalSpent",
    "fee",
    "amount",
}
ENUM_NAMES = {
    "status",
    "financialStatus",
    "fulfillmentStatus",
    "paymentMethod",
    "method",
    "source",
    "type",
    "reason",
    "inventoryPolicy",
    "mode",
    "trigger",
    "from",
    "to",
}
# What merchants name themselves is no member of ours.
FREE_NAMES = {"options", "settings"}
MONEY = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
ENUM = re.compile(r"[A-Z]+(?:_[A-Z]+)*", re.ASCII)
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
WORDED = {
    "number-money",
    "lowercase-enums",
    "coarse-time",
    "tracking-fields",
    "no-note",
}


def reword(quirks: Quirks, document: Any) -> Any:
    """The document in the store's own words; it is answered as it was without any."""
    return _reword(quirks, "", document) if quirks.names & WORDED else document


def _reword(quirks: Quirks, name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return value if name in FREE_NAMES else _object(quirks, value)
    if isinstance(value, list):
        return [_reword(quirks, name, one) for one in value]
    return _text(quirks, name, value) if isinstance(value, str) else value


def _object(quirks: Quirks, document: Document) -> Document:
    names = dict(zip(NONE.tracking_fields, quirks.tracking_fields, strict=True))
    return {
        names.get(name, name): _reword(quirks, name, value)
        for name, value in document.items()
        if name != "note" or "no-note" not in quirks
    }


def instant(quirks: Quirks, ms: int) -> str:
    """An instant that stands by itself, outside a document."""
    return str(_text(quirks, "At", instants.to_text(ms)))


def _text(quirks: Quirks, name: str, text: str) -> Any:
    if name in MONEY_NAMES and "number-money" in quirks and MONEY.fullmatch(text):
        # Verbatim: 1499.00 must not become 1499.0 on the way.
        return msgspec.Raw(text.encode())
    if name in ENUM_NAMES and "lowercase-enums" in quirks and ENUM.fullmatch(text):
        return text.lower()
    if name.endswith("At") and "coarse-time" in quirks and INSTANT.fullmatch(text):
        return text[:19] + "Z"
    return text


def envelope(quirks: Quirks, document: Document) -> Document:
    """An event as the store sends it."""
    data = reword(quirks, document["data"])
    if "bare-webhooks" in quirks:
        return data if isinstance(data, dict) else {}
    worded = {**reword(quirks, {**document, "data": None}), "data": data}
    if "no-sequence" in quirks:
        del worded["sequence"]
    return worded


FEATURES = {
    "updatedSince": "no-updated-since",
    "idempotencyKey": "no-idempotency",
    "expectedStock": "strict-body",
}
"""Which quirk takes an advertised feature away."""


def features(quirks: Quirks) -> list[str]:
    return [name for name, quirk in FEATURES.items() if quirk not in quirks]
