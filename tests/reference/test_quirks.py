"""Each quirk, which is another platform behavior, is visible in the responses."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backhaul_reference.platform import quirks
from backhaul_reference.platform.quirks import UnknownQuirkError, parse
from scenes.reference_process import reference
from scenes.reference_shop import Receiver, Shop, cart, subscribe

Check = Callable[[Shop, Receiver], Awaitable[None]]
EVERY = [
    f"{name}=" + ",".join("AB"[:count]) if (count := quirks.VALUES.get(name)) else name
    for name in quirks.NAMES
]


async def put(shop: Shop, *names: str) -> None:
    body = {"quirks": list(names)}
    reply = await shop.control("PUT", "/stores/demo/quirks", body)
    assert reply.status == 200, reply.body


async def two_variants(shop: Shop) -> Any:
    sizes = [
        {"title": size, "sku": size, "price": "10.00", "stock": stock}
        for size, stock in (("S", 5), ("L", 8))
    ]
    body = {"title": "Shirt", "variants": sizes}
    return (await shop.v1("POST", "/products", body)).data


async def adjust(shop: Shop, product: Any, **values: Any) -> Any:
    body = {"productId": product["id"], "adjustment": -1, **values}
    return await shop.v1("POST", "/inventory/adjust", body)


async def levels(shop: Shop) -> list[int]:
    return [one["stock"] for one in (await shop.state())["levels"]]


async def bare_v1(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product()
    await put(shop, "bare-v1")
    listed = await shop.v1("GET", "/products")
    assert listed.body[0]["id"] == product["id"]
    assert "Link" not in listed.headers
    one = await shop.v1("GET", f"/products/{product['id']}")
    assert one.body["id"] == product["id"]
    assert (await shop.shopper("GET", "/products")).data


async def first_delivery(shop: Shop, receiver: Receiver, *names: str) -> Any:
    await put(shop, *names)
    await subscribe(shop, receiver, "products/create")
    product = (await shop.state())["products"] or await shop.product()
    (got,) = await receiver.until(1)
    return got, json.loads(got.body), product


async def bare_webhooks(shop: Shop, receiver: Receiver) -> None:
    _, body, product = await first_delivery(shop, receiver, "bare-webhooks")
    assert body == product


async def bare_headers(shop: Shop, receiver: Receiver) -> None:
    got, body, _ = await first_delivery(shop, receiver, "bare-headers")
    names = {name.lower() for name in got.headers}
    assert "x-service-hmac-sha256" in names
    assert not [one for one in names if one.startswith(("webhook-", "x-service-t"))]
    assert body["topic"] == "products/create"


async def no_sequence(shop: Shop, receiver: Receiver) -> None:
    _, body, _ = await first_delivery(shop, receiver, "no-sequence")
    assert "sequence" not in body
    assert await shop.sequence() == 1


async def number_money(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product(price="0.10")
    await put(shop, "number-money")
    url = f"{shop.running.access.public_url}/api/v1/products/{product['id']}"
    key = {"Authorization": f"Bearer {shop.running.access.api_key}"}
    async with shop.session.get(url, headers=key) as reply:
        assert b'"price":0.10,' in await reply.read()
    await subscribe(shop, receiver, "orders/create")
    order = await shop.order(product)
    assert order["totals"]["total"] == 0.1
    (got,) = await receiver.until(1)
    assert b'"total":0.10}' in got.body


async def lowercase_enums(shop: Shop, receiver: Receiver) -> None:
    await put(shop, "lowercase-enums")
    await subscribe(shop, receiver, "orders/updated")
    order = await shop.order(await shop.product())
    assert (order["status"], order["fulfillmentStatus"]) == ("pending", "unfulfilled")
    assert (await shop.v1("GET", "/orders?status=pending")).data[0]["id"] == order["id"]
    await shop.control("POST", f"/stores/demo/orders/{order['id']}/mark-paid")
    (got,) = await receiver.until(1)
    body = json.loads(got.body)
    assert body["topic"] == "orders/updated"
    assert body["data"]["changes"]["financialStatus"]["to"] == "paid"
    assert (await shop.state())["orders"][0]["status"] == "CONFIRMED"


async def plain_errors(shop: Shop, receiver: Receiver) -> None:
    await put(shop, "plain-errors")
    for path, status in (("/orders/x", 404), ("/orders?page=0", 422)):
        reply = await shop.v1("GET", path)
        assert (reply.status, list(reply.body)) == (status, ["error"])
        assert reply.headers["Content-Type"].startswith("application/json")


async def clamp_limit(shop: Shop, receiver: Receiver) -> None:
    assert (await shop.v1("GET", "/products?limit=101")).status == 422
    await put(shop, "clamp-limit")
    reply = await shop.v1("GET", "/products?limit=101")
    assert (reply.status, reply.body["meta"]["limit"]) == (200, 100)


async def no_updated_since(shop: Shop, receiver: Receiver) -> None:
    await shop.product()
    path = "/products?updatedSince=2999-01-01T00:00:00Z&sort=updatedAt"
    assert (await shop.v1("GET", path)).data == []
    await put(shop, "no-updated-since")
    assert len((await shop.v1("GET", path)).data) == 1
    assert "updatedSince" not in (await shop.v1("GET", "/store")).data["features"]


async def coarse_time(shop: Shop, receiver: Receiver) -> None:
    got, body, _ = await first_delivery(shop, receiver, "coarse-time")
    assert got.headers["X-Service-Triggered-At"] == body["createdAt"]
    shown = (await shop.v1("GET", "/products")).data[0]
    for text in (shown["updatedAt"], body["createdAt"], body["data"]["createdAt"]):
        assert len(text) == len("2026-01-01T00:00:00Z")
    since = f"/products?updatedSince={shown['updatedAt']}"
    assert len((await shop.v1("GET", since)).data) == 1


async def no_idempotency(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product(stock=5)
    await put(shop, "no-idempotency")
    body = {"productId": product["id"], "adjustment": -1}
    for _ in range(2):
        key = {"Idempotency-Key": "k"}
        await shop.v1("POST", "/inventory/adjust", body, headers=key)
    assert await levels(shop) == [3]
    assert "idempotencyKey" not in (await shop.v1("GET", "/store")).data["features"]


def absent(name: str, *paths: str) -> Check:
    async def check(shop: Shop, receiver: Receiver) -> None:
        product = await shop.product()
        full = [path.format(product["id"]) for path in paths]
        assert [(await shop.v1("GET", path)).status for path in full] == [200] * len(
            full
        )
        await put(shop, name)
        replies = [await shop.v1("GET", path) for path in full]
        assert {(one.status, one.code) for one in replies} == {(404, "NOT_FOUND")}

    return check


async def no_note(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product()
    await put(shop, "no-note")
    await adjust(shop, product, note="mine")
    shown = (await shop.v1("GET", "/inventory/history")).data[0]
    assert "note" not in shown
    assert {one["note"] for one in (await shop.state())["history"]} == {None}


async def pooled_stock(shop: Shop, receiver: Receiver) -> None:
    product = await two_variants(shop)
    await adjust(shop, product)
    assert await levels(shop) == [4, 7]
    await put(shop, "pooled-stock")
    reply = await adjust(shop, product)
    assert [one["stock"] for one in reply.data["levels"]] == [3, 3]
    assert await levels(shop) == [3, 3]
    short = await adjust(shop, product, adjustment=-4)
    assert (short.status, await levels(shop)) == (409, [3, 3])
    large = product["variants"][1]["id"]
    await adjust(shop, product, variantId=large)
    assert await levels(shop) == [3, 2]


async def restock_field(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product(stock=5)
    await put(shop, "restock-field=returnStock")
    for member, stock in (("restock", 4), ("returnStock", 4)):
        order = await shop.order(product)
        await shop.v1("POST", f"/orders/{order['id']}/cancel", {member: True})
        assert await levels(shop) == [stock]


async def tracking_fields(shop: Shop, receiver: Receiver) -> None:
    order = await shop.order(await shop.product())
    await put(shop, "tracking-fields=carrier,awb")
    sent = {"carrier": "BlueDart", "awb": "BD1", "trackingNumber": "no"}
    reply = await shop.v1("POST", f"/orders/{order['id']}/fulfill", sent)
    shipment = reply.data["shipments"][0]
    assert (shipment["carrier"], shipment["awb"]) == ("BlueDart", "BD1")
    assert "trackingNumber" not in shipment
    kept = (await shop.state())["orders"][0]["shipments"][0]
    assert (kept["trackingCompany"], kept["trackingNumber"]) == ("BlueDart", "BD1")


async def strict_repeat(shop: Shop, receiver: Receiver) -> None:
    order = await shop.order(await shop.product())
    path = f"/orders/{order['id']}"
    for step in ("/fulfill", "/cancel"):
        for _ in range(2):
            assert (await shop.v1("POST", path + step)).status == 200
    await put(shop, "strict-repeat")
    for step, code in (
        ("/fulfill", "ORDER_ALREADY_FULFILLED"),
        ("/cancel", "ORDER_ALREADY_CANCELLED"),
    ):
        reply = await shop.v1("POST", path + step)
        assert (reply.status, reply.code) == (409, code)
        assert reply.body["current"]["status"] == "CANCELLED"


async def refuse_fulfill_cancelled(shop: Shop, receiver: Receiver) -> None:
    order = await shop.order(await shop.product())
    await shop.v1("POST", f"/orders/{order['id']}/cancel")
    await put(shop, "refuse-fulfill-cancelled")
    reply = await shop.v1("POST", f"/orders/{order['id']}/fulfill")
    assert (reply.status, reply.code) == (409, "ORDER_CANCELLED")
    await put(shop)
    assert (await shop.v1("POST", f"/orders/{order['id']}/fulfill")).status == 200


async def refulfill_attaches(shop: Shop, receiver: Receiver) -> None:
    path = f"/orders/{(await shop.order(await shop.product()))['id']}/fulfill"
    first, second = {"trackingNumber": "JD1"}, {"trackingNumber": "JD2"}
    assert (await shop.v1("POST", path, first)).status == 200
    assert (await shop.v1("POST", path, second)).code == "ORDER_ALREADY_FULFILLED"
    await put(shop, "refulfill-attaches")
    before = await levels(shop)
    for _ in range(2):
        order = (await shop.v1("POST", path, second)).data
        numbers = [one["trackingNumber"] for one in order["shipments"]]
        assert numbers == ["JD1", "JD2"]
    assert order["shipments"][1]["items"] == []
    assert [line["fulfilledQuantity"] for line in order["items"]] == [1]
    assert await levels(shop) == before
    # Without a number there is nothing to attach.
    assert (await shop.v1("POST", path, {"trackingCompany": "DHL"})).status == 409


async def strict_body(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product()
    order = await shop.order(product)
    await put(shop, "strict-body")
    refused = await adjust(shop, product, note="n", variantId="v")
    assert [one["pointer"] for one in refused.body["errors"]] == ["/note", "/variantId"]
    for step, member in (("fulfill", "trackingUrl"), ("cancel", "reason")):
        path = f"/orders/{order['id']}/{step}"
        assert (await shop.v1("POST", path, {member: "OTHER"})).status == 422
    assert await levels(shop) == [9]
    assert (await adjust(shop, product, reason="OTHER")).status == 200
    path = f"/orders/{order['id']}/cancel"
    assert (await shop.v1("POST", path, {"restock": True})).status == 200


async def ignore_variant(shop: Shop, receiver: Receiver) -> None:
    product = await two_variants(shop)
    await put(shop, "ignore-variant")
    await adjust(shop, product, variantId=product["variants"][0]["id"])
    assert await levels(shop) == [4, 7]


async def manual_reason(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product()
    await put(shop, "manual-reason")
    refused = await adjust(shop, product, reason="DAMAGED")
    assert refused.body["errors"][0]["pointer"] == "/reason"
    assert (await adjust(shop, product, reason="MANUAL_ADJUSTMENT")).status == 200
    assert await levels(shop) == [9]


async def ignore_page(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product(stock=30)
    for _ in range(22):
        await shop.order(product)
    assert len((await shop.v1("GET", "/orders?page=2")).data) == 2
    await put(shop, "ignore-page")
    first, second = [
        (await shop.v1("GET", f"/orders?limit=5&page={page}")).data for page in (1, 2)
    ]
    assert (len(first), second) == (22, first)
    assert (await shop.v1("GET", "/products?page=2")).data == []


async def ack_202(shop: Shop, receiver: Receiver) -> None:
    product = await shop.product()
    on = {"enabled": True, "qr": "https://q.example"}
    await shop.settings(paymentSettings={"customQr": on})
    body = cart(product, paymentMethod="CUSTOM_QR")
    token = (await shop.shopper("POST", "/orders", body)).data["trackingToken"]
    await put(shop, "ack-202")
    report = await shop.shopper(
        "POST", f"/orders/track/{token}/payment", {"transactionId": "T1"}
    )
    assert (report.status, report.data["received"]) == (202, True)
    assert (await adjust(shop, product)).status == 202
    assert (await shop.v1("GET", "/products")).status == 200


async def no_retry(shop: Shop, receiver: Receiver) -> None:
    receiver.answers.append(web.Response(status=500))
    await first_delivery(shop, receiver, "no-retry")
    while (await shop.state())["deliveries"]["FAILED"] != 1:
        pass


CHECKS: dict[str, Check] = {
    "bare-v1": bare_v1,
    "bare-webhooks": bare_webhooks,
    "bare-headers": bare_headers,
    "number-money": number_money,
    "lowercase-enums": lowercase_enums,
    "plain-errors": plain_errors,
    "clamp-limit": clamp_limit,
    "no-updated-since": no_updated_since,
    "coarse-time": coarse_time,
    "no-sequence": no_sequence,
    "no-idempotency": no_idempotency,
    "no-history": absent("no-history", "/inventory/history"),
    "no-note": no_note,
    "no-store-endpoint": absent("no-store-endpoint", "/store"),
    "pooled-stock": pooled_stock,
    "restock-field": restock_field,
    "strict-repeat": strict_repeat,
    "refuse-fulfill-cancelled": refuse_fulfill_cancelled,
    "refulfill-attaches": refulfill_attaches,
    "strict-body": strict_body,
    "ignore-variant": ignore_variant,
    "manual-reason": manual_reason,
    "no-levels": absent("no-levels", "/inventory", "/inventory/{}"),
    "no-webhook-api": absent("no-webhook-api", "/webhooks"),
    "ignore-page": ignore_page,
    "tracking-fields": tracking_fields,
    "ack-202": ack_202,
    "no-retry": no_retry,
}


@pytest.mark.parametrize("name", quirks.NAMES)
async def test_each_quirk_shows(shop: Shop, receiver: Receiver, name: str) -> None:
    await CHECKS[name](shop, receiver)


async def test_all_at_once(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver, "orders/fulfilled")
    product = await two_variants(shop)
    order = await shop.order(product)
    await put(shop, *EVERY)
    v1 = shop.v1
    listed = (await v1("GET", "/orders?limit=999&page=7")).body
    assert [one["id"] for one in listed] == [order["id"]]
    assert (listed[0]["status"], listed[0]["totals"]["total"]) == ("pending", 10.0)
    assert len(listed[0]["updatedAt"]) == 20
    for path in ("/store", "/inventory", "/inventory/history", "/webhooks"):
        missing = await v1("GET", path)
        assert (missing.status, list(missing.body)) == (404, ["error"])
    path = f"/orders/{order['id']}"
    done = (await v1("POST", path + "/fulfill", {"A": "BlueDart", "B": "BD1"})).body
    assert (done["fulfillmentStatus"], done["shipments"][0]["B"]) == (
        "fulfilled",
        "BD1",
    )
    again = await v1("POST", path + "/fulfill", {"A": "BlueDart", "B": "BD1"})
    assert (again.status, list(again.body)) == (409, ["error"])
    assert (await adjust(shop, product)).status == 202
    assert await levels(shop) == [3, 3]
    assert (await v1("POST", path + "/cancel", {"A": True})).status == 200
    assert await levels(shop) == [4, 3]
    (got,) = await receiver.until(1)
    assert json.loads(got.body)["shipment"]["A"] == "BlueDart"
    assert "X-Service-Topic" not in got.headers


async def test_the_snapshot_keeps_its_words(shop: Shop) -> None:
    await shop.order(await shop.product())
    before = await shop.state()
    await put(shop, *EVERY)
    assert await shop.state() == before


async def test_quirks_belong_to_a_store(shop: Shop) -> None:
    await put(shop, "bare-v1", "ack-202")
    other = await shop.control("POST", "/stores", {"subdomain": "other"})
    assert (await shop.v1("GET", "/store", key=other.data["apiKey"])).data["id"]
    shown = await shop.control("GET", "/stores/demo/quirks")
    assert shown.data == ["ack-202", "bare-v1"]
    await shop.control("POST", "/stores/demo/reset")
    assert (await shop.control("GET", "/stores/demo/quirks")).data == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bare-v2", "did you mean bare-v1?"),
        ("number_money", "did you mean number-money?"),
        ("coarse", "did you mean coarse-time?"),
        ("xyzzy", "there is no quirk 'xyzzy'"),
        ("bare-v1=x", "bare-v1 takes no value"),
        ("restock-field", "restock-field takes one name"),
        ("restock-field=a b", "'a b' is no member name"),
        ("tracking-fields=a", "takes two different names"),
        ("tracking-fields=a,a", "takes two different names"),
        ("", "there is no quirk ''"),
    ],
)
async def test_unknown_quirks_are_refused(shop: Shop, text: str, message: str) -> None:
    with pytest.raises(UnknownQuirkError) as raised:
        parse([text])
    assert message in str(raised.value)
    reply = await shop.control("PUT", "/stores/demo/quirks", {"quirks": [text or " "]})
    assert reply.status == 422


@pytest.mark.programs
def test_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "backhaul_reference", "--data", str(tmp_path)]
    command += ["--quirk", "bear-v1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "did you mean bare-v1?" in result.stderr
    extra = ["--quirk", "bare-v1", "--quirk", "tracking-fields=a,b"]
    with reference(tmp_path, fixture="empty", extra=extra) as server:
        assert server.v1("GET", "/store").json()["subdomain"] == "demo"
        chosen = ["bare-v1", "tracking-fields=a,b"]
        assert server.control("GET", "/stores/demo/quirks").data() == chosen
        server.restart()
        assert server.control("GET", "/stores/demo/quirks").data() == chosen
