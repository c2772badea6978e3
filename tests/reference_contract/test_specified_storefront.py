"""The specification of the storefront, line by line (contract 0, 1 to 14)."""

from pathlib import Path
from typing import Any

import pytest

from reference_contract.moves import (
    TRACKING,
    cancel,
    fulfill,
    placed,
    report,
    settle,
    shown,
    track,
)
from scenes.merchant import (
    ONE,
    advance,
    buy,
    check,
    collection,
    discount,
    idle_outbox,
    mail_text,
    quote,
    zones,
)
from scenes.reference_shop import Shop, cart, open_shop

READS = (
    *("/store", "/products", "/products/lamp", "/collections", "/collections/summer"),
    *("/navigation", "/navigation/footer"),
)
EVERY_PATH = (
    *(("GET", path) for path in READS),
    ("GET", "/orders/track/x"),
    ("POST", "/orders/track/x/payment"),
    ("POST", "/orders"),
    ("POST", "/discounts/validate"),
)
OVER = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
async def test_line_01_the_header_selects_the_store(
    shop: Shop, method: str, path: str
) -> None:
    await shop.control("POST", "/stores", {"subdomain": "asleep", "active": False})
    sent: Any = {} if method == "POST" else None
    answers = [
        await shop.shopper(method, path, sent, store=store)
        for store in ("nobody", "asleep", "NOT A NAME", "", "a" * 300)
    ]
    assert {(one.status, one.code) for one in answers} <= {
        (404, "STORE_NOT_FOUND"),
        (400, "STORE_HEADER_REQUIRED"),
    }
    assert [one.status for one in answers[:3]] == [404] * 3
    url = f"{shop.running.access.public_url}/storefront{path}"
    bare = await shop.ask(method, url, {}, json=sent)
    assert (bare.status, bare.code) == (400, "STORE_HEADER_REQUIRED")


@pytest.mark.parametrize("path", READS)
async def test_line_02_answers_are_wrapped(shop: Shop, path: str) -> None:
    await shop.product()
    await collection(shop)
    reply = await shop.shopper("GET", path)
    assert reply.status == 200
    paged = path in {"/products", "/collections"}
    assert set(reply.body) == ({"data", "meta"} if paged else {"data"})


async def test_line_02_orders_are_wrapped(shop: Shop) -> None:
    order = await placed(shop)
    answers = [await track(shop, order), await report(shop, order)]
    answers.append(await buy(shop, await shop.product()))
    assert [set(one.body) for one in answers] == [{"data"}] * 3


async def test_line_02_quotes_and_checks_are_bare(shop: Shop) -> None:
    await discount(shop)
    assert set((await quote(shop)).body) == {"total", "currency"}
    checked = (await check(shop, "SAVE10")).body
    assert set(checked) == {"valid", "discount", "amount"}


async def test_line_03_no_zone_is_no_error(shop: Shop) -> None:
    await zones(shop, {"countries": ["IN"]})
    far = await quote(shop, address={"country": "FR"})
    assert (far.status, far.body) == (200, {"unavailable": True})
    near = await quote(shop, address={"country": "IN"})
    assert (near.status, near.body["total"]) == (200, "1.00")
    misplaced = await shop.shopper("POST", "/shipping/calculate", {})
    assert misplaced.status == 404


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"endsAt": OVER}, "EXPIRED"),
        ({"minimumSubtotal": "100.01"}, "MINIMUM_NOT_MET"),
        ({"usageLimit": 1}, "USED_UP"),
    ],
    ids=["expired", "minimum", "used-up"],
)
async def test_line_04_a_discount_fails_with_its_reason(
    shop: Shop, values: dict[str, Any], reason: str
) -> None:
    await discount(shop, **values)
    product = await shop.product()
    if reason == "USED_UP":
        await buy(shop, product, discountCode="SAVE10")
    checked = await check(shop, "SAVE10")
    ordered = await buy(shop, product, discountCode="SAVE10")
    for reply in (checked, ordered):
        assert (reply.status, reply.code) == (400, f"DISCOUNT_{reason}")
        assert (reply.body["reason"], reply.body["valid"]) == (reason, False)


def varying(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "requestId"}


@pytest.mark.parametrize("status", ["draft", "archived"])
async def test_line_05_hidden_products_are_as_absent(shop: Shop, status: str) -> None:
    hidden = await shop.product(status=status)
    paths = [f"/products/{name}" for name in (hidden["id"], "lamp", "prod_x", "none")]
    answers = [await shop.shopper("GET", path) for path in paths]
    assert {one.status for one in answers} == {404}
    assert [varying(one.body) for one in answers] == [varying(answers[-1].body)] * 4
    assert (await shop.shopper("GET", "/products")).data == []
    assert (await shop.shopper("GET", "/products?search=lamp")).data == []


async def test_line_05_unpublished_collections_are_as_absent(shop: Shop) -> None:
    product = await shop.product()
    made = await collection(shop, published=False, productIds=[product["id"]])
    answers = [
        await shop.shopper("GET", f"/collections/{name}") for name in ("summer", "none")
    ]
    assert {one.status for one in answers} == {404}
    assert varying(answers[0].body) == varying(answers[1].body)
    assert (await shop.shopper("GET", "/collections")).data == []
    listed = await shop.shopper("GET", f"/products?collectionId={made['id']}")
    assert listed.data == []
    one = (await shop.shopper("GET", f"/products/{product['id']}")).data
    assert one["collections"] == []


async def test_line_06_newest_first_with_variants(shop: Shop) -> None:
    sizes = [{"title": "S", "price": "1"}, {"title": "M", "price": "2"}]
    made = [await shop.product(variants=sizes) for _ in range(5)]
    listed = (await shop.shopper("GET", "/products")).data
    assert [one["id"] for one in listed] == [one["id"] for one in reversed(made)]
    for one in listed:
        assert [variant["title"] for variant in one["variants"]] == ["S", "M"]


async def test_line_06_one_product_by_handle_or_id(shop: Shop) -> None:
    product = await shop.product(handle="my-lamp")
    made = await collection(shop, productIds=[product["id"]])
    by_id = (await shop.shopper("GET", f"/products/{product['id']}")).data
    by_handle = (await shop.shopper("GET", "/products/my-lamp")).data
    assert by_id == by_handle
    assert len(by_id["variants"]) == 1
    assert [one["id"] for one in by_id["collections"]] == [made["id"]]


async def test_line_07_nothing_computed_earlier_is_trusted(shop: Shop) -> None:
    """Price, freight and discount change between the quotes and the order."""
    product = await shop.product()
    await zones(shop, {"rates": [{"name": "R", "price": "10"}]})
    offer = await discount(shop)
    await quote(shop)
    assert (await check(shop, "SAVE10")).body["amount"] == "10.00"
    variants = [{"id": product["variants"][0]["id"], "price": "200.00"}]
    await shop.v1("PUT", f"/products/{product['id']}", {"variants": variants})
    await zones(shop, {"rates": [{"name": "R", "price": "30"}]})
    await shop.control("PUT", f"{ONE}/discounts/{offer['id']}", {"value": "50"})
    body = cart(product, discountCode="SAVE10", totals={"total": "1.00"})
    body["items"][0] |= {"price": "1.00", "discount": "99.00"}
    totals = (await shop.shopper("POST", "/orders", body)).data["totals"]
    assert totals == {
        "subtotal": "200.00", "discount": "100.00", "shipping": "30.00",
        "paymentFee": "0.00", "tax": "0.00", "total": "130.00",
    }  # fmt: skip


async def test_line_08_recorded_orders_keep_their_prices(shop: Shop) -> None:
    product = await shop.product()
    item = {"productId": product["id"], "quantity": 2, "price": "0.01"}
    totals = {"discount": "7.00", "shipping": "3.33", "tax": "0.09", "total": "999.99"}
    body = {"items": [item], "totals": totals}
    made = (await shop.v1("POST", "/orders", body)).data
    assert made["items"][0]["unitPrice"] == "0.01"
    assert made["totals"].items() >= totals.items()
    assert (await shown(shop, made))["totals"] == made["totals"]


@pytest.mark.parametrize("cod", [False, True], ids=["no-cod", "cod"])
@pytest.mark.parametrize("scan", [False, True], ids=["no-scan", "scan"])
async def test_line_09_payment_methods(shop: Shop, cod: bool, scan: bool) -> None:
    enabled = {"cod": {"enabled": cod}, "customQr": {"enabled": scan}}
    await shop.settings(paymentSettings=enabled)
    product = await shop.product()
    accepted = {"COD": cod or not scan, "CUSTOM_QR": scan}
    for method, fine in accepted.items():
        reply = await buy(shop, product, paymentMethod=method)
        assert reply.status == (201 if fine else 409)
        assert fine or reply.code == "PAYMENT_METHOD_UNAVAILABLE"


async def test_line_10_stock_mails_and_a_token(shop: Shop, folder: Path) -> None:
    await shop.settings(merchantEmail="me@shop.example")
    order = (await buy(shop, await shop.product(stock=10), 3)).data
    assert (await shop.state())["levels"][0]["stock"] == 7
    sent = {one["template"]: one for one in await idle_outbox(shop)}
    assert set(sent) == {"order_placed", "order_received"}
    to = {name: mail_text(folder, one) for name, one in sent.items()}
    assert b"To: asha@example.com" in to["order_placed"]
    assert b"To: me@shop.example" in to["order_received"]
    assert (await track(shop, order)).data["number"] == order["number"]


async def test_line_10_signed_in_customers_only(shop: Shop) -> None:
    await shop.settings(customerAccounts={"mode": "REQUIRED"})
    before = await shop.state()
    reply = await buy(shop, {"id": "prod_x", "variants": [{"id": "var_x"}]})
    assert (reply.status, reply.code) == (401, "LOGIN_REQUIRED")
    assert await shop.state() == before


async def test_line_11_cash_orders_wait_for_the_merchant(shop: Shop) -> None:
    await shop.settings(codConfirmation=True)
    order = await placed(shop, method="COD")
    assert (await track(shop, order)).data["awaitingConfirmation"] is True
    assert (await fulfill(shop, order)).code == "ORDER_AWAITING_CONFIRMATION"
    assert (await settle(shop, order, "confirm")).status == 200
    assert (await fulfill(shop, order)).status == 200


async def test_line_11_other_orders_do_not_wait(shop: Shop) -> None:
    assert (await fulfill(shop, await placed(shop, method="COD"))).status == 200
    await shop.settings(codConfirmation=True)
    assert (await fulfill(shop, await placed(shop))).status == 200


async def test_line_12_the_tracking_view(shop: Shop) -> None:
    order = await placed(shop, 2)
    await fulfill(shop, order, **TRACKING)
    view = (await track(shop, order)).data
    assert view["status"] == "CONFIRMED"
    assert [one["quantity"] for one in view["items"]] == [2]
    assert view["totals"]["total"] == "200.00"
    assert [one["trackingNumber"] for one in view["shipments"]] == ["BD1"]
    assert view["payment"]["amountDue"] == "200.00"
    assert view["payment"]["qr"]


@pytest.mark.parametrize("end", ["mark-paid", "refund", "cancel"])
async def test_line_12_payment_is_null_otherwise(shop: Shop, end: str) -> None:
    order = await placed(shop)
    for step in ("mark-paid", "refund") if end == "refund" else (end,):
        if step == "cancel":
            await cancel(shop, order)
        else:
            await settle(shop, order, step)
    assert (await track(shop, order)).data["payment"] is None


async def test_line_12_cash_orders_show_no_payment(shop: Shop) -> None:
    order = await placed(shop, method="COD")
    assert (await track(shop, order)).data["payment"] is None


@pytest.mark.parametrize("payer", [{}, {"payerName": "Asha"}], ids=["", "named"])
async def test_line_13_a_report_leaves_it_unpaid(
    shop: Shop, payer: dict[str, str]
) -> None:
    order = await placed(shop)
    path = f"/orders/track/{order['trackingToken']}/payment"
    reply = await shop.shopper("POST", path, {"transactionId": "UTR1", **payer})
    assert reply.data["transactionId"] == "UTR1"
    after = await shown(shop, order)
    assert (after["financialStatus"], after["status"]) == ("PENDING", "PENDING")
    assert after["payment"]["report"]["payerName"] == payer.get("payerName")


@pytest.mark.parametrize("body", [{}, {"payerName": "A"}, {"transactionId": ""}])
async def test_line_13_the_transaction_is_required(
    shop: Shop, body: dict[str, str]
) -> None:
    order = await placed(shop)
    path = f"/orders/track/{order['trackingToken']}/payment"
    reply = await shop.shopper("POST", path, body)
    assert (reply.status, reply.body["errors"][0]["pointer"]) == (422, "/transactionId")


async def test_line_13_five_requests_a_minute(folder: Path) -> None:
    async with open_shop(folder, limits=True) as shop:
        order = await placed(shop)
        await shop.control("POST", "/clock", {"freeze": True})
        statuses = [(await report(shop, order, f"T{n}")).status for n in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        await advance(shop, 59.9)
        refused = await report(shop, order)
        assert (refused.status, refused.code) == (429, "RATE_LIMITED")
        assert int(refused.headers["Retry-After"]) >= 1


async def test_line_14_the_token_is_not_indexed(shop: Shop) -> None:
    order = await placed(shop)
    path = f"/orders/track/{order['trackingToken']}"
    answers = [
        await track(shop, order),
        await report(shop, order),
        await shop.shopper("GET", "/orders/track/" + "x" * 43),
        await shop.shopper("POST", path + "/payment", {}),
    ]
    for reply in answers:
        assert reply.headers["Cache-Control"] == "no-store"
        assert "noindex" in reply.headers["X-Robots-Tag"]
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert order["trackingToken"] not in str(reply.body)
    robots = await shop.ask("GET", shop.running.access.public_url + "/robots.txt", {})
    assert "Disallow: /storefront/orders/track/" in robots.body
