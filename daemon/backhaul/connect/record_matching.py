"""Matches the references of records to orders, articles and parcels."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger

from backhaul.connect.fulfillment_matching import match_fulfillment
from backhaul.connect.stock_matching import new_adjustment, new_target
from backhaul.core.clock import from_text, normalize
from backhaul.core.identity import command_id
from backhaul.core.stock import ListEnd
from backhaul.core.strict_json import storable
from backhaul.store.matching import NewCommand
from backhaul.store.records import Known, Matched, ReasonClass, Tracked, Unmatched
from backhaul_sdk import (
    Cancellation,
    Fulfillment,
    FullList,
    StockAdjustment,
    StockLevel,
    Tracking,
)
from backhaul_sdk.records import TRACKING_STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.store.mappings import UsedMapping
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.mirror import Parcel
    from backhaul.store.records import RecordOutcome
    from backhaul_sdk import Record


def match_parcel(
    waiting: WaitingRecord, record: Tracking, mirror: MatchReader
) -> Tracked | Unmatched:
    """Return the parcels of one order with the tracking number, or why none match."""
    if record.status not in TRACKING_STATUSES:
        reason = f"there is no status {record.status!r}"
        return Unmatched(reason, final=True, reason_class=ReasonClass.VALUE)
    number = record.tracking_number
    parcels = mirror.parcels_with_number(waiting.store, number)
    if not parcels:
        return Unmatched(
            f"no parcel has the number {number!r}",
            final=False,
            reason_class=ReasonClass.UNKNOWN_PARCEL,
            subject=number,
        )
    named = [parcel for parcel in parcels if _has_reference(parcel, record.order)]
    orders = {parcel.order_id: parcel.order_name for parcel in named or parcels}
    if len(orders) > 1:
        names = ", ".join(f"{name} ({id_})" for id_, name in orders.items())
        reason = f"parcel {number!r} could be of any of the orders {names}"
        decision = ReasonClass.NEEDS_DECISION
        return Unmatched(reason, final=True, reason_class=decision, subject=number)
    return _tracked(waiting, record, tuple(named or parcels))


def _has_reference(parcel: Parcel, order: str | None) -> bool:
    """Return True if a courier's reference names the parcel's order."""
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
        reason = f"{record.at!r} is not a time"
        return Unmatched(reason, final=True, reason_class=ReasonClass.VALUE)
    asks = record.status == "returned" and not parcels[0].is_cancelled
    return Tracked(
        parcels,
        record.tracking_number,
        record.status,
        TRACKING_STATUSES.index(record.status),
        at,
        _cancel_command(waiting, parcels[0].order_id) if asks else None,
        record.on_return != "cancel",
    )


def _cancel_command(waiting: WaitingRecord, order: str) -> NewCommand:
    """Return the one cancel command for the returned parcels of an order."""
    key = f"returned:{order}"
    identity = command_id(waiting.store, waiting.instance, key, "cancel")
    payload = {"restock": False, "reason": "OTHER"}
    return NewCommand(identity, "cancel", order, f"order:{order}", payload)


CLOCK_JUMP_SECONDS = 2.0
"""A clock that gains this much between two checks was set, not slewed."""
RECORD_TYPES: Mapping[str, type[Any]] = {
    "fulfill": Fulfillment,
    "cancel": Cancellation,
    "adjust": StockAdjustment,
    "level": StockLevel,
    "track": Tracking,
    "list": FullList,
}
"""The type of each kind of record, by the name that is stored with it."""
_UNSET: Mapping[str, object] = {
    "parts": (),
    "beside": None,
    "by_content": False,
    "question": "",
}
"""Defaults of members that few records have; a member with its default is not
stored."""


def encode(record: Record) -> bytes:
    """Encode a record for the database; its raw row is stored separately."""
    kind = next(k for k, type_ in RECORD_TYPES.items() if isinstance(record, type_))
    members = {**msgspec.to_builtins(record), "raw": ""}
    for name, unset in _UNSET.items():
        if name in members and members[name] == unset:
            del members[name]
    return msgspec.json.encode({"kind": kind, "record": members})


def decode(payload: bytes) -> tuple[str, Record]:
    """Decode the output of `encode`."""
    document = msgspec.json.decode(payload)
    kind: str = document["kind"]
    members = document["record"]
    if kind == "fulfill":
        # Older versions have no such member: no lines meant everything.
        members.setdefault("everything", not members.get("lines"))
    record: Record = msgspec.convert(members, RECORD_TYPES[kind])
    return kind, record


def is_decided(payload: bytes) -> bool:
    """Return True if the record was put to an operator, who retried it."""
    return msgspec.json.decode(payload).get("asked") is True


class Matcher:
    """Turns a stored record into a command, or says why it cannot."""

    def __init__(self, clock: Clock, wait_seconds: float) -> None:
        self._clock = clock
        self._wait = timedelta(seconds=wait_seconds)
        self._expires_from: dict[str, datetime | None] = {}
        self._began = clock.now()
        self._offset = self._wall_offset(self._began)

    def hold(self, stores: Iterable[str]) -> None:
        """Quarantine no record of these stores for now: the mirror is outdated."""
        self._expires_from |= dict.fromkeys(stores)

    def is_held(self, store: str) -> bool:
        """Return True if the store's mirror is not up to date."""
        return store in self._expires_from and self._expires_from[store] is None

    def release(self, store: str) -> None:
        """Start the waiting time of every unmatched record of a store now."""
        self._expires_from[store] = self._clock.now()

    def __call__(
        self, waiting: WaitingRecord, mirror: MatchReader
    ) -> Matched | Tracked | ListEnd | Known | Unmatched:
        """Match one record. A record whose order or SKU is unknown waits at first."""
        kind, record = decode(waiting.payload)
        found: Matched | Tracked | ListEnd | Known | Unmatched
        if isinstance(record, StockAdjustment | StockLevel):
            found = _match_stock(waiting, record, mirror)
        elif isinstance(record, FullList):
            times = (record.listed_at, record.counted_at)
            listed_at, counted_at = (normalize(at) if at else "" for at in times)
            found = ListEnd(listed_at, record.rows, record.absent_limit, counted_at)
        elif isinstance(record, Tracking):
            found = match_parcel(waiting, record, mirror)
        else:
            found = _match_order(waiting, kind, record, mirror)
        found = _with_mappings(found, record, mirror)
        if isinstance(found, Unmatched) and self._expired(waiting):
            return msgspec.structs.replace(found, final=True)
        return found

    def _wall_offset(self, now: datetime) -> float:
        return now.timestamp() - self._clock.monotonic()

    def _detect_clock_jump(self, now: datetime) -> None:
        """Restart every waiting time after the clock was set ahead, or stood still.

        The mirror was not updated during the time that the clock skipped.
        """
        before, self._offset = self._offset, self._wall_offset(now)
        if self._offset - before > CLOCK_JUMP_SECONDS:
            self._began = now
            held = {name for name, since in self._expires_from.items() if since is None}
            for name in self._expires_from.keys() - held:
                self.release(name)

    def _expired(self, waiting: WaitingRecord) -> bool:
        now = self._clock.now()
        self._detect_clock_jump(now)
        expires_from = self._expires_from.get(waiting.store, self._began)
        if expires_from is None:
            return False
        since = max(from_text(waiting.received_at), expires_from)
        return now - since >= self._wait


def _with_mappings(
    found: Matched | Tracked | ListEnd | Known | Unmatched,
    record: Record,
    mirror: MatchReader,
) -> Matched | Tracked | ListEnd | Known | Unmatched:
    """Return the result with the mappings by which the record's own names were read."""
    used = tuple(each for each in mirror.used_mappings if _names(record, each))
    if not used:
        return found
    said = [each.in_words() for each in used]
    if isinstance(found, Matched):
        note = "; ".join(filter(None, (found.note, *said)))
        return msgspec.structs.replace(found, note=note, mappings=used)
    if isinstance(found, Unmatched | Known):
        reason = "; ".join([found.reason, *said])
        return msgspec.structs.replace(found, reason=reason)
    return found


def _names(record: Record, used: UsedMapping) -> bool:
    """Return True if a record itself has the alias, and not an earlier shipment."""
    if isinstance(record, Fulfillment):
        skus = {line.sku for line in record.lines}
        return used.alias in {record.tracking_company, *skus}
    return True


def _match_order(
    waiting: WaitingRecord,
    kind: str,
    record: Fulfillment | Cancellation,
    mirror: MatchReader,
) -> Matched | Known | Unmatched:
    orders = mirror.orders_named(waiting.store, record.order)
    if not orders:
        return Unmatched(
            f"order {record.order!r} is not known",
            final=False,
            reason_class=ReasonClass.UNKNOWN_ORDER,
            subject=record.order,
        )
    if len(orders) > 1:
        names = ", ".join(f"{order.name} ({order.id})" for order in orders)
        reason = f"order {record.order!r} could be any of {names}"
        decision = ReasonClass.NEEDS_DECISION
        return Unmatched(
            reason, final=True, reason_class=decision, subject=record.order
        )
    if isinstance(record, Cancellation):
        asked = {"restock": record.restock, "reason": record.reason}
        return _command(waiting, kind, orders[0].id, asked)
    payload = match_fulfillment(
        waiting, record, orders[0], mirror, is_decided=is_decided(waiting.payload)
    )
    if isinstance(payload, Unmatched | Known):
        return payload
    return _command(waiting, kind, orders[0].id, payload)


def _match_stock(
    waiting: WaitingRecord, record: StockAdjustment | StockLevel, mirror: MatchReader
) -> Matched | Unmatched:
    if isinstance(record, StockLevel):
        target = new_target(waiting, record, mirror)
        if isinstance(target, Unmatched):
            return target
        return Matched(target, storable(record.note))
    command = new_adjustment(waiting, record, mirror)
    return command if isinstance(command, Unmatched) else Matched(command)


def _command(
    waiting: WaitingRecord, kind: str, order: str, payload: dict[str, Any]
) -> Matched:
    identity = command_id(waiting.store, waiting.instance, waiting.key, kind)
    return Matched(NewCommand(identity, kind, order, f"order:{order}", payload))


def log_outcome(outcome: RecordOutcome) -> None:
    """Log the outcome of a record; only quarantine needs an operator."""
    level = "WARNING" if outcome.state in {"quarantined", "conflict"} else "DEBUG"
    record = outcome.record
    logger.bind(action=f"record.{outcome.state}", instance=record.instance).log(
        level,
        "{} {}: {}",
        record.instance,
        record.locator or record.key,
        outcome.reason,
    )
