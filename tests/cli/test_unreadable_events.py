"""`why`, `search` and the lists find an unreadable event by its object."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from scenes import payloads
from scenes.daemon import Office, in_process
from scenes.databases import fold_all, started_store
from scenes.mirror_files import lone_office
from scenes.payloads import arrival, envelope

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as found:
        yield found


def unreadable(number: int) -> bytes:
    order = payloads.order(
        f"ord_{number}", number=number, name=f"#{number}", externalId=f"web-{number}"
    )
    return envelope("orders/cancelled", order | {"status": None})


async def fold(office: Office, *bodies: bytes) -> None:
    path = office.database
    async with started_store(path) as store:
        for body in bodies:
            await store.inbox.append(arrival(body))
        await fold_all(store)


def run_json(office: Office, *words: str) -> Any:
    return json.loads(in_process(*words, "--json", config=office.config).out)


@pytest.mark.parametrize("name", ["7002", "#7002", "ord_7002", "web-7002"])
async def test_why_names_the_event_of_an_order_that_was_never_mirrored(
    name: str, office: Office
) -> None:
    await fold(office, unreadable(7002))
    (found,) = run_json(office, "why", "order", name)
    assert (found["name"], found["id"]) == ("#7002", "ord_7002")
    assert "event 1 could not be read" in found["mirrored"]
    assert "backhaul quarantine show 1" in found["mirrored"]
    event, hold = found["timeline"]
    assert (event["what"], event["state"]) == ("event 1", "quarantined")
    assert "order #7002 (ord_7002): the member status is missing" in event["detail"]
    assert (hold["what"], hold["state"]) == ("hold", "waiting")
    shown = in_process("why", "order", name, config=office.config).out
    assert "backhaul quarantine show 1" in shown


async def test_why_shows_the_unreadable_parts_of_a_mirrored_order(
    office: Office,
) -> None:
    known = payloads.order("ord_7003", number=7003, name="#7003")
    await fold(office, envelope("orders/create", known), unreadable(7003))
    (found,) = run_json(office, "why", "order", "7003")
    assert found["status"] == "PENDING"
    states = [row["state"] for row in found["timeline"]]
    assert states == ["folded", "quarantined", "waiting"]


@pytest.mark.parametrize("words", ["7002", "#7002", "web-7002", "ord_7002"])
async def test_search_finds_events_that_are_only_in_quarantine(
    words: str, office: Office
) -> None:
    await fold(office, unreadable(7002))
    (found,) = run_json(office, "search", words)
    assert (found["kind"], found["title"]) == ("order", "#7002")
    assert "backhaul quarantine show 1" in found["found"]
    assert run_json(office, "search", words, "--kind", "customer") == []
    assert run_json(office, "search", "7003") == []


async def test_the_quarantine_lists_the_object_of_each_event(office: Office) -> None:
    await fold(
        office,
        unreadable(7002),
        envelope("products/update", payloads.product() | {"variants": 1}),
        b"<html>",
    )
    rows = run_json(office, "quarantine", "list")
    abouts = [row["about"] for row in rows]
    assert abouts == ["", "product Linen shirt", "order #7002"]
    assert "order #7002" in in_process("quarantine", "list", config=office.config).out


async def test_status_names_the_order_whose_commands_wait(office: Office) -> None:
    await fold(office, unreadable(7002))
    (row,) = run_json(office, "status")["unreadable_orders"]
    assert (row["name"], row["event"], row["commands"]) == ("ord_7002", 1, 0)
    shown = in_process("status", config=office.config).out
    assert "event 1 could not be read" in shown


async def test_an_operator_may_discard_an_event(office: Office) -> None:
    await fold(office, unreadable(7002))
    drop = ("quarantine", "discard", "1", "--reason", "seen")
    done = await asyncio.to_thread(in_process, *drop, config=office.config)
    assert done.code == 0
    assert run_json(office, "status")["unreadable_orders"] == []
