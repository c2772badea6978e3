"""Applies inbox events to the mirror in order of arrival; reprocesses old ones."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.ingest.topics import fold_for
from backhaul.observe.metrics import Metrics
from backhaul.runtime.loop import Loop
from backhaul.runtime.signals import SharedSignals
from backhaul.runtime.tracing import INBOX, STORE, attributes_of_object, working_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.client import StoreFacts
    from backhaul.runtime.tracing import Span, Tracer
    from backhaul.store.inbox import (
        Folded,
        FoldReport,
        Inbox,
        Reprocessing,
        ReprocessReport,
        Selection,
        TracedEvent,
    )


SLICE_SECONDS = 0.005
"""The longest fold in one transaction: accepting webhooks comes first."""
LONGEST_SLICE_SECONDS = 0.05
SLICE_PER_SECOND_BEHIND = 0.04
"""Folds and accepts alternate, so a longer slice is a greater share for the fold."""
MOST_NOTES = 200
"""How many kinds of incomplete events are logged; further kinds are only counted."""
NO_SPANS: Mapping[int, Span] = MappingProxyType({})
_PLACE = re.compile(r"\[\d+\]|: .*|(?<= )[\d.,]+(?= )", re.DOTALL)
"""The parts of a note that may differ between events with the same fault."""


class FoldWorker:
    """Folds events until the inbox is empty, then waits until it is woken."""

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        facts: Mapping[str, StoreFacts],
        signals: SharedSignals | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._inbox = inbox
        self._fold_one = fold_for(facts)
        self._signals = signals or SharedSignals()
        self._metrics = metrics or Metrics()
        self._tracer = tracer
        self._loop = Loop(clock, _log_busy)
        self._moved = asyncio.Event()
        self._folded_to = 0
        self._behind_seconds = 0.0
        self._noted: set[tuple[str, str]] = set()

    def wake(self) -> None:
        """Fold now: the inbox has new events."""
        self._loop.wake()

    async def caught_up(self) -> None:
        """Wait until every event that has arrived so far is folded. May raise Busy.

        Later events are not waited for: traffic may never pause.
        """
        newest = await self._inbox.newest()
        while self._folded_to < newest:
            self._moved.clear()
            self.wake()
            await self._moved.wait()

    async def run(self) -> None:
        """Fold until cancelled. A slice is one transaction, so none is half done."""
        await self._loop.run(self._slice)

    async def _slice(self) -> float | None:
        """Fold once; return 0.0 if more is waiting."""
        tracer = self._tracer
        began_at = 0 if tracer is None else tracer.now()
        report = await self._inbox.fold(self._fold_one, self._slice_seconds())
        spans = NO_SPANS
        if tracer is not None:
            spans = _spans(tracer, report.traced, began_at)
        shown = [one for one in report.problems if self._should_log(one[1])]
        log_problems(shown, spans)
        self._log_incomplete(report)
        self._count(report)
        if report.folded:
            self._signals.events_folded.emit()
        if report.refetches:
            self._signals.conflict_found.emit()
        self._folded_to = report.folded_to
        self._behind_seconds = report.behind_seconds
        self._moved.set()
        return 0.0 if report.more else None

    def _log_incomplete(self, report: FoldReport) -> None:
        """Log each unreadable member once: a platform repeats it in every event."""
        for event, folded in report.incomplete:
            self._metrics.counter("events_incomplete_total")[folded.topic,] += 1
            notes = {_PLACE.sub("[]", note) for note in folded.notes}
            if not self._notes(*((folded.topic, note) for note in notes)):
                continue
            logger.bind(action="fold.incomplete", event=event).warning(
                "event {} ({}): {}", event, folded.topic, folded.detail
            )

    def _should_log(self, folded: Folded) -> bool:
        """Return whether to log a problem. An unknown topic is logged only once."""
        return folded.state != "unhandled" or self._notes((folded.topic, "unhandled"))

    def _notes(self, *about: tuple[str, str]) -> bool:
        """Return whether these were not logged before, and remember them."""
        is_new = not self._noted.issuperset(about) and len(self._noted) < MOST_NOTES
        self._noted.update(about if is_new else ())
        return is_new

    def _slice_seconds(self) -> float:
        """Return how long to fold: longer if the mirror is further behind."""
        wanted = self._behind_seconds * SLICE_PER_SECOND_BEHIND
        return min(max(SLICE_SECONDS, wanted), LONGEST_SLICE_SECONDS)

    def _count(self, report: FoldReport) -> None:
        self._metrics.counter("events_folded_total")[()] += report.folded
        for seconds in report.waits:
            self._metrics.time("event_applied_seconds", seconds)
        for _, folded in report.problems:
            self._metrics.counter("fold_problems_total")[folded.state,] += 1


def _log_busy(error: Exception) -> None:
    logger.bind(action="fold.busy").warning("{}", error)


def log_problems(
    problems: Iterable[tuple[int, Folded]], spans: Mapping[int, Span] = NO_SPANS
) -> None:
    """Log events that could not be folded, each within its span."""
    for event, folded in problems:
        with working_on(spans.get(event)):
            logger.bind(action=f"fold.{folded.state}", event=event).warning(
                "event {} ({}): {}", event, folded.topic, folded.detail
            )


def _spans(
    tracer: Tracer, traced: Iterable[TracedEvent], began_at: int
) -> Mapping[int, Span]:
    """Return a span for each traced event of a slice: from its begin to its commit."""
    spans: dict[int, Span] = {}
    for event in traced:
        folded = event.folded
        attributes = {
            **INBOX,
            "messaging.operation.name": "fold",
            "messaging.operation.type": "process",
            "messaging.message.id": str(event.id),
            STORE: event.store,
            "backhaul.topic": folded.topic,
            "backhaul.event.state": folded.state,
            **attributes_of_object(folded.kind, folded.object_id),
        }
        span = tracer.begin(
            "fold inbox", "consumer", attributes, event.traceparent, began_at=began_at
        )
        span.end(folded.state if folded.state == "quarantined" else "")
        spans[event.id] = span
    return spans


class Reprocessor:
    """Folds stored events again, in short transactions between other writes."""

    def __init__(
        self,
        stored: Reprocessing,
        facts: Mapping[str, StoreFacts],
        signals: SharedSignals | None = None,
    ) -> None:
        self._stored = stored
        self._fold = fold_for(facts)
        self._signals = signals or SharedSignals()

    async def reprocess(self, selection: Selection) -> dict[str, int]:
        """Fold the selected events; return how many events ended in each state.

        Reads that resolved a conflict come first. In any other order they might change
        the result of an event that was folded earlier, which would need a second run.
        """
        states: Counter[str] = Counter()
        for confirming in (True, False):
            after: int | None = 0
            while after is not None:
                report = await self._stored.reprocess(
                    self._fold, selection, after, SLICE_SECONDS, confirming=confirming
                )
                after = report.last
                states.update(report.states)
                self._report(report)
        return dict(states)

    def _report(self, report: ReprocessReport) -> None:
        log_problems(report.problems)
        self._signals.events_folded.emit()
        if report.refetches:
            self._signals.conflict_found.emit()
