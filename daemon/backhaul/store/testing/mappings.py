"""Tests of mappings: what is stored, found, listed and removed."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.errors import BackhaulError
from backhaul.store.mappings import MappingKind, NameMapping
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import audit_entries
from backhaul.store.testing.near_matches import sell
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from backhaul.store import Store
    from backhaul.store.mappings import ListedMapping
    from backhaul.store.matching import MatchReader, WaitingRecord

SKU, CARRIER = MappingKind.SKU, MappingKind.CARRIER
LAMP = NameMapping(SKU, "LAMP-2", "LAMP-02")


async def seen(
    store: Store, look: Callable[[MatchReader], Any], instance: str = "erp"
) -> Any:
    """Return what matching a record of a connection sees."""
    found: list[Any] = []

    def match(_: WaitingRecord, mirror: MatchReader) -> Unmatched:
        found.append(look(mirror))
        return Unmatched("seen", final=True)

    number = len(await store.read(lambda reader: reader.last_records(instance, 999)))
    new = NewRecord(f"k{number}", b"{}", "", "", "")
    await store.records.accept(instance, "main", [new], None, match)
    return found[0]


async def variants(store: Store, name: str, instance: str = "erp") -> list[str | None]:
    """Return the SKUs that a name of the back office means."""
    found = await seen(store, lambda m: m.variants_named("main", name), instance)
    return [sku for _, sku in found]


async def listed(store: Store, words: str | None = None) -> list[ListedMapping]:
    """Return the mappings of all stores."""
    return await store.read(lambda reader: reader.mappings(None, words, 99))


class MappingsConformance(StoreConformance):
    """Tests of `Store.mappings`."""

    async def test_a_mapping_is_used_where_the_store_has_no_such_sku(
        self, store: Store
    ) -> None:
        await sell(store, "LAMP-02", "TEA")
        assert await variants(store, "LAMP-2") == []
        assert await store.mappings.add("main", [LAMP], "ann", "renamed") == 1
        assert await variants(store, "LAMP-2") == ["LAMP-02"]
        assert await variants(store, " LAMP-2 ") == ["LAMP-02"]
        assert await variants(store, "lamp-2") == []
        used = await seen(
            store, lambda m: (m.variants_with_sku("main", "LAMP-2"), m.used_mappings)[1]
        )
        assert [each.in_words() for each in used] == [
            "SKU LAMP-2 was read as LAMP-02 by a mapping"
        ]

    async def test_a_sku_of_the_store_goes_before_a_mapping(self, store: Store) -> None:
        await store.mappings.add("main", [LAMP], "ann", "")
        await sell(store, "LAMP-02", "LAMP-2")
        assert await variants(store, "LAMP-2") == ["LAMP-2"]
        used = await seen(
            store, lambda m: (m.variants_named("main", "LAMP-2"), m.used_mappings)[1]
        )
        assert used == ()

    async def test_a_mapping_of_the_connection_goes_first(self, store: Store) -> None:
        await sell(store, "LAMP-02", "LAMP-20")
        own = NameMapping(SKU, "LAMP-2", "LAMP-20", "courier")
        await store.mappings.add("main", [LAMP, own], "ann", "")
        assert await variants(store, "LAMP-2", "courier") == ["LAMP-20"]
        assert await variants(store, "LAMP-2", "erp") == ["LAMP-02"]
        found = await store.records.find_names("main", ["LAMP-2"], "courier")
        assert found["LAMP-2"].skus == {"LAMP-20"}

    async def test_a_mapping_of_another_store_is_not_used(self, store: Store) -> None:
        await sell(store, "LAMP-02")
        await store.mappings.add("outlet", [LAMP], "ann", "")
        assert await variants(store, "LAMP-2") == []

    async def test_a_mapping_to_nothing_says_so(self, store: Store) -> None:
        await store.mappings.add("main", [LAMP], "ann", "")
        used = await seen(
            store, lambda m: (m.variants_named("main", "LAMP-2"), m.used_mappings)[1]
        )
        assert used[0].in_words().endswith("but the store has no LAMP-02")

    async def test_carriers_are_compared_without_capitals_and_blanks(
        self, store: Store
    ) -> None:
        dhl = NameMapping(CARRIER, "DHL  Paket", "DHL")
        await store.mappings.add("main", [dhl], "ann", "")
        names = ("dhl paket", "UPS")
        found = await seen(
            store, lambda m: [m.carrier_named("main", name) for name in names]
        )
        assert found == ["DHL", "UPS"]

    async def test_a_mapping_is_replaced_and_added_once(self, store: Store) -> None:
        other = NameMapping(SKU, "LAMP-2", "LAMP-20")
        assert await store.mappings.add("main", [LAMP, LAMP], "ann", "why") == 1
        assert await store.mappings.add("main", [other], "bob", "") == 1
        (found,) = await listed(store)
        assert (found.alias, found.name, found.created_by) == (
            "LAMP-2",
            "LAMP-20",
            "bob",
        )
        entries = {(e.who, e.action, e.detail) for e in await audit_entries(store)}
        assert entries == {
            ("ann", "mappings add", "main: SKU LAMP-2 means LAMP-02; why"),
            ("bob", "mappings add", "main: SKU LAMP-2 means LAMP-20, was LAMP-02"),
        }

    async def test_a_removed_mapping_is_not_used(self, store: Store) -> None:
        await sell(store, "LAMP-02")
        await store.mappings.add("main", [LAMP], "ann", "")
        (found,) = await listed(store)
        assert await store.mappings.remove(found.id, "bob", "wrong") == found
        assert await variants(store, "LAMP-2") == []
        actions = {entry.action for entry in await audit_entries(store)}
        assert actions == {"mappings add", "mappings remove"}
        with pytest.raises(BackhaulError, match="there is no mapping"):
            await store.mappings.remove(found.id, "bob", "")

    async def test_mappings_are_listed_page_by_page_and_by_words(
        self, store: Store
    ) -> None:
        many = [NameMapping(SKU, f"A{n}", f"B{n}") for n in range(5)]
        await store.mappings.add("main", many, "ann", "")
        await store.mappings.add("outlet", many[:1], "ann", "")
        names = [(each.store, each.alias) for each in await listed(store)]
        assert names[:2] == [("outlet", "A0"), ("main", "A4")]
        page = await store.read(lambda reader: reader.mappings("main", None, 2))
        assert [each.alias for each in page] == ["A4", "A3"]
        after = page[-1].id
        page = await store.read(lambda reader: reader.mappings("main", None, 9, after))
        assert [each.alias for each in page] == ["A2", "A1", "A0"]
        assert [each.name for each in await listed(store, "b3")] == ["B3"]
