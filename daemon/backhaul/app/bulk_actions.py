"""Decisions about many commands or deliveries, never about more than were shown."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError, Busy, Fatal
from backhaul.store.bulk import NEEDS_REASON, BulkRow, BulkVerb, result
from backhaul.store.commands import LONGEST_REASON, Decision
from backhaul.store.filters import COMMANDS, DELIVERIES, Allowed, parse_filter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.runtime.signals import SharedSignals
    from backhaul.store import Store
    from backhaul.store.filters import Filter
    from backhaul.store.read_models import Reader

ROWS_AT_ONCE = 50
"""The rows that are decided at the same time: they share commits."""
MOST_PROBLEMS = 20
"""The rows that an answer names because they could not be changed."""


Answer: TypeAlias = dict[str, Any]


class BulkContext(Protocol):
    """What the actions work on."""

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def signals(self) -> SharedSignals: ...


class BulkRequest(Struct, frozen=True):
    """Which rows to decide about, and how.

    `expected` has, for each store, the number of rows that the preview showed. Only
    these stores are concerned, or only `store`.
    """

    where: str
    expected: dict[str, int]
    verb: BulkVerb
    who: str
    reason: str
    store: str | None = None


async def change_commands(parts: BulkContext, asked: Mapping[str, Any]) -> Answer:
    """Check, resend, park or discard the commands of a BulkRequest."""
    request = _request(asked)

    async def decide(row: BulkRow) -> str:
        verb = _COMMAND_VERBS[request.verb]
        decision = Decision(str(row.id), verb, request.who, request.reason.strip())
        moved = await parts.store.decisions.decide(decision, State(row.state))
        return moved.state

    return await _decide_all(parts, request, "commands", COMMANDS, decide)


async def change_deliveries(parts: BulkContext, asked: Mapping[str, Any]) -> Answer:
    """Resend, park or discard the deliveries of a BulkRequest."""
    request = _request(asked)

    async def decide(row: BulkRow) -> str:
        verb, reason = _DELIVERY_VERBS[request.verb], request.reason.strip()
        number = int(row.id)
        return await parts.store.deliveries.decide(number, verb, request.who, reason)

    return await _decide_all(parts, request, "deliveries", DELIVERIES, decide)


_DELIVERY_VERBS = {
    BulkVerb.RESEND: "resend",
    BulkVerb.PARK: "park",
    BulkVerb.DISCARD: "discard",
}
_COMMAND_VERBS = {BulkVerb.CHECK: "resolve", **_DELIVERY_VERBS}
"""The verbs of the decision about one row."""


def _request(asked: Mapping[str, Any]) -> BulkRequest:
    request = msgspec.convert(asked, BulkRequest)
    if request.verb in NEEDS_REASON and not request.reason.strip():
        raise BackhaulError(
            f"the action {request.verb} needs a reason for the audit log"
        )
    if len(request.reason) > LONGEST_REASON:
        raise BackhaulError(f"a reason has at most {LONGEST_REASON} characters")
    return request


async def _rows_as_shown(
    parts: BulkContext, request: BulkRequest, rows: str, allowed: Allowed
) -> list[BulkRow]:
    """Return the rows to change. Raises BackhaulError if they are more than shown."""
    where = parse_filter(request.where, allowed, parts.clock.now())
    stores = request.expected if request.store is None else (request.store,)
    found: list[BulkRow] = []
    for name in stores:
        wanted, shown = replace(where, store=name), request.expected.get(name, 0)
        read = partial(_bulk_rows, rows, wanted, shown + 1)
        some = await parts.store.read(read)
        if len(some) > shown:
            raise BackhaulError(
                f"more rows of store {name} match now than the {shown:,} that were"
                " shown. No row of this store was changed. Check the rows, then try"
                " again"
            )
        found += some
    return found


def _bulk_rows(rows: str, wanted: Filter, limit: int, reader: Reader) -> list[BulkRow]:
    return reader.bulk_rows(rows, wanted, limit)


async def _decide_all(
    parts: BulkContext,
    request: BulkRequest,
    rows: str,
    allowed: Allowed,
    decide: Callable[[BulkRow], Awaitable[str]],
) -> Answer:
    """Decide about each row in a transaction of its own; count the new states."""
    found = await _rows_as_shown(parts, request, rows, allowed)
    states: Counter[str] = Counter()
    problems: list[dict[str, Any]] = []

    async def act(row: BulkRow) -> None:
        try:
            is_changed, why = result(request.verb, row.state, row.content)
            if not is_changed:
                raise BackhaulError(why.removeprefix("unchanged: "))
            states[str(await decide(row))] += 1
        except (Busy, Fatal):
            raise
        except BackhaulError as error:
            problems.append({"row": row.id, "problem": str(error)})

    for begin in range(0, len(found), ROWS_AT_ONCE):
        await asyncio.gather(*map(act, found[begin : begin + ROWS_AT_ONCE]))
        parts.signals.operator_decided.emit()
    return {
        "states": [{"state": state, "rows": rows} for state, rows in states.items()],
        "unchanged": len(problems),
        "problems": problems[:MOST_PROBLEMS],
    }
