"""Writes change notifications of new orders as EDI files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.edi.order_document import order_of
from backhaul_connectors.file_drop.edi.orders import ENCODINGS, edifact_order
from backhaul_connectors.file_drop.edi.warehouse_order import ENCODING, x12_order
from backhaul_sdk import clock, fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Change
    from backhaul_sdk.database import Documents, DocumentStore

TOPICS = frozenset({"order.placed"})
KEY = "edi control number"
BEGIN = 1_577_836_800
"""2020-01-01T00:00:00Z: control numbers are at least the seconds since then."""
MOST_NUMBERS = 10**9
"""A control number of X12 has nine digits."""


class ControlNumbers:
    """Control numbers of interchanges, kept in the connection's documents.

    A number is one more than the last one, and at least the seconds since 2020. The
    documents alone make the numbers unique. The seconds are for a restored database,
    whose last number is older: a number comes again only if more numbers than seconds
    were used, because then the last number before the restore was ahead of the clock.
    """

    def __init__(self, documents: Callable[[], DocumentStore]) -> None:
        self._documents = documents

    async def take(self) -> int:
        """Return a new number, durably. Raises OSError if nothing can be stored."""
        now = int(clock.seconds_since_1970()) - BEGIN
        return await self._documents().transact(partial(_next_number, now))


def _next_number(at_least: int, documents: Documents) -> int:
    last = int(documents.get(KEY) or b"0")
    number = max(last + 1, at_least)
    documents.put(KEY, str(number).encode())
    return number % MOST_NUMBERS or 1


class EdiExports:
    """Writes each new order as one interchange."""

    topics = TOPICS
    is_numbered = True

    def __init__(
        self, settings: Settings, documents: Callable[[], DocumentStore]
    ) -> None:
        self._settings = settings
        self._numbers = ControlNumbers(documents)
        self._is_edifact = settings.export_format == "edifact"
        self._zone = fields.zone_named(settings.timezone)

    @property
    def ending(self) -> str:
        return "edi" if self._is_edifact else "x12"

    async def content(self, change: Change) -> bytes:
        """Return a new interchange, with a number of its own.

        Raises Unusable if the order cannot be written; then its number may stay unused.
        Raises OSError if no number can be stored.
        """
        edi = self._settings.edi
        encoding = ENCODINGS[edi.charset] if self._is_edifact else ENCODING
        order = order_of(change, self._zone, encoding)
        write = edifact_order if self._is_edifact else x12_order
        number = await self._numbers.take()
        return write(order, edi, number, clock.now().astimezone(self._zone))
