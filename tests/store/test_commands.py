"""The outbox: lanes, gates, order, and every step durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause, State
from backhaul.errors import AlreadyRunning
from backhaul.store.commands import Attempt, Sendable, Transition
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.commands import plan
from scenes.databases import rows, started_store, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from pathlib import Path

    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.sqlite.database import SqliteStore

ALWAYS = "9999"
ALL = {"cancel": ALWAYS, "fulfill": ALWAYS, "adjust": ALWAYS}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db", clock) as started:
        yield started


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


async def claimed(
    store: SqliteStore,
    gates: dict[str, str] | None = None,
    limit: int = 99,
    name: str = "main",
) -> list[Command]:
    found = await store.commands.claim(
        name, ALL if gates is None else gates, limit, prepare
    )
    assert [step.request for _, step in found] == [c.id.encode() for c, _ in found]
    return [command for command, _ in found]


async def claimed_ids(store: SqliteStore, **how: Any) -> list[str]:
    return [command.id for command in await claimed(store, **how)]


async def settle(
    store: SqliteStore, command: Command, *causes: Cause, **step: Any
) -> State:
    attempt = Attempt("2026-03-01T12:00:00.000Z", "x", 200, "why", b"answer")
    return await store.commands.record_attempt(
        command, attempt, Transition(causes, "why", **step)
    )


def state(store: SqliteStore, command: str) -> tuple[Any, ...]:
    return rows(
        store.path,
        "SELECT state, attempts, failures, held, due_at, settled_at FROM commands"
        " WHERE id = ?",
        command,
    )[0]


async def test_claim_marks_before_it_returns(store: SqliteStore) -> None:
    command = await plan(store, "fulfill", "ord_1")
    (found,) = await claimed(store)
    assert (found.id, found.kind, found.target) == (command, "fulfill", "ord_1")
    assert (found.lane, found.instance, found.payload) == ("ord_1", "courier", {"n": 1})
    assert state(store, command)[:3] == ("sending", 1, 0)
    sent = rows(store.path, "SELECT request, key_fingerprint FROM commands")
    assert sent == [(command.encode(), "mark")]
    attempts = rows(store.path, "SELECT command_id, number, finished_at FROM attempts")
    assert attempts == [(command, 1, None)]
    assert await claimed(store) == []


async def test_first_of_each_lane_leaves(store: SqliteStore) -> None:
    planned = [
        await plan(store, kind, target)
        for target in ("ord_1", "ord_2")
        for kind in ("fulfill", "cancel", "fulfill")
    ]
    assert sorted(await claimed_ids(store)) == sorted([planned[0], planned[3]])


async def test_lane_goes_on_in_the_order_of_planning(store: SqliteStore) -> None:
    planned = [await plan(store, kind, "ord_1") for kind in ("fulfill", "cancel")]
    (first,) = await claimed(store)
    assert first.id == planned[0]
    await settle(store, first, Cause.CONFIRMED)
    assert await claimed_ids(store) == [planned[1]]


async def test_retry_is_not_overtaken_by_what_comes_behind(
    store: SqliteStore, clock: VirtualClock
) -> None:
    planned = [await plan(store, "fulfill", "ord_1") for _ in range(2)]
    (first,) = await claimed(store)
    await settle(store, first, Cause.NOT_SENT, due_at=later(clock, 60))
    assert await claimed(store) == []
    await clock.advance(60)
    assert await claimed_ids(store) == planned[:1]


def later(clock: VirtualClock, seconds: float) -> str:
    moment: datetime = clock.now()
    return to_text(moment.replace(minute=moment.minute + int(seconds // 60)))


BLOCKS = [
    ("sending", None, True),
    ("uncertain", (Cause.UNKNOWN,), True),
    ("parked", (Cause.UNDECIDABLE,), False),
    ("applied", (Cause.CONFIRMED,), False),
    ("rejected", (Cause.REFUSED,), False),
]


@pytest.mark.parametrize(
    ("name", "causes", "blocks"), BLOCKS, ids=[row[0] for row in BLOCKS]
)
async def test_which_states_hold_a_lane(
    name: str, causes: tuple[Cause, ...] | None, blocks: bool, store: SqliteStore
) -> None:
    await plan(store, "fulfill", "ord_1")
    (first,) = await claimed(store)
    if causes is not None:
        assert await settle(store, first, *causes) == name
    behind = await plan(store, "fulfill", "ord_1")
    other = await plan(store, "fulfill", "ord_2")
    expected = [other] if blocks else [behind, other]
    assert await claimed_ids(store) == expected


async def test_held_command_lets_others_pass_and_wakes_with_its_order(
    store: SqliteStore, clock: VirtualClock
) -> None:
    held = await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    (first,) = await claimed(store)
    await settle(store, first, Cause.NOT_SENT, held=True)
    assert await store.commands.next_due("main", to_text(clock.now())) is None
    cancel = await plan(store, "cancel", "ord_1", lane="order:ord_1")
    assert await claimed_ids(store) == [cancel]
    await clock.advance(60)
    await take(store, payloads.envelope("orders/updated", payloads.order("ord_1", 1)))
    assert state(store, held)[3] == 0
    assert await claimed(store) == []  # the cancellation is under way


async def test_gate_lets_out_what_was_planned_by_then(
    store: SqliteStore, clock: VirtualClock
) -> None:
    before = await plan(store, "fulfill", "ord_1")
    opened = to_text(clock.now())
    await clock.advance(1)
    await plan(store, "fulfill", "ord_2")
    assert await claimed(store, {}) == []
    assert await claimed(store, {"cancel": ALWAYS}) == []
    assert await claimed_ids(store, gates={"fulfill": opened}) == [before]


async def test_order_of_gates_is_the_order_of_claims(store: SqliteStore) -> None:
    kinds = ("adjust", "fulfill", "cancel")
    planned = {kind: await plan(store, kind, kind) for kind in kinds}
    found = await claimed_ids(store, limit=2)
    assert found == [planned["cancel"], planned["fulfill"]]
    assert await claimed_ids(store) == [planned["adjust"]]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_no_more_than_the_limit(limit: int, store: SqliteStore) -> None:
    for number in range(3):
        await plan(store, "fulfill", f"ord_{number}")
        await plan(store, "adjust", f"prod_{number}")
    assert len(await claimed(store, limit=limit)) == limit


async def test_stores_do_not_see_each_others_commands(store: SqliteStore) -> None:
    mine = await plan(store, "fulfill", "ord_1")
    other = await plan(store, "fulfill", "ord_1", store_name="other")
    assert await claimed_ids(store) == [mine]
    assert await claimed_ids(store, name="other") == [other]


async def test_command_refused_before_it_is_sent(store: SqliteStore) -> None:
    refused = await plan(store, "fulfill", "ord_1")
    step = Transition((Cause.REFUSED,), "no need")
    assert await store.commands.claim("main", ALL, 9, lambda *_: step) == []
    assert state(store, refused)[:2] == ("rejected", 0)
    assert rows(store.path, "SELECT count(*) FROM attempts") == [(0,)]


async def test_failing_preparation_claims_nothing(store: SqliteStore) -> None:
    planned = [await plan(store, "fulfill", f"ord_{number}") for number in range(2)]

    def fail(command: Command, _: MatchReader) -> Sendable:
        if command.id == planned[1]:
            raise ZeroDivisionError
        return Sendable(b"", "")

    with pytest.raises(ZeroDivisionError):
        await store.commands.claim("main", ALL, 9, fail)
    assert [state(store, command)[0] for command in planned] == ["planned"] * 2
    assert rows(store.path, "SELECT count(*) FROM attempts") == [(0,)]


async def test_attempts_are_kept_one_by_one(
    store: SqliteStore, clock: VirtualClock
) -> None:
    command = await plan(store, "fulfill", "ord_1")
    for number in (1, 2):
        (found,) = await claimed(store)
        step = await settle(store, found, Cause.NOT_SENT, counts_as_failure=True)
        assert step is State.PLANNED
        assert state(store, command)[1:3] == (number, number)
    (found,) = await claimed(store)
    await settle(store, found, Cause.CONFIRMED, evidence={"a": 1})
    kept = rows(store.path, "SELECT number, outcome, status, response FROM attempts")
    assert kept == [(number, "x", 200, b"answer") for number in (1, 2, 3)]
    assert rows(store.path, "SELECT evidence FROM commands") == [('{"a":1}',)]
    assert state(store, command)[5] == to_text(clock.now())


async def test_step_that_the_lifecycle_does_not_know_changes_nothing(
    store: SqliteStore,
) -> None:
    command = await plan(store, "fulfill", "ord_1")
    (found,) = await claimed(store)
    with pytest.raises(ValueError, match="cannot move by"):
        await settle(store, found, Cause.PROVED_APPLIED)
    assert state(store, command)[0] == "sending"
    assert rows(store.path, "SELECT finished_at FROM attempts") == [(None,)]


async def test_interrupted_commands_are_doubted_and_no_others(
    store: SqliteStore,
) -> None:
    sending = [await plan(store, "fulfill", f"ord_{number}") for number in range(2)]
    await claimed(store)
    planned = await plan(store, "fulfill", "ord_9")
    step = Transition((Cause.UNKNOWN,), "died")
    assert sorted(await store.commands.mark_interrupted_uncertain(step)) == sorted(
        sending
    )
    assert {state(store, command)[0] for command in sending} == {"uncertain"}
    assert state(store, planned)[0] == "planned"
    assert await store.commands.mark_interrupted_uncertain(step) == []


async def test_next_due_is_the_nearest_moment_to_come(
    store: SqliteStore, clock: VirtualClock
) -> None:
    assert await store.commands.next_due("main", to_text(clock.now())) is None
    for target, minutes in (("ord_1", 5), ("ord_2", 3), ("ord_3", 9)):
        await plan(store, "fulfill", target)
        (found,) = await claimed(store)
        await settle(store, found, Cause.NOT_SENT, due_at=later(clock, minutes * 60))
    assert await store.commands.next_due("main", to_text(clock.now())) == later(
        clock, 180
    )
    assert await store.commands.next_due("other", to_text(clock.now())) is None


async def test_one_cause_is_one_command(store: SqliteStore) -> None:
    await plan(store, "fulfill", "ord_1", identity="same")
    (found,) = await claimed(store)
    await settle(store, found, Cause.CONFIRMED)
    await plan(store, "fulfill", "ord_1", identity="same")
    assert rows(store.path, "SELECT state FROM commands") == [("applied",)]
    assert await claimed(store) == []


async def test_who_came_before_claims_nothing_more(store: SqliteStore) -> None:
    await plan(store, "fulfill", "ord_1")
    await store.commands.begin_epoch()
    async with started_store(store.path) as later:
        await later.commands.begin_epoch()
    with pytest.raises(AlreadyRunning, match="another Backhaul has started"):
        await claimed(store)
