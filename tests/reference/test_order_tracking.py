"""Following an order: what its link shows, and how a payment is reported."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from backhaul_reference.platform.state import order_views
from scenes.merchant import advance, buy, outbox, scan_and_pay
from scenes.reference_shop import Reply, Shop, open_shop

QR = "https://q.example/me.png"
PRIVATE = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
}


async def placed(shop: Shop, method: str = "CUSTOM_QR", **settings: Any) -> Any:
    await scan_and_pay(shop, **settings)
    product = await shop.product()
    return (await buy(shop, product, paymentMethod=method)).data


async def track(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("GET", f"/orders/track/{order['trackingToken']}")


async def report(
    shop: Shop, order: Any, transaction: Any = "UTR1", **more: Any
) -> Reply:
    path = f"/orders/track/{order['trackingToken']}/payment"
    return await shop.shopper("POST", path, {"transactionId": transaction, **more})


async def v1(shop: Shop, order: Any) -> Any:
    return (await shop.v1("GET", f"/orders/{order['id']}")).data


async def test_the_merchants_own_code_is_shown(shop: Shop) -> None:
    order = await placed(shop, qr=QR, fee="5", instructions="Scan it")
    assert order["totals"]["paymentFee"] == "5.00"
    expected = {
        "method": "CUSTOM_QR",
        "qr": QR,
        "amountDue": "105.00",
        "currency": "INR",
        "instructions": "Scan it",
        "report": None,
    }
    assert order["payment"] == expected
    assert (await track(shop, order)).data["payment"] == expected


async def test_without_one_a_code_with_the_amount_is_made(shop: Shop) -> None:
    order = await placed(shop)
    name = (await shop.shopper("GET", "/store")).data["storeName"]
    text = f"{name}\nOrder #{order['number']}\nINR 100.00"
    url = order["payment"]["qr"]
    assert url == order_views.data_url(text)
    assert url != order_views.data_url(text.replace("100", "101"))
    kind, _, svg = url.partition(",")
    assert kind.startswith("data:image/svg+xml")
    assert unquote(svg).startswith("<svg")


@pytest.mark.parametrize("qr", ["ftp://x", "data:text/html,x", "javascript:1", "", " "])
async def test_only_pictures_are_codes(shop: Shop, qr: str) -> None:
    body = {"paymentSettings": {"customQr": {"enabled": True, "qr": qr}}}
    reply = await shop.control("PUT", "/stores/demo/settings", body)
    assert reply.body["errors"][0]["pointer"] == "/paymentSettings/customQr/qr"


async def test_a_code_as_data_is_kept(shop: Shop) -> None:
    qr = "data:image/png;base64,iVBORw0KGgo="
    assert (await placed(shop, qr=qr))["payment"]["qr"] == qr
    shown = (await shop.control("GET", "/stores/demo")).data
    assert shown["paymentSettings"]["customQr"]["qr"] == qr


@pytest.mark.parametrize("step", ["mark-paid", "cancel", "COD"])
async def test_payment_is_null_once_nothing_is_due(shop: Shop, step: str) -> None:
    order = await placed(shop, "COD" if step == "COD" else "CUSTOM_QR")
    if step == "mark-paid":
        await shop.control("POST", f"/stores/demo/orders/{order['id']}/mark-paid")
    if step == "cancel":
        await shop.v1("POST", f"/orders/{order['id']}/cancel", {})
    assert (await track(shop, order)).data["payment"] is None


async def test_waiting_for_the_merchant_is_shown(shop: Shop) -> None:
    await shop.settings(codConfirmation=True)
    cod, scan = await placed(shop, "COD"), await placed(shop)
    assert (cod["awaitingConfirmation"], scan["awaitingConfirmation"]) == (True, False)
    refused = await shop.v1("POST", f"/orders/{cod['id']}/fulfill", {})
    assert refused.code == "ORDER_AWAITING_CONFIRMATION"
    await shop.control("POST", f"/stores/demo/orders/{cod['id']}/confirm")
    assert (await track(shop, cod)).data["awaitingConfirmation"] is False


async def test_shipments_are_shown(shop: Shop) -> None:
    order = await placed(shop, "COD")
    body = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}
    await shop.v1("POST", f"/orders/{order['id']}/fulfill", body)
    shipment = (await track(shop, order)).data["shipments"][0]
    assert shipment.pop("shippedAt")
    assert shipment == {**body, "trackingUrl": None}


async def test_a_report_is_kept_and_changes_no_status(shop: Shop) -> None:
    order = await placed(shop)
    before, start = await v1(shop, order), await shop.sequence()
    reply = await report(shop, order, " UTR1 ", payerName="Asha")
    assert reply.status == 200
    data = reply.data
    assert data == {
        "received": True,
        "status": "AWAITING_CONFIRMATION",
        "transactionId": "UTR1",
        "reportedAt": data["reportedAt"],
    }
    shown = (await track(shop, order)).data
    assert shown["financialStatus"] == "PENDING"
    assert shown["payment"]["report"] == {
        "transactionId": "UTR1",
        "reportedAt": data["reportedAt"],
    }
    after = await v1(shop, order)
    assert after["payment"]["report"]["payerName"] == "Asha"
    assert after["version"] == before["version"] + 1
    assert after["updatedAt"] > before["updatedAt"]
    assert await shop.topics_since(start) == []


async def test_the_same_report_again_changes_nothing(shop: Shop) -> None:
    order = await placed(shop)
    first = await report(shop, order)
    second = await report(shop, order, "UTR2")
    before = await v1(shop, order)
    again = await report(shop, order, "UTR1", payerName="Other")
    assert again.data == first.data
    assert await v1(shop, order) == before
    assert before["payment"]["report"]["transactionId"] == "UTR2"
    assert before["payment"]["report"]["reportedAt"] == second.data["reportedAt"]
    told = [one for one in await outbox(shop) if one["template"] == "payment_reported"]
    assert len(told) == 2


async def test_duplicates_are_reported_to_the_merchant_only(shop: Shop) -> None:
    first, second = await placed(shop), await placed(shop)
    await report(shop, first)
    reply = await report(shop, second)
    assert (await v1(shop, first))["payment"]["report"]["duplicateOf"] is None
    assert (await v1(shop, second))["payment"]["report"]["duplicateOf"] == first["id"]
    for answer in (reply, await track(shop, second)):
        assert "duplicateOf" not in str(answer.body)
        assert first["id"] not in str(answer.body)


@pytest.mark.parametrize(
    ("method", "steps", "code"),
    [
        ("COD", [], "PAYMENT_NOT_EXPECTED"),
        ("COD", ["cancel"], "PAYMENT_NOT_EXPECTED"),
        ("CUSTOM_QR", ["cancel"], "ORDER_CANCELLED"),
        ("CUSTOM_QR", ["mark-paid"], "ORDER_ALREADY_PAID"),
        ("CUSTOM_QR", ["mark-paid", "cancel"], "ORDER_ALREADY_PAID"),
        ("CUSTOM_QR", ["mark-paid", "refund"], "ORDER_ALREADY_PAID"),
    ],
)
async def test_reports_that_are_refused(
    shop: Shop, method: str, steps: list[str], code: str
) -> None:
    order = await placed(shop, method)
    for step in steps:
        if step == "cancel":
            await shop.v1("POST", f"/orders/{order['id']}/cancel", {})
        else:
            await shop.control("POST", f"/stores/demo/orders/{order['id']}/{step}")
    before = await v1(shop, order)
    reply = await report(shop, order)
    assert (reply.status, reply.code) == (409, code)
    assert await v1(shop, order) == before


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/transactionId", "REQUIRED"),
        ({"transactionId": ""}, "/transactionId", "TOO_SHORT"),
        ({"transactionId": "   "}, "/transactionId", "TOO_SHORT"),
        ({"transactionId": "x" * 101}, "/transactionId", "TOO_LONG"),
        ({"transactionId": 7}, "/transactionId", "WRONG_TYPE"),
        ({"transactionId": "U", "payerName": ""}, "/payerName", "TOO_SHORT"),
        ({"transactionId": "U", "payerName": "x" * 201}, "/payerName", "TOO_LONG"),
    ],
)
async def test_bad_reports(shop: Shop, body: Any, pointer: str, code: str) -> None:
    order = await placed(shop)
    path = f"/orders/track/{order['trackingToken']}/payment"
    reply = await shop.shopper("POST", path, body)
    assert reply.status == 422
    errors = [(one["pointer"], one["code"]) for one in reply.body["errors"]]
    assert errors == [(pointer, code)]


async def test_every_tracking_answer_is_private(shop: Shop) -> None:
    order = await placed(shop)
    unknown = {"trackingToken": "x" * 43}
    for reply in (
        await track(shop, order),
        await track(shop, unknown),
        await report(shop, order),
        await report(shop, order, ""),
        await report(shop, unknown),
    ):
        assert {name: reply.headers[name] for name in PRIVATE} == PRIVATE
        assert order["trackingToken"] not in str(reply.body)


async def test_another_store_does_not_know_the_token(shop: Shop) -> None:
    order = await placed(shop)
    await shop.control("POST", "/stores", {"subdomain": "other"})
    path = f"/orders/track/{order['trackingToken']}"
    for method, at in (("GET", path), ("POST", path + "/payment")):
        body = {"transactionId": "U"} if method == "POST" else None
        reply = await shop.shopper(method, at, body, store="other")
        assert (reply.status, reply.code) == (404, "ORDER_NOT_FOUND")


async def test_five_reports_in_any_minute(tmp_path: Path) -> None:
    """Each request counts, and a minute may begin anywhere."""
    async with open_shop(tmp_path, limits=True) as shop:
        order, other = await placed(shop), await placed(shop)
        assert (await report(shop, order, "")).status == 422
        await advance(shop, 50)
        replies = [await report(shop, order) for _ in range(5)]
        assert [one.status for one in replies] == [200] * 4 + [429]
        refused = replies[-1]
        assert refused.code == "RATE_LIMITED"
        assert refused.body["violated-policies"] == ["reports"]
        wait = int(refused.headers["Retry-After"])
        assert 5 <= wait <= 10
        assert refused.headers["RateLimit-Policy"] == '"reports";q=5;w=60'
        assert replies[0].headers["RateLimit"].startswith('"reports";r=3;')
        # Nobody can use up another buyer's requests.
        assert (await report(shop, other)).status == 200
        await advance(shop, wait)
        assert (await report(shop, order)).status == 200
        assert (await report(shop, order)).status == 429


async def test_reports_from_one_address(tmp_path: Path) -> None:
    async with open_shop(tmp_path, limits=True) as shop:
        orders = [await placed(shop) for _ in range(7)]
        replies = await asyncio.gather(
            *(report(shop, order) for order in orders for _ in range(5))
        )
        statuses = [reply.status for reply in replies]
        assert (statuses.count(200), statuses.count(429)) == (30, 5)
        refused = next(reply for reply in replies if reply.status == 429)
        assert refused.body["violated-policies"] == ["reports-address"]


async def test_guessing_tokens_is_slow(tmp_path: Path) -> None:
    async with open_shop(tmp_path, limits=True) as shop:
        order = await placed(shop)
        guesses = [{"trackingToken": f"{n:043}"} for n in range(25)]
        statuses = [(await track(shop, guess)).status for guess in guesses]
        assert statuses == [404] * 20 + [429] * 5
        assert (await report(shop, guesses[0])).status == 429
        assert (await track(shop, order)).status == 200
        await advance(shop, 60)
        assert (await track(shop, guesses[0])).status == 404
