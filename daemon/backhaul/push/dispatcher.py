"""Dispatcher of one store: claims due commands and sends one per ordering key."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec.structs import replace

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import idempotency_key
from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.core.outcome import Outcome, Verdict
from backhaul.core.rate_limit import Priority
from backhaul.errors import Busy
from backhaul.platform import requests
from backhaul.platform.personal_data import mentioned_customer
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.push import log_busy, retry_until_stored
from backhaul.push.command_spans import begin_attempt, begin_trace, end_attempt
from backhaul.push.response_classifier import (
    UNITS_OPEN,
    ClassifiedResponse,
    check_shipped_whole,
    classify_response,
    refuse_unsent,
    transition_of,
)
from backhaul.push.send_switch import ALL
from backhaul.push.send_windows import SendWindows
from backhaul.runtime.loop import BUSY_SECONDS, IDLE_SECONDS, Loop, seconds_until
from backhaul.runtime.tracing import working_on
from backhaul.store.commands import Attempt, Sendable, Transition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backhaul.platform.client import PlatformClient
    from backhaul.platform.requests import Dialect
    from backhaul.platform.responses import Response
    from backhaul.platform.transport import Pause
    from backhaul.push.send_switch import SendSwitch
    from backhaul.push.send_windows import Burst
    from backhaul.runtime.signals import StoreContext
    from backhaul.settings import Push
    from backhaul.store.commands import Commands, UncertainCommands
    from backhaul.store.matching import Command, MatchReader


RUN_SECONDS = 10.0
"""How long the report of a run waits for requests in flight, by the event loop."""


class Dispatcher:
    """Sends one store's commands, never two with the same ordering key at once."""

    def __init__(
        self,
        context: StoreContext,
        commands: Commands,
        uncertain: UncertainCommands,
        client: PlatformClient,
        dialect: Dialect,
        push: Push,
        switch: SendSwitch,
    ) -> None:
        self._store = context.name
        self._clock = context.clock
        self._chance = context.chance
        self._signals = context.signals
        self._lease = context.lease
        self._tracer = context.tracer
        self._commands = commands
        self._uncertain = uncertain
        self._client = client
        self._transport = client.transport
        self._dialect = dialect
        self._push = push
        self.switch = switch
        self.windows = SendWindows(push.eager, context.clock)
        self.bursts: dict[str, Burst] = {}
        """The runs of the jobs that send at once, by kind of command."""
        self._loop = Loop(context.clock, has_work=context.has_work)
        self._in_flight = 0
        self._checked_at = ""
        self._wants_room = False
        self._has_rested = False
        self._refused = False
        self._unsent: list[tuple[Command, Transition]] = []
        self._is_running = False
        self._turn = asyncio.Event()
        self._sent: Counter[str] = Counter()
        signals = context.signals
        signals.command_changed.connect(self.wake)
        signals.adjustment_planned.connect(self.wake)
        signals.sending_resumed.connect(self.wake)
        signals.pause_began.connect(self._log_pause)

    def wake(self) -> None:
        """Check now whether a command is due."""
        self._request_runs()
        self._loop.wake()

    def _request_runs(self) -> None:
        for burst in self.bursts.values():
            burst.request()

    def send_in_runs(self, kind: str, burst: Burst) -> None:
        """Send commands of a kind in runs, which begin when a command is planned."""
        self.bursts[kind] = burst
        self.windows.set_on_demand(kind)

    def open(self, kind: str, at: str) -> None:
        """Let commands planned by `at` leave; the scheduled jobs call this."""
        self.windows.open(kind, at)
        self.wake()

    def pause(self, kind: str, since: str | None) -> None:
        """Stop commands of a kind from `since` on; None lets them leave again."""
        self.windows.pause(kind, since)
        self.wake()

    def state(self) -> dict[str, object]:
        """Return the number of requests in flight, what is blocked, and any pause.

        `paused` is None, or when the pause ends (`until`, UTC) and its `reason`.
        """
        pause = self._transport.pause()
        return {
            "sending": self._in_flight,
            "stopped": self.switch.reasons(),
            "paused": pause and {"until": pause.until, "reason": pause.reason},
        }

    def sent(self, kind: str) -> int:
        """Return how many requests of a kind have left since the start."""
        return self._sent[kind]

    def why_waiting(self, kind: str) -> str:
        """Return why no command of a kind is sent now; "" if nothing prevents it."""
        reasons = self.switch.reasons()
        if reason := reasons.get(ALL) or reasons.get(kind):
            return reason
        if pause := self._transport.pause():
            return f"paused until {pause.until}: {pause.reason}"
        return "" if self._is_running else "the program is starting or stopping"

    async def wait_until_sent(self, kind: str) -> None:
        """Wait until every command that may leave was sent, or sending is blocked.

        Returns after RUN_SECONDS in any case.
        """
        idle_turns = 0  # the first may have begun before the commands could leave
        with suppress(TimeoutError):
            async with asyncio.timeout(RUN_SECONDS):
                while idle_turns < 2 and not self.why_waiting(kind):
                    if not self._in_flight:
                        self.wake()
                    await self._turn.wait()
                    idle_turns = 0 if self._in_flight else idle_turns + 1

    def _log_pause(self, pause: Pause) -> None:
        logger.bind(action="push.paused", store=self._store).warning(
            "store {}: nothing is sent or read until {}: {}",
            self._store,
            pause.until,
            pause.reason,
        )

    def _may_send(self, command: Command, claimed_at: float) -> bool:
        is_ours = self._lease.allows(claimed_at)
        return (
            is_ours and not self._loop.is_stopped and self.switch.allows(command.kind)
        )

    def stop(self) -> None:
        """Send nothing new; `run` finishes the requests in flight."""
        self._loop.stop()

    async def run(self) -> None:
        """Send until stopped, then wait for the requests in flight."""
        self._is_running = True
        async with asyncio.TaskGroup() as group:
            probe = group.create_task(self.switch.probe_until_open())
            await self._loop.run(partial(self._send_due, group))
            self._is_running = False
            probe.cancel()

    async def _send_due(self, group: asyncio.TaskGroup) -> float:
        """Start to send what may leave now; return the seconds until more may."""
        if self._has_rested:
            self._request_runs()  # also for a command whose wake-up was lost
        claimed_at = self._lease.now()
        for command, sendable in await self._claim():
            self._in_flight += 1
            if command.kind in self.bursts:
                self.bursts[command.kind].sent += 1
            work = self._give_back if self._loop.is_stopped else self._deliver
            group.create_task(work(command, sendable, claimed_at))
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()
        self._has_rested = not self._loop.is_woken
        return await self._rest_seconds() if self._has_rested else 0.0

    async def _claim(self) -> list[tuple[Command, Sendable]]:
        self._checked_at = to_text(self._clock.now())
        self._refused = False
        windows = self.windows.open_until()
        open_windows = {k: windows[k] for k in windows if self.switch.allows(k)}
        free = self._free() if open_windows else 0
        room = self._transport.budget.take(free, self._clock.monotonic())
        claimed: list[tuple[Command, Sendable]] = []
        try:
            if room:
                claimed = await self._claim_for(room, open_windows)
        finally:
            self._transport.budget.give_back(room - len(claimed))
        self._wants_room = len(claimed) == room < free
        return claimed

    def _free(self) -> int:
        """Return how many more requests may be in flight."""
        circuit = self._transport.circuit
        if circuit.open:
            return 0
        most = 1 if circuit.half_open else self._push.concurrency
        return max(most - self._in_flight, 0)

    async def _claim_for(
        self, room: int, windows: Mapping[str, str]
    ) -> list[tuple[Command, Sendable]]:
        self._unsent.clear()
        try:
            claimed = await self._commands.claim(
                self._store, windows, room, self._prepare
            )
        except Busy as error:
            log_busy(self._store, error)
            self._refused = True
            return []
        self._log_unsent()
        return claimed

    def _log_unsent(self) -> None:
        """Log commands that ended without being sent; their ordering keys are free."""
        for command, transition in self._unsent:
            state = next_state(State.PLANNED, transition.causes[0])
            self._log_state(command, state, transition.reason)
            self._signals.command_changed.emit()

    async def _rest_seconds(self) -> float:
        """Return the seconds until the next command may leave."""
        if self._refused:
            return BUSY_SECONDS
        if self._wants_room:
            now = self._clock.monotonic()
            return self._transport.budget.wait_seconds(Priority.COMMAND, now)
        # An expected run wakes this loop; a query now would only delay the run.
        if self.windows.expects_run or self._in_flight >= self._push.concurrency:
            return IDLE_SECONDS
        try:
            due = await self._commands.next_due(self._store, self._checked_at)
        except Busy as error:
            log_busy(self._store, error)
            return BUSY_SECONDS
        return seconds_until(due, self._clock)

    def _prepare(self, command: Command, mirror: MatchReader) -> Sendable | Transition:
        """Return the bytes to send, or the result if the mirror rules out a send."""
        if command.kind == "fulfill":
            order = mirror.order(self._store, command.target)
            if order is not None and order.cancelled:
                reason = f"order {order.name} is cancelled; nothing was sent"
                return self._refuse(command, Transition((Cause.REFUSED,), reason))
            if command.number_only and mirror.open_units(self._store, command.target):
                return self._refuse(command, Transition((Cause.REFUSED,), UNITS_OPEN))
        elif (replaced := mirror.supersede_reason(command)) is not None:
            return self._refuse(command, Transition((Cause.REPLACED,), replaced))
        held = mirror.hold(command) if command.kind in {"fulfill", "cancel"} else None
        if held is None:
            return self._sendable(command)
        if held.payload and self._push.cancel_partly_shipped == "restock_unshipped":
            return self._sendable(replace(command, payload=held.payload), held.payload)
        return self._refuse(command, Transition((Cause.UNDECIDABLE,), held.reason))

    def _sendable(
        self, command: Command, payload: dict[str, Any] | None = None
    ) -> Sendable:
        body = requests.body(command, self._dialect)
        begun = None
        if self._tracer is not None and command.traceparent is None:
            begun = begin_trace(self._tracer, command)
        return Sendable(body, self._transport.key_fingerprint, payload, begun)

    def _refuse(self, command: Command, transition: Transition) -> Transition:
        self._unsent.append((command, transition))
        return transition

    async def _deliver(
        self, command: Command, sendable: Sendable, claimed_at: float
    ) -> None:
        span = None
        if self._tracer is not None:
            span = begin_attempt(self._tracer, "send", command)
        try:
            with working_on(span):
                judged, answer = await self._attempt(command, sendable, claimed_at)
                outcome = judged.verdict.outcome
                self._sent[command.kind] += outcome is not Outcome.NEVER_SENT
                self._react(command, judged.verdict)
                self._measure(command, judged.verdict)
                state = await self._record(command, judged, answer)
            if span is not None:
                end_attempt(span, outcome.value, state)
        finally:
            self._in_flight -= 1
            self._signals.command_changed.emit()

    async def _give_back(self, command: Command, _: Sendable, __: float) -> None:
        """Give back a command that was claimed just before the stop, unsent."""
        verdict = Verdict(Outcome.STOPPED, "not sent: the program is stopping")
        try:
            await self._record(command, ClassifiedResponse(verdict), None)
        finally:
            self._in_flight -= 1

    async def _attempt(
        self, command: Command, sendable: Sendable, claimed_at: float
    ) -> tuple[ClassifiedResponse, Response | None]:
        if command.number_only:
            refused = await check_shipped_whole(command, self._client)
            if refused is not None:
                return refused, None
        try:
            answer = await self._transport.send(
                requests.path(command),
                sendable.request,
                idempotency_key(command.id),
                room_taken=True,
                may_send=lambda: self._may_send(command, claimed_at),
            )
        except NotSent as error:
            return ClassifiedResponse(
                Verdict(Outcome.NEVER_SENT, f"not sent: {error}")
            ), None
        except OutcomeUnknown as error:
            return ClassifiedResponse(
                Verdict(Outcome.UNCERTAIN, f"no answer: {error}")
            ), None
        except Exception as error:  # noqa: BLE001 - unclassified: it may have arrived
            reason = f"failed while sending: {type(error).__name__}: {error}"
            return ClassifiedResponse(Verdict(Outcome.UNCERTAIN, reason)), None
        try:
            judged = await classify_response(
                command, answer, self._client, self._uncertain
            )
        except Exception as error:  # noqa: BLE001 - unclassified: it did arrive
            reason = f"{answer.status}, not understood: {type(error).__name__}: {error}"
            return ClassifiedResponse(Verdict(Outcome.UNCERTAIN, reason)), answer
        return refuse_unsent(judged, sendable.request), answer

    def _react(self, command: Command, verdict: Verdict) -> None:
        """Apply the outcome of one command to the whole store."""
        self.switch.apply_verdict(command.kind, verdict)
        if verdict.outcome is Outcome.WITHOUT_MEMBER and verdict.member:
            self._dialect.unknown_members.add(f"{command.kind}.{verdict.member}")

    def _measure(self, command: Command, verdict: Verdict) -> None:
        """Report how long a command waited until it was sent for the first time."""
        if command.attempts or verdict.outcome is Outcome.NEVER_SENT:
            return
        with suppress(ValueError):  # a damaged time
            waited = self._clock.now() - from_text(command.created_at)
            self._signals.command_sent.emit(command.kind, waited.total_seconds())

    async def _record(
        self, command: Command, judged: ClassifiedResponse, answer: Response | None
    ) -> State:
        """Record an attempt; return the command's new state."""
        now = self._clock.now()
        attempt = Attempt(
            finished_at=to_text(now),
            outcome=judged.verdict.outcome.value,
            status=answer.status if answer else None,
            reason=judged.verdict.reason,
            response=answer.body if answer else None,
            customer=mentioned_customer(self._store, answer.body) if answer else None,
        )
        step = transition_of(judged, command.failures, now, self._chance(), self._push)
        write = partial(self._commands.record_attempt, command, attempt, step)
        state = await retry_until_stored(write, self._store, self._clock)
        self._log_state(command, state, judged.verdict.reason)
        if state is State.UNCERTAIN:
            self._signals.command_uncertain.emit()
        return state

    def _log_state(self, command: Command, state: State, reason: str) -> None:
        self._signals.state_reached.emit(command.kind, state.value)
        level = "WARNING" if state in {State.PARKED, State.REJECTED} else "INFO"
        logger.bind(
            action=f"command.{state}", store=self._store, command=command.id
        ).log(
            level,
            "{} {} is {}: {}",
            command.kind,
            command.target,
            state,
            reason,
        )


STOP_SECONDS = 20.0
"""Longest wait for requests in flight after a stop; then they are uncertain."""


async def end_sending(
    stop: asyncio.Event,
    dispatchers: Iterable[Dispatcher],
    senders: Sequence[asyncio.Task[None]],
    checks: Iterable[asyncio.Task[None]],
) -> None:
    """Wait for `stop`, then finish only the requests in flight, within STOP_SECONDS.

    This begins while the listeners still answer requests. The resolvers end too: a
    check may send a command again, and the database keeps what is uncertain.
    """
    await stop.wait()
    for dispatcher in dispatchers:
        dispatcher.stop()
    for check in checks:
        check.cancel()
    await asyncio.wait(senders, timeout=STOP_SECONDS)
