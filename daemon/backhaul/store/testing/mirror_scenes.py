"""Objects that conformance tests write into the mirror as a fold does."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.core.fold import Version
from backhaul.core.resources import (
    Customer,
    Item,
    Level,
    Order,
    Product,
    StockChange,
    StockMove,
    Variant,
)
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.testing.scenes import without_decoding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent

NOON = "2026-03-01T12:00:00.000Z"


async def show(
    store: Store,
    kind: str,
    object_id: str,
    write: Callable[[MirrorWriter, int], None],
    *,
    name: str = "main",
    body: bytes = b"{}",
) -> int:
    """Append an event and fold it by `write`; return its id."""
    event = await store.inbox.append(
        Arrival(name, "delivery", f"{kind}s/updated", NOON, b"{}", body)
    )

    def fold(stored: StoredEvent, mirror: MirrorWriter) -> Folded:
        write(mirror, stored.id)
        return Folded("folded", stored.topic, None, kind, object_id)

    await store.inbox.fold(without_decoding(fold), 1.0)
    return event


def version(second: int, document: bytes) -> Version:
    """Return the version of a document, of so many seconds after noon."""
    updated_at = f"2026-03-01T12:{second // 60:02}:{second % 60:02}.000Z"
    return Version(updated_at, second, True, updated_at, sha256(document).digest())


async def show_order(
    store: Store,
    id_: str = "ord_1",
    second: int = 0,
    *,
    name: str = "main",
    effects: Sequence[str] = (),
    **members: Any,
) -> None:
    """Let an event show an order; `effects` are those of commands that it shows."""
    shown = order(id_, second, **members)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.record_effects(name, f"order:{id_}", effects, event)
        mirror.put_order(name, shown, version(second, shown.document))
        mirror.add_change(name, "order", id_, "updated", event)

    await show(store, "order", id_, write, name=name)


def order(id_: str = "ord_1", second: int = 0, **members: Any) -> Order:
    """Return an order of one line."""
    number = int(id_.removeprefix("ord_"))
    at = version(second, b"").updated_at
    document = {"id": id_, "updatedAt": at, "customer": members.pop("customer", None)}
    found = Order(
        id=id_,
        number=1000 + number,
        name=f"#{1000 + number}",
        external_id=None,
        awaiting_confirmation=False,
        status="PENDING",
        financial_status="PENDING",
        fulfillment_status="UNFULFILLED",
        placed_at=NOON,
        cancelled_at=None,
        total_minor=100,
        currency="INR",
        customer_id=None,
        updated_at=at,
        items=(Item(f"li_{number}", "prod_1", "var_1", "SKU", "Lamp", 2, 0, 50),),
        shipments=(),
        document=json.dumps(document).encode(),
    )
    return replace(found, **members)


def product_of(id_: str = "prod_1", second: int = 0, variants: int = 1) -> Product:
    """Return a product of so many variants; their SKUs belong to the product."""
    number = id_.removeprefix("prod_")
    at = version(second, b"").updated_at
    document = json.dumps({"id": id_, "updatedAt": at}).encode()
    ends = ["", *(f"_{n}" for n in range(1, variants))][:variants]
    shown = tuple(
        Variant(f"var_{number}{end}", f"SKU-{number}{end}", None, "small", 100)
        for end in ends
    )
    return Product(id_, "lamp", "Lamp", "active", None, at, shown, (), document)


async def show_product(
    store: Store, id_: str = "prod_1", second: int = 0, *, name: str = "main"
) -> None:
    """Let an event show a product of one variant; the SKU belongs to the product."""
    product = product_of(id_, second)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_product(name, product, "INR", version(second, product.document))
        mirror.add_change(name, "product", id_, "updated", event)

    await show(store, "product", id_, write, name=name)


async def show_level(
    store: Store,
    stock: int,
    second: int = 0,
    *,
    adjustment: str = "",
    delta: int = 0,
    reason: str = "MANUAL",
    product: str = "prod_1",
    name: str = "main",
) -> None:
    """Let an event show a product's stock, by an adjustment if it is named."""
    level = Level(product, product.replace("prod", "var"), stock)
    at = version(second, b"").updated_at
    change = StockChange(
        adjustment, product, None, at, (StockMove(level, delta, reason),)
    )

    def write(mirror: MirrorWriter, event: int) -> None:
        if adjustment:
            mirror.record_effects(name, f"product:{product}", [adjustment], event)
            mirror.add_moves(name, change, "")
        mirror.put_level(name, level, version(second, str(stock).encode()))
        mirror.add_change(name, "level", product, "updated", event)

    await show(store, "level", product, write, name=name)


async def show_customer(store: Store, id_: str, email: str, name: str = "main") -> None:
    """Let an event show a customer."""
    document = json.dumps({"id": id_, "name": "Asha", "email": email}).encode()
    customer = Customer(id_, "Asha", email, None, NOON, document)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_customer(name, customer, version(0, document))
        mirror.add_change(name, "customer", id_, "updated", event)

    await show(store, "customer", id_, write, name=name, body=document)
