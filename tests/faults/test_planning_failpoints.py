"""F1: a kill while a connector's record is planned: the record is planned once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.quarantine_retry import UnmatchedRetry
from backhaul.connect.record_matching import Matcher
from backhaul.runtime.signals import SharedSignals
from backhaul_sdk import Bad, Batch, StockAdjustment
from faults.sweeping import program, stage
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record
from scenes.databases import append_and_fold
from scenes.killed_programs import PLANNING, KillPoint, points_around
from scenes.reference_shop import cart, open_shop
from scenes.stored import count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul_sdk import Record
    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

QUIRKS = ("no-idempotency", "no-note")
PUSH = {"check_after": ["0s", "20s", "60s"]}
EVERY_SECONDS = 1.0
TURNS = {"records.accept": (1, 2)}
"""Steps that happen several times, and which occurrence is killed."""
NOT_MET = (
    *("records.find_names", "records.mark_applied", "records.begin_stock_list"),
    "records.submit",
)
"""One only reads, one is about a file that an operator applies, whose deaths are in
tests/connect/test_held_changes.py, one comes after a restore only, whose deaths are in
test_hold_kills.py, and one stores what a program submits, whose deaths are in
tests/api/test_programs.py."""
ROUNDS = 20
COMMANDS = 2


class Pile(ScriptedConnector):
    """A source that keeps its records, and returns those after the cursor."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        super().__init__("courier")
        self.batches = batches

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        behind = [batch.cursor for batch in self.batches].index(cursor) + 1
        for batch in self.batches[behind:]:
            yield batch


@dataclass(frozen=True, slots=True)
class Work:
    """The submitted records, and the webhooks of their objects; the order's is late."""

    pile: Pile
    product: bytes
    order: bytes


async def prepare(on: Stage, number: int) -> Work:
    """Submit an adjustment, an invalid row, and a parcel of an order."""
    lamp = await on.shop.product(sku=f"LAMP-{number}")
    placed = await on.shop.shopper("POST", "/orders", cart(lamp))
    order = (await on.shop.v1("GET", f"/orders/{placed.data['id']}")).data
    rows: list[Record | Bad] = [
        StockAdjustment(key=f"count-{number}", sku=f"LAMP-{number}", delta=-2),
        Bad(key=f"bad-{number}", raw="?", reason="no row"),
    ]
    parcel = fulfillment_record(
        f"parcel-{number}", order["name"], tracking_number=f"BD{number}"
    )
    batches = [
        Batch(records=[], cursor=str(number - 1) if number > 1 else None),
        Batch(records=rows, cursor=f"{number}, half"),
        Batch(records=[parcel], cursor=str(number)),
    ]
    return Work(
        Pile(batches),
        payloads.envelope("products/create", lamp),
        payloads.envelope("orders/create", order),
    )


async def live(on: Stage, work: Work, wanted: int, mortality: KillPoint) -> None:
    """Work until the commands are planned and done, and the bad row is reported."""
    async with program(on, mortality) as alive:
        records, signals = alive.mortal_store.records, SharedSignals()
        context = alive.sender.context
        for accepted in (signals, context.signals):
            accepted.records_accepted.connect(alive.sender.dispatcher.wake)
        matcher = Matcher(on.clock, 600)
        clock, pile = on.clock, work.pile
        room = UnmatchedRetry(records, matcher, clock, signals)
        polls = PollSchedule(clock, EVERY_SECONDS)
        documents = alive.store.documents
        host = Host(pile, context, polls, records, documents, matcher)
        alive.beside += [host.run, room.run]
        assert await append_and_fold(alive.store, work.product) == []
        for _ in range(ROUNDS):
            await alive.run_out()
            # The order comes late: its parcel has to wait for it. Death must not meet a
            # request that is under way: what became of that is for other tests.
            if mortality.dead.is_set() or (has_parcel(on, work) and not on.open()):
                break
            await on.clock.advance(EVERY_SECONDS)
        assert await append_and_fold(alive.store, work.order) == []
        room.wake()
        for _ in range(ROUNDS):
            await alive.run_out()
            done = len(on.states()) == wanted and work.pile.reported
            if done or mortality.dead.is_set():
                return
            await on.clock.advance(EVERY_SECONDS)
        raise AssertionError(f"not planned: {on.states()}, {work.pile.reported}")


def has_parcel(on: Stage, work: Work) -> bool:
    """Return True after the parcel of the last batch was stored."""
    parcel = work.pile.batches[-1].records[0]
    return count(on.path, "records", key=parcel.key) > 0


@pytest.mark.parametrize(
    "point", [one for one in points_around(PLANNING) if not one.startswith(NOT_MET)]
)
async def test_a_kill_while_planning_neither_loses_nor_doubles(
    point: str, tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, QUIRKS, PUSH) as on,
    ):
        for number, turn in enumerate(TURNS.get(point.partition(":")[0], (1,)), 1):
            mortality = KillPoint(point, turn)
            work, wanted = await prepare(on, number), number * COMMANDS
            await live(on, work, wanted, mortality)
            assert mortality.dead.is_set(), f"it does not come to {point}, turn {turn}"
            await live(on, work, wanted, KillPoint())
            effects = await on.effects()
            done = [(state, effects[id_]) for id_, state in on.states().items()]
            assert done == [("applied", 1)] * wanted
            told = {one.key for one in work.pile.reported}
            assert told == {f"bad-{number}"}
        assert await on.ledger() == []
