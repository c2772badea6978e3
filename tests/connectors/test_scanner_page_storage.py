"""What the shop-floor page stores in the browser, and what happens if this fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from backhaul_sdk import StockAdjustment
from connectors.shop_floor import PATH, open_hall
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from connectors.shop_floor import Hall

pytestmark = pytest.mark.programs

COUNT_REQUESTS = """
  window.asked = 0;
  navigator.storage.persist = async () => {
    asked += 1;
    return false;
  };
"""
"""Counts how often the page asks the browser to keep its data."""
FAIL_ONCE = """() => {
  const add = IDBObjectStore.prototype.add;
  IDBObjectStore.prototype.add = () => {
    IDBObjectStore.prototype.add = add;
    throw new DOMException("the disk is full", "QuotaExceededError");
  };
}"""
"""Has the browser refuse to store the next scan."""


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as opened:
        yield opened


async def test_deleting_unsent_scans_keeps_unseen_refusals(
    hall: Hall,
) -> None:
    await hall.open()
    await hall.choose("Receive")
    await hall.page.route("**/scan", lambda route: route.abort())
    await hall.scan("4006381333932")
    await hall.shows("kept", "kept here: 1")
    await hall.reload()
    await hall.comes_back()
    late = hall.page.get_by_role("region", name="Refused after they had waited")
    await expect(late).to_contain_text("4006381333932: the check digit")
    await hall.page.route("**/scan", lambda route: route.abort())
    await hall.scan("A")
    await hall.shows("kept", "kept here: 1")
    await hall.page.get_by_role("button", name="Delete unsent scans").click()
    await hall.scan("1")
    await hall.shows("idle", "1 scans are deleted")
    await hall.reload()
    await expect(late).to_contain_text("4006381333932: the check digit")
    hall.visit.watch.complaints.clear()


async def test_units_stay_if_the_browser_cannot_store_their_scan(hall: Hall) -> None:
    await hall.open()
    await hall.choose("Receive")
    await hall.page.get_by_label("Units").fill("12")
    await hall.page.keyboard.press("Enter")
    await hall.page.evaluate(FAIL_ONCE)
    await hall.scan("A")
    await hall.shows("bad", "A is not kept, scan it again: the disk is full")
    await hall.scan("A")
    await hall.shows("good", "12 x A received")
    await hall.scan("B")
    await hall.shows("good", "1 x B received")


async def test_the_page_requests_persistent_storage_at_each_start(hall: Hall) -> None:
    """It may refuse at first, and agree after the page was used for some days."""
    await hall.open()
    await hall.page.add_init_script(COUNT_REQUESTS)
    await hall.reload()
    assert await hall.page.evaluate("asked") == 1


async def test_an_old_scan_that_cannot_be_read_stops_no_other(hall: Hall) -> None:
    await hall.page.goto(hall.url)
    good = {"mode": "receive", "code": "A", "sequence": "b7-2"}
    old = ['{"mode": "rec', "null", json.dumps(good)]
    for number, scan in enumerate(old):
        await hall.page.evaluate(
            "([key, scan]) => localStorage.setItem(key, scan)",
            [f"backhaul:{PATH}:scan:{number:015}", scan],
        )
    await hall.open()
    await hall.reload()
    await until(lambda: len(hall.dock.records()) == 1, "the other scan arrives")
    (record,) = hall.dock.records()
    assert isinstance(record, StockAdjustment)
    assert record.sku == "A"
    late = hall.page.get_by_role("region", name="Refused after they had waited")
    await expect(late).to_contain_text('{"mode": "rec: not sent')
    await expect(late).to_contain_text("null: not sent")
    assert await hall.page.evaluate("localStorage.length") == 0
