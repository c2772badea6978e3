"""Shipping quotes: which zone covers an address and its price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.writer import Tx

EVERYWHERE: Document = {
    "name": "Everywhere",
    "rates": [{"name": "Free", "price": 0, "minSubtotal": None, "maxSubtotal": None}],
}
PLACES = ("countries", "provinces", "cities", "zips")


@dataclass(frozen=True, slots=True)
class Destination:
    """What of an address decides its zone."""

    country: str
    province: str | None
    city: str | None
    zip: str | None


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
