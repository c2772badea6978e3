"""Decisions about many rows: the preview of what will happen, and the confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from backhaul.admin.filtering import WHERE, checked_rows
from backhaul.errors import BackhaulError
from backhaul.store.bulk import NEEDS_REASON, BulkVerb, preview
from backhaul.store.filters import Sort, parse_filter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.admin.filtering import Listing

PREVIEWED = 10
ROW, ALL = "row:", "all"
"""How the names of the checkboxes begin; the choice of all rows that match."""
TITLES = {
    BulkVerb.CHECK: "Check again",
    BulkVerb.RESEND: "Resend",
    BulkVerb.PARK: "Park",
    BulkVerb.DISCARD: "Discard",
}


async def show_preview(
    context: PageContext, page_request: PageRequest, listing: Listing
) -> web.Response:
    """Show what a decision about the selected rows, or all that match, will do.

    The form of this page repeats the filter, with fixed times, and the numbers shown.
    """
    verb = verb_of(page_request.query("verb"))
    text = selection_text(page_request)
    if text is None:
        return back_to_list(page_request, listing.name)
    wanted = parse_filter(text, listing.allowed, context.services.clock.now())
    selected, rows = await context.services.store.read(
        lambda reader: (
            reader.bulk_selected(listing.name, wanted),
            listing.find(
                reader, wanted, PREVIEWED, None, Sort.USUAL, (), whole=True
            ).rows,
        )
    )
    shown = preview(verb, selected)
    return context.page(
        page_request,
        "bulk_preview",
        listing=listing,
        verb=verb.value,
        title=TITLES[verb],
        needs_reason=verb in NEEDS_REASON,
        where=wanted.in_words(),
        shown=shown,
        expected=msgspec.json.encode(shown.stores).decode(),
        rows=rows,
    )


def selection_text(page_request: PageRequest) -> str | None:
    """Return the filter of the page, or one for the checked rows; None without both."""
    if ids := checked_rows(page_request, ROW):
        return f"id={','.join(ids)}"
    is_all = page_request.query("rows") == ALL
    return page_request.query(WHERE) or "" if is_all else None


def back_to_list(page_request: PageRequest, name: str) -> web.Response:
    """Show the list again, with its filter, because no row is selected."""
    text = "Nothing was done, because no row is selected. Select rows, or choose"
    page_request.session.add_notice("bad", f'{text} "all that match".')
    where = page_request.query(WHERE) or ""
    return page_request.redirect(f"/{name}?{urlencode({WHERE: where})}")


def verb_of(text: str | None) -> BulkVerb:
    """Return the verb that a form names. Raises BackhaulError."""
    try:
        return BulkVerb(text or "")
    except ValueError:
        raise BackhaulError("choose what to do with the rows") from None


async def change_rows(
    context: PageContext, page_request: PageRequest, listing: Listing
) -> web.Response:
    """Carry out what the preview showed; show it again if more rows match now."""
    form = page_request.form
    verb, where = verb_of(form.get("verb")), form.get(WHERE, "")
    wanted = parse_filter(where, listing.allowed, context.services.clock.now())
    expected = expected_of(form.get("expected", ""))
    selected = await context.services.store.read(
        lambda reader: reader.bulk_selected(listing.name, wanted)
    )
    found = preview(verb, selected)
    if found.rows > sum(expected.values()):
        text = f"{found.rows:,} rows match now. Check them, then confirm again."
        page_request.session.add_notice("bad", f"Nothing was changed: {text}")
        again = {WHERE: where, "verb": verb.value, "rows": ALL}
        return page_request.redirect(f"/{listing.name}/preview?{urlencode(again)}")
    done = await context.change(
        page_request,
        f"{listing.name}/change",
        where=where,
        expected=expected,
        verb=verb.value,
        reason=form.get("reason", "").strip(),
    )
    page_request.session.add_notice(*notice_of(done, listing.name))
    return page_request.redirect(f"/{listing.name}")


def expected_of(text: str) -> dict[str, int]:
    """Return the numbers of rows that a preview showed. Raises BackhaulError."""
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except (msgspec.MsgspecError, ValueError):
        raise BackhaulError("this page is out of date; load it again") from None


def notice_of(done: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return the kind and the text of the notice about changed rows."""
    parts = [f"{each['rows']:,} {each['state']}" for each in done["states"]]
    if done["unchanged"]:
        first = done["problems"][0]
        parts.append(
            f"{done['unchanged']:,} unchanged, such as {str(first['row'])[:8]}:"
            f" {first['problem']}"
        )
    kind = "bad" if done["unchanged"] else "good"
    return kind, f"{name.capitalize()}: {'; '.join(parts) or 'nothing was changed'}."
