"""The spans of records that a connection submits, where their traces begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.runtime.tracing import CONNECTION, STORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.runtime.tracing import Tracer
    from backhaul.store.records import NewRecord, RecordOutcome

RECORD_STATE = "backhaul.record.state"


class TracedRecords:
    """Records that are about to be stored, each with a span and its `traceparent`."""

    def __init__(
        self, tracer: Tracer, instance: str, store: str, records: Sequence[NewRecord]
    ) -> None:
        attributes = {CONNECTION: instance, STORE: store}
        self._spans = [
            tracer.begin("accept record", "consumer", attributes) for _ in records
        ]
        pairs = zip(records, self._spans, strict=True)
        self.records = [replace(new, traceparent=s.traceparent) for new, s in pairs]

    def end(self, outcomes: Sequence[RecordOutcome]) -> None:
        """End the spans once the records are stored.

        The span of a duplicate does not end: a file that is read again would export
        one for each of its rows.
        """
        for span, outcome in zip(self._spans, outcomes, strict=True):
            if outcome.state != "duplicate":
                span.put(RECORD_STATE, outcome.state)
                span.end(outcome.state if outcome.state == "quarantined" else "")
