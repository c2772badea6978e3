"""A whole purchase in a browser, with the keyboard only."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Page, async_playwright, expect

from support import session
from support.reference_shop import Shop
from support.requirements import require

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOST_STEPS = 60
PATIENCE_MILLISECONDS = 15_000


@dataclass(slots=True)
class Visit:
    """A page, and everything that it asked for or complained of."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._hear(message.type, message.text))

    def _hear(self, kind: str, text: str) -> None:
        # Browsers report refusals (422 and the like) on their own account.
        if kind in {"error", "warning"} and "Failed to load" not in text:
            self.complaints.append(text)

    async def press_to(self, name: str) -> None:
        """Tab until the focus is on what has this accessible name."""
        for _ in range(MOST_STEPS):
            await self.page.keyboard.press("Tab")
            if name in await self._focused():
                return
        pytest.fail(f"the keyboard never reaches {name!r}")

    async def _focused(self) -> str:
        found: str = await self.page.evaluate(
            """() => {
              const at = document.activeElement;
              const label = at.labels?.[0]?.innerText ?? "";
              return at.ariaLabel ?? (label || at.innerText);
            }"""
        )
        return found

    async def write(self, name: str, text: str) -> None:
        await self.press_to(name)
        await self.page.keyboard.type(text)

    async def go(self, name: str) -> None:
        await self.press_to(name)
        await self.page.keyboard.press("Enter")

    async def arrives(self, title: str) -> None:
        heading = self.page.get_by_role("heading", level=1, name=title)
        await expect(heading).to_be_focused()


@pytest.fixture
async def visit() -> AsyncIterator[Visit]:
    program = require("chromium")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=ARGUMENTS
        )
        opened = Visit(await browser.new_page(reduced_motion="reduce"))
        opened.listen()
        yield opened
        await browser.close()


async def find_a_mug(visit: Visit) -> None:
    await visit.write("Search products", "mug")
    await visit.page.keyboard.press("Enter")
    await visit.arrives("Results for “mug”")
    await visit.go("Stoneware mug")
    await visit.arrives("Stoneware mug")


async def put_it_into_the_cart(visit: Visit) -> None:
    await visit.press_to("Chalk")
    await visit.page.keyboard.press("ArrowRight")
    await visit.go("Add to cart")
    said = visit.page.locator("#announcer")
    await expect(said).to_have_text("Stoneware mug added. 1 piece in cart.")
    await visit.go("Go to your cart")
    await visit.arrives("Your cart")
    await expect(visit.page.get_by_text("Slate", exact=True)).to_be_visible()
    await visit.go("Check out")
    await visit.arrives("Check out")


async def order_with_one_mistake(visit: Visit) -> None:
    await visit.write("Name", "Asha Rao")
    await visit.write("Email", "nonsense")
    await visit.write("Address", "12 MG Road")
    await visit.write("City", "Pune")
    await visit.write("Postcode", "411001")
    await visit.press_to("Cash on delivery")
    await visit.page.keyboard.press("ArrowDown")
    await visit.go("Place the order")
    email = visit.page.get_by_label("Email")
    await expect(email).to_be_focused()
    await expect(email).to_have_attribute("aria-invalid", "true")
    await visit.page.keyboard.press("ControlOrMeta+a")
    await visit.page.keyboard.type("asha@example.com")
    await visit.page.keyboard.press("Enter")
    await visit.arrives("Order #1001")


async def report_the_payment(visit: Visit) -> None:
    code = visit.page.get_by_role("img", name="Payment code for ₹598.00")
    await expect(code).to_be_visible()
    await visit.write("Transaction number", "UTR-1")
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.get_by_text("You told us of payment UTR-1")).to_be_visible()
    await visit.arrives("Order #1001")


async def test_a_purchase_by_keyboard(
    visit: Visit, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await shop.settings(paymentSettings={"cod": {"enabled": True}, "customQr": {
        "enabled": True}})  # fmt: skip
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
    """Nothing was asked elsewhere, and the token is after the sign and nowhere else."""
    address, _, token = visit.page.url.partition("#/orders/")
    session.issued(token)
    assert address == f"{origin}/shop/demo"
    assert len(token) == 43
    assert token not in log
    own = (f"{origin}/", "data:image/")
    assert [url for url in visit.asked if not url.startswith(own)] == []
    pages = [url for url in visit.asked if "/shop" in url]
    assert [url for url in pages if token in url.partition("#")[0]] == []
    assert visit.complaints == []
    assert await visit.page.evaluate("sessionStorage.getItem('cart demo')") == "[]"
