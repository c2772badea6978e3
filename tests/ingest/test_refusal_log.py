"""Refused webhooks are logged once when they begin, and once when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

from backhaul.errors import Busy
from backhaul.ingest.receiver import CALM_SECONDS, BackpressureLog
from scenes.clock import VirtualClock
from scenes.databases import locked
from scenes.payloads import envelope, order
from scenes.receiver import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store import Store

BUSY = Busy("the database cannot be written now: disk full")
BODY = envelope("orders/create", order())


@pytest.fixture
def entries() -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    sink = logger.add(lambda line: found.append(line.record["extra"]))
    yield found
    logger.remove(sink)


async def test_each_turn_is_logged_once(entries: list[dict[str, Any]]) -> None:
    clock = VirtualClock()
    refusals = BackpressureLog(clock)
    refusals.kept()
    for _ in range(3):  # a nearly full disk accepts a small event now and then
        refusals.refused(BUSY)
        refusals.kept()
    assert entries == [{"action": "receive.busy"}]
    await clock.advance(CALM_SECONDS)
    refusals.kept()
    refusals.kept()
    assert entries[1:] == [{"action": "receive.resumed", "refused": 3}]
    refusals.refused(BUSY)
    assert entries[2:] == [{"action": "receive.busy"}]


async def test_refused_webhooks_are_one_line(
    store: Store, entries: list[dict[str, Any]]
) -> None:
    async with served(store.inbox) as receiver:
        with locked(store.place):
            statuses = [(await receiver.post(BODY)).status for _ in range(3)]
        assert (await receiver.post(BODY)).status == 200
    assert statuses == [503] * 3
    assert [line["action"] for line in entries] == ["receive.busy"]
