"""F1: each outcome of a request, for each platform behavior, has one effect."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.demo.daemon_rows import Kind
from faults.fates import CASES, KEYLESS, Case
from faults.sweeping import PLANS, TOO_LATE, program, stage
from faults.trials import LONG
from scenes.faulty_network import CommandFault
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults


def case_of(on: Stage, command: str, quirks: tuple[str, ...]) -> Case:
    return Case(frozenset(quirks), *on.fates[command])


@asynccontextmanager
async def swept(quirks: tuple[str, ...], path: Path) -> AsyncIterator[Stage]:
    """Run every kind of command with every fault."""
    async with (
        open_shop(path / "shop") as shop,
        stage(path / "backhaul.db", shop, quirks) as on,
    ):
        async with program(on) as alive:
            await on.plan_all(alive.store, PLANS, [CommandFault.THROUGH])
            await alive.run_out()
            await on.plan_all(alive.store, PLANS, CommandFault)
            await alive.run_out()
        assert on.wire.faults == {}, "not every fate was met"
        yield on


@pytest.mark.parametrize("quirks", CASES, ids=lambda names: " ".join(names) or "plain")
async def test_every_command_takes_effect_once(
    quirks: tuple[str, ...], tmp_path: Path
) -> None:
    async with swept(quirks, tmp_path) as on:
        states, effects = on.states(), await on.effects()
        cases = {id_: case_of(on, id_, quirks) for id_ in on.fates}
        wrong = [
            f"{case.kind}, {case.fate.value}: {states[id_]} with {effects[id_]} effects"
            f" instead of {case.state} with {case.effects}: {on.reason(id_)}"
            for id_, case in cases.items()
            if (states[id_], effects[id_]) != (case.state, case.effects)
        ]
        assert wrong == []
        assert left_to_people(cases) == undecidable(on, cases)
        await check_ledger(on, cases)


def left_to_people(cases: dict[str, Case]) -> set[str]:
    return {
        id_
        for id_, case in cases.items()
        if case.state == "parked" and not case.refused
    }


def undecidable(on: Stage, cases: dict[str, Case]) -> set[str]:
    """Return the undecidable commands, by the log of the network."""
    return {
        id_
        for id_, case in cases.items()
        if case.hidden and not case.refused and not on.wire.is_outcome_known(id_)
    }


async def check_ledger(on: Stage, cases: dict[str, Case]) -> None:
    """Compare both sides; only expected differences are allowed."""
    found = await on.ledger()
    kinds = [finding.kind for finding in found]
    parked = sum(case.state == "parked" for case in cases.values())
    assert kinds.count(Kind.PARKED) == parked
    assert kinds.count(Kind.DOUBLED) == sum(case.doubled for case in cases.values())
    assert {Kind.LOST, Kind.UNEXPECTED}.isdisjoint(kinds)
    strange = [f for f in found if f.kind is Kind.DIFFERING and not expected(f.what)]
    quirks = next(iter(cases.values())).quirks
    assert strange == [] or "ignore-variant" in quirks, strange


def expected(what: str) -> bool:
    """Return the expected second effects, which no response confirmed."""
    return "was noted" in what and "moved" not in what


REFUSING = "refuse-fulfill-cancelled"
CANCELLED_CASES = [(REFUSING, KEYLESS), (REFUSING,)] + [(), (KEYLESS,)] * LONG


def too_late(quirks: tuple[str, ...], fate: CommandFault) -> tuple[str, int]:
    """Return the state of a parcel for an order that was cancelled before."""
    if REFUSING in quirks:
        return "parked", 0
    if KEYLESS in quirks and fate in {
        CommandFault.NEVER_ARRIVES,
        CommandFault.PROXY_502,
    }:
        return "parked", 0
    if KEYLESS in quirks and fate is CommandFault.LATE_AFTER_LAST:
        return "parked", 1
    return "applied", 1


@pytest.mark.parametrize("quirks", CANCELLED_CASES, ids=" ".join)
async def test_an_order_cancelled_meanwhile_is_fulfilled_or_left_to_an_operator(
    quirks: tuple[str, ...], tmp_path: Path
) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks) as on,
    ):
        async with program(on) as alive:
            await on.plan_all(alive.store, [TOO_LATE], CommandFault)
            await alive.run_out()
        assert on.wire.faults == {}, "not every fate was met"
        effects = await on.effects()
        found = {
            on.fates[id_][1]: (state, effects[id_], on.reason(id_))
            for id_, state in on.states().items()
        }
        due = {fate: too_late(quirks, fate) for fate in found}
        wrong = {fate: was for fate, was in found.items() if was[:2] != due[fate]}
        assert wrong == {}
        parked = [Kind.PARKED for state, _ in due.values() if state == "parked"]
        assert [finding.kind for finding in await on.ledger()] == parked
