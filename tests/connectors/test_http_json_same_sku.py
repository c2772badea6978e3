"""Several items of one SKU in one list, on one page or on several."""

from __future__ import annotations

from typing import Any

import pytest

from backhaul_connectors.http_json.client import ListPosition
from backhaul_connectors.http_json.connector import ListPass
from backhaul_connectors.http_json.settings import List
from backhaul_sdk import Bad, StockLevel
from backhaul_sdk.json_items import ItemParser, text_of

NOW = "2026-01-02T00:00:00.000Z"
LEVELS = {
    "kind": "stock_level",
    "path": "/stock",
    "key": "id",
    "fields": {"sku": "sku", "quantity": "n"},
}


def item(id_: str, sku: str, number: object) -> dict[str, Any]:
    return {"id": id_, "sku": sku, "n": number}


def read(*pages: list[dict[str, Any]], **options: Any) -> list[Any]:
    """Return what is handed over of a list with these pages."""
    settings = List.model_validate({**LEVELS, **options})
    walk = ListPass(
        "stock", settings, ListPosition(), ItemParser("stock", settings, NOW), NOW
    )
    found: list[Any] = []
    for number, page in enumerate(pages, 1):
        texts = list(map(text_of, page))
        found += walk.take(page, texts, is_last=number == len(pages))
    return found


def quantities(found: list[Any]) -> dict[str, int]:
    return {each.sku: each.quantity for each in found if isinstance(each, StockLevel)}


FIRST, SECOND, OTHER = item("1", "A", 7), item("2", "A", 5), item("3", "B", 1)
ODD = item("4", "A", "x")


@pytest.mark.parametrize(
    "pages",
    [
        ([FIRST, OTHER, SECOND],),
        ([FIRST], [OTHER], [SECOND]),
        ([FIRST, OTHER], [SECOND], []),
    ],
)
def test_items_of_one_article(pages: tuple[list[dict[str, Any]], ...]) -> None:
    refused = read(*pages)
    assert quantities(refused) == {"B": 1}
    reasons = [each.reason for each in refused if isinstance(each, Bad)]
    assert len(reasons) == 2
    assert "stock 1, stock 2 count it too" in reasons[0]
    summed = read(*pages, same_sku="sum")
    assert quantities(summed) == {"A": 12, "B": 1}
    assert summed[0].note == "7 + 5 added up"


def test_equal_items_are_two_parts_of_the_stock() -> None:
    pages = [item("1", "A", 5), item("2", "A", 5)]
    assert quantities(read(pages)) == {}
    assert quantities(read(pages, same_sku="sum")) == {"A": 10}


def test_an_item_that_a_later_page_brings_again_counts_once() -> None:
    again = item("1", "A", 6)
    for options in ({}, {"same_sku": "sum"}):
        assert quantities(read([FIRST], [again], **options)) == {"A": 6}


@pytest.mark.parametrize("same_sku", ["refuse", "sum"])
def test_an_item_that_cannot_be_used_leaves_no_part_alone(same_sku: str) -> None:
    found = read([FIRST], [ODD, OTHER], same_sku=same_sku)
    assert quantities(found) == {"B": 1}
    assert len([each for each in found if isinstance(each, Bad)]) == 2


def test_below_zero_is_added_up_before_it_is_zero() -> None:
    found = read([item("1", "A", -2), item("2", "A", 5)], same_sku="sum")
    assert quantities(found) == {"A": 3}


def test_only_a_whole_list_can_be_added_up() -> None:
    options = {"since": "at", "since_parameter": "since", "same_sku": "sum"}
    with pytest.raises(ValueError, match='same_sku = "sum" needs the whole list'):
        List.model_validate({**LEVELS, **options})
