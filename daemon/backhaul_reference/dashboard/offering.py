"""Offering: what the pickers of a form list, the newest or what was searched for."""

from collections.abc import Collection, Sequence

from backhaul_reference.dashboard.visit import Visit
from backhaul_reference.state import products
from backhaul_reference.state.database import Rows
from backhaul_reference.state.paging import Window
from backhaul_reference.web import queries

OFFERED = Window(1, 100)
TITLE = "SELECT id, title FROM product WHERE store_id = ? AND id = ?"
SHELVES = """SELECT id, title FROM collection WHERE store_id = ?
AND (? IS NULL OR type = ?) ORDER BY created_ms DESC, id DESC"""


def goods(visit: Visit, also: Sequence[str] = ()) -> dict[str, str]:
    """Titles of products by id; those in `also` whatever was searched for."""
    store, filters = visit.store, {"search": queries.search(visit.query)}

    def find(rows: Rows) -> dict[str, str]:
        listed = products.page(rows, store, filters, OFFERED).rows
        found = {one["id"]: one["title"] for one in listed}
        return found | titled(rows, store.id, also)

    return visit.read(find)


def titled(rows: Rows, store_id: str, product_ids: Sequence[str]) -> dict[str, str]:
    """What these products are called; one that is gone is left out."""
    found = (rows.one(TITLE, (store_id, product_id)) for product_id in product_ids)
    return {row["id"]: row["title"] for row in found if row is not None}


def shelves(
    visit: Visit, also: Collection[str] = (), kind: str | None = None
) -> dict[str, str]:
    """The same of collections, all or those of one type."""
    wanted = queries.search(visit.query) or ""
    every = visit.read(lambda rows: rows.all(SHELVES, (visit.store.id, kind, kind)))
    fit = [row["id"] for row in every if wanted in row["title"].casefold()]
    shown = {*fit[: OFFERED.limit], *also}
    return {row["id"]: row["title"] for row in every if row["id"] in shown}
