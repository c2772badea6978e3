"""The merchant's steps in the dashboard, by what its pages say."""

from playwright.async_api import Page, expect

from scenes.reference_shop import Shop

STORE = "/dashboard/stores/demo"


async def log_in(page: Page, shop: Shop) -> None:
    access = shop.running.access
    await page.goto(access.control_url + "/dashboard/login")
    await page.get_by_label("Control token").fill(access.control_token)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", level=1, name="Orders")).to_be_visible()


async def is_told(page: Page, notice: str) -> None:
    await expect(page.get_by_role("status").filter(has_text=notice)).to_be_visible()


async def open_order(page: Page, name: str) -> None:
    await page.get_by_role("link", name=name, exact=True).click()
    heading = page.get_by_role("heading", level=1).filter(has_text=name)
    await expect(heading).to_be_visible()
