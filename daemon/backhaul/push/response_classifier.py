"""Classifies platform responses and sets the command's next state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.outcome import Outcome, Verdict, classify_refusal, code_of
from backhaul.errors import Busy, Unusable
from backhaul.platform import decoding, requests
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.store.commands import Transition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from backhaul.core.resources import Order
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.responses import Response
    from backhaul.settings import Push
    from backhaul.store.commands import UncertainCommands
    from backhaul.store.matching import Command


_OVERTAKING = frozenset({"STOCK_CHANGED", "INSUFFICIENT_STOCK"})
"""Codes which show that an adjustment was computed from another stock."""


UNITS_OPEN = (
    "the order still has open units, and the store would ship them if it received"
    " the number alone. Nothing was sent"
)
NO_FURTHER_NUMBER = (
    "the store accepts no other tracking number for a fulfilled order; change the"
    " number in the store's dashboard"
)


class ClassifiedResponse(msgspec.Struct, frozen=True):
    """A verdict that needs no further read, with its evidence."""

    verdict: Verdict
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)


async def classify_response(
    command: Command,
    answer: Response,
    client: PlatformClient,
    uncertain: UncertainCommands,
) -> ClassifiedResponse:
    """Classify what a response proves; read the object where the table requires it."""
    if answer.ok:
        return await _judge_success(command, answer, client.tracking, uncertain)
    verdict = classify_refusal(
        command.kind, answer.status, answer.problem(), answer.retry_after_seconds()
    )
    if "target" in command.payload and code_of(answer.problem()) in _OVERTAKING:
        return ClassifiedResponse(replace(verdict, outcome=Outcome.OVERTAKEN))
    if verdict.outcome is Outcome.CHECK_ABSENT:
        return ClassifiedResponse(await _check_absent(command, verdict, client))
    if verdict.outcome is Outcome.CHECK_EFFECT:
        return await _check_effect(command, verdict, client, uncertain)
    return ClassifiedResponse(verdict)


async def check_shipped_whole(
    command: Command, client: PlatformClient
) -> ClassifiedResponse | None:
    """Read the order before only a number is sent; return None if it may be sent.

    The mirror may be older than the order, and without lines the store ships all open
    units.
    """
    try:
        data = await client.read(requests.object_path(command))
        order = decoding.order(data, client.tracking)
    except (NotSent, OutcomeUnknown, ReadRefused, Unusable) as error:
        reason = f"not sent, because the order could not be read first: {error}"
        return ClassifiedResponse(Verdict(Outcome.NEVER_SENT, reason))
    if order.cancelled_at is not None:
        reason = "the order is cancelled; nothing was sent"
        return ClassifiedResponse(Verdict(Outcome.REJECTED, reason))
    if requests.has_open_units(order, command):
        return ClassifiedResponse(Verdict(Outcome.REJECTED, UNITS_OPEN))
    return None


def refuse_unsent(judged: ClassifiedResponse, request: bytes) -> ClassifiedResponse:
    """Reject if the platform names a member that the request did not have.

    Leaving the member out again would send the same request for ever.
    """
    verdict = judged.verdict
    if verdict.outcome is not Outcome.WITHOUT_MEMBER:
        return judged
    if verdict.member in msgspec.json.decode(request):
        return judged
    return replace(judged, verdict=replace(verdict, outcome=Outcome.REJECTED))


async def _judge_success(
    command: Command,
    answer: Response,
    tracking: decoding.Tracking,
    uncertain: UncertainCommands,
) -> ClassifiedResponse:
    try:
        document = answer.json()
        proof = requests.evidence(command, document, tracking)
        if len(proof.get("shipments", ())) > 1:
            # A platform may list the newest parcel first.
            others = await owned_by_others(uncertain, command, proof["shipments"])
            proof = requests.evidence(command, document, tracking, others)
    except Unusable as error:
        reason = f"{answer.status}, but {error}"
        return ClassifiedResponse(Verdict(Outcome.UNCERTAIN, reason))
    except Busy:
        pass  # then the last parcel that fits counts as its own
    return ClassifiedResponse(Verdict(Outcome.CONFIRMED, str(answer.status)), proof)


async def _check_absent(
    command: Command, verdict: Verdict, client: PlatformClient
) -> Verdict:
    """Reject after a 404 only if the object is 404 too while lists can be read."""
    path = requests.object_path(command)
    try:
        answer = await client.answer_of(path)
        absent = answer.status == 404 and await client.opens()
    except (NotSent, OutcomeUnknown) as error:
        return Verdict(Outcome.STOPPED, f"{verdict.reason}; reading it failed: {error}")
    if absent:
        return Verdict(Outcome.REJECTED, f"{verdict.reason}; {path} does not exist")
    if answer.ok and _lacks_variant(command, answer):
        return Verdict(Outcome.REJECTED, f"{verdict.reason}; {path} lacks the variant")
    return Verdict(Outcome.STOPPED, f"{verdict.reason}, but {path} exists")


def _lacks_variant(command: Command, answer: Response) -> bool:
    """Return True if the product was read and lacks the variant to adjust."""
    if command.kind != "adjust":
        return False
    try:
        product = decoding.resource(answer.json())
    except Unusable:
        return False
    variants = product.get("variants")
    if product.get("id") != command.target or not isinstance(variants, list):
        return False
    known = [variant.get("id") for variant in variants if isinstance(variant, dict)]
    return bool(known) and command.payload["variant_id"] not in known


async def owned_by_others(
    uncertain: UncertainCommands, command: Command, effects: Sequence[str]
) -> set[str]:
    """Return those of `effects` that are proved to belong to another command."""
    owners = await uncertain.owners(command.store, effects)
    return {effect for effect, owner in owners.items() if owner.command != command.id}


async def _check_effect(
    command: Command,
    verdict: Verdict,
    client: PlatformClient,
    uncertain: UncertainCommands,
) -> ClassifiedResponse:
    """Confirm after a 409 if the order shows the effect; else an operator decides."""
    if command.kind == "adjust":
        return ClassifiedResponse(Verdict(Outcome.PARKED, verdict.reason))
    try:
        data = await client.read(requests.object_path(command))
        order = decoding.order(data, client.tracking)
        proof = await _effect(command, order, data, uncertain)
    except (NotSent, OutcomeUnknown, ReadRefused, Unusable, Busy) as error:
        reason = f"{verdict.reason}; reading it failed: {error}"
        return ClassifiedResponse(Verdict(Outcome.DEFERRED, reason))
    if proof is not None:
        reason = f"{verdict.reason}; the order shows the same effect"
        return ClassifiedResponse(Verdict(Outcome.CONFIRMED, reason), proof)
    if command.number_only:
        reason = f"{verdict.reason}; {NO_FURTHER_NUMBER}"
        return ClassifiedResponse(Verdict(Outcome.REJECTED, reason))
    shows = (
        requests.cancellation_mismatch(command, order, data)
        or "the order shows something else"
    )
    read = {"read": requests.read(order, data)}
    return ClassifiedResponse(
        Verdict(Outcome.PARKED, f"{verdict.reason}; {shows}"), read
    )


async def _effect(
    command: Command,
    order: Order,
    data: Mapping[str, Any],
    uncertain: UncertainCommands,
) -> dict[str, Any] | None:
    """Return the evidence that the order shows the effect; None if it does not."""
    proof = requests.order_evidence(order)
    if command.kind == "cancel":
        if not requests.shows_effect(command, order, data):
            return None
        # A refused request had no effect, so somebody else cancelled the order unless
        # our earlier attempt did. To claim the cancellation would hide it from
        # the back office.
        before = await uncertain.known_before(command)
        return proof | requests.own_cancellation(command, order, data, before)
    others = await owned_by_others(uncertain, command, proof["shipments"])
    parcels = requests.matching_parcels(command, order, data, others)
    if not parcels:
        return None
    return proof | requests.parcel_evidence(command, order, data, parcels[-1])


CAUSES: dict[Outcome, tuple[Cause, ...]] = {
    Outcome.CONFIRMED: (Cause.CONFIRMED,),
    Outcome.NEVER_SENT: (Cause.NOT_SENT,),
    Outcome.UNCERTAIN: (Cause.UNKNOWN,),
    Outcome.REJECTED: (Cause.REFUSED,),
    Outcome.THROTTLED: (Cause.NOT_SENT,),
    Outcome.DEFERRED: (Cause.NOT_SENT,),
    Outcome.STOPPED: (Cause.NOT_SENT,),
    Outcome.HELD: (Cause.NOT_SENT,),
    Outcome.WITHOUT_MEMBER: (Cause.NOT_SENT,),
    Outcome.PARKED: (Cause.UNDECIDABLE,),
    Outcome.OVERTAKEN: (Cause.REPLACED,),
}
BACKING_OFF = frozenset({Outcome.NEVER_SENT, Outcome.DEFERRED})
"""Retried after a wait that grows with each failure."""

THROTTLE_SECONDS = 1.0
"""Wait after a 429 that states none."""


def transition_of(
    judged: ClassifiedResponse, failures: int, now: datetime, chance: float, push: Push
) -> Transition:
    """Return the command's next state. `chance` in [0, 1) spreads retries."""
    verdict = judged.verdict
    wait: float | None = None
    if verdict.outcome in BACKING_OFF:
        wait = delay_seconds(
            failures + 1,
            base_seconds=push.retry_base,
            cap_seconds=push.retry_cap,
            chance=chance,
        )
    elif verdict.outcome is Outcome.THROTTLED:
        wait = verdict.retry_after_seconds or THROTTLE_SECONDS
        wait = min(wait, push.longest_pause)
    elif verdict.outcome is Outcome.UNCERTAIN:
        wait = push.check_after[0]
    return Transition(
        causes=CAUSES[verdict.outcome],
        reason=verdict.reason,
        due_at=None if wait is None else to_text(now + timedelta(seconds=wait)),
        held=verdict.outcome is Outcome.HELD,
        counts_as_failure=verdict.outcome in BACKING_OFF,
        evidence=judged.evidence,
        effect_id=requests.effect_id(judged.evidence),
    )


def interrupted(due_at: str | None = None) -> Transition:
    """Return the next state of a command that was being sent when the program died.

    `due_at` is the time of the first check, if it has to wait.
    """
    return Transition(
        causes=CAUSES[Outcome.UNCERTAIN],
        reason="the daemon stopped while it was sending this command",
        due_at=due_at,
    )
