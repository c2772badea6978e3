"""Who gets which mail, and that only the customer's mail contains the tracking link."""

import re
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scenes.merchant import (
    buy,
    discount,
    idle_outbox,
    mail_text,
    outbox,
    scan_and_pay,
    zones,
)
from scenes.reference_shop import (
    CUSTOMER,
    Receiver,
    Shop,
    cart,
    open_shop,
    subscribe,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def read(folder: Path, mail: Any) -> EmailMessage:
    message = message_from_bytes(mail_text(folder, mail), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def parts(message: EmailMessage) -> tuple[str, str]:
    """The readable text and the HTML of a mail."""
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    return text.get_content(), html.get_content()


async def only(shop: Shop, template: str) -> Any:
    found = [one for one in await idle_outbox(shop) if one["template"] == template]
    assert len(found) == 1
    assert found[0]["status"] == "SENT"
    return found[0]


async def test_the_buyer_gets_the_link(shop: Shop, folder: Path) -> None:
    await zones(shop, {"rates": [{"name": "R", "price": "49"}]})
    order = (await buy(shop, await shop.product(title="Mug & cup"), 2)).data
    message = read(folder, await only(shop, "order_placed"))
    assert message["To"] == CUSTOMER["email"]
    assert message["Subject"] == f"Your order #{order['number']} at Demo"
    text, html = parts(message)
    page = f"{shop.running.access.public_url}/shop/demo"
    link = f"{page}#/orders/{order['trackingToken']}"
    for expected in ("Asha Rao", "2 x Mug & cup", "INR 249.00", "INR 49.00", link):
        assert expected in text
    assert f'href="{link}"' in html
    assert "Mug &amp; cup" in html


async def test_the_merchant_gets_the_dashboards_link(shop: Shop, folder: Path) -> None:
    await shop.settings(merchantEmail="me@shop.example", codConfirmation=True)
    order = (await buy(shop, await shop.product())).data
    message = read(folder, await only(shop, "order_received"))
    assert message["To"] == "me@shop.example"
    text, html = parts(message)
    page = f"{shop.running.access.control_url}/dashboard/stores/demo"
    link = f"{page}/orders/{order['id']}"
    for expected in ("asha@example.com", "12 MG Road", "Cash on", "It waits", link):
        assert expected in text
    assert f'href="{link}"' in html
    assert order["trackingToken"] not in text + html


async def test_the_merchants_own_page_is_linked(shop: Shop, folder: Path) -> None:
    await shop.settings(trackingPage="https://shop.example/my?order={token}")
    order = (await buy(shop, await shop.product())).data
    text, _ = parts(read(folder, await only(shop, "order_placed")))
    assert f"https://shop.example/my?order={order['trackingToken']}\n" in text
    body = {"trackingPage": "https://shop.example/my"}
    assert (await shop.control("PUT", "/stores/demo/settings", body)).status == 422


async def test_shipped_and_cancelled(shop: Shop, folder: Path) -> None:
    order = (await buy(shop, await shop.product(), 3)).data
    path = f"/orders/{order['id']}"
    body = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}
    await shop.v1("POST", path + "/fulfill", body)
    text, _ = parts(read(folder, await only(shop, "order_shipped")))
    for expected in ("BlueDart", "BD1", "Lamp", "3", order["trackingToken"]):
        assert expected in text
    await shop.v1("POST", path + "/fulfill", body)
    await shop.v1("POST", path + "/cancel", {})
    await shop.v1("POST", path + "/cancel", {})
    message = read(folder, await only(shop, "order_cancelled"))
    assert "is cancelled" in message["Subject"]
    await only(shop, "order_shipped")


async def test_buyers_get_no_mail_if_the_merchant_turns_it_off(shop: Shop) -> None:
    quiet = {"notifyCustomer": False}
    order = (await buy(shop, await shop.product())).data
    await shop.v1("POST", f"/orders/{order['id']}/fulfill", quiet)
    await shop.v1("POST", f"/orders/{order['id']}/cancel", quiet)
    templates = {one["template"] for one in await outbox(shop)}
    assert templates == {"order_placed", "order_received"}


@pytest.mark.parametrize(
    ("receipt", "email", "count"),
    [(True, "a@x.example", 1), (False, "a@x.example", 0), (True, None, 0)],
)
async def test_recorded_orders_mail_on_request(
    shop: Shop, folder: Path, receipt: bool, email: str | None, count: int
) -> None:
    body = {
        "items": [{"title": "T", "quantity": 1, "price": "1"}],
        "customer": {"name": "A", "email": email},
        "sendReceipt": receipt,
    }
    await shop.v1("POST", "/orders", body)
    mails = await idle_outbox(shop)
    assert [one["template"] for one in mails] == ["order_placed"] * count
    for one in mails:
        text, _ = parts(read(folder, one))
        assert "http" not in text


async def test_a_reported_payment_is_mailed_to_the_merchant(
    shop: Shop, folder: Path
) -> None:
    await scan_and_pay(shop)
    product = await shop.product()
    orders = [(await buy(shop, product, paymentMethod="CUSTOM_QR")).data for _ in "ab"]
    for order in orders:
        path = f"/orders/track/{order['trackingToken']}/payment"
        body = {"transactionId": "UTR7", "payerName": "Ravi"}
        await shop.shopper("POST", path, body)
    mails = await idle_outbox(shop)
    told = [one for one in mails if one["template"] == "payment_reported"]
    first, second = [parts(read(folder, one))[0] for one in told]
    for expected in ("UTR7", "Ravi", "INR 100.00", f"/orders/{orders[0]['id']}\n"):
        assert expected in first
    warning = f"reported for order #{orders[0]['number']} before"
    assert warning not in first
    assert warning in second


async def test_an_abandoned_webhook_is_mailed(
    shop: Shop, folder: Path, receiver: Receiver
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    receiver.answers.append(web.Response(status=410))
    await shop.product()
    await receiver.until(1)
    while not await outbox(shop):
        assert (await shop.v1("GET", f"/webhooks/{webhook['id']}")).status == 200
    text, _ = parts(read(folder, await only(shop, "webhook_disabled")))
    link = f"/dashboard/stores/demo/api/webhooks/{webhook['id']}\n"
    for expected in (receiver.url, "410", link):
        assert expected in text


async def test_no_order_no_mail(shop: Shop) -> None:
    assert (await buy(shop, await shop.product(stock=0))).status == 409
    assert await outbox(shop) == []


async def test_a_repeated_order_mails_once(shop: Shop) -> None:
    product = await shop.product()
    for _ in range(2):
        headers = {"Idempotency-Key": "one"}
        reply = await shop.shopper("POST", "/orders", cart(product), headers=headers)
        assert reply.status == 201
    assert len(await outbox(shop)) == 2


@pytest.mark.parametrize(
    "name", ["Demo", "Müller & Söhne", "दुकान " * 20, 'A "b", <c@d.example>', "a\x07b"]
)
async def test_mails_come_from_the_shop(shop: Shop, folder: Path, name: str) -> None:
    await shop.settings(storeName=name)
    await buy(shop, await shop.product())
    sent = mail_text(folder, await only(shop, "order_placed"))
    assert sent.isascii()
    assert max(map(len, sent.splitlines())) <= 998
    words, address = parseaddr(message_from_bytes(sent)["From"])
    assert address == "shop@backhaul.example"
    assert str(make_header(decode_header(words))) == name.strip()


async def test_names_cannot_add_headers(shop: Shop, folder: Path) -> None:
    name = "A\r\nBcc: all@x.example"
    await shop.settings(storeName="Shop\nBcc: all@x.example")
    await buy(shop, await shop.product(), customer={**CUSTOMER, "name": name})
    message = read(folder, await only(shop, "order_placed"))
    assert "Bcc" not in message
    assert "<b>" not in parts(message)[1]


async def test_an_address_that_cannot_be_mailed_to(shop: Shop) -> None:
    customer = {**CUSTOMER, "email": "a,b@x.example"}
    await buy(shop, await shop.product(), customer=customer)
    placed, received = await idle_outbox(shop)
    assert (placed["status"], placed["attempts"]) == ("FAILED", 1)
    assert received["status"] == "SENT"


async def test_the_token_is_at_rest_in_the_mail_alone(tmp_path: Path) -> None:
    """Every flow runs; then all files are searched for every token."""
    async with open_shop(tmp_path) as shop:
        tokens = await run_every_flow(shop)
        await idle_outbox(shop)
    for token in tokens:
        holders = files_with(tmp_path, token)
        assert holders
        assert {one.parent.name for one in holders} == {"mails"}
        assert all(one.stat().st_mode & 0o777 == 0o600 for one in holders)


def files_with(folder: Path, token: str) -> list[Path]:
    """The files that hold a token, even broken over lines."""
    pattern = re.compile(b"(?:=\r?\n)?".join(re.escape(c).encode() for c in token))
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert folder / "reference.db" in files
    return [one for one in files if pattern.search(one.read_bytes())]


async def run_every_flow(shop: Shop) -> list[str]:
    await scan_and_pay(shop)
    await discount(shop)
    product = await shop.product(stock=100)
    tokens = []
    for method in ("COD", "CUSTOM_QR"):
        body = cart(product, paymentMethod=method, discountCode="SAVE10")
        headers = {"Idempotency-Key": method}
        reply = await shop.shopper("POST", "/orders", body, headers=headers)
        again = await shop.shopper("POST", "/orders", body, headers=headers)
        assert again.data == reply.data
        order = reply.data
        path = f"/orders/track/{order['trackingToken']}"
        report = {"transactionId": "U"}
        await shop.shopper("POST", path + "/payment", report, headers=headers)
        await shop.shopper("GET", path)
        await shop.v1("POST", f"/orders/{order['id']}/fulfill", {})
        await shop.v1("POST", f"/orders/{order['id']}/cancel", {"restock": True})
        tokens.append(order["trackingToken"])
    return tokens
