"""Views of a list: built-in views, and those that each user saves."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from backhaul.store.operators import MOST_VIEWS
from dashboard.test_quarantine_filter import links
from scenes.databases import count

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office


async def save(
    browser: Browser, name: str, where: str, list_: str = "commands", sort: str = ""
) -> ClientResponse:
    more = {"sort": sort} if sort else {}
    return await browser.post(f"/{list_}/views", name=name, where=where, **more)


async def test_a_view_is_a_tab_for_its_user_alone(office: Office) -> None:
    await office.plan()
    otto, vera = await office.browser("otto"), await office.browser("vera")
    answer = await save(otto, "Urgent <1>", "state=planned since=1h", sort="oldest")
    assert answer.status == 303
    page = await otto.read(answer.headers["Location"])
    assert "The view Urgent &lt;1&gt; is saved." in page
    found = links(page)
    assert "where=state%3Dplanned+since%3D1h&sort=oldest" in found["Urgent &lt;1&gt;"]
    assert 'aria-current="page">Urgent' in page
    assert "Urgent" not in await vera.read("/commands")
    assert "Urgent" not in await otto.read("/events")


async def test_a_view_is_replaced_and_deleted(office: Office) -> None:
    browser = await office.browser("vera")
    await save(browser, "mine", "state=planned")
    await save(browser, "mine", "state=parked")
    page = await browser.read(f"/commands?where={quote('state=parked')}")
    action = re.search(r'action="(/commands/views/\d+/delete)"', page)
    assert action is not None
    other = await office.browser("otto")
    assert (await other.post(action[1])).status == 422
    assert count(office.path, "saved_views") == 1
    assert (await browser.post(action[1])).status == 303
    assert count(office.path, "saved_views") == 0


@pytest.mark.parametrize(
    ("name", "where", "said"),
    [
        ("", "state=parked", "name of a view"),
        ("n" * 41, "state=parked", "name of a view"),
        ("x", "stat=parked", "did you mean state?"),
    ],
)
async def test_a_wrong_view_is_not_saved(
    name: str, where: str, said: str, office: Office
) -> None:
    browser = await office.browser("vera")
    answer = await save(browser, name, where)
    assert answer.status == 422
    assert said in html.unescape(await answer.text())
    assert count(office.path, "saved_views") == 0


async def test_the_views_of_a_user_are_bounded_and_end_with_the_user(
    office: Office,
) -> None:
    browser = await office.browser("vera")
    for number in range(MOST_VIEWS):
        await save(browser, f"v{number}", "state=parked")
    assert (await save(browser, "one more", "state=parked")).status == 422
    assert (await save(browser, "v1", "state=planned")).status == 303
    assert (await save(browser, "other", "", "events")).status == 303
    ada = await office.browser("ada")
    assert (await ada.post("/users/remove", name="vera")).status == 303
    assert count(office.path, "saved_views") == 0


@pytest.mark.parametrize("list_", ["commands", "events", "deliveries", "quarantine"])
async def test_each_list_has_built_in_views_that_can_be_read(
    list_: str, office: Office
) -> None:
    browser = await office.browser("vera")
    page = await browser.read(f"/{list_}")
    nav = page[page.index('aria-label="Views"') :]
    addresses = re.findall(r'href="([^"]+)"', nav[: nav.index("</nav>")])
    assert len(addresses) > 1
    for address in addresses:
        shown = await browser.read(html.unescape(address))
        assert shown.count('aria-current="page"') >= 2
