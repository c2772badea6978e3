"""The platform's lists: the path of each, and how to read its rows."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.clock import normalize
from backhaul.errors import Unusable
from backhaul.platform import decoding
from backhaul.platform.fields import identity, time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ListRow(msgspec.Struct, frozen=True):
    """A row of a list: its exact bytes, its object's id and its time.

    `id` is empty if the row cannot be read. Such a row is passed on nevertheless, so
    that it ends up in quarantine.
    """

    id: str
    updated_at: str
    body: bytes


class ResourceType(msgspec.Struct, frozen=True):
    """A list of the platform, and how its rows are compared with the mirror."""

    name: str
    singular: str
    path: str
    topic: str
    rows: Callable[[bytes, str], Iterable[ListRow]]
    """Returns the rows of one list element; the text is the latest time of its read."""
    digest: Callable[[bytes, str], bytes]
    """Returns the SHA-256 of the mirror's content; the text is the store's currency."""
    deletable: bool = True
    """Whether the platform deletes such rows, so that the list can also shrink."""


class _Head(msgspec.Struct, rename="camel"):
    id: str
    updated_at: str


class _LevelHead(msgspec.Struct, rename="camel"):
    variant_id: str
    updated_at: str


class _ShownLevel(msgspec.Struct, rename="camel"):
    product_id: str
    variant_id: str
    stock: int
    updated_at: str


def _object(body: bytes, _: str) -> Iterable[ListRow]:
    try:
        head = msgspec.json.decode(body, type=_Head)
        yield ListRow(head.id, normalize(head.updated_at), body)
    except (msgspec.MsgspecError, ValueError):
        yield _odd_row(body, "id")


def _level(body: bytes, _: str) -> Iterable[ListRow]:
    try:
        head = msgspec.json.decode(body, type=_LevelHead)
        yield ListRow(head.variant_id, normalize(head.updated_at), body)
    except (msgspec.MsgspecError, ValueError):
        yield _odd_row(body, "variantId")


def _odd_row(body: bytes, key: str) -> ListRow:
    """Read the id and time of a row that breaks the contract."""
    try:
        data = strict_json.decode_object(body)
        id_, at = identity(data.get(key)), time(data.get("updatedAt"))
        return ListRow(id_, at, body)
    except Unusable:
        return ListRow("", "", body)


def _shown_levels(body: bytes, read_at: str) -> Iterable[ListRow]:
    """Yield the levels of a product, with the time at which it was read.

    A product's own `updatedAt` does not change with its stock.
    """
    try:
        levels = decoding.product(strict_json.decode_object(body), "").levels
    except Unusable:
        return
    for shown in levels:
        level = _ShownLevel(shown.product_id, shown.variant_id, shown.stock, read_at)
        yield ListRow(shown.variant_id, read_at, msgspec.json.encode(level))


def _order_digest(body: bytes, _: str) -> bytes:
    return sha256(decoding.order(strict_json.decode_object(body)).document).digest()


def _product_digest(body: bytes, currency: str) -> bytes:
    product = decoding.product(strict_json.decode_object(body), currency)
    return sha256(product.document).digest()


def _customer_digest(body: bytes, _: str) -> bytes:
    return sha256(decoding.customer(strict_json.decode_object(body)).document).digest()


def _level_digest(body: bytes, _: str) -> bytes:
    level, _updated_at = decoding.level(strict_json.decode_object(body))
    return sha256(str(level.stock).encode()).digest()


PRODUCTS = ResourceType(
    "products", "product", "/products", "products/read", _object, _product_digest
)
ORDERS = ResourceType(
    "orders",
    "order",
    "/orders",
    "orders/read",
    _object,
    _order_digest,
    deletable=False,
)
CUSTOMERS = ResourceType(
    "customers", "customer", "/customers", "customers/read", _object, _customer_digest
)
LEVELS = ResourceType(
    "levels",
    "level",
    "/inventory",
    "inventory/read",
    _level,
    _level_digest,
)
SHOWN_LEVELS = ResourceType(
    "levels",
    "level",
    "/products",
    "inventory/read",
    _shown_levels,
    _level_digest,
)
"""Levels as products show them, for a platform without a list of levels."""

KINDS: Mapping[str, ResourceType] = {
    kind.name: kind for kind in (PRODUCTS, LEVELS, ORDERS, CUSTOMERS)
}


BACKFILL = "backfill"
FULL = "full"
SINCE = "since"
"""The job of a pass over the orders since a time that an operator chose."""
PATH = "/api/reconcile"


class SyncRequest(Struct, frozen=True):
    """The lists to read; an empty `stores` or `kinds` means all of them."""

    job: str
    stores: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
