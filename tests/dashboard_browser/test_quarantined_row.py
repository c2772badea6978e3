"""The page of a quarantined row in a real browser: near matches and mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from backhaul.store.records import ReasonClass
from dashboard.test_quarantine_filter import fail
from dashboard.test_quarantined_row import sell, unread
from dashboard_browser.test_browsing import (
    arrives,
    faults_of,
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
    await office.add_users()
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
    await page.get_by_role(
        "button", name="Apply to all 3 rows with this reason…"
    ).click()
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
    paths = (
        *("/quarantine/1", f"/quarantine/{row}", f"/quarantine/{row}?kind=fulfill"),
        *("/mappings", f"{mapping}LAMP-02", f"{mapping}LAMP-03"),
    )
    assert await faults_of(office, page, paths) == ([], [])
