"""An operator chooses a day, sees the effect, and confirms a backfill of orders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scenes.dashboard import Office

PATH = "/stores/main/backfill"
DAY, SINCE = "2026-02-01", "2026-02-01T00:00:00.000Z"


def words(page: str) -> str:
    """Return the text of a page without its tags."""
    return " ".join(re.sub(r"<[^>]+>", "", page).split())


async def test_a_backfill_is_shown_confirmed_and_audited(office: Office) -> None:
    browser = await office.browser("otto")
    assert f'href="{PATH}"' in await browser.read("/stores")
    form = await browser.read(PATH)
    assert 'value="2026-01-30" max="2026-03-01"' in form
    assert "Backfill orders</button>" not in form
    page = await browser.read(f"{PATH}?since={DAY}")
    assert "The platform has 230 orders that were placed or changed since" in words(
        page
    )
    assert "Backhaul reads them in about 3 requests." in words(page)
    backfill = office.order_backfills["main"]
    assert backfill.requests == [f"count since {SINCE}"]
    assert office.audit() == []
    assert (await browser.post(PATH, since=SINCE)).status == 303
    assert backfill.requests[1:] == [f"since {SINCE}"]
    assert "reads the orders of main since" in await browser.read("/stores")
    assert office.audit() == [
        ("otto", "stores backfill", f"main: orders since {SINCE}")
    ]


async def test_a_number_that_the_platform_does_not_say_is_not_invented(
    office: Office,
) -> None:
    office.order_backfills["main"].orders = None
    browser = await office.browser("otto")
    page = words(await browser.read(f"{PATH}?since={DAY}"))
    assert "The platform does not say how many orders were placed" in page


@pytest.mark.parametrize(
    ("since", "error"),
    [
        ("2026-03-02", "is in the future; choose a day in the past"),
        ("yesterday", "since cannot be &#39;yesterday&#39;; write a day"),
    ],
)
async def test_a_wrong_day_is_explained(since: str, error: str, office: Office) -> None:
    browser = await office.browser("otto")
    for answer in (
        await browser.get(f"{PATH}?since={since}"),
        await browser.post(PATH, since=since),
    ):
        assert answer.status == 422
        assert error in await answer.text()
    assert office.order_backfills["main"].requests == []
    assert office.audit() == []


async def test_a_store_that_no_daemon_reads_is_named(office: Office) -> None:
    office.order_backfills.clear()
    browser = await office.browser("otto")
    answer = await browser.post(PATH, since=SINCE)
    assert answer.status == 422
    assert "no daemon reads store main" in await answer.text()
    assert (await browser.get("/stores/other/backfill")).status == 404


async def test_a_viewer_is_not_offered_a_backfill(office: Office) -> None:
    browser = await office.browser("vera")
    assert PATH not in await browser.read("/stores")
    assert (await browser.post(PATH, since=SINCE)).status == 403
    assert office.order_backfills["main"].requests == []
