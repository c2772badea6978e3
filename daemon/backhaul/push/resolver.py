"""Resolver of one store: finds out whether uncertain commands took effect."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import from_text, rest, to_text
from backhaul.core.effect_proof import Found
from backhaul.core.identity import idempotency_key
from backhaul.core.lifecycle import Cause, State
from backhaul.core.outcome import Outcome
from backhaul.core.rate_limit import Priority
from backhaul.errors import Busy, Unusable
from backhaul.platform import requests
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import InDoubt, NotSent
from backhaul.push.effect_verification import Proof
from backhaul.push.response_classifier import judge
from backhaul.push.retry_store import insist
from backhaul.store.outbox import Look, Settlement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock
    from backhaul.platform.client import ShopClient
    from backhaul.platform.transport import Transport
    from backhaul.push.availability import Door
    from backhaul.push.effect_verification import Prover
    from backhaul.push.send_windows import Gates
    from backhaul.settings import Push
    from backhaul.store.outbox import Doubt, Doubts

AT_ONCE = 4
"""Looks that are taken side by side; one alone after a good probe."""
IDLE_SECONDS = 30.0
TOLD_AFTER = 3
"""Looks in vain after which a person hears of it; fewer may be a blip."""
STEP_FORWARD_SECONDS = 2.0
SAME_KEY_HOURS = 23
"""Platforms remember an Idempotency-Key for a day; less, for the clocks' sake."""
NOT_LET_THROUGH = frozenset({Outcome.STOPPED, Outcome.THROTTLED})
"""Refused before the key was looked at: nothing was asked."""


class Replay(Struct, frozen=True):
    """What sending again under the same key needs.

    `allowed` is asked with the moment of the first send; it may raise as a read does.
    """

    transport: Transport
    client: ShopClient
    door: Door
    gates: Gates
    allowed: Callable[[str], Awaitable[bool]]


class Settler:
    """Works off the commands in doubt, each at its own moments."""

    def __init__(
        self,
        store: str,
        doubts: Doubts,
        prover: Prover,
        replay: Replay,
        push: Push,
        clock: Clock,
        chance: Callable[[], float],
        settled: Callable[[], None],
    ) -> None:
        self._store = store
        self._doubts = doubts
        self._prover = prover
        self._replay = replay
        self._push = push
        self._clock = clock
        self._chance = chance
        self._settled = settled
        self._told: set[str] = set()
        self._offset = self._wall_offset()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Tell that a command came in doubt."""
        self._wake.set()

    async def run(self) -> None:
        """Look for ever. Cancel to stop: what is in doubt stands in the database."""
        while True:
            self._wake.clear()
            while await self.work_off():
                pass
            due = await self._doubts.next_due(self._store)
            seconds = IDLE_SECONDS
            if due is not None and not self._replay.door.failing:
                wait = (from_text(due) - self._clock.now()) / timedelta(seconds=1)
                seconds = min(max(wait, 0.0), IDLE_SECONDS)
            await rest(self._wake, seconds, self._clock)

    async def work_off(self) -> int:
        """Look at what is due now; return how many commands that were.

        A platform that keeps failing is left alone until a probe was answered.
        """
        if self._replay.door.failing:
            return 0
        await self._make_up_for_a_jump()
        most = 1 if self._replay.transport.circuit.half_open else AT_ONCE
        due = await self._doubts.due(self._store, most)
        if self._has_jumped():
            return 1  # what is due was read with the new time: make up for it first
        async with asyncio.TaskGroup() as group:
            for doubt in due:
                group.create_task(self._look(doubt))
        return len(due)

    def _wall_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def _make_up_for_a_jump(self) -> None:
        """Keep the looks as far apart as they are meant where the clock went forward.

        Else the last one is taken at once, and believes an absence that is none.
        """
        offset = self._wall_offset()
        if self._has_jumped():
            longest = max(self._push.check_after[-1], self._push.retry_cap)
            forward = offset - self._offset
            await self._doubts.postpone(self._store, forward, longest)
        self._offset = offset

    def _has_jumped(self) -> bool:
        """Return True if the clock went forward since the last check of it."""
        return self._wall_offset() - self._offset > STEP_FORWARD_SECONDS

    async def _look(self, doubt: Doubt) -> None:
        at = to_text(self._clock.now())
        try:
            proof = await self._prove(doubt)
        except (NotSent, InDoubt, ReadRefused, Unusable, Busy) as error:
            await self._again(doubt, at, str(error))
            return
        except Exception as error:  # noqa: BLE001 - it must not stop all other looks
            await self._again(doubt, at, f"{type(error).__name__}: {error}", error)
            return
        self._told.discard(doubt.command.id)
        look = Look(at, proof.found.value, proof.reason, proof.read)
        state = await self._settle(doubt, look, self._step(doubt, proof))
        self._tell(doubt, state, proof.reason)
        if proof.doubled:
            tell_doubled(self._store, doubt.command.id, proof.doubled)
        self._settled()

    async def _settle(self, doubt: Doubt, look: Look, step: Settlement) -> State:
        write = partial(self._doubts.settle, doubt, look, step)
        return await insist(write, self._store, self._clock)

    async def _prove(self, doubt: Doubt) -> Proof:
        """Ask under the same key where that is harmless, else read back.

        What a reading cannot tell is not final as long as the key can still prove it.
        """
        keyed, unasked = self._may_replay(doubt), ""
        try:
            keyed = keyed and await self._replay.allowed(doubt.first_sent_at)
            if keyed and self._lets_out(doubt):
                if (replayed := await self._send_again(doubt)) is not None:
                    return replayed
            elif keyed:
                unasked = "its key can be asked once sending goes on"
        except (NotSent, InDoubt, Unusable) as error:
            unasked = f"its key was not answered: {error}"
        proof = await self._prover.prove(doubt)
        if unasked and proof.found is not Found.APPLIED:
            raise NotSent(f"{proof.reason}; {unasked}")
        return replace(proof, final=proof.final and not keyed)

    def _may_replay(self, doubt: Doubt) -> bool:
        now = self._clock.now()
        age = now - from_text(doubt.first_sent_at)
        return (
            not doubt.is_overtaken
            and doubt.key_fingerprint == self._replay.transport.key_fingerprint
            and from_text(doubt.sent_at) <= now
            and timedelta() <= age < timedelta(hours=SAME_KEY_HOURS)
        )

    def _lets_out(self, doubt: Doubt) -> bool:
        kind, replay = doubt.command.kind, self._replay
        gated = replay.gates.lets_again(kind, doubt.planned_at)
        return gated and replay.door.lets_out(kind)

    async def _send_again(self, doubt: Doubt) -> Proof | None:
        """Send the same bytes under the same key; None where the answer tells nothing.

        A platform that takes a key once either applies it now or says what it did. A
        refusal proves nothing of the first try, which may still be on its way; where
        the key was not even looked at, the answer is none. Raises NotSent or InDoubt.
        """
        command = doubt.command
        await self._await_room()
        try:
            await self._require_doubt(doubt)
        except BaseException:
            self._replay.transport.budget.give_back(1)
            raise
        answer = await self._replay.transport.send(
            requests.path(command),
            doubt.request,
            idempotency_key(command.id),
            room_taken=True,
            # Once more: the wait may have outlived the key, or a new one come.
            may_send=lambda: self._lets_out(doubt) and self._may_replay(doubt),
        )
        judged = await judge(command, answer, self._replay.client, self._doubts)
        self._replay.door.heed(command.kind, judged.verdict)
        if judged.verdict.outcome in NOT_LET_THROUGH:
            raise NotSent(judged.verdict.reason)
        if judged.verdict.outcome is not Outcome.CONFIRMED:
            return None
        reason = f"the same Idempotency-Key again was answered {judged.verdict.reason}"
        effect = requests.effect_id(judged.evidence)
        # Not the body: an order tells of a person.
        read = {"status": answer.status} | judged.evidence
        return Proof(Found.APPLIED, reason, read, judged.evidence, effect)

    async def _require_doubt(self, doubt: Doubt) -> None:
        if not await self._doubts.stands(doubt):
            raise NotSent("a person has decided meanwhile")

    async def _await_room(self) -> None:
        """Take room in the platform's budget, as every command does."""
        budget, clock = self._replay.transport.budget, self._clock
        while not budget.take(1, clock.monotonic()):
            wait = budget.wait_seconds(Priority.COMMAND, clock.monotonic())
            await clock.sleep(wait)

    def _step(self, doubt: Doubt, proof: Proof) -> Settlement:
        if proof.found is Found.APPLIED:
            evidence = dict(proof.evidence)
            if proof.doubled:
                evidence["doubled"] = list(proof.doubled)
            return Settlement(
                causes=(Cause.PROVED_APPLIED,),
                reason=proof.reason,
                evidence=evidence,
                effect_id=proof.effect_id,
            )
        looks = doubt.looks + 1
        delays = self._push.check_after
        if looks < len(delays) and not (proof.final or self._is_old(doubt)):
            wait = delays[looks] - delays[looks - 1]
            due_at = to_text(self._clock.now() + timedelta(seconds=wait))
            return Settlement((Cause.UNKNOWN,), proof.reason, due_at=due_at)
        evidence = {"read": proof.read} if proof.read else {}
        reason, resends = proof.reason, self._push.on_absent == "resend"
        if doubt.command.kind == "fulfill" and (proof.read or {}).get("cancelled_at"):
            # A person may want the parcel back, or it may still land.
            reason, resends = f"{reason}, and the order is cancelled", False
        if proof.found is Found.ABSENT and resends:
            due_at = to_text(self._clock.now())
            absent = (Cause.PROVED_ABSENT,)
            return Settlement(absent, reason, due_at=due_at, evidence=evidence)
        reason = with_cause(doubt, reason)
        return Settlement((Cause.UNDECIDABLE,), reason, evidence=evidence)

    def _is_old(self, doubt: Doubt) -> bool:
        """Tell whether the last time it may have been sent lies before every look.

        So it is with what was planned after a restore, and never sent in this life.
        """
        age = self._clock.now() - from_text(doubt.sent_at)
        last = timedelta(seconds=self._push.check_after[-1])
        return not doubt.request and age >= last

    async def _again(
        self, doubt: Doubt, at: str, error: str, bug: Exception | None = None
    ) -> None:
        """The platform could not be read: that tells nothing, and counts as no look."""
        seconds = delay_seconds(
            doubt.command.failures + 1,
            base_seconds=self._push.retry_base,
            cap_seconds=self._push.retry_cap,
            chance=self._chance(),
        )
        reason = f"in doubt; reading back: {error}"
        step = Settlement(
            causes=(Cause.UNKNOWN,),
            reason=reason,
            due_at=to_text(self._clock.now() + timedelta(seconds=seconds)),
            counts_as_failure=True,
        )
        look = Look(at, "unreadable", reason, counts=False)
        await self._settle(doubt, look, step)
        if bug is not None or doubt.command.failures + 1 >= TOLD_AFTER:
            self._tell_in_vain(doubt, reason, bug)

    def _tell_in_vain(self, doubt: Doubt, reason: str, bug: Exception | None) -> None:
        """Say once of each command that its lane may stay blocked for good."""
        command = doubt.command
        if command.id in self._told:
            return
        self._told.add(command.id)
        level = "WARNING" if bug is None else "ERROR"
        logger.bind(action="look.in_vain", store=self._store, command=command.id).opt(
            exception=bug
        ).log(
            level,
            "{} {} is {}; what follows it waits. Tried until it works; to decide"
            " yourself: backhaul commands park {}",
            command.kind,
            command.target,
            reason,
            command.id,
        )

    def _tell(self, doubt: Doubt, state: State, reason: str) -> None:
        level = "WARNING" if state is State.PARKED else "INFO"
        logger.bind(
            action=f"command.{state}", store=self._store, command=doubt.command.id
        ).log(
            level,
            "{} {} is {}: {}",
            doubt.command.kind,
            doubt.command.target,
            state,
            reason,
        )


def with_cause(doubt: Doubt, found: str) -> str:
    """Say how the last attempt ended, then what the checks have found."""
    checks = doubt.looks + 1
    said = f"{found} ({checks} check{'' if checks == 1 else 's'})"
    if not doubt.answer:
        return said
    is_status = doubt.answer[:3].isdigit()
    return f"{'the platform answered ' if is_status else ''}{doubt.answer}; {said}"


def tell_doubled(store: str, command: str, others: tuple[str, ...]) -> None:
    """Alert a person: an effect landed more than once and is to be compensated."""
    logger.bind(action="command.doubled", store=store, command=command).error(
        "command {} took effect more than once: also {}; compensate by hand",
        command,
        ", ".join(others),
    )
