"""Takes the records that programs submit over the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.connect.record_matching import log_outcome
from backhaul.connect.record_spans import TracedRecords
from backhaul.settings.connections import API
from backhaul.store.records import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.connect.record_matching import Matcher
    from backhaul.runtime.tracing import Tracer
    from backhaul.store.records import Records, Submitted


class Submissions:
    """Stores and matches records as a connection does, each with a program's key.

    `accepted` wakes what works on the records of a store.
    """

    def __init__(
        self,
        records: Records,
        matcher: Matcher,
        accepted: Callable[[str], None],
        tracer: Tracer | None = None,
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._accepted = accepted
        self._tracer = tracer

    async def act(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Submit what an action was asked for; return the record as JSON has it.

        `is_new` tells whether the key was unknown, and `is_same` whether the record of
        that key is the same. May raise Busy.
        """
        payload = asked["payload"].encode()
        record = NewRecord(asked["key"], payload, asked["raw"], "", asked["locator"])
        found = await self.submit(asked["store"], record)
        return {
            "record": msgspec.to_builtins(found.record),
            "is_new": found.outcome is not None,
            "is_same": found.is_same,
        }

    async def submit(self, store: str, record: NewRecord) -> Submitted:
        """Store one record; return after the commit where it stands. May raise Busy."""
        traced = None
        if self._tracer is not None:
            traced = TracedRecords(self._tracer, API, store, [record])
            (record,) = traced.records
        found = await self._records.submit(API, store, record, self._matcher)
        if found.outcome is not None:
            if traced is not None:
                traced.end([found.outcome])
            self._accepted(store)
            for each in (found.outcome, *found.outcome.also):
                log_outcome(each)
        return found
