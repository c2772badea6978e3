"""Events in any order end in the platform's own state, whatever is missing.

A run of a real shop is delivered in order, then shuffled and repeated; a full sync
follows each time. All mirrors must be equal byte for byte, and equal to a new backfill
and to the platform. They must show all content of the events before the full sync.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from backhaul.cli import context
from backhaul.store.sql.mirror.compare_mirrors import MIRROR
from backhaul_reference.platform import quirks as readings
from faults.capturing import capture
from faults.mirroring import mirroring
from faults.trials import LONG
from scenes.daemon import Office
from scenes.databases import dump
from scenes.loop_guard import on_purpose
from scenes.reference_shop import open_shop
from scenes.stored import rows_of, values_of
from scenes.syncing import shown_by_mirror, shown_by_platform

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.settings import Settings
    from backhaul.store.inbox import Arrival
    from backhaul_reference.platform.quirks import Quirks
    from scenes.syncing import Shown

COMPARED = {table: MIRROR[table] for table in MIRROR if table != "stock_ledger"}
TOLD_BY_EVENTS_ONLY = b'"deleted"'
"""No list of the platform contains tombstones."""
NAMES = {"restock-field": "=putBack", "tracking-fields": "=carrier,awb"}
EACH = [name + NAMES.get(name, "") for name in readings.NAMES]
QUIRKS: dict[str, list[str]] = {
    "as specified": [],
    **{name: [name] for name in EACH},
    "all but no-retry": [name for name in EACH if name != "no-retry"],
    "all": EACH,
}


@dataclass(frozen=True, slots=True)
class Size:
    """The number of changes in the store, and of delivery orders that are tried."""

    events: int
    objects: int
    orders: int


# Four orders under each of the thirty readings: over a hundred in all, in an hour.
LONG_RUN, SHORT_RUN = Size(10_000, 500, 4), Size(60, 12, 2)
SOME_ORDERS = Size(150, 24, 3)


def settings_for(office: Office, quirks: Quirks) -> Settings:
    """Return the settings that an operator needs for such a platform."""
    company, number = quirks.tracking_fields
    fields = f'{{tracking_company = "{company}", tracking_number = "{number}"}}'
    restock = f'restock_field = "{quirks.restock_field}"'
    key = "webhook_secrets ="
    office.write(**{key: f"{restock}\nfields = {fields}\n{key}"})
    return context.settings(office.config)


def common(path: Path) -> list[bytes]:
    """Return the columns that a mirror and a new backfill have in common."""
    with on_purpose():
        found = list(dump(path, COMPARED, without=("updated_at", "deleted_at")))
    return [line for line in found if TOLD_BY_EVENTS_ONLY not in line]


def whole(path: Path, quirks: Quirks) -> list[bytes]:
    """Return the canonical dump of a mirror.

    Without a webhook, only our own read gives the time of a deletion.
    """
    untold = ("updated_at", "deleted_at") if "no-retry" in quirks else ()
    with on_purpose():
        return list(dump(path, without=untold))


def shuffled(arrivals: Sequence[Arrival], seed: int) -> list[Arrival]:
    """Return all webhooks in another order, some of them twice."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    all_told = [*arrivals, *chance.choices(arrivals, k=len(arrivals) // 5)]
    chance.shuffle(all_told)
    return all_told


async def deliver(settings: Settings, arrivals: Sequence[Arrival], path: Path) -> Shown:
    """Fill a mirror; return its dump before the full sync."""
    async with mirroring(settings, path) as mirror:
        await mirror.take(arrivals)
        await mirror.settle()
        quiet = shown_by_mirror(path)
        await mirror.sweep()
    assert rows_of(path, "quarantine", "name", "reason") == []
    assert values_of(path, "events", "detail", state="unhandled") == []
    return quiet


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected dumps of every mirror.

    `quiet` is None if webhooks stay lost: then only the full sync makes it equal.
    """

    quiet: Shown | None
    whole: list[bytes]

    def is_met(self, quiet: Shown, whole: list[bytes]) -> bool:
        return self.quiet in (None, quiet) and self.whole == whole


async def compare(folder: Path, quirks: Quirks, size: Size) -> tuple[list[int], int]:
    """Return the seeds whose mirror is wrong, and the number of events."""
    async with contextlib.AsyncExitStack() as at_end:
        shop = await at_end.enter_async_context(open_shop(folder / "shop"))
        chance = random.Random(size.events)  # noqa: S311 - repeatable
        arrivals = await capture(
            shop, quirks, chance, folder / "captured.db", size.events, size.objects
        )
        office = Office(shop.running.access.public_url, shop.running.access.api_key)
        at_end.callback(office.remove)
        settings = settings_for(office, quirks)
        shown = shown_by_platform(await shop.state())
        expected = await expect(folder, settings, quirks, arrivals, shown)
        wrong = []
        for seed in range(1, size.orders + 1):
            path = folder / f"{seed}.db"
            quiet = await deliver(settings, shuffled(arrivals, seed), path)
            if not expected.is_met(quiet, whole(path, quirks)):
                wrong.append(seed)
            path.unlink()
    return wrong, len(arrivals)


async def expect(
    folder: Path,
    settings: Settings,
    quirks: Quirks,
    arrivals: Sequence[Arrival],
    shown: Shown,
) -> Expected:
    """Return the result of an ordered run, checked against a new backfill."""
    fresh, in_order = folder / "fresh.db", folder / "in_order.db"
    async with mirroring(settings, fresh) as mirror:
        await mirror.fill()
    assert shown_by_mirror(fresh) == shown
    await deliver(settings, arrivals, in_order)
    assert common(in_order) == common(fresh)
    quiet = None if "no-retry" in quirks else shown
    return Expected(quiet, whole(in_order, quirks))


@pytest.mark.faults
@pytest.mark.timeout(14_400 if LONG else 600)
@pytest.mark.parametrize("name", QUIRKS)
async def test_any_order_ends_in_the_platforms_state(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, size = time.monotonic(), LONG_RUN if LONG else SHORT_RUN
    wrong, told = await compare(tmp_path, readings.parse(QUIRKS[name]), size)
    seconds = time.monotonic() - began
    with capsys.disabled():
        sys.stdout.write(f" {size.orders} orders of {told} events, {seconds:.1f} s ")
    assert wrong == []


@pytest.mark.parametrize("name", ["as specified", "all but no-retry"])
async def test_some_orders_of_a_short_run_do(name: str, tmp_path: Path) -> None:
    quirks = readings.parse(QUIRKS[name])
    wrong, _ = await compare(tmp_path, quirks, SOME_ORDERS)
    assert wrong == []
