"""Records submitted while the database is busy are stored together in one batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from backhaul.connect.host import MAX_BATCH, RecordBatcher
from backhaul.errors import Busy
from backhaul.store.matching import WaitingRecord
from backhaul.store.records import NewRecord, RecordOutcome
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.stored import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store


def record(key: str) -> NewRecord:
    return NewRecord(key, b"{}", "", "", "")


class Disk:
    """Stores groups when a test lets it, and fails where a test says so."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.asked, self.free = asyncio.Event(), asyncio.Event()
        self.refusals: dict[str, Exception] = {}

    async def accept(self, records: Sequence[NewRecord]) -> list[RecordOutcome]:
        keys = [record.key for record in records]
        self.groups.append(keys)
        self.asked.set()
        await self.free.wait()
        for key in keys:
            if key in self.refusals:
                raise self.refusals[key]
        return [
            RecordOutcome(
                WaitingRecord(0, "desk", "main", key, b"", "", ""), "accepted", key
            )
            for key in keys
        ]


async def words(futures: Sequence[asyncio.Future[RecordOutcome]]) -> list[str]:
    found = await asyncio.gather(*futures, return_exceptions=True)
    return [one.reason if isinstance(one, RecordOutcome) else str(one) for one in found]


async def test_records_that_arrive_meanwhile_share_the_next_batch() -> None:
    disk = Disk()
    gathering = RecordBatcher(disk.accept)
    keys = [str(number) for number in range(MAX_BATCH + 2)]
    futures = [gathering.add(record(key)) for key in keys[:1]]
    await disk.asked.wait()
    futures += [gathering.add(record(key)) for key in keys[1:]]
    assert [future for future in futures if future.done()] == []
    disk.free.set()
    assert await words(futures) == keys
    assert disk.groups == [keys[:1], keys[1 : MAX_BATCH + 1], keys[-1:]]


async def test_a_record_that_cannot_be_stored_fails_alone() -> None:
    disk = Disk()
    disk.free.set()
    disk.refusals["b"] = ValueError("too long")
    gathering = RecordBatcher(disk.accept)
    futures = [gathering.add(record(key)) for key in "abc"]
    assert await words(futures) == ["a", "too long", "c"]
    assert await words([gathering.add(record("d"))]) == ["d"]


async def test_a_database_that_accepts_nothing_is_not_tried_for_each_record() -> None:
    disk = Disk()
    disk.free.set()
    disk.refusals["b"] = Busy("the disk is full")
    gathering = RecordBatcher(disk.accept)
    futures = [gathering.add(record(key)) for key in "abc"]
    assert await words(futures) == ["the disk is full"] * 3
    assert disk.groups == [["a", "b", "c"]]


async def test_a_cancelled_record_holds_up_no_other() -> None:
    disk = Disk()
    gathering = RecordBatcher(disk.accept)
    gone, waiting = gathering.add(record("a")), gathering.add(record("b"))
    gone.cancel()
    disk.free.set()
    assert (await waiting).reason == "b"


async def test_each_gets_its_own_receipt_from_the_real_store(
    store: Store,
) -> None:
    host = host_of(ScriptedConnector(), store)
    orders = ["1001" if number % 2 else f"no-{number}" for number in range(250)]
    # the first record ships the whole order; the others report the same parcel
    receipts = await asyncio.gather(
        *(
            host.emit(fulfillment_record(f"k{n}", order))
            for n, order in enumerate(orders)
        )
    )
    expected = ["duplicate" if order == "1001" else "waiting" for order in orders]
    expected[1] = "accepted"
    assert [receipt.state for receipt in receipts] == expected
    assert "no-0" in receipts[0].what
    assert count(store.place, "records") == 250


async def test_a_key_the_database_cannot_hold_spoils_no_other(
    store: Store,
) -> None:
    host = host_of(ScriptedConnector(), store)
    odd = fulfillment_record()
    force_setattr(odd, "key", ("k", 1))
    found = await asyncio.gather(
        *map(host.emit, [fulfillment_record("k1"), odd, fulfillment_record("k2")]),
        return_exceptions=True,
    )
    assert isinstance(found[1], Exception)
    assert count(store.place, "records") == 2
