"""Shipping zones: the merchant's list, and the quote for an address."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

EVERYWHERE: Document = {
    "name": "Everywhere",
    "rates": [{"name": "Free", "price": 0, "minSubtotal": None, "maxSubtotal": None}],
}
PLACES = ("countries", "provinces", "cities", "zips")
AS_JSON = (*PLACES, "rates")
ORDER = "priority, id"


@dataclass(frozen=True, slots=True)
class Destination:
    """What of an address decides its zone."""

    country: str
    province: str | None
    city: str | None
    zip: str | None


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
    return view(tx, store, add_zone(tx, store.id, values))


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
    lists = {name: decode_stored(row[name]) for name in PLACES}
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


def add_zone(tx: Tx, store_id: str, zone: Document) -> str:
    zone_id = tx.ids.new("zon")
    values: dict[str, Any] = {"id": zone_id, "store_id": store_id, "name": zone["name"]}
    values["priority"] = zone.get("priority", 0)
    for place in PLACES:
        values[place] = encode_text(zone.get(place, []))
    tx.insert("zone", {**values, "rates": encode_text(zone["rates"])})
    return zone_id


def clear_zones(tx: Tx, store_id: str) -> None:
    tx.run("DELETE FROM zone WHERE store_id = ?", (store_id,))


def quote(rows: Rows, store_id: str, to: Destination, subtotal: int) -> int | None:
    """The cheapest rate of the first zone that covers the address, else None."""
    zones = rows.all(
        "SELECT * FROM zone WHERE store_id = ? ORDER BY priority, id", (store_id,)
    )
    for zone in zones:
        if covers(zone, to):
            return cheapest(decode_stored(zone["rates"]), subtotal)
    return None


def covers(zone: Row, to: Destination) -> bool:
    names = (
        ("countries", to.country),
        ("provinces", to.province),
        ("cities", to.city),
    )
    if not all(_named(decode_stored(zone[kind]), name) for kind, name in names):
        return False
    zips = decode_stored(zone["zips"])
    return not zips or any(zip_matches(pattern, to.zip or "") for pattern in zips)


def _named(wanted: Sequence[str], name: str | None) -> bool:
    return not wanted or (name or "").casefold() in {one.casefold() for one in wanted}


def zip_matches(pattern: str, code: str) -> bool:
    """Exact, a prefix `12*`, or a range `100...200`."""
    code, pattern = code.strip().casefold(), pattern.strip().casefold()
    low, dots, high = pattern.partition("...")
    if dots:
        digits = all(part.isascii() and part.isdigit() for part in (low, high, code))
        return digits and int(low) <= int(code) <= int(high)
    if pattern.endswith("*"):
        return code.startswith(pattern[:-1])
    return code == pattern


def cheapest(rates: Sequence[Document], subtotal: int) -> int | None:
    prices = [
        rate["price"]
        for rate in rates
        if (rate["minSubtotal"] is None or subtotal >= rate["minSubtotal"])
        and (rate["maxSubtotal"] is None or subtotal <= rate["maxSubtotal"])
    ]
    return min(prices, default=None)
