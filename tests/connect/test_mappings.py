"""Mappings translate names of the back office into names of the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.mappings import MappingKind, NameMapping
from backhaul_sdk import Batch, FullList, Line, StockAdjustment, StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import append_and_fold
from scenes.drop_folder import HEADER, matched
from scenes.payloads import envelope
from scenes.stored import (
    commands,
    count,
    rows_of,
    stock_targets,
    value_of,
    values_of,
)

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock
    from scenes.drop_folder import Folder

READ_AS = "SKU LAMP-2 was read as LAMP-02 by a mapping"
MAPPED = NameMapping(MappingKind.SKU, "LAMP-2", "LAMP-02")
"""Maps the back office's SKU of an article to the store's SKU."""


async def sell(store: Store, *skus: str) -> None:
    variants = [payloads.variant(f"v_{sku}", sku=sku) for sku in skus]
    product = payloads.product("prod_9", variants=variants)
    await append_and_fold(store, envelope("products/create", product))


async def add(store: Store, *mappings: NameMapping) -> None:
    await store.mappings.add("main", mappings or (MAPPED,), "otto", "")


async def remove(store: Store) -> None:
    for each in await store.read(lambda reader: reader.mappings(None, None, 9)):
        await store.mappings.remove(each.id, "otto", "")


def wanted(store: Store) -> list[dict[str, Any]]:
    return [each.wanted for each in commands(store.place)]


def adjustment(key: str = "k", sku: str = "LAMP-2") -> StockAdjustment:
    return StockAdjustment(key=key, sku=sku, delta=2)


async def test_an_adjustment_is_read_by_a_mapping_and_says_so(store: Store) -> None:
    await sell(store, "LAMP-02")
    await add(store)
    receipt = await host_of(ScriptedConnector(), store).emit(adjustment())
    assert receipt.state == "accepted"
    (command,) = commands(store.place)
    assert command.wanted["variant_id"] == "v_LAMP-02"
    assert command.cause == f"record desk k ({READ_AS})"
    assert value_of(store.place, "records", "reason") == READ_AS
    timeline = await store.read(
        lambda reader: reader.timeline("sku", reader.find_objects("sku", "LAMP-02")[0])
    )
    assert READ_AS in {entry.detail for entry in timeline}


async def test_a_count_and_a_shipment_are_read_by_a_mapping(store: Store) -> None:
    await sell(store, "LAMP-02")
    item = payloads.item(sku="LAMP-02", variantId="v_LAMP-02")
    order = payloads.order("ord_7", number=1007, items=[item])
    await append_and_fold(store, envelope("orders/create", order))
    carrier = NameMapping(MappingKind.CARRIER, "dhl paket", "DHL")
    await add(store, MAPPED, carrier)
    host = host_of(ScriptedConnector(), store)
    count_ = StockLevel(key="c", sku="LAMP-2", quantity=7, as_of=payloads.instant(2))
    parcel = fulfillment_record(
        "p",
        "1007",
        tracking_company="DHL Paket",
        lines=(Line(sku="LAMP-2", quantity=1),),
    )
    states = [(await host.emit(each)).state for each in (count_, parcel)]
    assert states == ["accepted", "accepted"]
    assert [each.variant_id for each in stock_targets(store.place)] == ["v_LAMP-02"]
    (fulfill,) = (each for each in wanted(store) if "tracking_company" in each)
    assert fulfill["tracking_company"] == "DHL"
    assert fulfill["lines"] == [{"line_id": "li_1", "quantity": 1}]
    reasons = values_of(store.place, "records", "reason")
    assert all(READ_AS in reason for reason in reasons)
    assert any("carrier DHL Paket was read as DHL" in each for each in reasons)


async def test_the_sku_of_an_order_goes_before_a_mapping(store: Store) -> None:
    """The article was renamed; the order's line still has the old SKU."""
    await sell(store, "LAMP-02")
    items = [
        payloads.item("li_old", sku="LAMP-2", variantId="v_gone"),
        payloads.item("li_new", sku="LAMP-02", variantId="v_LAMP-02"),
    ]
    order = payloads.order("ord_7", number=1007, items=items)
    await append_and_fold(store, envelope("orders/create", order))
    await add(store)
    parcel = fulfillment_record("p", "1007", lines=(Line(sku="LAMP-2", quantity=1),))
    assert (await host_of(ScriptedConnector(), store).emit(parcel)).state == "accepted"
    assert wanted(store)[0]["lines"] == [{"line_id": "li_old", "quantity": 1}]


async def test_a_record_that_waits_is_matched_once_the_mapping_is_there(
    store: Store, clock: VirtualClock
) -> None:
    await sell(store, "LAMP-02")
    host = host_of(ScriptedConnector(), store, clock=clock)
    assert (await host.emit(adjustment())).state == "waiting"
    await add(store)
    await clock.advance(1)
    assert await matched(store, clock) == ["accepted"]
    assert await matched(store, clock) == []
    await remove(store)
    assert (await host.emit(adjustment())).state == "duplicate"
    assert count(store.place, "commands") == 1


async def test_a_mapping_changes_no_key_and_no_content(store: Store) -> None:
    """The same row before, with and after a mapping is one record."""
    await sell(store, "LAMP-02")
    host = host_of(ScriptedConnector(), store)
    states = [(await host.emit(adjustment())).state]
    await add(store)
    states.append((await host.emit(adjustment())).state)
    states += [each.state for each in await store.records.match(_matcher(store), 9)]
    states.append((await host.emit(adjustment())).state)
    await remove(store)
    states.append((await host.emit(adjustment())).state)
    assert states == ["waiting", "duplicate", "accepted", "duplicate", "duplicate"]
    assert rows_of(store.place, "records", "key", "state") == [("k", "accepted")]
    assert count(store.place, "commands") == 1


def _matcher(store: Store) -> Any:
    from backhaul.connect.record_matching import Matcher
    from scenes.clock import RunningClock

    return Matcher(RunningClock(), 600)


async def test_a_removed_mapping_keeps_planned_commands(store: Store) -> None:
    await sell(store, "LAMP-02", "LAMP-03")
    await add(store)
    host = host_of(ScriptedConnector(), store)
    await host.emit(adjustment("first"))
    before = wanted(store)
    await add(store, NameMapping(MappingKind.SKU, "LAMP-2", "LAMP-03"))
    await host.emit(adjustment("second"))
    await remove(store)
    assert (await host.emit(adjustment("third"))).state == "waiting"
    assert before[0] in wanted(store)
    found = sorted(each["variant_id"] for each in wanted(store))
    assert found == ["v_LAMP-02", "v_LAMP-03"]


async def test_a_mapping_to_a_sku_that_the_store_lacks_says_so(store: Store) -> None:
    await add(store)
    receipt = await host_of(ScriptedConnector(), store).emit(adjustment())
    assert "read as LAMP-02 by a mapping, but the store has no LAMP-02" in receipt.what


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "removed"])
async def test_a_parcel_of_two_sources_is_held_without_the_mapping_too(
    keeps: bool, folder: Folder
) -> None:
    """The scanner's SKU was mapped; then the manifest has the store's SKU."""
    store = folder.store
    await add(store, NameMapping(MappingKind.SKU, "BOX", "LS-XL"))
    variants = [payloads.variant("v_LS-XL", sku="LS-XL")]
    product = payloads.product("prod_5", variants=variants)
    await append_and_fold(store, envelope("products/create", product))
    line = (Line(sku="BOX", quantity=1),)
    scan = fulfillment_record("scan:1", "2001", tracking_number=None, lines=line)
    assert (
        await host_of(ScriptedConnector("scanner"), store).emit(scan)
    ).state == "accepted"
    if not keeps:
        await remove(store)
    await folder.drop(HEADER + "2001,DHL,S200,LS-XL,1\n")
    assert len(folder.left()) == 1
    (reason,) = folder.reasons()
    assert "unknown whether this is the same parcel" in reason


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "removed"])
async def test_a_full_list_sets_a_mapped_article_to_no_zero(
    keeps: bool, store: Store
) -> None:
    await sell(store, "LAMP-02")
    await add(store)
    host = host_of(connector := ScriptedConnector(), store)
    for number in (1, 2):
        at = payloads.instant(number)
        row = StockLevel(
            key=f"{number}",
            sku="LAMP-2",
            quantity=7,
            as_of=at,
            listed_at=at,
            full_list=True,
        )
        end = FullList(key=f"end {number}", listed_at=at, rows=1, absent_limit=1.0)
        connector.waiting.append(Batch(records=[row, end], cursor=str(number)))
        await host.once()
        if not keeps:
            await remove(store)
    quantities = {each.quantity for each in stock_targets(store.place)}
    assert quantities == {7}


async def test_a_row_that_fails_for_another_reason_names_the_mapping(
    store: Store,
) -> None:
    await sell(store, "LAMP-02")
    item = payloads.item(sku="LAMP-02", variantId="v_LAMP-02")
    order = payloads.order("ord_7", number=1007, items=[item])
    await append_and_fold(store, envelope("orders/create", order))
    await add(store)
    parcel = fulfillment_record("p", "1007", lines=(Line(sku="LAMP-2", quantity=9),))
    receipt = await host_of(ScriptedConnector(), store).emit(parcel)
    assert receipt.state == "quarantined"
    assert value_of(store.place, "quarantine", "reason").endswith(READ_AS)
    payload = json.loads(value_of(store.place, "records", "payload"))
    assert payload["record"]["lines"] == [{"sku": "LAMP-2", "quantity": 9}]
