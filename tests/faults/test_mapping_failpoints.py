"""F1: a mapping changes between a kill and a retry; the record is planned once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.quarantine_retry import UnmatchedRetry
from backhaul.connect.record_matching import Matcher
from backhaul.runtime.signals import SharedSignals
from backhaul.store.mappings import MappingKind, NameMapping
from backhaul_sdk import Batch, StockAdjustment
from faults.sweeping import program, stage
from faults.test_planning_failpoints import EVERY_SECONDS, PUSH, QUIRKS, ROUNDS, Pile
from scenes import payloads
from scenes.databases import append_and_fold, started_store
from scenes.killed_programs import KillPoint
from scenes.reference_shop import open_shop
from scenes.stored import count, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

MAPPING = NameMapping(MappingKind.SKU, "LAMP", "LAMP-1")
POINTS = [
    f"{part}:{when}"
    for part in ("records.accept", "records.match", "commands.claim")
    for when in ("before", "after")
]


async def live(on: Stage, pile: Pile, mortality: KillPoint, *, wants: int) -> None:
    """Work until the adjustment is done, waits, or the program is dead."""
    async with program(on, mortality) as alive:
        records, signals = alive.mortal_store.records, SharedSignals()
        context = alive.sender.context
        for accepted in (signals, context.signals):
            accepted.records_accepted.connect(alive.sender.dispatcher.wake)
        matcher = Matcher(on.clock, 600)
        room = UnmatchedRetry(records, matcher, on.clock, signals)
        polls = PollSchedule(on.clock, EVERY_SECONDS)
        documents = alive.store.documents
        host = Host(pile, context, polls, records, documents, matcher)
        alive.beside += [host.run, room.run]
        for _ in range(ROUNDS):
            await alive.run_out()
            done = [*on.states().values()] == ["applied"] * wants
            if mortality.dead.is_set() or (wants and done):
                return
            await on.clock.advance(EVERY_SECONDS)
        assert not wants, f"not planned: {on.states()}"


async def change(on: Stage, *, is_there: bool) -> None:
    """Add the mapping, or remove it, while the program is down."""
    async with started_store(on.path, on.clock) as store:
        if is_there:
            await store.mappings.add("main", [MAPPING], "otto", "")
            return
        for each in await store.read(lambda reader: reader.mappings(None, None, 9)):
            await store.mappings.remove(each.id, "otto", "")


@pytest.mark.parametrize("first", ["added", "removed"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_mapping_that_changes_after_a_kill_doubles_nothing(
    point: str, first: str, tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, QUIRKS, PUSH) as on,
    ):
        lamp = await on.shop.product(sku="LAMP-1")
        async with started_store(on.path, on.clock) as store:
            body = payloads.envelope("products/create", lamp)
            assert await append_and_fold(store, body) == []
        row = StockAdjustment(key="count", sku="LAMP", delta=-2)
        pile = Pile([Batch(records=[], cursor=None), Batch(records=[row], cursor="1")])
        await change(on, is_there=first == "removed")
        mortality = KillPoint(point, 1)
        await live(on, pile, mortality, wants=0)
        await change(on, is_there=first == "added")
        planned = count(on.path, "commands")
        await live(on, pile, KillPoint(), wants=1 if first == "added" else planned)
        if first == "removed":
            assert count(on.path, "commands") == planned
            await change(on, is_there=True)
            await live(on, pile, KillPoint(), wants=1)
        effects = await on.effects()
        done = [(state, effects[id_]) for id_, state in on.states().items()]
        assert done == [("applied", 1)]
        assert rows_of(on.path, "records", "key", "state") == [("count", "accepted")]
        assert await on.ledger() == []
