"""A change that a connector holds is applied once, when an operator decides so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.connect.quarantine_edit import edited_record
from backhaul.errors import BackhaulError
from backhaul_sdk import Bad, Batch
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.stored import count, rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Store
    from backhaul_sdk import Rejection

KEPT = Bad(key="file:1", raw="b.csv", reason="it equals a.csv", can_apply=True)


class FileKeeper(ScriptedConnector):
    """A connector that keeps a file; it fails to apply it `fails` times."""

    fails = 0

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[tuple[str, str | None]] = []

    async def apply(
        self, rejection: Rejection, cursor: str | None
    ) -> AsyncIterator[Batch]:
        self.applied.append((rejection.key, cursor))
        yield Batch(records=[fulfillment_record()], cursor="2")
        if self.fails:
            self.fails -= 1
            raise OSError("the share is away")


async def held(store: Store) -> FileKeeper:
    connector = FileKeeper()
    connector.waiting.append(Batch(records=[KEPT], cursor="1"))
    await host_of(connector, store).once()
    assert rows_of(store.place, "quarantine", "state", "reason") == [
        ("open", "it equals a.csv")
    ]
    return connector


async def test_a_change_that_an_operator_retries_is_applied_by_its_connector(
    store: Store,
) -> None:
    connector = await held(store)
    await host_of(connector, store).once()
    assert connector.applied == []
    assert await store.quarantine.retry(1, None, "ann", "two days") == "approved"
    for _ in range(3):  # each one as after a restart
        await host_of(connector, store).once()
    assert connector.applied == [("file:1", "1")]
    assert rows_of(store.place, "records", "key", "state") == [
        ("file:1", "accepted"),
        ("k1", "accepted"),
    ]
    assert connector.cursors[-1] == "2"
    audit = rows_of(store.place, "audit", "who", "action")
    assert audit == [("ann", "quarantine retry")]


async def test_a_change_is_applied_until_it_succeeds_and_its_records_count_once(
    store: Store,
) -> None:
    connector = await held(store)
    connector.fails = 2
    await store.quarantine.retry(1, None, "ann", "two days")
    for _ in range(2):
        with pytest.raises(BackhaulError, match="the share is away"):
            await host_of(connector, store).once()
    await host_of(connector, store).once()
    await host_of(connector, store).once()
    assert len(connector.applied) == 3
    assert count(store.place, "commands") == 1


async def test_a_discarded_change_is_not_applied_and_may_be_retried(
    store: Store,
) -> None:
    connector = await held(store)
    await store.quarantine.discard(1, "ann", "a copy")
    connector.waiting.append(Batch(records=[KEPT], cursor="1"))  # discarded again
    await host_of(connector, store).once()
    assert connector.applied == []
    await store.quarantine.retry(1, None, "ann", "it was no copy")
    await host_of(connector, store).once()
    assert len(connector.applied) == 1


async def test_a_held_change_has_no_fields_to_edit(store: Store) -> None:
    await held(store)
    row = await store.quarantine.find(1)
    with pytest.raises(BackhaulError, match="backhaul quarantine retry 1"):
        edited_record(row, None, {"order": "1001"})
