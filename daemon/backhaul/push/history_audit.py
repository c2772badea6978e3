"""Compares the platform's stock history with the tags of our own commands."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import earlier, from_text, rest, to_text
from backhaul.core.effect_proof import FOREIGN, LANDS, Meaning
from backhaul.core.identity import tag, tagged
from backhaul.errors import Busy, Unusable
from backhaul.platform import history
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import InDoubt, NotSent
from backhaul.push.effect_verification import NOT_OFFERED
from backhaul.push.resolver import tell_doubled
from backhaul.store.tagging import Tagged, audited_mark, restored_mark

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from backhaul.core.clock import Clock
    from backhaul.core.effect_proof import Move
    from backhaul.platform.client import ShopClient
    from backhaul.push.availability import Door
    from backhaul.push.effect_verification import Prover
    from backhaul.settings import Push
    from backhaul.store.contract import Marks
    from backhaul.store.tagging import Tags

OVERLAP = timedelta(minutes=1)
"""Read again each time: a platform may show a change a moment after its time."""
AHEAD = timedelta(minutes=5)
"""By how much a platform's clock may be ahead of ours."""
MOST_STRANGE_PAGES = 50
"""Pages without a tag that is news, after which a history never read before ends."""
REFUSALS = 5
"""In a row, after which a history that was read before is taken for one no more."""
CLOCK_SECONDS = 30.0
"""How often the wall clock is compared with the monotonic one."""
STEP_BACK_SECONDS = 2.0
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0
OPENING = "the platform's history has not been read since the start"
RESTORED = (
    "reconcile_only: the database is older than what was sent from it (restored, or"
    " copied); the platform's history is being matched"
)
FLYING = (
    "the database was restored: what was sent before may land yet; nothing is sent"
    " until it would have"
)
WOUND_BACK = "the clock went back; what was sent is looked at again"


class _Reading(Struct):
    """What one reading of the history came to.

    A row of a time beyond `latest` is no measure of how far it is known: all that comes
    until then would be passed over.
    """

    latest: str
    newest: str = ""
    open_since: str = ""
    strangers: list[str] = field(default_factory=list)

    def note(self, move: Move) -> None:
        if move.at <= self.latest:
            self.newest = max(self.newest, move.at)

    def hold_back(self, at: str) -> None:
        self.open_since = min(self.open_since or at, at)

    @property
    def settled_to(self) -> str:
        """Up to when everything is understood."""
        return min(self.newest, self.open_since or self.newest)


class Auditor:
    """Owns the fence of the store's door."""

    def __init__(
        self,
        store: str,
        client: ShopClient,
        tags: Tags,
        marks: Marks,
        prover: Prover,
        door: Door,
        clock: Clock,
        chance: Callable[[], float],
        settled: Callable[[], None],
        push: Push,
    ) -> None:
        self._store = store
        self._client = client
        self._tags = tags
        self._marks = marks
        self._prover = prover
        self._door = door
        self._clock = clock
        self._chance = chance
        self._settled = settled
        self._flying_seconds = push.check_after[-1]
        self._longest_seconds = max(push.check_after[-1], push.retry_cap)
        self._wake = asyncio.Event()
        self._stranger = ""
        self._blind = ""
        self._told: set[str] = set()
        self.audited: Callable[[str, str], Awaitable[None]] | None = None
        self._offset = self._wall_offset()
        self._back_seconds = 0.0
        self._is_caught_up = False
        self._refusals = 0

    def wake(self) -> None:
        """Ask for an audit; called by the scheduled job."""
        self._wake.set()

    def fence(self) -> None:
        """Let nothing out until `run` has read the history."""
        self._door.fence(OPENING)

    async def run(self) -> None:
        """Match the history, lift the fence, and audit whenever asked. Never ends."""
        self.fence()
        await self._insist(starting=True)
        if left := await self._still_flying_seconds():
            self._door.fence(FLYING)
            await self._clock.sleep(left)
            await self._insist(starting=True)
        self._lift()
        while True:
            await rest(self._wake, CLOCK_SECONDS, self._clock)
            if back := self._wound_back():
                await self._start_over(back)
            elif self._wake.is_set():
                await self._run_job()

    async def _run_job(self) -> None:
        """Audit once; one that fails is told of, and not as done."""
        self._wake.clear()
        began = to_text(self._clock.now())
        done = await self._try(starting=False)
        if done and self.audited is not None:
            found = self._stranger or self._blind or "the history was read"
            await self.audited(began, found)

    def _wall_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _wound_back(self) -> float:
        """Return by how much the wall clock went back since the last call."""
        before, self._offset = self._offset, self._wall_offset()
        back = before - self._offset
        return back if back > STEP_BACK_SECONDS else 0.0

    async def _start_over(self, back_seconds: float) -> None:
        self._door.fence(WOUND_BACK)
        logger.bind(action="audit.clock", store=self._store).warning(
            "store {}: the clock went back by {:.0f} s; nothing is sent until the"
            " platform's history is read",
            self._store,
            back_seconds,
        )
        self._back_seconds += back_seconds
        await self._insist(starting=False)
        self._lift()

    async def _still_flying_seconds(self) -> float:
        """Return how long a request of the life before a restore may be under way."""
        restored_at = await self._marks.get(restored_mark(self._store))
        if restored_at is None:
            return 0.0
        age = self._clock.now() - from_text(restored_at)
        # The clock may have been set back since.
        return max(0.0, self._flying_seconds - max(0.0, age.total_seconds()))

    async def _shift(self) -> None:
        """Make up for a clock that went back; where that fails, at the next try."""
        if not self._is_caught_up:
            await self._tags.catch_up(self._store, self._longest_seconds)
            self._is_caught_up = True
        if self._back_seconds:
            back, longest = self._back_seconds, self._longest_seconds
            await self._tags.shift(self._store, back, longest)
            self._back_seconds = 0.0
            self._settled()

    async def _insist(self, *, starting: bool) -> None:
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
            await rest(self._wake, wait, self._clock)
            self._wake.clear()

    def _lift(self) -> None:
        """Let the fence down, unless a stranger sends."""
        if not self._stranger:
            self._door.lift()

    async def _try(self, *, starting: bool) -> bool:
        """Audit once; return whether the history could be read, or there is none.

        A database that refuses to write is waited for here: what is met in a run that
        is begun anew counts as our own past.
        """
        try:
            await self._shift()
            for command, parcel in await self._tags.parcels_twice(self._store):
                tell_doubled(self._store, command, (parcel,))
            if not await self._reads_history(starting=starting):
                return True
        except (NotSent, InDoubt, ReadRefused, Unusable, Busy) as error:
            return self._tell_failed(error)
        except Exception as error:  # noqa: BLE001 - webhooks are received all the same
            return self._tell_failed(error, error)
        self._told.discard("failed")
        self._refusals = 0
        return True

    async def _reads_history(self, *, starting: bool) -> bool:
        """Audit; False where there is no history to be read, which is told."""
        try:
            await self.audit_now(starting=starting)
        except ReadRefused as error:
            if not await self._is_without_history(error):
                raise
            self._blind = f"there is no history to be read ({error})"
            self._tell_blind("history", self._blind)
            return False
        self._blind = ""
        return True

    async def _is_without_history(self, error: ReadRefused) -> bool:
        """Tell whether the platform has no history, or shows it to us no more.

        One refusal may be a gateway's, just when a restored database would show.
        """
        if error.status not in NOT_OFFERED or not await self._client.opens():
            return False
        self._refusals += 1
        was_read = await self._marks.get(self._mark) is not None
        return not was_read or self._refusals >= REFUSALS

    async def audit_now(self, *, starting: bool = False) -> None:
        """Read the history back to the last audit, and take in what it tells."""
        known = await self._marks.get(self._mark)
        since = earlier(known, OVERLAP) if known else ""
        latest = to_text(self._clock.now() + AHEAD)
        reading = _Reading(latest, newest=known or "")
        strange_pages = 0
        async for moves in history.back_to(self._client, since, self._tell_passed_over):
            adopted = await self._take_in(moves, reading, starting=starting)
            strange_pages = 0 if adopted else strange_pages + 1
            if not known and strange_pages >= MOST_STRANGE_PAGES:
                break
        if reading.strangers:
            self._stop(reading.strangers)
        elif reading.settled_to:
            await self._marks.put(self._mark, reading.settled_to)

    async def _take_in(
        self, moves: list[Move], reading: _Reading, *, starting: bool
    ) -> bool:
        """Take in a page; return whether something on it was adopted."""
        found = _by_tag(moves)
        meanings = await self._tags.sighted(self._store, found, adopt=starting)
        for move in moves:
            reading.note(move)
        for each, meant in zip(found, meanings, strict=True):
            if meant is Meaning.OPEN:
                reading.hold_back(each.moves[0].at)
            elif meant in FOREIGN and not starting:
                reading.strangers.append(each.command)
            self._tell(each, meant)
        adopted = starting and bool(FOREIGN & set(meanings))
        if adopted:
            self._tell_restored()
        if adopted or LANDS & set(meanings):
            self._settled()
        if (await self._prover.observe(moves)).keeps_notes is False:
            self._tell_blind("notes", "the platform keeps no notes")
        return adopted

    def _stop(self, strangers: list[str]) -> None:
        """Another daemon sends under this name: two would do everything twice."""
        self._stranger = (
            f"the platform's history shows {tag(strangers[0])}, which was not sent from"
            f" this database: another Backhaul works for store {self._store}, on a copy"
            " of it. Stop the other one, then restart this one"
        )
        self._door.fence(self._stranger)
        if "foreign" not in self._told:
            self._told.add("foreign")
            logger.bind(action="audit.foreign", store=self._store).error(
                "store {}: sending stopped: {}", self._store, self._stranger
            )

    def _tell(self, found: Tagged, meant: Meaning) -> None:
        if meant is Meaning.LATE:
            logger.bind(
                action="audit.late_landing", store=self._store, command=found.command
            ).warning(
                "command {} had been given up, and landed after all as {}: applied",
                found.command,
                found.adjustment_id,
            )
        elif meant is Meaning.BEHIND:
            logger.bind(
                action="command.doubled", store=self._store, command=found.command
            ).error(
                "command {} had been given up, and landed after all as {}, behind a"
                " count that was reckoned without it; compensate by hand",
                found.command,
                found.adjustment_id,
            )
        elif meant is Meaning.DOUBLED:
            tell_doubled(self._store, found.command, (found.adjustment_id,))

    def _tell_restored(self) -> None:
        self._door.fence(RESTORED)
        if "restored" not in self._told:
            self._told.add("restored")
            logger.bind(action="audit.restored", store=self._store).error(
                "store {}: the platform's history shows our tags that this database"
                " does not know: it was restored, or copied. What they tell of counts"
                " as done; every open command is looked for before it is sent",
                self._store,
            )

    def _tell_blind(self, what: str, why: str) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.bind(action="audit.blind", store=self._store).warning(
                "store {}: {}: late or double landings, a restored database and a"
                " second daemon cannot be seen",
                self._store,
                why,
            )

    def _tell_passed_over(self, error: Unusable) -> None:
        if "passed over" not in self._told:
            self._told.add("passed over")
            logger.bind(action="audit.passed_over", store=self._store).warning(
                "store {}: a row of the platform's history bears no tag of ours and"
                " cannot be read: {}; such rows are passed over",
                self._store,
                error,
            )

    def _tell_failed(self, error: Exception, bug: Exception | None = None) -> bool:
        if "failed" not in self._told:
            self._told.add("failed")
            logger.bind(action="audit.failed", store=self._store).opt(
                exception=bug
            ).log(
                "ERROR" if bug else "WARNING",
                "store {}: the platform's history cannot be matched: {}; tried until"
                " it works",
                self._store,
                error,
            )
        return False

    @property
    def _mark(self) -> str:
        return audited_mark(self._store)


def _by_tag(moves: Iterable[Move]) -> list[Tagged]:
    """Return the adjustments with a tag of ours, each with its moves."""
    found: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        command = tagged(move.note)
        if command is not None and move.adjustment_id:
            found.setdefault((command, move.adjustment_id), []).append(move)
    return [Tagged(*key, tuple(parts)) for key, parts in found.items()]
