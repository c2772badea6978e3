"""Search: objects of the mirror by words, and one command or event by its id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.admin.auth import Route
from backhaul.admin.context import cursor_of, pager
from backhaul.admin.formatting import object_path
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import ChangedObject, SearchHit

PAGE_ROWS = 40
SEARCHED = ("order", "product", "customer")
COMMAND_ID = re.compile(r"[0-9a-f][0-9a-f-]{5,63}")
"""At least six characters of a command's id, or it would be any number."""
EVENT_ID = re.compile(r"[0-9]{1,18}")


class DirectHit(Struct, frozen=True):
    """A command or an event whose id was searched."""

    path: str
    title: str
    kind: str
    store: str


async def search(context: PageContext, page_request: PageRequest) -> web.Response:
    """Find objects by words; without words show the latest changes.

    With the parameter `jump`, as from the field of the header, the only result is shown
    itself, and so is the only order of that number.
    """
    text, kind = page_request.query("q"), page_request.query("kind")
    kind = kind if kind in SEARCHED else None
    since = cursor_of(page_request)
    direct, rows, older = await context.services.store.read(
        lambda reader: (
            _direct(reader, text) if text and not since and kind is None else [],
            *_find(reader, text, kind, since),
        )
    )
    named = _orders_named(rows, text) if text else []
    if text and page_request.query("jump"):
        path = named[0] if len(named) == 1 else _only_path(direct, rows)
        if path is not None:
            return page_request.redirect(path)
    return context.page(
        page_request,
        "mirror",
        direct=direct,
        orders_first=bool(named),
        rows=rows,
        pager=pager(page_request, older),
        skipped=(since or 0) if text else 0,
        text=text or "",
        kind=kind,
        kinds=SEARCHED,
    )


def _direct(reader: Reader, text: str) -> list[DirectHit]:
    """Return the command and the event that the text is the id of."""
    found = []
    if COMMAND_ID.fullmatch(text.lower()):
        command = reader.command(text.lower())
        if command is not None:
            title = f"{command.kind} {command.about or command.target}"
            path = f"/commands/{command.id}"
            found.append(DirectHit(path, title, "command", command.store))
    bare = text.removeprefix("#")
    if EVENT_ID.fullmatch(bare):
        event = reader.event(int(bare))
        if event is not None:
            title = f"Event {event.id} {event.topic}"
            found.append(DirectHit(f"/events/{event.id}", title, "event", event.store))
    return found


def _find(
    reader: Reader, text: str | None, kind: str | None, since: int | None
) -> tuple[Sequence[SearchHit | ChangedObject], int | None]:
    """Return a page of objects, and the cursor of the next page or None.

    The cursor is a change number, or for a search the count of results skipped.
    """
    if text is not None:
        hits = reader.search(text, kind, PAGE_ROWS + 1, since or 0)
        more = (since or 0) + PAGE_ROWS if len(hits) > PAGE_ROWS else None
        return hits[:PAGE_ROWS], more
    found = reader.latest_changes(kind, PAGE_ROWS + 1, since)
    if len(found) > PAGE_ROWS:
        return found[:PAGE_ROWS], found[PAGE_ROWS - 1].change
    return found, reader.not_searched(since)


def _orders_named(rows: Sequence[SearchHit | ChangedObject], text: str) -> list[str]:
    """Return the pages of the orders whose whole number or name is the text."""
    bare = text.removeprefix("#").casefold()
    return [
        object_path("order", row.store, row.id)
        for row in rows
        if row.kind == "order" and row.title.removeprefix("#").casefold() == bare
    ]


def _only_path(
    direct: Sequence[DirectHit], rows: Sequence[SearchHit | ChangedObject]
) -> str | None:
    """Return the page of the only result, or None."""
    paths = [each.path for each in direct]
    paths += [
        object_path(row.kind, row.store, row.id) for row in rows if row.kind in SEARCHED
    ]
    return paths[0] if len(paths) == 1 == len(direct) + len(rows) else None


ROUTES = (Route("GET", "/mirror", Role.VIEWER, search),)
