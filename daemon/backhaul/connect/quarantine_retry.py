"""Retries unmatched records; says what a change of quarantined rows will do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.connect.record_matching import log_outcome
from backhaul.runtime.loop import IDLE_SECONDS, Loop
from backhaul.store.bulk import preview_of
from backhaul.store.records import RowVerb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.connect.record_matching import Matcher
    from backhaul.core.clock import Clock
    from backhaul.runtime.signals import SharedSignals
    from backhaul.store.bulk import Preview
    from backhaul.store.filters import SelectedRows
    from backhaul.store.records import Records


_EDITED = "edited and retried; rows that match become commands"
_UNREAD = "unchanged: Backhaul could not read them as records; edit each one"
_CLOSED = "unchanged: they are no longer open, or were used"
_ANSWERED = (
    "matched again; the retry is your yes to the question in the reason, such as"
    " whether to ship a further parcel"
)
_ZEROED = "applied: SKUs that these full stock lists leave out are set to 0"
_DISCARDED = "discarded; if their connector sends the same rows again, nothing happens"
_RESULTS: Mapping[RowVerb, Mapping[str, tuple[bool, str]]] = {
    RowVerb.RETRY: {
        "record": (True, "matched again; rows that match now become commands"),
        "question": (True, _ANSWERED),
        "list": (True, _ZEROED),
        "event": (True, "processed again (these are events)"),
        "kept": (True, "applied by their connector in its next round"),
        "read": (False, _UNREAD),
        "bad": (False, _UNREAD),
    },
    RowVerb.EDIT: {
        "record": (True, _EDITED),
        "question": (True, f"edited, and {_ANSWERED}"),
        "list": (True, f"edited, and {_ZEROED}"),
        "event": (False, "unchanged: these are events, which cannot be edited"),
        "kept": (False, "unchanged: their connector keeps them, without fields"),
        "read": (True, _EDITED),
        "bad": (False, _UNREAD),
    },
    RowVerb.DISCARD: {
        "record": (True, _DISCARDED),
        "question": (True, _DISCARDED),
        "list": (
            True,
            "discarded; the SKUs that these full lists leave out keep their stock",
        ),
        "event": (
            True,
            "discarded (these are events); commands that wait are released",
        ),
        "kept": (True, "discarded; their connector does not apply them"),
        "read": (True, "discarded"),
        "bad": (True, "discarded"),
    },
}
"""Whether a verb changes a row with a content, and what it does."""


def preview(verb: RowVerb, selected: Iterable[SelectedRows]) -> Preview:
    """Return what a change of the selected rows will do."""
    return preview_of(selected, lambda rows: _result(verb, rows))


CHANGEABLE = frozenset({"open", "dropped"})
"""The states in which a row can be retried or edited."""


def _result(verb: RowVerb, rows: SelectedRows) -> tuple[bool, str]:
    states = {"open"} if verb is RowVerb.DISCARD else CHANGEABLE
    if rows.state not in states:
        return False, _CLOSED
    return _RESULTS[verb][rows.content]


BATCH = 100
RETRY_SECONDS = 1.0
"""The retry interval: a record may run out of time though nothing is folded."""
SOON_SECONDS = 0.1
"""The shortest time before the next retry after a record stayed unmatched."""


class UnmatchedRetry:
    """Retries unmatched records after each fold, and once a second.

    Wake it after storing an unmatched record.
    """

    def __init__(
        self,
        records: Records,
        matcher: Matcher,
        clock: Clock,
        signals: SharedSignals,
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._accepted = signals.records_accepted
        self._loop = Loop(clock, _log_busy)

    def wake(self) -> None:
        """Retry now: the mirror has changed, or a new record is unmatched."""
        self._loop.wake()

    async def run(self) -> None:
        """Retry until cancelled."""
        await self._loop.run(self._match_all)

    async def _match_all(self) -> float:
        """Match all unmatched records; return the seconds until the next retry."""
        if not await self._records.any_waiting():
            return IDLE_SECONDS
        return SOON_SECONDS if await self._match_once() else RETRY_SECONDS

    async def _match_once(self) -> bool:
        """Match one batch; return True if the next one should come soon."""
        outcomes = await self._records.match(self._matcher, BATCH)
        if any(outcome.state == "accepted" for outcome in outcomes):
            self._accepted.emit()
        for outcome in outcomes:
            if outcome.state != "waiting":
                log_outcome(outcome)
        has_unmatched = any(outcome.state == "waiting" for outcome in outcomes)
        return has_unmatched or len(outcomes) == BATCH


def _log_busy(error: Exception) -> None:
    logger.bind(action="record.busy").warning("{}", error)
