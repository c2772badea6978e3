"""A host for tests that keeps its data in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backhaul_sdk.contract import (
    Absent,
    Applied,
    Found,
    NotSent,
    Receipt,
    Rejected,
    Rejection,
    Uncertain,
    Unknown,
)
from backhaul_sdk.records import Bad, Record

if TYPE_CHECKING:
    from backhaul_sdk.contract import Batch, Change, Connector, LookedUp, Pushed


class MemoryHost(Struct):
    """A host whose database is a dict: equal keys collapse, as in the real one.

    A bad row that was mended at its source is a record like any other.

    `deliveries` has the state of each change that was to be carried out, by its id:
    `planned`, `applied`, `rejected`, `uncertain` or `parked`.
    """

    records: dict[str, Record] = field(default_factory=dict)
    bad: dict[str, Bad] = field(default_factory=dict)
    cursor: str | None = None
    deliveries: dict[str, str] = field(default_factory=dict)

    def commit(self, batch: Batch) -> None:
        """Store records and cursor together."""
        for record in batch.records:
            self._store(record)
        if batch.cursor is not None:
            self.cursor = batch.cursor

    async def emit(self, record: Record | Bad) -> Receipt:
        """Take one record of a connector that listens."""
        # A real host waits for its commit: a cancellation may come before or after.
        await asyncio.sleep(0)
        known = record.key in self.records
        self._store(record)
        await asyncio.sleep(0)
        if known:
            return Receipt("duplicate", "known already")
        if isinstance(record, Bad):
            return Receipt("quarantined", record.reason)
        return Receipt("accepted", "")

    async def pull(self, connector: Connector[Any]) -> None:
        """Take everything there is, acknowledging each batch after its commit."""
        async for batch in connector.pull(self.cursor):
            self.commit(batch)
            await batch.ack()

    async def apply(self, connector: Connector[Any], key: str) -> None:
        """Let the connector apply a bad record, as an operator decided."""
        bad = self.bad[key]
        wanted = Rejection(bad.key, bad.raw, bad.reason, bad.locator)
        async for batch in connector.apply(wanted, self.cursor):
            self.commit(batch)
            await batch.ack()

    async def deliver(self, connector: Connector[Any], change: Change) -> str:
        """Take one step with a change, as the real host would; return its state.

        It is pushed where that is safe. One that is in doubt is looked up, and what
        cannot be told is parked.
        """
        state = self.deliveries.get(change.id, "planned")
        if state == "uncertain":
            state = await _cleared_up(connector, change)
        elif state == "planned":
            # A program that dies from here on finds it so.
            self.deliveries[change.id] = "uncertain"
            state = _settled(await pushed(connector, change))
        self.deliveries[change.id] = state
        return state

    def _store(self, record: Record | Bad) -> None:
        if record.key in self.records:
            return
        if isinstance(record, Bad):
            self.bad.setdefault(record.key, record)
        else:
            self.records[record.key] = record
            self.bad.pop(record.key, None)


async def pushed(connector: Connector[Any], change: Change) -> Pushed:
    """Return what `push` says; what it raises counts as Uncertain."""
    try:
        return await connector.push(change)
    except Exception as error:  # noqa: BLE001 - the contract says so
        return Uncertain(f"{type(error).__name__}: {error}")


async def looked_up(connector: Connector[Any], change: Change) -> LookedUp:
    """Return what `lookup` says; what it raises counts as Unknown."""
    try:
        return await connector.lookup(change)
    except Exception as error:  # noqa: BLE001 - the contract says so
        return Unknown(f"{type(error).__name__}: {error}")


def _settled(said: Pushed) -> str:
    states = {Applied: "applied", Rejected: "rejected", NotSent: "planned"}
    return states.get(type(said), "uncertain")


async def _cleared_up(connector: Connector[Any], change: Change) -> str:
    if connector.spec.takes_once:
        return "planned"
    try:
        said = await connector.lookup(change)
    except Exception:  # noqa: BLE001 - whatever is raised, it was no look
        return "uncertain"
    return {Found: "applied", Absent: "planned"}.get(type(said), "parked")
