"""Tests of units on their way: parcels, holds, incidents and restocks."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Item, Shipment
from backhaul.errors import BackhaulError
from backhaul.store.commands import Decision, Sendable, Transition
from backhaul.store.filters import Filter
from backhaul.store.matching import NewCommand
from backhaul.store.records import NewRecord, Tracked, Unmatched
from backhaul.store.testing.command_scenes import (
    ALL_KINDS,
    at,
    audit_entries,
    claimed,
    count_commands,
    detail,
    in_brief,
    plan,
    resolve,
    sent,
    state_of,
)
from backhaul.store.testing.event_scenes import NOON
from backhaul.store.testing.mirror_scenes import rows_of, show_order
from backhaul.store.testing.scenes import MirrorTests, StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import Command, Hold, MatchReader, WaitingRecord
    from backhaul.store.read_records import OpenIncident
    from backhaul.store.testing.scenes import TestClock


STATUSES = ("in_transit", "out_for_delivery", "delivered", "returned")
"""Tracking statuses, each later than the one before."""
TWO = (Shipment("shp_1", None, "T-1", None), Shipment("shp_2", None, "T-2", None))
CANCEL = "c" * 32
LINES = (
    Item("li_1", "prod_1", "var_1", "A", "", 3, 2, None),
    Item("li_2", "prod_1", "var_2", "B", "", 2, 1, None),
)


async def track(
    store: Store,
    number: str,
    status: str,
    *,
    cancel: str = "",
    propose: bool = False,
    key: str = "",
) -> str:
    """Report the status of a parcel; return the sentence of the receipt."""
    order_cancel = NewCommand(
        CANCEL, "cancel", cancel, f"order:{cancel}", {"restock": False}
    )

    def find(record: WaitingRecord, mirror: MatchReader) -> Tracked | Unmatched:
        parcels = tuple(mirror.parcels_with_number(record.store, number))
        if not parcels:
            return Unmatched("no parcel", final=False)
        rank = STATUSES.index(status)
        wanted = order_cancel if cancel else None
        return Tracked(parcels, number, status, rank, NOON, wanted, propose)

    record = NewRecord(key or f"{number} {status}", b"null", "", "", "")
    (outcome,) = await store.records.accept("courier", "main", [record], None, find)
    assert outcome.state == "accepted"
    return outcome.reason


def parcels(store: Store) -> list[tuple[Any, ...]]:
    """Return shipment and status of each parcel."""
    return rows_of(store, "parcels", "shipment_id", "status")


class ParcelTrackingConformance(MirrorTests):
    """Tests of `Tracked` records: a status only moves forward."""

    async def test_a_status_is_kept_with_its_parcel(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        said = await track(store, "T-1", "in_transit")
        assert said == "a parcel of order #1001 is in_transit"
        columns = ("store", "shipment_id", "order_id", "tracking_number", "status")
        assert rows_of(store, "parcels", *columns, "at", "instance") == [
            ("main", "shp_1", "ord_1", "T-1", "in_transit", NOON, "courier")
        ]

    async def test_a_status_only_moves_forward(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        await track(store, "T-1", "in_transit")
        await track(store, "T-1", "delivered")
        for late in ("out_for_delivery", "delivered"):
            said = await track(store, "T-1", late, key=f"late {late}")
            assert said == (
                "a parcel of order #1001 already had this status or a later one"
            )
        assert parcels(store) == [("shp_1", "delivered")]

    async def test_every_parcel_with_the_number_has_the_status(
        self, store: Store
    ) -> None:
        both = (TWO[0], replace(TWO[1], tracking_number="T-1"))
        await show_order(store, "ord_1", shipments=both)
        await track(store, "T-1", "delivered")
        assert parcels(store) == [("shp_1", "delivered"), ("shp_2", "delivered")]

    async def test_the_timeline_shows_the_status(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        await track(store, "T-2", "delivered")
        (found,) = await store.read(lambda reader: reader.find_objects("order", "1001"))
        entries = await store.read(lambda reader: reader.timeline("order", found))
        (entry,) = (each for each in entries if each.what == "parcel")
        assert (entry.at, entry.name, entry.state) == (NOON, "T-2", "delivered")
        assert entry.detail == "reported by courier"

    async def test_an_order_is_cancelled_once_every_parcel_came_back(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        await track(store, "T-2", "delivered")
        said = await track(store, "T-1", "returned", cancel="ord_1")
        assert said.endswith("; 1 of its parcels did not come back")
        assert await count_commands(store) == 0
        said = await track(store, "T-2", "returned", cancel="ord_1")
        assert said.endswith("; Backhaul cancels the order")
        found = await detail(store, CANCEL)
        assert (found.kind, found.target, found.state) == ("cancel", "ord_1", "planned")
        assert (found.cause, found.instance) == (
            *("parcel T-2 came back (courier)", "courier"),
        )

    async def test_a_return_can_be_a_proposal(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        said = await track(store, "T-1", "returned", cancel="ord_1", propose=True)
        assert said.endswith("; Backhaul proposes to cancel the order")
        found = await detail(store, CANCEL)
        assert found.state == "parked"
        assert "parcel T-1 came back (courier)" in found.reason

    @pytest.mark.parametrize(
        ("action", "state"), [("resend", "planned"), ("discard", "rejected")]
    )
    async def test_what_an_operator_decided_about_a_proposal_stays(
        self, action: str, state: str, store: Store
    ) -> None:
        await show_order(store, "ord_1", shipments=TWO)
        how: dict[str, Any] = {"cancel": "ord_1", "propose": True}
        await track(store, "T-1", "returned", **how)
        await store.decisions.decide(Decision(CANCEL, action, "ann", "seen"))
        said = await track(store, "T-2", "returned", **how)
        assert said.endswith("; the cancellation was already requested")
        assert await state_of(store, CANCEL) == state

    async def test_a_late_status_cancels_nothing(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=TWO[:1])
        await track(store, "T-1", "returned")
        await track(store, "T-1", "returned", cancel="ord_1", key="again")
        assert await count_commands(store) == 0


async def hold_of(store: Store, kind: str, **payload: Any) -> Hold | None:
    """Plan a command for `ord_1` and claim it; return why it was held, if it was."""
    await plan(store, kind, payload=payload or {"n": 1})
    return await claim_held(store)


async def claim_held(store: Store) -> Hold | None:
    """Claim the next command as the dispatcher does: one that is held is parked."""
    found: list[Hold | None] = []

    def prepare(command: Command, mirror: MatchReader) -> Sendable | Transition:
        found.append(mirror.hold(command))
        if found[-1] is None:
            return Sendable(b"request", "fingerprint")
        return Transition((Cause.UNDECIDABLE,), found[-1].reason)

    await store.commands.claim("main", ALL_KINDS, 9, prepare)
    return found[-1]


def listing(**units: dict[str, int]) -> bytes:
    """Return the document of an order whose parcels list these units of each line."""
    shipments = [
        {
            "id": id_,
            "items": [
                {"lineItemId": line, "quantity": number}
                for line, number in lines.items()
            ],
        }
        for id_, lines in units.items()
    ]
    return json.dumps({"id": "ord_1", "shipments": shipments}).encode()


class ShippedUnitsConformance(MirrorTests):
    """Tests of `MatchReader.hold`: what an operator must decide about."""

    @pytest.mark.parametrize("status", ["REFUNDED", " refunded "])
    async def test_a_parcel_of_a_refunded_order_is_held(
        self, status: str, store: Store
    ) -> None:
        await show_order(store, "ord_1", financial_status=status)
        found = await hold_of(store, "fulfill")
        assert found is not None
        assert "order #1001 is refunded" in found.reason
        assert found.payload is None

    async def test_a_parcel_of_any_other_order_is_sent(self, store: Store) -> None:
        await show_order(store, "ord_1", financial_status="PARTIALLY_REFUNDED")
        assert await hold_of(store, "fulfill") is None

    async def test_an_unknown_order_holds_nothing(self, store: Store) -> None:
        assert await hold_of(store, "cancel", restock=True) is None

    @pytest.mark.parametrize("kind", ["fulfill", "cancel"])
    async def test_a_cancelled_order_holds_nothing(
        self, kind: str, store: Store
    ) -> None:
        ended: dict[str, Any] = {"financial_status": "REFUNDED", "cancelled_at": NOON}
        await show_order(store, "ord_1", items=LINES, **ended)
        assert await hold_of(store, kind, restock=True) is None

    async def test_a_cancellation_that_restocks_shipped_units_is_held(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        found = await hold_of(store, "cancel", restock=True)
        assert found is not None
        assert "3 of 5 units of order #1001 have shipped" in found.reason
        assert "restocks 2 units" in found.reason
        assert found.payload == {"restock": False, "restock_unshipped": True}

    @pytest.mark.parametrize(
        ("restock", "lines"),
        [
            (False, LINES),
            (True, tuple(replace(line, fulfilled_quantity=0) for line in LINES)),
        ],
    )
    async def test_a_cancellation_that_restocks_no_shipped_unit_is_sent(
        self, restock: bool, lines: tuple[Item, ...], store: Store
    ) -> None:
        await show_order(store, "ord_1", items=lines)
        assert await hold_of(store, "cancel", restock=restock) is None

    @pytest.mark.parametrize(
        ("returned", "out"),
        [((), 3), (("T-1",), 1), (("T-2",), 2), (("T-1", "T-2"), 0)],
    )
    async def test_units_that_came_back_are_not_out(
        self, returned: tuple[str, ...], out: int, store: Store
    ) -> None:
        document = listing(shp_1={"li_1": 1, "li_2": 1}, shp_2={"li_1": 1})
        await show_order(store, "ord_1", items=LINES, shipments=TWO, document=document)
        for number in returned:
            await track(store, number, "returned")
        found = await hold_of(store, "cancel", restock=True)
        assert (found is None) is (out == 0)
        if found is not None:
            assert f"{out} of 5 units" in found.reason

    async def test_a_returned_parcel_without_units_lowers_no_number(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES, shipments=TWO)
        await track(store, "T-1", "returned")
        found = await hold_of(store, "cancel", restock=True)
        assert found is not None
        assert "3 of 5 units" in found.reason

    async def test_no_unit_is_out_once_every_parcel_came_back(
        self, store: Store
    ) -> None:
        """Also if no parcel lists its units."""
        await show_order(store, "ord_1", items=LINES, shipments=TWO)
        for number in ("T-1", "T-2"):
            await track(store, number, "returned")
        assert await hold_of(store, "cancel", restock=True) is None

    async def test_a_reason_that_an_operator_accepted_holds_no_more(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        command = await plan(store, "cancel", payload={"restock": True})
        assert await claim_held(store) is not None
        await store.decisions.decide(Decision(command, "resend", "ann", "seen"))
        assert await claim_held(store) is None
        assert await state_of(store, command) == "sending"

    async def test_a_changed_reason_is_held_again(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        command = await plan(store, "cancel", payload={"restock": True})
        await claim_held(store)
        await store.decisions.decide(Decision(command, "resend", "ann", "seen"))
        more = (replace(LINES[0], fulfilled_quantity=3), LINES[1])
        await show_order(store, "ord_1", 1, items=more)
        found = await claim_held(store)
        assert found is not None
        assert "4 of 5 units" in found.reason


ORDERED = (
    Item("li_1", "prod_1", "var_1", "A", "Lamp", 2, 0, 50),
    Item("li_2", "prod_1", "var_1", "A", "Lamp", 3, 0, 50),
    Item("li_3", "prod_2", "var_2", "B", "Shade", 1, 0, 50),
)
UNSHIPPED = {"restock": False, "restock_unshipped": True}


async def incidents(store: Store) -> list[OpenIncident]:
    """Return the open incidents."""
    return await store.read(lambda reader: reader.incidents())


async def cancel(
    store: Store, payload: dict[str, Any], cause: Cause = Cause.CONFIRMED, **change: Any
) -> None:
    """Apply a cancellation of `ord_1`, of which the platform showed this."""
    await sent(store, cause, kind="cancel", payload=payload, change=change)


async def restocked(store: Store) -> dict[str, int]:
    """Return the units of each variant that planned adjustments put back."""
    wish = Filter(kind="adjust")
    rows = await store.read(lambda reader: reader.commands(wish, 99))
    found: dict[str, int] = {}
    for row in rows:
        wanted = (await detail(store, row.id)).wanted
        found[wanted["variant_id"]] = wanted["delta"]
    assert len(rows) == len(found)
    return found


class CancellationsConformance(StoreConformance):
    """Tests of the incidents and restocks of cancellations."""

    async def test_a_cancellation_that_crossed_our_parcel_is_an_incident_once(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED)
        payload = {"tracking_number": "BD1", "lines": []}
        own = await sent(store, Cause.CONFIRMED, payload=payload)
        clock.advance(60)
        gone: dict[str, Any] = {"items": ORDERED, "cancelled_at": NOON}
        await show_order(store, "ord_1", 1, **gone)
        await show_order(store, "ord_1", 2, **gone, fulfillment_status="RESTOCKED")
        (found,) = await incidents(store)
        assert (found.store, found.order_id, found.command_id) == (
            "main",
            "ord_1",
            own.id,
        )
        assert found.at == at(clock)
        assert found.says.startswith("order #1001 ")
        assert "BD1" in found.says

    async def test_a_late_or_own_cancellation_is_no_incident(
        self, store: Store, clock: TestClock
    ) -> None:
        for target in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, target, items=ORDERED)
        await sent(store, Cause.CONFIRMED, target="ord_1")
        clock.advance(86_401)
        await sent(store, Cause.CONFIRMED, target="ord_2")
        await sent(store, Cause.CONFIRMED, kind="cancel", target="ord_2")
        await sent(store, Cause.REFUSED, target="ord_3")
        for target in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, target, 1, items=ORDERED, cancelled_at=NOON)
        assert await incidents(store) == []

    async def test_a_restock_of_units_that_had_shipped_is_an_incident(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED)
        shipped = {"fulfilled": {"li_1": 1, "li_2": 3}}
        await cancel(store, {"restock": True}, evidence=shipped)
        (found,) = await incidents(store)
        assert found.says == (
            "order #1001 was cancelled with a restock after 4 units had shipped: the"
            " stock is 4 units too high"
        )

    @pytest.mark.parametrize(
        ("payload", "fulfilled"),
        [({"restock": True}, {"li_1": 0}), ({"restock": False}, {"li_1": 2})],
    )
    async def test_a_cancellation_that_restocked_nothing_too_much_is_no_incident(
        self, payload: dict[str, Any], fulfilled: dict[str, int], store: Store
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED)
        await cancel(store, payload, evidence={"fulfilled": fulfilled})
        assert await incidents(store) == []

    async def test_units_of_a_returned_parcel_are_in_the_warehouse_again(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED, shipments=TWO[:1])
        await track(store, "T-1", "returned", cancel="ord_1")
        (command,) = await claimed(store)
        evidence = {"fulfilled": {"li_1": 2}}
        await resolve(store, command, Cause.CONFIRMED, evidence=evidence)
        assert await state_of(store, CANCEL) == "applied"
        assert await incidents(store) == []

    async def test_an_own_cancellation_restocks_what_has_not_shipped(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED)
        effect = cancellation("ord_1", NOON)
        evidence = {"fulfilled": {"li_1": 1, "li_3": 1}}
        await cancel(store, UNSHIPPED, effect_id=effect, evidence=evidence)
        assert await restocked(store) == {"var_1": 4}
        assert await incidents(store) == []

    async def test_a_foreign_cancellation_restocks_nothing_and_is_an_incident(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=ORDERED)
        await cancel(store, UNSHIPPED)
        assert await restocked(store) == {}
        (found,) = await incidents(store)
        assert "was cancelled without a restock, and not by this daemon" in found.says


class IncidentsConformance(StoreConformance):
    """Tests of `Store.incidents`."""

    async def test_an_incident_is_open_until_an_operator_resolves_it(
        self, store: Store, clock: TestClock
    ) -> None:
        command = await crossing(store)
        (incident,) = await incidents(store)
        assert (incident.store, incident.order_id) == ("main", "ord_1")
        assert (incident.command_id, incident.at) == (command, at(clock))
        assert incident.says == "order #1001 was cancelled"
        clock.advance(1)
        closed = await store.incidents.resolve(incident.id, "ann", "parcel stopped")
        assert (closed.id, closed.says) == (incident.id, incident.says)
        assert (closed.resolved_at, closed.resolved_by) == (at(clock), "ann")
        assert closed.resolution == "parcel stopped"
        assert await incidents(store) == []
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == (
            "ann",
            "incidents resolve",
            f"{incident.id}: parcel stopped",
        )

    async def test_an_incident_is_resolved_once(self, store: Store) -> None:
        await crossing(store)
        (incident,) = await incidents(store)
        await store.incidents.resolve(incident.id, "ann", "parcel stopped")
        for id_ in (incident.id, incident.id + 1):
            with pytest.raises(BackhaulError, match="no open incident"):
                await store.incidents.resolve(id_, "bob", "again")
        assert len(await audit_entries(store)) == 1


async def crossing(store: Store) -> str:
    """Apply a command whose effect crossed a cancellation; return its id."""
    crossed = {"kind": "cancelled", "says": "order #1001 was cancelled"}
    change = {"evidence": {"crossed": crossed}}
    return (await sent(store, Cause.CONFIRMED, change=change)).id
