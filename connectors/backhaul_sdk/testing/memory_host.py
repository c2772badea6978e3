"""A host for tests that stores its data in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

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
from backhaul_sdk.database import MOST_LISTED, require_key
from backhaul_sdk.records import Bad, Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul_sdk.contract import Batch, Change, Connector, LookedUp, Pushed
    from backhaul_sdk.database import Documents

T = TypeVar("T")


class MemoryDocuments(Struct):
    """Documents of one connection in a dict: implements `backhaul_sdk.DocumentStore`.

    Give it to a connector before `open`, and the same one after each restart:
    `connector.documents = documents`.
    """

    kept: dict[str, bytes] = field(default_factory=dict)

    def transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        """Run `work` at once; resolve later, as a real host does after its commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        changed = _MemoryDocuments(dict(self.kept))
        try:
            result = work(changed)
        except Exception as error:  # noqa: BLE001 - passed to the caller
            loop.call_soon(_end, future, None, error)
        else:
            self.kept = changed.kept
            loop.call_soon(_end, future, result, None)
        return future


def _end(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _MemoryDocuments:
    def __init__(self, kept: dict[str, bytes]) -> None:
        self.kept = kept

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        require_key(key)
        self.kept[key] = value

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    def list(
        self, prefix: str, *, after: str = "", limit: int = MOST_LISTED
    ) -> Sequence[tuple[str, bytes]]:
        keys = (key for key in self.kept if key.startswith(prefix) and key > after)
        return [(key, self.kept[key]) for key in sorted(keys)[:limit]]

    def find_in_store(self, names: Sequence[str]) -> None:
        return None


class MemoryHost(Struct):
    """A host whose database is a dict: equal keys collapse, as in the real one.

    A bad row that was corrected at its source is a record like any other. `deliveries`
    has the state of each change, by its id: `planned`, `applied`, `rejected`,
    `uncertain` or `parked`.
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
        """Store one record of a connector that listens."""
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
        """Store everything there is, acknowledging each batch after its commit."""
        async for batch in connector.pull(self.cursor):
            self.commit(batch)
            await batch.ack()

    async def apply(self, connector: Connector[Any], key: str) -> None:
        """Let the connector apply a bad record that an operator approved."""
        bad = self.bad[key]
        wanted = Rejection(bad.key, bad.raw, bad.reason, bad.locator)
        async for batch in connector.apply(wanted, self.cursor):
            self.commit(batch)
            await batch.ack()

    async def deliver(self, connector: Connector[Any], change: Change) -> str:
        """Take one step with a change, as the real host would; return its state.

        The host pushes a change if that is safe. It calls `lookup` for an uncertain
        change, and parks the change if the outcome remains unknown.
        """
        state = self.deliveries.get(change.id, "planned")
        if state == "uncertain":
            state = await _checked_state(connector, change)
        elif state == "planned":
            # After a kill from here on, the change has this state.
            self.deliveries[change.id] = "uncertain"
            state = _resolved_state(await push_result(connector, change))
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


async def push_result(connector: Connector[Any], change: Change) -> Pushed:
    """Return the result of `push`; an exception counts as Uncertain."""
    try:
        return await connector.push(change)
    except Exception as error:  # noqa: BLE001 - the contract says so
        return Uncertain(f"{type(error).__name__}: {error}")


async def lookup_result(connector: Connector[Any], change: Change) -> LookedUp:
    """Return the result of `lookup`; an exception counts as Unknown."""
    try:
        return await connector.lookup(change)
    except Exception as error:  # noqa: BLE001 - the contract says so
        return Unknown(f"{type(error).__name__}: {error}")


def _resolved_state(said: Pushed) -> str:
    states = {Applied: "applied", Rejected: "rejected", NotSent: "planned"}
    return states.get(type(said), "uncertain")


async def _checked_state(connector: Connector[Any], change: Change) -> str:
    if connector.spec.takes_once:
        return "planned"
    try:
        said = await connector.lookup(change)
    except Exception:  # noqa: BLE001 - any error means that the lookup failed
        return "uncertain"
    return {Found: "applied", Absent: "planned"}.get(type(said), "parked")
