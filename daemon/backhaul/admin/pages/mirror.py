"""Search in the mirror, and the history of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import NotFound, Route
from backhaul.admin.context import cursor_of, pager
from backhaul.maintenance.search_indexer import summary
from backhaul.store.operations import Role
from backhaul.store.read_models import KINDS

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader

PAGE_ROWS = 40
SEARCHED = ("order", "product", "customer")
HIDDEN = frozenset({"name", "document", "total_minor", "currency"})


async def search(context: PageContext, page_request: PageRequest) -> web.Response:
    """Find objects by words; without words show the latest changes."""
    text, kind = page_request.query("q"), page_request.query("kind")
    kind = kind if kind in SEARCHED else None
    since = cursor_of(page_request)
    rows, older = await context.services.store.read(
        lambda reader: _find(reader, text, kind, since)
    )
    return context.page(
        page_request,
        "mirror",
        rows=rows,
        pager=pager(page_request, older),
        skipped=(since or 0) if text else 0,
        text=text or "",
        kind=kind,
        kinds=SEARCHED,
    )


def _find(
    reader: Reader, text: str | None, kind: str | None, since: int | None
) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page of objects, and the cursor of the next page or None.

    The cursor is a change number, or for a search the count of results skipped.
    """
    if text is not None:
        found = reader.search(text, kind, PAGE_ROWS + 1, since or 0)
        older = (since or 0) + PAGE_ROWS if len(found) > PAGE_ROWS else None
    else:
        found = reader.latest_changes(kind, PAGE_ROWS + 1, since)
        is_full = len(found) > PAGE_ROWS
        older = (
            int(found[PAGE_ROWS - 1]["change"])
            if is_full
            else reader.not_searched(since)
        )
    return found[:PAGE_ROWS], older


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show an object of the mirror with its whole history."""
    place = page_request.request.match_info
    kind, store, id_ = place["kind"], place["store"], place["id"]

    def read(reader: Reader) -> dict[str, Any] | None:
        mirrored = reader.object(kind, store, id_)
        if mirrored is None:
            return None
        history = [_with_summary(row) for row in reader.timeline(kind, mirrored)]
        return {
            "mirrored": mirrored,
            "history": history,
            "incidents": _incidents(reader, kind, store, id_),
            "parts_rows": reader.parts(kind, store, id_),
        }

    found = await context.services.store.read(read)
    if found is None:
        raise NotFound(
            f"The mirror has no {kind} {id_} of store {store}. If it is new, its"
            " webhook may not have arrived yet."
        )
    facts = [
        (name.replace("_", " "), value)
        for name, value in found["mirrored"].items()
        if name not in HIDDEN and value not in {None, ""}
    ]
    return context.page(page_request, "object", kind=kind, facts=facts, **found)


def _incidents(reader: Reader, kind: str, store: str, id_: str) -> list[dict[str, Any]]:
    """Return the open incidents of an order; of other objects there are none."""
    if kind != "order":
        return []
    place = (store, id_)
    return [x for x in reader.incidents() if (x["store"], x["order_id"]) == place]


def _with_summary(row: dict[str, Any]) -> dict[str, Any]:
    """Add to an event a summary of its body, while the body is stored."""
    text = summary(row["name"], row["body"]) if row["body"] else ""
    return row | {"detail": "; ".join(part for part in (text, row["detail"]) if part)}


_THING = rf"/mirror/{{kind:{'|'.join(KINDS)}}}/{{store}}/{{id}}"
ROUTES = (
    Route("GET", "/mirror", Role.VIEWER, search),
    Route("GET", _THING, Role.VIEWER, show),
)
