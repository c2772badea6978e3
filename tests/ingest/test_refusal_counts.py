"""Refused webhooks are counted by store and reason, for an hour."""

from __future__ import annotations

from collections import Counter

from backhaul.ingest.receiver import ResponseCounter
from scenes.clock import VirtualClock

STORES = {"main", "other"}


def known(name: str) -> str:
    return name if name in STORES else "unknown"


async def test_a_refused_delivery_is_reported_for_an_hour() -> None:
    clock, counted = VirtualClock(), Counter[tuple[str, ...]]()
    answers = ResponseCounter(counted, clock, known)
    answers.add("main", "kept")
    assert answers.refused() == {}
    for answer in ("refused", "refused", "encoded"):
        answers.add("main", answer)
    await clock.advance(1_800)
    answers.add("main", "refused")
    assert answers.refused() == {"main": {"refused": 3, "encoded": 1}}
    await clock.advance(1_801)
    assert answers.refused() == {"main": {"refused": 1}}
    await clock.advance(1_800)
    assert answers.refused() == {}
    assert counted["main", "refused"] == 3


async def test_paths_are_counted_by_the_store_that_they_name() -> None:
    answers = ResponseCounter(Counter(), VirtualClock(), known)
    for path in ("/webhooks/main", "/webhooks/other/orders/create", "/webhooks/x"):
        answers.add_at(path, "slow")
    for path in ("/", "/connectors/desk", "/webhook"):
        answers.add_at(path, "slow")
    answers.add_at("", "large")
    assert answers.refused() == {
        "main": {"slow": 1},
        "other": {"slow": 1},
        "unknown": {"slow": 1, "large": 1},
    }


async def test_a_flood_holds_a_bounded_memory() -> None:
    clock = VirtualClock()
    answers = ResponseCounter(Counter(), clock, known)
    for minute in range(500):
        answers.add(f"store-{minute}", "refused")
        await clock.advance(60)
    assert len(answers._minutes) <= 62
    assert list(answers.refused()) == ["unknown"]
