"""One object of the mirror: its headline values, its parts and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.admin import history
from backhaul.admin.auth import NotFound, Route
from backhaul.connect.quarantine_fields import NEW_KINDS
from backhaul.store.filters import Filter
from backhaul.store.operators import Role
from backhaul.store.read_models import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import FoundObject

MOST_ROWS = 20
"""The newest commands of an order, and the newest orders of a customer."""
EMPTY: Mapping[str, Any] = {
    **dict.fromkeys(("incidents", "quarantined", "lines", "parcels", "variants"), ()),
    **dict.fromkeys(("commands", "orders"), ()),
    **dict.fromkeys(("customer", "product", "stock")),
}


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show an object of the mirror with its whole history."""
    place = page_request.request.match_info
    kind, store, id_ = place["kind"], place["store"], place["id"]

    def read(reader: Reader) -> dict[str, Any] | None:
        mirrored = reader.object(kind, store, id_)
        if mirrored is None:
            return None
        entries = history.entries(reader.timeline(kind, mirrored))
        own = {"mirrored": mirrored, "history": entries, "kinds": NEW_KINDS}
        return {**EMPTY, **own, **_PARTS[kind](reader, mirrored)}

    found = await context.services.store.read(read)
    if found is None:
        raise NotFound(
            f"The mirror has no {kind} {id_} of store {store}. If it is new, its"
            " webhook may not have arrived yet."
        )
    return context.page(page_request, "object", kind=kind, **found)


def _order(reader: Reader, mirrored: FoundObject) -> dict[str, Any]:
    place = (mirrored.store, mirrored.id)
    wanted = Filter(store=mirrored.store, object=mirrored.id)
    named = Filter(store=mirrored.store, order=mirrored.name)
    return {
        "quarantined": reader.quarantine(MOST_ROWS, wanted=named),
        "customer": _customer_in(mirrored.facts["document"]),
        "lines": reader.order_lines(*place),
        "parcels": reader.parcels(*place),
        "commands": reader.commands(wanted, MOST_ROWS),
        "incidents": [x for x in reader.incidents() if (x.store, x.order_id) == place],
    }


def _customer_in(document: str | bytes) -> dict[str, str]:
    """Return the name and e-mail of an order's customer; empty if it has none."""
    try:
        customer = msgspec.json.decode(document)["customer"]
        return {name: str(customer.get(name) or "") for name in ("name", "email")}
    except (AttributeError, LookupError, TypeError, ValueError):
        return {"name": "", "email": ""}


def _product(reader: Reader, mirrored: FoundObject) -> dict[str, Any]:
    variants = reader.variants(mirrored.store, mirrored.id)
    known = [each.stock for each in variants if each.stock is not None]
    return {"variants": variants, "stock": sum(known) if known else None}


def _variant(reader: Reader, mirrored: FoundObject) -> dict[str, Any]:
    product = reader.object("product", mirrored.store, mirrored.facts["product_id"])
    return {"product": product.name if product else None}


def _customer(reader: Reader, mirrored: FoundObject) -> dict[str, Any]:
    return {"orders": reader.orders_of(mirrored.store, mirrored.id, MOST_ROWS)}


_PARTS: Mapping[str, Callable[[Reader, FoundObject], dict[str, Any]]] = {
    "order": _order,
    "product": _product,
    "sku": _variant,
    "customer": _customer,
}
"""What the page of each kind of object shows besides its facts and history."""
_THING = rf"/mirror/{{kind:{'|'.join(KINDS)}}}/{{store}}/{{id}}"
ROUTES = (Route("GET", _THING, Role.VIEWER, show),)
