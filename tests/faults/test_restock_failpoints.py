"""A kill while the rest of an order is cancelled leaves one adjustment of the rest.

The order has 5 units, 2 of which have shipped. It is cancelled without the restock, and
an adjustment puts back 3 units once the cancellation is applied.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from backhaul.core.clock import SystemClock
from backhaul.core.identity import command_id
from faults.dying_restock import AFTER_COMMIT, MOMENTS
from faults.sweeping import REST, STORE, program, stage
from faults.trials import LONG
from scenes.faulty_network import CommandFault
from scenes.killed_programs import KillPoint
from scenes.reference_shop import open_shop
from scenes.stored import rows_of, value_of
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.demo.daemon_rows import Finding
    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

TESTS = Path(__file__).resolve().parents[1]
STOCK, ORDERED, UNSHIPPED = 10, 5, 3
PUSH = {
    "check_after": ["0s", "20s", "60s"],
    "cancel_partly_shipped": "restock_unshipped",
}
KEYLESS = ("no-idempotency",)
DONE = [("cancel", "applied", None), ("adjust", "applied", UNSHIPPED)]


class Scene(NamedTuple):
    """What becomes of the first request of the cancellation and of the adjustment."""

    cancel: CommandFault
    adjust: CommandFault


SCENES = [
    Scene(CommandFault.THROUGH, CommandFault.THROUGH),
    Scene(CommandFault.REPLY_LOST, CommandFault.THROUGH),
    Scene(CommandFault.THROUGH, CommandFault.REPLY_LOST),
    Scene(CommandFault.NEVER_ARRIVES, CommandFault.NEVER_ARRIVES),
]
WRITING = (
    "POST",
    "commands.claim",
    "commands.record_attempt",
    "uncertain.record_check",
)
"""The short form dies at these: the steps that send or write."""
MOST_TURNS = 20 if LONG else 4
"""How often a step is met that kills each time; what waits is met again and again."""
FEWEST_DEATHS = 14


@pytest.mark.timeout(3_600 if LONG else 600)
@pytest.mark.parametrize("quirks", [(), KEYLESS], ids=["keys", "no keys"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda s: f"{s.cancel}, {s.adjust}")
async def test_a_kill_at_any_failpoint_restocks_the_rest_once(
    scene: Scene, quirks: tuple[str, ...], tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, PUSH) as on,
    ):
        rehearsal = KillPoint()
        await live(on, scene, rehearsal)
        deaths = 0
        for point, turn in steps(rehearsal):
            mortality = KillPoint(point, turn)
            cancel = await live(on, scene, mortality)
            deaths += mortality.dead.is_set()
            hold_together(on, cancel)
            async with program(on) as revived:
                await revived.run_out()
            assert since(on, cancel) == DONE, (point, turn)
            assert await stock(on, cancel) == STOCK - ORDERED + UNSHIPPED, (point, turn)
        assert deaths >= FEWEST_DEATHS
        assert set((await on.effects()).values()) == {1}
        assert await differences(on) == []


def steps(rehearsal: KillPoint) -> Iterator[tuple[str, int]]:
    """Yield each step of the two commands' lives, and which meeting of it kills."""
    for point, met in rehearsal.counts.items():
        if LONG or point.startswith(WRITING):
            yield from ((point, turn) for turn in range(1, min(met, MOST_TURNS) + 1))


async def live(on: Stage, scene: Scene, mortality: KillPoint) -> str:
    """Cancel the rest of an order until both are settled, or until death."""
    async with program(on, mortality) as mortal:
        await on.plan_all(mortal.store, [REST], [scene.cancel])
        cancel = [*on.fates][-1]
        if scene.adjust is not CommandFault.THROUGH:
            on.wire.faults[await adjustment_of(on, cancel)] = scene.adjust
        await mortal.run_out()
    return cancel


def hold_together(on: Stage, cancel: str) -> None:
    """Assert that the adjustment is planned if the cancellation is applied, or none."""
    (_, state, _), *adjustments = since(on, cancel)
    assert len(adjustments) == (state == "applied")


def since(on: Stage, cancel: str) -> list[tuple[str, str, int | None]]:
    """Return kind, state and units of a cancellation and of the commands after it."""
    first = value_of(on.path, "commands", "seq", id=cancel)
    found = rows_of(on.path, "commands", "seq", "kind", "state", "payload")
    return [
        (kind, state, json.loads(payload).get("delta"))
        for seq, kind, state, payload in found
        if seq >= first
    ]


async def order_of(on: Stage, cancel: str) -> Any:
    order = value_of(on.path, "commands", "target", id=cancel)
    return (await on.shop.v1("GET", f"/orders/{order}")).data


async def adjustment_of(on: Stage, cancel: str) -> str:
    """Return the id that the adjustment behind a cancellation will have."""
    (line,) = (await order_of(on, cancel))["items"]
    key = f"restock:{cancel}:{line['variantId']}"
    return command_id(STORE, "courier", key, "adjust")


async def stock(on: Stage, cancel: str) -> int:
    (line,) = (await order_of(on, cancel))["items"]
    product = (await on.shop.v1("GET", f"/products/{line['productId']}")).data
    return int(product["variants"][0]["stock"])


async def differences(on: Stage) -> list[Finding]:
    """Return what the ledger finds; the parcels that the test shipped are no command's.

    Their orders are cancelled all the same, as the merchant wants it.
    """
    found = await on.ledger()
    return [one for one in found if not one.subject.startswith("parcel of")]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("quirks", [(), KEYLESS], ids=["keys", "no keys"])
async def test_a_killed_process_puts_the_rest_back_once(
    moment: str, quirks: tuple[str, ...], tmp_path: Path
) -> None:
    now = SystemClock().now()
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, PUSH, now) as on,
    ):
        async with program(on) as planning:
            await on.plan_all(planning.store, [REST], [CommandFault.THROUGH])
        (cancel,) = on.fates
        await die(on, moment)
        (_, state, _), *planned = since(on, cancel)
        if moment == AFTER_COMMIT:
            assert (state, planned) == ("applied", [("adjust", "planned", UNSHIPPED)])
        else:
            assert (state, planned) == ("sending", [])
        assert await stock(on, cancel) == STOCK - ORDERED
        await on.clock.advance(600)
        async with program(on) as revived:
            await revived.run_out()
        assert since(on, cancel) == DONE
        assert await stock(on, cancel) == STOCK - ORDERED + UNSHIPPED
        assert await on.effects() == dict.fromkeys(on.states(), 1)
        assert await differences(on) == []


async def die(on: Stage, moment: str) -> None:
    """Run a program until it kills itself at a moment."""
    access = on.shop.running.access
    store = {"base_url": access.public_url, "api_key": access.api_key}
    told = json.dumps({"stores": {STORE: store}, "push": PUSH})
    command = [sys.executable, "-m", "faults.dying_restock", str(on.path), told, STORE]
    dying = await asyncio.create_subprocess_exec(
        *command, moment, cwd=TESTS, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(HANG_SECONDS):
            assert await dying.wait() == -SIGKILL
    finally:
        with suppress(ProcessLookupError):
            dying.kill()
