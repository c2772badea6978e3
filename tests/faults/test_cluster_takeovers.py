"""How a new owner handles the work of the former owner, and a wrong primary."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.core.identity import tagged
from scenes.cluster import cluster
from scenes.fault_proxy import blackhole
from scenes.stored import COMMANDS_AND_TARGETS, rows_of
from scenes.waiting import HANG_SECONDS, PAUSE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scenes.cluster import Cluster, Member

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
CLOCK = SystemClock()
ROWS = 3
LOOKS = 3
"""How often a read of the history fails before it succeeds."""
KEYLESS = ("no-idempotency",)
"""A platform that applies a repeated request twice."""
BLIND = (*KEYLESS, "no-history")
"""A platform without any evidence: an operator must decide."""
HISTORY = "/api/v1/inventory/history"


def adjustment(number: int, row: int) -> int:
    return 100 * number + row


def hand_in(running: Cluster, number: int) -> None:
    """Put a file of adjustments into the shared folder; all adjustments differ.

    The same number gives the same file.
    """
    products = running.platform.v1("GET", "/products?limit=1").data()
    sku = products[0]["variants"][0]["sku"]
    rows = [
        f"DOC-{number}-{row},{sku},{adjustment(number, row)},CORRECTION"
        for row in range(ROWS)
    ]
    target = running.drop / f"stock-deltas-{number}.csv"
    text = "\n".join(["document,sku,adjustment,reason", *rows]) + "\n"
    target.with_suffix(".tmp").write_text(text)
    target.with_suffix(".tmp").rename(target)


def moves(running: Cluster) -> Counter[int]:
    """Return how often each of our adjustments is in the platform's history."""
    history = running.platform.state()["history"]
    ours = (entry for entry in history if tagged(entry["note"] or ""))
    return Counter(entry["adjustment"] for entry in ours)


def is_settled(running: Cluster) -> bool:
    return {*states(running)} <= {"applied", "parked"}


def states(running: Cluster) -> Counter[str]:
    found = rows_of(running.url, COMMANDS_AND_TARGETS, "state")
    return Counter(state for (state,) in found)


async def until_true(look: Callable[[], bool]) -> None:
    """Wait for a condition that is slow to evaluate."""
    async with asyncio.timeout(HANG_SECONDS):
        while not await asyncio.to_thread(look):
            await CLOCK.sleep(0.05)


async def until_moved(running: Cluster, numbers: int) -> None:
    """Wait until the adjustments of this many files are applied."""

    def look() -> bool:
        return len(moves(running)) >= numbers * ROWS and is_settled(running)

    await until_true(look)


async def freeze_all(running: Cluster) -> None:
    """Freeze all daemons while none of them waits for a commit.

    A daemon whose last commit gets no response exits.
    """
    while True:
        for member in running.members:
            member.is_held_down = True
            member.replica.freeze()
        if not await asyncio.to_thread(running.nodes.are_busy):
            return
        for member in running.members:
            member.replica.thaw()
        await CLOCK.sleep(PAUSE_SECONDS)


def thaw(member: Member) -> None:
    member.replica.thaw()
    member.is_held_down = False


def looks(running: Cluster) -> int:
    """Return how often the platform's history was requested."""
    return sum(HISTORY.encode() in each.passing.head for each in running.proxy.log)


def was_told(running: Cluster) -> bool:
    return any("lacks transactions" in said for said in running.exits)


def posts(running: Cluster, marked: bytes) -> int:
    """Return how many requests with this text reached the platform."""
    sent = running.proxy.requests("POST")
    return sum(marked in each.passing.body and each.forwarded for each in sent)


@pytest.mark.parametrize(
    ("end", "quirks"),
    [("killed", KEYLESS), ("frozen", KEYLESS), ("killed", BLIND)],
    ids=["killed", "frozen", "killed-blind"],
)
async def test_a_command_of_the_former_owner_is_looked_up_and_not_sent_again(
    tmp_path: Path, end: str, quirks: tuple[str, ...]
) -> None:
    async with cluster(tmp_path, 2, CLOCK, quirks=quirks) as running:
        marked = f"{adjustment(7_777, 1)}".encode()
        running.proxy.once[marked] = blackhole
        hand_in(running, 7_777)
        await until(lambda: posts(running, marked) == 1, "it has reached the platform")
        owner = await running.owner()
        if end == "killed":
            owner.replica.kill()
        else:
            owner.is_held_down = True
            owner.replica.freeze()
        await running.owner()
        await until_moved(running, 1)
        if end == "frozen":
            thaw(owner)
            await until(lambda: running.exits, "the former owner ends")
        await running.until_serving()
        hand_in(running, 8_888)
        await until_moved(running, 2)
        assert set(moves(running).values()) == {1}
        assert posts(running, marked) == 1
        assert states(running)["parked"] == (quirks == BLIND)


async def test_the_wrong_replica_is_noticed_and_nothing_is_sent_before_the_audit(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 2, CLOCK) as running:
        nodes, platform = running.nodes, running.platform
        hand_in(running, 1)
        await until_moved(running, 1)
        behind, ahead = nodes.standbys
        await asyncio.to_thread(nodes.stall, behind)
        hand_in(running, 2)
        await until_moved(running, 2)
        broken = {"fault": "5xx", "method": "GET", "route": HISTORY}
        platform.control("PUT", "/stores/demo/faults", {"seed": 1, "http": [broken]})

        owner = await running.owner()
        await freeze_all(running)
        lost = await asyncio.to_thread(nodes.kill_primary)
        await asyncio.to_thread(ahead.kill)
        running.clear_requests()
        await asyncio.to_thread(nodes.promote, behind)
        await asyncio.to_thread(nodes.clone, ahead)
        thaw(owner)
        await until(lambda: was_told(running), "the owner notices what is missing")
        for member in running.members:
            thaw(member)
        hand_in(running, 3)
        await until(lambda: looks(running) >= LOOKS, "the history is asked for")
        await until(lambda: not [*running.drop.glob("*.csv")], "the file is taken")
        assert running.proxy.requests("POST") == []

        platform.control("DELETE", "/stores/demo/faults")
        hand_in(running, 2)  # the back office notices that these are missing
        await until_moved(running, 3)
        assert set(moves(running).values()) == {1}
        await asyncio.to_thread(nodes.clone, lost)
