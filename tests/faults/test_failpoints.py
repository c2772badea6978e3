"""F1: the program is killed at every step of a command, and continues after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from backhaul.demo.daemon_rows import Kind
from faults.fates import CASES, DECIDED, KEYLESS, Case
from faults.sweeping import AGAIN, program, stage
from faults.trials import LONG, SEED
from scenes.faulty_network import CommandFault
from scenes.killed_programs import KillPoint, points
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults


class Scene(NamedTuple):
    """A command, what becomes of its first request, which meeting of a step kills."""

    kind: str
    fate: CommandFault
    turn: int


PUSH = {"check_after": ["0s", "20s", "60s"]}
POINTS = list(points())
FEWEST = 25
TURNS = {CommandFault.NEVER_ARRIVES: (1, 2, 5)}
"""The first meeting kills, or others too.

What never arrives is looked for thrice and sent again: its steps come several times.
"""
SCENES = [
    Scene(kind, fate, turn)
    for fate in CommandFault
    for turn in TURNS.get(fate, (1,))
    for kind in ("adjust", "part", "cancel")
]
SCENES += [Scene(AGAIN, CommandFault.THROUGH, 1)]
IN_DOUBT = [scene for scene in SCENES if scene.fate not in DECIDED]
ADJUSTED_IN_DOUBT = [scene for scene in IN_DOUBT if scene.kind == "adjust"]
MET_BY = {
    "uncertain.sibling_fulfillments": [
        scene for scene in IN_DOUBT if scene.kind == "part"
    ],
    "uncertain.known_before": [Scene(AGAIN, CommandFault.THROUGH, 1)],
    "uncertain.count_competing_adjustments": [
        Scene("adjust", CommandFault.REPLY_LOST, 1)
    ],
}
"""Steps that few scenes lead to: a parcel that is shown, a cancellation that is refused
as there is one, a change that bears no tag."""
WOUND_BACK_SECONDS = {"tags.shift": 600.0, "uncertain.postpone": -600.0}
"""How far the clock is set back at a step that only a set clock leads to.

Enough for the daemon to notice: to read everything again, or to put off its looks.
"""
STRANGE = "uncertain.last_adjusted"
"""Only where nothing went through before is a product of ours asked for."""


def acts(point: str, case: int) -> Iterator[Sequence[Scene]]:
    """Yield what is played on one platform each.

    All scenes in the long form; else one for each step and platform, which SEED shifts.
    """
    scenes = SCENES
    if not LONG:
        # What nothing but an adjustment is proved by is met by adjustments only.
        proof = point.startswith(("uncertain", "kv", "tags"))
        some = MET_BY.get(step_of(point), ADJUSTED_IN_DOUBT) if proof else SCENES
        # A prime times: so that a step meets other scenes than the step before.
        scenes = [some[(SEED + 7 * POINTS.index(point) + case) % len(some)]]
    if point.startswith(STRANGE):
        yield from ([scene] for scene in scenes)
    else:
        yield scenes


def test_there_are_enough() -> None:
    assert len(POINTS) >= FEWEST


@pytest.mark.timeout(3_600 if LONG else 600)
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_failpoint_neither_loses_nor_doubles(
    point: str, tmp_path: Path
) -> None:
    deaths = 0
    for number, quirks in enumerate(CASES):
        for part, scenes in enumerate(acts(point, number)):
            path = tmp_path / f"{number}-{part}"
            async with (
                open_shop(path) as shop,
                stage(path.with_suffix(".db"), shop, quirks, PUSH) as on,
            ):
                deaths += await play(on, point, scenes)
    assert deaths, f"no scene comes to {point}: give it one"


async def play(on: Stage, point: str, scenes: Sequence[Scene]) -> int:
    """Play scenes, hold each against what may come of it; return how many died."""
    interrupted = set()
    acquainted = not point.startswith(STRANGE)
    # Once the clock is set back, nobody knows how old a key is: none is asked again.
    keyless = {KEYLESS} if WOUND_BACK_SECONDS.get(step_of(point), 0.0) > 0 else set()
    if acquainted:
        # What goes through tells how the platform shows what is ours.
        await live(on, Scene("adjust", CommandFault.THROUGH, 1), KillPoint())
    for scene in scenes:
        mortality = KillPoint(point, scene.turn)
        command = await live(on, scene, mortality)
        if mortality.dead.is_set():
            interrupted.add(command)
            async with program(on) as revived:
                await revived.run_out()
    quirks = frozenset({*on.quirks, *keyless})
    cases = {
        id_: Case(quirks, *on.fates[id_], acquainted=acquainted) for id_ in on.fates
    }
    await judge(on, cases, interrupted)
    return len(interrupted)


async def live(on: Stage, scene: Scene, mortality: KillPoint) -> str:
    """Plan a command and live until it is settled, or until death; return its id."""
    async with program(on, mortality) as mortal:
        await on.plan_all(mortal.store, [scene.kind], [scene.fate])
        wind_back = WOUND_BACK_SECONDS.get(step_of(mortality.point), 0.0)
        await mortal.run_out(wind_back)
    return [*on.fates][-1]


def step_of(point: str) -> str:
    return point.partition(":")[0]


async def judge(on: Stage, cases: dict[str, Case], interrupted: set[str]) -> None:
    """Hold each command against its case, and both sides' books against each other."""
    states, effects = on.states(), await on.effects()
    wrong = []
    for id_, case in cases.items():
        undecided = id_ in interrupted or not on.wire.is_outcome_known(id_)
        if not case.allows(states[id_], effects[id_], undecided=undecided):
            wrong.append((case, states[id_], effects[id_], on.reason(id_)))
    assert wrong == []
    kinds = [finding.kind for finding in await on.ledger()]
    assert kinds.count(Kind.PARKED) == [*states.values()].count("parked")
    assert kinds.count(Kind.DOUBLED) == sum(count > 1 for count in effects.values())
    assert {Kind.LOST, Kind.UNEXPECTED}.isdisjoint(kinds)
