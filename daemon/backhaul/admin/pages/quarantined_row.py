"""The page of one quarantined row: its fields to edit, near matches, and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from backhaul.admin.auth import NotFound, Route
from backhaul.connect.quarantine_fields import (
    LINE,
    NEW_KINDS,
    alike,
    fields_of,
    near_of,
    open_articles,
)
from backhaul.connect.quarantine_retry import preview
from backhaul.errors import BackhaulError
from backhaul.store.inbox import Selection
from backhaul.store.operators import Role
from backhaul.store.records import ReasonClass, RowVerb

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.connect.quarantine_fields import RowFields
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import NearMatch, QuarantineDetail

FIELD = "field:"
EVENT = "event"
DONE = {
    "edit": "was edited and is retried",
    "retry": "is retried",
    "correct": "is sent to the store as a further tracking number",
    "discard": "is discarded",
}


class Offers(Struct, frozen=True):
    """What the page offers for a row beside its fields.

    `near` are near matches of the invalid field, `open_articles` what the order has to
    ship, `carriers` the known carriers. `alike` is the number of rows, this one
    included, that have the same reason and subject.
    """

    near: list[NearMatch]
    open_articles: list[NearMatch]
    carriers: list[str]
    alike: int
    can_correct: bool


async def show_row(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show a row: its fields with the invalid one marked, or what to do with an event.

    The parameter `value` fills the invalid field, `kind` is that of an unread row.
    """
    row = await _row_of(context, page_request)
    kind = page_request.query("kind")
    form = fields_of(row, kind if kind in NEW_KINDS else None)
    offers = await context.services.store.read(
        lambda reader: _offers(reader, row, form)
    )
    return context.page(
        page_request,
        "quarantined",
        row=row,
        form=form,
        kinds=NEW_KINDS,
        offers=offers,
        offered=page_request.query("value"),
        alike=alike(row).in_words(),
        can_edit=_can_edit(page_request, row),
    )


def _can_edit(page_request: PageRequest, row: QuarantineDetail) -> bool:
    return page_request.user.role >= Role.OPERATOR and row.state == "open"


def _offers(reader: Reader, row: QuarantineDetail, form: RowFields) -> Offers:
    has_carrier = any(each.input.near == "carrier" for each in form.fields)
    carriers = (
        reader.near_matches("carrier", row.store or "", "", 30) if has_carrier else []
    )
    rows = preview(RowVerb.EDIT, reader.quarantine_selected(alike(row)))
    return Offers(
        near_of(reader, row, form),
        open_articles(reader, row, form),
        [each.name for each in carriers],
        rows.changed,
        reader.can_correct(row.id),
    )


async def change(context: PageContext, page_request: PageRequest) -> web.Response:
    """Edit, retry or discard a row, or send only its tracking number."""
    row = await _row_of(context, page_request)
    verb = page_request.request.match_info["verb"]
    reason = page_request.form.get("reason", "").strip()
    values: dict[str, Any] = {"row": row.id, "reason": reason or DONE[verb]}
    if verb == "discard" and not reason:
        raise BackhaulError("give a reason for discarding the row")
    if verb == "edit":
        changed = _changed_fields(row, page_request)
        if fields_of(row).is_record and not changed:
            raise BackhaulError(
                "no field was changed; use Retry to retry the row unchanged"
            )
        values |= {"kind": page_request.form.get("kind") or None, "fields": changed}
    await context.change(page_request, f"quarantine/{verb}", **values)
    page_request.session.add_notice("good", f"Quarantined row {row.id} {DONE[verb]}.")
    return page_request.redirect("/quarantine")


async def reprocess(context: PageContext, page_request: PageRequest) -> web.Response:
    """Process the event of a row again."""
    row = await _row_of(context, page_request)
    if row.source != EVENT:
        raise BackhaulError(f"row {row.id} is not an event; use Retry")
    values = msgspec.to_builtins(Selection((int(row.key),)))
    states = await context.change(page_request, "events/reprocess", **values)
    result = ", ".join(states) or "nothing, because its body has been deleted"
    kind = "bad" if "quarantined" in states else "good"
    page_request.session.add_notice(kind, f"Event {row.key}: {result}.")
    return page_request.redirect(f"/quarantine/{row.id}")


async def edit_alike(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what the edit of one field does in all rows with the same reason."""
    row = await _row_of(context, page_request)
    name, value = _one_change(row, page_request)
    query = {
        "verb": RowVerb.EDIT.value,
        "rows": "all",
        "where": alike(row).in_words(),
        "field": name,
        "value": value,
    }
    return page_request.redirect(f"/quarantine/preview?{urlencode(query)}")


async def remember(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what a mapping does that the edit of the SKU or the carrier would be."""
    row = await _row_of(context, page_request)
    form = fields_of(row)
    if _changed_fields(row, page_request) or form.invalid is None:
        name, value = _one_change(row, page_request)
    else:
        # The page of the mapping asks for its meaning, and has near matches.
        name, value = form.invalid.name, ""
    known = {each.name: each.value for each in form.fields}
    is_carrier = name == "tracking_company"
    if row.reason_class == ReasonClass.UNKNOWN_SKU and row.subject and not is_carrier:
        known[name] = row.subject
    if not is_carrier and name.rpartition(".")[2] != "sku":
        raise BackhaulError("only a SKU or a carrier can be remembered as a mapping")
    query = {
        "store": row.store,
        "kind": "carrier" if is_carrier else "sku",
        "alias": known.get(name, row.subject),
        "name": value,
        "connection": "",
    }
    return page_request.redirect(f"/mappings/new?{urlencode(query)}")


def _one_change(row: QuarantineDetail, page_request: PageRequest) -> tuple[str, str]:
    """Return the name and value of the only field that the form changed."""
    changed = _changed_fields(row, page_request)
    if not changed:
        raise BackhaulError("no field was changed: change the one to apply to all rows")
    if len(changed) != 1:
        raise BackhaulError(
            f"you changed {len(changed)} fields; to change all rows with this reason or"
            " to add a mapping, change only one field"
        )
    ((name, value),) = changed.items()
    is_sku = row.reason_class == ReasonClass.UNKNOWN_SKU and LINE.fullmatch(name)
    return ("sku" if is_sku else name), value


async def _row_of(context: PageContext, page_request: PageRequest) -> QuarantineDetail:
    id_ = int(page_request.request.match_info["id"])
    row = await context.services.store.read(lambda reader: reader.quarantined(id_))
    if row is None:
        raise NotFound(f"No row in the quarantine has the number {id_}.")
    return row


def _changed_fields(row: QuarantineDetail, page_request: PageRequest) -> dict[str, str]:
    """Return the fields that differ from the record, or from what was read."""
    form = fields_of(row, page_request.form.get("kind"))
    known = {each.name: each.value for each in form.fields}
    given = {
        name.removeprefix(FIELD): value.strip()
        for name, value in page_request.form.items()
        if name.startswith(FIELD)
    }
    return {n: value for n, value in given.items() if value != known.get(n, "")}


_ROW = r"/quarantine/{id:\d{1,18}}"
ROUTES = (
    Route("GET", _ROW, Role.VIEWER, show_row),
    Route("POST", f"{_ROW}/alike", Role.OPERATOR, edit_alike),
    Route("POST", f"{_ROW}/remember", Role.OPERATOR, remember),
    Route("POST", f"{_ROW}/reprocess", Role.OPERATOR, reprocess),
    Route("POST", f"{_ROW}/{{verb:{'|'.join(DONE)}}}", Role.OPERATOR, change),
)
