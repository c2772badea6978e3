"""Shoppers: they fill carts and place orders on the storefront."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from backhaul.demo.causes import Placement
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.demo.pair import Access

PATIENCE_SECONDS = 0.2
"""Wait before asking again a server that gave no answer."""
LIMIT_SECONDS = 2.0
ADDRESS = {"address1": "12 MG Road", "city": "Pune", "country": "IN", "zip": "411001"}
NAMES = ("Asha Rao", "Dev Menon", "Ira Sethi", "Kabir Das", "Meera Nair", "Om Joshi")


class Article(msgspec.Struct, frozen=True):
    """Something in the shop window."""

    product_id: str
    variant_id: str
    sku: str


class SoldOut(Exception):
    """Somebody was faster; the shopper takes something else."""


class Storefront:
    """The shop as a browser sees it. An order is placed once, however often tried."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._clock = clock
        self._client = httpx.AsyncClient(
            base_url=f"{access.public_url}/storefront",
            headers={"x-subdomain": access.subdomain},
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def articles(self) -> list[Article]:
        """Return everything that is for sale, once the store answers."""
        while True:
            try:
                answer = await self._client.get("/products", params={"limit": 100})
                break
            except httpx.TransportError:
                await self._clock.sleep(PATIENCE_SECONDS)
        return [
            Article(product["id"], variant["id"], variant["sku"])
            for product in answer.raise_for_status().json()["data"]
            for variant in product["variants"]
        ]

    async def place(self, cart: Mapping[str, Any], key: str) -> Placement:
        """Place an order, trying with the same key until the store answers.

        Raises SoldOut; BackhaulError for any other refusal.
        """
        body = msgspec.json.encode(cart)
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        while True:
            try:
                answer = await self._client.post(
                    "/orders", content=body, headers=headers
                )
            except httpx.TransportError:
                await self._clock.sleep(PATIENCE_SECONDS)
                continue
            if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                await self._clock.sleep(LIMIT_SECONDS)
            elif answer.is_server_error:
                await self._clock.sleep(PATIENCE_SECONDS)
            else:
                return _placement(answer, cart)


def _placement(answer: httpx.Response, cart: Mapping[str, Any]) -> Placement:
    document = answer.json()
    code = document.get("code", "")
    if code == "OUT_OF_STOCK":
        raise SoldOut
    if not answer.is_success:
        raise BackhaulError(f"the store refuses an order: {answer.status_code} {code}")
    lines = {item["variantId"]: item["quantity"] for item in cart["items"]}
    return Placement(document["data"]["id"], document["data"]["number"], lines)


def fill_cart(
    rng: random.Random, articles: Sequence[Article], customers: int
) -> dict[str, Any]:
    """Choose one to three articles for one of `customers` people."""
    person = rng.randrange(customers)
    chosen = rng.sample(articles, k=rng.choice((1, 1, 1, 2, 2, 3)))
    return {
        "paymentMethod": "COD",
        "items": [
            {
                "productId": article.product_id,
                "variantId": article.variant_id,
                "quantity": rng.choice((1, 1, 1, 2)),
            }
            for article in chosen
        ],
        "customer": {
            "name": NAMES[person % len(NAMES)],
            "email": f"shopper{person}@example.com",
        },
        "shippingAddress": ADDRESS,
    }
