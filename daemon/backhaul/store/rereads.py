"""The queue of objects to be read again: what the rest of the program asks of it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

LONGEST_REST_SECONDS = 300.0
"""No object in doubt is left alone for longer; one that is due later is due now."""


class Reread(Struct, frozen=True):
    """An object in doubt: what is to be read again, and why.

    `kind` is `product`, `order`, `customer` or `level` (all levels of the product with
    that id). `asks` tells one doubt from a later one about the same object.
    """

    store: str
    kind: str
    object_id: str
    reason: str
    asked_at: str
    asks: int
    failures: int


class Rereads(Protocol):
    """The queue of objects in doubt. An object stands in it once."""

    async def ask(self, store: str, kind: str, object_id: str, reason: str) -> None:
        """Ask for an object to be read again, durably. May raise Busy."""
        ...

    async def ask_for_parents(self, store: str) -> bool:
        """Ask for what objects name that changed since, and nobody has shown yet.

        That is the customer of an order and the product of a level, unless it is known
        to be gone. Tell whether there was any.
        """
        ...

    async def next(self, store: str, limit: int) -> list[Reread]:
        """Return what is due, in the order of asking."""
        ...

    async def next_due(self, store: str) -> str | None:
        """Return when the next row is due (it may be past), None of an empty queue."""
        ...

    async def done(self, reread: Reread) -> None:
        """Remove the row, unless it was asked for again since `next` returned it.

        To be called once the answer is durable, never before.
        """
        ...

    async def postpone(self, reread: Reread, due_at: str) -> None:
        """Count a failure and let the row rest until then."""
        ...
