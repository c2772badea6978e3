"""An interrupted erasure is finished when it is repeated, and leaves no bytes."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.maintenance.customer_erasure import CustomerErasure
from backhaul.store.records import NewRecord
from backhaul.store.sqlite.engine import SqliteEngine, Writer
from backhaul.store.sqlite.full_text import SqliteErasure
from scenes import payloads
from scenes.customers import EMAIL, NAME, match_none
from scenes.damaged_rows import write_to_unused_space
from scenes.databases import append_and_fold, started_store
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.store.customer_erasure import Eraser, ScannedRows
    from backhaul.store.read_models import Describe
    from backhaul.store.sqlite.database import SqliteStore

PERSON: dict[str, Any] = {"id": "cus_1", "name": NAME, "email": EMAIL, "phone": None}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        orders = [payloads.order(f"ord_{n}", number=n, customer=PERSON) for n in (1, 2)]
        bodies = [payloads.envelope("orders/create", order) for order in orders]
        customer = payloads.customer(**PERSON)
        await append_and_fold(
            started, payloads.envelope("customers/create", customer), *bodies
        )
        record = NewRecord(
            "k", json.dumps({"for": NAME}).encode(), f"k,{NAME}", "", "f.csv:2"
        )
        await started.records.accept("courier", "main", [record], None, match_none)
        yield started


class Breaking(SqliteErasure):
    """Fails at one of its methods, as by a restart or a full disk."""

    at = ""

    async def redact_rows(
        self, store: str, table: str, after: int, eraser: Eraser, slice_seconds: float
    ) -> ScannedRows:
        if self.at == table:
            raise Busy("broken off")
        return await super().redact_rows(store, table, after, eraser, slice_seconds)

    async def redact(
        self, store: str, kind: str, ids: Sequence[str], eraser: Eraser, say: Describe
    ) -> int:
        if self.at == kind:
            raise Busy("broken off")
        return await super().redact(store, kind, ids, eraser, say)

    async def rewrite(self) -> None:
        if self.at == "rewrite":
            raise Busy("the disk is full")
        if self.at == "stop":
            raise asyncio.CancelledError
        await super().rewrite()


@asynccontextmanager
async def breaking(store: SqliteStore, at: str) -> AsyncIterator[Breaking]:
    writer = Writer(store.place, lambda connection, arrivals: [])
    writer.start()
    try:
        found = Breaking(
            SqliteEngine(store.place, writer, SystemClock()), SystemClock()
        )
        found.at = at
        yield found
    finally:
        await writer.stop()


async def forget(
    store: SqliteStore, *, largest_bytes: int = 1 << 30, rewrite: bool = False
) -> str:
    forgetter = CustomerErasure(store.erasure, SystemClock(), largest_bytes)
    done = await forgetter.erase("main", "cus_1", "eve", rewrite=rewrite)
    return str(done["left_behind"])


def is_told(store: SqliteStore) -> bool:
    kept = b"".join(p.read_bytes() for p in store.place.parent.glob("backhaul.db*"))
    return NAME.encode() in kept or EMAIL.encode() in kept


@pytest.mark.parametrize("at", ["records", "quarantine", "inbox", "order", "customer"])
async def test_an_interrupted_erasure_is_finished_when_repeated(
    at: str, store: SqliteStore
) -> None:
    write_to_unused_space(store.place, NAME)
    async with breaking(store, at) as broken:
        with pytest.raises(Busy):
            await CustomerErasure(broken, SystemClock()).erase("main", "cus_1", "eve")
    assert is_told(store)
    assert await forget(store) == ""
    assert not is_told(store)


async def test_a_large_file_is_rewritten_on_request(store: SqliteStore) -> None:
    write_to_unused_space(store.place, NAME)
    assert await forget(store, largest_bytes=0) == "file"
    assert await forget(store, largest_bytes=0) == "file"
    assert is_told(store)
    assert await forget(store, largest_bytes=0, rewrite=True) == ""
    assert not is_told(store)
    assert await forget(store, largest_bytes=0) == ""


async def test_a_requested_rewrite_does_not_check_for_remains(
    store: SqliteStore,
) -> None:
    await forget(store)
    write_to_unused_space(store.place, "12 Quincunx Lane")
    assert await forget(store) == ""
    assert b"Quincunx" in store.place.read_bytes()
    assert await forget(store, rewrite=True) == ""
    assert b"Quincunx" not in store.place.read_bytes()


async def test_a_file_that_cannot_be_rewritten_is_reported_and_audited(
    store: SqliteStore,
) -> None:
    write_to_unused_space(store.place, NAME)
    async with breaking(store, "rewrite") as full:
        done = await CustomerErasure(full, SystemClock()).erase("main", "cus_1", "eve")
    assert (done["left_behind"], done["texts"]) == ("room", [NAME, EMAIL])
    assert rows_of(store.place, "audit", "who", "action") == [("eve", "forget")]
    assert is_told(store)
    assert await forget(store) == ""
    assert not is_told(store)


async def test_an_erasure_is_audited_even_if_the_program_ends_before_the_rewrite(
    store: SqliteStore,
) -> None:
    write_to_unused_space(store.place, NAME)
    async with breaking(store, "stop") as ended:
        with pytest.raises(asyncio.CancelledError):
            await CustomerErasure(ended, SystemClock()).erase("main", "cus_1", "eve")
    assert rows_of(store.place, "audit", "who", "action") == [("eve", "forget")]
    assert await forget(store) == ""
    assert not is_told(store)


async def test_a_finished_erasure_leaves_no_progress_row(store: SqliteStore) -> None:
    write_to_unused_space(store.place, NAME)
    await forget(store, largest_bytes=0)
    assert await store.kv.get("forgetting main cus_1") is not None
    await forget(store, rewrite=True)
    assert await store.kv.get("forgetting main cus_1") is None
