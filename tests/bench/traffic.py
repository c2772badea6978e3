"""What each server is asked: ours, and its nearest equivalent at the peers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.shop import Shop

PAGE = 50
OK, CREATED = 200, 201
OBJECTS = 10_000
STRIPE = {"Authorization": "Bearer sk_test_12345"}
ADDRESS = {
    "address1": "12 MG Road",
    "city": "Pune",
    "province": "MH",
    "country": "IN",
    "zip": "411001",
}
BUYERS = 5_000


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the shop sells, and with `orders` what it sold."""

    shop: Shop
    products: Sequence[Any]
    orders: Sequence[Any] = ()

    def held_by_json_server(self) -> dict[str, Sequence[Any]]:
        return {"products": self.products, "orders": self.orders, "adjustments": ()}

    def held_by_localstripe(self) -> dict[str, Sequence[Any]]:
        products = [
            {name: one[name] for name in ("id", "description")} | {"name": one["title"]}
            for one in self.products
        ]
        intents = [_intent(number) for number in range(len(self.orders))]
        return {"products": products, "payment_intents": intents}


@dataclass(frozen=True, slots=True)
class Asked:
    """One kind of request, without end, and the status of its answer."""

    requests: Iterator[bytes]
    status: int = OK


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a row asks; `sample` is asked once for the bytes of the bare handler."""

    ours: Asked
    json_server: Asked
    localstripe: Asked
    sample: Callable[[], tuple[int, bytes]]


def page(of: Catalogue) -> Traffic:
    path = f"/storefront/products?limit={PAGE}"
    shop = of.shop
    return Traffic(
        Asked(cycle([_get(path, shop.shopper)])),
        Asked(cycle([_get(f"/products?_page=1&_limit={PAGE}", {})])),
        Asked(cycle([_get(f"/v1/products?limit={PAGE}", STRIPE)])),
        lambda: shop.ask(path, shop.shopper),
    )


def page_uncached(of: Catalogue) -> Traffic:
    """Pages whose addresses were never asked, so that nothing can be remembered."""
    known = page(of)
    path = f"/storefront/products?limit={PAGE}&n="
    anew = (_get(f"{path}{number}", of.shop.shopper) for number in count())
    return replace(known, ours=Asked(anew))


def product(of: Catalogue) -> Traffic:
    """Single products, one after the other through all of them."""
    shop = of.shop
    ids = [one["id"] for one in of.products]

    def each(prefix: str, headers: Mapping[str, str]) -> Asked:
        return Asked(cycle([_get(f"{prefix}/{one}", headers) for one in ids]))

    return Traffic(
        each("/storefront/products", shop.shopper),
        each("/products", {}),
        each("/v1/products", STRIPE),
        lambda: shop.ask(f"/storefront/products/{ids[0]}", shop.shopper),
    )


def order(of: Catalogue) -> Traffic:
    """Orders of one line, no two alike; at the peers an order and a payment intent."""
    shop, path = of.shop, "/storefront/orders"
    products = of.products
    sent = (_order(products[n % len(products)], n) for n in count())
    stored = (_order(products[n % len(products)], n) for n in count())
    paid = (_intent(number) for number in count())
    return Traffic(
        Asked((_post(path, shop.shopper, one) for one in sent), CREATED),
        Asked((_post("/orders", {}, one) for one in stored), CREATED),
        Asked(_post("/v1/payment_intents", STRIPE, one) for one in paid),
        lambda: shop.ask(path, shop.shopper, next(sent)),
    )


def adjustment(of: Catalogue) -> Traffic:
    """Adjustments by one; at the peers a record of it, and a changed product."""
    shop, path = of.shop, "/api/v1/inventory/adjust"
    bodies = [
        {
            "productId": one["id"],
            "variantId": one["variants"][0]["id"],
            "adjustment": 1,
            "reason": "RECEIVED",
        }
        for one in of.products
    ]
    changed = {"metadata": {"stock": "1"}}
    return Traffic(
        Asked(cycle([_post(path, shop.office, one) for one in bodies])),
        Asked(cycle([_post("/adjustments", {}, one) for one in bodies]), CREATED),
        Asked(
            cycle(
                _post(f"/v1/products/{one['id']}", STRIPE, changed)
                for one in of.products
            )
        ),
        lambda: shop.ask(path, shop.office, bodies[0]),
    )


def _order(product: Any, number: int) -> Any:
    item = {"productId": product["id"], "variantId": product["variants"][0]["id"]}
    buyer = {"name": "Asha Rao", "email": f"buyer{number % BUYERS}@example.com"}
    return {
        "paymentMethod": "COD",
        "items": [{**item, "quantity": 1}],
        "customer": {**buyer, "phone": "+91 98765 43210"},
        "shippingAddress": ADDRESS,
        "note": f"Bell {number}",
    }


def _intent(number: int) -> Any:
    order = {"order": f"{number}", "city": "Pune", "country": "IN"}
    return {"amount": 2_000 + number, "currency": "inr", "metadata": order}


def _get(path: str, headers: Mapping[str, str]) -> bytes:
    return _head("GET", path, headers) + b"\r\n"


def _post(path: str, headers: Mapping[str, str], sent: Any) -> bytes:
    body = json.dumps(sent, separators=(",", ":")).encode()
    typed = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return _head("POST", path, {**headers, **typed}) + b"\r\n" + body


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Accept: */*"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode()
