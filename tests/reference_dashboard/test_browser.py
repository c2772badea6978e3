"""A real browser: the policy lets the dashboard's own style and script run."""

from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from reference_dashboard.conftest import STORE
from support.reference_shop import Shop
from support.requirements import require

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
WIDER = "document.documentElement.scrollWidth > window.innerWidth"


async def log_in(page: Page, shop: Shop) -> None:
    access = shop.running.access
    await page.goto(access.control_url + "/dashboard/login")
    await page.fill("[name=token]", access.control_token)
    await page.click("button.primary")
    await page.wait_for_url("**/orders")


@pytest.mark.parametrize("width", [1280, 400])
async def test_the_dashboard_in_a_browser(
    shop: Shop, tmp_path: Path, width: int
) -> None:
    complaints: list[str] = []
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=require("chromium"),
            args=list(FLAGS),
            viewport={"width": width, "height": 850},
        )
        page = context.pages[0]
        page.on("console", lambda told: complaints.append(told.type + told.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await log_in(page, shop)
        await page.click(f'a[href="{STORE}/api"]')
        await page.wait_for_selector("text=API keys")
        assert not await page.evaluate(WIDER)
        await page.click("text=Create a key")
        await page.fill("[name=name]", "Till")
        await page.check("[value='orders:read']")
        await page.click("text=Create the key")
        assert len(await page.inner_text(".secret")) > 20
        await context.close()
    assert [one for one in complaints if not one.startswith(("debug", "verbose"))] == []
