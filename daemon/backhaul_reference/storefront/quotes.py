"""/api/shipping/calculate and /storefront/discounts/validate, both unwrapped."""

from typing import Any

from aiohttp import web

from backhaul_reference import discounting, documents, money
from backhaul_reference.context import PLATFORM
from backhaul_reference.documents import Document
from backhaul_reference.limits import STOREFRONT_QUOTES
from backhaul_reference.problems import Problem, not_found
from backhaul_reference.state import discounts, shipping, stores
from backhaul_reference.state.database import Rows
from backhaul_reference.state.discounts import Occasion
from backhaul_reference.state.stores import Store
from backhaul_reference.storefront.admission import shopper, store_of_header
from backhaul_reference.storefront.quote_bodies import CheckDiscount, QuoteShipping
from backhaul_reference.web import bodies, faulty_answers
from backhaul_reference.web.endpoint import Call, Endpoint, read_raw
from backhaul_reference.web.middleware import EXTRA_HEADERS
from backhaul_reference.web.quirky_answers import ADMITTED

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
    document = documents.decode_object(raw)
    store = _store_of_body(request, document)
    if named is None and (failed := await _strike(request, store)) is not None:
        return failed
    who = f"{store.id if store else ''} {request.remote}"
    request[EXTRA_HEADERS] |= platform.limits.spend(STOREFRONT_QUOTES, who)
    exponent = store.exponent if store else money.MAX_EXPONENT
    body = bodies.parse(QuoteShipping, document, exponent)
    if store is None or (named is not None and named.id != store.id):
        raise not_found("STORE")
    call = Call(request, platform, shopper(store), raw, body)
    return await quote(call)


async def _strike(request: web.Request, store: Store | None) -> web.Response | None:
    """The faults of the store that is known first: by the header, else the body."""
    if store is None:
        return None
    request[ADMITTED] = store
    return await faulty_answers.before(request)


async def quote(call: Call) -> web.Response:
    return await call.evaluate(lambda rows: _quote(rows, call.store, call.body))


def _store_of_body(request: web.Request, document: Document) -> Store | None:
    store_id: Any = document.get("storeId")
    if not isinstance(store_id, str):
        return None
    reader = request.app[PLATFORM].reader
    store = reader.read(lambda rows: stores.by_id(rows, store_id))
    return store if store is not None and store.active else None


def _quote(rows: Rows, store: Store, body: QuoteShipping) -> Document:
    total = shipping.quote(rows, store.id, body.address.destination(), body.subtotal())
    if total is None:
        return {"unavailable": True}
    return {"total": store.money(total), "currency": store.currency}


async def check_discount(call: Call) -> web.Response:
    body: CheckDiscount = call.body
    occasion = Occasion(call.platform.clock.now_ms(), body.cart.subtotal)

    def check(rows: Rows) -> Document:
        row = discounts.check(rows, call.store, body.code, occasion)
        terms = discounts.terms(row)
        amount = discounting.goods_off(terms, body.cart.subtotal)
        amount += discounting.freight_off(terms, body.cart.shipping)
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
