"""Finds and removes personal data; keeps erased customers out of events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.identity import address_digest
from backhaul.core.webhook import topic_of
from backhaul.errors import Unusable
from backhaul.platform.fields import text
from backhaul.store.commands import MentionedCustomer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.webhook import Envelope
    from backhaul.store.inbox import MirrorWriter, StoredEvent


ERASED = "[erased]"
SHORTEST = 5
"""Shorter texts of a customer occur in too many unrelated words."""
_CUSTOMERS = "customers/"
# All other members of a customer are removed, so that unknown ones are as well.
_KEPT_OF_CUSTOMER = frozenset(
    {"id", "ordersCount", "totalSpent", "currency", "createdAt", "updatedAt", "version"}
)
_ERASED_OF_ORDER = frozenset(
    {
        *("shippingAddress", "billingAddress", "email", "phone", "note"),
        *("customerNote", "trackingToken"),
    }
)
_ERASED_WITHIN = {"cancellation": "note", "payment": "report"}
SOLD = frozenset({"title", "variantTitle", "sku", "options"})
"""Members about the articles; they are kept even if they contain the name."""


class CustomerIdentity(Struct, frozen=True):
    """How an object identifies a customer; any member may be missing."""

    id: str | None = None
    email: str | None = None
    name: str | None = None
    phone: str | None = None

    def texts(self) -> set[str]:
        """Return the texts that would identify the customer anywhere."""
        texts = {self.email, self.name, self.phone}
        return {text for text in texts if text and len(text) >= SHORTEST}


def customer_of(topic: str, data: Mapping[str, Any]) -> CustomerIdentity | None:
    """Return the customer of a customer object, or of an object with one (an order)."""
    found = data if topic.startswith(_CUSTOMERS) else data.get("customer")
    if not isinstance(found, dict):
        found = {"id": found}
    names = ("id", "email", "name", "phone")
    customer = CustomerIdentity(*(_text(found.get(name)) for name in names))
    return customer if customer != CustomerIdentity() else None


def _text(value: object) -> str | None:
    """Return an id or a name as the mirror stores it: a number as its digits."""
    try:
        return text(value)
    except Unusable:
        return None


def redacted(topic: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without its customer; a redacted object does not change.

    Amounts, stock, statuses, times and ids stay, so that every sum stays the same.
    """
    if topic.startswith(_CUSTOMERS):
        return {name: data[name] for name in data if name in _KEPT_OF_CUSTOMER}
    customer = customer_of(topic, data) or CustomerIdentity()
    texts = customer.texts()
    return {name: _member(name, value, texts) for name, value in data.items()}


def _member(name: str, value: Any, texts: set[str]) -> Any:
    if name == "customer" and isinstance(value, dict):
        return {"id": value.get("id")}
    if name in _ERASED_OF_ORDER:
        return None
    inner = _ERASED_WITHIN.get(name)
    if inner is not None and isinstance(value, dict) and inner in value:
        value = {**value, inner: None}
    if name == "items" and isinstance(value, list):
        return without(value, texts, SOLD)
    return without(value, texts)


def without(node: Any, texts: set[str], kept: frozenset[str] = frozenset()) -> Any:
    """Return a JSON tree without texts that contain any of these; `kept` stay."""
    if isinstance(node, dict):
        return {
            name: value if name in kept else without(value, texts, kept)
            for name, value in node.items()
        }
    if isinstance(node, list):
        return [without(value, texts, kept) for value in node]
    return _scrubbed(node, texts) if isinstance(node, str) else node


def _scrubbed(text: str, texts: set[str]) -> str:
    folded = text.casefold()
    return ERASED if any(each.casefold() in folded for each in texts) else text


def redacted_body(body: bytes, topic: str) -> bytes | None:
    """Return an event's body without its customer; None if it is not a JSON object."""
    try:
        document = strict_json.decode_object(body)
    except Unusable:
        return None
    return strict_json.encode(redacted_envelope(document, topic))


def redacted_envelope(document: dict[str, Any], topic: str) -> dict[str, Any]:
    """Return a decoded event without its customer."""
    inner = document.get("data")
    if not isinstance(inner, dict):
        return redacted(topic, document)
    topic = topic_of(document.get("topic")) or topic
    return {**document, "data": redacted(topic, inner)}


def mentioned_customer(store: str, answer: bytes) -> MentionedCustomer | None:
    """Return the customer that a response mentions, so that they can be redacted.

    The order is the response itself, or a member of it: `data`, or one of a refusal.
    """
    try:
        document = strict_json.decode_object(answer)
    except Unusable:
        return None
    for name, value in {"": document, **document}.items():
        customer = customer_of("", value) if isinstance(value, dict) else None
        if customer is not None:
            address = address_digest(store, customer.email) if customer.email else None
            return MentionedCustomer(
                customer.id, address, partial(_without_customer, document, name)
            )
    return None


def _without_customer(document: dict[str, Any], name: str) -> bytes:
    left = redacted("", document[name] if name else document)
    return strict_json.encode({**document, name: left} if name else left)


def without_erased_customer(
    event: StoredEvent, envelope: Envelope, mirror: MirrorWriter
) -> Envelope:
    """Return the envelope, without its customer if that customer was erased.

    The inbox then stores the redacted body too. A repeated delivery is still
    recognized: its digest is that of the bytes received.
    """
    customer = customer_of(envelope.topic, envelope.data)
    if customer is None:
        return envelope
    email = customer.email
    digest = address_digest(event.store, email) if email else None
    if not mirror.is_erased(event.store, customer.id, digest):
        return envelope
    body = redacted_body(event.body, envelope.topic)
    mirror.replace_body(event.id, body or b"")
    return replace(envelope, data=redacted(envelope.topic, envelope.data))
