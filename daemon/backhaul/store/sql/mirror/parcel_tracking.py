"""The tracking status of each parcel, and the cancellation for one that came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import Cause, State
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.commands.rows import transition

if TYPE_CHECKING:
    from backhaul.store.matching import WaitingRecord
    from backhaul.store.records import Tracked
    from backhaul.store.sql.family import Connection

# A status only moves forward: a late or lower one changes nothing.
_ADVANCE = """
    INSERT INTO parcels (store, shipment_id, order_id, tracking_number, status, "rank",
                         at, instance)
    VALUES (:store, :parcel, :order, :number, :status, :rank, :at, :instance)
    ON CONFLICT (store, shipment_id) DO UPDATE SET
        status = excluded.status, "rank" = excluded."rank", at = excluded.at,
        instance = excluded.instance
    WHERE excluded."rank" > parcels."rank"
"""
_NOT_RETURNED = """
    SELECT count(*) AS parcels FROM shipments s
    WHERE s.store = :store AND s.order_id = :order
    AND NOT EXISTS (SELECT 1 FROM parcels p WHERE p.store = s.store
                    AND p.shipment_id = s.id AND p.status = 'returned')
"""
_PLANNED = "SELECT seq FROM commands WHERE id = :id AND state = 'planned'"


def track(
    connection: Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    """Save the status of the parcels; return the result in words for an operator."""
    advanced = 0
    for parcel in found.parcels:
        values = {
            "store": record.store,
            "parcel": parcel.id,
            "order": parcel.order_id,
            "number": found.tracking_number,
            "status": found.status,
            "rank": found.rank,
            "at": found.at,
            "instance": record.instance,
        }
        advanced += connection.execute(_ADVANCE, values).rowcount
    name = found.parcels[0].order_name
    if not advanced:
        return f"a parcel of order {name} already had this status or a later one"
    result = f"a parcel of order {name} is {found.status}"
    return f"{result}{_cancel_returned(connection, record, found, now)}"


def _cancel_returned(
    connection: Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    cancel = found.cancel
    if cancel is None:
        return ""
    place = {"store": record.store, "order": cancel.target}
    (others,) = connection.execute(_NOT_RETURNED, place).fetchone()
    if others and not found.propose:
        return f"; {others} of its parcels did not come back"
    # An operator's later decision, or a command under way, must stay.
    known = "SELECT 1 FROM commands WHERE id = :id"
    if connection.execute(known, {"id": cancel.id}).fetchone():
        return "; the cancellation was already requested"
    cause = f"parcel {found.tracking_number} came back ({record.instance})"
    plan(connection, record.store, record.instance, cancel, cause, now)
    if not found.propose:
        return "; Backhaul cancels the order"
    reason = (
        f"Backhaul proposes to cancel the order: {cause}. To cancel, resend the"
        " command. Otherwise discard it"
    )
    planned = connection.execute(_PLANNED, {"id": cancel.id}).fetchone()
    if planned is not None:
        causes = (Cause.PERSON_PARKS,)
        transition(connection, planned[0], State.PLANNED, causes, now, reason=reason)
    return "; Backhaul proposes to cancel the order"
