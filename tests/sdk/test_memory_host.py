"""The host of the contract tests accepts records as the real host does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from backhaul_sdk import Bad, StockAdjustment
from backhaul_sdk.testing import MemoryDocuments, MemoryHost
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul_sdk import Documents, DocumentStore, Receipt, Record

BAD = Bad(key="k1", raw="LS-S;x", reason="x is no number")
MENDED = StockAdjustment(key="k1", sku="LS-S", delta=1)


async def states(emit: Callable[[Record | Bad], Awaitable[Receipt]]) -> list[str]:
    given: list[Record | Bad] = [BAD, MENDED, MENDED, BAD]
    return [(await emit(record)).state for record in given]


async def test_a_bad_row_that_was_corrected_at_its_source_is_stored() -> None:
    host = MemoryHost()
    assert await states(host.emit) == [
        *("quarantined", "accepted", "duplicate", "duplicate"),
    ]
    assert (host.records, host.bad) == ({"k1": MENDED}, {})


async def test_the_real_host_accepts_the_corrected_row_too(tmp_path: Path) -> None:
    async with started_store(tmp_path / "b.db") as store:
        real = await states(host_of(ScriptedConnector(), store).emit)
    # It does not know the article yet.
    assert real == ["quarantined", "waiting", "duplicate", "duplicate"]


async def documents_after(store: DocumentStore) -> list[Any]:
    """Return what works on documents return, and what they leave."""

    def begin(documents: Documents) -> bytes | None:
        for key in ("a/2", "a/1", "a", "b"):
            documents.put(key, key.encode())
        documents.put("a/1", b"new")
        documents.delete("b")
        documents.delete("none")
        return documents.get("a/2")

    def fail(documents: Documents) -> None:
        documents.put("a/3", b"lost")
        raise LookupError("refused")

    def mistake(documents: Documents) -> None:
        documents.delete("a/1")
        documents.put("", b"")

    def listed(documents: Documents) -> list[Any]:
        first = documents.list("a/", limit=1)
        return [*first, *documents.list("a/", after=first[0][0]), documents.get("b")]

    works = (begin, fail, mistake, listed)
    calls = [store.transact(work) for work in works]
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [repr(each) if isinstance(each, Exception) else each for each in results]


async def test_documents_in_memory_are_as_those_of_the_real_host(
    tmp_path: Path,
) -> None:
    desk = ScriptedConnector()
    async with started_store(tmp_path / "b.db") as store:
        host_of(desk, store)
        real = await documents_after(desk.documents)
    assert real == [
        b"a/2",
        "LookupError('refused')",
        "ValueError(\"'' cannot be the key of a connector document\")",
        [("a/1", b"new"), ("a/2", b"a/2"), None],
    ]
    assert await documents_after(MemoryDocuments()) == real
