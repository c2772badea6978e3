"""Incidents: what took effect and left goods and stock apart, for an operator."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Incident(Struct, frozen=True):
    """One incident of an order; `says` is what happened, in a sentence.

    `resolution` is what an operator wrote, None while the incident is open.
    """

    id: int
    store: str
    order_id: str
    command_id: str
    at: str
    says: str
    resolved_at: str | None = None
    resolved_by: str | None = None
    resolution: str | None = None


class Incidents(Protocol):
    """The incidents of every store."""

    async def resolve(self, id_: int, who: str, resolution: str) -> Incident:
        """Close an open incident, with an audit entry. Raises BackhaulError."""
        ...
