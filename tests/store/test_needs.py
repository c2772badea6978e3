"""What needs a person is read from the tables, all of it, and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.store.operations import BackupState, JobRun, Trigger
from scenes import payloads
from scenes.clock import START, VirtualClock
from scenes.databases import started_store, take, write
from scenes.payloads import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store.sqlite.database import SqliteStore

BACKUP = ("backup", "")
COMMAND = """
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
        instance, created_at, due_at, reason, evidence)
    VALUES (?, 'main', 'adjust', 'prod_1', 'product:prod_1', ?, '{}', '', 'courier',
        '', '', 'why', ?)
"""
MANY = 150


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(
    tmp_path_factory: pytest.TempPathFactory, clock: VirtualClock
) -> AsyncIterator[SqliteStore]:
    path = tmp_path_factory.mktemp("needs") / "b.db"
    async with started_store(path, clock) as started:
        yield started


async def test_every_parked_command_is_found_the_oldest_first(
    store: SqliteStore,
) -> None:
    for number in range(MANY):
        write(store.path, COMMAND, f"c{number:03}", "parked", None)
    write(store.path, COMMAND, "done", "applied", None)
    parked = (await store.alert_conditions.current([])).parked
    assert [command.id for command in parked] == [f"c{n:03}" for n in range(MANY)]
    assert parked[0].detail == "why"


@pytest.mark.parametrize(
    ("lost", "throttled", "state", "told"),
    [
        (5, 0, "planned", ["c1"]),
        (7, 0, "uncertain", ["c1"]),
        (4, 9, "planned", []),
        (5, 0, "applied", []),
    ],
)
async def test_what_is_sent_again_and_again_in_vain_is_found(
    lost: int, throttled: int, state: str, told: list[str], store: SqliteStore
) -> None:
    write(store.path, COMMAND, "c1", state, None)
    write(store.path, "UPDATE commands SET attempts = ?", lost + throttled)
    outcomes = [None, *["uncertain"] * (lost - 1), *["throttled"] * throttled]
    for number, outcome in enumerate(outcomes):
        query = "INSERT INTO attempts (command_id, number, started_at, outcome)"
        write(store.path, f"{query} VALUES ('c1', ?, '', ?)", number, outcome)
    repeated = (await store.alert_conditions.current([])).repeated
    assert [command.id for command in repeated] == told


async def test_effects_too_many_are_found_by_command(store: SqliteStore) -> None:
    write(store.path, COMMAND, "c1", "applied", '{"doubled": ["adj_2", "adj_3"]}')
    write(store.path, COMMAND, "c2", "applied", '{"note": "\\"doubled\\""}')
    write(store.path, COMMAND, "c3", "parked", 'damaged "doubled" [')
    write(store.path, COMMAND, "c4", "applied", '{"doubled": []}')
    adopted = "INSERT INTO adopted VALUES ('main', ?, ?, '{}', '')"
    for adjustment, command in (("a1", "old"), ("a2", "old"), ("a3", "once")):
        write(store.path, adopted, adjustment, command)
    doubled = (await store.alert_conditions.current([])).doubled
    found = [(command.id, command.detail) for command in doubled]
    assert found == [("c1", "adj_2, adj_3"), ("old", "a1, a2")]


async def test_counts_are_stopped_until_they_are_resumed(store: SqliteStore) -> None:
    await store.targets.stop("main", "var_2 moved too")
    stopped = (await store.alert_conditions.current([])).counts_stopped
    assert stopped == {"main": "var_2 moved too"}
    await store.targets.stop("main", None)
    assert (await store.alert_conditions.current([])).counts_stopped == {}


async def test_when_news_of_another_store_came_last_is_found(
    store: SqliteStore, clock: VirtualClock
) -> None:
    await take(store, envelope("orders/create", payloads.order()))
    assert (await store.alert_conditions.current([])).foreign_webhooks == {}
    for other in ("sto_2", "sto_3"):
        await clock.advance(60)
        await take(store, envelope("orders/create", payloads.order(), storeId=other))
    strangers = (await store.alert_conditions.current([])).foreign_webhooks
    assert strangers == {"main": f"{to_text(clock.now())} sto_3"}


SUBSCRIBER = """
    INSERT INTO subscribers (instance, store, since, begun, "cursor")
    VALUES (?, 'main', '', 0, 0)
"""
NEWS = """
    INSERT INTO deliveries (id, instance, store, topic, object_id, change_id, state,
        reason, created_at, due_at)
    VALUES (?1, ?2, 'main', 'order.placed', ?3, 1, ?4, 'why', ?5, '')
"""


async def test_news_are_found_that_are_parked_and_the_oldest_that_wait(
    store: SqliteStore,
) -> None:
    for name in ("erp", "shop", "idle"):
        write(store.path, SUBSCRIBER, name)
    for number, (name, object_id, state) in enumerate(
        [
            ("erp", "ord_1", "applied"),
            ("erp", "ord_2", "parked"),
            ("erp", "ord_2", "planned"),
            ("erp", "ord_3", "planned"),
            ("erp", "ord_4", "planned"),
            ("shop", "ord_3", "planned"),
            ("shop", "ord_4", "uncertain"),
        ]
    ):
        at = f"2026-03-0{9 - number if name == 'shop' else number + 1}"
        write(store.path, NEWS, f"d{number}", name, object_id, state, at)
    needs = await store.alert_conditions.current([])
    found = [(one.instance, one.object_id) for one in needs.parked_deliveries]
    assert found == [("erp", "ord_2")]
    assert needs.deliveries_since == {"erp": "2026-03-04", "shop": "2026-03-03"}


async def backed_up(store: SqliteStore, clock: VirtualClock, *, failed: bool) -> str:
    """Let an hour pass and a backup be made; return when it began."""
    await clock.advance(3_600)
    at = to_text(clock.now())
    await store.job_runs.begin(JobRun(BACKUP, Trigger.SCHEDULE, at, at))
    await store.job_runs.end(BACKUP, at, "said", failed=failed)
    return at


async def test_backups_stand_where_the_last_ones_ended(
    store: SqliteStore, clock: VirtualClock
) -> None:
    assert (await store.alert_conditions.current([])).backup is None
    await store.job_runs.register({BACKUP: "every 1d"})
    since = to_text(START)
    assert (await store.alert_conditions.current([])).backup == BackupState(
        None, since, None
    )
    made = await backed_up(store, clock, failed=False)
    assert (await store.alert_conditions.current([])).backup == BackupState(
        None, made, None
    )
    await backed_up(store, clock, failed=True)
    assert (await store.alert_conditions.current([])).backup == BackupState(
        "said", made, None
    )


async def test_a_backup_dated_by_a_clock_that_was_ahead_hides_no_later_one(
    store: SqliteStore, clock: VirtualClock
) -> None:
    await store.job_runs.register({BACKUP: "every 1d"})
    clock.set_back(-86_400)
    await backed_up(store, clock, failed=False)
    clock.set_back(86_400)
    made = await backed_up(store, clock, failed=False)
    await backed_up(store, clock, failed=True)
    assert (await store.alert_conditions.current([])).backup == BackupState(
        "said", made, None
    )


async def test_a_backup_that_is_being_made_makes_up_for_nothing_yet(
    store: SqliteStore, clock: VirtualClock
) -> None:
    """Or else the one that failed would be over, and fail anew, at each try."""
    await store.job_runs.register({BACKUP: "every 1d"})
    await backed_up(store, clock, failed=True)
    at = to_text(clock.now())
    await store.job_runs.begin(JobRun(BACKUP, Trigger.OPERATOR, at, at))
    backup = (await store.alert_conditions.current([])).backup
    assert backup == BackupState("said", to_text(START), at)
