"""What a courier tells of a parcel: which one it is, and how far it got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import normalize
from backhaul.core.identity import command_id
from backhaul.store.contract import NewCommand, Tracked, Unmatched
from backhaul_sdk.records import TRACKING_STATUSES

if TYPE_CHECKING:
    from backhaul.store.contract import MatchReader, WaitingRecord
    from backhaul.store.tracking import Parcel
    from backhaul_sdk import Tracking


def match_parcel(
    waiting: WaitingRecord, record: Tracking, mirror: MatchReader
) -> Tracked | Unmatched:
    """Find the parcels of one order with the tracking number. Some are not told yet."""
    if record.status not in TRACKING_STATUSES:
        return Unmatched(f"there is no status {record.status!r}", final=True)
    number = record.tracking_number
    parcels = mirror.parcels_tracked(waiting.store, number)
    if not parcels:
        return Unmatched(f"no parcel has the number {number!r}", final=False)
    named = [parcel for parcel in parcels if _is_called(parcel, record.order)]
    orders = {parcel.order_id: parcel.order_name for parcel in named or parcels}
    if len(orders) > 1:
        names = ", ".join(f"{name} ({id_})" for id_, name in orders.items())
        reason = f"parcel {number!r} could be of any of the orders {names}"
        return Unmatched(reason, final=True)
    return _tracked(waiting, record, tuple(named or parcels))


def _is_called(parcel: Parcel, order: str | None) -> bool:
    """Tell whether a courier's reference names the parcel's order."""
    return order is not None and order.removeprefix("#") in {
        str(parcel.order_number),
        parcel.order_external_id,
        parcel.order_id,
        parcel.order_name.removeprefix("#"),
    }


def _tracked(
    waiting: WaitingRecord, record: Tracking, parcels: tuple[Parcel, ...]
) -> Tracked | Unmatched:
    try:
        at = normalize(record.at) if record.at else waiting.received_at
    except ValueError:
        return Unmatched(f"{record.at!r} is no time", final=True)
    asks = record.status == "returned" and not parcels[0].is_cancelled
    return Tracked(
        parcels,
        record.tracking_number,
        record.status,
        TRACKING_STATUSES.index(record.status),
        at,
        _cancel(waiting, parcels[0].order_id) if asks else None,
        record.on_return != "cancel",
    )


def _cancel(waiting: WaitingRecord, order: str) -> NewCommand:
    """Return the command that an order's parcels ask for together, once."""
    key = f"returned:{order}"
    identity = command_id(waiting.store, waiting.instance, key, "cancel")
    payload = {"restock": False, "reason": "OTHER"}
    return NewCommand(identity, "cancel", order, f"order:{order}", payload)
