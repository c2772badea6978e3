"""Dispatcher of one store: claims due commands and sends each in its lane."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec.structs import replace

from backhaul.core.clock import from_text, rest, to_text
from backhaul.core.identity import idempotency_key
from backhaul.core.lifecycle import Cause, State, move
from backhaul.core.outcome import Outcome, Verdict
from backhaul.core.rate_limit import Priority
from backhaul.errors import Busy
from backhaul.platform import requests
from backhaul.platform.transport import Answer, InDoubt, NotSent
from backhaul.push.availability import ALL, Door
from backhaul.push.response_classifier import (
    UNITS_OPEN,
    Judged,
    check_shipped_whole,
    judge,
    refuse_unsent,
    settlement,
)
from backhaul.push.retry_store import REST_SECONDS, insist, tell_busy, told_of
from backhaul.push.send_windows import Gates
from backhaul.store.outbox import Attempt, Sendable, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.platform.client import ShopClient
    from backhaul.platform.requests import Dialect
    from backhaul.platform.transport import Pause, Transport
    from backhaul.push.send_windows import Burst
    from backhaul.settings import Push
    from backhaul.store.contract import Command, MatchReader
    from backhaul.store.outbox import Commands, Doubts


RUN_SECONDS = 10.0
"""How long the report of a run waits for what is being sent, by the event loop."""
IDLE_SECONDS = 30.0
"""Longest sleep: a lost wake costs no more than this."""


class Dispatcher:
    """Sends one store's commands, never two of one lane at once."""

    def __init__(
        self,
        store: str,
        commands: Commands,
        doubts: Doubts,
        client: ShopClient,
        transport: Transport,
        dialect: Dialect,
        push: Push,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._store = store
        self._commands = commands
        self._doubts = doubts
        self._client = client
        self._transport = transport
        self._dialect = dialect
        self._push = push
        self._clock = clock
        self._chance = chance
        self.gates = Gates(push.eager, clock)
        self.bursts: dict[str, Burst] = {}
        """The runs of the jobs that send at once, by kind of command."""
        self.doubted: Callable[[], None] = lambda: None
        self.came_to: Counter[tuple[str, ...]] = Counter()
        self.settled: Callable[[], None] = lambda: None
        self.door = Door(store, client, clock, self._reopened)
        transport.refused = self.door.refuse
        transport.failing = self.door.fail
        transport.paused = self._log_pause
        self._wake = asyncio.Event()
        self._flying = 0
        self._looked_at = ""
        self._wants_room = False
        self._refused = False
        self._unsent: list[tuple[Command, Settlement]] = []
        self._stopping = False
        self._is_running = False
        self._turn = asyncio.Event()
        self._sent: Counter[str] = Counter()

    def wake(self) -> None:
        """Tell that a command may have come due."""
        self._ask_for_runs()
        self._wake.set()

    def _ask_for_runs(self) -> None:
        for burst in self.bursts.values():
            burst.ask()

    def moved(self) -> None:
        """Tell that a command has moved: its lane may be free, its target done."""
        self.wake()
        self.settled()

    def _reopened(self) -> None:
        self.moved()
        self.doubted()

    def open(self, kind: str, at: str) -> None:
        """Let commands leave that are planned by then; called by the scheduled jobs."""
        self.gates.open(kind, at)
        self.wake()

    def pause(self, kind: str, since: str | None) -> None:
        """Let no command of a kind leave, since that moment; None lets them again."""
        self.gates.pause(kind, since)
        self.wake()

    def state(self) -> dict[str, object]:
        """Return how many commands are being sent, what is stopped, and any pause.

        `paused` is None, or when the pause ends (`until`, UTC) and its `reason`.
        """
        pause = self._transport.pause()
        return {
            "sending": self._flying,
            "stopped": self.door.reasons(),
            "paused": pause and {"until": pause.until, "reason": pause.reason},
        }

    def sent(self, kind: str) -> int:
        """Return how many requests of a kind have left since the start."""
        return self._sent[kind]

    def why_waiting(self, kind: str) -> str:
        """Return why no command of a kind is sent now; "" where nothing stops it."""
        reasons = self.door.reasons()
        if reason := reasons.get(ALL) or reasons.get(kind):
            return reason
        if pause := self._transport.pause():
            return f"paused until {pause.until}: {pause.reason}"
        return "" if self._is_running else "the program is starting or stopping"

    async def sent_all(self, kind: str) -> None:
        """Wait until nothing that may leave is left to be sent, or something stops it.

        Returns after RUN_SECONDS in any case.
        """
        idle_turns = 0  # the first may have begun before the commands could leave
        with suppress(TimeoutError):
            async with asyncio.timeout(RUN_SECONDS):
                while idle_turns < 2 and not self.why_waiting(kind):
                    if not self._flying:
                        self.wake()
                    await self._turn.wait()
                    idle_turns = 0 if self._flying else idle_turns + 1

    def _log_pause(self, pause: Pause) -> None:
        logger.bind(action="push.paused", store=self._store).warning(
            "store {}: nothing is sent or read until {}: {}",
            self._store,
            pause.until,
            pause.reason,
        )

    def _told_to_stop(self) -> bool:
        return self._stopping

    def _may_send(self, command: Command) -> bool:
        return not self._stopping and self.door.lets_out(command.kind)

    def stop_sending(self, reason: str) -> None:
        """Send nothing more, until the platform can be read; ask for no stop."""
        self.door.close(ALL, reason)

    def stop(self) -> None:
        """Send nothing new; what is under way is finished by `run`."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        """Send until stopped, then wait for what is under way."""
        self._is_running = True
        async with asyncio.TaskGroup() as group:
            probe = group.create_task(self.door.watch())
            while not self._told_to_stop():
                self._wake.clear()
                for command, sendable in await self._claim():
                    self._flying += 1
                    if command.kind in self.bursts:
                        self.bursts[command.kind].sent += 1
                    work = self._give_back if self._told_to_stop() else self._deliver
                    group.create_task(work(command, sendable))
                turn, self._turn = self._turn, asyncio.Event()
                turn.set()
                await self._rest()
            self._is_running = False
            probe.cancel()

    async def _claim(self) -> list[tuple[Command, Sendable]]:
        self._looked_at = to_text(self._clock.now())
        self._refused = False
        gates = self.gates.passable()
        open_gates = {k: gates[k] for k in gates if self.door.lets_out(k)}
        free = self._free() if open_gates else 0
        room = self._transport.budget.take(free, self._clock.monotonic())
        claimed: list[tuple[Command, Sendable]] = []
        try:
            if room:
                claimed = await self._claim_for(room, open_gates)
        finally:
            self._transport.budget.give_back(room - len(claimed))
        self._wants_room = len(claimed) == room < free
        return claimed

    def _free(self) -> int:
        """Return how many more commands may be under way."""
        circuit = self._transport.circuit
        if circuit.open:
            return 0
        most = 1 if circuit.half_open else self._push.concurrency
        return max(most - self._flying, 0)

    async def _claim_for(
        self, room: int, gates: Mapping[str, str]
    ) -> list[tuple[Command, Sendable]]:
        self._unsent.clear()
        try:
            claimed = await self._commands.claim(
                self._store, gates, room, self._prepare
            )
        except Busy as error:
            tell_busy(self._store, error)
            self._refused = True
            return []
        self._conclude_unsent()
        return claimed

    def _conclude_unsent(self) -> None:
        """Tell of what was settled without being sent; its lane is free now."""
        for command, settled in self._unsent:
            state = move(State.PLANNED, settled.causes[0])
            self._tell(command, state, settled.reason)
            self.moved()

    async def _rest(self) -> None:
        """Sleep until woken, or until the next command may leave."""
        if self._wake.is_set():
            return
        seconds = IDLE_SECONDS
        if self._refused:
            seconds = REST_SECONDS
        elif self._wants_room:
            now = self._clock.monotonic()
            seconds = self._transport.budget.wait_seconds(Priority.COMMAND, now)
        elif self.gates.expects_run:
            pass  # it wakes us: to ask the database now would only keep it waiting
        elif self._flying < self._push.concurrency:
            seconds = min(await self._seconds_to_next(), IDLE_SECONDS)
        await rest(self._wake, seconds, self._clock)
        self._ask_for_runs()  # also for a command whose wake was lost

    async def _seconds_to_next(self) -> float:
        try:
            due = await self._commands.next_due(self._store, self._looked_at)
        except Busy as error:
            tell_busy(self._store, error)
            return REST_SECONDS
        if due is None:
            return IDLE_SECONDS
        wait = from_text(due) - self._clock.now()
        return max(wait / timedelta(seconds=1), 0.0)

    def _prepare(self, command: Command, mirror: MatchReader) -> Sendable | Settlement:
        """Give the bytes to send; what the mirror knows to be refused is not sent."""
        if command.kind == "fulfill":
            order = mirror.order(self._store, command.target)
            if order is not None and order.cancelled:
                reason = f"order {order.name} is cancelled; nothing was sent"
                return self._refuse(command, Settlement((Cause.REFUSED,), reason))
            if command.number_only and mirror.open_units(self._store, command.target):
                return self._refuse(command, Settlement((Cause.REFUSED,), UNITS_OPEN))
        elif (overtaken := mirror.overtaken(command)) is not None:
            return self._refuse(command, Settlement((Cause.REPLACED,), overtaken))
        held = mirror.hold(command) if command.kind in {"fulfill", "cancel"} else None
        if held is None:
            return self._sendable(command)
        if held.payload and self._push.cancel_partly_shipped == "restock_unshipped":
            return self._sendable(replace(command, payload=held.payload), held.payload)
        return self._refuse(command, Settlement((Cause.UNDECIDABLE,), held.reason))

    def _sendable(
        self, command: Command, payload: dict[str, Any] | None = None
    ) -> Sendable:
        body = requests.body(command, self._dialect)
        return Sendable(body, self._transport.key_fingerprint, payload)

    def _refuse(self, command: Command, settled: Settlement) -> Settlement:
        self._unsent.append((command, settled))
        return settled

    async def _deliver(self, command: Command, sendable: Sendable) -> None:
        try:
            judged, answer = await self._attempt(command, sendable)
            self._sent[command.kind] += judged.verdict.outcome is not Outcome.NEVER_SENT
            self._react(command, judged.verdict)
            await self._record(command, judged, answer)
        finally:
            self._flying -= 1
            self.moved()

    async def _give_back(self, command: Command, _: Sendable) -> None:
        """Told to stop between claim and send: proved that nothing was sent."""
        verdict = Verdict(Outcome.STOPPED, "not sent: the program was told to stop")
        try:
            await self._record(command, Judged(verdict), None)
        finally:
            self._flying -= 1

    async def _attempt(
        self, command: Command, sendable: Sendable
    ) -> tuple[Judged, Answer | None]:
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
                may_send=lambda: self._may_send(command),
            )
        except NotSent as error:
            return Judged(Verdict(Outcome.NEVER_SENT, f"not sent: {error}")), None
        except InDoubt as error:
            return Judged(Verdict(Outcome.UNCERTAIN, f"no answer: {error}")), None
        except Exception as error:  # noqa: BLE001 - unclassified: it may have arrived
            reason = f"failed while sending: {type(error).__name__}: {error}"
            return Judged(Verdict(Outcome.UNCERTAIN, reason)), None
        try:
            judged = await judge(command, answer, self._client, self._doubts)
        except Exception as error:  # noqa: BLE001 - unclassified: it did arrive
            reason = f"{answer.status}, not understood: {type(error).__name__}: {error}"
            return Judged(Verdict(Outcome.UNCERTAIN, reason)), answer
        return refuse_unsent(judged, sendable.request), answer

    def _react(self, command: Command, verdict: Verdict) -> None:
        """Let what one command met hold for the whole store."""
        self.door.heed(command.kind, verdict)
        if verdict.outcome is Outcome.WITHOUT_MEMBER and verdict.member:
            self._dialect.unknown_members.add(f"{command.kind}.{verdict.member}")

    async def _record(
        self, command: Command, judged: Judged, answer: Answer | None
    ) -> None:
        now = self._clock.now()
        attempt = Attempt(
            finished_at=to_text(now),
            outcome=judged.verdict.outcome.value,
            status=answer.status if answer else None,
            reason=judged.verdict.reason,
            response=answer.body if answer else None,
            told=told_of(self._store, answer.body) if answer else None,
        )
        step = settlement(judged, command.failures, now, self._chance(), self._push)
        write = partial(self._commands.settle, command, attempt, step)
        state = await insist(write, self._store, self._clock)
        self._tell(command, state, judged.verdict.reason)
        if state is State.UNCERTAIN:
            self.doubted()

    def _tell(self, command: Command, state: State, reason: str) -> None:
        self.came_to[self._store, command.kind, state.value] += 1
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
"""Longest wait for sends under way once told to stop; then they are uncertain."""


async def end_sending(
    told: asyncio.Event,
    dispatchers: Iterable[Dispatcher],
    senders: Sequence[asyncio.Task[None]],
    looks: Iterable[asyncio.Task[None]],
) -> None:
    """Once told to stop, let only what is under way go on, for so long.

    It begins while the listeners still answer requests. Looks end too: one may send
    what is in doubt again, and it stands in the database.
    """
    await told.wait()
    for dispatcher in dispatchers:
        dispatcher.stop()
    for look in looks:
        look.cancel()
    await asyncio.wait(senders, timeout=STOP_SECONDS)
