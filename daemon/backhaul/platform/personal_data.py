"""Finds and removes personal data; keeps erased customers out of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.identity import address_digest
from backhaul.core.webhook import topic_of
from backhaul.errors import Unusable
from backhaul.platform.fields import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.webhook import Envelope
    from backhaul.store.contract import MirrorWriter, StoredEvent


ERASED = "[erased]"
SHORTEST = 5
"""Shorter texts of a person stand in too many words that are not about them."""
_CUSTOMERS = "customers/"
# Everything else of a customer goes, so that a member we do not know goes as well.
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
"""What was sold is the store's and not the person's, whatever they are called."""


class CustomerIdentity(Struct, frozen=True):
    """How an object names a person; any of it may be missing."""

    id: str | None = None
    email: str | None = None
    name: str | None = None
    phone: str | None = None

    def texts(self) -> set[str]:
        """Return what would give the person away wherever it stands."""
        told = {self.email, self.name, self.phone}
        return {text for text in told if text and len(text) >= SHORTEST}


def customer_of(topic: str, data: Mapping[str, Any]) -> CustomerIdentity | None:
    """Return whom a customer, or an object with one (an order), is about."""
    told = data if topic.startswith(_CUSTOMERS) else data.get("customer")
    if not isinstance(told, dict):
        told = {"id": told}
    names = ("id", "email", "name", "phone")
    person = CustomerIdentity(*(_text(told.get(name)) for name in names))
    return person if person != CustomerIdentity() else None


def _text(value: object) -> str | None:
    """Return an id or a name as it is mirrored: a number as its digits."""
    try:
        return text(value)
    except Unusable:
        return None


def redacted(topic: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without its person; what is redacted already stays as it is.

    Amounts, stock, statuses, times and ids stay, so that every sum comes out the same.
    """
    if topic.startswith(_CUSTOMERS):
        return {name: data[name] for name in data if name in _KEPT_OF_CUSTOMER}
    person = customer_of(topic, data) or CustomerIdentity()
    texts = person.texts()
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
    """Return a JSON tree in which no text holds any of these; `kept` members stay."""
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
    """Return a delivery or read without its person; None where it is no JSON object."""
    try:
        document = strict_json.decode_object(body)
    except Unusable:
        return None
    return strict_json.encode(redacted_envelope(document, topic))


def redacted_envelope(document: dict[str, Any], topic: str) -> dict[str, Any]:
    """Return a decoded delivery or read without its person."""
    inner = document.get("data")
    if not isinstance(inner, dict):
        return redacted(topic, document)
    topic = topic_of(document.get("topic")) or topic
    return {**document, "data": redacted(topic, inner)}


def without_erased_customer(
    event: StoredEvent, envelope: Envelope, mirror: MirrorWriter
) -> Envelope:
    """Return the envelope, without its person if that one was forgotten.

    The inbox then keeps the redacted body as well. A delivery is still known again when
    it is repeated: its digest is that of the bytes that came.
    """
    if not mirror.forgets_anyone():
        return envelope
    person = customer_of(envelope.topic, envelope.data)
    if person is None:
        return envelope
    email = person.email
    digest = address_digest(event.store, email) if email else None
    if not mirror.forgets(event.store, person.id, digest):
        return envelope
    body = redacted_body(event.body, envelope.topic)
    mirror.replace_body(event.id, body or b"")
    return replace(envelope, data=redacted(envelope.topic, envelope.data))
