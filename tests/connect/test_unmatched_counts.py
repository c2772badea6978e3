"""Stock counts of an article that the store does not know share one quarantine row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec import to_builtins

from backhaul.connect.record_matching import Matcher
from backhaul_sdk import StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import count, rows_of, value_of, values_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

WAIT_SECONDS = 600


class Stockroom:
    """Submits stock counts as time passes."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._store = store
        self._matcher = Matcher(clock, WAIT_SECONDS)
        self._hosts = {
            name: host_of(
                ScriptedConnector(name), store, clock=clock, wait_seconds=WAIT_SECONDS
            )
            for name in ("desk", "cellar")
        }

    async def submit(
        self, second: int, sku: str = "SHOP-ONLY", instance: str = "desk"
    ) -> str:
        """Submit a count as of this time; return the result."""
        key, at = f"{sku}:{second}", payloads.instant(second)
        level = StockLevel(key=key, sku=sku, quantity=second, as_of=at, raw=key)
        return (await self._hosts[instance].emit(level)).state

    async def match(self) -> list[tuple[str, str]]:
        """Match the unmatched records again; return their results."""
        found = await self._store.records.match(self._matcher, 99)
        return [(outcome.record.key, outcome.state) for outcome in found]


async def test_an_article_has_one_row_in_quarantine(
    store: Store, clock: VirtualClock
) -> None:
    room = Stockroom(store, clock)
    for second in range(4):
        await room.submit(second)
        await clock.advance(WAIT_SECONDS + 1)
        await room.match()
    assert rows_of(store.place, "quarantine", "id", "name", "key", "state") == [
        (1, "desk", "SHOP-ONLY:3", "open")
    ]
    *older, newest = rows_of(store.place, "records", "key", "state")
    assert newest == ("SHOP-ONLY:3", "quarantined")
    assert {state for _, state in older} == {"replaced"}
    assert await room.submit(1) == "duplicate"


async def test_a_retried_count_replaces_the_row_of_an_older_one(
    store: Store, clock: VirtualClock
) -> None:
    """The older count arrived later, so both have a row in quarantine."""
    room = Stockroom(store, clock)
    for second in (5, 3):
        await room.submit(second)
        await clock.advance(WAIT_SECONDS + 1)
        await room.match()
    assert count(store.place, "quarantine") == 2
    await store.quarantine.retry(1, None, "ann", "it is right")
    await room.match()
    assert rows_of(store.place, "quarantine", "id", "name", "key", "state") == [
        (2, "desk", "SHOP-ONLY:5", "open")
    ]


async def test_rows_of_counts_that_are_corrected_to_the_same_are_all_closed(
    store: Store, clock: VirtualClock
) -> None:
    """Each row was edited by an operator, who looks for it among the retried ones."""
    room, rows = Stockroom(store, clock), 3
    for number in range(rows):
        await room.submit(number, f"TYPO-{number}")
    await clock.advance(WAIT_SECONDS + 1)
    await room.match()
    new = payloads.product("prod_9", variants=[payloads.variant("var_9", sku="NEW")])
    await append_and_fold(store, envelope("products/create", new))
    for row in range(1, rows + 1):
        level = StockLevel(
            key=f"TYPO-{row - 1}:{row - 1}",
            sku="NEW",
            quantity=4,
            as_of=payloads.instant(9),
        )
        edited = json.dumps({"kind": "level", "record": to_builtins(level)})
        await store.quarantine.retry(row, edited.encode(), "ann", "it is NEW")
    await room.match()
    rows_now = rows_of(store.place, "quarantine", "id", "state")
    assert rows_now == [(row, "retried") for row in range(1, rows + 1)]


async def test_a_newer_count_does_not_restart_the_wait(
    store: Store, clock: VirtualClock
) -> None:
    """Otherwise frequent counts would never be reported to an operator."""
    room = Stockroom(store, clock)
    for second in range(4):
        assert await room.submit(second) == "waiting"
        await clock.advance(WAIT_SECONDS / 4)
    assert await room.match() == [("SHOP-ONLY:3", "quarantined")]


async def test_the_row_is_closed_once_the_article_is_known(
    store: Store, clock: VirtualClock
) -> None:
    room = Stockroom(store, clock)
    await room.submit(1, "NEW")
    await clock.advance(WAIT_SECONDS + 1)
    await room.match()
    new = payloads.product("prod_9", variants=[payloads.variant("var_9", sku="NEW")])
    await append_and_fold(store, envelope("products/create", new))
    assert await room.submit(2, "NEW") == "accepted"
    assert rows_of(store.place, "quarantine", "id", "name", "key", "state") == [
        (1, "desk", "NEW:2", "retried")
    ]


@pytest.mark.parametrize(
    "as_of", ["0001-01-01T00:00:00", "1601-01-01", "1899-12-30T00:00Z", "1970-01-01"]
)
async def test_the_zero_time_of_a_program_is_no_time_of_a_count(
    as_of: str, store: Store, clock: VirtualClock
) -> None:
    """Every movement would be later than such a count."""
    await append_and_fold(store, envelope("products/create", payloads.product()))
    level = StockLevel(key="k", sku="LS-S", quantity=7, as_of=as_of)
    handed_in = await host_of(ScriptedConnector("desk"), store, clock=clock).emit(level)
    assert handed_in.state == "quarantined"
    reason = value_of(store.place, "quarantine", "reason")
    assert reason == (
        f"as_of '{as_of}' is a value that programs write for a missing time; send the"
        " time of the count"
    )
    assert values_of(store.place, "commands_and_targets", "id") == []


async def test_an_older_count_replaces_nothing_and_no_other_is_touched(
    store: Store, clock: VirtualClock
) -> None:
    room = Stockroom(store, clock)
    await room.submit(5)
    await room.submit(4)
    await room.submit(6, "OTHER")
    await room.submit(7, instance="cellar")
    assert set(values_of(store.place, "records", "state")) == {"waiting"}
