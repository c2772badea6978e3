"""The charts in a real browser: values, legend, ranges, themes and small screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from dashboard.test_charts import sample
from dashboard_browser.test_browsing import PHONE, go, log_in
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
        for minutes in range(1, 60):
            one = sample(
                minutes,
                webhooks=42,
                requests=10,
                failed_requests=1,
                platform_times='{"40":9}',
                quarantined=3,
            )
            await opened.store.metric_samples.add(one, "")
        yield opened


@pytest.fixture
async def visit(office: Office) -> AsyncIterator[Visit]:
    async with open_visit(str(office.server.make_url("")).rstrip("/")) as opened:
        await log_in(office, opened.page, "vera")
        await go(office, opened.page, "/charts")
        yield opened


def chart(page: Page, key: str) -> Locator:
    return page.locator(f'[data-chart="{key}"]')


async def test_the_pointer_shows_values(visit: Visit) -> None:
    throughput = chart(visit.page, "throughput")
    await throughput.locator(".u-over").hover()
    row = throughput.locator(".u-series", has_text="webhooks received")
    await expect(row.locator(".u-value")).to_have_text("42")
    errors = chart(visit.page, "errors")
    await errors.locator(".u-over").hover()
    row = errors.locator(".u-series", has_text="platform requests")
    await expect(row.locator(".u-value")).to_have_text("10 %")
    platform = chart(visit.page, "platform")
    await platform.locator(".u-over").hover()
    row = platform.locator(".u-series", has_text="p99")
    await expect(row.locator(".u-value")).to_have_text("939 ms")


async def test_the_legend_hides_a_line_by_mouse_and_keyboard(visit: Visit) -> None:
    throughput = chart(visit.page, "throughput")
    row = throughput.locator(".u-series", has_text="webhooks received")
    name = row.get_by_role("button")
    await name.click()
    await expect(row).to_have_class("u-series u-off")
    await expect(name).to_have_attribute("aria-pressed", "false")
    await name.press("Enter")
    await expect(row).to_have_class("u-series")


async def test_a_range_is_a_link(visit: Visit) -> None:
    page = visit.page
    await page.get_by_role("link", name="Week").click()
    await expect(page).to_have_url(f"{page.url.partition('?')[0]}?span=week")
    await expect(page.get_by_role("link", name="Week")).to_have_attribute(
        "aria-current", "page"
    )
    await expect(page.locator(".u-over")).to_have_count(6)


async def test_a_theme_changes_the_colours(visit: Visit) -> None:
    page = visit.page
    marker = chart(page, "throughput").locator(".u-marker").nth(1)
    await page.emulate_media(color_scheme="light")
    await expect(marker).to_have_css("border-top-color", "rgb(23, 114, 106)")
    await page.emulate_media(color_scheme="dark")
    await expect(marker).to_have_css("border-top-color", "rgb(127, 208, 197)")


async def test_a_telephone_shows_charts_in_its_width(visit: Visit) -> None:
    page = visit.page
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    await page.wait_for_function(
        "document.querySelector('.uplot').clientWidth < 390"
        " && document.documentElement.scrollWidth <= 390"
    )


async def test_the_table_has_the_values_too(visit: Visit) -> None:
    backlog = chart(visit.page, "backlog")
    await backlog.get_by_text("Values").click()
    table = backlog.get_by_role("table", name="Backlog")
    row = table.get_by_role("row", name="quarantine")
    await expect(row.get_by_role("cell").first).to_have_text("3")
