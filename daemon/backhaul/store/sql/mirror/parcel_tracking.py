"""How far each parcel got, as couriers tell; and what a parcel that came back asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.store.sql.commands.planning import plan

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.matching import WaitingRecord
    from backhaul.store.records import Tracked

# The ladder leads one way: what comes late, or says less, changes nothing.
_CLIMB = """
    INSERT INTO parcels (store, shipment_id, order_id, tracking_number, status, "rank",
                         at, instance)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (store, shipment_id) DO UPDATE SET
        status = excluded.status, "rank" = excluded."rank", at = excluded.at,
        instance = excluded.instance
    WHERE excluded."rank" > "rank"
"""
_ELSEWHERE = """
    SELECT count(*) FROM shipments s WHERE s.store = ?1 AND s.order_id = ?2
    AND NOT EXISTS (SELECT 1 FROM parcels p WHERE p.store = s.store
                    AND p.shipment_id = s.id AND p.status = 'returned')
"""
_ASKED = "SELECT 1 FROM commands WHERE id = ?"


def track(
    connection: sqlite3.Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    """Keep how far the parcels got; return what came of it, for a person."""
    climbed = 0
    for parcel in found.parcels:
        climbed += connection.execute(
            _CLIMB,
            (
                record.store,
                parcel.id,
                parcel.order_id,
                found.tracking_number,
                found.status,
                found.rank,
                found.at,
                record.instance,
            ),
        ).rowcount
    name = found.parcels[0].order_name
    if not climbed:
        return f"a parcel of order {name} got that far before"
    said = f"a parcel of order {name} is {found.status}"
    return f"{said}{_came_back(connection, record, found, now)}"


def _came_back(
    connection: sqlite3.Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    cancel = found.cancel
    if cancel is None:
        return ""
    place = (record.store, cancel.target)
    (elsewhere,) = connection.execute(_ELSEWHERE, place).fetchone()
    if elsewhere and not found.propose:
        return f"; {elsewhere} of its parcels did not come back"
    # What a person made of it since must stay, and what is on its way too.
    if connection.execute(_ASKED, (cancel.id,)).fetchone():
        return "; to cancel it was asked for before"
    cause = f"parcel {found.tracking_number} came back ({record.instance})"
    plan(connection, record.store, record.instance, cancel, cause, now)
    if not found.propose:
        return "; it is to be cancelled"
    reason = f"proposed: {cause}; resend it to cancel the order, or drop it"
    connection.execute(
        "UPDATE commands SET state = ?, reason = ? WHERE id = ? AND state = ?",
        (
            next_state(State.PLANNED, Cause.PERSON_PARKS),
            reason,
            cancel.id,
            State.PLANNED,
        ),
    )
    return "; to cancel it is proposed"
