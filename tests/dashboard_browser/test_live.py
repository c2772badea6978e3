"""Live pages in a real browser update themselves and do not disturb the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from dashboard_browser.test_browsing import arrives, go, log_in
from scenes.browser import Visit, open_visit
from scenes.dashboard import Office, open_office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Locator, Page

pytestmark = pytest.mark.programs


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_office(tmp_path) as opened:
        await opened.add_users()
        yield opened


@pytest.fixture
async def visit(office: Office) -> AsyncIterator[Visit]:
    async with open_visit(str(office.server.make_url("")).rstrip("/")) as opened:
        await log_in(office, opened.page, "otto")
        yield opened


def row(page: Page, command: str) -> Locator:
    return page.locator(f"tbody tr:has(a[href='/commands/{command}'])")


async def is_live(page: Page, word: str = "live") -> None:
    await expect(page.locator("button.live")).to_have_text(word)


async def test_a_new_row_appears_and_the_focus_stays(
    office: Office, visit: Visit
) -> None:
    first = await office.plan("ord_1")
    page = visit.page
    await go(office, page, "/commands?where=store%3Dmain")
    await is_live(page)
    link = row(page, first).get_by_role("link").first
    await link.focus()
    second = await office.plan("ord_2")
    await expect(row(page, second)).to_be_visible()
    await expect(link).to_be_focused()
    assert "store%3Dmain" in page.url


async def test_a_page_waits_for_selected_rows(office: Office, visit: Visit) -> None:
    first = await office.plan("ord_1")
    page = visit.page
    await go(office, page, "/commands")
    await is_live(page)
    box = row(page, first).get_by_role("checkbox")
    await box.check()
    second = await office.plan("ord_2")
    await is_live(page, "paused")
    await expect(row(page, second)).to_have_count(0)
    await expect(box).to_be_checked()
    await box.uncheck()
    await expect(row(page, second)).to_be_visible()
    await is_live(page)


async def test_typed_text_stays(office: Office, visit: Visit) -> None:
    page = visit.page
    await go(office, page, "/commands")
    await is_live(page)
    field = page.locator("main input[name=where]").first
    await field.fill("state=par")
    second = await office.plan("ord_2")
    await is_live(page, "paused")
    await expect(field).to_have_value("state=par")
    await field.fill("")
    await expect(row(page, second)).to_be_visible()


async def test_an_open_section_stays_open(office: Office, visit: Visit) -> None:
    command = await office.plan("ord_1")
    page = visit.page
    await go(office, page, f"/commands/{command}")
    await is_live(page)
    details = page.locator("main details").first
    await details.locator("summary").click()
    async with page.expect_response(lambda one: f"/commands/{command}" in one.url):
        await office.plan("ord_2")
    await expect(details).to_have_attribute("open", "")


async def test_a_hidden_tab_has_no_stream(office: Office, visit: Visit) -> None:
    page = visit.page
    await go(office, page, "/commands")
    await is_live(page)
    hide = (
        "at => { Object.defineProperty(document, 'hidden', {value: at,"
        " configurable: true}); document.dispatchEvent(new Event('visibilitychange')) }"
    )
    await page.evaluate(hide, True)
    await is_live(page, "paused")
    asked = len(visit.watch.asked)
    second = await office.plan("ord_2")
    await page.wait_for_timeout(2_500)
    assert len(visit.watch.asked) == asked
    await page.evaluate(hide, False)
    await expect(row(page, second)).to_be_visible()
    await is_live(page)


async def test_the_switch_is_remembered(office: Office, visit: Visit) -> None:
    page = visit.page
    await go(office, page, "/commands")
    await is_live(page)
    await page.locator("button.live").click()
    await is_live(page, "off")
    await go(office, page, "/events")
    await is_live(page, "off")
    await page.locator("button.live").click()
    await is_live(page)


async def test_a_page_says_when_the_session_has_ended(
    office: Office, visit: Visit
) -> None:
    page, visit.watch.refusals = visit.page, {401}
    await go(office, page, "/commands")
    await is_live(page)
    other = await visit.another()
    await go(office, other.page, "/commands")
    await other.page.get_by_role("button", name="Log out").click()
    await arrives(other.page, "Log in")
    await is_live(page, "logged out")
    await page.locator("button.live").click()
    await arrives(page, "Log in")


async def test_the_overview_changes_at_once(office: Office, visit: Visit) -> None:
    page = visit.page
    await is_live(page)
    await office.plan(state="parked")
    await expect(page.get_by_text("1 parcel is not reported")).to_be_visible()


async def test_the_message_about_the_last_action_stays(
    office: Office, visit: Visit
) -> None:
    command = await office.plan(state="parked")
    page = visit.page
    await go(office, page, f"/commands/{command}/resend")
    await page.get_by_label("Reason").fill("the courier has no such parcel")
    await page.get_by_role("button", name="Send again").click()
    said = page.get_by_role("status").filter(has_text="was parked and is planned now")
    await is_live(page)
    async with page.expect_response(lambda one: one.url.endswith(command)):
        await office.plan("ord_2")
    await page.wait_for_timeout(500)
    await expect(said).to_be_visible()
