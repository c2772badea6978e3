"""`why order` lists every row and event that names the order and changed nothing."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.clock import SystemClock
from backhaul.store.records import NewRecord
from backhaul_sdk import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    StockAdjustment,
    Tracking,
)
from scenes import payloads
from scenes.daemon import in_process
from scenes.databases import fold_all, started_store
from scenes.mirror_files import lone_office
from scenes.payloads import arrival, envelope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_sdk import Record
    from scenes.daemon import Office

NUMBERLESS = {"number": None, "name": "#7802"}


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as found:
        yield found


async def fold(office: Office, *bodies: bytes) -> None:
    path = office.database
    async with started_store(path) as store:
        for body in bodies:
            await store.inbox.append(arrival(body))
        await fold_all(store)


async def submit(office: Office, *records: Record | Bad, wait: float = 0) -> None:
    """Submit records of the connector `erp`; unmatched records wait for a time."""
    path = office.database
    async with started_store(path) as store:
        matcher = Matcher(SystemClock(), wait)
        new = [
            NewRecord(each.key, None, each.raw, each.reason, each.locator)
            if isinstance(each, Bad)
            else NewRecord(each.key, encode(each), each.raw, "", each.locator)
            for each in records
        ]
        await store.records.accept("erp", "main", new, None, matcher)


def ask(office: Office, *words: str) -> Any:
    return json.loads(in_process(*words, "--json", config=office.config).out)


def records_of(office: Office, name: str) -> list[tuple[str, str, str]]:
    (found,) = ask(office, "why", "order", name)
    steps = [row for row in found["timeline"] if row["what"] == "record"]
    return [(row["name"], row["state"], row["detail"]) for row in steps]


def fulfillment(order: str, sku: str = "NONE") -> Fulfillment:
    lines = (Line(sku=sku, quantity=1),)
    return Fulfillment(key=f"k-{order}", order=order, lines=lines, locator="f.csv:2")


KNOWN = envelope("orders/create", payloads.order("ord_71", number=7100))
WEB = envelope("orders/create", payloads.order("ord_72", number=8, externalId="POS-9"))


@pytest.mark.parametrize("name", ["7100", "#7100", "007100", "ord_71"])
async def test_a_quarantined_record_is_listed_with_its_row(
    name: str, office: Office
) -> None:
    await fold(office, KNOWN)
    await submit(office, fulfillment(name))
    ((where, state, detail),) = records_of(office, "7100")
    assert (where, state) == ("erp f.csv:2", "quarantined")
    assert "NONE" in detail
    assert detail.endswith("see: backhaul quarantine show 1")


@pytest.mark.parametrize("name", ["pos-9", " POS-9 "])
async def test_a_record_that_nearly_names_an_order_is_listed(
    name: str, office: Office
) -> None:
    await fold(office, WEB)
    await submit(office, Cancellation(key="c", order=name, restock=True))
    ((_, state, detail),) = records_of(office, "8")
    assert state == "quarantined"
    assert f"order {name!r} is not known" in detail


async def test_a_discarded_record_is_listed_too(office: Office) -> None:
    await fold(office, KNOWN)
    await submit(office, fulfillment("7100"))
    drop = ("quarantine", "discard", "1", "--reason", "seen")
    done = await asyncio.to_thread(in_process, *drop, config=office.config)
    assert done.code == 0
    assert [state for _, state, _ in records_of(office, "7100")] == ["dropped"]


@pytest.mark.parametrize(
    ("raw", "is_listed"),
    [
        ("7100,DHL,BD1,x", True),
        ('{"order":"#7100"}', True),
        ("71001,DHL,BD1,x", False),
        ("17100;DHL", False),
        ("DHL;8", False),
    ],
)
async def test_a_row_that_is_no_record_is_found_by_its_text(
    raw: str, is_listed: bool, office: Office
) -> None:
    await fold(office, KNOWN, WEB)
    bad = Bad(key="b", raw=raw, reason="'x' is no quantity", locator="f.csv:3")
    await submit(office, bad)
    words = "'x' is no quantity; the text of the row has the order's name"
    says = f"{words}; see: backhaul quarantine show 1"
    expected = [("erp f.csv:3", "quarantined", says)] * is_listed
    assert records_of(office, "7100") == expected
    assert records_of(office, "8") == []


async def test_a_record_of_a_parcel_is_found_by_the_orders_parcels(
    office: Office,
) -> None:
    parcel = {"shipments": [payloads.shipment()], "fulfillmentStatus": "FULFILLED"}
    shipped = payloads.order("ord_71", number=7100) | parcel
    await fold(office, envelope("orders/fulfilled", shipped))
    odd = Tracking(key="t", tracking_number="BD1", status="eaten")
    other = Tracking(key="u", tracking_number="BD2", status="eaten")
    await submit(office, odd, other)
    assert [detail for _, _, detail in records_of(office, "7100")] == [
        "there is no status 'eaten'; see: backhaul quarantine show 1"
    ]


@pytest.mark.parametrize(
    ("wait", "state", "pointer"),
    [(0, "quarantined", True), (600, "waiting", False)],
)
async def test_an_order_that_only_a_record_names_is_explained(
    wait: float, state: str, pointer: bool, office: Office
) -> None:
    await fold(office, KNOWN)
    await submit(office, fulfillment("7009"), wait=wait)
    (found,) = ask(office, "why", "order", "#7009")
    assert found["mirrored"] == "no: only a row of connector erp names it"
    (step,) = found["timeline"]
    assert step["state"] == state
    assert "order '7009' is not known" in step["detail"]
    assert ("see: backhaul quarantine show 1" in step["detail"]) is pointer


async def test_the_quarantine_lists_the_object_of_each_record(office: Office) -> None:
    stock = StockAdjustment(key="s", sku="LS-9", delta=1)
    await submit(office, fulfillment("7009"), stock)
    await submit(office, Bad(key="b", raw="?", reason="no row"))
    abouts = [row["about"] for row in ask(office, "quarantine", "list")]
    assert abouts == ["", "sku LS-9", "order 7009"]


UNKNOWN_TOPICS = [
    ("orders/edited", payloads.order("ord_79", number=7009)),
    ("", payloads.order("ord_79", number=7009)),
    ("orders/edited", {"number": 7009}),
    ("things/changed", {"id": "ord_79", "number": 7009}),
    ("things/changed", {"name": "#7009"}),
]


@pytest.mark.parametrize(("topic", "data"), UNKNOWN_TOPICS)
@pytest.mark.parametrize("name", ["7009", "#7009"])
async def test_why_names_the_unhandled_event_of_an_order(
    topic: str, data: dict[str, Any], name: str, office: Office
) -> None:
    await fold(office, KNOWN, envelope(topic, data))
    (found,) = ask(office, "why", "order", name)
    said = f"event 2: {f'unknown topic {topic!r}' if topic else 'no topic'}"
    assert said in found["mirrored"]
    assert found["mirrored"].endswith("see: backhaul events show 2")
    shown = in_process("why", "order", name, config=office.config)
    assert shown.code == 0
    assert "its webhook has not arrived" not in shown.out + shown.err


async def test_an_unhandled_event_names_no_object_of_another_kind(
    office: Office,
) -> None:
    await fold(office, envelope("products/edited", {"number": 7009, "id": "p"}))
    said = in_process("why", "order", "7009", config=office.config)
    assert (said.code, "its webhook has not arrived" in said.err) == (1, True)


async def test_search_finds_objects_that_an_unhandled_event_names(
    office: Office,
) -> None:
    await fold(office, envelope(*UNKNOWN_TOPICS[0]))
    (found,) = ask(office, "search", "7009")
    assert (found["kind"], found["id"]) == ("order", "ord_79")
    assert "unknown topic 'orders/edited'" in found["found"]


async def test_a_discarded_event_is_still_named(office: Office) -> None:
    order = payloads.order("ord_79", number=7009) | {"status": None}
    await fold(office, envelope("orders/cancelled", order))
    drop = ("quarantine", "discard", "1", "--reason", "seen")
    done = await asyncio.to_thread(in_process, *drop, config=office.config)
    assert done.code == 0
    (found,) = ask(office, "why", "order", "7009")
    assert "event 1 could not be read" in found["mirrored"]


@pytest.mark.parametrize("name", ["7802", "#7802"])
@pytest.mark.parametrize("own", ["7802", "#7802"])
async def test_an_order_without_a_number_is_found_by_its_name(
    name: str, own: str, office: Office
) -> None:
    order = payloads.order("ord_78") | NUMBERLESS | {"name": own}
    await fold(office, KNOWN, envelope("orders/create", order))
    (found,) = ask(office, "why", "order", name)
    assert (found["id"], found["name"]) == ("ord_78", own)
    built = await asyncio.to_thread(
        in_process, "search", "--rebuild", config=office.config
    )
    assert built.code == 0
    assert [row["id"] for row in ask(office, "search", name)] == ["ord_78"]
    path = office.database
    async with started_store(path) as store:
        names = await store.records.find_names("main", [name])
    assert [order.name for order in names[name].orders] == [own]


async def test_a_text_that_is_the_name_of_one_and_the_number_of_another_is_both(
    office: Office,
) -> None:
    named = payloads.order("ord_78") | {"number": 1, "name": "#7100"}
    await fold(office, KNOWN, envelope("orders/create", named))
    await submit(office, fulfillment("7100", "LS-S"))
    for id_ in ("ord_71", "ord_78"):
        ((_, state, detail),) = records_of(office, id_)
        assert state == "quarantined"
        assert "could be any of" in detail
