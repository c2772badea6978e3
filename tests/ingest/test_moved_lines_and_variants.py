"""Lines and variants may move to another order or product; no row is lost.

The platform's ids may also start over in each order. A full sync compares whole
objects, so it misses no row that took the place of another row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store import database_at
from backhaul.store.records import NewRecord, Unmatched
from scenes import payloads
from scenes.databases import append_and_fold, started_store
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.store import Store
    from backhaul.store.matching import MatchReader, WaitingRecord
    from scenes.databases import NewDatabase
    from scenes.payloads import Document
    from scenes.stored import Row

BARCODES = {"0": "4006381333931", "1": "96385074"}
WAYS = ("both again left moved", "both moved again left", "moved left again both")


def lines(store: Store) -> list[Row]:
    return rows_of(store.place, "order_items", "order_id", "id")


def parcels(store: Store) -> list[Row]:
    return rows_of(store.place, "shipments", "order_id", "id", "tracking_number")


def variants(store: Store) -> list[Row]:
    return rows_of(store.place, "variants", "product_id", "id")


def levels(store: Store) -> list[Row]:
    return sorted(rows_of(store.place, "inventory_levels", "product_id", "variant_id"))


def order(id_: str, at: int, parts: Iterable[str], **members: Any) -> Document:
    """Return an order with a line and a parcel of each of these numbers."""
    return payloads.order(
        id_,
        at,
        number=int(id_[-1]),
        items=[payloads.item(f"li_{part}") for part in parts],
        shipments=[payloads.shipment(f"shp_{part}") for part in parts],
        **members,
    )


def product(id_: str, at: int, parts: Iterable[str], **members: Any) -> Document:
    shown = [
        payloads.variant(f"var_{part}", sku=f"SKU-{part}", barcode=BARCODES[part])
        for part in parts
    ]
    return payloads.product(id_, at, variants=shown, **members)


ORDERS = {
    "both": order("ord_1", 1, "01"),
    "again": order("ord_1", 2, "01", note="pack well"),
    "left": order("ord_1", 4, "0"),
    "moved": order("ord_2", 3, "1"),
}
PRODUCTS = {
    "both": product("prod_1", 1, "01"),
    "again": product("prod_1", 2, "01", tags=["winter"]),
    "left": product("prod_1", 4, "0"),
    "moved": product("prod_2", 3, "1"),
}


async def fold_in_order(
    store: Store, topic: str, documents: Mapping[str, Document], way: str
) -> None:
    """Fold the events in the order of `way`; `documents` has the platform's order."""
    number = {name: sequence for sequence, name in enumerate(documents, 1)}
    events = (
        payloads.envelope(topic, documents[name], sequence=number[name])
        for name in way.split()
    )
    assert await append_and_fold(store, *events) == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_part_that_moves_to_another_order_is_there(
    way: str, store: Store
) -> None:
    await fold_in_order(store, "orders/updated", ORDERS, way)
    assert lines(store) == [("ord_1", "li_0"), ("ord_2", "li_1")]
    assert parcels(store) == [
        ("ord_1", "shp_0", "BD1"),
        ("ord_2", "shp_1", "BD1"),
    ]


async def test_ids_may_start_over_in_each_order(store: Store) -> None:
    numbered = {
        id_: payloads.order(
            id_,
            number=int(id_[-1]),
            items=[payloads.item("1")],
            shipments=[payloads.shipment("1", trackingNumber=f"T-{id_}")],
        )
        for id_ in ("ord_1", "ord_2")
    }
    await fold_in_order(store, "orders/updated", numbered, "ord_1 ord_2")
    assert lines(store) == [("ord_1", "1"), ("ord_2", "1")]
    assert parcels(store) == [
        ("ord_1", "1", "T-ord_1"),
        ("ord_2", "1", "T-ord_2"),
    ]
    units = rows_of(store.place, "open_orders", "id", "units_to_ship")
    assert units == [("ord_1", 2), ("ord_2", 2)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_variant_that_moves_to_another_product_is_there(
    way: str, store: Store
) -> None:
    await fold_in_order(store, "products/update", PRODUCTS, way)
    kept = [("prod_1", "var_0"), ("prod_2", "var_1")]
    assert variants(store) == kept
    assert levels(store) == kept


async def test_a_late_stock_event_brings_no_variant_back(
    store: Store,
) -> None:
    """The former product has no stock of it, whatever the new product has."""
    unstocked = payloads.variant(stock=None)
    documents = {
        "left": payloads.product("prod_1", 4, variants=[]),
        "moved": payloads.product("prod_2", 3, variants=[unstocked]),
    }
    await fold_in_order(store, "products/update", documents, "moved left")
    late = payloads.stock_change(2, productId="prod_1")
    await append_and_fold(store, payloads.envelope("inventory/level_update", late))
    assert levels(store) == []


async def test_a_variant_that_two_products_show_is_one_article(
    store: Store,
) -> None:
    """Every lookup returns the product that changed last."""
    await fold_in_order(store, "products/update", PRODUCTS, "both moved")
    assert variants(store) == [
        *(("prod_1", "var_0"), ("prod_1", "var_1"), ("prod_2", "var_1")),
    ]
    stock = rows_of(store.place, "stock", "product_id", "stock", sku="SKU-1")
    assert stock == [("prod_2", 12)]
    assert await matched(store, "SKU-1", BARCODES["1"]) == [[("prod_2", "var_1")]] * 2
    with database_at(store.place).reader() as known:
        meant = [
            *known.find_objects("sku", "SKU-1"),
            *known.find_objects("sku", "var_1"),
        ]
        meant += filter(None, [known.object("sku", "main", "var_1")])
    assert [(one.id, one.facts["product_id"]) for one in meant] == 3 * [
        ("var_1", "prod_2")
    ]


async def matched(store: Store, *names: str) -> list[list[tuple[str, str]]]:
    """Return the variants that records with these SKUs would match."""
    found: list[list[tuple[str, str]]] = []

    def look_up(record: WaitingRecord, mirror: MatchReader) -> Unmatched:
        found.extend(mirror.variants_with_sku(record.store, name) for name in names)
        return Unmatched("only looked up", final=True)

    record = NewRecord("k", b"null", "raw", "", "file:1")
    await store.records.accept("erp", "main", [record], None, look_up)
    return found


async def test_a_part_of_another_parent_is_a_difference(
    new_database: NewDatabase,
) -> None:
    places = [new_database(), new_database()]
    for place, shown in zip(places, [("01", "1"), ("0", "1")], strict=True):
        documents = {
            f"ord_{n}": order(f"ord_{n}", 1, each) for n, each in enumerate(shown)
        }
        async with started_store(place) as store:
            await fold_in_order(store, "orders/updated", documents, "ord_0 ord_1")
    left, right = places
    found = [(d.table, d.id, d.left) for d in database_at(left).differences(right)]
    assert ("order_items", "ord_0 li_1", "is there") in found
    assert ("shipments", "ord_0 shp_1", "is there") in found
