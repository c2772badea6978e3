"""Schedules of the jobs that send, with a whole daemon and a real platform."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.app.daemon import Daemon
from backhaul.cli import context
from scenes.daemon import Office, in_process
from scenes.reference_shop import open_shop
from scenes.stored import count, job_runs, rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.reference_shop import Shop

pytestmark = pytest.mark.usefixtures("engine")

JOBS = ("push_adjustments", "push_cancellations", "push_fulfillments")
FAR_MONTH = (datetime.now(UTC).month + 5) % 12 + 1
YEARLY = "".join(
    f'[jobs.{job}]\ntrigger = "cron"\ncron = "0 3 1 {FAR_MONTH} *"\n' for job in JOBS
)
KINDS = ("adjust", "cancel", "fulfill")
ALL_WAIT = [(kind, "planned") for kind in KINDS]
ALL_LEFT = [(kind, "applied") for kind in KINDS]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


@pytest.fixture
async def office(shop: Shop) -> AsyncIterator[Office]:
    """A back office with one parcel, one cancellation and one adjustment."""
    product = await shop.product(stock=10, sku="LAMP-1")
    access = shop.running.access
    office = Office(access.public_url, access.api_key, more=YEARLY)
    shipped = (await shop.order(product))["name"]
    cancelled = (await shop.order(product))["name"]
    office.put(
        "fulfillments-1.csv",
        "order,tracking_company,tracking_number",
        f"{shipped},DHL,T1",
    )
    office.put("cancellations-1.csv", "order,restock,reason", f"{cancelled},yes,STAFF")
    office.put("stock-deltas-1.csv", "sku,adjustment,reason", "LAMP-1,-1,DAMAGED")
    yield office
    office.remove()


@asynccontextmanager
async def daemon_of(office: Office) -> AsyncIterator[Daemon]:
    read = partial(context.settings, office.config)
    daemon = Daemon(read(), read=read)
    task = asyncio.create_task(daemon.run())
    try:
        await until(lambda: daemon.ready.is_set() or task.done(), "the daemon is ready")
        yield daemon
    finally:
        daemon.stop()
        await task


async def comes_to(office: Office, expected: list[tuple[Any, ...]]) -> None:
    await until(
        lambda: sorted(rows_of(office.place, "commands", "kind", "state")) == expected,
        str(expected),
    )


async def listed(office: Office) -> list[dict[str, Any]]:
    said = await asyncio.to_thread(
        in_process, "jobs", "list", "--json", config=office.config
    )
    return [row for row in said.json() if row["job"] in JOBS]


async def test_nothing_leaves_before_its_written_time(office: Office) -> None:
    """A command that an operator sends meanwhile shows that sending works."""
    async with daemon_of(office):
        await until(lambda: count(office.place, "commands") == 3, "all are planned")
        held = "commands are sent only then, because a schedule is set for the job"
        assert {row["rule"] for row in await listed(office)} == {held}
        ran = await asyncio.to_thread(
            in_process, "jobs", "run", "push_adjustments", config=office.config
        )
        assert ran.code == 0, ran.err
        await comes_to(office, [("adjust", "applied"), *ALL_WAIT[1:]])
    async with daemon_of(office):
        pass
    await comes_to(office, [("adjust", "applied"), *ALL_WAIT[1:]])


@pytest.mark.parametrize("way", ["a reload", "a restart", "eager beside it"])
async def test_all_leave_once_the_schedule_does_not_hold_them(
    office: Office, way: str
) -> None:
    without = "" if way != "eager beside it" else YEARLY.replace("cron =", EAGER)
    async with daemon_of(office) as daemon:
        await until(lambda: count(office.place, "commands") == 3, "all are planned")
        office.more = without
        office.write()
        if way == "a reload":
            daemon.reload()
            await comes_to(office, ALL_LEFT)
    if way != "a reload":
        assert sorted(rows_of(office.place, "commands", "kind", "state")) == ALL_WAIT
        async with daemon_of(office):
            await comes_to(office, ALL_LEFT)
    pushes = [run for run in job_runs(office.place) if run.job.startswith("push")]
    sent = sorted((run.job, run.trigger, run.detail) for run in pushes)
    assert sent == [(job, "planned", "sent 1") for job in JOBS]
    found = await listed(office)
    assert [row["trigger"] for row in found] == ["planned"] * 3
    assert all(row["last_run_at"] for row in found)
    assert all("are sent when planned" in row["rule"] for row in found)


EAGER = "eager = true\ncron ="
