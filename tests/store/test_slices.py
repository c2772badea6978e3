"""A slice of events leaves what the same events leave when folded one at a time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.database import SqliteStore
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.databases import count, fold_as_demo, make_database, started_store
from scenes.payloads import arrival, envelope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from backhaul.store.inbox import Arrival, Folded, MirrorWriter, StoredEvent

Event: TypeAlias = "bytes | Arrival"
TABLES = (
    *("event_outcomes", "changes", "orders", "order_items", "shipments", "products"),
    *("variants", "customers", "inventory_levels", "tombstones", "stock_ledger"),
    "quarantine",
)
FAILS = "fails"
"""The note of an order whose fold fails after it has written."""


def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    folded = fold_as_demo(event, mirror)
    if FAILS.encode() in event.body:
        raise RuntimeError("a bug")
    return folded


def order(id_: str, at: int, lines: int, parcels: int, note: str) -> bytes:
    items = [payloads.item(f"li_{n}", quantity=n + 1) for n in range(lines)]
    sent = [payloads.shipment(f"shp_{id_}_{n}") for n in range(parcels)]
    shown = payloads.order(id_, at=at, items=items, shipments=sent, note=note)
    return envelope("orders/updated", shown)


def gone(id_: str) -> Arrival:
    return payloads.read("orders/gone", {"id": id_})


EVENTS = st.one_of(
    st.builds(
        order,
        st.sampled_from(["ord_1", "ord_2", "ord_3"]),
        st.integers(0, 3),
        st.integers(1, 3),
        st.integers(0, 2),
        st.sampled_from(["", "", "", "x", FAILS]),
    ),
    st.builds(
        lambda id_, at: envelope("products/update", payloads.product(id_, at)),
        st.sampled_from(["prod_1", "prod_2"]),
        st.integers(0, 3),
    ),
    st.builds(
        lambda id_, at: envelope("products/delete", payloads.deletion(id_, at)),
        st.sampled_from(["prod_1", "prod_2"]),
        st.integers(0, 3),
    ),
    st.builds(
        lambda id_, at: envelope("customers/create", payloads.customer(id_, at)),
        st.sampled_from(["cus_1", "cus_2"]),
        st.integers(0, 3),
    ),
    st.builds(gone, st.sampled_from(["ord_1", "ord_2"])),
    st.just(b"{"),
)


async def folded(path: Path, bodies: Sequence[Event], seconds: float) -> dict[str, Any]:
    """Fold these events in slices of so many seconds; return all tables."""
    make_database(path)
    async with started_store(path, VirtualClock()) as store:
        for body in bodies:
            event = arrival(body) if isinstance(body, bytes) else body
            await store.inbox.append(event)
        while (await store.inbox.fold(fold, seconds)).more:
            pass
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr)  # noqa: S608 - constants
            for name in TABLES
        }


@given(bodies=st.lists(EVENTS, max_size=12))
@example(bodies=[order("ord_1", 0, 3, 1, ""), order("ord_1", 1, 1, 1, "")])
@example(bodies=[order("ord_1", 0, 3, 1, ""), gone("ord_1")])
@example(bodies=[order("ord_1", 0, 3, 1, FAILS), order("ord_2", 1, 1, 1, "")])
@settings(max_examples=60, deadline=None)
async def test_a_slice_is_the_same_as_one_event_at_a_time(
    bodies: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("slices")
    together = await folded(folder / "together.db", bodies, 9.0)
    assert together == await folded(folder / "alone.db", bodies, 0.0)


class Counting(Connection):
    """A connection that counts the statements it is given."""

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


async def test_lines_and_changes_of_a_slice_are_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    make_database(path)
    store = SqliteStore(path, VirtualClock(), counting)
    store.start()
    for number in range(100):
        body = order(f"ord_{number}", 1, 3, 0, "")
        await store.inbox.append(arrival(body))
    before = Counting.statements
    report = await store.inbox.fold(fold, 9.0)
    taken = Counting.statements - before
    await store.stop()
    assert report.folded == 100
    assert count(path, "order_items") == 300
    # For each event its digest, the stored version and the order itself.
    assert taken < 3 * 100 + 20
