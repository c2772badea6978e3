"""A walk through a shop: each step is taken in the shop and in the books."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from reference_contract.books import USES, Books, Paper, Shelf
from reference_contract.moves import cancel, fulfill, fulfill_some, report, settle
from scenes.merchant import discount, scan_and_pay
from scenes.reference_shop import Reply, Shop, cart

Values = dict[str, int]
PICK = 60
# Every step and the largest value of each of its numbers; the smallest is 0.
STEPS: dict[str, Values] = {
    "product": {"price": 5000, "stock": 12, "sells_short": 1, "sizes": 2},
    "order": {
        "first": PICK,
        "first_count": 3,
        "second": PICK,
        "second_count": 3,
        "coded": 1,
        "by_scan": 1,
        "waits": 1,
    },
    "fulfill": {"pick": PICK, "tracking": 1, "count": 3},
    "cancel": {"pick": PICK, "restock": 1, "refund": 1},
    "confirm": {"pick": PICK},
    "pay": {"pick": PICK},
    "refund": {"pick": PICK},
    "report": {"pick": PICK},
    "adjust": {"pick": PICK, "change": 12, "alone": 1},
    "set": {"pick": PICK, "stock": 12, "alone": 1},
    "delete": {"pick": PICK},
}
FIRST_ORDER = dict.fromkeys(STEPS["order"], 0) | {"first_count": 2}
OFTEN = ("order", "order", "fulfill", "fulfill", "cancel")


def random_steps(seed: int, count: int) -> Iterator[tuple[str, Values]]:
    chance = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
    names = (*STEPS, *OFTEN)
    for _ in range(count):
        name = chance.choice(names)
        yield name, {key: chance.randint(0, top) for key, top in STEPS[name].items()}


def money(minor: int) -> str:
    return f"{minor // 100}.{minor % 100:02}"


@dataclass(slots=True)
class Walk:
    """A shop, its books, and all that the shop answered."""

    shop: Shop
    books: Books = field(default_factory=Books)
    products: list[Any] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    orders: list[Any] = field(default_factory=list)
    answers: list[Reply] = field(default_factory=list)

    async def begin(self) -> None:
        await scan_and_pay(self.shop)
        await discount(self.shop, usageLimit=USES)
        await self.product({"price": 999, "stock": 8, "sells_short": 0, "sizes": 1})
        for by_scan in (0, 1):
            await self.order(FIRST_ORDER | {"by_scan": by_scan})

    async def step(self, name: str, values: Values) -> None:
        """Take one step; without an order, an order's move is none."""
        if name in {"product", "order"}:
            await getattr(self, name)(values)
        elif name in {"adjust", "set", "delete"}:
            await self._stock_step(name, values)
        elif self.orders:
            number = values["pick"] % len(self.orders)
            await self._order_step(name, number, values)

    def _agree(self, reply: Reply, refusals: set[str]) -> None:
        """The shop refuses what the books refuse, with a code that they know."""
        self.answers.append(reply)
        if refusals:
            assert reply.status in {400, 409}, (reply.body, refusals)
            assert reply.code in refusals
        else:
            assert reply.status in {200, 201}, reply.body

    async def product(self, values: Values) -> None:
        short, prices = bool(values["sells_short"]), values["price"]
        policy = "CONTINUE" if short else "DENY"
        sizes = [
            {
                "title": f"Size {n}",
                "price": money(prices + n),
                "stock": values["stock"] + n,
                "inventoryPolicy": policy,
            }
            for n in range(values["sizes"] + 1)
        ]
        body = {"title": f"P{len(self.products)}", "variants": sizes}
        reply = await self.shop.v1("POST", "/products", body)
        self._agree(reply, set())
        for n, variant in enumerate(reply.data["variants"]):
            shelf = (len(self.products), prices + n, values["stock"] + n, short)
            self.books.shelves.append(Shelf(*shelf))
            self.variants.append(variant["id"])
        self.products.append(reply.data)

    async def order(self, values: Values) -> None:
        counts = (values["first_count"], values["second_count"])
        picks = (values["first"], values["second"])
        asked = [
            (pick % len(self.variants), count)
            for pick, count in zip(picks, (counts[0] + 1, counts[1]), strict=True)
            if count
        ]
        coded, by_scan = bool(values["coded"]), bool(values["by_scan"])
        waits = bool(values["waits"]) and not by_scan
        await self.shop.settings(codConfirmation=bool(values["waits"]))
        reply = await self.shop.shopper("POST", "/orders", self._cart(asked, values))
        self._agree(reply, self.books.place(asked, coded, by_scan, waits))
        if reply.status == 201:
            shown = (await self.shop.v1("GET", f"/orders/{reply.data['id']}")).data
            self.orders.append({**shown, "trackingToken": reply.data["trackingToken"]})

    def _cart(self, asked: list[tuple[int, int]], values: Values) -> Any:
        items = []
        for shelf, count in asked:
            product = self.products[self.books.shelves[shelf].product]
            variant = self.variants[shelf]
            items.append(
                {"productId": product["id"], "variantId": variant, "quantity": count}
            )
        code = {"discountCode": "SAVE10"} if values["coded"] else {}
        method = "CUSTOM_QR" if values["by_scan"] else "COD"
        return {
            **cart(self.products[0]),
            "items": items,
            "paymentMethod": method,
        } | code

    async def _order_step(self, name: str, number: int, values: Values) -> None:
        order, paper = self.orders[number], self.books.orders[number]
        if name == "fulfill":
            return await self._fulfill(order, paper, values)
        if name == "cancel":
            restock, refund = bool(values["restock"]), bool(values["refund"])
            reply = await cancel(self.shop, order, restock=restock, refund=refund)
            return self._agree(reply, self.books.cancel(paper, restock, refund))
        if name == "report":
            reply = await report(self.shop, order)
        else:
            step = "mark-paid" if name == "pay" else name
            reply = await settle(self.shop, order, step)
        return self._agree(reply, getattr(self.books, name)(paper))

    async def _fulfill(self, order: Any, paper: Paper, values: Values) -> None:
        tracking, count = f"T{values['tracking']}", values["count"]
        if count:
            ask = fulfill_some(self.shop, order, count, trackingNumber=tracking)
        else:
            ask = fulfill(self.shop, order, trackingNumber=tracking)
        self._agree(await ask, self.books.fulfill(paper, tracking, count))

    async def _stock_step(self, name: str, values: Values) -> None:
        number = values["pick"] % len(self.variants)
        product = self.products[self.books.shelves[number].product]["id"]
        if name == "delete":
            # What a walk begins with stays, so that there is something to sell.
            if self.books.shelves[number].product:
                await self._delete(number, product)
            return
        body = {"productId": product}
        alone = values["alone"] == 1
        if alone:
            body["variantId"] = self.variants[number]
        change = values.get("change", 0) - 6
        more = (
            {"adjustment": change} if name == "adjust" else {"stock": values["stock"]}
        )
        if more.get("adjustment") == 0:
            return
        path = f"/inventory/{name}"
        reply = await self.shop.v1("POST", path, {**body, **more})
        self._agree_on_stock(reply, number, alone, more)

    def _agree_on_stock(
        self, reply: Reply, number: int, alone: bool, more: Values
    ) -> None:
        one = self.books.shelves[number]
        shelves = [one] if alone else self.books.of_product(one.product)
        if one.gone:
            self.answers.append(reply)
            assert (reply.status, reply.code) == (404, "PRODUCT_NOT_FOUND")
        elif "stock" in more:
            self._agree(reply, set())
            for shelf in shelves:
                shelf.stock = more["stock"]
        else:
            self._agree(reply, self.books.adjust(shelves, more["adjustment"]))

    async def _delete(self, number: int, product: str) -> None:
        reply = await self.shop.v1("DELETE", f"/products/{product}")
        self.answers.append(reply)
        shelves = self.books.of_product(self.books.shelves[number].product)
        assert reply.status == (200 if shelves else 404)
        for shelf in shelves:
            shelf.gone = True
