"""Themes, local times and the keyboard, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from dashboard_browser.test_browsing import PHONE, arrives, fill, go, log_in
from scenes import payloads
from scenes.browser import Visit, open_visit
from scenes.dashboard import PASSWORD, Office, open_office
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = pytest.mark.programs


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_office(tmp_path) as opened:
        await opened.add_users()
        yield opened


@pytest.fixture
async def visit(office: Office) -> AsyncIterator[Visit]:
    """Fails the test where a page complains or asks anybody but the dashboard."""
    async with open_visit(str(office.server.make_url("")).rstrip("/")) as opened:
        yield opened


async def background(page: Page) -> str:
    found: str = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


LIGHT, DARK = "rgb(244, 246, 245)", "rgb(16, 21, 20)"


async def test_the_theme_follows_the_system_until_one_is_chosen(
    office: Office, visit: Visit
) -> None:
    page = visit.page
    await page.emulate_media(color_scheme="dark")
    await log_in(office, page, "vera")
    assert await background(page) == DARK
    await go(office, page, "/jobs")
    await page.get_by_role("button", name="Theme: light").click()
    await arrives(page, "Jobs")
    assert await background(page) == LIGHT
    chosen = page.get_by_role("button", name="Theme: light")
    await expect(chosen).to_have_attribute("aria-pressed", "true")
    await page.emulate_media(color_scheme="light")
    await page.get_by_role("button", name="Theme: dark").click()
    await arrives(page, "Jobs")
    assert await background(page) == DARK
    await page.get_by_role("button", name="Theme: system").click()
    await arrives(page, "Jobs")
    assert await background(page) == LIGHT


async def test_a_slash_leads_to_the_search_field(office: Office, visit: Visit) -> None:
    await fill(office)
    page = visit.page
    await log_in(office, page, "vera")
    await page.keyboard.press("/")
    field = page.get_by_role("searchbox", name="Find orders")
    await expect(field).to_be_focused()
    await page.keyboard.type("1/1001")  # the second slash is a letter of the search
    await expect(field).to_have_value("1/1001")
    await field.fill("#1001")
    await page.keyboard.press("Enter")
    await arrives(page, "order #1001")


async def test_times_are_those_of_the_reader(office: Office, visit: Visit) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    browser = visit.page.context.browser
    assert browser is not None
    context = await browser.new_context(
        timezone_id="Asia/Kolkata", locale="en-GB", java_script_enabled=True
    )
    page = await context.new_page()
    await log_in(office, page, "vera")
    await go(office, page, "/events/1")
    received = page.locator("div", has_text="Received").locator("time").first
    await expect(received).to_contain_text("1 Mar 2026, 17:30:")
    title = await received.get_attribute("title")
    assert title is not None
    assert title.startswith("1 Mar 2026, 12:00:")
    assert title.endswith(" UTC")
    await context.close()


async def test_everything_is_read_without_a_script(
    office: Office, visit: Visit
) -> None:
    await fill(office)
    browser = visit.page.context.browser
    assert browser is not None
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await go(office, page, "/login")
    await page.get_by_label("Name").fill("vera")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("link", name="Activity").click()
    await page.get_by_role("link", name="1", exact=True).click()
    received = page.locator("div", has_text="Received").locator("time").first
    await expect(received).to_contain_text("1 Mar 2026, 12:00:")
    await page.get_by_role("button", name="Theme: dark").click()
    assert await page.locator("html").get_attribute("data-theme") == "dark"
    await context.close()


async def test_the_places_of_the_navigation_never_move_on_a_phone(
    office: Office, visit: Visit
) -> None:
    page = visit.page
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # it is one
    await log_in(office, page, "vera")
    places = []
    for path in ("/", "/commands", "/orders", "/stores", "/events"):
        await go(office, page, path)
        links = page.get_by_role("navigation", name="Sections").get_by_role("link")
        boxes = [await link.bounding_box() for link in await links.all()]
        places.append([(round(box["x"]), round(box["y"])) for box in boxes if box])
        assert all(0 <= x < PHONE["width"] for x, _ in places[-1])
    assert places == [places[0]] * 5
    assert len(places[0]) == 5
