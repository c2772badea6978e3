"""The dashboard in a real browser, under its own content security policy."""

import base64
import hashlib
import hmac
import re

import pytest
from playwright.async_api import Page, expect

from reference_browser.merchant import STORE, is_told, log_in
from scenes import leftovers
from scenes.browser import Visit
from scenes.reference_shop import Received, Receiver, Shop, cart

pytestmark = pytest.mark.programs

WIDER = "document.documentElement.scrollWidth > window.innerWidth"
TOPIC = "X-Service-Topic"


async def open_api(visit: Visit, shop: Shop) -> Page:
    await log_in(visit.page, shop)
    await visit.page.goto(f"{shop.running.access.control_url}{STORE}/api")
    return visit.page


async def shown_once(page: Page, prefix: str) -> str:
    """A secret that the page shows, kept for the search at the end of the run."""
    secret = await page.get_by_text(re.compile(f"^{prefix}")).inner_text()
    leftovers.issued(secret)
    return secret


async def make_a_key(page: Page) -> str:
    await page.get_by_text("Create a key", exact=True).click()
    await page.get_by_role("textbox", name="Name").fill("Till")
    await page.get_by_role("checkbox", name="orders:read").check()
    await page.get_by_role("button", name="Create the key").click()
    return await shown_once(page, "svc_live_")


async def make_a_webhook(page: Page, address: str) -> str:
    await page.get_by_text("Add a webhook", exact=True).click()
    await page.get_by_role("textbox", name="Address").fill(address)
    await page.get_by_role("button", name="Add the webhook").click()
    return await shown_once(page, "whsec_")


@pytest.mark.parametrize("width", [1280, 400])
async def test_a_key_is_created_and_opens_its_permitted_pages(
    visit: Visit, shop: Shop, width: int
) -> None:
    await visit.page.set_viewport_size({"width": width, "height": 850})
    page = await open_api(visit, shop)
    assert not await page.evaluate(WIDER)
    key = await make_a_key(page)
    assert (await shop.v1("GET", "/orders", key=key)).status == 200
    assert (await shop.v1("GET", "/products", key=key)).status == 403


async def test_a_delivery_is_seen_and_sent_again(
    visit: Visit, shop: Shop, receiver: Receiver
) -> None:
    page = await open_api(visit, shop)
    secret = await make_a_webhook(page, receiver.url)
    product = (await shop.v1("GET", "/products?search=mug")).data[0]
    await shop.shopper("POST", "/orders", cart(product))
    (first,) = await created(receiver, 1)
    await page.get_by_role("link", name=receiver.url).click()
    await attempts_shown(page, 1)
    await page.get_by_role("link", name="orders/create").click()
    await page.get_by_role("button", name="Redeliver").click()
    await is_told(page, "queued again")
    _, second = await created(receiver, 2)
    check_pair(first, second, secret)
    await page.get_by_role("link", name=receiver.url).click()
    await attempts_shown(page, 2)


async def created(receiver: Receiver, count: int) -> list[Received]:
    """The deliveries of `orders/create`, once there are as many."""
    while True:
        found = [
            one for one in receiver.received if one.headers[TOPIC] == "orders/create"
        ]
        if len(found) >= count:
            return found
        await receiver.until(len(receiver.received) + 1)


def check_pair(first: Received, second: Received, secret: str) -> None:
    """The same delivery, told to be the second attempt, and signed by the secret."""
    assert second.body == first.body
    for name in ("X-Service-Event-Id", "X-Service-Delivery-Id"):
        assert second.headers[name] == first.headers[name]
    assert [one.headers["X-Service-Attempt"] for one in (first, second)] == ["1", "2"]
    digest = hmac.digest(secret.encode(), second.body, hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    assert second.headers["X-Service-Hmac-Sha256"] == signature


async def attempts_shown(page: Page, count: int) -> None:
    """The list of deliveries comes up to date by itself."""
    link = page.get_by_role("link", name="orders/create")
    row = page.get_by_role("row").filter(has=link)
    await expect(row).to_contain_text("Delivered")
    await expect(row.get_by_role("cell", name=str(count), exact=True)).to_be_visible()


async def test_an_order_is_confirmed_by_keyboard(visit: Visit, shop: Shop) -> None:
    await shop.settings(codConfirmation=True)
    product = (await shop.v1("GET", "/products?search=mug")).data[0]
    order = await shop.order(product)
    access = shop.running.access
    await visit.page.goto(access.control_url + "/dashboard/login")
    await expect(visit.page.get_by_label("Control token")).to_be_focused()
    await visit.page.keyboard.type(access.control_token)
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.get_by_role("link", name=order["name"])).to_be_visible()
    await visit.go(order["name"])
    await expect(visit.page.get_by_role("button", name="Confirm")).to_be_visible()
    await visit.go("Confirm")
    await is_told(visit.page, "The order is confirmed.")
    shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
    assert shown["confirmation"]["confirmedAt"] is not None
