"""Compares rows with the mirror and puts differing objects in the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.fold import Drift, drift_of
from backhaul.core.identity import address_digest
from backhaul.errors import Unusable
from backhaul.platform import personal_data
from backhaul.platform.history import adjustments
from backhaul.store.inbox import Arrival

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.fold import Version
    from backhaul.platform.history import HistoryMove
    from backhaul.store.inbox import Inbox
    from backhaul.store.mirror import Mirror
    from backhaul.sync.resource_types import ListRow, ResourceType

REMEMBERED = 10_000
"""How many digests of recently appended rows are kept."""


class Difference(Struct, frozen=True):
    """A row of the platform that differs from the mirror."""

    row: ListRow
    drift: Drift
    read_at: str


class Appended(Struct, frozen=True):
    """The counts of the newly appended rows, and the events of all rows."""

    drift: Counter[Drift]
    events: Sequence[int]


class Comparison:
    """Compares rows of one store with the mirror.

    `caught_up` waits until every event that has arrived is folded.
    """

    def __init__(
        self,
        store: str,
        lookup: Mirror,
        currency: Callable[[], str],
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self.store = store
        self.lookup = lookup
        self.caught_up = caught_up
        self._currency = currency

    async def differing(
        self, kind: ResourceType, rows: Sequence[ListRow], read_at: str
    ) -> list[Difference]:
        """Return the rows that the mirror lacks or has with other content."""
        ids = [row.id for row in rows if row.id]
        held = await self.lookup.versions(kind.singular, self.store, ids)
        found = []
        for row in rows:
            version = held.get(row.id)
            drift = self._judge(kind, row, version, read_at)
            if drift is Drift.STALE:
                row = await self._redact_erased(kind, row)
                drift = self._judge(kind, row, version, read_at)
            if drift is not None:
                found.append(Difference(row, drift, read_at))
        return found

    async def _redact_erased(self, kind: ResourceType, row: ListRow) -> ListRow:
        """Return the row without an erased customer, as the mirror has it."""
        try:
            document = strict_json.decode_object(row.body)
        except Unusable:
            return row
        person = personal_data.customer_of(kind.topic, document)
        if person is None:
            return row
        address = address_digest(self.store, person.email) if person.email else None
        if not await self.lookup.is_erased(self.store, person.id, address):
            return row
        redacted = strict_json.encode(personal_data.redacted(kind.topic, document))
        return replace(row, body=redacted)

    def _judge(
        self, kind: ResourceType, row: ListRow, held: Version | None, read_at: str
    ) -> Drift | None:
        if not row.id or held is None:
            return Drift.MISSED
        try:
            digest = kind.digest(row.body, self._currency())
        except Unusable:
            return Drift.STALE
        return drift_of(held, row.updated_at, digest, read_at)

    async def still(
        self, kind: ResourceType, found: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Return what still differs after every arrived event is folded."""
        if not found:
            return found
        await self.caught_up()
        still: list[Difference] = []
        for read_at in dict.fromkeys(one.read_at for one in found):
            rows = [one.row for one in found if one.read_at == read_at]
            still += await self.differing(kind, rows, read_at)
        return still


class MirrorRepair(Comparison):
    """Appends differing rows of one store to the inbox, for every job that reads.

    `arrived` wakes the fold worker.
    """

    def __init__(
        self,
        store: str,
        lookup: Mirror,
        inbox: Inbox,
        currency: Callable[[], str],
        arrived: Callable[[], None],
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(store, lookup, currency, caught_up)
        self._inbox = inbox
        self._arrived = arrived
        self._appended: dict[bytes, int] = {}

    def not_quarantined(
        self, kind: ResourceType, found: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Return the rows without those that were appended and are in quarantine."""
        return [
            one
            for one in found
            if not self._is_quarantined(kind, one.row, sha256(one.row.body).digest())
        ]

    def _is_quarantined(self, kind: ResourceType, row: ListRow, digest: bytes) -> bool:
        """Return whether the row was appended before and could not be read."""
        if digest not in self._appended:
            return False
        try:
            kind.digest(row.body, self._currency())
        except Unusable:
            return True
        return not row.id

    async def append(self, kind: ResourceType, found: Sequence[Difference]) -> Appended:
        """Append differing rows to the inbox, like webhooks; return their counts.

        The fold quarantines rows that it cannot read, with the reason, only once.
        """
        digests = [sha256(one.row.body).digest() for one in found]
        fresh = [
            (digest, one)
            for digest, one in zip(digests, found, strict=True)
            if not self._is_quarantined(kind, one.row, digest)
        ]
        ids = await asyncio.gather(
            *(
                self._inbox.append(
                    Arrival(
                        self.store, "read", kind.topic, one.read_at, b"{}", one.row.body
                    )
                )
                for _, one in fresh
            )
        )
        if fresh:
            self._arrived()
        for (digest, _), id_ in zip(fresh, ids, strict=True):
            self._appended[digest] = id_
        events = {self._appended[digest] for digest in digests}
        self._limit_memory()
        return Appended(Counter(one.drift for _, one in fresh), sorted(events))

    def _limit_memory(self) -> None:
        while len(self._appended) > REMEMBERED:
            del self._appended[next(iter(self._appended))]

    async def append_once(self, topic: str, read_at: str, body: bytes) -> None:
        """Append an unreadable document for the quarantine, only once."""
        digest = sha256(body).digest()
        if digest not in self._appended:
            self._appended[digest] = await self.append_body(topic, read_at, body)
            self._limit_memory()

    async def unknown_moves(self, moves: Sequence[HistoryMove]) -> list[HistoryMove]:
        """Return the moves of stock that the ledger lacks."""
        keys = [(move.adjustment_id, move.variant_id) for move in moves]
        unknown: set[tuple[str, str]] = set()
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            unknown |= await self.lookup.unknown_moves(self.store, part)
        return [m for m, key in zip(moves, keys, strict=True) if key in unknown]

    async def append_moves(self, moves: Sequence[HistoryMove], read_at: str) -> None:
        """Append the moves that the ledger lacks, like the events that report them."""
        for adjustment in adjustments(await self.unknown_moves(moves)):
            body = strict_json.encode(adjustment)
            await self.append_body("inventory/history", read_at, body)

    async def append_body(self, topic: str, read_at: str, body: bytes) -> int:
        """Append one document that Backhaul built itself; return the event's id."""
        arrival = Arrival(self.store, "read", topic, read_at, b"{}", body)
        event = await self._inbox.append(arrival)
        self._arrived()
        return event
