"""What programs read and change in the quarantine."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from backhaul.admin.api.endpoint import (
    Api,
    Call,
    Cursor,
    Limit,
    Reason,
    number_of,
    operates,
    page,
    reads,
)
from backhaul.admin.api.lists import DEFAULT_LIMIT, OneRow, Where, page_of
from backhaul.admin.auth import NotFound
from backhaul.connect.quarantine_retry import preview
from backhaul.errors import BackhaulError
from backhaul.store.bulk import Preview
from backhaul.store.filters import (
    QUARANTINE,
    Filter,
    QuarantineCounts,
    parse_filter,
)
from backhaul.store.read_records import ListedQuarantine, QuarantineDetail
from backhaul.store.records import RowVerb
from backhaul.store.shown_fields import plain, shape

Fields = Annotated[
    dict[str, str], Meta(description="The fields to set, each with its new value.")
]
REASONS = {
    RowVerb.RETRY: "tried again",
    RowVerb.EDIT: "edited",
    RowVerb.DISCARD: "",
}
"""What the audit log says if the program gives no reason."""


class SelectedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows; without `state=` only open ones."""

    where: Where = ""
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


class CountsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows, and how many groups at most."""

    where: Where = ""
    limit: Limit = DEFAULT_LIMIT


def _filter(api: Api, text: str) -> Filter:
    return parse_filter(text, QUARANTINE, api.services.clock.now())


async def list_quarantine(api: Api, call: Call) -> object:
    """List rows of the quarantine, the newest first."""
    asked: SelectedQuery = call.asked
    before, wanted = number_of(asked.cursor), _filter(api, asked.where)
    rows = await api.read(
        lambda reader: reader.quarantine(asked.limit + 1, before, wanted)
    )
    return page([plain(each) for each in rows], asked.limit, lambda row: row["id"])


async def count_quarantine(api: Api, call: Call) -> object:
    """Count rows of the quarantine by state, reason, and reason with its subject."""
    asked: CountsQuery = call.asked
    wanted = _filter(api, asked.where)
    return await api.read(lambda reader: reader.quarantine_counts(wanted, asked.limit))


async def show_quarantined(api: Api, call: Call) -> object:
    """Show one row as it arrived, with the record that it became."""
    return plain(await _row_of(api, call.asked.id))


async def _row_of(api: Api, id_: int) -> QuarantineDetail:
    found = await api.read(lambda reader: reader.quarantined(id_))
    if found is None:
        raise NotFound(f"the quarantine has no row {id_}; see /backhaul/v1/quarantine")
    return found


class OptionalReason(Struct, frozen=True, forbid_unknown_fields=True):
    """A reason for the audit log."""

    reason: Reason = "tried again"


class RequiredReason(Struct, frozen=True, forbid_unknown_fields=True):
    """A reason for the audit log."""

    reason: Reason


class RowEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields to set. A row that never became a record also needs a `kind`."""

    fields: Fields
    kind: Annotated[str, Meta(max_length=20)] | None = None
    reason: Reason = "edited"


class ChangedRow(Struct, frozen=True):
    """The row, and what becomes of it; `command` is that of a correction."""

    row: int
    state: str
    command: str | None = None


async def retry_row(api: Api, call: Call) -> object:
    """Match a row again, unchanged; process an event again."""
    row = await _row_of(api, call.asked.id)
    if row.source == "event":
        ids = [int(row.key)]
        done = await api.change(call, "events/reprocess", ids=ids)
        states = ", ".join(f"{number} {state}" for state, number in done.items())
        return ChangedRow(row.id, f"processed again: {states or 'nothing'}")
    return await _change_row(api, call, "retry", reason=call.body.reason)


async def edit_row(api: Api, call: Call) -> object:
    """Set fields of a row's record, and match it again."""
    if not call.body.fields:
        raise BackhaulError("fields: name the fields to set, such as sku")
    asked = {"kind": call.body.kind, "fields": call.body.fields}
    return await _change_row(api, call, "edit", reason=call.body.reason, **asked)


async def correct_row(api: Api, call: Call) -> object:
    """Send only the tracking number of a shipment whose order is fulfilled."""
    return await _change_row(api, call, "correct", reason=call.body.reason)


async def discard_row(api: Api, call: Call) -> object:
    """Discard a row: it stays readable, and is not tried again."""
    return await _change_row(api, call, "discard", reason=call.body.reason)


async def _change_row(api: Api, call: Call, verb: str, **values: Any) -> object:
    row = await _row_of(api, call.asked.id)
    return await api.change(call, f"quarantine/{verb}", row=row.id, **values)


class Selected(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows to change, and how."""

    where: Where
    verb: RowVerb


async def preview_rows(api: Api, call: Call) -> object:
    """Show what a change of many rows would do; `stores` becomes its `expected`."""
    wanted = _filter(api, call.body.where)
    found = await api.read(lambda reader: reader.quarantine_selected(wanted))
    return preview(call.body.verb, found)


class RowsChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of many rows. `expected` is the `stores` of its preview.

    If more rows of a store match now, no row of that store is changed.
    """

    where: Where
    verb: RowVerb
    expected: dict[str, int]
    reason: Reason | None = None
    fields: Fields = {}


class RowProblem(Struct, frozen=True):
    """A row that was not changed, and why."""

    row: int
    problem: str


class ChangedRows(Struct, frozen=True):
    """How many rows became what; `problems` has some of the `unchanged` ones."""

    waiting: int
    approved: int
    reprocess: int
    dropped: int
    unchanged: int
    problems: list[RowProblem]


async def change_rows(api: Api, call: Call) -> object:
    """Retry, edit or discard all rows that match a filter."""
    asked: RowsChange = call.body
    if not asked.expected:
        raise BackhaulError(
            "expected: name the stores and numbers of rows that the preview showed;"
            " without a row there is nothing to change"
        )
    return await api.change(
        call,
        "quarantine/change",
        where=_filter(api, asked.where).in_words(),
        expected=asked.expected,
        verb=asked.verb.value,
        reason=asked.reason or REASONS[asked.verb],
        fields=asked.fields,
    )


Row = shape("QuarantinedRow", ListedQuarantine)
WholeRow = shape("QuarantineDetail", QuarantineDetail)
_ROW = "/quarantine/{id}"
ENDPOINTS = (
    reads("/quarantine", list_quarantine, page_of(Row), SelectedQuery),
    reads("/quarantine/counts", count_quarantine, QuarantineCounts, CountsQuery),
    operates("/quarantine/preview", preview_rows, Preview, body=Selected),
    operates("/quarantine/change", change_rows, ChangedRows, body=RowsChange),
    reads(_ROW, show_quarantined, WholeRow, OneRow),
    *(
        operates(f"{_ROW}/{verb}", handler, ChangedRow, asked=OneRow, body=body)
        for verb, handler, body in (
            ("retry", retry_row, OptionalReason),
            ("edit", edit_row, RowEdit),
            ("correct", correct_row, OptionalReason),
            ("discard", discard_row, RequiredReason),
        )
    ),
)
