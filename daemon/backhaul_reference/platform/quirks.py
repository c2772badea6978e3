"""Quirks: alternative readings of the specification, and how they render."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from backhaul_reference.platform import formats
from backhaul_reference.platform.json_codec import Document

PLAIN = (
    "bare-v1",
    "bare-webhooks",
    "bare-headers",
    "number-money",
    "lowercase-enums",
    "plain-errors",
    "clamp-limit",
    "no-updated-since",
    "coarse-time",
    "no-sequence",
    "no-idempotency",
    "no-history",
    "no-note",
    "no-store-endpoint",
    "pooled-stock",
    "strict-repeat",
    "refuse-fulfill-cancelled",
    "refulfill-attaches",
    "strict-body",
    "ignore-variant",
    "manual-reason",
    "no-levels",
    "no-webhook-api",
    "ignore-page",
    "ack-202",
    "no-retry",
)
VALUES = {"restock-field": 1, "tracking-fields": 2}
"""Quirks that take member names, and how many."""
NAMES = (*PLAIN, *VALUES)
MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class UnknownQuirkError(ValueError):
    """The quirk does not exist; the message suggests a similar name."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """The readings that one store answers by."""

    names: frozenset[str] = frozenset()
    restock_field: str = "restock"
    tracking_fields: tuple[str, str] = ("trackingCompany", "trackingNumber")
    texts: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __bool__(self) -> bool:
        return bool(self.names)


NONE = Quirks()


def parse(texts: Iterable[str]) -> Quirks:
    """Read `NAME` and `NAME=A,B`; UnknownQuirkError for anything else."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, value = text.strip().partition("=")
        members = tuple(value.split(",")) if equals else ()
        _check(name, members)
        found[name] = members
    company, number = found.get("tracking-fields", NONE.tracking_fields)
    return Quirks(
        names=frozenset(found),
        restock_field=found.get("restock-field", ("restock",))[0],
        tracking_fields=(company, number),
        texts=tuple(
            "=".join((name, ",".join(members))) if members else name
            for name, members in sorted(found.items())
        ),
    )


def _check(name: str, members: tuple[str, ...]) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownQuirkError(f"there is no quirk {name[:64]!r}{hint}")
    wanted = VALUES.get(name, 0)
    if len(members) != wanted or len(set(members)) != wanted:
        raise UnknownQuirkError(f"{name} takes {_count(wanted)}")
    for member in members:
        if not MEMBER.fullmatch(member):
            raise UnknownQuirkError(f"{name}: {member[:64]!r} is no member name")


def _count(wanted: int) -> str:
    words = ("no value", "one name: NAME=A", "two different names: NAME=A,B")
    return words[wanted]


@lru_cache(maxsize=256)
def stored(text: str) -> Quirks:
    """The quirks of a store as its row keeps them."""
    return parse(msgspec.json.decode(text, type=list[str]))


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
# Keys that merchants choose are not members of the schema.
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
    """Return the document with the store's quirks applied."""
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
    """Return a time outside a document, with the store's quirks applied."""
    return str(_text(quirks, "At", formats.to_text(ms)))


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
