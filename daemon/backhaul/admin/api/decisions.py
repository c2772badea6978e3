"""What programs decide about commands, deliveries and events."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from backhaul.admin.api.endpoint import Api, Call, Endpoint, Number, Reason, operates
from backhaul.admin.api.lists import OneCommand, Time, find_command, moment
from backhaul.admin.auth import NotFound
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.store.commands import RESTOCK_UNSHIPPED
from backhaul.store.inbox import EventState
from backhaul.store.tokens import Scope

MOST_EVENTS = 1_000
"""The events that one request may name."""


class CommandVerb(StrEnum):
    """What can be decided about a command."""

    RESOLVE = "resolve"
    MARK_APPLIED = "mark_applied"
    PARK = "park"
    DISCARD = "discard"
    RESEND = "resend"
    RESTOCK_UNSHIPPED = "restock_unshipped"


_VERBS = {
    CommandVerb.RESOLVE: "resolve",
    CommandVerb.MARK_APPLIED: "resolve --applied",
    CommandVerb.PARK: "park",
    CommandVerb.DISCARD: "discard",
    CommandVerb.RESEND: "resend",
    CommandVerb.RESTOCK_UNSHIPPED: RESTOCK_UNSHIPPED,
}


class DecisionOnCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision about a command. All but `resolve` need a `reason`.

    For `resend`, give the `state` and the `body` of the request that you read before:
    if either has changed since, nothing is sent.
    """

    verb: CommandVerb
    reason: Reason | None = None
    state: State | None = None
    body: str | None = None


class DecidedCommand(Struct, frozen=True):
    """The command, and its new state."""

    command: str
    state: str


async def decide_command(api: Api, call: Call) -> object:
    """Decide about a command, as `backhaul commands` and the dashboard do."""
    asked: DecisionOnCommand = call.body
    found = await find_command(api, call.asked.id)
    values: dict[str, Any] = {"command": found.id, "verb": _VERBS[asked.verb]}
    values |= {"reason": asked.reason or ""}
    if asked.verb is CommandVerb.RESEND:
        if asked.state is None or asked.body is None:
            raise BackhaulError(
                "a resend needs `state` and `body` of the request that will be sent;"
                f" read them from /backhaul/v1/commands/{found.id}/request"
            )
        values |= {"shown": asked.state.value, "body": asked.body}
    return await api.change(call, "commands/decide", **values)


class CommandRequest(Struct, frozen=True):
    """The request that a resend of the command would send."""

    state: str
    method: str
    path: str
    body: str


async def show_request(api: Api, call: Call) -> object:
    """Show the request that a resend of a parked or rejected command would send."""
    found = await find_command(api, call.asked.id)
    return await api.services.changes["commands/preview"]({"command": found.id})


class DeliveryVerb(StrEnum):
    """What can be decided about a delivery."""

    RETRY = "retry"
    MARK_APPLIED = "mark_applied"
    DISCARD = "discard"
    PARK = "park"


_DELIVERY_VERBS = {
    DeliveryVerb.RETRY: "resend",
    DeliveryVerb.MARK_APPLIED: "applied",
    DeliveryVerb.DISCARD: "discard",
    DeliveryVerb.PARK: "park",
}


class OneDelivery(Struct, frozen=True, forbid_unknown_fields=True):
    """A delivery by its number (`seq`)."""

    seq: Number


class DecisionOnDelivery(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision about a delivery. A `retry` of one that arrived sends it twice."""

    verb: DeliveryVerb
    reason: Reason


class DecidedDelivery(Struct, frozen=True):
    """The delivery, and its new state."""

    delivery: int
    state: str


async def decide_delivery(api: Api, call: Call) -> object:
    """Decide about a delivery of a change notification."""
    seq = call.asked.seq
    if await api.read(lambda reader: reader.store_of_delivery(seq)) is None:
        raise NotFound(f"there is no delivery {seq}; see /backhaul/v1/deliveries")
    verb = _DELIVERY_VERBS[call.body.verb]
    values = {"delivery": seq, "verb": verb, "reason": call.body.reason}
    return await api.change(call, "connectors/resolve", **values)


class EventSelection(Struct, frozen=True, forbid_unknown_fields=True):
    """The events to process again: those that match every field, at least one of them.

    `since` is a time of arrival.
    """

    ids: Annotated[list[Number], Meta(max_length=MOST_EVENTS)] = []
    state: EventState | None = None
    since: Time | None = None


async def reprocess_events(api: Api, call: Call) -> object:
    """Process stored events again; answers how many ended in each state."""
    asked: EventSelection = call.body
    since = moment(asked.since, "since")
    if not (asked.ids or asked.state or since):
        raise BackhaulError("choose events by `ids`, `state` or `since`")
    state = asked.state and asked.state.value
    return await api.change(
        call, "events/reprocess", ids=list(asked.ids), state=state, since=since
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/commands/{id}/request",
        needs=Scope.OPERATE,
        handler=show_request,
        asked=OneCommand,
        answer=CommandRequest,
    ),
    operates(
        "/commands/{id}/decision",
        decide_command,
        DecidedCommand,
        asked=OneCommand,
        body=DecisionOnCommand,
    ),
    operates(
        "/deliveries/{seq}/decision",
        decide_delivery,
        DecidedDelivery,
        asked=OneDelivery,
        body=DecisionOnDelivery,
    ),
    operates(
        "/events/reprocess", reprocess_events, dict[str, int], body=EventSelection
    ),
)
