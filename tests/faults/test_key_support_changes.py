"""A platform stops or starts accepting keys; uncertain commands take effect once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.app.wiring import build_client
from backhaul_reference.platform.quirks import parse
from faults.capturing import set_quirks
from faults.fates import KEYLESS
from faults.sweeping import STORE, program, stage
from scenes.faulty_network import CommandFault
from scenes.killed_programs import KillPoint
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

SCENES: list[tuple[str, tuple[str, ...]]] = [
    (kind, ()) for kind in ("adjust", "part", "cancel")
]
SCENES += [("adjust", ("no-history",))]
FATES = (CommandFault.THROUGH, CommandFault.NEVER_ARRIVES)
"""What arrived must not be done again, what did not is."""


async def change(on: Stage, quirks: tuple[str, ...]) -> None:
    """Let the platform be another, as a restarted program finds it."""
    await set_quirks(on.shop, parse(quirks))
    transport, client = build_client(on.settings, STORE, on.clock, on.wire)
    on.facts = await client.facts()
    await transport.close()


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.value)
@pytest.mark.parametrize(("kind", "reading"), SCENES, ids=str)
@pytest.mark.parametrize(
    ("first", "then"),
    [((), (KEYLESS,)), ((KEYLESS,), ())],
    ids=["no more", "only now"],
)
async def test_a_command_sent_before_a_platform_change_takes_effect_once(
    first: tuple[str, ...],
    then: tuple[str, ...],
    kind: str,
    reading: tuple[str, ...],
    fate: CommandFault,
    tmp_path: Path,
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, (*first, *reading)) as on,
    ):
        # It dies as soon as the request has left.
        async with program(on, KillPoint("POST:during")) as mortal:
            await on.plan_all(mortal.store, [kind], [fate])
            await mortal.run_out()
        ((command, state),) = on.states().items()
        assert state == "sending"
        await change(on, (*then, *reading))
        await on.clock.advance(1)
        async with program(on) as revived:
            await revived.run_out()
        arrived = fate is CommandFault.THROUGH
        # Without a history nothing but a key could tell, and that protects no more.
        came_to = ("parked", int(arrived)) if reading else ("applied", 1)
        assert (on.states()[command], (await on.effects())[command]) == came_to
