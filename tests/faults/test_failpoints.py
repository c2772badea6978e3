"""F1: the program dies at every step of a command's life, and goes on after it."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from faults.sweeping import program, stage
from faults.trials import LONG
from support.mortality import Mortality, points
from support.reference_shop import open_shop
from support.wire import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

QUIRKS = ("no-idempotency", "no-note")
"""The platform that is hardest to read: no key is taken, no tag is shown."""
KEYED = ("no-note",)
"""The same, but it takes keys: some steps are met where one is asked about again."""
PUSH = {"looks": ["0s", "20s", "60s"]}
EFFECTS = {
    Fate.NEVER_ARRIVES: (1, 2, 5),
    Fate.REPLY_LOST: (1,),
    Fate.ANSWERED_500: (1,),
    Fate.LATE_AFTER_SECOND: (1,),
}
"""What becomes of the request, and the how-manieth meeting of the step is deadly.

What never arrives is looked for thrice and sent again: its steps come several times.
"""
KINDS = ("adjust", "part", "cancel")
FEWEST = 25
WOUND_BACK_SECONDS = {"tags.shift": 600.0, "doubts.postpone": -600.0}
"""How far the clock is set back at a step that only a set clock leads to.

Enough for the daemon to notice: to read everything again, or to put off its looks.
"""


def scenes(point: str) -> Iterator[tuple[str, Fate, int]]:
    """Yield kinds, fates and turns; in the short form kinds take turns."""
    kinds = cycle(KINDS if point.endswith("before") else reversed(KINDS))
    for fate, turns in EFFECTS.items():
        for turn in turns:
            # What nothing but an adjustment is proved by is met by adjustments only.
            only_adjust = point.startswith(("doubts", "marks", "tags")) and not LONG
            for kind in KINDS if LONG else ["adjust" if only_adjust else next(kinds)]:
                yield kind, fate, turn


def test_there_are_enough() -> None:
    assert len(list(points())) >= FEWEST


@pytest.mark.parametrize("point", list(points()))
async def test_death_at_a_step_neither_loses_nor_doubles(
    point: str, tmp_path: Path
) -> None:
    deaths, quirks = 0, KEYED if point.startswith("doubts.stands") else QUIRKS
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, PUSH) as on,
    ):
        if not point.startswith("doubts.last_adjusted"):
            # What went through before tells how the platform shows what is ours; only
            # where nothing has is a product of ours asked for.
            await live(on, "adjust", Fate.THROUGH, Mortality())
        for kind, fate, turn in scenes(point):
            mortality = Mortality(point, turn)
            await live(on, kind, fate, mortality)
            deaths += mortality.dead.is_set()
            await revive(on)
            told = f"{kind}, {fate.value}, turn {turn}"
            effects = await on.effects()
            wrong = {
                id_: (state, effects[id_], on.reason(id_))
                for id_, state in on.states().items()
                if (state, effects[id_]) != ("applied", 1)
            }
            assert wrong == {}, told
        assert await on.ledger() == []
    assert deaths, f"no scene comes to {point}: give it one"


async def live(on: Stage, kind: str, fate: Fate, mortality: Mortality) -> None:
    async with program(on, mortality) as mortal:
        await on.plan_all(mortal.store, [kind], [fate])
        step = mortality.point.partition(":")[0]
        await mortal.run_out(WOUND_BACK_SECONDS.get(step, 0.0))


async def revive(on: Stage) -> None:
    """Start again, on what the dead left behind."""
    async with program(on) as immortal:
        await immortal.run_out()
