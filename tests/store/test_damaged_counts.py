"""A damaged stock count stops no other count, and an operator can repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from loguru import logger

from backhaul.cli import command_view
from backhaul.store import database_at
from backhaul.store.commands import Decision, Sendable
from scenes.clock import VirtualClock
from scenes.databases import put_target, rows, started_store, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.sqlite.database import SqliteStore

NOW = "2026-03-01T12:00:00.000Z"
TARGET, STEP, BEFORE, OTHER = ("a" * 32, "b" * 32, "c" * 32, "d" * 32)
GATES = {"adjust": "9999"}
INSERT = """
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
      instance, created_at, due_at, sent_at, effect_id)
    VALUES (?, 'main', ?, ?, 'product:' || ?3, ?, ?, '', 'books', ?, ?, ?, ?)
"""
ADJUST = '{"variant_id": "var_1", "delta": -5}'
COUNT = '{"variant_id": "var_1", "quantity": 7, "as_of": "' + NOW + '"}'
UNAWARE, AWARE = '{"promises": []}', '{"promises": [{"command": "' + BEFORE + '"}]}'
EARLIER = "2026-03-01T11:00:00.000Z"
BROKEN = [b'{"promises": [', b'{"promises\xff": []}', b"7", b'{"promisez": []}']


def put(
    store: SqliteStore,
    id_: str,
    kind: str,
    state: str,
    payload: str = ADJUST,
    *,
    product: str = "prod_1",
) -> None:
    at = EARLIER
    effect = "adj_1" if id_ == STEP else None
    write(store.path, INSERT, *(id_, kind, product, state, payload, at, at, at, effect))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db", VirtualClock()) as started:
        yield started


def counted(
    store: SqliteStore, computation: bytes, state: str = "applied", second: str = ""
) -> None:
    """Insert a count with its adjustment, and two earlier commands of two products."""
    kept = f'{{"computation": {second}}}' if second else None
    put(store, BEFORE, "adjust", "planned")
    put(store, STEP, "adjust", state)
    put(store, OTHER, "adjust", "planned", product="prod_2")
    put_target(
        store.path,
        TARGET,
        state="adjusting" if state == "planned" else state,
        payload=COUNT,
        evidence=kept,
        as_of=NOW,
        correction=STEP,
        created_at=NOW,
        due_at=NOW,
        delta=-3,
        ledger=0,
        unread=1,
    )
    reckon = (
        "UPDATE stock_targets SET computation = CAST(? AS TEXT),"
        " levels = CAST(? AS TEXT)"
    )
    write(store.path, reckon, computation, computation)


def prepare(command: Command, mirror: MatchReader) -> Sendable | Transition:
    assert mirror.supersede_reason(command) is None
    return Sendable(b"x", "key")


async def claimed(store: SqliteStore) -> list[str]:
    found = await store.commands.claim("main", GATES, 9, prepare)
    return sorted(command.id for command, _ in found)


def state_and_reason(store: SqliteStore, id_: str) -> tuple[str, str]:
    ((state, reason),) = rows(
        store.path, "SELECT state, reason FROM commands WHERE id = ?", id_
    )
    return state, reason


@pytest.mark.parametrize("broken", BROKEN)
async def test_only_commands_that_a_damaged_count_may_contain_wait_for_an_operator(
    broken: bytes, store: SqliteStore
) -> None:
    counted(store, broken)
    assert await claimed(store) == [OTHER]
    state, reason = state_and_reason(store, BEFORE)
    assert state == "parked"
    assert (
        f"the count of 7 as of {NOW} (target aaaaaaaa) may include this change"
        in reason
    )
    await store.decisions.decide(Decision(BEFORE, "resend", "kim", "not contained"))
    assert await claimed(store) == [BEFORE]


@pytest.mark.parametrize("broken", [*BROKEN, b'{"promises": ["x"]}'])
async def test_a_command_that_a_damaged_count_includes_can_be_parked(
    broken: bytes, store: SqliteStore
) -> None:
    counted(store, broken, second=AWARE)
    await store.decisions.decide(Decision(BEFORE, "park", "kim", "seen"))
    state, reason = state_and_reason(store, BEFORE)
    assert state == "parked"
    assert f"the count of 7 as of {NOW} (target aaaaaaaa) includes it" in reason


@pytest.mark.parametrize("broken", BROKEN)
async def test_its_second_copy_says_the_same(broken: bytes, store: SqliteStore) -> None:
    counted(store, broken, second=AWARE)
    assert await claimed(store) == [BEFORE, OTHER]


async def test_a_count_that_is_not_applied_yet_is_computed_again(
    store: SqliteStore,
) -> None:
    """The new computation repairs it."""
    counted(store, BROKEN[0], "planned")
    assert await claimed(store) == [BEFORE, OTHER]
    assert state_and_reason(store, STEP)[0] == "superseded"
    messages = "SELECT computation, correction FROM stock_targets"
    assert rows(store.path, messages) == [(None, None)]


@pytest.mark.parametrize("spoiled", ["levels", "evidence", "payload"])
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_damaged_count_is_read_with_its_remaining_facts(
    spoiled: str, broken: bytes, store: SqliteStore
) -> None:
    counted(store, b'{"var_1": 10, "var_2": 4}')
    if spoiled == "levels":
        write(store.path, "UPDATE stock_targets SET levels = CAST(? AS TEXT)", broken)
    else:
        for table, id_ in (("stock_targets", TARGET), ("commands", STEP)):
            change = f"UPDATE {table} SET {spoiled} = CAST(? AS TEXT)"  # noqa: S608 - ours
            write(store.path, f"{change} WHERE id = ?", broken, id_)
    messages: list[str] = []
    listening = logger.add(messages.append, format="{extra[action]}")
    try:
        (reading,) = await store.targets.readings("main", 9)
        around = await store.targets.other_variants(reading)
    finally:
        logger.remove(listening)
    assert reading.as_of == NOW
    known = {"var_1": frozenset({10}), "var_2": frozenset({4})}
    assert around.expected == ({} if spoiled == "levels" else known)
    assert messages == ["target.damaged\n"] * (spoiled == "levels")


@pytest.mark.parametrize("broken", BROKEN)
async def test_an_operator_sees_the_rest_of_a_damaged_count(
    broken: bytes, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    counted(store, broken)
    write(store.path, "UPDATE stock_targets SET evidence = CAST(? AS TEXT)", broken)
    with database_at(store.path).reader() as known:
        found = known.command(TARGET[:8])
    assert found is not None
    command_view.show(found)
    text = " ".join(capsys.readouterr().out.split())
    assert f"applied by adjust command {STEP}" in text
    assert "calculation unreadable: it is damaged in the database" in text
