"""Buys at the demo store of a reference server that runs as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenes.reference_shop import cart

if TYPE_CHECKING:
    from scenes.reference_process import ReferenceProcess

Document = dict[str, Any]


def buy(platform: ReferenceProcess, quantity: int = 1, **members: Any) -> Document:
    """Place an order as a shopper; return it as the keyed API shows it."""
    product = platform.v1("GET", "/products?limit=1").data()[0]
    placed = platform.storefront("POST", "/orders", cart(product, quantity, **members))
    return order_of(platform, placed.data()["id"])


def order_of(platform: ReferenceProcess, id_: str) -> Document:
    found: Document = platform.v1("GET", f"/orders/{id_}").data()
    return found


def key_with(platform: ReferenceProcess, *scopes: str) -> str:
    """Create an API key with only this permission."""
    answer = platform.control("POST", "/stores/demo/keys", {"scopes": list(scopes)})
    return str(answer.data()["key"])
