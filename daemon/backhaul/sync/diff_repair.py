"""Compares rows with the mirror and puts differing objects in the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.fold import Drift, compare
from backhaul.core.identity import address_digest
from backhaul.errors import Unusable
from backhaul.platform import personal_data
from backhaul.store.contract import Arrival

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.fold import Version
    from backhaul.store.contract import Inbox
    from backhaul.store.reconciling import Look
    from backhaul.sync.resource_types import ListRow, ResourceType

REMEMBERED = 10_000
"""Digests kept of what was handed in last."""


class Difference(Struct, frozen=True):
    """A row that the mirror does not hold as the platform shows it."""

    row: ListRow
    drift: Drift
    read_at: str


class Appended(Struct, frozen=True):
    """What was news, counted; and the events of it all, those of before as well."""

    drift: Counter[Drift]
    events: Sequence[int]


class Comparison:
    """Holds rows of one store against the mirror.

    `caught_up` waits until what has arrived is folded.
    """

    def __init__(
        self,
        store: str,
        look: Look,
        currency: Callable[[], str],
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self.store = store
        self.look = look
        self.caught_up = caught_up
        self._currency = currency

    async def differing(
        self, kind: ResourceType, rows: Sequence[ListRow], read_at: str
    ) -> list[Difference]:
        """Return the rows that the mirror lacks or holds with other content."""
        ids = [row.id for row in rows if row.id]
        held = await self.look.versions(kind.singular, self.store, ids)
        found = []
        for row in rows:
            version = held.get(row.id)
            drift = self._judge(kind, row, version, read_at)
            if drift is Drift.STALE:
                row = await self._without_forgotten(kind, row)
                drift = self._judge(kind, row, version, read_at)
            if drift is not None:
                found.append(Difference(row, drift, read_at))
        return found

    async def _without_forgotten(self, kind: ResourceType, row: ListRow) -> ListRow:
        """Leave out a person that was forgotten, as the mirror has done."""
        try:
            document = strict_json.decode_object(row.body)
        except Unusable:
            return row
        person = personal_data.person_of(kind.topic, document)
        if person is None:
            return row
        address = address_digest(self.store, person.email) if person.email else None
        if not await self.look.forgets(self.store, person.id, address):
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
        return compare(held, row.updated_at, digest, read_at)

    async def still(
        self, kind: ResourceType, found: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Return what differs even now, with all that had arrived folded."""
        if not found:
            return found
        await self.caught_up()
        still: list[Difference] = []
        for read_at in dict.fromkeys(one.read_at for one in found):
            rows = [one.row for one in found if one.read_at == read_at]
            still += await self.differing(kind, rows, read_at)
        return still


class MirrorRepair(Comparison):
    """The way of one store's rows into the mirror, whichever job read them.

    `arrived` wakes the folding.
    """

    def __init__(
        self,
        store: str,
        look: Look,
        inbox: Inbox,
        currency: Callable[[], str],
        arrived: Callable[[], None],
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(store, look, currency, caught_up)
        self._inbox = inbox
        self._arrived = arrived
        self._handed_in: dict[bytes, int] = {}

    def news(
        self, kind: ResourceType, found: Sequence[Difference]
    ) -> Sequence[Difference]:
        """Leave out what was handed in and cannot be read: it is in quarantine."""
        return [
            one
            for one in found
            if not self._is_quarantined(kind, one.row, sha256(one.row.body).digest())
        ]

    def _is_quarantined(self, kind: ResourceType, row: ListRow, digest: bytes) -> bool:
        """Tell whether the row was handed in before, and could not be read."""
        if digest not in self._handed_in:
            return False
        try:
            kind.digest(row.body, self._currency())
        except Unusable:
            return True
        return not row.id

    async def append(self, kind: ResourceType, found: Sequence[Difference]) -> Appended:
        """Make what differs durable, to be folded like any news; count it.

        What cannot be read goes to quarantine, with its reason, and does so once.
        """
        digests = [sha256(one.row.body).digest() for one in found]
        news = [
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
                for _, one in news
            )
        )
        if news:
            self._arrived()
        for (digest, _), id_ in zip(news, ids, strict=True):
            self._handed_in[digest] = id_
        events = {self._handed_in[digest] for digest in digests}
        self._let_go()
        return Appended(Counter(one.drift for _, one in news), sorted(events))

    def _let_go(self) -> None:
        while len(self._handed_in) > REMEMBERED:
            del self._handed_in[next(iter(self._handed_in))]

    async def append_once(self, topic: str, read_at: str, body: bytes) -> None:
        """Have one document that cannot be read put in quarantine, and that once."""
        digest = sha256(body).digest()
        if digest not in self._handed_in:
            self._handed_in[digest] = await self.append_body(topic, read_at, body)
            self._let_go()

    async def append_body(self, topic: str, read_at: str, body: bytes) -> int:
        """Make one document that we put together ourselves durable, as an event."""
        arrival = Arrival(self.store, "read", topic, read_at, b"{}", body)
        event = await self._inbox.append(arrival)
        self._arrived()
        return event
