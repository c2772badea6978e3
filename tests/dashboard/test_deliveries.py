"""The pages of deliveries: the list, one delivery, and decisions about many."""

from __future__ import annotations

import csv
import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from dashboard.test_decisions import fields
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.stored import values_of

if TYPE_CHECKING:
    from scenes.dashboard import Office

BOOKS = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"order.placed"}),
    begin="all",
)


async def deliver(office: Office, *orders: str, cause: Cause) -> list[int]:
    """Deliver new orders to a connection with an outcome; return the numbers."""
    await office.store.deliveries.subscribe(BOOKS)
    placed = [payloads.order(each, name=f"#{each}") for each in orders]
    bodies = [payloads.envelope("orders/create", each) for each in placed]
    await append_and_fold(office.store, *bodies)
    while await office.store.deliveries.fan_out(BOOKS, 1.0):
        pass
    seqs: list[int] = []
    while (claimed := await office.store.deliveries.claim(BOOKS)) is not None:
        outcome = DeliveryOutcome(cause=cause, reason="503 <b>away</b>")
        await office.store.deliveries.record_outcome("books", claimed, outcome)
        seqs.append(claimed.seq)
    return seqs


def shown(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'id="delivery-(\d+)"', page)]


async def test_deliveries_are_listed_and_filtered(office: Office) -> None:
    first, second = await deliver(office, "o1", "o2", cause=Cause.UNDECIDABLE)
    browser = await office.browser("vera")
    assert shown(await browser.read("/deliveries")) == [second, first]
    page = await browser.read("/deliveries?sort=oldest")
    assert shown(page) == [first, second]
    for text, expected in (
        ("state=parked connector=books", [second, first]),
        ("order=o1", [first]),
        ("state=applied", []),
        ("503 away", [second, first]),
    ):
        found = await browser.read(f"/deliveries?where={quote(text)}")
        assert shown(found) == expected, text
    assert "503 &lt;b&gt;away" in page
    answer = await browser.get("/deliveries?where=stat%3Dx")
    assert answer.status == 422


async def test_a_delivery_shows_its_attempts_and_its_object(office: Office) -> None:
    (seq,) = await deliver(office, "o1", cause=Cause.UNDECIDABLE)
    browser = await office.browser("otto")
    page = html.unescape(await browser.read(f"/deliveries/{seq}"))
    assert "attempt 1" in page
    assert "503 <b>away</b>" in page
    assert '"id": "o1"' in page
    assert '/mirror/order/main/o1"' in page
    assert "verb=resend" in page
    assert "verb=park" not in page
    assert (await browser.get("/deliveries/99999")).status == 404


@pytest.mark.parametrize(
    ("verb", "state"), [("resend", "planned"), ("discard", "rejected")]
)
async def test_deliveries_are_decided_after_a_preview(
    verb: str, state: str, office: Office
) -> None:
    await deliver(office, "o1", "o2", cause=Cause.UNDECIDABLE)
    browser = await office.browser("otto")
    asked = urlencode({"verb": verb, "rows": "all", "where": "state=parked"})
    page = await browser.read(f"/deliveries/preview?{asked}")
    assert "2 rows: " in page
    assert values_of(office.path, "deliveries", "state") == ["parked"] * 2
    form = fields(page) | {"reason": "the ERP is back"}
    assert (await browser.post("/deliveries/change", **form)).status == 303
    assert values_of(office.path, "deliveries", "state") == [state] * 2
    assert len(office.audit()) == 2
    assert f"2 {state}" in await browser.read("/deliveries")


async def test_deliveries_are_exported(office: Office) -> None:
    await deliver(office, "o1", cause=Cause.REFUSED)
    browser = await office.browser("vera")
    (row,) = json.loads(await browser.read("/deliveries.json?where=state%3Drejected"))
    assert (row["connection"], row["state"], row["about"]) == (
        "books",
        "rejected",
        "#o1",
    )
    (cells,) = csv.DictReader((await browser.read("/deliveries.csv")).splitlines())
    assert cells["seq"] == str(row["seq"])
