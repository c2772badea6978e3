"""Records that programs submit: they become commands as a connection's records do."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from backhaul.admin.api.endpoint import (
    KEY_HEADER,
    REPLAYED_HEADER,
    Answer,
    Api,
    Call,
    operates,
    reads,
)
from backhaul.admin.api.lists import OneRow
from backhaul.admin.api.problems import ApiError
from backhaul.admin.auth import NotFound
from backhaul.connect.record_matching import encode
from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError, Busy
from backhaul.store.records import RecordDetail
from backhaul_sdk import Cancellation as CancellationRecord
from backhaul_sdk import Fulfillment as FulfillmentRecord
from backhaul_sdk import Line, Record, StockAdjustment, StockLevel, fields
from backhaul_sdk.fields import Unusable
from backhaul_sdk.records import MAX_DELTA, MAX_LEVEL

MOST_LINES = 1_000
MOST_UNITS = 1_000_000
Text = Annotated[str, Meta(min_length=1, max_length=255)]
StoreName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Name of the store. You can leave it out if there is only one.",
    ),
]
Moment = Annotated[
    str, Meta(min_length=1, max_length=64, description="A time in RFC 3339.")
]
CancelReason = Literal["CUSTOMER", "FRAUD", "INVENTORY", "DECLINED", "STAFF", "OTHER"]
StockReason = Literal[
    "MANUAL_ADJUSTMENT",
    "CORRECTION",
    "STOCK_COUNT",
    "RECEIVED",
    "RESTOCK",
    "RETURN",
    "DAMAGED",
    "SHRINKAGE",
    "PROMOTION",
    "OTHER",
]
"""The reasons of the SDK's records."""


class ShippedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """Units of one SKU that left."""

    sku: Text
    quantity: Annotated[int, Meta(ge=1, le=MOST_UNITS)]


class Fulfillment(Struct, frozen=True, forbid_unknown_fields=True):
    """A parcel that left the warehouse.

    `order` is the number, name, external id or id of the order. Give either `lines`, or
    `everything` if all units left that were still open.
    """

    order: Text
    lines: Annotated[list[ShippedLine], Meta(max_length=MOST_LINES)] = []
    everything: bool = False
    tracking_company: Text | None = None
    tracking_number: Text | None = None
    shipped_at: Moment | None = None
    store: StoreName | None = None


class Cancellation(Struct, frozen=True, forbid_unknown_fields=True):
    """An order that will not be delivered; `restock` returns its units to stock."""

    order: Text
    restock: bool
    reason: CancelReason = "OTHER"
    store: StoreName | None = None


class Adjustment(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the stock of a SKU by `delta` units, which is not 0."""

    sku: Text
    delta: Annotated[int, Meta(ge=-MAX_DELTA, le=MAX_DELTA)]
    reason: StockReason = "MANUAL_ADJUSTMENT"
    store: StoreName | None = None


class StockCount(Struct, frozen=True, forbid_unknown_fields=True):
    """A stock count: `quantity` units of a SKU at the time `as_of`."""

    sku: Text
    quantity: Annotated[int, Meta(ge=0, le=MAX_LEVEL)]
    as_of: Moment
    store: StoreName | None = None


class SubmittedRecord(Struct, frozen=True):
    """A stored record, and where it stands.

    `state` is `waiting` (its order or SKU is not known yet), `quarantined` (an operator
    decides), `discarded`, `done` (nothing is left to do), or the state of its command,
    such as `planned`. `reason` explains the state. `accepted` is always true: the
    record is stored.
    """

    accepted: bool
    id: int
    connection: str
    key: str
    locator: str
    store: str
    kind: str | None
    received_at: str
    state: str
    reason: str
    command_id: str | None
    quarantine_id: int | None


_STATES = {"accepted": "done", "dropped": "discarded", "approved": "waiting"}


def submitted(found: RecordDetail) -> SubmittedRecord:
    """Return where a record stands."""
    state = found.command_state or _STATES.get(found.state, found.state)
    return SubmittedRecord(
        accepted=True,
        id=found.id,
        connection=found.instance,
        key=found.key,
        locator=found.locator,
        store=found.store,
        kind=found.kind,
        received_at=found.received_at,
        state=state,
        reason=found.reason or found.command_reason or "",
        command_id=found.command_id,
        quarantine_id=found.quarantine_id,
    )


def _fulfillment(call: Call) -> Record:
    asked: Fulfillment = call.body
    if bool(asked.lines) == asked.everything:
        raise BackhaulError(
            "give either `lines`, or `everything: true` if all open units left"
        )
    return FulfillmentRecord(
        key=call.key,
        order=_code(asked.order, "order"),
        tracking_company=fields.label(asked.tracking_company, "tracking_company")
        or None,
        tracking_number=_code(asked.tracking_number, "tracking_number") or None,
        lines=tuple(
            Line(sku=_sku(each.sku), quantity=each.quantity) for each in asked.lines
        ),
        everything=asked.everything,
        shipped_at=_moment(asked.shipped_at, "shipped_at"),
        **_origin(call),
    )


def _cancellation(call: Call) -> Record:
    asked: Cancellation = call.body
    return CancellationRecord(
        key=call.key,
        order=_code(asked.order, "order"),
        restock=asked.restock,
        reason=asked.reason,
        **_origin(call),
    )


def _adjustment(call: Call) -> Record:
    asked: Adjustment = call.body
    if asked.delta == 0:
        raise BackhaulError("delta: 0 changes nothing; give the units as + or -")
    return StockAdjustment(
        key=call.key,
        sku=_sku(asked.sku),
        delta=asked.delta,
        reason=asked.reason,
        **_origin(call),
    )


def _count(call: Call, now: str) -> Record:
    asked: StockCount = call.body
    return StockLevel(
        key=call.key,
        sku=_sku(asked.sku),
        quantity=asked.quantity,
        as_of=_moment(asked.as_of, "as_of") or now,
        listed_at=now,
        **_origin(call),
    )


def _code(value: str | None, name: str) -> str:
    required = name == "order"
    return fields.identifier(value, name, is_text=True, required=required)


def _sku(value: str) -> str:
    return fields.article(value, is_text=True, required=True)


def _moment(value: str | None, name: str) -> str | None:
    return fields.moment(value, name, timespec="milliseconds")


def _origin(call: Call) -> dict[str, Any]:
    """Return where an operator finds the record: the key, and the program's token."""
    return {"locator": f"{call.key} ({call.who})", "raw": _raw(call.body)}


def _raw(body: Struct) -> str:
    """Return the request as text; two requests with the same text are the same."""
    return msgspec.json.encode(replace(body, store=None)).decode()


async def submit_fulfillment(api: Api, call: Call) -> object:
    """Submit a parcel that left the warehouse."""
    return await _submit(api, call)


async def submit_cancellation(api: Api, call: Call) -> object:
    """Submit the cancellation of an order."""
    return await _submit(api, call)


async def submit_adjustment(api: Api, call: Call) -> object:
    """Submit a change of stock."""
    return await _submit(api, call)


async def submit_count(api: Api, call: Call) -> object:
    """Submit a stock count."""
    return await _submit(api, call)


def _record(api: Api, call: Call) -> Record:
    """Return the record of a request. Raises BackhaulError."""
    if isinstance(call.body, Fulfillment):
        return _fulfillment(call)
    if isinstance(call.body, Cancellation):
        return _cancellation(call)
    if isinstance(call.body, Adjustment):
        return _adjustment(call)
    return _count(call, to_text(api.services.clock.now()))


def _store(api: Api, name: str | None) -> str:
    """Return the store of a record. Raises BackhaulError."""
    known = list(api.services.settings.stores)
    if name is None and len(known) == 1:
        return str(known[0])
    if name in known:
        return str(name)
    what = "several stores are configured" if name is None else f"no store is {name!r}"
    raise BackhaulError(f"store: {what}; the stores are {', '.join(known)}")


async def _submit(api: Api, call: Call) -> object:
    """Store a record and answer after the commit, or tell what the key stands for."""
    store = _store(api, call.body.store)
    try:
        record = _record(api, call)
    except Unusable as error:
        raise BackhaulError(str(error)) from None
    asked = {
        "store": store,
        "key": record.key,
        "payload": encode(record).decode(),
        "raw": record.raw,
        "locator": record.locator,
    }
    try:
        done = await api.change(call, "records/submit", **asked)
    except Busy:
        raise
    except BackhaulError as error:  # the owner ended: nobody knows whether it stored it
        raise Busy(
            f"{error}. Send the same request with the same {KEY_HEADER} again: Backhaul"
            " does not store it twice"
        ) from None
    found = msgspec.convert(done["record"], RecordDetail)
    if not done["is_same"]:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the {KEY_HEADER} {call.key!r} already stands for another request, which"
            f" is record {found.id}; nothing was stored. If this request is a new one,"
            " send it with a new key",
        )
    content = submitted(found)
    headers = {"Location": f"/backhaul/v1/records/{found.id}"}
    if not done["is_new"]:
        headers[REPLAYED_HEADER] = "true"
    is_done = content.state not in {"waiting", "quarantined"}
    status = HTTPStatus.CREATED if is_done else HTTPStatus.ACCEPTED
    return Answer(status, content, headers)


async def show_record(api: Api, call: Call) -> object:
    """Show a record of any connection, and where it stands now."""
    found = await api.read(lambda reader: reader.record(call.asked.id))
    if found is None:
        raise NotFound(f"there is no record {call.asked.id}")
    return submitted(found)


ENDPOINTS = (
    reads("/records/{id}", show_record, SubmittedRecord, OneRow),
    *(
        operates(
            path,
            handler,
            SubmittedRecord,
            body=body,
            keyed=True,
            also=(HTTPStatus.CREATED, HTTPStatus.ACCEPTED),
        )
        for path, handler, body in (
            ("/fulfillments", submit_fulfillment, Fulfillment),
            ("/cancellations", submit_cancellation, Cancellation),
            ("/adjustments", submit_adjustment, Adjustment),
            ("/counts", submit_count, StockCount),
        )
    ),
)
