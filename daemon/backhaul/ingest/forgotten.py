"""Whoever was forgotten stays so: what comes about them later is redacted first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.identity import address_digest
from backhaul.shop import people

if TYPE_CHECKING:
    from backhaul.core.envelope import Envelope
    from backhaul.store.contract import MirrorWriter, StoredEvent


def without_forgotten(
    event: StoredEvent, envelope: Envelope, mirror: MirrorWriter
) -> Envelope:
    """Return the envelope, without its person if that one was forgotten.

    The inbox then keeps the redacted body as well. A delivery is still known again when
    it is repeated: its digest is that of the bytes that came.
    """
    if not mirror.forgets_anyone():
        return envelope
    person = people.person_of(envelope.topic, envelope.data)
    if person is None:
        return envelope
    email = person.email
    digest = address_digest(event.store, email) if email else None
    if not mirror.forgets(event.store, person.id, digest):
        return envelope
    body = people.redacted_body(event.body, envelope.topic)
    mirror.replace_body(event.id, body or b"")
    return replace(envelope, data=people.redacted(envelope.topic, envelope.data))
