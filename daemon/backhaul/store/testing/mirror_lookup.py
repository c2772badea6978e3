"""Tests of what matching reads: orders with their open units, articles, parcels."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.core.identity import command_id
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Item, Product, Shipment, Variant
from backhaul.store.matching import NewCommand
from backhaul.store.mirror import OpenLine, OrderParcel, Parcel
from backhaul.store.records import Matched, NewRecord
from backhaul.store.testing.command_scenes import claimed, plan, resolve, sent
from backhaul.store.testing.event_scenes import NOON, in_fold
from backhaul.store.testing.mirror_scenes import match_with, order, show_order, version
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.mirror import OrderSummary, ReportedShipment

LATER = "2026-03-01T12:30:00.000Z"
EARLIER = "2026-03-01T11:30:00.000Z"
GTIN = "4006381333931"
GTIN_14 = "04006381333931"
LINES = (
    Item("li_1", "prod_1", "var_1", "A", "", 5, 1, None),
    Item("li_2", "prod_1", "var_2", "B", "", 2, 0, None),
)


async def find(
    store: Store, id_: str, name: str = "main", key: str = ""
) -> OrderSummary | None:
    """Return an order as a matcher sees it, None if it is unknown."""
    return await match_with(store, lambda mirror: mirror.order(name, id_), name, key)


async def open_units(store: Store, id_: str = "ord_1", name: str = "main") -> int:
    """Return the units of an order that the mirror shows as not shipped."""
    return await match_with(store, lambda mirror: mirror.open_units(name, id_), name)


async def reported(store: Store, record: int = 0) -> list[ReportedShipment]:
    """Return the shipments of `ord_1` that other records report."""
    return await match_with(
        store, lambda m: m.reported_shipments("main", "ord_1", record)
    )


async def with_number(store: Store, number: str) -> list[Parcel]:
    """Return the parcels of `main` with a tracking number, by their order."""
    found = await match_with(store, lambda m: m.parcels_with_number("main", number))
    return sorted(found, key=lambda parcel: parcel.order_id)


async def summary(
    store: Store, id_: str = "ord_1", name: str = "main", key: str = ""
) -> OrderSummary:
    """Return an order as a matcher sees it."""
    found = await find(store, id_, name, key)
    assert found is not None
    return found


async def left(store: Store, key: str = "") -> list[int]:
    """Return the open units of each line of `ord_1` that no command asks for."""
    return [line.left for line in (await summary(store, key=key)).items]


def put_order(second: int, **members: Any) -> Callable[[MirrorWriter, int], None]:
    """Return a fold that writes `ord_1` with the lines of this module."""
    shown = order("ord_1", second, items=LINES, **members)
    written = replace(version(second, b"put"), updated_at=shown.updated_at)
    return lambda mirror, _: mirror.put_order("main", shown, written)


def payload_of(**units: int) -> dict[str, Any]:
    """Return the payload of a fulfillment of these lines."""
    lines = [{"line_id": id_, "quantity": number} for id_, number in units.items()]
    return {"lines": lines}


async def show_variants(
    store: Store, *skus: str | None, barcode: str | None = None, name: str = "main"
) -> None:
    """Show a product with a variant of each SKU; the last one has the barcode."""
    variants = tuple(
        Variant(f"var_{n}", sku, barcode if n == len(skus) else None, "", None)
        for n, sku in enumerate(skus, 1)
    )
    product = Product("prod_1", None, "Lamp", "active", None, NOON, variants, (), b"{}")
    await in_fold(
        store, lambda m, _: m.put_product(name, product, "INR", version(0, b"")), name
    )


async def named(store: Store, name: str, of: str = "main") -> list[str]:
    """Return the ids of the variants with a SKU or GTIN."""
    found = await match_with(store, lambda mirror: mirror.variants_named(of, name))
    return sorted(id_ for id_, _ in found)


class OrderLookupConformance(MirrorTests):
    """Tests of orders in `MatchReader`."""

    async def test_an_order_has_its_open_lines(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        found = await summary(store)
        assert (found.id, found.name, found.cancelled) == ("ord_1", "#1001", False)
        assert (found.in_progress, found.uncertain) == (False, False)
        assert found.items == (
            OpenLine("li_1", "A", 4, "var_1"),
            OpenLine("li_2", "B", 2, "var_2"),
        )
        for name, id_ in (("main", "ord_2"), ("other", "ord_1"), ("main", "1001")):
            assert await find(store, id_, name) is None

    async def test_the_name_of_an_order_is_its_number_or_id(self, store: Store) -> None:
        await show_order(store, "ord_1", name="main")
        for second, members, expected in (
            (1, {"name": None}, "1001"),
            (2, {"name": None, "number": None}, "ord_1"),
        ):
            await in_fold(store, put_order(second, **members))
            assert (await summary(store)).name == expected

    async def test_units_of_planned_commands_are_not_open(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        await plan(store, payload=payload_of(li_1=1))
        await plan(store, payload=payload_of(li_1=2, li_2=1))
        assert await left(store) == [1, 1]
        found = await summary(store)
        assert (found.in_progress, found.uncertain) == (True, False)
        await plan(store, payload=payload_of(li_1=9))
        assert await left(store) == [0, 1]
        await plan(store, payload={"lines": []})
        assert await left(store) == [0, 0]

    async def test_what_asks_for_no_units_leaves_them_open(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        await sent(store, Cause.REFUSED, payload={"lines": []})
        await plan(store, payload={"lines": [], "number_only": True})
        await plan(store, "cancel", payload={"restock": True})
        await plan(store, name="other", payload={"lines": []})
        await plan(store, target="ord_2", payload={"lines": []})
        assert await left(store) == [4, 2]
        assert not (await summary(store)).in_progress

    async def test_a_record_does_not_wait_for_its_own_command(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        own = command_id("main", "reader", "mine", "fulfill")
        await plan(store, id_=own, payload=payload_of(li_1=1))
        assert await left(store, key="mine") == [4, 2]
        assert await left(store, key="other") == [3, 2]

    @pytest.mark.parametrize(
        ("cause", "is_uncertain"),
        [(None, True), (Cause.UNKNOWN, True), (Cause.UNDECIDABLE, True)],
    )
    async def test_a_command_that_may_have_had_its_effect_makes_it_uncertain(
        self, cause: Cause | None, is_uncertain: bool, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        causes = [cause] if cause else []
        await sent(store, *causes, payload=payload_of(li_2=2))
        found = await summary(store)
        assert (found.in_progress, found.uncertain) == (True, is_uncertain)
        assert [line.left for line in found.items] == [4, 0]

    async def test_an_applied_command_counts_until_the_mirror_shows_it(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        evidence = {"updated_at": LATER}
        await sent(
            store,
            Cause.CONFIRMED,
            payload=payload_of(li_2=2),
            change={"evidence": evidence},
        )
        found = await summary(store)
        assert (found.in_progress, found.uncertain) == (True, False)
        assert [line.left for line in found.items] == [4, 0]
        await in_fold(store, put_order(0, updated_at=LATER))
        assert await left(store) == [4, 2]

    @pytest.mark.parametrize(
        ("evidence", "is_cancelled"),
        [
            ({"cancelled_at": NOON, "updated_at": NOON}, True),
            ({"cancelled_at": NOON, "updated_at": LATER}, True),
            ({"cancelled_at": NOON, "updated_at": EARLIER}, False),
            ({"cancelled_at": None, "updated_at": LATER}, False),
            ({"updated_at": LATER}, False),
            ({"read": {"cancelled_at": NOON, "updated_at": LATER}}, True),
            ({"read": {"cancelled_at": NOON, "updated_at": EARLIER}}, False),
            ({"read": {"updated_at": LATER}}, False),
        ],
    )
    async def test_a_cancellation_newer_than_the_mirror_counts(
        self, evidence: dict[str, Any], is_cancelled: bool, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2")
        await sent(store, Cause.CONFIRMED, kind="cancel", change={"evidence": evidence})
        assert (await summary(store)).cancelled is is_cancelled
        assert not (await summary(store, "ord_2")).cancelled

    async def test_a_cancelled_order_is_cancelled(self, store: Store) -> None:
        await show_order(store, "ord_1", cancelled_at=NOON)
        assert (await summary(store)).cancelled

    async def test_open_units_are_those_of_the_mirror(self, store: Store) -> None:
        more = Item("li_3", None, None, None, "", 1, 3, None)
        await show_order(store, "ord_1", items=(*LINES, more))
        await show_order(store, "ord_1", name="other")
        await plan(store, payload={"lines": []})
        assert await open_units(store) == 6
        assert await open_units(store, name="other") == 2
        assert await open_units(store, "ord_9") == 0

    async def test_the_shipments_reported_of_an_order_are_known(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        payload = {**payload_of(li_1=1, li_2=2), "tracking_number": "T-1"}
        await report(store, "a", payload)
        last = await report(store, "b", {"lines": []})
        await report(store, "cancelled", {}, "cancel")
        await report(store, "other", {}, target="ord_2")
        found = await reported(store)
        assert [(each.instance, each.key, each.locator) for each in found] == [
            ("courier", "a", "file:a"),
            ("courier", "b", "file:b"),
        ]
        first, second = found
        assert first.command_id == command_id("main", "courier", "a", "fulfill")
        assert json.loads(first.payload) == {"key": "a"}
        assert (first.tracking_number, first.lines) == ("T-1", {"li_1": 1, "li_2": 2})
        assert (second.tracking_number, second.lines) == (None, {})
        for command in await claimed(store):
            if command.target == "ord_1":
                await resolve(store, command, Cause.REFUSED)
        again = await reported(store)
        assert [each.key for each in again] == ["b"]
        assert await reported(store, last) == []


class ArticleLookupConformance(MirrorTests):
    """Tests of variants in `MatchReader`."""

    async def test_a_variant_is_known_by_its_sku_now(self, store: Store) -> None:
        await show_variants(store, "A", "B", None)
        assert await named(store, "B") == ["var_2"]
        assert await named(store, "A", of="other") == []
        assert await named(store, "") == []
        await show_variants(store, "C", "B")
        assert await named(store, "A") == []
        found = await match_with(store, lambda m: m.variants_named("main", "C"))
        assert found == [("var_1", "C")]

    async def test_all_variants_with_a_sku_are_found(self, store: Store) -> None:
        await show_variants(store, "A", "A", "a")
        assert await named(store, "A") == ["var_1", "var_2"]

    async def test_a_gtin_is_known_in_every_spelling(self, store: Store) -> None:
        await show_variants(store, "A", "B", barcode=GTIN)
        for spelling in (GTIN, GTIN_14, f" {GTIN}", f"{GTIN}.0"):
            assert await named(store, spelling) == ["var_2"], spelling
        for other in (GTIN[1:], GTIN[:-1] + "2", f"x{GTIN}"):
            assert await named(store, other) == [], other
        await show_variants(store, "A", "B", barcode=GTIN_14)
        assert await named(store, GTIN) == ["var_2"]

    async def test_a_gtin_that_is_a_sku_wins_over_its_spellings(
        self, store: Store
    ) -> None:
        await show_variants(store, GTIN, GTIN_14)
        assert await named(store, GTIN) == ["var_1"]
        assert await named(store, GTIN_14) == ["var_2"]

    async def test_a_gtin_of_two_variants_names_both(self, store: Store) -> None:
        await show_variants(store, GTIN, "B", barcode=GTIN)
        assert await named(store, GTIN) == ["var_1", "var_2"]

    async def test_a_sku_of_equal_appearance_is_meant(self, store: Store) -> None:
        await show_variants(store, "42", "Caf\u00e9", "A-1")
        for typed, meant in (
            ("42.0", "var_1"),
            (" 42 ", "var_1"),
            ("Cafe\u0301", "var_2"),
            ("A-1\u200b", "var_3"),
        ):
            assert await named(store, typed) == [meant], typed
        for typed in ("42.5", "cafe", "a-1", "\u0410-1", "A -1"):
            assert await named(store, typed) == [], typed

    async def test_similar_skus_are_suggested(self, store: Store) -> None:
        await show_variants(store, "AB-1", "ab-1", "AB-2", "A B-1", "00AB-1")
        await show_variants(store, "\u0410B-1", name="other")
        found = await similar(store, "AB-1")
        assert found == ["00AB-1", "A B-1", "ab-1"]
        assert await similar(store, "\u0410\u0412-1") == [
            *("00AB-1", "A B-1", "AB-1", "ab-1"),
        ]
        assert await similar(store, "AB-3") == []
        await show_variants(store, "AB-1", "AB-2")
        assert await similar(store, "AB-1") == []

    async def test_similar_skus_are_limited(self, store: Store) -> None:
        await show_variants(store, *("0" * n + "7" for n in range(30)))
        assert len(await similar(store, "7")) == 20

    async def test_a_parcel_is_known_by_its_number(self, store: Store) -> None:
        parcels = (Shipment("shp_1", None, "T-1", None),)
        await show_order(store, "ord_1", shipments=parcels, external_id="POS-1")
        await show_order(store, "ord_2", shipments=parcels, cancelled_at=NOON)
        await show_order(store, "ord_3", shipments=parcels, name="other")
        assert await with_number(store, "T-1") == [
            Parcel("shp_1", "ord_1", "#1001", 1001, "POS-1", is_cancelled=False),
            Parcel("shp_1", "ord_2", "#1002", 1002, None, is_cancelled=True),
        ]
        for number in ("T-2", "t-1", ""):
            assert await with_number(store, number) == []

    async def test_the_parcels_of_an_order_have_their_units(self, store: Store) -> None:
        parcels = (
            Shipment("shp_1", "BlueDart", "T-1", None),
            Shipment("shp_2", None, None, None),
            Shipment("shp_3", None, "T-3", None),
        )
        items = [
            {"lineItemId": "li_1", "quantity": 1},
            {"lineItemId": "li_2", "quantity": 2},
            {"lineItemId": "li_1", "quantity": 3},
        ]
        listed = [
            {"id": "shp_1", "items": items},
            {"id": "shp_2", "items": [items[0], {"lineItemId": "li_2"}]},
        ]
        document = json.dumps({"shipments": listed}).encode()
        await show_order(store, "ord_1", shipments=parcels, document=document)
        await show_order(store, "ord_2")
        found = await match_with(store, lambda m: m.parcels_of("main", "ord_1"))
        assert found == [
            OrderParcel("T-1", "BlueDart", {"li_1": 4, "li_2": 2}),
            OrderParcel(None, None, None),
            OrderParcel("T-3", None, None),
        ]
        assert await match_with(store, lambda m: m.parcels_of("main", "ord_2")) == []
        assert await match_with(store, lambda m: m.parcels_of("other", "ord_1")) == []


async def similar(store: Store, sku: str) -> list[str]:
    """Return SKUs of `main` that look like this one."""
    return await match_with(store, lambda mirror: mirror.similar_skus("main", sku))


async def report(
    store: Store,
    key: str,
    payload: dict[str, Any],
    kind: str = "fulfill",
    target: str = "ord_1",
) -> int:
    """Let `courier` submit a record that becomes a command; return the record's id."""
    id_ = command_id("main", "courier", key, kind)
    command = NewCommand(id_, kind, target, f"order:{target}", payload)
    record = NewRecord(key, json.dumps({"key": key}).encode(), "", "", f"file:{key}")
    (outcome,) = await store.records.accept(
        "courier", "main", [record], None, lambda *_: Matched(command)
    )
    return outcome.record.id
