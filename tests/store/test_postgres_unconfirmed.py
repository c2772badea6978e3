"""How long an event waits for a PostgreSQL server that does not confirm its commit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.store.ownership import Member
from backhaul.store.postgres.connection import LimitedConnection
from backhaul.store.postgres.database import open_store
from backhaul.store.testing.event_scenes import webhook
from scenes.postgres_nodes import postgres_nodes
from scenes.waiting import HANG_SECONDS, PAUSE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.postgres.database import PostgresStore
    from scenes.postgres_nodes import Nodes

pytestmark = pytest.mark.programs
COMMITS_THAT_WAIT = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
BODIES = "SELECT DISTINCT convert_from(body, 'UTF8') FROM inbox ORDER BY 1"


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with postgres_nodes() as started:
        yield started


def found(nodes: Nodes, query: str) -> list[object]:
    with nodes.connect() as connection:
        return [value for (value,) in connection.execute(query.encode())]


async def append(store: PostgresStore, body: str) -> None:
    """Append an event, and retry while it is refused."""
    while True:
        with suppress(Busy):
            await store.inbox.append(webhook(body))
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def test_an_event_is_answered_though_no_replica_confirms_its_commit(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit still waits then: the answer does not depend on its result."""
    monkeypatch.setattr(LimitedConnection, "silence_seconds", 10 * HANG_SECONDS)
    member = Member("a", "host of a", "0.1.0", hold_seconds=1.0)
    store = await asyncio.to_thread(open_store, nodes.url, SystemClock(), member)
    store.start()
    await store.inbox.append(webhook("before"))
    away = nodes.standbys
    for each in away:
        each.kill()
    waiting = [asyncio.ensure_future(store.inbox.append(webhook("waits")))]
    await until(
        lambda: found(nodes, COMMITS_THAT_WAIT) == [1], "its commit waits for a replica"
    )
    waiting.append(asyncio.ensure_future(store.inbox.append(webhook("behind it"))))
    await until(lambda: all(each.done() for each in waiting), "both are answered")
    for one in waiting:
        with pytest.raises(Busy, match="no replica is connected"):
            await one
    with pytest.raises(Busy, match="no replica is connected"):
        await store.inbox.append(webhook("later"))
    assert found(nodes, COMMITS_THAT_WAIT) == [1]
    await asyncio.to_thread(nodes.back, away[0])
    await until(lambda: found(nodes, COMMITS_THAT_WAIT) == [0], "the commit ends")
    await append(store, "after")
    # a refused event is sent again; it may have been stored already
    assert found(nodes, BODIES) == ["after", "before", "waits"]
    await store.stop()
