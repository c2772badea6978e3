"""Pages of events and quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from backhaul.admin.auth import NotFound, Route
from backhaul.admin.bulk import back_to_list, selection_text
from backhaul.admin.context import cursor_of, paginate
from backhaul.admin.filtering import (
    PAGE_ROWS,
    SHOWN,
    Listing,
    by_number,
    download,
    number_of,
    open_box,
    show_rows,
)
from backhaul.connect.quarantine_edit import preview_edit
from backhaul.connect.quarantine_fields import fields_of_many
from backhaul.connect.quarantine_retry import CHANGEABLE, preview
from backhaul.errors import BackhaulError
from backhaul.store.filters import EVENTS, QUARANTINE, Sort, parse_filter
from backhaul.store.inbox import Selection
from backhaul.store.operators import Role
from backhaul.store.read_records import ListedEvent, ListedQuarantine
from backhaul.store.records import ROW_STATES, RowVerb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.connect.quarantine_edit import PreviewedEdit
    from backhaul.store.filters import QuarantineCounts, QuarantineGroup
    from backhaul.store.read_models import Reader


LISTING = Listing(
    "events",
    "Events",
    EVENTS,
    ListedEvent,
    by_number(
        "events",
        lambda reader, wanted, limit, after=None, sort=Sort.USUAL, within=None: (
            reader.events(wanted, limit, number_of(after), sort, within)
        ),
    ),
    selects=("state", "kind", "store"),
    views=(("unhandled, last day", "state=unhandled since=1d"),),
)


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the events that match a filter, the newest first."""
    known = {"store": list(context.services.settings.stores)}
    return await show_rows(context, page_request, LISTING, known)


async def show_download(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Return the events that match the filter of the page as a file."""
    return await download(context, page_request, LISTING)


async def show_event(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show an event with its headers and body."""
    id_ = int(page_request.request.match_info["id"])
    event = await context.services.store.read(lambda reader: reader.event(id_))
    if event is None:
        raise NotFound(f"No event has the number {id_}.")
    return context.page(page_request, "event", event=event)


async def reprocess(context: PageContext, page_request: PageRequest) -> web.Response:
    """Reprocess an event; one that the mirror already contains changes nothing."""
    id_ = int(page_request.request.match_info["id"])
    if await context.services.store.read(lambda reader: reader.event(id_)) is None:
        raise NotFound(f"No event has the number {id_}.")
    values = msgspec.to_builtins(Selection((id_,)))
    states = await context.change(page_request, "events/reprocess", **values)
    result = ", ".join(states) or "nothing, because its body has been deleted"
    page_request.session.add_notice("good", f"Reprocessed: {result}.")
    return page_request.redirect(f"/events/{id_}")


_ONE = r"/events/{id:\d{1,18}}"
ROUTES = (
    Route("GET", "/events", Role.VIEWER, show_list),
    Route("GET", "/events.{form:csv|json}", Role.VIEWER, show_download),
    Route("GET", _ONE, Role.VIEWER, show_event),
    Route("POST", f"{_ONE}/reprocess", Role.OPERATOR, reprocess),
)


QUARANTINED = Listing(
    "quarantine",
    "Quarantine",
    QUARANTINE,
    ListedQuarantine,
    by_number(
        "quarantine",
        lambda reader, wanted, limit, *_: reader.quarantine(limit, None, wanted),
    ),
    selects=("kind", "connector", "store"),
    views=(
        ("last hour", "since=1h"),
        ("needs a decision", "reason=needs_decision"),
        ("unknown SKU", "reason=unknown_sku"),
    ),
    sorts=(Sort.USUAL,),
)
MOST_GROUPS, EVERY_GROUP = 8, 1_000_000
PREVIEWED = 10
ROW, ALL = "row:", "all"
"""How the names of the checkboxes begin; the choice of all rows that match."""
DONE_ROWS = {RowVerb.RETRY: "tried again", RowVerb.EDIT: "edited", RowVerb.DISCARD: ""}
"""The reason in the audit log if the operator gives none."""
MOST_EXPORTED = 50_000


async def show_quarantine(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """List the rows of the quarantine that match a filter, with counts and groups."""
    settings = context.services.settings
    known = {"store": list(settings.stores), "connector": list(settings.connectors)}
    box, wanted = await open_box(context, page_request, QUARANTINED, known)
    if SHOWN in page_request.request.query:
        return page_request.redirect(box.address())
    if wanted is None:
        return context.page(page_request, "quarantine", 422, box=box)
    since = cursor_of(page_request)

    def read(
        reader: Reader,
    ) -> tuple[list[ListedQuarantine], QuarantineCounts, _Groups]:
        found = reader.quarantine(PAGE_ROWS + 1, since, wanted)
        counts = reader.quarantine_counts(wanted, EVERY_GROUP)
        return found, counts, _merged(counts.groups)

    found, counts, groups = await context.services.store.read(read)
    rows, pager = paginate(page_request, found, PAGE_ROWS)
    fields = await context.services.store.read(lambda reader: _fields(reader, rows))
    return context.page(
        page_request,
        "quarantine",
        box=box,
        rows=rows,
        pager=pager,
        state=wanted.state or ("any" if wanted.ids else "open"),
        reason=wanted.reason,
        counts=counts,
        groups=groups,
        only_store=known["store"][0] if len(known["store"]) == 1 else None,
        causes=_causes(groups.shown),
        fields=fields,
        total=sum(counts.reasons.values()),
    )


class _Groups(NamedTuple):
    """The largest groups; those of a class in `merged` stand for all its rows."""

    shown: list[QuarantineGroup]
    merged: set[str]
    are_all: bool


def _merged(groups: list[QuarantineGroup]) -> _Groups:
    """Merge the groups of a class if they are too many, and each is a single row.

    So are rows about the orders of another shop.
    """
    if len(groups) <= MOST_GROUPS:
        return _Groups(groups, set(), are_all=True)
    of_class: dict[str, list[QuarantineGroup]] = {}
    for each in groups:
        of_class.setdefault(each.reason_class, []).append(each)
    kept, merged = [], set()
    for name, found in of_class.items():
        if len(found) > 1 and all(g.rows == 1 and not g.reason for g in found):
            merged.add(name)
            newest = max(found, key=lambda each: each.last_at)
            kept.append(replace(newest, subject="", rows=len(found)))
        else:
            kept += found
    kept.sort(key=lambda each: -each.rows)
    return _Groups(kept[:MOST_GROUPS], merged, are_all=len(kept) <= MOST_GROUPS)


def _causes(groups: Sequence[QuarantineGroup]) -> list[str]:
    """Return the cause of each group: its reason, without the advice if that is enough.

    It is empty for a group that has no reason of its own.
    """
    begins = [each.reason.partition("; ")[0] for each in groups]
    return [
        begin if begins.count(begin) == 1 else each.reason
        for begin, each in zip(begins, groups, strict=True)
    ]


def _fields(reader: Reader, rows: Sequence[ListedQuarantine]) -> dict[str, str]:
    """Return the fields to edit in all rows: those of the first record, with labels."""
    first = next((row.id for row in rows if row.source == "record"), None)
    detail = None if first is None else reader.quarantined(first)
    return {} if detail is None else fields_of_many(detail)


def _edits(
    reader: Reader, rows: Sequence[ListedQuarantine], field: str, value: str
) -> dict[int, PreviewedEdit]:
    """Return what an edit of one field does in the rows that are shown, by row."""
    details = [
        reader.quarantined(row.id)
        for row in rows
        if row.source == "record" and row.state in CHANGEABLE
    ]
    return {each.id: preview_edit(each, field, value) for each in details if each}


async def show_export(context: PageContext, page_request: PageRequest) -> web.Response:
    """Return the rows that match the filter of the page as a CSV or JSON file."""
    return await download(context, page_request, QUARANTINED)


async def show_preview(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what an action on the selected rows, or on all that match, will do.

    The form of this page repeats the filter, with fixed times, and the numbers shown.
    """
    verb = _verb_of(page_request.query("verb"))
    text = selection_text(page_request)
    if text is None:
        return back_to_list(page_request, "quarantine")
    wanted = parse_filter(text, QUARANTINE, context.services.clock.now())
    selected, rows = await context.services.store.read(
        lambda reader: (
            reader.quarantine_selected(wanted),
            reader.quarantine(PREVIEWED, None, wanted),
        )
    )
    field, value = page_request.query("field"), page_request.query("value") or ""
    edits: dict[int, PreviewedEdit] = {}
    if verb is RowVerb.EDIT and field:
        edits = await context.services.store.read(
            lambda reader: _edits(reader, rows, field, value)
        )
    fields = await context.services.store.read(lambda reader: _fields(reader, rows))
    return context.page(
        page_request,
        "quarantine_preview",
        verb=verb.value,
        where=wanted.in_words(),
        shown=(shown := preview(verb, selected)),
        expected=msgspec.json.encode(shown.stores).decode(),
        rows=rows,
        field=field or "",
        value=value,
        fields=fields,
        edits=edits,
        refused=next((id_ for id_, each in edits.items() if each.problem), None),
    )


def _verb_of(text: str | None) -> RowVerb:
    try:
        return RowVerb(text or "")
    except ValueError:
        raise BackhaulError("choose what to do with the rows") from None


async def change_rows(context: PageContext, page_request: PageRequest) -> web.Response:
    """Carry out what the preview showed; show it again if more rows match now."""
    form = page_request.form
    verb, where = _verb_of(form.get("verb")), form.get("where", "")
    wanted = parse_filter(where, QUARANTINE, context.services.clock.now())
    expected = _expected(form.get("expected", ""))
    selected = await context.services.store.read(
        lambda reader: reader.quarantine_selected(wanted)
    )
    found = preview(verb, selected)
    if found.rows > sum(expected.values()):
        text = f"{found.rows:,} rows match now. Check them, then confirm again."
        page_request.session.add_notice("bad", f"Nothing was changed: {text}")
        again = {name: form.get(name, "") for name in ("where", "field", "value")}
        again |= {"verb": verb.value, "rows": ALL}
        return page_request.redirect(f"/quarantine/preview?{urlencode(again)}")
    field = form.get("field", "").strip()
    done = await context.change(
        page_request,
        "quarantine/change",
        where=where,
        expected=expected,
        verb=verb.value,
        reason=form.get("reason", "").strip() or DONE_ROWS[verb],
        fields={field: form.get("value", "")} if verb is RowVerb.EDIT else {},
    )
    page_request.session.add_notice(*_notice(done))
    if not done["unchanged"]:
        return page_request.redirect("/quarantine")
    # What was not changed is still there to be tried in another way.
    return page_request.redirect(f"/quarantine?{urlencode({'where': where})}")


def _expected(text: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except (msgspec.MsgspecError, ValueError):
        raise BackhaulError("this page is out of date; load it again") from None


def _notice(done: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind and the text of the notice about changed rows."""
    parts = [
        f"{done[name]:,} {text}" for name, text in ROW_STATES.items() if done[name]
    ]
    if done["unchanged"]:
        first = done["problems"][0]
        parts.append(
            f"{done['unchanged']:,} could not be changed, such as row {first['row']}:"
            f" {first['problem']}"
        )
    kind = "bad" if done["unchanged"] else "good"
    return kind, f"Rows: {'; '.join(parts) or 'nothing was changed'}."


QUARANTINE_ROUTES = (
    Route("GET", "/quarantine", Role.VIEWER, show_quarantine),
    Route("GET", "/quarantine/preview", Role.OPERATOR, show_preview),
    Route("POST", "/quarantine/change", Role.OPERATOR, change_rows),
    Route("GET", "/quarantine.{form:csv|json}", Role.VIEWER, show_export),
)
