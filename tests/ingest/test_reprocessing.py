"""Every stored event can be reprocessed repeatedly."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.ingest.fold_worker import Reprocessor
from backhaul.ingest.topics import decode_event
from backhaul.platform.client import StoreFacts
from backhaul.runtime.signals import SharedSignals
from backhaul.store.inbox import Selection
from backhaul.store.testing.event_scenes import without_decoding
from scenes import payloads
from scenes.captures import captured
from scenes.databases import (
    append,
    append_and_fold,
    count,
    dump,
    event_states,
    fold_all,
)
from scenes.memory import peak_bytes
from scenes.payloads import STORE_ID, envelope, read
from scenes.stored import documents, rows_of, value_of, values_of

if TYPE_CHECKING:
    from backhaul.store import Place, Store
    from backhaul.store.inbox import Arrival, Decoded, Folded, MirrorWriter, StoredEvent

ALL = Selection()


def reprocessor(store: Store, told: list[str] | None = None) -> Reprocessor:
    calls: list[str] = [] if told is None else told
    facts = {"main": StoreFacts(STORE_ID, "INR")}
    signals = SharedSignals()
    signals.events_folded.connect(lambda: calls.append("folded"))
    signals.conflict_found.connect(lambda: calls.append("doubted"))
    return Reprocessor(store.reprocessing, facts, signals)


def outcomes(place: Place) -> list[Any]:
    columns = ("id", "state", "topic", "event_id", "kind", "object_id")
    return rows_of(place, "events", *columns)


@pytest.fixture(scope="module")
def bodies() -> tuple[bytes, ...]:
    return captured().bodies


async def test_folding_everything_again_changes_nothing(
    bodies: tuple[bytes, ...], store: Store
) -> None:
    await append(store, [*bodies, *bodies[:9]])

    def fold(event: StoredEvent) -> Decoded:
        return decode_event(event, store_id=None, currency="INR")

    while (await store.inbox.fold(fold, 1.0)).more:
        pass
    before, told = list(dump(store.place)), outcomes(store.place)
    changes = count(store.place, "changes")
    again = Reprocessor(store.reprocessing, {"main": StoreFacts("", "INR")})
    for _ in range(2):
        done = await again.reprocess(ALL)
        assert sum(done.values()) == len(told) == len(bodies) + 9
        assert set(done) <= {"duplicate", "stale"}
        assert list(dump(store.place)) == before
        assert outcomes(store.place) == told
        assert count(store.place, "changes") == changes


def quarantine(store: Store) -> list[Any]:
    return rows_of(store.place, "quarantine", "key", "state")


async def failing_at_first(store: Store, *bodies: bytes) -> None:
    """Fold with a bug in the program, which quarantines everything."""

    def fold(_: StoredEvent, __: MirrorWriter) -> Folded:
        raise ZeroDivisionError

    await append(store, bodies)
    await store.inbox.fold(without_decoding(fold), 1.0)
    assert set(event_states(store.place)) == {"quarantined"}


async def test_an_event_that_can_be_folded_now_leaves_quarantine(store: Store) -> None:
    good, bad = envelope("orders/create", payloads.order()), b"no JSON"
    await failing_at_first(store, good, bad)
    done = await reprocessor(store).reprocess(Selection(state="quarantined"))
    assert done == {"folded": 1, "quarantined": 1}
    assert event_states(store.place) == ["folded", "quarantined"]
    assert quarantine(store) == [("1", "retried"), ("2", "open")]
    assert count(store.place, "orders") == 1
    assert "JSON" in value_of(store.place, "events", "detail", id=2)
    assert await reprocessor(store).reprocess(Selection(state="quarantined")) == {
        "quarantined": 1
    }


async def test_an_event_that_an_operator_discarded_stays_discarded(
    store: Store,
) -> None:
    await append_and_fold(store, b"no JSON")
    await store.quarantine.discard(1, "kim", "a test of the platform")
    assert await reprocessor(store).reprocess(ALL) == {"quarantined": 1}
    assert quarantine(store) == [("1", "dropped")]


async def test_a_quarantined_delivery_is_no_duplicate_of_itself(
    store: Store,
) -> None:
    """Its own digest does not count; a repetition is a duplicate."""
    broken = envelope("orders/create", payloads.order(items=None))
    await append_and_fold(store, broken, broken)
    assert event_states(store.place) == ["quarantined", "duplicate"]
    assert await reprocessor(store).reprocess(ALL) == {"quarantined": 1, "duplicate": 1}
    assert event_states(store.place) == ["quarantined", "duplicate"]


async def test_only_selected_events_are_folded_again(store: Store) -> None:
    bodies = [envelope("orders/create", payloads.order(f"ord_{n}")) for n in range(6)]
    await failing_at_first(store, *bodies)
    late = read("orders/read", payloads.order("ord_9"), at=59)
    await store.inbox.append(late)
    await fold_all(store)
    done = reprocessor(store)
    assert await done.reprocess(Selection(ids=(2, 4, 99))) == {"folded": 2}
    assert count(store.place, "orders") == 3
    assert await done.reprocess(Selection(since=payloads.instant(59))) == {
        "duplicate": 1
    }
    assert await done.reprocess(Selection((1, 2), "quarantined")) == {"folded": 1}
    assert await done.reprocess(Selection(state="waiting")) == {}


async def test_an_event_that_is_not_folded_yet_waits_for_its_turn(store: Store) -> None:
    await append(store, [envelope("orders/create", payloads.order())])
    assert await reprocessor(store).reprocess(ALL) == {}
    await fold_all(store)
    assert event_states(store.place) == ["folded"]


async def test_an_event_that_breaks_the_fold_stops_no_other(store: Store) -> None:
    await append_and_fold(
        store, *(envelope("orders/create", payloads.order(f"o{n}")) for n in "ab")
    )

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        if event.id == 1:
            mirror.add_change("main", "order", "half", "done", 1)
            raise ZeroDivisionError
        return _fold(event).fold(mirror)

    report = await store.reprocessing.reprocess(
        without_decoding(fold), ALL, 0, 1.0, confirming=False
    )
    assert report.last is None
    assert report.states == ("quarantined", "duplicate")
    assert quarantine(store) == [("1", "open")]
    assert rows_of(store.place, "changes", object_id="half") == []


async def test_many_events_are_reprocessed_in_slices(store: Store) -> None:
    bodies = [envelope("orders/create", payloads.order(f"o{n}")) for n in range(200)]
    await append_and_fold(store, *bodies)
    first = await store.reprocessing.reprocess(_fold, ALL, 0, 0.0, confirming=False)
    assert first.last == 1
    assert len(first.states) == 1
    assert await reprocessor(store).reprocess(ALL) == {"duplicate": 200}


def _fold(event: StoredEvent) -> Decoded:
    return decode_event(event, store_id=STORE_ID, currency="INR")


async def test_a_slice_holds_one_body_at_a_time(store: Store) -> None:
    """A slice reads bodies one by one, whatever its limit."""
    note = "n" * 100_000
    bodies = [
        envelope("orders/create", payloads.order(f"o{n}", note=note))
        for n in range(100)
    ]
    await append_and_fold(store, *bodies)
    del bodies
    with peak_bytes() as peak:
        await store.reprocessing.reprocess(_fold, ALL, 0, 0.0, confirming=False)
        assert 0 < peak() < 3_000_000


async def test_an_erased_event_is_skipped(store: Store) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    await store.retention.prune(payloads.instant(59), 1.0)
    assert values_of(store.place, "events", "body") == [b""]
    assert await reprocessor(store).reprocess(ALL) == {}
    assert event_states(store.place) == ["folded"]


async def test_conflicts_are_reported(store: Store) -> None:
    ties = [payloads.order(note=note) for note in "ab"]
    bodies = [envelope("orders/updated", tie, sequence=0) for tie in ties]
    await failing_at_first(store, *bodies)
    told: list[str] = []
    await reprocessor(store, told).reprocess(ALL)
    assert set(told) == {"folded", "doubted"}
    assert documents(store.place, "orders")[0]


HELD = read("orders/read", payloads.order(at=6, note="held"), at=29)
LOWERING = read("orders/reread", payloads.order(at=5, note="lowering"), at=27)
FORGED = read("orders/read", payloads.order(at=8, note="forged"), at=20)


@pytest.mark.parametrize("order", list(permutations((HELD, LOWERING, FORGED))))
async def test_one_pass_is_enough_for_events_in_any_order(
    order: tuple[Arrival, ...], store: Store
) -> None:
    """The last event arrived before the read that lowers the time."""
    for arrival in order:
        await store.inbox.append(arrival)
    await fold_all(store)
    await reprocessor(store).reprocess(ALL)
    assert [one["note"] for one in documents(store.place, "orders")] == ["held"]
    before = list(dump(store.place))
    await reprocessor(store).reprocess(ALL)
    assert list(dump(store.place)) == before
