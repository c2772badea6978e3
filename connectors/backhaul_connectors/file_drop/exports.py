"""Writes changes of the store as export files, each atomically and once."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Any

from backhaul_connectors.file_drop.files import EXPORTED, unfinished_name
from backhaul_sdk import Absent, Applied, CheckFailed, Found, NotSent, Uncertain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul_connectors.file_drop.folder import DropFolder
    from backhaul_sdk import Change
    from backhaul_sdk.contract import LookedUp, Pushed


_ORDER = {
    "order": "name",
    "order_id": "id",
    "placed_at": "placedAt",
    "status": "status",
    "payment": "financialStatus",
    "fulfillment": "fulfillmentStatus",
    "currency": "currency",
    "total": "totals.total",
    "customer": "customer.name",
    "email": "customer.email",
    "ship_to": "shippingAddress.name",
    "phone": "shippingAddress.phone",
    "address1": "shippingAddress.address1",
    "address2": "shippingAddress.address2",
    "zip": "shippingAddress.zip",
    "city": "shippingAddress.city",
    "country": "shippingAddress.country",
    "sku": "items.sku",
    "title": "items.title",
    "quantity": "items.quantity",
    "unit_price": "items.unitPrice",
}
_PRODUCT = {
    "product_id": "id",
    "title": "title",
    "status": "status",
    "variant_id": "variants.id",
    "sku": "variants.sku",
    "price": "variants.price",
    "stock": "variants.stock",
}
_STOCK = {
    "sku": "sku",
    "stock": "stock",
    "product_id": "productId",
    "variant_id": "variantId",
}
_CUSTOMER = {"customer_id": "id", "name": "name", "email": "email", "phone": "phone"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "order.placed": _ORDER,
    "order.updated": _ORDER,
    "order.cancelled": _ORDER,
    "product.updated": _PRODUCT,
    "product.deleted": _PRODUCT,
    "stock.changed": _STOCK,
    "customer.updated": _CUSTOMER,
}
LISTS = ("items", "variants")
"""Lists whose elements become one row each."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_UNUSUAL = re.compile(r"[^A-Za-z0-9]+")


def file_name(change: Change, ending: str) -> str:
    """Return the file name of a change: always the same, and sorted by time."""
    moment = _UNUSUAL.sub("", change.occurred_at)[:32]
    object_id = _UNUSUAL.sub("_", change.object_id)[:64]
    mark = hashlib.sha256(change.id.encode(errors="replace")).hexdigest()[:16]
    return f"{moment}-{change.topic}-{object_id}-{mark}.{ending}"


def content_of(change: Change, ending: str) -> bytes:
    """Return the file: JSON has the whole document, CSV the columns of its topic."""
    return _as_json(change) if ending == "jsonl" else _as_csv(change)


def _as_json(change: Change) -> bytes:
    said = {
        "id": change.id,
        "topic": change.topic,
        "occurredAt": change.occurred_at,
        "store": change.store,
        "document": change.document,
    }
    return f"{json.dumps(said, ensure_ascii=True)}\n".encode()


def _as_csv(change: Change) -> bytes:
    """Return CSV with the byte-order mark that spreadsheets need for UTF-8."""
    columns = COLUMNS[change.topic]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["topic", "occurred_at", *columns])
    for row in _rows(change.document):
        cells = (_at(row, path) for path in columns.values())
        writer.writerow([change.topic, change.occurred_at, *map(cell_text, cells)])
    return out.getvalue().encode("utf-8-sig", "replace")


def _rows(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the document once for each element of its list, or once without a list."""
    name = next((each for each in LISTS if document.get(each)), None)
    elements = document[name] if name else ()
    if not isinstance(elements, list | tuple) or name is None or not elements:
        yield {key: value for key, value in document.items() if key not in LISTS}
        return
    for element in elements:
        yield {**document, name: element}


def _at(document: Mapping[str, Any], path: str) -> object:
    found: Any = document
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def cell_text(value: object) -> str:
    """Return a cell that no spreadsheet runs as a formula; numbers stay numbers."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return (
            json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
        )
    is_formula = value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value


class Outbox:
    """The folder `folder` from which the back office takes export files.

    A change is delivered when its unfinished file gets its final name. Before that a
    copy goes to `exported/`, so that a file that was taken away differs from a file
    that was never written.
    """

    def __init__(self, place: DropFolder, folder: str, ending: str) -> None:
        self._place = place
        self._folder = folder
        self._ending = ending

    async def push(self, change: Change) -> Pushed:
        name = file_name(change, self._ending)
        content = content_of(change, self._ending)
        try:
            await self._place.put(self._folder, name, content)
            await self._place.write(EXPORTED, name, content)
        except self._place.failures as error:
            return NotSent(f"{name} could not be written: {error}")
        try:
            await self._place.publish(self._folder, name)
        except self._place.failures as error:
            return Uncertain(f"it is unknown whether {name} was renamed: {error}")
        return Applied(name)

    async def lookup(self, change: Change) -> LookedUp:
        name = file_name(change, self._ending)
        try:
            if await self._place.exists(self._folder, unfinished_name(name)):
                return Absent()
            is_out = await self._place.exists(EXPORTED, name)
        except self._place.failures as error:
            raise CheckFailed(f"the folder cannot be read: {error}") from None
        return Found(name) if is_out else Absent()
