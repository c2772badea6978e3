"""Tests of the documents that connectors keep."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from backhaul.errors import Busy
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.scenes import StoreConformance
from backhaul_sdk.database import MOST_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.store import Store
    from backhaul.store.testing.scenes import OpenStore
    from backhaul_sdk import Documents, NameInStore

MANY = 50


async def put(
    store: Store, values: Mapping[str, bytes], instance: str = "dock"
) -> None:
    """Store documents of a connection in one transaction."""

    def work(documents: Documents) -> None:
        for key, value in values.items():
            documents.put(key, value)

    await store.documents.transact(instance, None, work)


async def kept(store: Store, instance: str = "dock") -> list[tuple[str, bytes]]:
    """Return the documents of a connection, in the order of their keys."""
    return await store.documents.transact(
        instance, None, lambda documents: list(documents.list(""))
    )


class ConnectorDocumentsConformance(StoreConformance):
    """Tests of `Store.documents`."""

    async def test_a_document_is_stored_replaced_and_deleted(
        self, store: Store
    ) -> None:
        def get(documents: Documents) -> bytes | None:
            return documents.get("a")

        assert await store.documents.transact("dock", None, get) is None
        await put(store, {"a": b"\x00\xff", "b": b""})
        assert await store.documents.transact("dock", None, get) == b"\x00\xff"
        await put(store, {"a": b"2"})
        assert await kept(store) == [("a", b"2"), ("b", b"")]
        for _ in range(2):
            await store.documents.transact("dock", None, lambda each: each.delete("a"))
        assert await kept(store) == [("b", b"")]

    async def test_a_connection_sees_its_own_documents_only(self, store: Store) -> None:
        await put(store, {"a": b"1"})
        await put(store, {"a": b"2", "b": b"3"}, "dock2")
        await store.documents.transact("dock2", None, lambda each: each.delete("a"))
        assert await kept(store, "dock") == [("a", b"1")]
        assert await kept(store, "dock2") == [("b", b"3")]

    async def test_a_prefix_is_listed_page_by_page_in_order_of_code_points(
        self, store: Store
    ) -> None:
        keys = ["s/Z", "s/a", "s/é", "s/\U0001f600", "s", "s0", "t/a"]
        await put(store, dict.fromkeys(keys, b""))

        def page(documents: Documents, after: str) -> list[str]:
            return [key for key, _ in documents.list("s/", after=after, limit=2)]

        found = []
        after = ""
        for _ in range(3):
            read = partial(page, after=after)
            found.append(await store.documents.transact("dock", None, read))
            after = found[-1][-1] if found[-1] else after
        assert found == [["s/Z", "s/a"], ["s/é", "s/\U0001f600"], []]

    async def test_work_sees_what_it_wrote_and_an_error_undoes_it(
        self, store: Store
    ) -> None:
        await put(store, {"a": b"1"})

        def work(documents: Documents) -> None:
            documents.put("a", b"2")
            documents.delete("b")
            assert documents.get("a") == b"2"
            raise LookupError("refused")

        both = [
            store.documents.transact("dock", None, work),
            store.documents.transact("dock", None, lambda each: each.put("b", b"1")),
        ]
        results = await asyncio.gather(*both, return_exceptions=True)
        assert [type(each) for each in results] == [LookupError, type(None)]
        assert await kept(store) == [("a", b"1"), ("b", b"1")]

    async def test_works_run_in_the_order_of_their_calls(self, store: Store) -> None:
        """The call alone puts the work into the queue."""

        def append(number: int) -> Callable[[Documents], None]:
            def work(documents: Documents) -> None:
                documents.put("a", (documents.get("a") or b"") + b"%d," % number)

            return work

        calls: list[Awaitable[None]] = [
            store.documents.transact("dock", None, append(number))
            for number in range(MANY)
        ]
        await asyncio.gather(*reversed(calls))
        told = b"".join(b"%d," % number for number in range(MANY))
        assert await kept(store) == [("a", told)]

    async def test_documents_survive_a_restart(self, open_store: OpenStore) -> None:
        first = await open_store()
        await put(first, {"a": b"1"})
        await first.stop()
        assert await kept(await open_store()) == [("a", b"1")]

    async def test_a_stopped_store_is_busy(self, store: Store) -> None:
        await store.stop()
        with pytest.raises(Busy):
            await store.documents.transact("dock", None, lambda each: each.get("a"))

    @pytest.mark.parametrize(
        "key", ["", "a\0b", "k" * (MOST_KEY_BYTES + 1), "é" * (MOST_KEY_BYTES // 2 + 1)]
    )
    async def test_a_text_that_no_engine_could_store_is_no_key(
        self, store: Store, key: str
    ) -> None:
        with pytest.raises(ValueError, match="cannot be the key"):
            await put(store, {key: b""})

    async def test_the_longest_key_is_stored(self, store: Store) -> None:
        # No two characters are alike, so that no engine can shorten it.
        key = "".join(map(chr, range(0x4E00, 0x4E00 + MOST_KEY_BYTES // 3)))
        await put(store, {key: b"1"})
        assert await kept(store) == [(key, b"1")]

    async def test_names_are_found_in_the_mirror_of_the_store(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        names = ["1001", "none"]

        def find(documents: Documents) -> Mapping[str, NameInStore] | None:
            return documents.find_in_store(names)

        for name in ("main", "other"):
            found = await store.documents.transact("dock", name, find)
            assert found == await store.records.find_names(name, names)
        assert found is not None
        assert found["1001"] == found["none"]
        assert await store.documents.transact("dock", None, find) is None
