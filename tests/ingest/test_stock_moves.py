"""Each stock movement has one ledger row, however often it is reported.

A platform may report a movement without its `adjustmentId`: its history has the id.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store import database_at
from backhaul.store.read_records import FoundObject
from scenes import payloads
from scenes.damaged_rows import insert
from scenes.databases import append_and_fold, event_states, fold_in_turn, make_database
from scenes.payloads import envelope, read
from scenes.stored import rows_of

if TYPE_CHECKING:
    from backhaul.store import Place, Store
    from scenes.stored import Row

TOPIC = "inventory/level_update"
KNOWN = (-2, 10, "MANUAL_ADJUSTMENT", "adj_1", "adj_1")
NAMELESS = (-2, 10, "MANUAL_ADJUSTMENT", None, None)


def ledger(store: Store) -> list[Row]:
    """Return the stock movements, those without an id first."""
    columns = ("adjustment", "stock_after", "reason", "cause", "adjustment_id")
    found = rows_of(store.place, "stock_ledger", *columns)
    return sorted(found, key=lambda row: row[-1] or "")


def nameless(**members: Any) -> payloads.Document:
    """Return the data of a webhook without the id of the movement."""
    data = payloads.stock_change(**members)
    return {name: value for name, value in data.items() if name != "adjustmentId"}


def bare(document: payloads.Document) -> bytes:
    return json.dumps(document).encode()


def history(**members: Any) -> Any:
    return read("inventory/history", payloads.stock_change(**members))


@pytest.mark.parametrize("told_first", ["webhook", "history"])
@pytest.mark.parametrize("silent", [(), ("reason",), ("reason", "orderId")])
async def test_the_history_names_a_move_that_a_webhook_did_not_name(
    silent: tuple[str, ...], told_first: str, store: Store
) -> None:
    sold = {"reason": "ORDER_PLACED", "orderId": "ord_1"}
    data = {name: v for name, v in nameless(**sold).items() if name not in silent}
    arrivals = [payloads.arrival(envelope(TOPIC, data)), history(**sold)]
    await fold_in_turn(
        store, *(arrivals if told_first == "webhook" else arrivals[::-1])
    )
    assert ledger(store) == [(-2, 10, "ORDER_PLACED", "ord_1", "adj_1")]
    assert event_states(store.place) == ["folded", "duplicate"]
    assert len(rows_of(store.place, "changes")) == 1


async def test_a_change_without_a_webhook_is_learnt_from_the_history(
    store: Store,
) -> None:
    data = nameless()
    data["levels"] = [{"variantId": "var_1", "stock": 10}]
    await append_and_fold(store, envelope(TOPIC, data))
    await fold_in_turn(store, history())
    assert ledger(store) == [KNOWN]


@pytest.mark.parametrize("body", [envelope(TOPIC, nameless()), bare(nameless())])
async def test_the_same_webhook_in_other_bytes_moves_nothing_again(
    body: bytes, store: Store
) -> None:
    for bytes_ in (body, json.dumps(json.loads(body), indent=1).encode()):
        await fold_in_turn(store, payloads.arrival(bytes_, TOPIC))
    assert ledger(store) == [NAMELESS]
    assert event_states(store.place) == ["folded", "duplicate"]


async def test_an_event_that_is_given_a_new_id_is_known_by_its_millisecond(
    store: Store,
) -> None:
    at = {"updatedAt": "2026-03-01T12:00:01.234Z"}
    for number in range(3):
        await append_and_fold(
            store, envelope(TOPIC, nameless(**at), id=f"evt_{number}")
        )
    assert ledger(store) == [NAMELESS]


async def test_two_events_of_one_second_are_two_moves(store: Store) -> None:
    """A unit left, returned and left within one second, with times in seconds."""
    for number in range(2):
        await append_and_fold(store, envelope(TOPIC, nameless(), id=f"evt_{number}"))
    assert ledger(store) == [NAMELESS] * 2
    await fold_in_turn(store, history())
    assert ledger(store) == [NAMELESS, KNOWN]
    await fold_in_turn(store, history(adjustment_id="adj_2"))
    named = (*KNOWN[:3], "adj_2", "adj_2")
    assert ledger(store) == [KNOWN, named]


@pytest.mark.parametrize(
    "other",
    [
        {"reason": "RETURN"},
        {"orderId": "ord_2"},
        {"adjustment": -3},
        {"stock": 9},
        {"at": 2},
        {"orderId": None},
    ],
    ids=str,
)
async def test_moves_that_differ_in_any_given_field_are_two_moves(
    other: dict[str, Any], store: Store
) -> None:
    await append_and_fold(store, envelope(TOPIC, nameless(orderId="ord_1")))
    await fold_in_turn(store, history(**{"orderId": "ord_1", **other}))
    assert len(rows_of(store.place, "stock_ledger")) == 2


async def test_why_says_which_moves_may_be_reported_twice(database: Place) -> None:
    """Two deliveries within one second; the history has the id of one movement."""
    make_database(database)
    sold = {"store": "main", "product_id": "prod_1", "variant_id": "var_1"}
    sold |= {"reason": "ORDER_PLACED", "cause": "ord_1"}
    units = {"adjustment": -2, "stock_after": 10}
    moments = (("adj_1", 0), (None, 0), (None, 3_599))
    for id_, second in moments:
        data = {"adjustment_id": id_, "at": payloads.instant(second)}
        insert(database, "stock_ledger", **sold, **units, **data)
    found = FoundObject("", "main", "var_1", {"product_id": "prod_1"})
    with database_at(database).reader() as known:
        shown = [one.detail for one in known.timeline("sku", found)]
    move = "now 10, ORDER_PLACED by ord_1"
    twice = ", reported without an id: it may be another movement of the same time"
    twice += ", reported twice"
    assert shown == [move, move + twice, f"{move}, reported without an id"]
