"""Search in the mirror, and the history of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import Missing, Route
from backhaul.admin.context import before, pager
from backhaul.maintenance.search_indexer import summary
from backhaul.store.sqlite.board import KINDS
from backhaul.store.users import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import Desk, Visit
    from backhaul.store.sqlite.board import Board

MOST = 40
SEARCHED = ("order", "product", "customer")
HIDDEN = frozenset({"name", "document", "total_minor", "currency"})


async def search(desk: Desk, visit: Visit) -> web.Response:
    """Find things by words; without words show what changed last."""
    text, kind = visit.asked("q"), visit.asked("kind")
    kind = kind if kind in SEARCHED else None
    since = before(visit)
    rows, older = await desk.reading.ask(lambda board: _find(board, text, kind, since))
    return desk.page(
        visit,
        "mirror",
        rows=rows,
        pager=pager(visit, older),
        skipped=(since or 0) if text else 0,
        text=text or "",
        kind=kind,
        kinds=SEARCHED,
    )


def _find(
    board: Board, text: str | None, kind: str | None, since: int | None
) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page, and after what the next begins: a change, or so many found."""
    if text is not None:
        found = board.search(text, kind, MOST + 1, since or 0)
        older = (since or 0) + MOST if len(found) > MOST else None
    else:
        found = board.newest(kind, MOST + 1, since)
        is_full = len(found) > MOST
        older = int(found[MOST - 1]["change"]) if is_full else board.left_off(since)
    return found[:MOST], older


async def show(desk: Desk, visit: Visit) -> web.Response:
    """Show a thing with all that ever happened to it."""
    asked = visit.request.match_info
    kind, store, id_ = asked["kind"], asked["store"], asked["id"]

    def read(board: Board) -> dict[str, Any] | None:
        thing = board.thing(kind, store, id_)
        if thing is None:
            return None
        life = [_told(row) for row in board.life_of(kind, thing)]
        return {
            "thing": thing,
            "life": life,
            "incidents": _incidents(board, kind, store, id_),
            "parts_rows": board.parts(kind, store, id_),
        }

    found = await desk.reading.ask(read)
    if found is None:
        raise Missing(f"The mirror has no {kind} {id_} of store {store}.")
    facts = [
        (name.replace("_", " "), value)
        for name, value in found["thing"].items()
        if name not in HIDDEN and value not in {None, ""}
    ]
    return desk.page(visit, "object", kind=kind, facts=facts, **found)


def _incidents(board: Board, kind: str, store: str, id_: str) -> list[dict[str, Any]]:
    """Return the open incidents of an order; of other objects there are none."""
    if kind != "order":
        return []
    place = (store, id_)
    return [x for x in board.incidents() if (x["store"], x["order_id"]) == place]


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Say with an event what it told, as long as its body is kept."""
    said = summary(row["name"], row["body"]) if row["body"] else ""
    return row | {"detail": "; ".join(part for part in (said, row["detail"]) if part)}


_THING = rf"/mirror/{{kind:{'|'.join(KINDS)}}}/{{store}}/{{id}}"
ROUTES = (
    Route("GET", "/mirror", Role.VIEWER, search),
    Route("GET", _THING, Role.VIEWER, show),
)
