"""The moves of an order, and where they leave it."""

from typing import Any

from scenes.merchant import ONE, buy, scan_and_pay
from scenes.reference_shop import Reply, Shop

TRACKING = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}


async def fulfill(shop: Shop, order: Any, **body: Any) -> Reply:
    return await shop.v1("POST", f"/orders/{order['id']}/fulfill", body or None)


async def fulfill_some(shop: Shop, order: Any, quantity: int, **body: Any) -> Reply:
    """Ship so many of the order's first line."""
    line = {"lineItemId": order["items"][0]["id"], "quantity": quantity}
    return await fulfill(shop, order, items=[line], **body)


async def cancel(shop: Shop, order: Any, **body: Any) -> Reply:
    return await shop.v1("POST", f"/orders/{order['id']}/cancel", body or None)


async def settle(shop: Shop, order: Any, step: str) -> Reply:
    """Confirm, mark-paid or refund, as the merchant does."""
    return await shop.control("POST", f"{ONE}/orders/{order['id']}/{step}")


async def report(shop: Shop, order: Any, transaction: str = "UTR1") -> Reply:
    path = f"/orders/track/{order['trackingToken']}/payment"
    return await shop.shopper("POST", path, {"transactionId": transaction})


async def track(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("GET", f"/orders/track/{order['trackingToken']}")


async def placed(shop: Shop, quantity: int = 1, method: str = "CUSTOM_QR") -> Any:
    """An order as its buyer is answered, with the items as v1 shows them."""
    await scan_and_pay(shop)
    product = await shop.product(stock=100)
    answer = (await buy(shop, product, quantity, paymentMethod=method)).data
    return {**await shown(shop, answer), "trackingToken": answer["trackingToken"]}


async def shown(shop: Shop, order: Any) -> Any:
    return (await shop.v1("GET", f"/orders/{order['id']}")).data


def standing(order: Any) -> tuple[str, str, str]:
    return (order["status"], order["financialStatus"], order["fulfillmentStatus"])


def outcome(reply: Reply) -> tuple[int, str]:
    """The status of an answer, and the code of a refusal."""
    return reply.status, reply.code if reply.status >= 400 else ""
