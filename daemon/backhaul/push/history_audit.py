"""Compares the platform's stock history with the tags of our own commands."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import earlier, from_text, to_text
from backhaul.core.effect_proof import BECOMES_EFFECT, FOREIGN, TagMeaning
from backhaul.core.identity import tag, tagged
from backhaul.errors import Busy, Unusable
from backhaul.platform import history
from backhaul.platform.client import NOT_OFFERED, ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.push.resolver import report_double_effect
from backhaul.runtime.loop import Loop
from backhaul.store.commands import TaggedAdjustment, audited_mark, restored_mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.core.effect_proof import Move
    from backhaul.platform.client import PlatformClient
    from backhaul.push.effect_verification import EffectVerifier
    from backhaul.push.send_switch import SendSwitch
    from backhaul.runtime.signals import StoreContext
    from backhaul.settings import Push
    from backhaul.store.commands import HistoryTags
    from backhaul.store.operations import KeyValues

OVERLAP = timedelta(minutes=1)
"""Read again each time: a platform may show a change a moment late."""
AHEAD = timedelta(minutes=5)
"""How far a platform's clock may be ahead of this one."""
MOST_FOREIGN_PAGES = 50
"""Pages without a new tag after which the first audit stops reading."""
REFUSALS = 5
"""Refusals in a row after which a history that was read before counts as missing."""
CLOCK_SECONDS = 30.0
"""How often the wall clock is compared with the monotonic one."""
STEP_BACK_SECONDS = 2.0
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
OPENING = "the platform's history has not been read since the start"
RESTORED = (
    "reconcile_only: the database was restored or copied, so commands may be"
    " missing in it. Backhaul is reading the platform's stock history to find them"
)
IN_FLIGHT = (
    "the platform's history shows commands that this database does not know: it was"
    " restored or copied, or another Backhaul sends to this store, which must be"
    " stopped. A request from before may still take effect, so Backhaul sends nothing"
    " until"
)
WOUND_BACK = "the clock was set back; Backhaul is auditing the stock history again"


class _Reading(Struct):
    """Result of one audit of the history.

    A row dated after `latest` does not count as the newest one: the next audit would
    skip every row until that time.
    """

    latest: str
    newest: str = ""
    open_since: str = ""
    foreign: list[str] = field(default_factory=list)

    def note(self, move: Move) -> None:
        if move.at <= self.latest:
            self.newest = max(self.newest, move.at)

    def hold_back(self, at: str) -> None:
        self.open_since = min(self.open_since or at, at)

    @property
    def understood_to(self) -> str:
        """Time up to which every row is understood."""
        return min(self.newest, self.open_since or self.newest)


class Auditor:
    """Holds the store's commands until the stock history is audited."""

    def __init__(
        self,
        context: StoreContext,
        client: PlatformClient,
        tags: HistoryTags,
        marks: KeyValues,
        verifier: EffectVerifier,
        switch: SendSwitch,
        push: Push,
    ) -> None:
        self._store = context.name
        self._clock = context.clock
        self._chance = context.chance
        self._signals = context.signals
        self._report = context.report
        self._client = client
        self._tags = tags
        self._marks = marks
        self._verifier = verifier
        self._switch = switch
        self._in_flight_seconds = push.check_after[-1]
        self._longest_seconds = max(push.check_after[-1], push.retry_cap)
        self._loop = Loop(context.clock)
        self._is_requested = False
        self._foreign = ""
        self._unavailable = ""
        self._reported: set[str] = set()
        self._offset = self._wall_offset()
        self._back_seconds = 0.0
        self._is_caught_up = False
        self._refusals = 0

    def wake(self) -> None:
        """Request an audit; the scheduled job calls this."""
        self._is_requested = True
        self._loop.wake()

    def hold_for_audit(self) -> None:
        """Send nothing until `run` has read the history."""
        self._switch.hold_for_audit(OPENING)

    async def run(self) -> None:
        """Audit the history, release the hold, then audit on request. Runs for ever."""
        self.hold_for_audit()
        await self._audit_until_done(starting=True)
        if left := await self._still_in_flight_seconds():
            ends = self._clock.now() + timedelta(seconds=left)
            self._switch.hold_for_audit(f"{IN_FLIGHT} {ends:%H:%M:%S} UTC")
            await self._clock.sleep(left)
            await self._audit_until_done(starting=True)
        self._release()
        await self._loop.run(self._watch)

    async def _watch(self) -> float:
        """Audit if the clock went back, and on request."""
        if back := self._wound_back():
            await self._start_over(back)
        if self._is_requested:
            await self._run_job()
        return CLOCK_SECONDS

    async def _run_job(self) -> None:
        """Audit once; report the run only if the audit succeeded."""
        self._is_requested = False
        began = to_text(self._clock.now())
        done = await self._try(starting=False)
        if done:
            found = self._foreign or self._unavailable or "the history was read"
            await self._report("audit", began, found)

    def _wall_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _wound_back(self) -> float:
        """Return by how much the wall clock went back since the last call."""
        before, self._offset = self._offset, self._wall_offset()
        back = before - self._offset
        return back if back > STEP_BACK_SECONDS else 0.0

    async def _start_over(self, back_seconds: float) -> None:
        self._switch.hold_for_audit(WOUND_BACK)
        logger.bind(action="audit.clock", store=self._store).warning(
            "store {}: the clock went back by {:.0f} s; nothing is sent until the"
            " platform's history is read",
            self._store,
            back_seconds,
        )
        self._back_seconds += back_seconds
        await self._audit_until_done(starting=False)
        self._release()

    async def _still_in_flight_seconds(self) -> float:
        """Return for how long a request sent before a restore may still take effect."""
        restored_at = await self._marks.get(restored_mark(self._store))
        if restored_at is None:
            return 0.0
        age = self._clock.now() - from_text(restored_at)
        # The clock may have been set back since.
        return max(0.0, self._in_flight_seconds - max(0.0, age.total_seconds()))

    async def _shift(self) -> None:
        """Shift stored times after the clock went back; retried if that fails."""
        if not self._is_caught_up:
            await self._tags.catch_up(self._store, self._longest_seconds)
            self._is_caught_up = True
        if self._back_seconds:
            back, longest = self._back_seconds, self._longest_seconds
            await self._tags.shift(self._store, back, longest)
            self._back_seconds = 0.0
            self._wake_others()

    async def _audit_until_done(self, *, starting: bool) -> None:
        """Audit until it succeeds."""
        failures = 0
        while not await self._try(starting=starting):
            failures += 1
            wait = delay_seconds(
                failures,
                base_seconds=RETRY_BASE_SECONDS,
                cap_seconds=RETRY_CAP_SECONDS,
                chance=self._chance(),
            )
            await self._loop.rest(wait)
            self._is_requested = False

    def _wake_others(self) -> None:
        """Let commands be checked and sent: the history changed what is known."""
        self._signals.command_uncertain.emit()
        self._signals.command_changed.emit()

    def _release(self) -> None:
        """End the hold, unless another daemon sends under this name."""
        if not self._foreign:
            self._switch.release()

    async def _try(self, *, starting: bool) -> bool:
        """Audit once; return True if the history was read, or does not exist.

        Wait here while the database refuses writes: a restarted audit would adopt
        foreign tags as our own.
        """
        try:
            await self._shift()
            for command, parcel in await self._tags.record_double_parcels(self._store):
                report_double_effect(self._store, command, (parcel,))
            if not await self._reads_history(starting=starting):
                return True
        except (NotSent, OutcomeUnknown, ReadRefused, Unusable, Busy) as error:
            return self._log_failed(error)
        except Exception as error:  # noqa: BLE001 - webhooks are received all the same
            return self._log_failed(error, error)
        self._reported.discard("failed")
        self._refusals = 0
        return True

    async def _reads_history(self, *, starting: bool) -> bool:
        """Audit; log it and return False if there is no history to read."""
        try:
            await self.audit_now(starting=starting)
        except ReadRefused as error:
            if not await self._is_without_history(error):
                raise
            self._unavailable = f"the stock history cannot be read ({error})"
            self._log_unavailable("history", self._unavailable)
            return False
        self._unavailable = ""
        return True

    async def _is_without_history(self, error: ReadRefused) -> bool:
        """Return True if the platform has no history, or no longer shows it to us.

        A single refusal may come from a gateway, and the audit must not be skipped
        when it would reveal a restored database.
        """
        if error.status not in NOT_OFFERED or not await self._client.opens():
            return False
        self._refusals += 1
        was_read = await self._marks.get(self._mark) is not None
        return not was_read or self._refusals >= REFUSALS

    async def audit_now(self, *, starting: bool = False) -> None:
        """Read the history back to the last audit and record what its tags mean."""
        known = await self._marks.get(self._mark)
        since = earlier(known, OVERLAP) if known else ""
        latest = to_text(self._clock.now() + AHEAD)
        reading = _Reading(latest, newest=known or "")
        foreign_pages = 0
        async for moves in history.back_to(self._client, since, self._log_skipped_row):
            adopted = await self._record_page(moves, reading, starting=starting)
            foreign_pages = 0 if adopted else foreign_pages + 1
            if not known and foreign_pages >= MOST_FOREIGN_PAGES:
                break
        if reading.foreign:
            self._stop(reading.foreign)
        elif reading.understood_to:
            await self._marks.put(self._mark, reading.understood_to)

    async def _record_page(
        self, moves: list[Move], reading: _Reading, *, starting: bool
    ) -> bool:
        """Record one page; return True if it has an effect that was adopted."""
        found = _by_tag(moves)
        meanings = await self._tags.record_tags(self._store, found, adopt=starting)
        for move in moves:
            reading.note(move)
        for each, meant in zip(found, meanings, strict=True):
            if meant is TagMeaning.OPEN:
                reading.hold_back(each.moves[0].at)
            elif meant in FOREIGN and not starting:
                reading.foreign.append(each.command)
            self._log_meaning(each, meant)
        adopted = starting and bool(FOREIGN & set(meanings))
        if adopted:
            self._log_restored()
        if adopted or BECOMES_EFFECT & set(meanings):
            self._wake_others()
        if (await self._verifier.observe(moves)).keeps_notes is False:
            self._log_unavailable("notes", "the platform keeps no notes")
        return adopted

    def _stop(self, foreign: list[str]) -> None:
        """Stop sending: a second daemon under this name would send all twice."""
        self._foreign = (
            f"the platform's history shows {tag(foreign[0])}, which was not sent"
            " from this database: another Backhaul uses a copy of this database for"
            f" store {self._store}. Stop the other Backhaul, then restart this one"
        )
        self._switch.hold_for_audit(self._foreign)
        if "foreign" not in self._reported:
            self._reported.add("foreign")
            logger.bind(action="audit.foreign", store=self._store).error(
                "store {}: sending stopped: {}", self._store, self._foreign
            )

    def _log_meaning(self, found: TaggedAdjustment, meant: TagMeaning) -> None:
        if meant is TagMeaning.LATE:
            logger.bind(
                action="audit.late_effect", store=self._store, command=found.command
            ).warning(
                "command {} was closed, and took effect late as {}: it is now applied",
                found.command,
                found.adjustment_id,
            )
        elif meant is TagMeaning.BEHIND:
            logger.bind(
                action="command.doubled", store=self._store, command=found.command
            ).error(
                "command {} was closed, and took effect late as {}, after a stock count"
                " that did not include it; compensate it manually",
                found.command,
                found.adjustment_id,
            )
        elif meant is TagMeaning.DOUBLED:
            report_double_effect(self._store, found.command, (found.adjustment_id,))

    def _log_restored(self) -> None:
        self._switch.hold_for_audit(RESTORED)
        if "restored" not in self._reported:
            self._reported.add("restored")
            logger.bind(action="audit.restored", store=self._store).error(
                "store {}: the platform's history shows our tags that this database"
                " does not know: it was restored or copied, or another Backhaul sends"
                " to this store, which must be stopped. Their commands count as done;"
                " every open command is checked before it is sent",
                self._store,
            )

    def _log_unavailable(self, what: str, why: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            logger.bind(action="audit.unavailable", store=self._store).warning(
                "store {}: {}: Backhaul cannot detect late or double effects, a"
                " restored database or a second daemon",
                self._store,
                why,
            )

    def _log_skipped_row(self, error: Unusable) -> None:
        if "skipped row" not in self._reported:
            self._reported.add("skipped row")
            logger.bind(action="audit.row_skipped", store=self._store).warning(
                "store {}: a row of the platform's stock history without our tag cannot"
                " be read: {}; Backhaul skips such rows",
                self._store,
                error,
            )

    def _log_failed(self, error: Exception, bug: Exception | None = None) -> bool:
        if "failed" not in self._reported:
            self._reported.add("failed")
            logger.bind(action="audit.failed", store=self._store).opt(
                exception=bug
            ).log(
                "ERROR" if bug else "WARNING",
                "store {}: the platform's stock history cannot be audited: {}; Backhaul"
                " keeps retrying",
                self._store,
                error,
            )
        return False

    @property
    def _mark(self) -> str:
        return audited_mark(self._store)


def _by_tag(moves: Iterable[Move]) -> list[TaggedAdjustment]:
    """Return the adjustments that have our tag, each with its moves."""
    found: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        command = tagged(move.note)
        if command is not None and move.adjustment_id:
            found.setdefault((command, move.adjustment_id), []).append(move)
    return [TaggedAdjustment(*key, tuple(parts)) for key, parts in found.items()]
