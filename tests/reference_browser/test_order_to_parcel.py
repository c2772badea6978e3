"""One order from the storefront to the parcel, as customer and merchant see it."""

import re

import pytest
from playwright.async_api import Page, expect

from reference_browser.merchant import is_told, log_in, open_order
from scenes import leftovers
from scenes.browser import Visit
from scenes.reference_shop import Shop

pytestmark = pytest.mark.programs

BETWEEN_LOOKS_MILLISECONDS = 21_000
"""The order's page asks for news every twenty seconds."""
FIELDS = {
    "Name": "Asha Rao",
    "Email": "asha@example.com",
    "Address": "12 MG Road",
    "City": "Pune",
    "Postcode": "411001",
}


async def test_from_the_window_to_the_parcel(visit: Visit, shop: Shop) -> None:
    await shop.settings(codConfirmation=True)
    buyer = visit.page
    await buy_a_mug(buyer, shop)
    await buyer.clock.install()
    await buyer.reload()
    await says(buyer, "We have your order. The shop will confirm it.")
    merchant = (await visit.another()).page
    await log_in(merchant, shop)
    await open_order(merchant, "#1001")
    await press(merchant, "Confirm", "The order is confirmed.")
    await says(buyer, "Your order is confirmed.")
    await press(merchant, "Mark as paid", "The order is marked as paid.")
    await ship(merchant)
    await says(buyer, "Your order is complete.")
    await expect(buyer.get_by_text("BlueDart BD1")).to_be_visible()
    await expect(buyer.get_by_role("main")).to_contain_text("Paid")


async def buy_a_mug(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.running.access.public_url}/shop/demo")
    await page.locator("summary").filter(has_text="Gifts").click()
    await (
        page.get_by_role("navigation", name="Shop")
        .get_by_role("link", name="Gifts")
        .click()
    )
    await page.get_by_role("link", name="Stoneware mug").click()
    await page.get_by_role("button", name="Add to cart").click()
    await page.get_by_role("link", name="Go to your cart").click()
    await page.get_by_role("link", name="Check out").click()
    for label, text in FIELDS.items():
        await page.get_by_role("textbox", name=re.compile(f"^{label}")).fill(text)
    await page.get_by_role("button", name="Place the order").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Order #1001")
    leftovers.issued(page.url.partition("#/orders/")[2])


async def says(page: Page, words: str) -> None:
    """The page shows it without being loaded again."""
    await page.clock.fast_forward(BETWEEN_LOOKS_MILLISECONDS)
    await expect(page.get_by_text(words, exact=True).first).to_be_visible()


async def press(page: Page, button: str, notice: str) -> None:
    await page.get_by_role("button", name=button, exact=True).click()
    await is_told(page, notice)


async def ship(page: Page) -> None:
    await page.get_by_text("Fulfill", exact=True).click()
    await page.get_by_role("textbox", name="Carrier").fill("BlueDart")
    await page.get_by_role("textbox", name="Tracking number").fill("BD1")
    await press(page, "Record the shipment", "The shipment is recorded.")
