"""The merchant's tasks: what the forms change, and what the pages then show."""

import re
from typing import Any

import pytest

from reference_dashboard.conftest import STORE, Browser

HOSTILE = "<script>alert(1)</script>\"'><img src=x>"


async def order_of(browser: Browser, **settings: Any) -> Any:
    shop = browser.shop
    await shop.settings(**settings)
    product = await shop.product()
    item = {"variantId": product["variants"][0]["id"], "quantity": 2, "price": "10"}
    body = {"items": [item], "customer": {"name": HOSTILE}}
    return (await shop.v1("POST", "/orders", body)).data


async def again(browser: Browser, order: Any) -> Any:
    return (await browser.shop.v1("GET", f"/orders/{order['id']}")).data


async def test_an_order_from_payment_to_refund(browser: Browser) -> None:
    order = await order_of(browser)
    path = f"/orders/{order['id']}"
    assert (await browser.post(path + "/mark-paid")).status == 303
    line = order["items"][0]["id"]
    fields = {f"q-{line}": 1, "trackingNumber": "BD1"}
    assert (await browser.post(path + "/fulfill", **fields)).status == 303
    found = await again(browser, order)
    assert found["fulfillmentStatus"] == "PARTIALLY_FULFILLED"
    assert found["shipments"][0]["trackingNumber"] == "BD1"
    assert (await browser.post(path + "/fulfill", **{f"q-{line}": 1})).status == 303
    assert (await again(browser, order))["status"] == "COMPLETED"
    assert (await browser.post(path + "/refund")).status == 303
    assert (await again(browser, order))["financialStatus"] == "REFUNDED"


async def test_cancelling_restocks(browser: Browser) -> None:
    order = await order_of(browser)
    page = await browser.post(
        f"/orders/{order['id']}/cancel", restock="on", reason="CUSTOMER"
    )
    assert page.status == 303
    levels = (await browser.shop.v1("GET", "/inventory")).data
    assert [level["stock"] for level in levels] == [10]
    page = await browser.post(f"/orders/{order['id']}/cancel", reason="FRAUD")
    assert page.status == 409
    assert "ORDER_ALREADY_CANCELLED" in page.text


async def test_placing_an_order_as_staff(browser: Browser) -> None:
    product = await browser.shop.product()
    variant = product["variants"][0]["id"]
    page = await browser.post("/new-order", name="Asha", variant0=variant, quantity0=3)
    assert page.status == 303
    orders = (await browser.shop.v1("GET", "/orders")).data
    assert orders[0]["totals"]["total"] == "300.00"
    assert orders[0]["source"] == "DASHBOARD"
    page = await browser.post("/new-order", name="Asha")
    assert page.status == 422
    assert 'value="Asha"' in page.text


async def test_products_are_found_for_a_staff_order(browser: Browser) -> None:
    lamp = await browser.shop.product()
    rug = await browser.shop.product(title="Rug", sku="RUG-1")
    found = (await browser.get(STORE + "/new-order?search=rug-1")).text
    assert rug["variants"][0]["id"] in found
    assert lamp["variants"][0]["id"] not in found
    path = "/new-order?search=rug-1"
    form = {"variant0": lamp["variants"][0]["id"], "quantity0": 0}
    page = await browser.post(path, name="Asha", **form)
    assert page.status == 422
    assert f'value="{lamp["variants"][0]["id"]}" selected' in page.text
    found = (await browser.get(STORE + "/new-order?search=nothing")).text
    assert "No product on sale matches" in found


async def test_a_key_is_shown_once(browser: Browser) -> None:
    page = await browser.post("/api/keys", name="Till", scopes=["orders:read"])
    assert page.status == 200
    found = re.search(r'class="secret">([^<]+)<', page.text)
    assert found is not None
    key = found[1]
    assert (await browser.shop.v1("GET", "/orders", key=key)).status == 200
    assert (await browser.shop.v1("GET", "/products", key=key)).status == 403
    listed = (await browser.get(STORE + "/api")).text
    assert key not in listed
    assert key[-4:] in listed
    rows = browser.shop.running.platform.reader.read(
        lambda rows: rows.all("SELECT id FROM api_key WHERE name = 'Till'")
    )
    page = await browser.post(f"/api/keys/{rows[0]['id']}/revoke")
    assert page.status == 303
    assert (await browser.shop.v1("GET", "/orders", key=key)).status == 401


async def test_a_webhook_is_added_paused_and_sends_again(browser: Browser) -> None:
    address = "http://127.0.0.1:9/hook"
    page = await browser.post(
        "/api/webhooks", address=address, topics=["orders/create"]
    )
    assert page.status == 200
    assert page.text.count("whsec_") == 1
    hook = (await browser.shop.v1("GET", "/webhooks")).data[0]
    path = f"/api/webhooks/{hook['id']}"
    assert "whsec_" not in (await browser.get(STORE + path)).text
    assert (await browser.post(path + "/test")).status == 303
    url = f"/webhooks/{hook['id']}/deliveries"
    delivery = (await browser.shop.v1("GET", url)).data[0]
    one = f"{path}/deliveries/{delivery['id']}"
    shown = (await browser.get(STORE + one)).text
    assert "webhooks/test" in shown
    assert (await browser.post(one + "/redeliver")).status == 303
    assert (await browser.post(path + "/status", status="PAUSED")).status == 303
    hook = (await browser.shop.v1("GET", f"/webhooks/{hook['id']}")).data
    assert hook["status"] == "PAUSED"


async def test_hostile_names_are_text(browser: Browser) -> None:
    order = await order_of(browser, storeName=HOSTILE)
    await browser.shop.product(title=HOSTILE)
    paths = ("/orders", f"/orders/{order['id']}", "/products", "/stock", "/settings")
    for path in paths:
        text = (await browser.get(STORE + path)).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text


async def test_no_page_shows_a_tracking_token(browser: Browser) -> None:
    shop = browser.shop
    zone = {"name": "All", "rates": [{"name": "Post", "price": "5"}]}
    await shop.control("POST", "/stores/demo/zones", zone)
    order = await shop.order(await shop.product())
    token = shop.running.platform.tokens.token(order["id"])
    mails = (await shop.control("GET", "/outbox")).data
    paths = ["/mails", f"/orders/{order['id']}"]
    for path in [*paths, *(f"/mails/{mail['id']}" for mail in mails)]:
        page = await browser.get(STORE + path)
        assert page.status == 200
        assert token not in page.text
        assert "/orders/track/" not in page.text


@pytest.mark.parametrize(("how", "amount", "stock"), [("add", -3, 7), ("set", 40, 40)])
async def test_stock(browser: Browser, how: str, amount: int, stock: int) -> None:
    product = await browser.shop.product()
    path = f"/products/{product['id']}/stock"
    page = await browser.post(path, how=how, amount=amount, reason="DAMAGED")
    assert page.status == 303
    history = (await browser.shop.v1("GET", "/inventory/history")).data[0]
    assert (history["stockAfter"], history["reason"]) == (stock, "DAMAGED")
    assert history["source"]["type"] == "DASHBOARD"
    assert (await browser.post(path, how=how, amount="many")).status == 422


async def test_offers(browser: Browser) -> None:
    form = {"code": "SAVE10", "type": "PERCENTAGE", "value": "10"}
    assert (await browser.post("/new-discount", **form)).status == 303
    assert (await browser.post("/new-discount", **form)).status == 409
    page = await browser.post(
        "/new-zone", name="India", countries="in", rate2="Post", price2="80"
    )
    assert page.status == 303
    state = await browser.shop.state()
    zone = next(one for one in state["zones"] if one["name"] == "India")
    assert (zone["countries"], zone["rates"][0]["price"]) == (["IN"], "80.00")
    assert state["discounts"][0]["value"] == "10"


async def test_collections_and_navigation(browser: Browser) -> None:
    rules = {"condition0": "summer", "relation2": "NOT_EQUALS", "condition2": "sale"}
    form = {"title": "Summer", "type": "AUTOMATIC", "relation0": "EQUALS", **rules}
    page = await browser.post("/new-collection", published="on", **form)
    assert page.status == 303
    made = (await browser.shop.state())["collections"][0]
    assert [rule["relation"] for rule in made["rules"]] == ["EQUALS", "NOT_EQUALS"]
    items = {
        "label3": "Summer",
        "leads3": f"COLLECTION:{made['id']}",
        "order3": 2,
        "label4": "Help",
        "leads4": "PAGE",
        "address4": "help",
        "level4": 1,
        "order4": 3,
        "label5": "Blog",
        "leads5": "URL",
        "address5": "/blog",
        "order5": 1,
    }
    path = "/navigation/main-menu"
    assert (await browser.post(path, title="Main", **items)).status == 303
    menu = (await browser.shop.state())["menus"][0]
    assert [item["label"] for item in menu["items"]] == ["Blog", "Summer"]
    assert menu["items"][1]["children"][0]["target"] == "help"
    page = await browser.post(path, title="Main", label0="Blog", leads0="URL")
    assert page.status == 422
    page = await browser.post(path, title="Main", remove5="on", **items)
    menu = (await browser.shop.state())["menus"][0]
    assert [item["label"] for item in menu["items"]] == ["Summer"]


async def test_a_menu_is_deleted(browser: Browser) -> None:
    path = "/navigation/footer"
    assert f'action="{STORE}{path}/delete"' in (await browser.get(STORE + path)).text
    assert (await browser.post(path + "/delete")).status == 303
    menus = (await browser.shop.state())["menus"]
    assert [menu["handle"] for menu in menus] == ["main-menu"]
    assert (await browser.post(path + "/delete")).status == 404
