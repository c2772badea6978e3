"""Verifies at the platform whether an uncertain command took effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from backhaul.core.effect_proof import (
    ALL_SHIPPED,
    EffectState,
    PlatformBehavior,
    SoughtAdjustment,
    find_adjustment,
)
from backhaul.core.identity import tag
from backhaul.core.lifecycle import State
from backhaul.platform import decoding, requests
from backhaul.platform.client import NOT_OFFERED, ReadRefused
from backhaul.platform.history import ProductHistories
from backhaul.push.response_classifier import owned_by_others
from backhaul.store.commands import audited_mark

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from backhaul.core.effect_proof import EffectOwner, Finding, Move
    from backhaul.core.resources import Order
    from backhaul.platform.client import PlatformClient
    from backhaul.runtime.signals import StoreContext
    from backhaul.store.commands import UncertainCommand, UncertainCommands
    from backhaul.store.matching import Command
    from backhaul.store.operations import KeyValues

MOST_KEPT = 50
"""Rows of a history that are stored as evidence."""


class Proof(msgspec.Struct, frozen=True):
    """Result of one check, with the evidence that an operator can verify.

    `effect_id` is the parcel or adjustment that belongs to the command; `doubled` lists
    further parcels or adjustments that the same command caused.
    """

    found: EffectState
    reason: str
    read: Any = None
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    effect_id: str | None = None
    doubled: tuple[str, ...] = ()
    final: bool = False
    """Whether a later check cannot find out more."""


class EffectVerifier:
    """Verifies effects. Raises NotSent, OutcomeUnknown, ReadRefused or Unusable."""

    def __init__(
        self,
        context: StoreContext,
        client: PlatformClient,
        uncertain: UncertainCommands,
        marks: KeyValues,
    ) -> None:
        self._store = context.name
        self._client = client
        self._histories = ProductHistories(client, context.clock)
        self._uncertain = uncertain
        self._marks = marks

    async def verify(self, uncertain: UncertainCommand) -> Proof:
        """Check once whether a command took effect."""
        if uncertain.command.kind == "adjust":
            return await self._adjustment(uncertain)
        return await self._order(uncertain)

    async def _order(self, uncertain: UncertainCommand) -> Proof:
        command = uncertain.command
        try:
            data = await self._client.read(requests.object_path(command))
        except ReadRefused as error:
            if error.status != 404:
                raise
            reason = f"{error}: the order no longer exists"
            return Proof(EffectState.UNDECIDABLE, reason)
        order = decoding.order(data, self._client.tracking)
        if command.kind == "cancel":
            return _cancelled(uncertain, order, data)
        parcels = [parcel.id for parcel in order.shipments]
        others = await owned_by_others(self._uncertain, command, parcels)
        proof = _fulfilled(uncertain, order, data, others)
        if proof.found is not EffectState.APPLIED:
            return proof
        beside = await self._uncertain.sibling_fulfillments(command)
        return _decide_owner(beside, proof, command, order, data, others)

    async def _adjustment(self, uncertain: UncertainCommand) -> Proof:
        command, since = uncertain.command, uncertain.baseline.get("adjustment_id")
        try:
            found = await self._histories.read(command.target, since, uncertain.due_at)
        except ReadRefused as error:
            if not await self._is_without_history(error):
                raise
            reason = f"{error}: without a stock history nothing can be verified"
            return Proof(EffectState.UNDECIDABLE, reason, final=True)
        owners = await self._owners(found.moves)
        others = {
            effect for effect, owner in owners.items() if owner.command != command.id
        }
        wanted = _wanted(uncertain)
        behavior = await self._behavior(wanted, found.moves, owners, uncertain.due_at)
        finding = find_adjustment(wanted, found.moves, others, behavior)
        if not found.complete and finding.found is not EffectState.APPLIED:
            reason = f"{finding.reason}, as far as it could be read"
            return Proof(EffectState.UNDECIDABLE, reason, _rows(found.moves))
        return await self._judged(uncertain, finding, found.moves)

    async def _is_without_history(self, error: ReadRefused) -> bool:
        """Return True if no later check can succeed: no history was ever read here."""
        if error.status not in NOT_OFFERED:
            return False
        if await self._marks.get(audited_mark(self._store)):
            return False
        return await self._client.opens()

    async def _judged(
        self, uncertain: UncertainCommand, finding: Finding, moves: Sequence[Move]
    ) -> Proof:
        own = [m for m in moves if m.adjustment_id in finding.adjustment_ids]
        read = _rows(own or moves)
        tagged = any(move.note for move in own)
        if finding.found is not EffectState.APPLIED:
            return Proof(finding.found, finding.reason, read)
        effective_at = min((move.at for move in own), default="")
        if not tagged and await self._uncertain.count_competing_adjustments(
            uncertain.command, effective_at
        ):
            reason = f"{finding.reason}, but another command may have made it"
            return Proof(EffectState.UNDECIDABLE, reason, read)
        first, *more = finding.adjustment_ids
        levels = [move for move in own if move.adjustment_id == first]
        evidence = {"adjustment_id": first, "moves": _rows(levels)}
        reason = finding.reason
        return Proof(EffectState.APPLIED, reason, read, evidence, first, tuple(more))

    async def _behavior(
        self,
        wanted: SoughtAdjustment,
        moves: Sequence[Move],
        owners: Mapping[str, EffectOwner],
        due_at: str,
    ) -> PlatformBehavior:
        """Return how the platform records our adjustments, learning from `moves`.

        If that is unknown and the tag alone does not decide, read the history of a
        product that has an adjustment known to be ours.
        """
        learnt = await self._learn(moves, owners)
        is_named = learnt.names(wanted.key_fingerprint)
        is_known = learnt.keeps_notes is not None and is_named
        if is_known or _tag_decides(wanted, moves, learnt):
            return learnt
        product = await self._uncertain.last_adjusted(self._store)
        if product is None:
            return learnt
        past = await self._histories.read(product, None, due_at)
        return await self.observe(past.moves)

    async def observe(self, moves: Sequence[Move]) -> PlatformBehavior:
        """Learn from these moves, store the result and return it; read nothing more."""
        return await self._learn(moves, await self._owners(moves))

    async def _owners(self, moves: Sequence[Move]) -> Mapping[str, EffectOwner]:
        effects = [move.adjustment_id for move in moves]
        return await self._uncertain.owners(self._store, effects)

    async def _learn(
        self, moves: Sequence[Move], owners: Mapping[str, EffectOwner]
    ) -> PlatformBehavior:
        known = await self._known_behavior()
        learnt = known.learn(moves, owners)
        if learnt != known:
            await self._remember(learnt)
        return learnt

    async def _remember(self, behavior: PlatformBehavior) -> None:
        await self._marks.put(self._mark, msgspec.json.encode(behavior).decode())

    async def _known_behavior(self) -> PlatformBehavior:
        text = await self._marks.get(self._mark)
        try:
            return (
                msgspec.json.decode(text, type=PlatformBehavior)
                if text
                else PlatformBehavior()
            )
        except ValueError:  # damaged: it is learnt again
            return PlatformBehavior()

    @property
    def _mark(self) -> str:
        return f"habits:{self._store}"


def _cancelled(
    uncertain: UncertainCommand, order: Order, data: Mapping[str, Any]
) -> Proof:
    command, read = uncertain.command, requests.read(order, data)
    if order.cancelled_at is None:
        return Proof(EffectState.ABSENT, "the order is not cancelled", read)
    if reason := requests.cancellation_mismatch(command, order, data):
        return Proof(EffectState.UNDECIDABLE, reason, read, final=True)
    own = requests.own_cancellation(command, order, data, uncertain.baseline)
    evidence = read | own
    effect = requests.effect_id(evidence)
    return Proof(EffectState.APPLIED, "the order is cancelled", read, evidence, effect)


def _fulfilled(
    uncertain: UncertainCommand,
    order: Order,
    data: Mapping[str, Any],
    others: Collection[str],
) -> Proof:
    command, read = uncertain.command, requests.order_evidence(order)
    before = set(uncertain.baseline.get("shipments", ()))
    shown = requests.matching_parcels(command, order, data, others)
    new = [parcel for parcel in shown if parcel not in before]
    tracked = command.payload["tracking_number"] is not None
    if new and not tracked and not uncertain.baseline:
        reason = (
            "the order shows such a parcel, but the parcel may be older than the"
            " command"
        )
        return Proof(EffectState.UNDECIDABLE, reason, read)
    if new and (tracked or len(new) == 1):
        evidence = read | requests.parcel_evidence(command, order, data, new[0])
        reason = "the order shows the parcel"
        more = new[1:] if command.attempts != 1 else []
        doubled = tuple(parcel for parcel in more if parcel not in others)
        return Proof(EffectState.APPLIED, reason, read, evidence, new[0], doubled)
    if new:
        reason = "the order shows several such parcels, none with a number"
        return Proof(EffectState.UNDECIDABLE, reason, read)
    proof = _without_new_parcel(uncertain, order, read, shown, others)
    if proof.effect_id is None:
        return proof
    own = requests.parcel_evidence(command, order, data, proof.effect_id)
    return replace(proof, evidence=proof.evidence | own)


def _decide_owner(
    beside: Sequence[Command],
    proof: Proof,
    command: Command,
    order: Order,
    data: Mapping[str, Any],
    others: Collection[str],
) -> Proof:
    """Decide whose a parcel is that was found while `beside` may own an equal one.

    Another command that was parked, or marked as applied without proof, may have sent
    it. If units are still open, this command would otherwise count as done and its own
    parcel would never be sent. Uncertain commands, as after a restore, each find one
    parcel; the last of them reports what is left over.
    """
    theirs = {each.id: requests.matching_parcels(each, order, data) for each in beside}
    rivals = [
        each.id
        for each in beside
        if each.state is not State.UNCERTAIN and proof.effect_id in theirs[each.id]
    ]
    shown = requests.matching_parcels(command, order, data, others)
    if len(shown) <= len(rivals) and requests.has_open_units(order, command):
        reason = f"{proof.reason}, but command {rivals[0][:8]} may have sent it"
        return Proof(EffectState.UNDECIDABLE, reason, proof.read)
    taken = {parcel for parcels in theirs.values() for parcel in parcels}
    doubled = tuple(parcel for parcel in proof.doubled if parcel not in taken)
    return replace(proof, doubled=doubled)


def _without_new_parcel(
    uncertain: UncertainCommand,
    order: Order,
    read: dict[str, Any],
    shown: Sequence[str],
    others: Collection[str],
) -> Proof:
    """Verify a fulfillment whose order shows no new parcel that is surely its own."""
    command, number = uncertain.command, uncertain.command.payload["tracking_number"]
    tracked = number is not None
    if shown and tracked and not requests.has_open_units(order, command):
        evidence = read | {"shipment": shown[0]}
        reason = "the order showed the parcel before"
        return Proof(EffectState.APPLIED, reason, read, evidence, shown[0])
    if shown and tracked and command.attempts > 1:
        reason = "the order showed such a parcel before the last attempt"
        return Proof(EffectState.UNDECIDABLE, reason, read)
    known = {*uncertain.baseline.get("shipments", ()), *others}
    nameless = [
        parcel.id
        for parcel in order.shipments
        if parcel.id not in known and parcel.tracking_number is None
    ]
    if nameless:
        reason = f"the order has a new parcel without a number: {nameless[0]}"
        return Proof(EffectState.UNDECIDABLE, reason, read)
    if not (tracked and _is_used(number, order)):
        whole = "" if requests.has_open_units(order, command) else f"; {ALL_SHIPPED}"
        reason = f"the order does not show the parcel{whole}"
        return Proof(EffectState.ABSENT, reason, read)
    if _is_as_before(uncertain, order):
        reason = (
            "the order already showed the number before, and nothing was"
            " shipped since then"
        )
        return Proof(EffectState.ABSENT, reason, read)
    reason = "the order shows the number, but not for how many parcels"
    return Proof(EffectState.UNDECIDABLE, reason, read)


def _is_used(number: str, order: Order) -> bool:
    return any(parcel.tracking_number == number for parcel in order.shipments)


def _is_as_before(uncertain: UncertainCommand, order: Order) -> bool:
    """Return True if parcels and shipped units equal the baseline.

    A platform may merge two parts with one number into one parcel, or report no units.
    """
    units = requests.units(order)
    parcels = {parcel.id for parcel in order.shipments}
    known = uncertain.baseline
    same = parcels == set(known.get("shipments", ()))
    return same and any(units.values()) and units == known.get("fulfilled")


def _tag_decides(
    wanted: SoughtAdjustment, moves: Sequence[Move], behavior: PlatformBehavior
) -> bool:
    """Return True if the tag alone decides, whether it is there or not."""
    if wanted.tag is None:
        return False
    return bool(behavior.keeps_notes) or any(move.note == wanted.tag for move in moves)


def _wanted(uncertain: UncertainCommand) -> SoughtAdjustment:
    command = uncertain.command
    own = tag(command.id)
    return SoughtAdjustment(
        product_id=command.target,
        variant_id=command.payload["variant_id"],
        delta=command.payload["delta"],
        # Without a stored request, it was sent before the restore, if at all.
        tag=own if not uncertain.request or own.encode() in uncertain.request else None,
        key_fingerprint=uncertain.key_fingerprint or None,
    )


def _rows(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [asdict(move) for move in moves[:MOST_KEPT]]
