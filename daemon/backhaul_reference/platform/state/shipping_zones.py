"""Shipping zones as the merchant reads and edits them."""

from typing import Any

from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import shipping_rates
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

AS_JSON = (*shipping_rates.PLACES, "rates")
ORDER = "priority, id"


def page(rows: Rows, store: Store, window: Window) -> Listing:
    """All zones, in the order in which they are asked."""
    found = listing(rows, "zone", store.id, {}, window, newest=ORDER)
    return Listing([_view(store, row) for row in found.rows], found.total)


def every(rows: Rows, store: Store) -> list[Document]:
    found = rows.all(
        f"SELECT * FROM zone WHERE store_id = ? ORDER BY {ORDER}",  # noqa: S608  - a literal above
        (store.id,),
    )
    return [_view(store, row) for row in found]


def view(rows: Rows, store: Store, zone_id: str) -> Document:
    return _view(store, _find(rows, store, zone_id))


def _find(rows: Rows, store: Store, zone_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM zone WHERE id = ? AND store_id = ?", (zone_id, store.id)
    )
    if row is None:
        raise not_found("ZONE")
    return row


def create(tx: Tx, store: Store, values: Document) -> Document:
    return view(tx, store, shipping_rates.add_zone(tx, store.id, values))


def change(tx: Tx, store: Store, zone_id: str, values: dict[str, Any]) -> Document:
    _find(tx, store, zone_id)
    columns = {
        name: encode_text(value) if name in AS_JSON else value
        for name, value in values.items()
    }
    if columns:
        tx.update("zone", zone_id, columns)
    return view(tx, store, zone_id)


def delete(tx: Tx, store: Store, zone_id: str) -> Document:
    _find(tx, store, zone_id)
    tx.run("DELETE FROM zone WHERE id = ?", (zone_id,))
    return {"id": zone_id, "deleted": True}


def _view(store: Store, row: Row) -> Document:
    lists = {name: decode_stored(row[name]) for name in shipping_rates.PLACES}
    rates = [_rate(store, rate) for rate in decode_stored(row["rates"])]
    names = ("id", "name", "priority")
    return {**{name: row[name] for name in names}, **lists, "rates": rates}


def _rate(store: Store, rate: Document) -> Document:
    amounts = ("price", "minSubtotal", "maxSubtotal")
    shown = {
        name: None if rate[name] is None else store.money(rate[name])
        for name in amounts
    }
    return {"name": rate["name"], **shown}
