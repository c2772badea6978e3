"""Shipping quotes and discount checks for a cart, both unwrapped."""

from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from backhaul_reference.platform import json_codec, money, order_models
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.http import request_bodies, test_controls
from backhaul_reference.platform.http.endpoint import Call, Endpoint, read_raw
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS
from backhaul_reference.platform.http.request_bodies import (
    WHOLE,
    Body,
    Country,
    Identifier,
    Money,
    OptionalText,
    Text,
)
from backhaul_reference.platform.http.test_controls import ADMITTED
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.rate_limits import STOREFRONT_QUOTES
from backhaul_reference.platform.state import discounts, shipping, stores
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.discounts import DiscountUse
from backhaul_reference.platform.state.shipping import Destination
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.storefront.store_access import shopper, store_of_header


class PricedItem(Body):
    product_id: Identifier
    variant_id: Identifier | None = None
    quantity: Annotated[int, Field(ge=1, le=999), WHOLE]
    price: Money


class QuoteAddress(Body):
    province: OptionalText | None = None
    city: OptionalText | None = None
    country: Country
    zip: OptionalText | None = None

    def destination(self) -> Destination:
        return Destination(self.country, self.province, self.city, self.zip)


class QuoteShipping(Body):
    store_id: Identifier
    items: Annotated[list[PricedItem], Field(min_length=1, max_length=100)]
    address: QuoteAddress

    def subtotal(self) -> int:
        return sum(item.price * item.quantity for item in self.items)


class CheckedCart(Body):
    subtotal: Money
    items: Annotated[list[PricedItem], Field(max_length=100)] = Field(
        default_factory=list
    )
    shipping: Money = 0


class CheckDiscount(Body):
    code: Text
    cart: CheckedCart


QUOTE_PATH = "/api/shipping/calculate"


async def quote_shipping(request: web.Request) -> web.StreamResponse:
    """Quote by the body's store; the header may be left out, not contradict it."""
    platform = request.app[PLATFORM]
    named = store_of_header(request)
    if (failed := await _strike(request, named)) is not None:
        return failed
    raw = await read_raw(request)
    if request.content_type != "application/json":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON")
    document = json_codec.decode_object(raw)
    store = _store_of_body(request, document)
    if named is None and (failed := await _strike(request, store)) is not None:
        return failed
    who = f"{store.id if store else ''} {request.remote}"
    request[EXTRA_HEADERS] |= platform.limits.spend(STOREFRONT_QUOTES, who)
    exponent = store.exponent if store else money.MAX_EXPONENT
    body = request_bodies.parse(QuoteShipping, document, exponent)
    if store is None or (named is not None and named.id != store.id):
        raise not_found("STORE")
    call = Call(request, platform, shopper(store), raw, body)
    return await quote(call)


async def _strike(request: web.Request, store: Store | None) -> web.Response | None:
    """Apply the faults of the store named by the header, else by the body."""
    if store is None:
        return None
    request[ADMITTED] = store
    return await test_controls.inject_refusal(request)


async def quote(call: Call) -> web.Response:
    return await call.evaluate(lambda rows: _quote(rows, call.store, call.body))


def _store_of_body(request: web.Request, document: Document) -> Store | None:
    store_id: Any = document.get("storeId")
    if not isinstance(store_id, str):
        return None
    reader = request.app[PLATFORM].reader
    store = reader.read(lambda rows: stores.by_id(rows, store_id))
    return store if store is not None and store.active else None


def _quote(
    rows: Rows, store: Store, body: QuoteShipping
) -> order_models.Quote | order_models.NoQuote:
    total = shipping.quote(rows, store.id, body.address.destination(), body.subtotal())
    if total is None:
        return {"unavailable": True}
    return {"total": store.money(total), "currency": store.currency}


async def check_discount(call: Call) -> web.Response:
    body: CheckDiscount = call.body
    occasion = DiscountUse(call.platform.clock.now_ms(), body.cart.subtotal)

    def check(rows: Rows) -> order_models.CheckedDiscount:
        row = discounts.check(rows, call.store, body.code, occasion)
        terms = discounts.terms(row)
        amount = discounts.goods_off(terms, body.cart.subtotal)
        amount += discounts.freight_off(terms, body.cart.shipping)
        shown = discounts.shown(call.store, row)
        return {"valid": True, "discount": shown, "amount": call.store.money(amount)}

    return await call.evaluate(check)


# Served by `quote_shipping`, which finds the store in the body.
QUOTE = Endpoint("POST", QUOTE_PATH, quote, body=QuoteShipping, store_in_body=True)
ENDPOINTS = (
    Endpoint(
        "POST", "/storefront/discounts/validate", check_discount, body=CheckDiscount
    ),
)
