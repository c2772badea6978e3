"""The cost of a claim does not depend on the commands that wait behind another one.

The cost is counted in steps of SQLite's virtual machine, which are the same everywhere.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from backhaul.core.lifecycle import Cause, State
from backhaul.store.commands import Attempt, Sendable, Transition
from backhaul.store.deliveries import Subscriber
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord
from backhaul.store.sqlite.connections import open_writer
from backhaul.store.sqlite.database import SqliteStore
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.commands import plan
from scenes.databases import append_and_fold, make_database, rows, write

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from backhaul.store.matching import Command, MatchReader, WaitingRecord

ALWAYS = "9999"
GATES = {"cancel": ALWAYS, "fulfill": ALWAYS, "adjust": ALWAYS}
LANE = "order:ord_1"
FREE = 3
BOOKS = Subscriber(instance="books", store="main", topics=frozenset({"stock.changed"}))
SOON = "2026-03-01T12:00:00.000Z"


@dataclass
class WorkCounter:
    """Counts the work of the writer's connection."""

    steps: int = 0

    def count(self) -> None:
        self.steps += 1

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = open_writer(path)
        connection.set_progress_handler(self.count, 1)
        return connection

    async def cost(self, work: Awaitable[Any]) -> int:
        before = self.steps
        await work
        return self.steps - before


@asynccontextmanager
async def counted(path: Path) -> AsyncIterator[tuple[SqliteStore, WorkCounter]]:
    """Open a store, and count its work."""
    make_database(path)
    machine = WorkCounter()
    store = SqliteStore(path, VirtualClock(), machine.connect)
    store.start()
    try:
        yield store, machine
    finally:
        await store.stop()


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


async def claimed(store: SqliteStore, limit: int = 99) -> list[Command]:
    found = await store.commands.claim("main", GATES, limit, prepare)
    return [command for command, _ in found]


async def end_attempt(
    store: SqliteStore, command: Command, *causes: Cause, **step: Any
) -> None:
    attempt = Attempt(SOON, "x", None, "why", None)
    await store.commands.record_attempt(
        command, attempt, Transition(causes, "why", **step)
    )


async def queue(store: SqliteStore, count: int, lane: str = LANE) -> None:
    """Plan this many commands with one ordering key, at once."""

    def behind(record: WaitingRecord, _: MatchReader) -> Matched:
        id_ = f"{record.key:>032}"
        return Matched(NewCommand(id_, "fulfill", "ord_1", lane, {"n": 1}))

    records = [NewRecord(f"q{n}", b"null", "", "", "") for n in range(count)]
    await store.records.accept("books", "main", records, None, behind)


async def leave_uncertain(store: SqliteStore) -> None:
    await end_attempt(store, (await claimed(store))[0], Cause.UNKNOWN, due_at=ALWAYS)


async def leave_sending(store: SqliteStore) -> None:
    assert len(await claimed(store)) == 1


async def leave_for_retry(store: SqliteStore) -> None:
    await end_attempt(store, (await claimed(store))[0], Cause.NOT_SENT, due_at=ALWAYS)


async def leave_on_hold(store: SqliteStore) -> None:
    """Put a command on hold, and send the next one."""
    await end_attempt(store, (await claimed(store))[0], Cause.NOT_SENT, held=True)
    await plan(store, "fulfill", "ord_1", lane=LANE)
    assert len(await claimed(store)) == 1


Block: TypeAlias = "Callable[[SqliteStore], Awaitable[None]]"
BLOCKS = [leave_uncertain, leave_sending, leave_for_retry, leave_on_hold]
SIZES = (50, 500)


async def plan_blocked(store: SqliteStore, block: Any, count: int) -> None:
    """Plan commands that wait behind a blocked one, and some with other keys."""
    await plan(store, "fulfill", "ord_1", lane=LANE)
    await block(store)
    await queue(store, count)
    for number in range(FREE):
        await plan(store, "fulfill", f"ord_free_{number}")


@pytest.mark.parametrize("block", BLOCKS)
async def test_a_claim_does_not_read_commands_that_wait_their_turn(
    block: Block, tmp_path: Path
) -> None:
    costs = []
    for count in SIZES:
        async with counted(tmp_path / f"{count}.db") as (store, machine):
            await plan(store, "fulfill", "ord_1", lane=LANE)
            await block(store)
            await queue(store, count)
            for number in range(FREE):
                await plan(store, "fulfill", f"ord_free_{number}")
            costs.append([await machine.cost(claims(store, n)) for n in (FREE, 0)])
    assert grown_costs(*costs) == []


async def claims(store: SqliteStore, count: int) -> None:
    assert len(await claimed(store)) == count


def grown_costs(few: list[int], many: list[int]) -> list[tuple[int, int]]:
    """Return the operations that cost more with a queue ten times as long."""
    pairs = list(zip(few, many, strict=True))
    return [(a, b) for a, b in pairs if not 0 < b < a * 1.2 + 50]


@pytest.mark.parametrize("cause", [Cause.CONFIRMED, Cause.UNKNOWN, Cause.NOT_SENT])
async def test_a_lane_is_worked_off_without_reading_its_end(
    cause: Cause, tmp_path: Path
) -> None:
    """A new command at the end of a long queue has the same cost."""
    costs = []
    for count in SIZES:
        async with counted(tmp_path / f"{count}.db") as (store, machine):
            await queue(store, count)
            (first,) = await claimed(store)
            works = (
                end_attempt(store, first, cause),
                claimed(store),
                store.commands.next_due("main", SOON),
                plan(store, "fulfill", "ord_1", lane=LANE),
            )
            costs.append([await machine.cost(work) for work in works])
    assert grown_costs(*costs) == []


async def test_changes_of_a_product_do_not_read_its_lane(tmp_path: Path) -> None:
    """No command is open, so each of them would be read."""
    costs = []
    for count in SIZES:
        async with counted(tmp_path / f"{count}.db") as (store, machine):
            await store.deliveries.subscribe(BOOKS)
            await queue(store, count, lane="product:prod_1")
            change = payloads.stock_change(at=1, adjustment_id="adj_1")
            event = payloads.envelope("inventory/level_update", change)
            works = (
                append_and_fold(store, event),
                store.deliveries.fan_out(BOOKS, 9.0),
                store.deliveries.claim(BOOKS),
            )
            costs.append([await machine.cost(work) for work in works])
            assert rows(store.path, "SELECT state FROM deliveries") == [("sending",)]
    assert grown_costs(*costs) == []


REHEARSED = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
      instance, created_at, due_at)
    SELECT printf('%032x', i << 32), 'main', 'fulfill', ?1, ?2 || iif(?3, i, ''),
           'planned', '{}', '', 'bench', '', '' FROM n
"""
DRY_RUNS = [("*",), ("bench",)]


async def claimed_dry(
    store: SqliteStore, dry_run: Sequence[str], limit: int = 99
) -> list[Command]:
    """Claim as in a dry run, which first puts commands on hold."""
    while await store.commands.hold_for_dry_run("main", GATES, limit, dry_run):
        pass
    found = await store.commands.claim("main", GATES, limit, prepare, dry_run)
    return [command for command, _ in found]


@pytest.mark.parametrize("own_lanes", [True, False])
@pytest.mark.parametrize("dry_run", DRY_RUNS)
async def test_a_claim_does_not_read_commands_held_by_a_dry_run(
    dry_run: Sequence[str], own_lanes: bool, tmp_path: Path
) -> None:
    """The same holds for commands behind them that are not on hold."""
    costs = []
    for count in SIZES:
        async with counted(tmp_path / f"{count}.db") as (store, machine):
            write(store.path, REHEARSED, count, LANE, own_lanes)
            assert await claimed_dry(store, dry_run) == []
            for target in ("ord_1", "ord_2"):
                await plan(store, "fulfill", target, lane=LANE)
            works = (
                claimed_dry(store, dry_run, 1),
                claimed_dry(store, dry_run),
                store.commands.next_due("main", SOON),
                store.commands.release_dry_run("main", dry_run),
                plan(store, "fulfill", "ord_1", lane=LANE),
            )
            costs.append([await machine.cost(work) for work in works])
            gone = rows(
                store.path, "SELECT instance, seq FROM commands WHERE state = 'sending'"
            )
            assert gone == ([] if "*" in dry_run else [("courier", count + 1)])
    assert grown_costs(*costs) == []


def expected_first(path: Path) -> set[str]:
    """Return the commands that may be sent: the first of each key with none open."""
    query = "SELECT lane, id, state, hold_reason FROM commands"
    first: dict[str, str] = {}
    away = set()
    for lane, id_, state, held in rows(path, f"{query} ORDER BY seq"):
        if state in {"sending", "uncertain"}:
            away.add(lane)
        elif state == "planned" and not held:
            first.setdefault(lane, id_)
    return {id_ for lane, id_ in first.items() if lane not in away}


def change_rows(path: Path, chance: random.Random) -> None:
    """Change or delete rows, as any part of the program or an operator may do."""
    known = [row[0] for row in rows(path, "SELECT seq FROM commands ORDER BY seq")]
    for seq in chance.sample(known, min(chance.randrange(4), len(known))):
        if chance.random() < 0.1:
            write(path, "DELETE FROM commands WHERE seq = ?", seq)
            continue
        state = chance.choice([State.PLANNED, State.PLANNED, *State])
        held = "order" if chance.random() < 0.3 else None
        change = "UPDATE commands SET state = ?, hold_reason = ? WHERE seq = ?"
        write(path, change, state, held, seq)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_moves_the_first_of_each_lane_leaves_and_no_other(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable
    path = tmp_path / "backhaul.db"
    async with counted(path) as (store, _):
        for _ in range(80):
            for _ in range(chance.randrange(3)):
                kind = chance.choice(["fulfill", "cancel"])
                await plan(store, kind, chance.choice(["ord_1", "ord_2"]))
            change_rows(path, chance)
            expected = expected_first(path)
            assert set(flagged(path)) == expected
            if chance.random() < 0.3:
                assert {command.id for command in await claimed(store)} == expected


def flagged(path: Path) -> list[str]:
    query = """
        SELECT id FROM commands
        WHERE state = 'planned' AND hold_reason IS NULL AND behind = 0
    """
    return [row[0] for row in rows(path, query)]


@pytest.mark.parametrize("block", BLOCKS)
async def test_a_wrong_lane_flag_releases_no_command_out_of_turn(
    block: Block, tmp_path: Path
) -> None:
    """A disk error or an operator may change the flag."""
    async with counted(tmp_path / "backhaul.db") as (store, _):
        await plan(store, "fulfill", "ord_1", lane=LANE)
        await block(store)
        await queue(store, 3)
        write(store.path, "UPDATE commands SET behind = 0")
        assert await claimed(store) == []
