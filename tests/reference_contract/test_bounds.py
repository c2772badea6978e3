"""Numbers at their bounds are refused or stored exactly (contract 1.1)."""

from reference_contract.moves import cancel, outcome
from scenes.merchant import buy
from scenes.reference_shop import CUSTOMER, Shop, cart

DEAREST = "999999999999.00"
FULLEST = 1_000_000_000


async def test_no_order_total_exceeds_the_storable_amount(shop: Shop) -> None:
    product = await shop.product(price=DEAREST, stock=FULLEST)
    assert (await buy(shop, product)).data["totals"]["total"] == DEAREST
    before = await shop.state()
    lines = cart(product, 999)["items"] * 100
    reply = await shop.shopper("POST", "/orders", {**cart(product), "items": lines})
    assert outcome(reply) == (409, "TOTAL_LIMIT_EXCEEDED")
    assert await shop.state() == before


async def test_no_recorded_order_costs_more(shop: Shop) -> None:
    for count, quantity in ((500, 1_000_000), (1, 1_001)):
        line = {"title": "T", "quantity": quantity, "price": DEAREST}
        reply = await shop.v1("POST", "/orders", {"items": [line] * count})
        assert outcome(reply) == (409, "TOTAL_LIMIT_EXCEEDED")
    assert (await shop.v1("GET", "/orders")).data == []


async def test_the_dearest_orders_of_one_customer_are_added_up(shop: Shop) -> None:
    """SQLite would go on in floating point, and no customer could be read again."""
    line = {"title": "T", "quantity": 1_000, "price": DEAREST}
    body = {"items": [line], "customer": CUSTOMER}
    for _ in range(93):
        assert (await shop.v1("POST", "/orders", body)).status == 201
    (customer,) = (await shop.v1("GET", "/customers")).data
    assert customer["ordersCount"] == 93
    assert customer["totalSpent"] == "90000000000000000.00"


async def test_stock_without_room_is_not_given_back(shop: Shop) -> None:
    """What cannot be put back is said to be skipped, and the rest is put back."""
    full, other = await shop.product(stock=5), await shop.product(stock=5)
    both = cart(full, 3)["items"] + cart(other, 2)["items"]
    placed = await shop.shopper("POST", "/orders", {**cart(full), "items": both})
    await shop.v1("POST", "/inventory/set", {"productId": full["id"], "stock": FULLEST})
    done = (await cancel(shop, placed.data, restock=True)).data
    assert [one["restockedQuantity"] for one in done["items"]] == [0, 2]
    assert done["cancellation"]["skippedItems"] == [done["items"][0]["id"]]
    levels = {one["productId"]: one["stock"] for one in (await shop.state())["levels"]}
    assert levels == {full["id"]: FULLEST, other["id"]: 5}


async def test_a_customer_without_email_is_counted_too(shop: Shop) -> None:
    customer = (await shop.v1("POST", "/customers", {"phone": "+49 123"})).data
    item = {"title": "T", "quantity": 1, "price": "5.00"}
    body = {"items": [item], "customer": {"id": customer["id"]}}
    order = (await shop.v1("POST", "/orders", body)).data
    path = f"/customers/{customer['id']}"
    shown = (await shop.v1("GET", path)).data
    assert (shown["ordersCount"], shown["totalSpent"]) == (1, "5.00")
    await cancel(shop, order)
    assert (await shop.v1("GET", path)).data["totalSpent"] == "0.00"
