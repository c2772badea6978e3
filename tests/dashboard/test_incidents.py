"""Open incidents are shown on the overview and on orders, and resolved there."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pytest

from scenes import payloads
from scenes.damaged_rows import insert_incident
from scenes.databases import append_and_fold
from scenes.stored import open_incidents

if TYPE_CHECKING:
    from scenes.dashboard import Office

SAYS = "order #1 was <cancelled> and put back when 2 units had shipped"
SHOWN = html.escape(SAYS)
OVERVIEW, ORDER, LIST = "/", "/mirror/order/main/ord_1", "/incidents"


@pytest.fixture
async def opened(office: Office) -> Office:
    """An office with two orders, and an incident of the first."""
    for id_ in ("ord_1", "ord_2"):
        await append_and_fold(
            office.store, payloads.envelope("orders/create", payloads.order(id_))
        )
    insert_incident(office.path, SAYS)
    return office


@pytest.mark.parametrize("path", ["/", OVERVIEW, ORDER, LIST])
@pytest.mark.parametrize("who", ["vera", "otto"])
async def test_an_open_incident_is_shown_on_the_overview_and_on_the_order(
    path: str, who: str, opened: Office
) -> None:
    page = await (await opened.browser(who)).read(path)
    assert SHOWN in page
    if path != LIST:
        assert 'href="/incidents#incident-1"' in page


async def test_the_page_of_another_order_shows_none(opened: Office) -> None:
    browser = await opened.browser("otto")
    assert SHOWN not in await browser.read("/mirror/order/main/ord_2")


async def test_an_operator_resolves_an_incident(opened: Office) -> None:
    browser = await opened.browser("otto")
    path = "/incidents/1/resolve"
    assert 'action="/incidents/1/resolve"' in await browser.read(LIST)
    assert (await browser.post(path, reason=" adjusted by -2 ")).status == 303
    audited = ("otto", "incidents resolve", "1: adjusted by -2")
    assert opened.audit() == [audited]
    listed = await browser.read(LIST)
    assert "Incident 1 is resolved." in listed
    assert "No incident is open." in listed
    assert SHOWN not in await browser.read(OVERVIEW)
    assert "resolved by otto: adjusted by -2" in await browser.read(ORDER)
    assert (await browser.post(path, reason="again")).status == 422


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
async def test_a_resolution_has_words(reason: str, opened: Office) -> None:
    browser = await opened.browser("otto")
    answer = await browser.post("/incidents/1/resolve", reason=reason)
    assert answer.status == 422
    assert [each.id for each in open_incidents(opened.path)] == [1]


async def test_a_viewer_is_not_offered_to_resolve(opened: Office) -> None:
    page = await (await opened.browser("vera")).read(LIST)
    assert "/incidents/1/resolve" not in page


async def test_the_overview_shows_some_of_many_and_how_many_more(
    opened: Office,
) -> None:
    for number in range(9):
        insert_incident(opened.path, SAYS, f"c{number}")
    page = await (await opened.browser("otto")).read(OVERVIEW)
    assert page.count(SHOWN) == 3
    assert "10 incidents are open" in page
    assert '<a class="button" href="/incidents">Show all 10</a>' in page
