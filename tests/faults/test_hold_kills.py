"""F1: a kill while a hold after a restore ends, by an operator or by a list.

The database is restored to before a count that was applied. An older count of the same
article is then on hold, because it may be out of date.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.record_matching import Matcher
from backhaul.core.clock import SystemClock, to_text
from backhaul.store import database_at
from backhaul.store.stock_targets import HeldFilter
from backhaul.store.testing.scenes import TestClock
from backhaul.store.testing.target_scenes import hold as hold_count
from backhaul_sdk import StockLevel
from faults.counted import counting, hand_in, live, make_true, target_of
from faults.dying_unit import BEGIN_LIST, RELEASE, RELEASED
from faults.sweeping import STORE, program, stage
from scenes import payloads
from scenes.back_office import ReportsChanges
from scenes.databases import append_and_fold, put_target, started_store
from scenes.killed_programs import KillPoint
from scenes.reference_shop import open_shop
from scenes.stored import count, rows_of, value_of, values_of
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from faults.sweeping import Program, Stage

pytestmark = pytest.mark.faults

PUSH = {"check_after": ["0s", "20s", "60s"]}
SKU = "LAMP-1"
STOCK, NEWER, OLDER = 10, 6, 7
LISTED = 5
"""The quantity that the connector submits in its whole list."""
TESTS = Path(__file__).resolve().parents[1]
FEWEST_STATEMENTS = 5


async def hold(on: Stage) -> Any:
    """Restore the database to before a count, so that an older one is held."""
    lamp = await on.shop.product(STOCK, sku=SKU)

    async with program(on) as first:
        news = payloads.envelope("products/create", lamp)
        assert await append_and_fold(first.store, news) == []
    before = to_text(on.clock.now())
    copy = on.path.with_name("backup.db")
    database_at(on.path).back_up(copy, on.clock)
    await on.clock.advance(1.0)
    at = to_text(on.clock.now())
    newer = StockLevel(key="newer", sku=SKU, quantity=NEWER, as_of=at)
    await live(on, KillPoint(), [newer])
    assert await stock(on, lamp) == NEWER
    database_at(on.path).restore(copy, [STORE], on.clock)
    older = StockLevel(key="older", sku=SKU, quantity=OLDER, as_of=before)
    async with counting(on, KillPoint()) as alive:
        await hand_in(alive, [older])
        await alive.run_until(lambda: state(on) == "held")
    return lamp


def state(on: Stage) -> str:
    """Return the state of the older count."""
    target = target_of(on, "older")
    return str(value_of(on.path, "stock_targets", "state", id=target))


async def stock(on: Stage, lamp: Any) -> int:
    product = (await on.shop.v1("GET", f"/products/{lamp['id']}")).data
    return int(product["variants"][0]["stock"])


async def release(alive: Program) -> None:
    """Release the held targets, as an operator does."""
    await alive.mortal_store.targets.release(HeldFilter(STORE), RELEASED)
    alive.sender.context.signals.command_changed.emit()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_kill_around_a_release_releases_once(
    moment: str, tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, (), PUSH, SystemClock().now()) as on,
    ):
        lamp = await hold(on)
        for mortality in (KillPoint(f"targets.release:{moment}"), KillPoint()):
            async with counting(on, mortality) as alive:
                alive.beside.append(partial(release, alive))
                await make_true(alive)
            if mortality.point:
                assert mortality.dead.is_set()
                assert state(on) == ("held" if moment == "before" else "waiting")
        assert state(on) == "applied"
        # the newer count's adjustment came after the older count
        assert await stock(on, lamp) == OLDER - (STOCK - NEWER)
        assert count(on.path, "audit", command_id=target_of(on, "older")) == 1
        assert rows_of(on.path, "commands", "kind", "state") == [("adjust", "applied")]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_kill_as_a_connector_lists_its_levels_loses_no_count(
    moment: str, tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, (), PUSH, SystemClock().now()) as on,
    ):
        lamp = await hold(on)
        source = ReportsChanges([SKU], lambda: to_text(on.clock.now()))
        for mortality in (KillPoint(f"records.begin_stock_list:{moment}"), KillPoint()):
            async with counting(on, mortality) as alive:
                polls_of(alive, source)
                await alive.run_until(lambda: state(on) == "superseded")
                await make_true(alive)
            if mortality.point:
                assert mortality.dead.is_set()
                assert state(on) == "held"
        assert await stock(on, lamp) == LISTED
        assert rows_of(on.path, "commands", "kind", "state") == [("adjust", "applied")]
        # the cursor of the list is stored together with the note of the request
        assert source.restarted == (2 if moment == "before" else 1)


def polls_of(alive: Program, source: ReportsChanges) -> None:
    """Let a program poll a connector."""
    context, clock = alive.sender.context, alive.on.clock
    context.signals.records_accepted.connect(context.signals.command_changed.emit)
    polls, matcher = PollSchedule(clock, 1.0), Matcher(clock, 600.0)
    records, documents = alive.mortal_store.records, alive.store.documents
    host = Host(source, context, polls, records, documents, matcher)
    alive.beside.append(host.run)


@pytest.fixture
async def held(tmp_path: Path) -> Path:
    """Return a database with two held counts."""
    path, clock = tmp_path / "held.db", TestClock()
    async with started_store(path, clock) as store:
        await hold_count(store, clock.advance)
    put_target(path, "b" * 32, state="held", instance="erp")
    return path


async def copies_killed(held: Path, verb: str) -> AsyncIterator[Path]:
    """Yield copies of a database; in each a process was killed at one more statement.

    In the last copy the process ended normally.
    """
    for number in itertools.count(1):
        path = held.with_name(f"{number}.db")
        shutil.copy(held, path)
        ended = await died(path, verb, number)
        yield path
        if ended:
            assert number > FEWEST_STATEMENTS
            return


async def died(path: Path, verb: str, number: int) -> bool:
    """Call the store in a process; return False if the process was killed."""
    command = [sys.executable, "-m", "faults.dying_unit", str(path), verb, str(number)]
    dying = await asyncio.create_subprocess_exec(*command, cwd=TESTS)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            code = await dying.wait()
    finally:
        with suppress(ProcessLookupError):
            dying.kill()
    assert code in {0, -SIGKILL}
    return code == 0


async def test_a_process_killed_in_a_release_releases_all_or_nothing(
    held: Path,
) -> None:
    async for path in copies_killed(held, RELEASE):
        states = values_of(path, "stock_targets", "state")
        released, noted = states.count("waiting"), count(path, "audit")
        assert (released, noted) in {(0, 0), (2, 2)}
        async with started_store(path) as store:
            rest = await store.targets.release(HeldFilter(), RELEASED)
        assert rest == 2 - released
        assert values_of(path, "stock_targets", "state") == ["waiting"] * 2
        assert count(path, "audit") == 2


async def test_a_process_killed_at_a_list_request_repeats_it_or_stores_the_cursor(
    held: Path,
) -> None:
    async for path in copies_killed(held, BEGIN_LIST):
        async with started_store(path) as store:
            is_asked = await store.records.must_read_stock_list("erp")
            cursor = await store.records.cursor("erp")
        assert (is_asked, cursor) in {(True, None), (False, "all")}
