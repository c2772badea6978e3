"""Objects that conformance tests write into the mirror as a fold does, and read there.

A matching reads the mirror with `match_with`; the tables are read as exports read them.
"""

# ruff: noqa: S101 - these are helpers of tests, which assert

from __future__ import annotations

import json
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from backhaul.core.clock import SystemClock
from backhaul.core.fold import Version
from backhaul.core.resources import (
    Customer,
    Deletion,
    Item,
    Level,
    Order,
    Product,
    StockChange,
    StockMove,
    Variant,
)
from backhaul.store import database_at
from backhaul.store.inbox import Folded
from backhaul.store.records import Known, NewRecord
from backhaul.store.testing.event_scenes import NOON, arrive, fold_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.read_records import FoundObject

T = TypeVar("T")
_NUMBERS = count(1)


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
    event = await arrive(store, body, name, topic=f"{kind}s/updated")

    def fold(stored: StoredEvent, mirror: MirrorWriter) -> Folded:
        write(mirror, stored.id)
        return Folded("folded", stored.topic, None, kind, object_id)

    await fold_with(store, fold)
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


async def show_gone(store: Store, kind: str, id_: str, second: int = 30) -> None:
    """Let an event report that an object was deleted."""
    gone = version(second, b"gone")

    def write(mirror: MirrorWriter, event: int) -> None:
        if kind == "product":
            mirror.delete_product("main", Deletion(id_, gone.updated_at), gone)
        else:
            mirror.remove(kind, "main", id_, gone)
        mirror.add_change("main", kind, id_, "deleted", event)

    await show(store, kind, id_, write)


async def match_with(
    store: Store,
    use: Callable[[MatchReader], T],
    name: str = "main",
    key: str = "",
) -> T:
    """Call a function in the matching of a record of connection `reader`."""
    found: list[T] = []

    def match(_: WaitingRecord, mirror: MatchReader) -> Known:
        found.append(use(mirror))
        return Known(None, "a test")

    key = key or f"match with {next(_NUMBERS)}"
    record = NewRecord(key, b"null", "", "", "")
    (outcome,) = await store.records.accept("reader", name, [record], None, match)
    assert found, outcome.reason
    return found[-1]


def rows_of(
    store: Store, table: str, /, *columns: str, **wanted: object
) -> list[tuple[Any, ...]]:
    """Return columns of a table of docs/mirror.md, in the order of its key.

    `wanted` are the values that columns must have.
    """
    with database_at(store.place).console(SystemClock()) as console:
        names = console.columns(table)
        rows = [row for page in console.pages(table) for row in page]
    places = [names.index(column) for column in columns]
    filters = [(names.index(name), value) for name, value in wanted.items()]
    return [
        tuple(row[place] for place in places)
        for row in rows
        if all(row[place] == value for place, value in filters)
    ]


async def find_objects(store: Store, kind: str, name: str) -> list[FoundObject]:
    """Return the objects that a typed name may mean."""
    return await store.read(lambda reader: reader.find_objects(kind, name))
