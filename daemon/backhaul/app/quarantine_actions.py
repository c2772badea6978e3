"""Operator actions on rows of the quarantine, one by one or many at once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from backhaul.connect.quarantine_edit import edited_record, require_known_names
from backhaul.errors import BackhaulError
from backhaul.store.commands import LONGEST_REASON
from backhaul.store.filters import QUARANTINE, parse_filter
from backhaul.store.inbox import Selection
from backhaul.store.records import ROW_STATES, RowChange, RowVerb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.ingest.fold_worker import Reprocessor
    from backhaul.runtime.signals import SharedSignals
    from backhaul.store import Store
    from backhaul.store.filters import Filter
    from backhaul.store.read_models import Reader
    from backhaul.store.records import ChangedRow, QuarantinedRow

Answer: TypeAlias = dict[str, Any]


class QuarantineContext(Protocol):
    """What the actions work on."""

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def reprocessor(self) -> Reprocessor: ...
    @property
    def signals(self) -> SharedSignals: ...


async def edit_row(parts: QuarantineContext, asked: Mapping[str, Any]) -> Answer:
    """Replace the `fields` of a quarantined `row`, and match it again as `kind`."""
    found = await parts.store.quarantine.find(asked["row"])
    payload = edited_record(found, asked["kind"], asked["fields"])
    known = partial(require_known_names, found.store, asked["fields"])
    await parts.store.read(known)
    return await _try_again(parts, asked, payload)


async def retry_row(parts: QuarantineContext, asked: Mapping[str, Any]) -> Answer:
    return await _try_again(parts, asked, None)


async def _try_again(
    parts: QuarantineContext, asked: Mapping[str, Any], payload: bytes | None
) -> Answer:
    row, who, reason = asked["row"], asked["who"], asked["reason"]
    state = await parts.store.quarantine.retry(row, payload, who, reason)
    parts.signals.operator_decided.emit()
    applied = "is applied by its connector in its next round"
    return {
        "row": row,
        "state": applied if state == "approved" else "waits to be matched",
    }


async def correct_row(parts: QuarantineContext, asked: Mapping[str, Any]) -> Answer:
    """Send the tracking number of a quarantined `row` as a correction."""
    row = asked["row"]
    quarantine = parts.store.quarantine
    command = await quarantine.correct(row, asked["who"], asked["reason"])
    parts.signals.operator_decided.emit()
    state = f"is sent as command {command[:8]}"
    return {"row": row, "state": state, "command": command}


async def discard_row(parts: QuarantineContext, asked: Mapping[str, Any]) -> Answer:
    row = asked["row"]
    await parts.store.quarantine.discard(row, asked["who"], asked["reason"])
    parts.signals.operator_decided.emit()
    return {"row": row, "state": "dropped"}


class RowsRequest(msgspec.Struct, frozen=True):
    """Which rows of the quarantine to change, and how.

    `expected` has, for each store, the number of rows that the preview showed. Only
    these stores are concerned, or only `store`. `fields` are those that `edit` sets.
    """

    where: str
    expected: dict[str, int]
    verb: RowVerb
    who: str
    reason: str
    fields: dict[str, str] = {}
    store: str | None = None


ROWS_AT_ONCE = 50
"""The rows of one transaction: other writes wait for it."""
MOST_PROBLEMS = 20
"""The rows that an answer names because they could not be changed."""


async def change_rows(parts: QuarantineContext, asked: Mapping[str, Any]) -> Answer:
    """Retry, edit or discard the rows of a RowsRequest; count what became of them."""
    request = msgspec.convert(asked, RowsRequest)
    _require_rows_request(request)
    change = RowChange(
        request.verb, request.who, request.reason.strip(), _edit(request.fields)
    )
    ids = await _ids_of(parts, request)
    done: list[ChangedRow] = []
    for begin in range(0, len(ids), ROWS_AT_ONCE):
        some = ids[begin : begin + ROWS_AT_ONCE]
        done += await parts.store.quarantine.change(some, change)
        parts.signals.operator_decided.emit()
    if events := tuple(each.event for each in done if each.event is not None):
        await parts.reprocessor.reprocess(Selection(events))
    states = Counter(each.state for each in done if each.state)
    problems = [{"row": e.id, "problem": e.problem} for e in done if e.problem]
    return {
        **{name: states[name] for name in ROW_STATES},
        "unchanged": len(problems),
        "problems": problems[:MOST_PROBLEMS],
    }


def _require_rows_request(request: RowsRequest) -> None:
    if request.verb is RowVerb.DISCARD and not request.reason.strip():
        raise BackhaulError("give a reason for discarding the rows")
    if len(request.reason) > LONGEST_REASON:
        raise BackhaulError(f"a reason has at most {LONGEST_REASON} characters")
    if (request.verb is RowVerb.EDIT) != bool(request.fields):
        raise BackhaulError("name the field to edit; other actions change no field")


def _edit(fields: Mapping[str, str]) -> Callable[[QuarantinedRow], bytes] | None:
    def edit(row: QuarantinedRow) -> bytes:
        try:
            return edited_record(row, None, fields)
        except (msgspec.MsgspecError, ValueError) as error:
            raise BackhaulError(f"the record cannot be read: {error}") from None

    return edit if fields else None


async def _ids_of(parts: QuarantineContext, request: RowsRequest) -> list[int]:
    """Return the rows to change. Raises BackhaulError if they are more than shown."""
    where = parse_filter(request.where, QUARANTINE, parts.clock.now())
    stores = request.expected if request.store is None else (request.store,)
    found: list[int] = []
    for name in stores:
        wanted = replace(where, store=name)
        await parts.store.read(partial(require_known_names, name, request.fields))
        ids = await parts.store.read(partial(_quarantine_ids, wanted))
        shown = request.expected.get(name, 0)
        if len(ids) > shown:
            raise BackhaulError(
                f"{len(ids):,} rows of store {name} match now, but {shown:,} were"
                " shown. No row of this store was changed. Check the rows, then try"
                " again"
            )
        found += ids
    return found


def _quarantine_ids(wanted: Filter, reader: Reader) -> list[int]:
    return reader.quarantine_ids(wanted)
