"""Decisions since a backup that a restore takes back are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.commands import Decision
from backhaul.store.operations import AuditEntry
from backhaul.store.sqlite import file_backup
from backhaul.store.sqlite.restoring import restore
from scenes.commands import plan
from scenes.databases import put_target, started_store, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore

CLOCK = SystemClock()
PARK = "backhaul commands park {} --reason 'before the restore'"
DROP = "backhaul commands discard {} --reason 'before the restore'"
CONFIRM = "backhaul commands resolve {} --applied --reason 'before the restore'"
SINCE_OPEN = {
    "parked": (["park"], f"parked is open again: {PARK}"),
    "dropped": (["park", "discard"], f"discarded is open again: {PARK} && {DROP}"),
    "confirmed": (
        ["park", "resolve --applied"],
        f"marked as applied is open again: {PARK} && {CONFIRM}",
    ),
    "sent again": (["park", "resend"], None),
}
SINCE_PARKED = {
    "dropped": (["discard"], f"discarded is parked again: {DROP}"),
    "confirmed": (
        ["resolve --applied"],
        f"marked as applied is parked again: {CONFIRM}",
    ),
    "sent again": (["resend"], None),
    "sent again and parked": (["resend", "park"], None),
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


async def decide(store: SqliteStore, command: str, *verbs: str) -> None:
    for verb in verbs:
        await store.decisions.decide(Decision(command, verb, "ann", "seen"))


async def states(store: SqliteStore, *commands: str) -> set[str]:
    return {(await store.decisions.find(command)).state for command in commands}


async def restored_commands(store: SqliteStore, backup: Path) -> tuple[str, ...] | None:
    """Restore; return the reported commands that came back."""
    await store.stop()
    return restore(backup, store.path, ["main"], CLOCK).returned


def backed_up(store: SqliteStore) -> Path:
    backup = store.path.with_name("backup.db")
    file_backup.copy(store.path, backup)
    return backup


@pytest.mark.parametrize(("verbs", "says"), SINCE_OPEN.values(), ids=SINCE_OPEN)
async def test_a_decided_command_that_a_restore_reopened_is_reported(
    store: SqliteStore, verbs: list[str], says: str | None
) -> None:
    command = await plan(store, "adjust", "prod_1")
    backup = backed_up(store)
    await decide(store, command, *verbs)
    line = says and f"a command that was {says.replace('{}', command)}"
    assert await restored_commands(store, backup) == ((line,) if line else ())


@pytest.mark.parametrize(("verbs", "says"), SINCE_PARKED.values(), ids=SINCE_PARKED)
async def test_a_command_that_needs_an_operator_again_is_reported(
    store: SqliteStore, verbs: list[str], says: str | None
) -> None:
    command = await plan(store, "adjust", "prod_1")
    await decide(store, command, "park")
    backup = backed_up(store)
    await decide(store, command, *verbs)
    line = says and f"a command that was {says.replace('{}', command)}"
    assert await restored_commands(store, backup) == ((line,) if line else ())


async def test_a_command_that_was_under_way_is_reported_as_waiting(
    store: SqliteStore,
) -> None:
    """A command that is being sent becomes uncertain at the next start."""
    command = await plan(store, "adjust", "prod_1")
    write(store.path, "UPDATE commands SET state = 'sending'")
    backup = backed_up(store)
    write(store.path, "UPDATE commands SET state = 'uncertain'")
    await decide(store, command, "park")
    says = f"parked is open again (after the start): {PARK.format(command)}"
    assert await restored_commands(store, backup) == (f"a command that was {says}",)


async def counted(store: SqliteStore) -> tuple[str, str]:
    """Plan a count that waits for its adjustment; return the ids of both."""
    count = "a" * 32
    put_target(store.path, count, as_of="2026-03-01T12:00:00.000Z")
    step = await plan(store, "adjust", "prod_1")
    stands_behind = "UPDATE stock_targets SET state = 'adjusting', correction = ?"
    write(store.path, stands_behind, step)
    return count, step


EFFECT_OF = {"park": "parked", "discard": "rejected", "resolve --applied": "applied"}
BEHIND_A_STEP = [(verbs, says) for verbs, says in SINCE_OPEN.values() if says]


@pytest.mark.parametrize(("verbs", "says"), BEHIND_A_STEP)
async def test_the_adjustment_that_blocks_a_count_is_named(
    store: SqliteStore, verbs: list[str], says: str
) -> None:
    """The count cannot be decided, because it depends on its adjustment."""
    count, step = await counted(store)
    backup = backed_up(store)
    # the adjustment is discarded, and the operator decides the count itself
    await decide(store, step, "park", "discard")
    await decide(store, count, "resend", *verbs)
    assert await restored_commands(store, backup) == (
        f"a command that was {says.replace('{}', step)}",
    )
    async with started_store(store.path) as restored:
        await decide(restored, step, *verbs)
        assert await states(restored, count, step) == {EFFECT_OF[verbs[-1]]}


async def test_of_a_count_that_is_parked_again_with_its_adjustment_too(
    store: SqliteStore,
) -> None:
    count, step = await counted(store)
    await decide(store, step, "park")
    backup = backed_up(store)
    await decide(store, step, "discard")
    await decide(store, count, "resend", "park", "resolve --applied")
    confirmed = f"marked as applied is parked again: {CONFIRM.format(step)}"
    assert await restored_commands(store, backup) == (
        f"a command that was {confirmed}",
    )


async def test_commands_that_moved_alone_or_are_not_in_the_backup_are_not_reported(
    store: SqliteStore,
) -> None:
    """One took effect late; the other was not requested yet."""
    landed = await plan(store, "adjust", "prod_1")
    backup = backed_up(store)
    await decide(store, landed, "park")
    write(store.path, "UPDATE commands SET state = 'applied'")
    await decide(store, await plan(store, "adjust", "prod_2"), "park")
    assert await restored_commands(store, backup) == ()


async def test_a_paused_job_that_runs_again_after_a_restore_is_reported(
    store: SqliteStore,
) -> None:
    jobs = [("prune", ""), ("push_fulfillments", "main")]
    deed = AuditEntry("ann", "jobs pause", "all")
    rests = ("push_cancellations", "main")
    await store.job_runs.pause([rests], deed)
    backup = backed_up(store)
    await store.job_runs.pause([*jobs, rests], deed)
    assert await restored_commands(store, backup) == (
        "job prune was paused and runs again: backhaul jobs pause prune",
        "job push_fulfillments of main was paused and runs again:"
        " backhaul jobs pause push_fulfillments --store main",
    )
