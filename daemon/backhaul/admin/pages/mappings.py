"""The pages of mappings: the list, a preview of a new one, and their removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from backhaul.admin.auth import Route
from backhaul.admin.context import cursor_of, paginate
from backhaul.connect.new_mappings import waiting_for
from backhaul.connect.quarantine_retry import preview
from backhaul.errors import BackhaulError
from backhaul.store.mappings import MappingKind, NameMapping, require_valid
from backhaul.store.operators import Role
from backhaul.store.records import RowVerb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import NearMatch

PAGE_ROWS = 100
FIELDS = ("store", "kind", "alias", "name", "connection")


class Preview(Struct, frozen=True):
    """What a new mapping will do; `near` are near matches if its name is unknown.

    `rows` are the quarantined rows that it retries.
    """

    rows: int
    is_taken: bool
    is_known: bool
    near: list[NearMatch]


async def show_list(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the mappings, the newest first, with a form for a new one."""
    store, words = page_request.query("store"), page_request.query("words")
    since = cursor_of(page_request)
    found = await context.services.store.read(
        lambda reader: reader.mappings(store, words, PAGE_ROWS + 1, since)
    )
    rows, pager = paginate(page_request, found, PAGE_ROWS)
    return context.page(
        page_request,
        "mappings",
        rows=rows,
        pager=pager,
        store=store or "",
        words=words or "",
        given=dict.fromkeys(FIELDS, ""),
        **_choices(context),
    )


def _choices(context: PageContext) -> dict[str, Any]:
    settings = context.services.settings
    return {
        "stores": list(settings.stores),
        "connections": list(settings.connectors),
        "kinds": [kind.value for kind in MappingKind],
    }


async def show_new(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show what a new mapping will do, before it is added."""
    given = {name: page_request.query(name) or "" for name in FIELDS}
    mapping, store = _mapping_of(given), given["store"]
    found = None
    if given["name"]:
        require_valid(mapping)
        found = await context.services.store.read(
            lambda reader: _preview(reader, store, mapping)
        )
    near = await context.services.store.read(
        lambda reader: reader.near_matches(mapping.kind.value, store, given["alias"])
    )
    return context.page(
        page_request,
        "mapping_new",
        given=given,
        preview=found,
        near=found.near if found and found.near else near,
        word=mapping.kind.word,
        address=_address,
        **_choices(context),
    )


def _mapping_of(given: Mapping[str, str]) -> NameMapping:
    if not given.get("store"):
        raise BackhaulError("choose the store of the mapping")
    try:
        kind = MappingKind(given.get("kind", ""))
    except ValueError:
        raise BackhaulError("choose what the mapping names: sku or carrier") from None
    alias, name = given.get("alias", "").strip(), given.get("name", "").strip()
    return NameMapping(kind, alias, name, given.get("connection", ""))


def _preview(reader: Reader, store: str, mapping: NameMapping) -> Preview:
    if mapping.kind is not MappingKind.SKU:
        return Preview(0, is_taken=False, is_known=True, near=[])
    selected = reader.quarantine_selected(waiting_for(store, mapping))
    is_known = reader.sells(store, mapping.name)
    near = [] if is_known else reader.near_matches("sku", store, mapping.name)
    return Preview(
        preview(RowVerb.RETRY, selected).changed,
        reader.sells(store, mapping.alias),
        is_known,
        near,
    )


def _address(given: Mapping[str, str], name: str) -> str:
    """Return the address of the preview with another name."""
    return f"/mappings/new?{urlencode({**given, 'name': name})}"


async def add(context: PageContext, page_request: PageRequest) -> web.Response:
    """Add a mapping, and retry the rows that wait for it."""
    form = page_request.form
    mapping = _mapping_of(form)
    done = await context.change(
        page_request,
        "mappings/add",
        store=form["store"],
        mappings=[msgspec.to_builtins(mapping)],
        reason=form.get("reason", "").strip(),
    )
    rows = done["retried"]
    said = f"{mapping.in_words()}."
    if rows:
        said += f" {'1 row is' if rows == 1 else f'{rows:,} rows are'} retried."
    page_request.session.add_notice("good", said)
    return page_request.redirect("/mappings")


async def remove(context: PageContext, page_request: PageRequest) -> web.Response:
    """Remove a mapping; commands that exist already do not change."""
    id_, store = (
        int(page_request.request.match_info["id"]),
        page_request.form.get("store", ""),
    )
    values = {"id": id_, "store": store, "reason": ""}
    done = await context.change(page_request, "mappings/remove", **values)
    page_request.session.add_notice(
        "good", f"The mapping of {done['alias']} was removed."
    )
    return page_request.redirect("/mappings")


ROUTES = (
    Route("GET", "/mappings", Role.VIEWER, show_list),
    Route("GET", "/mappings/new", Role.OPERATOR, show_new),
    Route("POST", "/mappings/add", Role.OPERATOR, add),
    Route("POST", r"/mappings/{id:\d{1,18}}/remove", Role.OPERATOR, remove),
)
