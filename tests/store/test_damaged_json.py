"""One row with damaged JSON stops no other row.

Nothing of this row is sent; an operator must decide about it.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.effect_proof import Move, TagMeaning
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import Cause, State
from backhaul.maintenance.search_indexer import describe
from backhaul.store import sqlite
from backhaul.store.commands import Decision, Sendable, TaggedAdjustment, Transition
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.filters import Filter
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.sql.commands.queries import planned
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.read_models.timeline import FIND, GUEST, OBJECT, TIMELINE
from backhaul.store.sql.stock_targets import stock_snapshot
from backhaul.store.sqlite.connections import Connection
from backhaul_sdk import StockLevel
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.databases import (
    append_and_fold,
    fold_in_turn,
    put_target,
    rows,
    started_store,
    write,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable

    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.sqlite.database import SqliteStore

NOW = "2026-03-01T12:00:00.000Z"
GATES = {"cancel": "9999", "fulfill": "9999", "adjust": "9999"}
BAD, GOOD = "b" * 32, "c" * 32
ADJUST = '{"variant_id": "var_1", "delta": -5}'
INSERT = """
    INSERT INTO commands (id, store, kind, target, lane, state, payload, cause,
      instance, created_at, due_at, sent_at, attempts, effect_id, evidence)
    VALUES (?, 'main', ?, ?, ?, ?, CAST(? AS TEXT), '', 'books', ?, ?, ?, ?, ?, ?)
"""
VALUES = {
    "store": "main",
    "now": NOW,
    "product": "prod_1",
    "variant": "var_1",
    "object": "prod_1",
    "id": "var_1",
    "name": "cus_1",
    "bare": "1001",
    "number": 1001,
    "guest": None,
    "email": "asha@example.com",
    "as_of": "9999",
    "since": "",
    "patience": "",
    "studied_at": None,
}


@pytest.fixture(params=[b'{"delta": -5, "va', b'{"variant_id\xff": "var_1"}', b""])
def damaged(request: pytest.FixtureRequest) -> bytes:
    payload: bytes = request.param
    return payload


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db", VirtualClock()) as started:
        product = payloads.envelope("products/update", payloads.product())
        order = payloads.envelope("orders/create", payloads.order("ord_1"))
        assert await append_and_fold(started, product, order) == []
        yield started


def put(
    store: SqliteStore,
    id_: str,
    state: str,
    payload: bytes | str,
    about: tuple[str, str] = ("adjust", "prod_1"),
    *,
    effect: str | None = None,
    evidence: bytes | None = None,
    lane: str = "",
) -> None:
    """Insert a command without a digest, as an old version did."""
    kind, target = about
    sent = NOW if state not in {"planned"} else None
    own = lane or f"{'product' if kind == 'adjust' else 'order'}:{target}"
    kept = evidence.decode(errors="surrogateescape") if evidence else None
    write(
        store.path,
        INSERT,
        *(id_, kind, target, own, state, payload, NOW, NOW, sent),
        *(int(sent is not None), effect, kept),
    )


def states(store: SqliteStore) -> dict[str, str]:
    return dict(rows(store.path, "SELECT substr(id, 1, 1), state FROM commands"))


def read_with(store: SqliteStore, read: Callable[[sqlite3.Connection], Any]) -> Any:
    with closing(Connection(store.path)) as connection:
        return read(connection)


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


async def claimed(store: SqliteStore, prepare: Any = prepare) -> list[str]:
    found = await store.commands.claim("main", GATES, 9, prepare)
    return [command.id for command, _ in found]


async def test_a_damaged_command_is_not_claimed(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "planned", damaged)
    put(store, GOOD, "planned", ADJUST, lane="other")
    assert await claimed(store) == [GOOD]
    assert states(store) == {"b": "parked", "c": "sending"}


@pytest.mark.parametrize("column", ["id", "target", "lane", "instance"])
@pytest.mark.parametrize("state", ["planned", "sending", "uncertain"])
async def test_a_column_that_is_no_text_stops_no_other_command(
    column: str, state: str, store: SqliteStore
) -> None:
    """`lane` and `instance` have no digest; rows of early versions have none at all."""
    put(store, BAD, state, ADJUST)
    put(store, GOOD, state, ADJUST, lane="other")
    change = f"UPDATE commands SET {column} = CAST(? AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    write(store.path, change, b"b\xff", BAD)
    if state == "planned":
        assert await claimed(store) == [GOOD]
    elif state == "sending":
        step = Transition((Cause.UNKNOWN,), "died")
        assert await store.commands.mark_interrupted_uncertain(step) == [GOOD]
    else:
        due = await store.uncertain.due("main", 9)
        assert [doubt.command.id for doubt in due] == [GOOD]
    parked = "SELECT CAST(id AS BLOB) FROM commands WHERE state = 'parked'"
    assert len(rows(store.path, parked)) == 1


@pytest.mark.parametrize("column", ["target", "lane", "instance"])
async def test_nor_does_it_stop_a_restored_database(
    column: str, store: SqliteStore
) -> None:
    for id_ in (BAD, GOOD):
        put(store, id_, "planned", ADJUST, lane=f"product:{id_}")
    change = f"UPDATE commands SET {column} = CAST(? AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    write(store.path, change, b"b\xff", BAD)
    await store.tags.record_tags(
        "main", [TaggedAdjustment("f" * 32, "adj_1", ())], adopt=True
    )
    assert states(store) == {"b": "parked", "c": "uncertain"}


@pytest.mark.parametrize("column", ["product_id", "instance", "payload"])
async def test_a_damaged_count_stops_no_other(column: str, store: SqliteStore) -> None:
    for id_ in (BAD, GOOD):
        put_target(store.path, id_)
    change = f"UPDATE stock_targets SET {column} = CAST(? AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    write(store.path, change, b"b\xff", BAD)
    due = await store.targets.due("main", 9)
    assert [target.id for target in due] == [GOOD]
    states = "SELECT substr(id, 1, 1), state FROM stock_targets ORDER BY id"
    assert rows(store.path, states) == [("b", "parked"), ("c", "waiting")]


async def test_a_command_that_cannot_be_prepared_lets_the_others_leave(
    store: SqliteStore,
) -> None:
    """The JSON is valid, but its members are different."""
    put(store, BAD, "planned", '{"deltb": -5}')
    put(store, GOOD, "planned", ADJUST, lane="other")

    def ready(command: Command, _: MatchReader) -> Sendable:
        return Sendable(str(command.payload["delta"]).encode(), "mark")

    assert await claimed(store, ready) == [GOOD]
    assert states(store) == {"b": "parked", "c": "sending"}
    (reason,) = rows(store.path, "SELECT reason FROM commands WHERE id = ?", BAD)[0]
    assert reason == "cannot be made ready to be sent: KeyError: 'delta'"


async def test_an_order_that_is_no_text_any_more_lets_the_others_leave(
    store: SqliteStore,
) -> None:
    """The order's earlier state is stored with the request."""
    put(store, BAD, "planned", "{}", ("fulfill", "ord_1"))
    put(store, GOOD, "planned", ADJUST)
    change = "UPDATE order_items SET id = CAST(? AS TEXT)"
    write(store.path, change, b"li_\xff")
    assert await claimed(store) == [GOOD]
    assert states(store) == {"b": "parked", "c": "sending"}


async def test_a_start_parks_a_damaged_command_that_was_being_sent(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "sending", damaged)
    put(store, GOOD, "sending", ADJUST, lane="other")
    step = Transition((Cause.UNKNOWN,), "died")
    assert await store.commands.mark_interrupted_uncertain(step) == [GOOD]
    assert states(store) == {"b": "parked", "c": "uncertain"}


@pytest.mark.parametrize("column", ["payload", "baseline"])
async def test_an_uncertain_damaged_command_is_looked_up(
    column: str, store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "uncertain", ADJUST)
    put(store, GOOD, "uncertain", ADJUST, lane="other")
    change = f"UPDATE commands SET {column} = CAST(? AS TEXT) WHERE id = ?"  # noqa: S608 - ours
    write(store.path, change, damaged, BAD)
    due = await store.uncertain.due("main", 9)
    assert [doubt.command.id for doubt in due] == [GOOD]
    assert states(store) == {"b": "parked", "c": "uncertain"}


async def test_no_unchecked_command_is_looked_up_in_its_place(
    store: SqliteStore, damaged: bytes
) -> None:
    """Its damaged request would be sent again, with its key."""
    put(store, BAD, "uncertain", damaged)
    put(store, GOOD, "uncertain", damaged, lane="other")
    assert await store.uncertain.due("main", 1) == []
    assert states(store) == {"b": "parked", "c": "uncertain"}
    assert await store.uncertain.due("main", 1) == []
    assert states(store) == {"b": "parked", "c": "parked"}


async def test_a_damaged_command_may_have_made_any_change_of_its_product(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "parked", damaged)
    put(store, GOOD, "uncertain", ADJUST, lane="other")
    (doubt,) = await store.uncertain.due("main", 9)
    assert await store.uncertain.count_competing_adjustments(doubt.command, NOW) == 1


async def test_a_count_beside_a_damaged_command_is_computed(
    store: SqliteStore, damaged: bytes
) -> None:
    """A damaged planned command is never sent, so it is no pending move."""
    moved = payloads.stock_change(at=1, adjustment_id="adj_1")
    await append_and_fold(store, payloads.envelope("inventory/level_update", moved))
    put(store, BAD, "planned", damaged)
    put(store, "d" * 32, "planned", damaged, ("cancel", "ord_1"))
    put(store, "e" * 32, "applied", damaged, effect="adj_1")
    put(store, GOOD, "planned", ADJUST)
    write(store.path, "UPDATE orders SET document = CAST(? AS TEXT)", damaged)
    write(
        store.path,
        "INSERT INTO records (instance, store, key, payload, raw, locator, state,"
        " received_at, retry_at) VALUES ('books', 'main', 'k', CAST(? AS TEXT), '', '',"
        " 'waiting', '', '')",
        damaged,
    )
    assert read_with(store, lambda c: stock_snapshot.undecided_work(c, VALUES)) == ""
    shelf = read_with(store, lambda c: stock_snapshot.load_snapshot(c, VALUES, 12))
    assert [promise.command for promise in shelf.promises] == [GOOD]
    assert len(shelf.movements) == 1


async def test_a_damaged_adjustment_of_a_count_is_known_by_its_id(
    store: SqliteStore, damaged: bytes
) -> None:
    """Otherwise it would count as a foreign movement, and be applied again."""
    moved = payloads.stock_change(at=1, adjustment_id="adj_1")
    await append_and_fold(store, payloads.envelope("inventory/level_update", moved))
    put_target(store.path, GOOD, state="applied")
    put(store, step_id("main", "books", GOOD, 0), "applied", damaged, effect="adj_1")
    shelf = read_with(store, lambda c: stock_snapshot.load_snapshot(c, VALUES, 12))
    assert [movement.is_correction for movement in shelf.movements] == [True]


async def test_a_damaged_cancellation_under_way_may_restock(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "uncertain", damaged, ("cancel", "ord_1"))
    reason = read_with(store, lambda c: stock_snapshot.undecided_work(c, VALUES))
    assert reason == f"cancel command {BAD[:8]} is in progress"


async def test_the_request_of_a_damaged_command_is_uncertain(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "planned", damaged, ("fulfill", "ord_1"))
    order = read_with(store, lambda c: MirrorReader(c).order("main", "ord_1"))
    assert order.in_progress
    assert order.uncertain


@pytest.mark.parametrize(
    "query", [*FIND.values(), GUEST, *OBJECT.values(), *TIMELINE.values()]
)
async def test_queries_of_the_timeline_read_damaged_rows(
    query: str, store: SqliteStore, damaged: bytes
) -> None:
    for table in ("orders", "products", "customers"):
        change = f"UPDATE {table} SET document = CAST(? AS TEXT)"  # noqa: S608 - constants
        write(store.path, change, damaged)
    put(store, BAD, "applied", damaged, effect="adj_9", evidence=damaged[:7])
    read_with(store, lambda c: c.execute(query, VALUES).fetchall())


async def test_a_tag_of_a_damaged_command_in_the_history_is_recorded(
    store: SqliteStore, damaged: bytes
) -> None:
    """The damaged command took effect too."""
    put(store, BAD, "parked", damaged)
    put(store, GOOD, "applied", ADJUST, effect="adj_2", lane="other")
    spoil = "UPDATE commands SET evidence = CAST(? AS TEXT)"
    write(store.path, spoil, damaged)
    moves = tuple(
        Move(f"adj_{number}", "prod_1", "var_1", -5, None, None) for number in (1, 3)
    )
    tagged = [
        TaggedAdjustment(BAD, "adj_1", moves[:1]),
        TaggedAdjustment(GOOD, "adj_3", moves[1:]),
    ]
    await store.tags.record_tags("main", tagged, adopt=False)
    assert states(store) == {"b": "applied", "c": "applied"}
    kept = 'SELECT instr(evidence, \'"doubled":["adj_3"]\') FROM commands WHERE id = ?'
    assert rows(store.path, kept, GOOD)[0][0] > 0
    assert await store.tags.record_double_parcels("main") == []


async def test_after_a_restore_all_others_are_uncertain(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "planned", damaged)
    put(store, GOOD, "planned", ADJUST, lane="other")
    foreign = TaggedAdjustment("f" * 32, "adj_1", ())
    await store.tags.record_tags("main", [foreign], adopt=True)
    assert states(store) == {"b": "parked", "c": "uncertain"}


async def test_an_operator_decides_a_damaged_command(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "parked", damaged)
    decided = Decision(BAD, "discard", "kim", "damaged")
    assert (await store.decisions.decide(decided)).state is State.REJECTED


async def test_planned_commands_are_listed_beside_a_damaged_one(
    store: SqliteStore, damaged: bytes
) -> None:
    put(store, BAD, "planned", damaged)
    put(store, GOOD, "planned", ADJUST)
    listed = read_with(store, lambda c: planned(c, Filter(), 9))
    assert [command.id for command, _ in listed] == [GOOD]


async def test_surplus_effects_of_the_others_are_found(store: SqliteStore) -> None:
    put(store, BAD, "parked", ADJUST, evidence=b'damaged "doubled" [')
    put(store, GOOD, "applied", ADJUST, evidence=b'{"doubled": ["adj_2", "adj_3"]}')
    (found,) = (await store.alert_conditions.current([])).doubled
    assert (found.id, found.detail) == (GOOD, "adj_2, adj_3")


async def test_subscribers_of_orders_receive_the_other_orders(
    store: SqliteStore, damaged: bytes
) -> None:
    topics = frozenset({"order.placed"})
    books = Subscriber(instance="books", store="main", topics=topics, begin="all")
    await store.deliveries.subscribe(books)
    order = payloads.envelope("orders/create", payloads.order("ord_2"))
    assert await append_and_fold(store, order) == []
    while await store.deliveries.fan_out(books, 9.0):
        pass
    change = "UPDATE orders SET document = CAST(? AS TEXT) WHERE id = 'ord_1'"
    write(store.path, change, damaged)
    delivery = await store.deliveries.claim(books)
    assert delivery is not None
    assert delivery.object_id == "ord_2"
    fates: dict[str, str] = dict(
        rows(store.path, "SELECT object_id, state FROM deliveries")
    )
    assert fates == {"ord_1": "parked", "ord_2": "sending"}
    (asked_for,) = await store.refetch_queue.next("main", 9)
    assert (asked_for.kind, asked_for.object_id) == ("order", "ord_1")
    again = payloads.read("orders/reread", payloads.order("ord_1"))
    await fold_in_turn(store, again)
    whole = "SELECT json_valid(document) FROM orders WHERE id = 'ord_1'"
    assert rows(store.path, whole) == [(1,)]
    doubtful = DeliveryOutcome(cause=Cause.UNKNOWN, reason="no answer", due_at=NOW)
    assert await store.deliveries.record_outcome("books", delivery, doubtful)
    write(store.path, "UPDATE orders SET document = CAST(? AS TEXT)", damaged)
    looked_for = await store.deliveries.next_uncertain("books")
    assert looked_for is not None
    assert looked_for.document == {"id": "ord_2"}


async def test_the_others_are_found(store: SqliteStore, damaged: bytes) -> None:
    change = "UPDATE orders SET document = CAST(? AS TEXT) WHERE id = 'ord_1'"
    write(store.path, change, damaged)
    await store.search.follow(describe, 9.0)
    assert rows(store.path, "SELECT kind FROM search_documents") == [("product",)]


@pytest.mark.parametrize("state", ["waiting", "quarantined", "accepted"])
async def test_a_repeated_record_beside_a_damaged_one_is_accepted(
    state: str, store: SqliteStore, damaged: bytes
) -> None:
    """The repetition repairs a waiting record; other damage is reported."""
    records = [NewRecord(key, b'{"kind": "x"}', "", "", key) for key in ("bad", "good")]

    def match_one(*_: Any) -> Unmatched:
        return Unmatched("no order", final=False)

    accept = store.records.accept
    await accept("books", "main", records[:1], None, match_one)
    change = "UPDATE records SET payload = CAST(? AS TEXT), state = ? WHERE key = 'bad'"
    write(store.path, change, damaged, state)
    outcomes = await accept("books", "main", records, None, match_one)
    again = "conflict" if state == "accepted" else "waiting"
    assert [outcome.state for outcome in outcomes] == [again, "waiting"]


async def test_a_record_that_waits_beside_a_damaged_one_is_matched(
    store: SqliteStore,
) -> None:
    """The damaged record is a count, which a newer count would replace."""
    clock = VirtualClock()
    count = StockLevel(key="k", sku="NONE", quantity=1, as_of=NOW)
    records = [NewRecord(key, encode(count), "", "", key) for key in ("bad", "good")]
    matcher = Matcher(clock, 60)
    await store.records.accept("books", "main", records[:1], None, matcher)
    spoil = "UPDATE records SET payload = CAST(? AS TEXT) WHERE key = 'bad'"
    write(store.path, spoil, encode(count).replace(b'"k"', b'"\xff"'))
    (matched,) = await store.records.accept("books", "main", records[1:], None, matcher)
    assert matched.state == "waiting"
    write(store.path, "UPDATE records SET retry_at = ''")
    outcomes = await store.records.match(matcher, 9)
    found = {outcome.record.key: outcome.state for outcome in outcomes}
    assert found["good"] == "waiting"


async def test_an_effect_from_before_the_restore_is_known_by_its_id(
    store: SqliteStore, damaged: bytes
) -> None:
    tagged = TaggedAdjustment(BAD, "adj_1", ())
    await store.tags.record_tags("main", [tagged], adopt=True)
    write(store.path, "UPDATE adopted_effects SET evidence = CAST(? AS TEXT)", damaged)
    meant = await store.tags.record_tags("main", [tagged], adopt=False)
    assert meant == [TagMeaning.OWN]


BARE = re.compile(r"json_(?:extract|each|set)\((?:\w+\.)?(?:payload|evidence)\b")
GUARD = re.compile(r"iif\(json_valid\((?:\w+\.)?\w+\),\s*$")
FROZEN = "outbox_schema.py"
"""Migrations are never changed."""


def test_no_query_reads_json_of_a_command_unguarded() -> None:
    """The SQL dialect guards all queries; only indexes contain the bare expression."""
    bare = [
        f"{path.name}: {found.group(0)}"
        for path in Path(sqlite.__path__[0]).glob("*.py")
        if path.name != FROZEN
        for text in [path.read_text("utf-8")]
        for found in BARE.finditer(text)
        if not GUARD.search(text[: found.start()])
    ]
    assert bare == []
