"""A quarantined row in a real browser: near matches, rows alike, and mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from backhaul.store.records import ReasonClass
from dashboard.test_quarantine_filter import fail
from dashboard.test_quarantined_row import sell, unread
from dashboard_browser.test_browsing import (
    DESK,
    PHONE,
    SERIOUS,
    arrives,
    go,
    log_in,
    office,
    visit,
)
from scenes.stored import rows_of

if TYPE_CHECKING:
    from scenes.browser import Visit
    from scenes.dashboard import Office

__all__ = ["office", "visit"]
pytestmark = pytest.mark.programs


async def three_lamps(office: Office) -> None:
    await office.people()
    await sell(office, "LAMP-02", "LAMP-20", "TEA-250")
    for number in range(3):
        await fail(office, f"lamp{number}", "LAMP-2", ReasonClass.UNKNOWN_SKU)


async def test_a_near_match_is_clicked_and_remembered(
    office: Office, visit: Visit
) -> None:
    await three_lamps(office)
    page = visit.page
    await log_in(office, page, "otto")
    await go(office, page, "/quarantine/1")
    sku = page.get_by_label("SKU", exact=True)
    await expect(sku).to_be_focused()
    await expect(sku).to_have_value("LAMP-2")
    await page.get_by_role("link", name="LAMP-02").click()
    await expect(sku).to_have_value("LAMP-02")
    await page.get_by_role("button", name="Apply to all 3 rows alike…").click()
    await arrives(page, "Edit 3 rows?")
    await expect(page.get_by_label("New value")).to_have_value("LAMP-02")
    await page.go_back()
    await page.get_by_role("button", name="Remember as a mapping…").click()
    await arrives(page, "SKU LAMP-2 means LAMP-02?")
    await expect(
        page.get_by_text("3 quarantined rows are retried now.")
    ).to_be_visible()
    await page.get_by_role("button", name="Add mapping").click()
    await arrives(page, "Mappings")
    assert {*rows_of(office.path, "quarantine", "state")} == {("retried",)}
    await page.get_by_role("button", name="Remove the mapping of LAMP-2").click()
    await expect(page.get_by_text("There are no mappings.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_its_pages_have_no_serious_accessibility_fault(
    office: Office, visit: Visit, scheme: Any
) -> None:
    await three_lamps(office)
    row = await unread(office)
    page = visit.page
    await page.emulate_media(color_scheme=scheme)
    await log_in(office, page, "otto")
    mapping = "/mappings/new?store=main&kind=sku&alias=LAMP-2&name="
    faults, wide = [], []
    for path in (
        *("/quarantine/1", f"/quarantine/{row}", f"/quarantine/{row}?kind=fulfill"),
        *("/mappings", f"{mapping}LAMP-02", f"{mapping}LAMP-03"),
    ):
        await go(office, page, path)
        found = await Axe().run(page)
        faults += [
            (path, each["id"], each["nodes"][0]["html"])
            for each in found.response["violations"]
            if each["impact"] in SERIOUS
        ]
        await page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # it is one
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
        await page.set_viewport_size(DESK)  # type: ignore[arg-type]  # it is one
    assert (faults, wide) == ([], [])
