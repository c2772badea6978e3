"""One object of the mirror, with its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.admin.auth import NotFound, Route
from backhaul.maintenance.search_indexer import detail_of
from backhaul.store.operators import Role
from backhaul.store.read_models import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import (
        ListedVariant,
        OpenIncident,
        OrderLine,
    )

HIDDEN = frozenset({"name", "document", "total_minor", "currency"})


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show an object of the mirror with its whole history."""
    place = page_request.request.match_info
    kind, store, id_ = place["kind"], place["store"], place["id"]

    def read(reader: Reader) -> dict[str, Any] | None:
        mirrored = reader.object(kind, store, id_)
        if mirrored is None:
            return None
        entries = reader.timeline(kind, mirrored)
        history = [replace(each, detail=detail_of(each)) for each in entries]
        return {
            "mirrored": mirrored,
            "history": history,
            "incidents": _incidents(reader, kind, store, id_),
            "parts_rows": _parts(reader, kind, store, id_),
        }

    found = await context.services.store.read(read)
    if found is None:
        raise NotFound(
            f"The mirror has no {kind} {id_} of store {store}. If it is new, its"
            " webhook may not have arrived yet."
        )
    facts = [
        (name.replace("_", " "), value)
        for name, value in [
            ("store", store),
            ("id", id_),
            *found["mirrored"].facts.items(),
        ]
        if name not in HIDDEN and value not in {None, ""}
    ]
    return context.page(page_request, "object", kind=kind, facts=facts, **found)


def _incidents(reader: Reader, kind: str, store: str, id_: str) -> list[OpenIncident]:
    """Return the open incidents of an order; of other objects there are none."""
    if kind != "order":
        return []
    place = (store, id_)
    return [x for x in reader.incidents() if (x.store, x.order_id) == place]


def _parts(
    reader: Reader, kind: str, store: str, id_: str
) -> Sequence[OrderLine | ListedVariant]:
    if kind == "order":
        return reader.order_lines(store, id_)
    return reader.variants(store, id_) if kind == "product" else []


_THING = rf"/mirror/{{kind:{'|'.join(KINDS)}}}/{{store}}/{{id}}"
ROUTES = (Route("GET", _THING, Role.VIEWER, show),)
