"""Each courier's API is polled in its own way, and its list is read to the end."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.courier.polling import SeenStatuses
from backhaul_sdk import CheckFailed, Tracking
from connectors.answering import Script, scripted
from connectors.couriers import API_KEY, API_SECRET, Desk, aftership, easypost, parcel

if TYPE_CHECKING:
    from collections.abc import Iterator

SINCE = "2025-12-02T00:00:00Z"
"""Thirty days before the desk's now: a list is never asked for more."""
TRACKERS = f"https://api.easypost.com/v2/trackers?page_size=100&start_datetime={SINCE}"
TRACKINGS = f"https://api.aftership.com/tracking/2024-10/trackings?limit=200&updated_at_min={SINCE}"
PARCELS = f"https://panel.sendcloud.sc/api/v2/parcels?limit=500&updated_after={SINCE}"


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as script:
        yield script


def desk_of(vendor: str, **options: str) -> Desk:
    return Desk(vendor, {"api_key": API_KEY, **options})


async def ask(desk: Desk) -> list[str]:
    """Ask the courier; return of which parcels the host knows."""
    courier = desk.courier()
    try:
        await desk.host.pull(courier)
    finally:
        await courier.close()
    told = [record for record in desk.records() if isinstance(record, Tracking)]
    return sorted(record.tracking_number for record in told)


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def trackers(*numbers: int, more: bool) -> dict[str, Any]:
    return {"trackers": [easypost(n)["result"] for n in numbers], "has_more": more}


async def test_easypost_is_polled_for_events_before_the_last(script: Script) -> None:
    script.add(TRACKERS, trackers(1, 2, more=True))
    script.add(TRACKERS.replace("?", "?before_id=trk_2&"), trackers(3, more=False))
    assert await ask(desk_of("easypost")) == ["EZ1", "EZ2", "EZ3"]
    shown = [headers["Authorization"] for _, headers in script.asked]
    assert shown == [basic(f"{API_KEY}:")] * 2


async def test_aftership_is_polled_with_its_cursor(script: Script) -> None:
    def page(number: int, cursor: str) -> dict[str, Any]:
        paging = {"has_next_page": bool(cursor), "next_cursor": cursor}
        found = [aftership(number)["msg"]]
        return {"data": {"trackings": found, "pagination": paging}}

    script.add(TRACKINGS, page(1, "abc"))
    script.add(TRACKINGS.replace("?", "?cursor=abc&"), page(2, ""))
    assert await ask(desk_of("aftership")) == ["EZ1", "EZ2"]
    assert [headers["as-api-key"] for _, headers in script.asked] == [API_KEY] * 2


async def test_sendcloud_says_where_the_next_page_is(script: Script) -> None:
    following = "https://panel.sendcloud.sc/api/v2/parcels?cursor=x"
    script.add(PARCELS, {"parcels": [parcel(1)], "next": following})
    script.add(following, {"parcels": [parcel(2)], "next": None})
    assert await ask(desk_of("sendcloud", api_secret=API_SECRET)) == ["EZ1", "EZ2"]
    shown = [headers["Authorization"] for _, headers in script.asked]
    assert shown == [basic(f"{API_KEY}:{API_SECRET}")] * 2


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_list_that_breaks_off_is_read_again_from_its_beginning(
    script: Script, status: int
) -> None:
    desk = desk_of("easypost")
    following = TRACKERS.replace("?", "?before_id=trk_1&")
    script.add(TRACKERS, trackers(1, more=True))
    script.add(following, {"error": "later"}, status)
    with pytest.raises(CheckFailed, match=f"api.easypost.com answered {status}"):
        await ask(desk)
    assert SeenStatuses.from_text(desk.host.cursor).asked_at == 0
    script.add(following, trackers(2, more=False))
    assert await ask(desk) == ["EZ1", "EZ2"]
    assert script.urls == [TRACKERS, following] * 2


async def test_a_list_that_leads_to_another_host_is_not_followed(
    script: Script,
) -> None:
    script.add(PARCELS, {"parcels": [parcel(1)], "next": "https://evil.example/p"})
    desk = desk_of("sendcloud", api_secret=API_SECRET)
    with pytest.raises(CheckFailed, match="not the courier's"):
        await ask(desk)
    assert script.urls == [PARCELS]
