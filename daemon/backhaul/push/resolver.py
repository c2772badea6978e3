"""Resolver of one store: finds out whether uncertain commands took effect.

Where the platform honours Idempotency-Key, sending a command again is the proof.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import from_text, to_text
from backhaul.core.effect_proof import EffectState
from backhaul.core.identity import idempotency_key
from backhaul.core.lifecycle import Cause, State
from backhaul.core.outcome import Outcome
from backhaul.core.rate_limit import Priority
from backhaul.errors import Busy, Unusable
from backhaul.platform import requests
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.push import retry_until_stored
from backhaul.push.command_spans import begin_attempt, end_attempt
from backhaul.push.effect_verification import Proof
from backhaul.push.response_classifier import classify_response
from backhaul.runtime.loop import IDLE_SECONDS, Loop, seconds_until
from backhaul.runtime.tracing import working_on
from backhaul.store.commands import Check, Transition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient, StoreFacts
    from backhaul.push.effect_verification import EffectVerifier
    from backhaul.push.send_switch import SendSwitch
    from backhaul.push.send_windows import SendWindows
    from backhaul.runtime.signals import StoreContext
    from backhaul.settings import Push
    from backhaul.store.commands import UncertainCommand, UncertainCommands
    from backhaul.store.operations import KeyValues

AT_ONCE = 4
"""Checks that run at the same time; only one after a successful probe."""
REPORTED_AFTER = 3
"""Failed checks in a row before one is logged; fewer may be a short outage."""
UNREADABLE = "unreadable"
"""What a check found that could not determine anything."""
STEP_FORWARD_SECONDS = 2.0
SAME_KEY_HOURS = 23
"""Platforms remember an Idempotency-Key for a day; less, because clocks differ."""
KEYED_ONCE = "idempotencyKey"
"""The feature of a platform that carries out each Idempotency-Key at most once."""
NOT_LET_THROUGH = frozenset({Outcome.STOPPED, Outcome.THROTTLED})
"""The platform refused before checking the key, so this proves nothing."""


class IdempotencySupport:
    """Records since when a platform claims that it honours Idempotency-Key.

    `configured` overrides the claim.
    """

    def __init__(
        self,
        store: str,
        client: PlatformClient,
        marks: KeyValues,
        clock: Clock,
        configured: bool | None = None,
    ) -> None:
        self._client = client
        self._marks = marks
        self._clock = clock
        self._configured = configured
        self._mark = f"keyed_since:{store}"

    async def is_honoured(self, first_sent_at: str) -> bool:
        """Return True if a request of that time may be sent again with the same key.

        Asks the platform again, because it may have changed since the last start.
        Raises NotSent, OutcomeUnknown, ReadRefused or Unusable if it does not answer.
        """
        if self._configured is not None:
            return self._configured
        since = await self._marks.get(self._mark)
        if not since or since > first_sent_at:
            return False  # the platform did not claim it then; do not ask each time
        facts = await self._client.facts(Priority.PROOF)
        if not (facts.store_id or facts.features):
            return False  # a refusal says nothing about the platform
        return await self.record(facts) == since

    async def record(self, facts: StoreFacts) -> str:
        """Store what the platform claims now; return since when, "" if it does not.

        If it claimed it before and does not now, a request of this time is not
        protected by its key, whatever the platform claims later.
        """
        before = await self._marks.get(self._mark) or ""
        now = to_text(self._clock.now())
        claims = KEYED_ONCE in facts.features
        since = (before or now) if claims else ""
        honours = claims if self._configured is None else self._configured
        self._client.transport.keep_connections(keep=honours)
        if since != before:
            await self._marks.put(self._mark, since)
        return since


class KeyedResend(Struct, frozen=True):
    """What is needed to send a command again with the same Idempotency-Key.

    `allowed` takes the time of the first attempt, and returns True if a second one is
    safe. It may raise as a read does.
    """

    client: PlatformClient
    switch: SendSwitch
    windows: SendWindows
    allowed: Callable[[str], Awaitable[bool]]


class Resolver:
    """Checks uncertain commands, each at its own times, until each is resolved."""

    def __init__(
        self,
        context: StoreContext,
        uncertain: UncertainCommands,
        verifier: EffectVerifier,
        resend: KeyedResend,
        push: Push,
    ) -> None:
        self._store = context.name
        self._clock = context.clock
        self._chance = context.chance
        self._lease = context.lease
        self._tracer = context.tracer
        self._command_changed = context.signals.command_changed
        self._uncertain = uncertain
        self._verifier = verifier
        self._resend = resend
        self._transport = resend.client.transport
        self._push = push
        self._reported: set[str] = set()
        self._offset = self._wall_offset()
        self._context = context
        self._loop = Loop(context.clock, has_work=self._has_work)
        context.signals.command_uncertain.connect(self.wake)
        context.signals.sending_resumed.connect(self.wake)

    def wake(self) -> None:
        """Check now whether a command became uncertain."""
        self._loop.wake()

    async def run(self) -> None:
        """Check until cancelled. The database keeps the uncertain commands."""
        await self._loop.run(self._check_all)

    async def _has_work(self) -> bool:
        if await self._context.has_work():
            return True
        self._offset = self._wall_offset()  # a jump concerns no command
        return False

    async def _check_all(self) -> float:
        while await self.check_due():
            pass
        due = await self._uncertain.next_due(self._store)
        is_failing = self._resend.switch.is_failing
        return IDLE_SECONDS if is_failing else seconds_until(due, self._clock)

    async def check_due(self) -> int:
        """Check the commands that are due now; return their number.

        While the platform keeps failing, check nothing until a probe succeeds.
        """
        if self._resend.switch.is_failing:
            return 0
        await self._postpone_after_jump()
        most = 1 if self._transport.circuit.half_open else AT_ONCE
        due = await self._uncertain.due(self._store, most)
        if self._has_jumped():
            return 1  # the due commands were read with the new time: adjust it first
        async with asyncio.TaskGroup() as group:
            for uncertain in due:
                group.create_task(self._check_in_trace(uncertain))
        return len(due)

    async def _check_in_trace(self, uncertain: UncertainCommand) -> None:
        if self._tracer is None:
            await self._check(uncertain)
            return
        span = begin_attempt(self._tracer, "check", uncertain.command)
        with working_on(span):
            found, state = await self._check(uncertain)
        end_attempt(span, found, state)

    def _wall_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def _postpone_after_jump(self) -> None:
        """Keep the intended time between checks when the clock jumps forward.

        Otherwise the last check would run at once and accept a false absence.
        """
        offset = self._wall_offset()
        if self._has_jumped():
            longest = max(self._push.check_after[-1], self._push.retry_cap)
            forward = offset - self._offset
            await self._uncertain.postpone(self._store, forward, longest)
        self._offset = offset

    def _has_jumped(self) -> bool:
        """Return True if the clock went forward since the last check of it."""
        return self._wall_offset() - self._offset > STEP_FORWARD_SECONDS

    async def _check(self, uncertain: UncertainCommand) -> tuple[str, State]:
        """Check once; return what was found, and the command's state then."""
        at = to_text(self._clock.now())
        try:
            proof = await self._verify(uncertain)
        except (NotSent, OutcomeUnknown, ReadRefused, Unusable, Busy) as error:
            return UNREADABLE, await self._check_later(uncertain, at, str(error))
        except Exception as error:  # noqa: BLE001 - the other checks go on
            reason = f"{type(error).__name__}: {error}"
            return UNREADABLE, await self._check_later(uncertain, at, reason, error)
        self._reported.discard(uncertain.command.id)
        check = Check(at, proof.found.value, proof.reason, proof.read)
        state = await self._store_check(
            uncertain, check, self._transition(uncertain, proof)
        )
        self._log_state(uncertain, state, proof.reason)
        if proof.doubled:
            report_double_effect(self._store, uncertain.command.id, proof.doubled)
        self._command_changed.emit()
        return check.found, state

    async def _store_check(
        self, uncertain: UncertainCommand, check: Check, transition: Transition
    ) -> State:
        write = partial(self._uncertain.record_check, uncertain, check, transition)
        return await retry_until_stored(write, self._store, self._clock)

    async def _verify(self, uncertain: UncertainCommand) -> Proof:
        """Send again with the same key where that is safe, otherwise read the platform.

        A read that proves nothing is not final while the key can still prove it.
        """
        keyed, unasked = self._may_resend(uncertain), ""
        try:
            keyed = keyed and await self._resend.allowed(uncertain.first_sent_at)
            if keyed and self._allows(uncertain):
                if (resent := await self._send_again(uncertain)) is not None:
                    return resent
            elif keyed:
                unasked = (
                    "Backhaul can send the command again with its key"
                    " when sending resumes"
                )
        except (NotSent, OutcomeUnknown, Unusable) as error:
            unasked = (
                "Backhaul sent the command again with its key and got no"
                f" response: {error}"
            )
        proof = await self._verifier.verify(uncertain)
        if unasked and proof.found is not EffectState.APPLIED:
            raise NotSent(f"{proof.reason}; {unasked}")
        return replace(proof, final=proof.final and not keyed)

    def _may_resend(self, uncertain: UncertainCommand) -> bool:
        now = self._clock.now()
        age = now - from_text(uncertain.first_sent_at)
        return (
            not uncertain.is_superseded
            and uncertain.key_fingerprint == self._transport.key_fingerprint
            and from_text(uncertain.sent_at) <= now
            and timedelta() <= age < timedelta(hours=SAME_KEY_HOURS)
        )

    def _allows(self, uncertain: UncertainCommand) -> bool:
        kind, resend = uncertain.command.kind, self._resend
        allowed = resend.windows.allows_resend(kind, uncertain.planned_at)
        return allowed and resend.switch.allows(kind)

    async def _send_again(self, uncertain: UncertainCommand) -> Proof | None:
        """Send the same bytes with the same key; None if the response proves nothing.

        A platform that honours keys either applies the request now or reports what it
        did before. A refusal proves nothing about the first attempt, which may still be
        on its way. Raises NotSent, also where the platform did not check the key, or
        OutcomeUnknown.
        """
        command = uncertain.command
        await self._await_room()
        checked_at = self._lease.now()

        def may_send() -> bool:
            # Again: the key may have expired during the wait, or been replaced.
            is_ours = self._lease.allows(checked_at)
            return is_ours and self._allows(uncertain) and self._may_resend(uncertain)

        try:
            await self._require_uncertain(uncertain)
        except BaseException:
            self._transport.budget.give_back(1)
            raise
        answer = await self._transport.send(
            requests.path(command),
            uncertain.request,
            idempotency_key(command.id),
            room_taken=True,
            may_send=may_send,
        )
        judged = await classify_response(
            command, answer, self._resend.client, self._uncertain
        )
        self._resend.switch.apply_verdict(command.kind, judged.verdict)
        if judged.verdict.outcome in NOT_LET_THROUGH:
            raise NotSent(judged.verdict.reason)
        if judged.verdict.outcome is not Outcome.CONFIRMED:
            return None
        reason = f"sent again with the same Idempotency-Key: {judged.verdict.reason}"
        effect = requests.effect_id(judged.evidence)
        # Not the body: an order has personal data.
        read = {"status": answer.status} | judged.evidence
        return Proof(EffectState.APPLIED, reason, read, judged.evidence, effect)

    async def _require_uncertain(self, uncertain: UncertainCommand) -> None:
        if not await self._uncertain.is_still_uncertain(uncertain):
            raise NotSent(
                "an operator decided about the command in the meantime, so Backhaul"
                " does not send it again"
            )

    async def _await_room(self) -> None:
        """Wait for room in the platform's rate budget, as every command does."""
        budget, clock = self._transport.budget, self._clock
        while not budget.take(1, clock.monotonic()):
            wait = budget.wait_seconds(Priority.COMMAND, clock.monotonic())
            await clock.sleep(wait)

    def _transition(self, uncertain: UncertainCommand, proof: Proof) -> Transition:
        if proof.found is EffectState.APPLIED:
            evidence = dict(proof.evidence)
            if proof.doubled:
                evidence["doubled"] = list(proof.doubled)
            return Transition(
                causes=(Cause.PROVED_APPLIED,),
                reason=proof.reason,
                evidence=evidence,
                effect_id=proof.effect_id,
            )
        checks = uncertain.checks + 1
        times = self._push.check_after
        if checks < len(times) and not (proof.final or self._is_old(uncertain)):
            wait = times[checks] - times[checks - 1]
            due_at = to_text(self._clock.now() + timedelta(seconds=wait))
            return Transition((Cause.UNKNOWN,), proof.reason, due_at=due_at)
        evidence = {"read": proof.read} if proof.read else {}
        reason, resends = proof.reason, self._push.on_absent == "resend"
        if uncertain.command.kind == "fulfill" and (proof.read or {}).get(
            "cancelled_at"
        ):
            # An operator may want the parcel back, or it may still take effect.
            reason, resends = f"{reason}, and the order is cancelled", False
        if proof.found is EffectState.ABSENT and resends:
            due_at = to_text(self._clock.now())
            absent = (Cause.PROVED_ABSENT,)
            return Transition(absent, reason, due_at=due_at, evidence=evidence)
        reason = with_cause(uncertain, reason)
        return Transition((Cause.UNDECIDABLE,), reason, evidence=evidence)

    def _is_old(self, uncertain: UncertainCommand) -> bool:
        """Return True if its last possible send is older than the last check time.

        This is so for a command planned after a restore and not sent since.
        """
        age = self._clock.now() - from_text(uncertain.sent_at)
        last = timedelta(seconds=self._push.check_after[-1])
        return not uncertain.request and age >= last

    async def _check_later(
        self,
        uncertain: UncertainCommand,
        at: str,
        error: str,
        bug: Exception | None = None,
    ) -> State:
        """Plan the next check after a failed one, which does not count as a check."""
        seconds = delay_seconds(
            uncertain.command.failures + 1,
            base_seconds=self._push.retry_base,
            cap_seconds=self._push.retry_cap,
            chance=self._chance(),
        )
        reason = f"uncertain, and the check failed: {error}"
        transition = Transition(
            causes=(Cause.UNKNOWN,),
            reason=reason,
            due_at=to_text(self._clock.now() + timedelta(seconds=seconds)),
            counts_as_failure=True,
        )
        check = Check(at, UNREADABLE, reason, counts=False)
        state = await self._store_check(uncertain, check, transition)
        if bug is not None or uncertain.command.failures + 1 >= REPORTED_AFTER:
            self._log_failed_check(uncertain, reason, bug)
        return state

    def _log_failed_check(
        self, uncertain: UncertainCommand, reason: str, bug: Exception | None
    ) -> None:
        """Log once per command that later commands of its ordering key are blocked."""
        command = uncertain.command
        if command.id in self._reported:
            return
        self._reported.add(command.id)
        level = "WARNING" if bug is None else "ERROR"
        logger.bind(action="check.failed", store=self._store, command=command.id).opt(
            exception=bug
        ).log(
            level,
            "{} {} is {}; later commands for it wait. Backhaul keeps retrying; to"
            " decide yourself, run: backhaul commands park {}",
            command.kind,
            command.target,
            reason,
            command.id,
        )

    def _log_state(
        self, uncertain: UncertainCommand, state: State, reason: str
    ) -> None:
        level = "WARNING" if state is State.PARKED else "INFO"
        logger.bind(
            action=f"command.{state}", store=self._store, command=uncertain.command.id
        ).log(
            level,
            "{} {} is {}: {}",
            uncertain.command.kind,
            uncertain.command.target,
            state,
            reason,
        )


def with_cause(uncertain: UncertainCommand, found: str) -> str:
    """Return how the last attempt ended, then what the checks found."""
    checks = uncertain.checks + 1
    said = f"{found} ({checks} check{'' if checks == 1 else 's'})"
    if not uncertain.answer:
        return said
    is_status = uncertain.answer[:3].isdigit()
    return f"{'the platform answered ' if is_status else ''}{uncertain.answer}; {said}"


def report_double_effect(store: str, command: str, others: tuple[str, ...]) -> None:
    """Log that a command took effect more than once, which an operator must correct."""
    logger.bind(action="command.doubled", store=store, command=command).error(
        "command {} took effect more than once: also {}; compensate it manually",
        command,
        ", ".join(others),
    )
