"""A whole purchase in a browser, with the keyboard only."""

import logging

import pytest
from playwright.async_api import expect

from scenes import leftovers
from scenes.browser import Visit
from scenes.reference_shop import Shop

pytestmark = pytest.mark.programs


async def find_a_mug(visit: Visit) -> None:
    await visit.write("Search products", "mug")
    await visit.page.keyboard.press("Enter")
    await visit.await_page("Results for “mug”")
    await visit.go("Stoneware mug")
    await visit.await_page("Stoneware mug")


async def put_it_into_the_cart(visit: Visit) -> None:
    await visit.tab_to("Chalk")
    await visit.page.keyboard.press("ArrowRight")
    await visit.go("Add to cart")
    said = visit.page.locator("#announcer")
    await expect(said).to_have_text("Stoneware mug added. 1 piece in cart.")
    await visit.go("Go to your cart")
    await visit.await_page("Your cart")
    await expect(visit.page.get_by_text("Slate", exact=True)).to_be_visible()
    await visit.go("Check out")
    await visit.await_page("Check out")


async def order_with_one_mistake(visit: Visit) -> None:
    await visit.write("Name", "Asha Rao")
    await visit.write("Email", "nonsense")
    await visit.write("Address", "12 MG Road")
    await visit.write("City", "Pune")
    await visit.write("Postcode", "411001")
    await visit.tab_to("Cash on delivery")
    await visit.page.keyboard.press("ArrowDown")
    await visit.go("Place the order")
    email = visit.page.get_by_label("Email")
    await expect(email).to_be_focused()
    await expect(email).to_have_attribute("aria-invalid", "true")
    await visit.page.keyboard.press("ControlOrMeta+a")
    await visit.page.keyboard.type("asha@example.com")
    await visit.page.keyboard.press("Enter")
    await visit.await_page("Order #1001")


async def report_the_payment(visit: Visit) -> None:
    code = visit.page.get_by_role("img", name="Payment code for ₹598.00")
    await expect(code).to_be_visible()
    await visit.write("Transaction number", "UTR-1")
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.get_by_text("You told us of payment UTR-1")).to_be_visible()
    await visit.await_page("Order #1001")


async def test_a_purchase_by_keyboard(
    visit: Visit, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    visit.watch.refusals.add(422)
    origin = shop.running.access.public_url
    await visit.page.goto(f"{origin}/shop/demo")
    await expect(visit.page.get_by_role("heading", level=1)).to_have_text(
        "All products"
    )
    await find_a_mug(visit)
    await put_it_into_the_cart(visit)
    await order_with_one_mistake(visit)
    await report_the_payment(visit)
    await check_what_was_left_behind(visit, origin, caplog.text)


async def check_what_was_left_behind(visit: Visit, origin: str, log: str) -> None:
    """The token is after the sign and nowhere else."""
    address, _, token = visit.page.url.partition("#/orders/")
    leftovers.issued(token)
    assert address == f"{origin}/shop/demo"
    assert len(token) == 43
    assert token not in log
    pages = [url for url in visit.watch.asked if "/shop" in url]
    assert pages
    assert [url for url in pages if token in url.partition("#")[0]] == []
    assert await visit.page.evaluate("sessionStorage.getItem('cart demo')") == "[]"
