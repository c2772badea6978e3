"""Articles are found by SKU or GTIN; ambiguous ones are quarantined with candidates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Line, StockAdjustment, StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import stock_targets, value_of

if TYPE_CHECKING:
    from backhaul.store import Store

EAN = "4006381333931"
UPC = "036000291452"


async def stocked(store: Store, **barcodes: str) -> None:
    """Mirror a product with a variant for each SKU and barcode."""
    variants = [
        payloads.variant(f"var_{sku}", sku=sku, barcode=barcode)
        for sku, barcode in barcodes.items()
    ]
    product = payloads.product("prod_5", variants=variants)
    await append_and_fold(store, envelope("products/create", product))


@pytest.mark.parametrize("written", [EAN, f"0{EAN}"])
async def test_an_article_is_found_by_its_barcode_in_any_spelling(
    store: Store, written: str
) -> None:
    await stocked(store, MUG=EAN)
    record = StockAdjustment(key="k", sku=written, delta=2)
    assert (await host_of(ScriptedConnector(), store).emit(record)).state == "accepted"
    payload = value_of(store.place, "commands_and_targets", "payload")
    assert json.loads(payload)["variant_id"] == "var_MUG"


async def test_a_count_finds_its_article_by_its_barcode(store: Store) -> None:
    await stocked(store, MUG=EAN, PEN=UPC)
    as_of = payloads.instant(2)
    record = StockLevel(key="k", sku=f"0{EAN}", quantity=7, as_of=as_of)
    assert (await host_of(ScriptedConnector(), store).emit(record)).state == "accepted"
    (target,) = stock_targets(store.place)
    found = (target.variant_id, target.quantity, target.as_of)
    assert found == ("var_MUG", 7, as_of)


async def test_several_with_a_barcode_are_named(store: Store) -> None:
    await stocked(store, MUG=EAN, CUP=f"0{EAN}")
    record = StockAdjustment(key="k", sku=EAN, delta=2)
    receipt = await host_of(ScriptedConnector(), store).emit(record)
    assert receipt.state == "quarantined"
    assert "var_CUP, var_MUG" in receipt.what


async def test_a_wrong_check_digit_is_reported(store: Store) -> None:
    record = StockAdjustment(key="k", sku="4006381333930", delta=2)
    receipt = await host_of(ScriptedConnector(), store).emit(record)
    assert "if it is a GTIN, its check digit is wrong" in receipt.what


async def test_a_parcel_is_matched_by_its_barcodes_line_by_line(
    store: Store,
) -> None:
    await stocked(store, MUG=EAN, PEN=UPC)
    items = [
        payloads.item("li_5", variantId="var_MUG", sku="MUG", quantity=3),
        payloads.item("li_6", variantId="var_PEN", sku="PEN", quantity=1),
    ]
    order = payloads.order("ord_5", number=5, items=items)
    await append_and_fold(store, envelope("orders/create", order))
    lines = (Line(sku=EAN, quantity=2), Line(sku=UPC, quantity=1))
    receipt = await host_of(ScriptedConnector(), store).emit(
        fulfillment_record("k", "5", lines=lines)
    )
    assert receipt.state == "accepted"
    payload = value_of(store.place, "commands_and_targets", "payload")
    assert json.loads(payload)["lines"] == [
        {"line_id": "li_5", "quantity": 2},
        {"line_id": "li_6", "quantity": 1},
    ]
    over = (Line(sku=EAN, quantity=4),)
    receipt = await host_of(ScriptedConnector(), store).emit(
        fulfillment_record("k2", "5", lines=over)
    )
    left = "order #5 has 1 open of SKU 'MUG' besides units in commands that are in"
    assert receipt.what == f"{left} progress, not 4"


async def test_the_same_key_with_other_content_is_reported(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    host = host_of(ScriptedConnector(), store)
    assert (await host.emit(fulfillment_record())).state == "accepted"
    assert (
        await host.emit(fulfillment_record(locator="again.csv:9"))
    ).what == "known already"
    receipt = await host.emit(fulfillment_record(tracking_number="BD2"))
    assert receipt.state == "duplicate"
    said = (
        "an earlier record with the same key has other content; the"
        " earlier counts: the number was "
    )
    assert receipt.what.startswith(
        f"{said}'BD1', is 'BD2'. If the row is a further parcel"
    )


RENAMED = payloads.item("li_7", variantId="var_1", sku="OLD-1", quantity=2)


async def renamed(store: Store, *items: Any, barcode: str | None = None) -> None:
    """Mirror an order of OLD-1, whose variant is now called NEW-1."""
    variant = payloads.variant(sku="NEW-1", barcode=barcode)
    await append_and_fold(
        store,
        envelope("products/update", payloads.product(at=4, variants=[variant])),
        envelope(
            "orders/create",
            payloads.order("ord_7", number=7012, items=[RENAMED, *items]),
        ),
    )


@pytest.mark.parametrize("name", ["OLD-1", "NEW-1", EAN])
async def test_an_order_line_is_found_by_each_name_of_its_variant(
    name: str, store: Store
) -> None:
    await renamed(store, barcode=EAN)
    record = fulfillment_record("k", "7012", lines=(Line(sku=name, quantity=2),))
    assert (await host_of(ScriptedConnector(), store).emit(record)).state == "accepted"
    payload = value_of(store.place, "commands_and_targets", "payload")
    assert json.loads(payload)["lines"] == [{"line_id": "li_7", "quantity": 2}]


async def test_two_names_of_one_article_in_one_shipment_are_added(
    store: Store,
) -> None:
    await renamed(store)
    lines = (Line(sku="OLD-1", quantity=1), Line(sku="NEW-1", quantity=2))
    receipt = await host_of(ScriptedConnector(), store).emit(
        fulfillment_record("k", "7012", lines=lines)
    )
    assert receipt.what == "order #7012 has 2 open of SKU 'OLD-1', not 3"


async def test_a_name_of_two_articles_in_one_order_is_for_an_operator(
    store: Store,
) -> None:
    """A later line was ordered as NEW-1 when that was another variant."""
    await renamed(store, payloads.item("li_8", variantId="var_2", sku="NEW-1"))
    record = fulfillment_record("k", "7012", lines=(Line(sku="NEW-1", quantity=1),))
    receipt = await host_of(ScriptedConnector(), store).emit(record)
    assert receipt.what == "'NEW-1' could be any of OLD-1, NEW-1 in order #7012"


async def test_an_article_that_the_order_lacks_is_reported_with_the_open_ones(
    store: Store,
) -> None:
    await renamed(store)
    record = fulfillment_record("k", "7012", lines=(Line(sku="NEU-1", quantity=2),))
    receipt = await host_of(ScriptedConnector(), store).emit(record)
    said = "order #7012 has no line with SKU 'NEU-1'; open are: 2 of 'OLD-1'"
    assert receipt.what == said
