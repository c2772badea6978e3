"""A record with a known key is applied once and never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.connect.record_matching import Matcher, encode
from backhaul_sdk import Bad
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import count, rows_of, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul_sdk import Receipt, Record
    from scenes.clock import VirtualClock

AMBIGUOUS = payloads.order("ord_3", number=7, externalId="1001")
GIVEN_UP = "discarded by an operator"


async def hand_in(store: Store, record: Record | Bad) -> Receipt:
    return await host_of(ScriptedConnector(), store).emit(record)


async def quarantine(store: Store, record: Record | Bad) -> int:
    """Quarantine a record; return the id of its row."""
    assert (await hand_in(store, record)).state == "quarantined"
    return only_row(store)


def only_row(store: Store) -> int:
    id_ = value_of(store.place, "quarantine", "id", state="open")
    return int(id_)


async def match_again(store: Store, clock: VirtualClock) -> list[str]:
    """Match the unmatched records again, as the daemon does; return the results."""
    await clock.advance(5)
    found = await store.records.match(Matcher(clock, 600), 9)
    return [outcome.state for outcome in found]


async def test_a_discarded_row_is_not_applied_when_it_comes_again(
    store: Store, clock: VirtualClock
) -> None:
    await append_and_fold(store, envelope("orders/create", AMBIGUOUS))
    row = await quarantine(store, fulfillment_record())
    await store.quarantine.discard(row, "otto", "sold over the counter")
    receipt = await hand_in(store, fulfillment_record())
    assert (receipt.state, receipt.what) == ("duplicate", GIVEN_UP)
    assert await match_again(store, clock) == []
    assert value_of(store.place, "records", "state") == "dropped"
    assert count(store.place, "commands_and_targets") == 0


async def test_a_discarded_bad_row_is_not_applied_when_it_comes_again(
    store: Store,
) -> None:
    bad = Bad(key="k1", raw=";BD1", reason="no order number")
    await store.quarantine.discard(
        await quarantine(store, bad), "otto", "a test of ours"
    )
    receipt = await hand_in(store, bad)
    assert (receipt.state, receipt.what) == ("duplicate", GIVEN_UP)


async def test_a_discarded_row_is_accepted_after_a_retry(
    store: Store, clock: VirtualClock
) -> None:
    await append_and_fold(store, envelope("orders/create", AMBIGUOUS))
    row = await quarantine(store, fulfillment_record())
    await store.quarantine.discard(row, "otto", "the wrong row")
    renamed = payloads.order("ord_3", 5, number=7, externalId=None)
    await append_and_fold(store, envelope("orders/updated", renamed))
    await store.quarantine.retry(row, None, "otto", "it was this one after all")
    assert await match_again(store, clock) == ["accepted"]


async def test_a_bad_row_that_was_corrected_at_its_source_is_accepted(
    store: Store,
) -> None:
    await quarantine(store, Bad(key="k1", raw=";BD1", reason="no order number"))
    assert (await hand_in(store, fulfillment_record())).state == "accepted"
    assert (await hand_in(store, fulfillment_record())).state == "duplicate"
    assert count(store.place, "commands_and_targets") == 1
    assert value_of(store.place, "quarantine", "state") == "retried"
    kept = value_of(store.place, "records", "raw")
    assert kept == "1001;BD1"


async def test_a_waiting_row_is_read_again_when_it_was_corrected(
    store: Store, clock: VirtualClock
) -> None:
    assert (await hand_in(store, fulfillment_record(order="10001"))).state == "waiting"
    await clock.advance(60)
    assert (await hand_in(store, fulfillment_record(order="1001"))).state == "accepted"
    assert await match_again(store, clock) == []
    assert value_of(store.place, "commands_and_targets", "target") == "ord_1"
    assert count(store.place, "quarantine") == 0


async def test_a_duplicate_does_not_restart_the_wait_of_a_record(
    store: Store, clock: VirtualClock
) -> None:
    record = fulfillment_record(order="10001")
    assert (await hand_in(store, record)).state == "waiting"
    before = rows_of(store.place, "records", "received_at", "retry_at")
    await clock.advance(1)
    assert (await hand_in(store, record)).state == "duplicate"
    assert rows_of(store.place, "records", "received_at", "retry_at") == before


async def test_an_edit_of_an_operator_is_not_undone_by_the_same_row(
    store: Store, clock: VirtualClock
) -> None:
    bad = fulfillment_record(order="1001")
    await append_and_fold(store, envelope("orders/create", AMBIGUOUS))
    row = await quarantine(store, bad)
    await store.quarantine.retry(
        row, encode(fulfillment_record(order="#8")), "otto", "a typo"
    )
    assert await match_again(store, clock) == ["waiting"]
    assert (await hand_in(store, bad)).state == "duplicate"
    await append_and_fold(
        store, envelope("orders/create", payloads.order("ord_8", number=8))
    )
    assert await match_again(store, clock) == ["accepted"]
    assert value_of(store.place, "commands_and_targets", "target") == "ord_8"


OTHER = "an earlier record with the same key has other content; the earlier counts"
CHOICES = (
    "If the row is a further parcel, retry ships that parcel too. If the row"
    " corrects the first parcel, discard the row and change the parcel in the"
    " store's dashboard"
)


def other(order: str) -> str:
    """Return the error for a key that another order already has."""
    return f"{OTHER}: the order was '1001', is '{order}'. {CHOICES}"


async def test_other_content_of_an_accepted_key_needs_an_operator_once(
    store: Store,
) -> None:
    await hand_in(store, fulfillment_record())
    for times in range(3):
        receipt = await hand_in(store, fulfillment_record(order="1002"))
        assert (receipt.state, receipt.what) == ("duplicate", other("1002"))
        assert count(store.place, "quarantine") == 1, times
    await hand_in(store, fulfillment_record(order="1003"))
    assert rows_of(store.place, "quarantine", "raw", "reason", "state", "locator") == [
        (f"{order};BD1", other(order), "open", "file.csv:k1")
        for order in ("1002", "1003")
    ]
    assert value_of(store.place, "commands_and_targets", "target") == "ord_1"


async def test_other_content_is_applied_too_where_an_operator_decides_so(
    store: Store, clock: VirtualClock
) -> None:
    await hand_in(store, fulfillment_record())
    await hand_in(store, fulfillment_record(order="1002"))
    row = only_row(store)
    await store.quarantine.retry(row, None, "otto", "they use numbers twice")
    assert await match_again(store, clock) == ["accepted"]
    targets = rows_of(store.place, "commands_and_targets", "target")
    assert targets == [("ord_1",), ("ord_2",)]


async def test_discarded_other_content_stays_discarded(
    store: Store, clock: VirtualClock
) -> None:
    await hand_in(store, fulfillment_record())
    await hand_in(store, fulfillment_record(order="1002"))
    await store.quarantine.discard(only_row(store), "otto", "they corrected the past")
    assert (await hand_in(store, fulfillment_record(order="1002"))).state == "duplicate"
    assert await match_again(store, clock) == []
    assert count(store.place, "commands_and_targets") == 1
    assert value_of(store.place, "quarantine", "state") == "dropped"


async def test_a_correction_of_a_discarded_row_needs_an_operator(
    store: Store,
) -> None:
    bad = Bad(key="k1", raw=";BD1", reason="no order number")
    await store.quarantine.discard(await quarantine(store, bad), "otto", "they mend it")
    receipt = await hand_in(store, fulfillment_record())
    assert receipt.state == "duplicate"
    assert count(store.place, "commands_and_targets") == 0
    assert only_row(store) == 2


async def test_when_it_was_shipped_is_no_other_content(store: Store) -> None:
    """An ERP may send the time of the row's last change."""
    first = fulfillment_record(shipped_at="2026-03-01T12:00:00Z")
    await hand_in(store, first)
    again = fulfillment_record(
        shipped_at="2026-03-02T09:00:00Z", locator="elsewhere.csv:1"
    )
    assert (await hand_in(store, again)).what == "known already"
    assert count(store.place, "quarantine") == 0


async def test_the_connector_hears_of_other_content(store: Store) -> None:
    await hand_in(store, fulfillment_record())
    await hand_in(store, fulfillment_record(order="1002"))
    connector = ScriptedConnector()
    await host_of(connector, store).report()
    assert [rejection.raw for rejection in connector.reported] == ["1002;BD1"]
