"""A slice of events has the same result as events folded one at a time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backhaul.store.inbox import Decoded
from backhaul.store.sql.inbox.fold import MOST_BYTES
from backhaul.store.sql.mirror.write import MOST_ERASURES
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.database import SqliteStore
from scenes import payloads
from scenes.clock import PacedClock, VirtualClock
from scenes.commands import plan
from scenes.databases import (
    count,
    fold_as_demo,
    make_database,
    rows,
    started_store,
    write,
)
from scenes.payloads import arrival, envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backhaul.store.inbox import Arrival, Folded, MirrorWriter, StoredEvent
    from scenes.payloads import Document

Event: TypeAlias = "bytes | Arrival"
TABLES = (
    *("event_outcomes", "changes", "orders", "order_items", "shipments", "products"),
    *("variants", "customers", "inventory_levels", "tombstones", "stock_ledger"),
    *("quarantine", "echoes", "incidents", "refetch_queue", "delivery_digests"),
    *("sku_spellings", "unreadable_orders"),
)
READS = {name: f"SELECT * FROM {name}" for name in TABLES}  # noqa: S608 - constants
READS["commands"] = "SELECT id, state, hold_reason, due_at FROM commands"
FAILS = "fails"
"""The note of an order whose fold fails after a write."""


def decode(event: StoredEvent) -> Decoded:
    decoded = fold_as_demo(event)

    def fold(mirror: MirrorWriter) -> Folded:
        folded = decoded.fold(mirror)
        if FAILS.encode() in event.body and folded.state != "duplicate":
            raise RuntimeError("a bug")
        return folded

    return Decoded(fold, decoded.concerned)


def order(
    id_: str, at: int, lines: int, parcels: int, note: str, *, cancelled: bool = False
) -> bytes:
    items = [payloads.item(f"li_{n}", quantity=n + 1) for n in range(lines)]
    sent = [payloads.shipment(f"shp_{id_}_{n}") for n in range(parcels)]
    shown = payloads.order(id_, at=at, items=items, shipments=sent, note=note)
    if cancelled:
        back = {"restocked": True, "cancelledAt": payloads.instant(2)}
        shown |= {"cancellation": back, "status": "CANCELLED"}
    return envelope("orders/updated", shown)


def product(id_: str, at: int, variants: Sequence[int], stock: int | None) -> Document:
    shown = [payloads.variant(f"var_{n}", stock, sku=f"LS-{n}") for n in variants]
    return payloads.product(id_, at, variants=shown)


def moves(
    product_id: str,
    at: int,
    id_: str | None,
    change: tuple[int, int],
    cause: str | None,
) -> Document:
    stock, adjustment = change
    shown = payloads.stock_change(
        at, stock, adjustment, productId=product_id, orderId=cause
    )
    (level,) = shown["levels"]
    levels = [level | {"variantId": f"var_{n}"} for n in range(1 + at % 2)]
    return shown | {"adjustmentId": id_, "levels": levels}


ORDERS = st.sampled_from(["ord_1", "ord_2", "ord_3"])
PRODUCTS = st.sampled_from(["prod_1", "prod_2"])
TIMES = st.integers(0, 3)
PRODUCT = st.builds(
    product,
    PRODUCTS,
    TIMES,
    st.lists(st.integers(0, 2), max_size=3, unique=True),
    st.sampled_from([None, 3, 7]),
)
MOVES = st.builds(
    moves,
    PRODUCTS,
    TIMES,
    st.sampled_from([None, "adj_1", "adj_2"]),
    st.sampled_from([(7, 0), (7, -2), (5, -2)]),
    st.sampled_from([None, None, "ord_1"]),
)
LEVEL = st.builds(
    lambda id_, n, stock, at: {
        "productId": id_,
        "variantId": f"var_{n}",
        "stock": stock,
        "updatedAt": payloads.instant(at),
    },
    PRODUCTS,
    st.integers(0, 2),
    st.integers(5, 7),
    TIMES,
)


GONE = payloads.read("orders/gone", {"id": "ord_1"})


def reads(topics: Sequence[str], data: st.SearchStrategy[Document]) -> Any:
    """Return objects that were read from the platform at several times."""
    return st.builds(payloads.read, st.sampled_from(topics), data, st.integers(28, 31))


EVENTS = st.one_of(
    st.builds(
        order,
        ORDERS,
        TIMES,
        st.integers(1, 3),
        st.integers(0, 2),
        st.sampled_from(["", "", "", "x", FAILS]),
        cancelled=st.sampled_from([False, False, True]),
    ),
    PRODUCT.map(lambda shown: envelope("products/update", shown)),
    st.builds(
        lambda id_, at: envelope("products/delete", payloads.deletion(id_, at)),
        PRODUCTS,
        TIMES,
    ),
    st.builds(
        lambda id_, at: envelope("customers/create", payloads.customer(id_, at)),
        st.sampled_from(["cus_1", "cus_2"]),
        TIMES,
    ),
    MOVES.map(lambda shown: envelope("inventory/level_update", shown)),
    st.builds(
        lambda id_, at: envelope(
            "orders/updated", payloads.order(id_, at, status=None)
        ),
        ORDERS,
        TIMES,
    ),
    reads(["inventory/history"], MOVES),
    reads(["inventory/read", "inventory/reread"], LEVEL),
    reads(["products/read", "products/reread", "inventory/shown/reread"], PRODUCT),
    reads(["orders/reread"], st.builds(payloads.order, ORDERS, TIMES)),
    reads(["orders/gone"], ORDERS.map(lambda id_: {"id": id_})),
    reads(["products/gone"], PRODUCTS.map(lambda id_: {"id": id_})),
    st.just(b"{"),
    st.just(envelope("orders/rated", payloads.order())),
)


async def plan_commands(store: SqliteStore) -> None:
    """Plan commands whose effects the events may show, and one on hold."""
    now = "2026-03-01T12:00:00.000Z"
    for number, (kind, target, columns) in enumerate(
        (
            ("fulfill", "ord_1", "state = 'applied', effect_id = 'shp_ord_1_0'"),
            ("fulfill", "ord_2", "state = 'uncertain'"),
            ("adjust", "prod_1", "state = 'applied', effect_id = 'adj_1'"),
            ("cancel", "ord_3", "hold_reason = 'order'"),
        )
    ):
        lane = f"{'product' if kind == 'adjust' else 'order'}:{target}"
        await plan(store, kind, target, lane=lane, identity=f"{number:032x}")
        write(
            store.path,
            f"UPDATE commands SET {columns}, attempts = 1, settled_at = ?"  # noqa: S608 - constants
            " WHERE id = ?",
            now,
            f"{number:032x}",
        )


async def folded(path: Path, bodies: Sequence[Event], most: int) -> dict[str, Any]:
    """Fold these events in slices of a limited size; return all tables."""
    make_database(path)
    async with started_store(path, VirtualClock()) as store:
        await plan_commands(store)
        for first in range(0, len(bodies), most):
            for body in bodies[first : first + most]:
                event = arrival(body) if isinstance(body, bytes) else body
                await store.inbox.append(event)
            while (await store.inbox.fold(decode, 9.0)).more:
                pass
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: sorted(connection.execute(query), key=repr)
            for name, query in READS.items()
        }


@given(bodies=st.lists(EVENTS, max_size=24))
@example(bodies=[order("ord_1", 0, 3, 1, ""), order("ord_1", 1, 1, 1, "")])
@example(bodies=[order("ord_1", 0, 3, 1, ""), GONE])
@example(bodies=[order("ord_1", 0, 3, 1, FAILS), order("ord_2", 1, 1, 1, "")])
@example(bodies=[order("ord_1", 0, 3, 1, ""), order("ord_2", 1, 1, 1, FAILS)])
@settings(max_examples=60, deadline=None)
async def test_a_slice_is_the_same_as_one_event_at_a_time(
    bodies: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("slices")
    alone = await folded(folder / "alone.db", bodies, 1)
    for most in (7, 256):
        assert await folded(folder / f"{most}.db", bodies, most) == alone


class Counting(Connection):
    """A connection that counts its statements."""

    statements = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        Counting.statements += 1
        return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        Counting.statements += 1
        return super().executemany(*arguments)


def counting(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, factory=Counting)
    connections.prepare_writer(connection)
    return connection


def order_events(count: int) -> list[bytes]:
    """Return events of orders: each placed, then shipped, every fourth cancelled."""
    shown = ((0, 0, False), (1, 1, False), (2, 1, True))
    return [
        order(f"ord_{n}", at, 2, parcels, "", cancelled=cancelled)
        for at, parcels, cancelled in shown
        for n in range(count)
        if n % 4 == 0 or not cancelled
    ]


def stock_events(count: int) -> list[bytes]:
    """Return events of stock changes of several products, each with two moves."""
    return [
        envelope(
            "inventory/level_update",
            moves(f"prod_{n}", 1, f"adj_{n}", (7, -2), None),
        )
        for n in range(count)
    ]


def catalogue_events(count: int) -> list[bytes]:
    """Return events of products with two variants, and of customers."""
    products = [product(f"prod_{n}", 0, [n, n + 1], 9) for n in range(count)]
    customers = [payloads.customer(f"cus_{n}") for n in range(count)]
    return [
        *(envelope("products/create", one) for one in products),
        *(envelope("customers/create", one) for one in customers),
    ]


async def statements_of(path: Path, events: Sequence[Sequence[bytes]]) -> list[int]:
    """Return the number of statements of each slice."""
    make_database(path)
    store = SqliteStore(path, VirtualClock(), counting)
    store.start()
    taken = []
    for bodies in events:
        for body in bodies:
            await store.inbox.append(arrival(body))
        before = Counting.statements
        report = await store.inbox.fold(decode, 9.0)
        taken.append(Counting.statements - before)
        assert report.folded == len(bodies)
        assert report.problems == ()
    await store.stop()
    return taken


@pytest.mark.parametrize(
    ("events", "most"),
    [(order_events, 25), (stock_events, 25), (catalogue_events, 25)],
)
async def test_the_statements_of_a_slice_do_not_depend_on_its_events(
    events: Callable[[int], list[bytes]], most: int, tmp_path: Path
) -> None:
    few = await statements_of(tmp_path / "few.db", [events(8)])
    many = await statements_of(tmp_path / "many.db", [events(64)])
    assert many == few
    assert many[0] <= most


def mixed_events(count: int, at: int) -> list[bytes]:
    """Return events of orders, products and stock changes as of a time."""
    products = [product(f"prod_{n}", at, [n], 9 + at) for n in range(count)]
    changes = [moves(f"prod_{n}", 4, None, (at, 0), None) for n in range(count)]
    return [
        *(order(f"ord_{n}", at, 2, at, "") for n in range(count)),
        *(envelope("products/update", one) for one in products),
        *(envelope("inventory/level_update", one) for one in changes),
    ]


async def test_objects_that_are_known_are_read_at_once(tmp_path: Path) -> None:
    """Each slice has events about the objects of the previous slice."""
    few, many = [
        await statements_of(
            tmp_path / f"{count_}.db", [mixed_events(count_, at) for at in range(3)]
        )
        for count_ in (8, 64)
    ]
    assert many == few
    assert max(many) <= 32


def erase_others(path: Path, number: int) -> None:
    """Erase customers that occur in no event."""
    make_database(path)
    others = [(f"a_{n}",) for n in range(number)]
    with closing(sqlite3.connect(path)) as connection, connection:
        insert = "INSERT INTO erased_customers VALUES ('main', ?, '')"
        connection.executemany(insert, others)


async def test_an_erased_customer_costs_no_statement_for_each_event(
    tmp_path: Path,
) -> None:
    taken = []
    for count_ in (8, 64):
        path = tmp_path / f"{count_}.db"
        erase_others(path, 1)
        taken.append(await statements_of(path, [order_events(count_)]))
    few, many = taken
    assert many == few


@pytest.mark.parametrize("others", [0, 2 * MOST_ERASURES])
async def test_an_erased_customer_is_found_among_many(
    others: int, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    erase_others(path, others)
    write(path, "INSERT INTO erased_customers VALUES ('main', 'cus_1', '')")
    await statements_of(path, [[order("ord_1", 1, 1, 0, "a note")]])
    ((document,),) = rows(path, "SELECT document FROM orders")
    assert "Asha" not in document


async def test_the_rows_of_a_slice_are_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    bodies = [order(f"ord_{number}", 1, 3, 0, "") for number in range(100)]
    (taken,) = await statements_of(path, [bodies])
    assert count(path, "order_items") == 300
    assert taken <= 20


async def test_a_slice_reads_only_as_many_bytes_as_fit_into_memory(
    tmp_path: Path,
) -> None:
    """A slice decodes all its events before it folds them, and bodies may be large."""
    note = "n" * (MOST_BYTES // 3)
    path = tmp_path / "backhaul.db"
    make_database(path)
    async with started_store(path, VirtualClock()) as store:
        for n in range(5):
            await store.inbox.append(arrival(order(f"ord_{n}", 1, 1, 0, note)))
        first = await store.inbox.fold(decode, 9.0)
        assert (first.folded, first.more) == (3, True)
        second = await store.inbox.fold(decode, 9.0)
        assert (second.folded, second.more) == (2, False)


async def test_an_event_that_fails_is_not_the_first_with_its_body(
    tmp_path: Path,
) -> None:
    """A slice read its digest, and ended before it folded the event."""
    path, clock = tmp_path / "backhaul.db", PacedClock()
    make_database(path)
    fails = order("ord_1", 0, 1, 0, FAILS)

    def slow(event: StoredEvent) -> Decoded:
        decoded = decode(event)

        def fold(mirror: MirrorWriter) -> Folded:
            clock.pass_seconds(10)
            return decoded.fold(mirror)

        return Decoded(fold, decoded.concerned)

    async with started_store(path, clock) as store:
        for body in (order("ord_2", 0, 1, 0, ""), fails, fails):
            await store.inbox.append(arrival(body))
        assert (await store.inbox.fold(slow, 9.0)).folded == 1
        while (await store.inbox.fold(decode, 9.0)).more:
            pass
    states = rows(path, "SELECT state FROM event_outcomes ORDER BY id")
    assert [state for (state,) in states] == ["folded", "quarantined", "quarantined"]
